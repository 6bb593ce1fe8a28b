"""Hooks, for SQLite."""

STATEMENTS = (
    "ALTER TABLE jobs ADD COLUMN on_success TEXT",
    "ALTER TABLE jobs ADD COLUMN on_failure TEXT",
    "ALTER TABLE jobs ADD COLUMN on_dead TEXT",
    # What a job that is a hook tells of: the occasion, the attempt, its exit code, the job's id.
    "ALTER TABLE jobs ADD COLUMN hook TEXT",
)
AS_IF = {"jobs": "on_success on_failure on_dead hook"}
"""What is missing in a file that can't be upgraded, so that it can be read."""
