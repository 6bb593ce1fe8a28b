"""Hooks, for PostgreSQL."""

STATEMENTS = (
    # `hook` is what a job that is one tells of: the occasion, the attempt, its exit code, the id.
    "ALTER TABLE @jobs ADD COLUMN on_success text COLLATION, ADD COLUMN on_failure text COLLATION,"
    " ADD COLUMN on_dead text COLLATION, ADD COLUMN hook text COLLATION",
)
