"""Keys, limits and parked jobs, for PostgreSQL."""

STATEMENTS = (
    """
    ALTER TABLE @jobs ADD COLUMN keys @tag_list, ADD COLUMN vtime bigint NOT NULL DEFAULT 0,
        ADD COLUMN parked text COLLATION
    """,
    # The claim: the first rows of this index, per queue.
    "DROP INDEX @jobs_ready",
    "CREATE INDEX jobs_ready ON @jobs (queue, priority DESC, vtime, seq) WHERE ready = 1",
    # Promotion: what has become due, and isn't parked.
    "DROP INDEX @jobs_due",
    "CREATE INDEX jobs_due ON @jobs (run_at) WHERE ready = 0 AND parked IS NULL",
    # What comes back first when there is room for a key.
    "CREATE INDEX jobs_parked ON @jobs (queue, parked, priority DESC, vtime, seq)"
    " WHERE parked IS NOT NULL",
    "CREATE INDEX jobs_keyed ON @jobs (queue, keys, state, seq) WHERE keys IS NOT NULL",
    """
    ALTER TABLE @queues ADD COLUMN limits text COLLATION,
        ADD COLUMN vtime bigint NOT NULL DEFAULT 0, ADD COLUMN closed_until bigint
    """,
    # What a queue knows of a key; the empty one is the queue as a whole.
    """
    CREATE TABLE @keys (
        queue text COLLATION NOT NULL,
        name text COLLATION NOT NULL,
        vtime bigint NOT NULL DEFAULT 0,
        meters text COLLATION,
        -- When all that was charged is over.
        used_until bigint NOT NULL DEFAULT 0,
        opens_at bigint,
        PRIMARY KEY (queue, name)
    )
    """,
    "CREATE INDEX keys_opening ON @keys (opens_at) WHERE opens_at IS NOT NULL",
)
