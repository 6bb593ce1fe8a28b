"""Counters that a claim doesn't move, for MariaDB and MySQL.

While triggers are replaced nobody counts, and whoever is cut off may have left none. So in the
end the counters get what they lack. Whoever changed a job without a trigger has committed by then:
to make a trigger waits for that.
"""

from queuectl.store.migrations.m0001_initial.mysql import TAG, UNTAG

_COUNTER = "{0}.queue, {0}.listed, {0}.priority, CONNECTION_ID() MOD 16"
_OLD = f"{_COUNTER.format('OLD')}, -1, -(COALESCE(OLD.timeout, 0) > 0)"
_NEW = f"{_COUNTER.format('NEW')}, 1, COALESCE(NEW.timeout, 0) > 0"

_COUNT = """
    INSERT INTO @counts (queue, state, priority, slot, jobs, timed) VALUES {0}
    ON DUPLICATE KEY UPDATE jobs = jobs + VALUES(jobs), timed = timed + VALUES(timed);
"""

STATEMENTS = (
    "DROP TRIGGER IF EXISTS @jobs_inserted",
    "DROP TRIGGER IF EXISTS @jobs_moved",
    "DROP TRIGGER IF EXISTS @jobs_deleted",
    f"""
    CREATE TRIGGER IF NOT EXISTS @jobs_inserted AFTER INSERT ON @jobs FOR EACH ROW BEGIN
        {_COUNT.format(f"({_NEW})")}
        IF NEW.tags IS NOT NULL THEN {TAG} END IF;
    END
    """,
    # One question for all that a claim leaves as it is: each would cost time, for every row. To
    # count each row costs as much as to change it, so a node counts what it ends by itself.
    f"""
    CREATE TRIGGER IF NOT EXISTS @jobs_moved AFTER UPDATE ON @jobs FOR EACH ROW BEGIN
        IF OLD.told = NEW.told AND (
            OLD.listed <> NEW.listed OR OLD.queue <> NEW.queue OR OLD.priority <> NEW.priority
            OR NOT (OLD.timeout <=> NEW.timeout) OR NOT (OLD.tags <=> NEW.tags)
        ) THEN
            {_COUNT.format(f"({_OLD}), ({_NEW})")}
            IF NOT (OLD.tags <=> NEW.tags) THEN
                IF OLD.tags IS NOT NULL THEN {UNTAG} END IF;
                IF NEW.tags IS NOT NULL THEN {TAG} END IF;
            END IF;
        END IF;
    END
    """,
    f"""
    CREATE TRIGGER IF NOT EXISTS @jobs_deleted AFTER DELETE ON @jobs FOR EACH ROW BEGIN
        {_COUNT.format(f"({_OLD})")}
        DELETE FROM @attempts WHERE seq = OLD.seq;
        DELETE FROM @outputs WHERE seq = OLD.seq;
        IF OLD.tags IS NOT NULL THEN {UNTAG} END IF;
    END
    """,
    # One statement sees jobs and counters as they were at one moment: what one has more than the
    # other then is what is missing, whatever both have become since.
    """
    INSERT INTO @counts (queue, state, priority, slot, jobs, timed)
    SELECT queue, state, priority, 0, lacking_jobs, lacking_timed FROM (
        SELECT queue, state, priority, SUM(jobs) AS lacking_jobs, SUM(timed) AS lacking_timed
        FROM (
            SELECT queue, listed AS state, priority, 1 AS jobs,
                COALESCE(timeout, 0) > 0 AS timed FROM @jobs
            UNION ALL SELECT queue, state, priority, -jobs, -timed FROM @counts
        ) AS told GROUP BY queue, state, priority
    ) AS lacking WHERE lacking_jobs <> 0 OR lacking_timed <> 0
    ON DUPLICATE KEY UPDATE
        @counts.jobs = @counts.jobs + lacking_jobs, @counts.timed = @counts.timed + lacking_timed
    """,
)
