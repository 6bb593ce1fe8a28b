"""Unique jobs and paused runs, for PostgreSQL."""

_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog"

STATEMENTS = (
    "ALTER TABLE @jobs ADD COLUMN unique_until text COLLATION, ADD COLUMN unique_for bigint",
    # Who has a name that only one job at a time can have.
    """
    CREATE TABLE @uniques (
        name text COLLATION PRIMARY KEY,
        job text COLLATION NOT NULL,
        -- The job's attempts when it took the name, if it has it until it starts; else NULL.
        starts bigint,
        -- It has the name until then at least.
        until bigint,
        -- Since when requests take each other's place in it.
        since bigint NOT NULL
    )
    """,
    f"""
    CREATE FUNCTION @jobs_unnamed() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        DELETE FROM @uniques WHERE name = OLD.unique_key AND job = OLD.id;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER jobs_unnamed AFTER DELETE ON @jobs FOR EACH ROW"
    " WHEN (OLD.unique_key IS NOT NULL) EXECUTE FUNCTION @jobs_unnamed()",
    # Runs that are stopped, and who asked for it. A row of a run that is over means nothing.
    """
    CREATE TABLE @pauses (
        seq bigint NOT NULL,
        number bigint NOT NULL,
        at bigint NOT NULL,
        who text COLLATION NOT NULL,
        PRIMARY KEY (seq, number)
    )
    """,
)
