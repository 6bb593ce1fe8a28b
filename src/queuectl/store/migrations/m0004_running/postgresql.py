"""Counters that a claim doesn't move, for PostgreSQL."""

_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog"
_STATE = "CASE state WHEN 'processing' THEN 'pending' ELSE state END"
_TIMED = "(coalesce(timeout, 0) > 0)::int"

STATEMENTS = (
    # So that nobody is half-way: counting by the old functions, or adding counters up.
    "LOCK TABLE @jobs, @counts IN SHARE ROW EXCLUSIVE MODE",
    f"""
    CREATE OR REPLACE FUNCTION @jobs_inserted() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        INSERT INTO @counts SELECT queue, {_STATE} AS counted, priority, count(*), sum({_TIMED})
            FROM added GROUP BY queue, counted, priority;
        INSERT INTO @tags SELECT DISTINCT item, added.seq
            FROM added, json_array_elements_text(added.tags::json) AS item
            WHERE added.tags IS NOT NULL ON CONFLICT DO NOTHING;
        PERFORM pg_notify('queuectl_' || TG_TABLE_SCHEMA, 'work');
        RETURN NULL;
    END $$
    """,
    # Of a claim nothing is left to insert.
    f"""
    CREATE OR REPLACE FUNCTION @jobs_moved() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        INSERT INTO @counts SELECT queue, counted, priority, sum(jobs), sum(timed) FROM (
            SELECT queue, {_STATE} AS counted, priority, 1 AS jobs, {_TIMED} AS timed FROM after
            UNION ALL
            SELECT queue, {_STATE}, priority, -1, -{_TIMED} FROM before
        ) AS changes GROUP BY queue, counted, priority HAVING sum(jobs) <> 0 OR sum(timed) <> 0;
        RETURN NULL;
    END $$
    """,
    # Nor is the trigger called for one that says so (see CLAIM_ALONE): who waits for a job to start
    # waits for that as well.
    "DROP TRIGGER jobs_moved ON @jobs",
    "CREATE TRIGGER jobs_moved AFTER UPDATE ON @jobs"
    " REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT"
    " WHEN (current_setting('queuectl.counters', true) IS DISTINCT FROM 'unmoved')"
    " EXECUTE FUNCTION @jobs_moved()",
    f"""
    CREATE OR REPLACE FUNCTION @jobs_deleted() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        INSERT INTO @counts SELECT queue, {_STATE} AS counted, priority, -count(*), -sum({_TIMED})
            FROM removed GROUP BY queue, counted, priority;
        DELETE FROM @attempts USING removed WHERE @attempts.seq = removed.seq;
        DELETE FROM @outputs USING removed WHERE @outputs.seq = removed.seq;
        DELETE FROM @tags USING (
            SELECT removed.seq, item
            FROM removed, json_array_elements_text(removed.tags::json) AS item
            WHERE removed.tags IS NOT NULL
        ) AS tagged WHERE @tags.tag = tagged.item AND @tags.seq = tagged.seq;
        RETURN NULL;
    END $$
    """,
    "UPDATE @counts SET state = 'pending' WHERE state = 'processing'",
)
