"""The command line: one file per command group; commands parse, call `Queue` and render."""
