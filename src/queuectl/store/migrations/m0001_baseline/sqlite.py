"""The baseline, for SQLite."""

# Any SQLite a client may bring evaluates this, also those without unixepoch('subsec').
_NOW = "(CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))"

_TIME = "BETWEEN 0 AND 253402300799999"
_SPAN = "BETWEEN 0 AND 3160000000000"
_COUNT_OF = "BETWEEN 0 AND 2147483647"

# Words one by one, those of most rows first: of a list, SQLite makes a table for each statement,
# and looks every row up in it.
_JOBS = f"""
CREATE TABLE jobs (
    -- Never given twice, so that a stale hand on a deleted job reaches no other.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(6))))
        CHECK (length(id) BETWEEN 1 AND 256),
    queue TEXT NOT NULL DEFAULT 'default' CHECK (length(queue) BETWEEN 1 AND 128),
    state TEXT NOT NULL DEFAULT 'pending' CONSTRAINT known_state CHECK (
        state = 'pending' OR state = 'processing' OR state = 'completed' OR state = 'failed'
        OR state = 'dead' OR state = 'cancelled' OR state = 'blocked'
    ),
    -- 1: may be claimed; 0: waits for run_at; NULL: waits for neither.
    ready INTEGER DEFAULT 0 CHECK (ready IN (0, 1)),
    priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -2147483648 AND 2147483647),
    run_at INTEGER NOT NULL DEFAULT {_NOW} CHECK (run_at {_TIME}),
    command TEXT CHECK (length(command) <= 1048576),
    argv TEXT CHECK (argv IS NULL OR json_array_length(argv) > 0),
    task TEXT,
    data BLOB,
    cwd TEXT,
    env TEXT CHECK (env IS NULL OR json_type(env) = 'object'),
    -- 1: `env` is all there is; else it lies over the environment of the worker.
    env_all INTEGER,
    -- NULL is /bin/sh.
    shell TEXT,
    stdin_bytes INTEGER,
    tags TEXT CHECK (tags IS NULL OR json_type(tags) = 'array'),
    unique_key TEXT,
    expires_at INTEGER CHECK (expires_at {_TIME}),
    timeout INTEGER CHECK (timeout {_SPAN}),
    max_retries INTEGER CHECK (max_retries {_COUNT_OF}),
    backoff TEXT CONSTRAINT known_backoff CHECK (
        backoff = 'exponential' OR backoff = 'linear' OR backoff = 'fixed'
    ),
    backoff_base REAL CHECK (backoff_base BETWEEN 1 AND 1e9),
    retry_delay INTEGER CHECK (retry_delay {_SPAN}),
    max_backoff INTEGER CHECK (max_backoff {_SPAN}),
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts {_COUNT_OF}),
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures {_COUNT_OF}),
    crashes INTEGER NOT NULL DEFAULT 0 CHECK (crashes {_COUNT_OF}),
    node TEXT,
    worker INTEGER,
    created_at INTEGER NOT NULL DEFAULT {_NOW} CHECK (created_at {_TIME}),
    updated_at INTEGER NOT NULL DEFAULT {_NOW} CHECK (updated_at {_TIME}),
    started_at INTEGER,
    finished_at INTEGER,
    duration_ms INTEGER,
    exit_code INTEGER,
    error TEXT,
    reason TEXT,
    cancel_reason TEXT,
    CHECK (command IS NOT NULL OR argv IS NOT NULL OR task IS NOT NULL),
    CHECK ((ready IS NOT NULL) = (state IN ('pending', 'failed'))),
    CHECK (state <> 'processing' OR node IS NOT NULL)
) STRICT
"""

_STATE = "iif({0}.state = 'processing', 'pending', {0}.state)"
_OLD = f"OLD.queue, {_STATE.format('OLD')}, OLD.priority, -1, -(coalesce(OLD.timeout, 0) > 0)"
_NEW = f"NEW.queue, {_STATE.format('NEW')}, NEW.priority, 1, coalesce(NEW.timeout, 0) > 0"

# Both changes of a move in one statement: that is cheaper than two.
_COUNT = """
    INSERT INTO counts (queue, state, priority, jobs, timed) VALUES {0}
    ON CONFLICT (queue, state, priority)
    DO UPDATE SET jobs = jobs + excluded.jobs, timed = timed + excluded.timed;
"""

# What is in the JSON can't be said in a check of the table. Each trigger costs every job something,
# whether or not it has anything to do, so there is one for all that is new.
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

