"""Graphs of jobs, for PostgreSQL."""

_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog"

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- What it waits for as it was asked, as JSON; and what becomes of it if one of these fails.
        ADD COLUMN after text COLLATION,
        ADD COLUMN if_parent_fails text COLLATION,
        -- How many of these don't allow it to run yet; and whether others wait, or waited, for it.
        ADD COLUMN open_parents bigint NOT NULL DEFAULT 0,
        ADD COLUMN has_children bigint NOT NULL DEFAULT 0,
        -- What it is waited for together with.
        ADD COLUMN "group" text COLLATION,
        -- What it alone was made with, of many, as JSON.
        ADD COLUMN parameters text COLLATION
    """,
    'CREATE INDEX jobs_grouped ON @jobs ("group", seq) WHERE "group" IS NOT NULL',
    # Who waits for whom.
    """
    CREATE TABLE @edges (
        child bigint NOT NULL,
        parent bigint NOT NULL,
        -- Its id, which says who it was when it is gone.
        parent_id text COLLATION NOT NULL,
        wanted text COLLATION NOT NULL,
        -- The state that it ended in; NULL as long as it hasn't, or if it is to run again.
        came_to text COLLATION,
        -- Whether that allows the child to run. That stays so.
        met bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (child, parent)
    )
    """,
    "CREATE INDEX edges_of_parent ON @edges (parent, came_to, child)",
    # Ends of jobs of which not all who wait for them have been told.
    """
    CREATE TABLE @untold (
        seq bigint PRIMARY KEY,
        id text COLLATION NOT NULL,
        state text COLLATION NOT NULL,
        action text COLLATION
    )
    """,
    f"""
    CREATE FUNCTION @jobs_parted() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        DELETE FROM @edges USING removed
        WHERE removed.after IS NOT NULL AND @edges.child = removed.seq;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER jobs_parted AFTER DELETE ON @jobs REFERENCING OLD TABLE AS removed"
    " FOR EACH STATEMENT EXECUTE FUNCTION @jobs_parted()",
)
