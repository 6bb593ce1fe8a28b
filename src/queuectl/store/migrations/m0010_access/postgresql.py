"""Grants, and digests of requests, for PostgreSQL."""

STATEMENTS = (
    # Of the HTTP request that made the job: whoever sends it again gets the same answer.
    "ALTER TABLE @jobs ADD COLUMN body_digest text COLLATION",
    # Tokens, sessions, and links to sign in with.
    """
    CREATE TABLE @grants (
        id text COLLATION PRIMARY KEY,
        kind text COLLATION NOT NULL,
        name text COLLATION NOT NULL,
        -- Of a token, its name once more: no two have the same.
        token text COLLATION UNIQUE,
        -- Of the secret, which is kept nowhere.
        digest text COLLATION NOT NULL UNIQUE,
        roles text COLLATION NOT NULL,
        -- A JSON array; NULL is all.
        queues text COLLATION,
        created_at bigint NOT NULL,
        created_by text COLLATION NOT NULL,
        expires_at bigint,
        used_at bigint,
        -- The grant that it was derived from, and goes with.
        parent text COLLATION
    )
    """,
    "CREATE INDEX grants_parent ON @grants (parent)",
    "CREATE INDEX grants_expire ON @grants (expires_at)",
)
