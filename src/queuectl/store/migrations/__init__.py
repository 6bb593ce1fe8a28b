"""Numbered schema changes. A migration is never edited once released; the next one amends it."""

MIGRATIONS = ("m0001_initial",)
"""Modules of this package, oldest first; the schema version is how many of them were applied."""
