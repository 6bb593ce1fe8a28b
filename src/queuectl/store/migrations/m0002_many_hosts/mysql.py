"""Queues on several hosts, for MariaDB and MySQL."""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    f"""
    CREATE TABLE IF NOT EXISTS @watches (
        seq BIGINT NOT NULL,
        number BIGINT NOT NULL,
        until BIGINT NOT NULL,
        PRIMARY KEY (seq, number)
    ) {_TABLE}
    """,
    f"""
    CREATE TABLE IF NOT EXISTS @live (
        seq BIGINT NOT NULL,
        number BIGINT NOT NULL,
        stream VARCHAR(8) NOT NULL CHECK (stream IN ('stdout', 'stderr')),
        start BIGINT NOT NULL,
        data LONGBLOB NOT NULL,
        PRIMARY KEY (seq, number, stream, start)
    ) {_TABLE}
    """,
    f"""
    CREATE TABLE IF NOT EXISTS @receipts (
        client VARCHAR(32) NOT NULL PRIMARY KEY,
        serial BIGINT NOT NULL,
        at BIGINT NOT NULL
    ) {_TABLE}
    """,
)