STATEMENTS = (
    "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
    _JOBS,
    # The claim: the first rows of this index, per queue.
    "CREATE INDEX jobs_ready ON jobs (queue, priority DESC, seq) WHERE ready = 1",
    # Promotion: what has become due.
    "CREATE INDEX jobs_due ON jobs (run_at) WHERE ready = 0",
    "CREATE INDEX jobs_expiring ON jobs (expires_at)"
    " WHERE ready IS NOT NULL AND expires_at IS NOT NULL",
    "CREATE INDEX jobs_held ON jobs (node) WHERE state = 'processing'",
    # Listings by state and queue, newest first.
    "CREATE INDEX jobs_listed ON jobs (queue, state, seq)",
    # Pruning, and the slowest jobs.
    "CREATE INDEX jobs_finished ON jobs (state, finished_at) WHERE finished_at IS NOT NULL",
    "CREATE INDEX jobs_slow ON jobs (duration_ms) WHERE state = 'completed'",
    """
    CREATE TABLE attempts (
        seq INTEGER NOT NULL,
        number INTEGER NOT NULL,
        node TEXT NOT NULL,
        host TEXT NOT NULL,
        worker INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        finished_at INTEGER NOT NULL,
        duration_ms INTEGER NOT NULL,
        outcome TEXT NOT NULL,
        exit_code INTEGER,
        signal INTEGER,
        error TEXT,
        stdout_bytes INTEGER NOT NULL,
        stderr_bytes INTEGER NOT NULL,
        PRIMARY KEY (seq, number)
    ) STRICT, WITHOUT ROWID
    """,
    # Apart from the attempts, so that a run that says nothing costs nothing, and reading the
    # history of a job doesn't read megabytes.
    """
    CREATE TABLE outputs (
        seq INTEGER NOT NULL,
        number INTEGER NOT NULL,
        stdout BLOB NOT NULL,
        stderr BLOB NOT NULL,
        PRIMARY KEY (seq, number)
    ) STRICT
    """,
    # What runs read from stdin, in pieces, so that no claim reads it. Most jobs have none.
    """
    CREATE TABLE inputs (
        seq INTEGER NOT NULL,
        start INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (seq, start)
    ) STRICT
    """,
    "CREATE TABLE tags (tag TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tag, seq))"
    " STRICT, WITHOUT ROWID",
    # Kept by the triggers below, so that status costs the same with ten jobs or ten million. Jobs
    # that run are counted as pending, so that a claim has nothing to count.
    """
    CREATE TABLE counts (
        queue TEXT NOT NULL,
        state TEXT NOT NULL,
        priority INTEGER NOT NULL,
        jobs INTEGER NOT NULL,
        timed INTEGER NOT NULL,
        PRIMARY KEY (queue, state, priority)
    ) STRICT, WITHOUT ROWID
    """,
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
    CREATE TRIGGER jobs_emptied AFTER DELETE ON jobs WHEN OLD.stdin_bytes IS NOT NULL BEGIN
        DELETE FROM inputs WHERE seq = OLD.seq;
    END
    """,
    """
    CREATE TRIGGER jobs_retagged AFTER UPDATE OF tags ON jobs BEGIN
        DELETE FROM tags WHERE seq = OLD.seq
            AND tag IN (SELECT value FROM json_each(coalesce(OLD.tags, '[]')));
        INSERT OR IGNORE INTO tags (tag, seq)
            SELECT value, NEW.seq FROM json_each(coalesce(NEW.tags, '[]'));
    END
    """,
    """
    CREATE TRIGGER jobs_untagged AFTER DELETE ON jobs WHEN OLD.tags IS NOT NULL BEGIN
        DELETE FROM tags WHERE seq = OLD.seq
            AND tag IN (SELECT value FROM json_each(OLD.tags));
    END
    """,
    """
    CREATE TABLE nodes (
        id TEXT NOT NULL PRIMARY KEY,
        host TEXT NOT NULL,
        boot TEXT NOT NULL,
        pid INTEGER NOT NULL,
        pid_start INTEGER NOT NULL,
        workers INTEGER NOT NULL,
        queues TEXT NOT NULL,
        spool TEXT NOT NULL,
        version TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        lease_until INTEGER NOT NULL,
        stop TEXT CHECK (stop IN ('drain', 'release')),
        lease INTEGER NOT NULL DEFAULT 0,
        beat INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    "CREATE TABLE queues (name TEXT NOT NULL PRIMARY KEY, paused_at INTEGER, paused_by TEXT)"
    " STRICT",
    """
    CREATE TABLE rollups (
        at INTEGER NOT NULL,
        queue TEXT NOT NULL,
        node TEXT NOT NULL,
        measure TEXT NOT NULL,
        bucket INTEGER NOT NULL,
        count INTEGER NOT NULL,
        total_ms INTEGER NOT NULL,
        least_ms INTEGER NOT NULL,
        most_ms INTEGER NOT NULL,
        PRIMARY KEY (at, queue, node, measure, bucket)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        job TEXT,
        node TEXT,
        who TEXT NOT NULL,
        detail TEXT
    ) STRICT
    """,
    "CREATE INDEX events_of_job ON events (job, seq) WHERE job IS NOT NULL",
    "CREATE TABLE config (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL,"
    " updated_at INTEGER NOT NULL) STRICT",
    # Who watches the output of which run, until when; and what its node shows them.
    """
    CREATE TABLE watches (
        seq INTEGER NOT NULL,
        number INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (seq, number)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE live (
        seq INTEGER NOT NULL,
        number INTEGER NOT NULL,
        stream TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
        start INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (seq, number, stream, start)
    ) STRICT
    """,
    # Only so that all schemas are alike.
    """
    CREATE TABLE receipts (
        client TEXT NOT NULL PRIMARY KEY,
        serial INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT
    """,
)
