"""Grants, and digests of requests, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- Of the HTTP request that made the job: whoever sends it again gets the same answer.
        ADD COLUMN body_digest VARCHAR(128)
    """,
    # Tokens, sessions, and links to sign in with.
    f"""
    CREATE TABLE IF NOT EXISTS @grants (
        id VARCHAR(64) NOT NULL PRIMARY KEY,
        kind VARCHAR(16) NOT NULL,
        name VARCHAR(256) NOT NULL,
        -- Of a token, its name once more: no two have the same.
        token VARCHAR(256),
        -- Of the secret, which is kept nowhere.
        digest VARCHAR(128) NOT NULL,
        roles VARCHAR(256) NOT NULL,
        -- A JSON array; NULL is all.
        queues MEDIUMTEXT,
        created_at BIGINT NOT NULL,
        created_by MEDIUMTEXT NOT NULL,
        expires_at BIGINT,
        used_at BIGINT,
        -- The grant that it was derived from, and goes with.
        parent VARCHAR(64),
        UNIQUE INDEX grants_token (token),
        UNIQUE INDEX grants_digest (digest),
        INDEX grants_parent (parent),
        INDEX grants_expire (expires_at)
    ) {_TABLE}
    """,
)
