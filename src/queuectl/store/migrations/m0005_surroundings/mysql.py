"""What a job runs in, for MariaDB and MySQL."""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    # One statement: there are all of them or none. Without checks, for which the whole table would
    # be written anew.
    """
    ALTER TABLE @jobs
        -- NULL is /bin/sh.
        ADD COLUMN shell MEDIUMTEXT CHARACTER SET utf8mb4 COLLATION,
        -- 1: `env` is all there is; else it lies over the environment of the worker.
        ADD COLUMN env_all TINYINT,
        ADD COLUMN stdin_bytes BIGINT
    """,
    f"""
    CREATE TABLE IF NOT EXISTS @inputs (
        seq BIGINT NOT NULL,
        start BIGINT NOT NULL,
        data LONGBLOB NOT NULL,
        PRIMARY KEY (seq, start)
    ) {_TABLE}
    """,
    """
    CREATE TRIGGER IF NOT EXISTS @jobs_emptied AFTER DELETE ON @jobs FOR EACH ROW BEGIN
        IF OLD.stdin_bytes IS NOT NULL THEN DELETE FROM @inputs WHERE seq = OLD.seq; END IF;
    END
    """,
)
