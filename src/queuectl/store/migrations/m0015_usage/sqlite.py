"""What runs may use, and what they have used, for SQLite."""

STATEMENTS = (
    # As JSON, by the names of the fields.
    "ALTER TABLE jobs ADD COLUMN bounds TEXT",
    # NULL is what nobody has counted. Then what the run wasn't kept to, as its host can't.
    "ALTER TABLE attempts ADD COLUMN peak_memory INTEGER",
    "ALTER TABLE attempts ADD COLUMN cpu_ms INTEGER",
    "ALTER TABLE attempts ADD COLUMN read_bytes INTEGER",
    "ALTER TABLE attempts ADD COLUMN written_bytes INTEGER",
    "ALTER TABLE attempts ADD COLUMN noted TEXT",
)
AS_IF = {
    "jobs": "bounds",
    "attempts": "peak_memory cpu_ms read_bytes written_bytes noted",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
