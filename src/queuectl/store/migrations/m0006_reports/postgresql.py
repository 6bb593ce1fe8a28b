"""Results, progress and steps, for PostgreSQL."""

_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog"

STATEMENTS = (
    # What completed jobs came to, by the run that completed them.
    """
    CREATE TABLE @results (
        seq bigint PRIMARY KEY,
        number bigint NOT NULL,
        value text COLLATION NOT NULL
    )
    """,
    # How far the newest run that said so has come.
    """
    CREATE TABLE @progress (
        seq bigint PRIMARY KEY,
        number bigint NOT NULL,
        percent double precision,
        note text COLLATION NOT NULL,
        at bigint NOT NULL
    )
    """,
    # The parts of jobs that are done, whichever run did them.
    """
    CREATE TABLE @steps (
        seq bigint NOT NULL,
        name text COLLATION NOT NULL,
        -- Their order, from 1.
        place bigint NOT NULL,
        -- The run that did it, and the last one that came by it.
        number bigint NOT NULL,
        seen bigint NOT NULL,
        output bytea NOT NULL,
        at bigint NOT NULL,
        PRIMARY KEY (seq, name)
    )
    """,
    f"""
    CREATE FUNCTION @jobs_reported() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        DELETE FROM @results USING removed WHERE @results.seq = removed.seq;
        DELETE FROM @progress USING removed WHERE @progress.seq = removed.seq;
        DELETE FROM @steps USING removed WHERE @steps.seq = removed.seq;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER jobs_reported AFTER DELETE ON @jobs REFERENCING OLD TABLE AS removed"
    " FOR EACH STATEMENT EXECUTE FUNCTION @jobs_reported()",
)
