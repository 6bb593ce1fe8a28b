"""Actions, and what jobs were before them, for SQLite."""

STATEMENTS = (
    # What it was done with; and of what can be undone, the columns that the job had, as JSON.
    "ALTER TABLE events ADD COLUMN action TEXT",
    "ALTER TABLE events ADD COLUMN was TEXT",
    "CREATE INDEX events_of_action ON events (action, seq) WHERE action IS NOT NULL",
)
AS_IF = {"events": "action was"}
"""What is missing in a file that can't be upgraded, so that it can be read."""
