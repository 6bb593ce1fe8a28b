"""Handlers of jobs, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- What a node must have to run it: empty for commands, which each node can run.
        ADD COLUMN handler VARCHAR(160) NOT NULL DEFAULT '',
        -- The claim: the first rows of this index, per queue and handler.
        DROP INDEX jobs_ready,
        ADD INDEX jobs_ready (ready, queue, handler, urgency, vtime, seq),
        -- What comes back first when there is room for a key, per handler.
        DROP INDEX jobs_parked,
        ADD INDEX jobs_parked (queue, parked, handler, urgency, vtime, seq)
    """,
)
