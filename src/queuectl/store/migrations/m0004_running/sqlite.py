"""Counters that a claim doesn't move, for SQLite; and less to do for every new job."""

_STATE = "iif({0}.state = 'processing', 'pending', {0}.state)"
_OLD = f"OLD.queue, {_STATE.format('OLD')}, OLD.priority, -1, -(coalesce(OLD.timeout, 0) > 0)"
_NEW = f"NEW.queue, {_STATE.format('NEW')}, NEW.priority, 1, coalesce(NEW.timeout, 0) > 0"

# Both changes of a move in one statement: that is cheaper than two.
_COUNT = """
    INSERT INTO counts (queue, state, priority, jobs, timed) VALUES {0}
    ON CONFLICT (queue, state, priority)
    DO UPDATE SET jobs = jobs + excluded.jobs, timed = timed + excluded.timed;
"""

# Each trigger costs every job something, whether or not it has anything to do.
_CHECK = """
    SELECT RAISE(ABORT, 'argv, env and tags of a job consist of texts')
    WHERE coalesce(NEW.argv, NEW.env, NEW.tags) IS NOT NULL AND EXISTS (
        SELECT 1 FROM json_each(coalesce(NEW.argv, '[]')) WHERE type <> 'text'
        UNION ALL SELECT 1 FROM json_each(coalesce(NEW.env, '{}')) WHERE type <> 'text'
        UNION ALL SELECT 1 FROM json_each(coalesce(NEW.tags, '[]')) WHERE type <> 'text'
    );
"""
_TAG = """
    INSERT OR IGNORE INTO tags (tag, seq)
    SELECT value, NEW.seq FROM json_each(NEW.tags) WHERE NEW.tags IS NOT NULL;
"""

# For each statement, SQLite makes a table of a list, and looks every row up in it. The same words
# one by one, those of most rows first, cost next to nothing. As the same rows pass, the text is all
# that has to change.
_LISTED = {
    """CHECK (state IN
        ('blocked', 'pending', 'processing', 'completed', 'failed', 'dead', 'cancelled'))""": """
        CONSTRAINT known_state CHECK (
            state = 'pending' OR state = 'processing' OR state = 'completed' OR state = 'failed'
            OR state = 'dead' OR state = 'cancelled' OR state = 'blocked'
        )""",
    "CHECK (backoff IN ('exponential', 'linear', 'fixed'))": """
        CONSTRAINT known_backoff CHECK (
            backoff = 'exponential' OR backoff = 'linear' OR backoff = 'fixed'
        )""",
}


def _one_by_one(text: str) -> str:
    """Return an expression for a text with the words of these lists one by one."""
    for listed, words in _LISTED.items():
        text = f"replace({text}, {_quoted(listed)}, {_quoted(words)})"
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


STATEMENTS = (
    "PRAGMA writable_schema = ON",
    f"UPDATE sqlite_schema SET sql = {_one_by_one('sql')} WHERE type = 'table' AND name = 'jobs'",
    # What follows changes the schema, too, so that others notice.
    "PRAGMA writable_schema = RESET",
    "DROP TRIGGER IF EXISTS jobs_checked",
    "DROP TRIGGER IF EXISTS jobs_tagged",
    "DROP TRIGGER jobs_inserted",
    "DROP TRIGGER jobs_moved",
    "DROP TRIGGER jobs_deleted",
    f"""
    CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs BEGIN
        {_CHECK}
        {_COUNT.format(f"({_NEW})")}
        {_TAG}
    END
    """,
    f"""
    CREATE TRIGGER jobs_moved AFTER UPDATE OF queue, state, priority, timeout ON jobs
    WHEN {_STATE.format("OLD")} <> {_STATE.format("NEW")} OR OLD.queue <> NEW.queue
        OR OLD.priority <> NEW.priority OR OLD.timeout IS NOT NEW.timeout
    BEGIN {_COUNT.format(f"({_OLD}), ({_NEW})")} END
    """,
    f"""
    CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
        {_COUNT.format(f"({_OLD})")}
        DELETE FROM attempts WHERE seq = OLD.seq;
        DELETE FROM outputs WHERE seq = OLD.seq;
    END
    """,
    """
    INSERT INTO counts (queue, state, priority, jobs, timed)
    SELECT queue, 'pending', priority, jobs, timed FROM counts WHERE state = 'processing'
    ON CONFLICT (queue, state, priority)
    DO UPDATE SET jobs = jobs + excluded.jobs, timed = timed + excluded.timed
    """,
    "DELETE FROM counts WHERE state = 'processing'",
)
