"""Results, progress and steps, for SQLite."""

STATEMENTS = (
    # What completed jobs came to, by the run that completed them.
    """
    CREATE TABLE results (
        seq INTEGER NOT NULL PRIMARY KEY,
        number INTEGER NOT NULL,
        value TEXT NOT NULL
    ) STRICT
    """,
    # How far the newest run that said so has come.
    """
    CREATE TABLE progress (
        seq INTEGER NOT NULL PRIMARY KEY,
        number INTEGER NOT NULL,
        percent REAL,
        note TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT
    """,
    # The parts of jobs that are done, whichever run did them.
    """
    CREATE TABLE steps (
        seq INTEGER NOT NULL,
        name TEXT NOT NULL,
        -- Their order, from 1.
        place INTEGER NOT NULL,
        -- The run that did it, and the last one that came by it.
        number INTEGER NOT NULL,
        seen INTEGER NOT NULL,
        output BLOB NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (seq, name)
    ) STRICT
    """,
    """
    CREATE TRIGGER jobs_reported AFTER DELETE ON jobs BEGIN
        DELETE FROM results WHERE seq = OLD.seq;
        DELETE FROM progress WHERE seq = OLD.seq;
        DELETE FROM steps WHERE seq = OLD.seq;
    END
    """,
)
AS_IF = {
    "results": "seq number value",
    "progress": "seq number percent note at",
    "steps": "seq name place number seen output at",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
