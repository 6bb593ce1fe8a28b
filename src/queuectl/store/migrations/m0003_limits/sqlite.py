"""Keys, limits and parked jobs, for SQLite."""

STATEMENTS = (
    "ALTER TABLE jobs ADD COLUMN keys TEXT CHECK (keys IS NULL OR json_type(keys) = 'array')",
    # Where it stands among those of its priority: a virtual time, if its queue has keys.
    "ALTER TABLE jobs ADD COLUMN vtime INTEGER NOT NULL DEFAULT 0",
    # The key whose limit it waits for; empty if it is held by hand.
    "ALTER TABLE jobs ADD COLUMN parked TEXT",
    # The claim: the first rows of this index, per queue. Every index ends with the place in the
    # line by itself: to name it would only store it twice.
    "DROP INDEX jobs_ready",
    "CREATE INDEX jobs_ready ON jobs (queue, priority DESC, vtime) WHERE ready = 1",
    "DROP INDEX jobs_listed",
    "CREATE INDEX jobs_listed ON jobs (queue, state)",
    # Promotion: what has become due, and isn't parked.
    "DROP INDEX jobs_due",
    "CREATE INDEX jobs_due ON jobs (run_at) WHERE ready = 0 AND parked IS NULL",
    # What comes back first when there is room for a key.
    "CREATE INDEX jobs_parked ON jobs (queue, parked, priority DESC, vtime)"
    " WHERE parked IS NOT NULL",
    "CREATE INDEX jobs_keyed ON jobs (queue, keys, state) WHERE keys IS NOT NULL",
    "ALTER TABLE queues ADD COLUMN limits TEXT",
    "ALTER TABLE queues ADD COLUMN vtime INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE queues ADD COLUMN closed_until INTEGER",
    # What a queue knows of a key; the empty one is the queue as a whole.
    """
    CREATE TABLE keys (
        queue TEXT NOT NULL,
        name TEXT NOT NULL,
        vtime INTEGER NOT NULL DEFAULT 0,
        meters TEXT,
        -- When all that was charged is over.
        used_until INTEGER NOT NULL DEFAULT 0,
        opens_at INTEGER,
        PRIMARY KEY (queue, name)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX keys_opening ON keys (opens_at) WHERE opens_at IS NOT NULL",
)
AS_IF = {
    "jobs": "keys vtime parked",
    "queues": "limits vtime closed_until",
    "keys": "queue name vtime meters used_until opens_at",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
