"""Handlers of jobs, for PostgreSQL."""

STATEMENTS = (
    # What a node must have to run it: empty for commands, which each node can run.
    "ALTER TABLE @jobs ADD COLUMN handler text COLLATION NOT NULL DEFAULT ''",
    # The claim: the first rows of this index, per queue and handler.
    "DROP INDEX @jobs_ready",
    "CREATE INDEX jobs_ready ON @jobs (queue, handler, priority DESC, vtime, seq) WHERE ready = 1",
    # What comes back first when there is room for a key, per handler.
    "DROP INDEX @jobs_parked",
    "CREATE INDEX jobs_parked ON @jobs (queue, parked, handler, priority DESC, vtime, seq)"
    " WHERE parked IS NOT NULL",
)
