"""The command line: one file a command; nothing here that a library user would need."""
