"""Queues on several hosts, for SQLite: only so that all schemas are alike."""

STATEMENTS = (
    "ALTER TABLE nodes ADD COLUMN lease INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE nodes ADD COLUMN beat INTEGER NOT NULL DEFAULT 0",
    """
    CREATE TABLE watches (
        seq INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (seq, number)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE live (
        seq INTEGER NOT NULL,
        number INTEGER NOT NULL,
        stream TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
        start INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (seq, number, stream, start)
    ) STRICT
    """,
    """
    CREATE TABLE receipts (
        client TEXT NOT NULL PRIMARY KEY,
        serial INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT
    """,
)
