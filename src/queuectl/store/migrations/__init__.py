"""Numbered schema changes. A migration is never edited once released; the next one amends it."""

MIGRATIONS = (
    "m0001_initial",
    "m0002_many_hosts",
    "m0003_totals",
    "m0004_running",
    "m0005_surroundings",
)
"""Packages in this one, oldest first, with a module per dialect; the schema version is how many
of them were applied.
"""
