"""Jobs that are completed by hand, for PostgreSQL."""

STATEMENTS = (
    # What a running job is to come to by hand: its result as JSON, or nothing. It counts while
    # cancel_reason is set.
    "ALTER TABLE @jobs ADD COLUMN forced text COLLATION",
)
