"""What a job runs in, for PostgreSQL."""

STATEMENTS = (
    # Types without a check: a column of one with a check would have the whole table written anew.
    """
    ALTER TABLE @jobs
        ADD COLUMN shell text COLLATION, -- NULL is /bin/sh.
        -- 1: `env` is all there is; else it lies over the environment of the worker.
        ADD COLUMN env_all smallint,
        ADD COLUMN stdin_bytes bigint
    """,
    """
    CREATE TABLE @inputs (
        seq bigint NOT NULL,
        start bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (seq, start)
    )
    """,
    # Whoever keeps what runs write may keep what they read. Rights on all tables are rights on
    # those that there were at the time.
    """
    DO $$
    DECLARE given record;
    BEGIN
        FOR given IN
            SELECT DISTINCT privilege_type AS privilege, grantee
            FROM pg_class, aclexplode(relacl)
            WHERE pg_class.oid = '@outputs'::regclass AND grantee <> relowner
                AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
        LOOP
            EXECUTE format('GRANT %s ON @inputs TO %s', given.privilege,
                CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
        END LOOP;
    END $$
    """,
    """
    CREATE FUNCTION @jobs_emptied() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
    BEGIN
        DELETE FROM @inputs WHERE seq = OLD.seq;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER jobs_emptied AFTER DELETE ON @jobs FOR EACH ROW"
    " WHEN (OLD.stdin_bytes IS NOT NULL) EXECUTE FUNCTION @jobs_emptied()",
)
