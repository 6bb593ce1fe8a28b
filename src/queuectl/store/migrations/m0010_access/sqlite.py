"""Grants, and digests of requests, for SQLite."""

STATEMENTS = (
    # Of the HTTP request that made the job: whoever sends it again gets the same answer.
    "ALTER TABLE jobs ADD COLUMN body_digest TEXT",
    # Tokens, sessions, and links to sign in with.
    """
    CREATE TABLE grants (
        id TEXT NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        -- Of a token, its name once more: no two have the same.
        token TEXT UNIQUE,
        -- Of the secret, which is kept nowhere.
        digest TEXT NOT NULL UNIQUE,
        roles TEXT NOT NULL,
        -- A JSON array; NULL is all.
        queues TEXT,
        created_at INTEGER NOT NULL,
        created_by TEXT NOT NULL,
        expires_at INTEGER,
        used_at INTEGER,
        -- The grant that it was derived from, and goes with.
        parent TEXT
    ) STRICT
    """,
    "CREATE INDEX grants_parent ON grants (parent)",
    "CREATE INDEX grants_expire ON grants (expires_at)",
)
AS_IF = {
    "jobs": "body_digest",
    "grants": (
        "id kind name token digest roles queues created_at created_by expires_at used_at parent"
    ),
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
