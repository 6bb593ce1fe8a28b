"""What a job runs in, for SQLite."""

STATEMENTS = (
    # NULL is /bin/sh.
    "ALTER TABLE jobs ADD COLUMN shell TEXT",
    # 1: `env` is all there is; else it lies over the environment of the worker.
    "ALTER TABLE jobs ADD COLUMN env_all INTEGER",
    "ALTER TABLE jobs ADD COLUMN stdin_bytes INTEGER",
    """
    CREATE TABLE inputs (
        seq INTEGER NOT NULL,
        start INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (seq, start)
    ) STRICT
    """,
    """
    CREATE TRIGGER jobs_emptied AFTER DELETE ON jobs WHEN OLD.stdin_bytes IS NOT NULL BEGIN
        DELETE FROM inputs WHERE seq = OLD.seq;
    END
    """,
)

AS_IF = (
    "CREATE TEMP VIEW jobs AS"
    " SELECT *, NULL AS shell, NULL AS env_all, NULL AS stdin_bytes FROM main.jobs",
    "CREATE TEMP VIEW inputs AS SELECT 0 AS seq, 0 AS start, x'' AS data WHERE false",
)
"""Makes a file that may only be read look as if it had this schema."""
