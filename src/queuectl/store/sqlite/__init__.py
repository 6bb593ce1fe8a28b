"""The embedded store: a queue in an SQLite file."""
