"""A table kept true while an engine runs; needs the core alone."""
