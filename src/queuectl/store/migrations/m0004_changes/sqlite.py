"""Unique jobs and paused runs, for SQLite."""

STATEMENTS = (
    "ALTER TABLE jobs ADD COLUMN unique_until TEXT",
    "ALTER TABLE jobs ADD COLUMN unique_for INTEGER",
    # Who has a name that only one job at a time can have.
    """
    CREATE TABLE uniques (
        name TEXT NOT NULL PRIMARY KEY,
        job TEXT NOT NULL,
        -- The job's attempts when it took the name, if it has it until it starts; else NULL.
        starts INTEGER,
        -- It has the name until then at least.
        until INTEGER,
        -- Since when requests take each other's place in it.
        since INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TRIGGER jobs_unnamed AFTER DELETE ON jobs WHEN OLD.unique_key IS NOT NULL BEGIN
        DELETE FROM uniques WHERE name = OLD.unique_key AND job = OLD.id;
    END
    """,
    # Runs that are stopped, and who asked for it. A row of a run that is over means nothing.
    """
    CREATE TABLE pauses (
        seq INTEGER NOT NULL,
        number INTEGER NOT NULL,
        at INTEGER NOT NULL,
        who TEXT NOT NULL,
        PRIMARY KEY (seq, number)
    ) STRICT, WITHOUT ROWID
    """,
)
AS_IF = {
    "jobs": "unique_until unique_for",
    "uniques": "name job starts until since",
    "pauses": "seq number at who",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
