"""Queues on several hosts, for PostgreSQL."""

STATEMENTS = (
    """
    CREATE TABLE @watches (
        seq bigint NOT NULL,
        number bigint NOT NULL,
        until bigint NOT NULL,
        PRIMARY KEY (seq, number)
    )
    """,
    """
    CREATE TABLE @live (
        seq bigint NOT NULL,
        number bigint NOT NULL,
        stream text COLLATION NOT NULL CHECK (stream IN ('stdout', 'stderr')),
        start bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (seq, number, stream, start)
    )
    """,
    """
    CREATE TABLE @receipts (
        client text COLLATION PRIMARY KEY,
        serial bigint NOT NULL,
        at bigint NOT NULL,
        claimed bigint[]
    ) WITH (fillfactor = 50)
    """,
)
