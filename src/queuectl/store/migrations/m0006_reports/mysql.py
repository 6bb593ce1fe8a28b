"""Results, progress and steps, for MariaDB and MySQL. Every statement may run twice."""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    # What completed jobs came to, by the run that completed them.
    f"""
    CREATE TABLE IF NOT EXISTS @results (
        seq BIGINT NOT NULL PRIMARY KEY,
        number BIGINT NOT NULL,
        value LONGTEXT NOT NULL
    ) {_TABLE}
    """,
    # How far the newest run that said so has come.
    f"""
    CREATE TABLE IF NOT EXISTS @progress (
        seq BIGINT NOT NULL PRIMARY KEY,
        number BIGINT NOT NULL,
        percent DOUBLE,
        note MEDIUMTEXT NOT NULL,
        at BIGINT NOT NULL
    ) {_TABLE}
    """,
    # The parts of jobs that are done, whichever run did them.
    f"""
    CREATE TABLE IF NOT EXISTS @steps (
        seq BIGINT NOT NULL,
        name VARCHAR(256) NOT NULL,
        -- Their order, from 1.
        place BIGINT NOT NULL,
        -- The run that did it, and the last one that came by it.
        number BIGINT NOT NULL,
        seen BIGINT NOT NULL,
        output LONGBLOB NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (seq, name)
    ) {_TABLE}
    """,
    """
    CREATE TRIGGER IF NOT EXISTS @jobs_reported AFTER DELETE ON @jobs FOR EACH ROW BEGIN
        DELETE FROM @results WHERE seq = OLD.seq;
        DELETE FROM @progress WHERE seq = OLD.seq;
        DELETE FROM @steps WHERE seq = OLD.seq;
    END
    """,
)
