"""Keys, limits and parked jobs, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    """
    ALTER TABLE @jobs
        ADD COLUMN "keys" VARCHAR(600) CHECK (JSON_TYPE("keys") = 'ARRAY'),
        -- Where it stands among those of its priority: a virtual time, if its queue has keys.
        ADD COLUMN vtime BIGINT NOT NULL DEFAULT 0,
        -- The key whose limit it waits for; empty if it is held by hand.
        ADD COLUMN parked VARCHAR(128),
        DROP COLUMN due,
        ADD COLUMN due BIGINT GENERATED ALWAYS AS
            (CASE WHEN ready = 0 AND parked IS NULL THEN run_at END) STORED,
        -- The claim: the first rows of this index, per queue.
        DROP INDEX jobs_ready,
        DROP INDEX jobs_due,
        ADD INDEX jobs_ready (ready, queue, urgency, vtime, seq),
        ADD INDEX jobs_due (due),
        -- What comes back first when there is room for a key.
        ADD INDEX jobs_parked (queue, parked, urgency, vtime, seq),
        -- The state of a job that has keys: that of others moves nothing in this index.
        ADD COLUMN keyed VARCHAR(16) GENERATED ALWAYS AS
            (CASE WHEN "keys" IS NOT NULL THEN state END) STORED,
        ADD INDEX jobs_keyed ("keys", queue, keyed)
    """,
    """
    ALTER TABLE @queues
        ADD COLUMN limits MEDIUMTEXT,
        ADD COLUMN vtime BIGINT NOT NULL DEFAULT 0,
        ADD COLUMN closed_until BIGINT
    """,
    # What a queue knows of a key; the empty one is the queue as a whole.
    f"""
    CREATE TABLE IF NOT EXISTS @keys (
        queue VARCHAR(128) NOT NULL,
        name VARCHAR(128) NOT NULL,
        vtime BIGINT NOT NULL DEFAULT 0,
        meters MEDIUMTEXT,
        -- When all that was charged is over.
        used_until BIGINT NOT NULL DEFAULT 0,
        opens_at BIGINT,
        PRIMARY KEY (queue, name),
        INDEX keys_opening (opens_at)
    ) {_TABLE}
    """,
)
