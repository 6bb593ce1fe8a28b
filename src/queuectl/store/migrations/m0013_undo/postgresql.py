"""Actions, and what jobs were before them, for PostgreSQL."""

STATEMENTS = (
    # What it was done with; and of what can be undone, the columns that the job had, as JSON.
    "ALTER TABLE @events ADD COLUMN action text COLLATION, ADD COLUMN was text COLLATION",
    "CREATE INDEX events_of_action ON @events (action, seq) WHERE action IS NOT NULL",
)
