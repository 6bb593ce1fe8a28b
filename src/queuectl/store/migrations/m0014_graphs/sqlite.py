"""Graphs of jobs, for SQLite."""

STATEMENTS = (
    # What it waits for as it was asked, as JSON; and what becomes of it if one of these fails.
    "ALTER TABLE jobs ADD COLUMN after TEXT",
    "ALTER TABLE jobs ADD COLUMN if_parent_fails TEXT",
    # How many of these don't allow it to run yet; and whether others wait, or waited, for it.
    "ALTER TABLE jobs ADD COLUMN open_parents INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN has_children INTEGER NOT NULL DEFAULT 0",
    # What it is waited for together with, and which groups it waits for.
    'ALTER TABLE jobs ADD COLUMN "group" TEXT',
    "ALTER TABLE jobs ADD COLUMN after_group TEXT",
    # What it alone was made with, of many, as JSON.
    "ALTER TABLE jobs ADD COLUMN parameters TEXT",
    'CREATE INDEX jobs_grouped ON jobs ("group", seq) WHERE "group" IS NOT NULL',
    # Who waits for whom; a group is a parent as well, at a place far behind those of all jobs.
    """
    CREATE TABLE edges (
        child INTEGER NOT NULL,
        parent INTEGER NOT NULL,
        -- Its id, which says who it was when it is gone.
        parent_id TEXT NOT NULL,
        wanted TEXT NOT NULL,
        -- The state that it ended in; NULL as long as it hasn't, or if it is to run again.
        came_to TEXT,
        -- Whether that allows the child to run. That stays so.
        met INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (child, parent)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX edges_of_parent ON edges (parent, came_to, child)",
    # Ends of jobs of which not all who wait for them have been told.
    """
    CREATE TABLE untold (
        seq INTEGER NOT NULL PRIMARY KEY,
        id TEXT NOT NULL,
        state TEXT NOT NULL,
        action TEXT,
        -- Whether it was removed, or not needed, as well as cancelled.
        how TEXT
    ) STRICT
    """,
    # Jobs that are waited for together: how many there are, and how many of them ended how. Those
    # that were pruned count as what they were.
    """
    CREATE TABLE groups (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        made_at INTEGER NOT NULL,
        jobs INTEGER NOT NULL DEFAULT 0,
        open INTEGER NOT NULL DEFAULT 0,
        completed INTEGER NOT NULL DEFAULT 0,
        dead INTEGER NOT NULL DEFAULT 0,
        cancelled INTEGER NOT NULL DEFAULT 0,
        -- Those of the cancelled that weren't needed, as what they were to follow didn't happen.
        unneeded INTEGER NOT NULL DEFAULT 0,
        -- How many may be dead before the others are cancelled; when that was; how far that is.
        max_fails INTEGER,
        stopped_at INTEGER,
        stopping INTEGER,
        -- When the last of them ended, NULL while any is open; and how often that was.
        over_at INTEGER,
        rounds INTEGER NOT NULL DEFAULT 0,
        has_children INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    "CREATE INDEX groups_stopping ON groups (stopping) WHERE stopping IS NOT NULL",
    """
    CREATE TRIGGER jobs_parted AFTER DELETE ON jobs
    WHEN OLD.after IS NOT NULL OR OLD.after_group IS NOT NULL BEGIN
        DELETE FROM edges WHERE child = OLD.seq;
    END
    """,
)
AS_IF = {
    "jobs": "after if_parent_fails open_parents has_children group after_group parameters",
    "groups": "seq name made_at jobs open completed dead cancelled unneeded max_fails stopped_at"
    " stopping over_at rounds has_children",
    "edges": "child parent parent_id wanted came_to met",
    "untold": "seq id state action how",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
