"""Jobs that are completed by hand, for SQLite."""

STATEMENTS = (
    # What a running job is to come to by hand: its result as JSON, or nothing. It counts while
    # cancel_reason is set.
    "ALTER TABLE jobs ADD COLUMN forced TEXT",
)
AS_IF = {"jobs": "forced"}
"""What is missing in a file that can't be upgraded, so that it can be read."""
