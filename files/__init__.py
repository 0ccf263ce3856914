"""Files and text: errors, strict reading, atomic writing, units. Knows nothing of tables, and needs no NumPy."""
