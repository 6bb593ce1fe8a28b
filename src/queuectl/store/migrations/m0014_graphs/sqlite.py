"""Graphs of jobs, for SQLite."""

STATEMENTS = (
    # What it waits for as it was asked, as JSON; and what becomes of it if one of these fails.
    "ALTER TABLE jobs ADD COLUMN after TEXT",
    "ALTER TABLE jobs ADD COLUMN if_parent_fails TEXT",
    # How many of these don't allow it to run yet; and whether others wait, or waited, for it.
    "ALTER TABLE jobs ADD COLUMN open_parents INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN has_children INTEGER NOT NULL DEFAULT 0",
    # What it is waited for together with.
    'ALTER TABLE jobs ADD COLUMN "group" TEXT',
    # What it alone was made with, of many, as JSON.
    "ALTER TABLE jobs ADD COLUMN parameters TEXT",
    'CREATE INDEX jobs_grouped ON jobs ("group", seq) WHERE "group" IS NOT NULL',
    # Who waits for whom.
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
        action TEXT
    ) STRICT
    """,
    """
    CREATE TRIGGER jobs_parted AFTER DELETE ON jobs WHEN OLD.after IS NOT NULL BEGIN
        DELETE FROM edges WHERE child = OLD.seq;
    END
    """,
)
AS_IF = {
    "jobs": "after if_parent_fails open_parents has_children group parameters",
    "edges": "child parent parent_id wanted came_to met",
    "untold": "seq id state action",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
