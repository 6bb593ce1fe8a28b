"""Sleeping jobs and what is emitted, for PostgreSQL."""

_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog"

STATEMENTS = (
    # What the newest run of a job that said so sleeps for.
    """
    CREATE TABLE @sleeps (
        seq bigint PRIMARY KEY,
        -- The run that said so last, and the step that is done when it is over.
        number bigint NOT NULL,
        step text COLLATION NOT NULL,
        -- What must be emitted; NULL if only the time counts.
        awaits text COLLATION,
        -- When it is over at the latest; NULL is never.
        until bigint,
        at bigint NOT NULL,
        -- Whether it was emitted since.
        woken bigint NOT NULL
    )
    """,
    "CREATE INDEX sleeps_awaits ON @sleeps (awaits) WHERE awaits IS NOT NULL",
    # What was emitted; without a time, what is only waited for yet.
    """
    CREATE TABLE @emitted (
        name text COLLATION PRIMARY KEY,
        -- How often somebody waited for it or emitted it: who does either holds the row.
        asked bigint NOT NULL,
        payload text COLLATION,
        at bigint,
        who text COLLATION
    )
    """,
    "CREATE INDEX emitted_at ON @emitted (at)",
    f"""
    CREATE FUNCTION @jobs_slept() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        DELETE FROM @sleeps USING removed WHERE @sleeps.seq = removed.seq;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER jobs_slept AFTER DELETE ON @jobs REFERENCING OLD TABLE AS removed"
    " FOR EACH STATEMENT EXECUTE FUNCTION @jobs_slept()",
)
