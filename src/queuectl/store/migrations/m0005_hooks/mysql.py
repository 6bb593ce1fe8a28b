"""Hooks, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

STATEMENTS = (
    # `hook` is what a job that is one tells of: the occasion, the attempt, its exit code, the id.
    "ALTER TABLE @jobs ADD COLUMN on_success MEDIUMTEXT, ADD COLUMN on_failure MEDIUMTEXT,"
    " ADD COLUMN on_dead MEDIUMTEXT, ADD COLUMN hook VARCHAR(320)",
)
