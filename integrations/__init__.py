"""Inside other people's engines."""
