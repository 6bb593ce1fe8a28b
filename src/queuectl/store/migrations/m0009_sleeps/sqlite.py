"""Sleeping jobs and what is emitted, for SQLite."""

STATEMENTS = (
    # What the newest run of a job that said so sleeps for.
    """
    CREATE TABLE sleeps (
        seq INTEGER NOT NULL PRIMARY KEY,
        -- The run that said so last, and the step that is done when it is over.
        number INTEGER NOT NULL,
        step TEXT NOT NULL,
        -- What must be emitted; NULL if only the time counts.
        awaits TEXT,
        -- When it is over at the latest; NULL is never.
        until INTEGER,
        at INTEGER NOT NULL,
        -- Whether it was emitted since.
        woken INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sleeps_awaits ON sleeps (awaits) WHERE awaits IS NOT NULL",
    # What was emitted; without a time, what is only waited for yet.
    """
    CREATE TABLE emitted (
        name TEXT NOT NULL PRIMARY KEY,
        -- How often somebody waited for it or emitted it: who does either holds the row.
        asked INTEGER NOT NULL,
        payload TEXT,
        at INTEGER,
        who TEXT
    ) STRICT
    """,
    "CREATE INDEX emitted_at ON emitted (at)",
    """
    CREATE TRIGGER jobs_slept AFTER DELETE ON jobs BEGIN
        DELETE FROM sleeps WHERE seq = OLD.seq;
    END
    """,
)
AS_IF = {
    "sleeps": "seq number step awaits until at woken",
    "emitted": "name asked payload at who",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
