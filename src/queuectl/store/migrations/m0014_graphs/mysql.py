"""Graphs of jobs, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- What it waits for as it was asked, as JSON; and what becomes of it if one of these fails.
        ADD COLUMN after MEDIUMTEXT,
        ADD COLUMN if_parent_fails VARCHAR(16),
        -- How many of these don't allow it to run yet; and whether others wait, or waited, for it.
        ADD COLUMN open_parents BIGINT NOT NULL DEFAULT 0,
        ADD COLUMN has_children BIGINT NOT NULL DEFAULT 0,
        -- What it is waited for together with, and which groups it waits for.
        ADD COLUMN "group" VARCHAR(128),
        ADD COLUMN after_group MEDIUMTEXT,
        -- What it alone was made with, of many, as JSON.
        ADD COLUMN parameters MEDIUMTEXT,
        ADD INDEX jobs_grouped ("group", seq)
    """,
    # Who waits for whom; a group is a parent as well, at a place far behind those of all jobs.
    f"""
    CREATE TABLE IF NOT EXISTS @edges (
        child BIGINT NOT NULL,
        parent BIGINT NOT NULL,
        -- Its id, which says who it was when it is gone.
        parent_id VARCHAR(256) NOT NULL,
        wanted VARCHAR(16) NOT NULL,
        -- The state that it ended in; NULL as long as it hasn't, or if it is to run again.
        came_to VARCHAR(16),
        -- Whether that allows the child to run. That stays so.
        met BIGINT NOT NULL DEFAULT 0,
        PRIMARY KEY (child, parent),
        INDEX edges_of_parent (parent, came_to, child)
    ) {_TABLE}
    """,
    # Ends of jobs of which not all who wait for them have been told.
    f"""
    CREATE TABLE IF NOT EXISTS @untold (
        seq BIGINT NOT NULL PRIMARY KEY,
        id VARCHAR(256) NOT NULL,
        state VARCHAR(16) NOT NULL,
        action VARCHAR(32),
        -- Whether it was removed, or not needed, as well as cancelled.
        how VARCHAR(16)
    ) {_TABLE}
    """,
    # Jobs that are waited for together: how many there are, and how many of them ended how. Those
    # that were pruned count as what they were.
    f"""
    CREATE TABLE IF NOT EXISTS @groups (
        seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        name VARCHAR(128) NOT NULL UNIQUE,
        made_at BIGINT NOT NULL,
        jobs BIGINT NOT NULL DEFAULT 0,
        open BIGINT NOT NULL DEFAULT 0,
        completed BIGINT NOT NULL DEFAULT 0,
        dead BIGINT NOT NULL DEFAULT 0,
        cancelled BIGINT NOT NULL DEFAULT 0,
        -- Those of the cancelled that weren't needed, as what they were to follow didn't happen.
        unneeded BIGINT NOT NULL DEFAULT 0,
        -- How many may be dead before the others are cancelled; when that was; how far that is.
        max_fails BIGINT,
        stopped_at BIGINT,
        stopping BIGINT,
        -- When the last of them ended, NULL while any is open; and how often that was.
        over_at BIGINT,
        rounds BIGINT NOT NULL DEFAULT 0,
        has_children BIGINT NOT NULL DEFAULT 0,
        INDEX groups_stopping (stopping)
    ) {_TABLE}
    """,
    """
    CREATE TRIGGER IF NOT EXISTS @jobs_parted AFTER DELETE ON @jobs FOR EACH ROW
    BEGIN
        IF OLD.after IS NOT NULL OR OLD.after_group IS NOT NULL THEN
            DELETE FROM @edges WHERE child = OLD.seq;
        END IF;
    END
    """,
)
