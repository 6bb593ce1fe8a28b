"""The first schema, for SQLite."""

# Any SQLite a client may bring evaluates this, also those without unixepoch('subsec').
_NOW = "(CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))"

_TIME = "BETWEEN 0 AND 253402300799999"
_SPAN = "BETWEEN 0 AND 3160000000000"
_COUNT_OF = "BETWEEN 0 AND 2147483647"

_JOBS = f"""
CREATE TABLE jobs (
    -- Never given twice, so that a stale hand on a deleted job reaches no other.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(6))))
        CHECK (length(id) BETWEEN 1 AND 256),
    queue TEXT NOT NULL DEFAULT 'default' CHECK (length(queue) BETWEEN 1 AND 128),
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN
        ('blocked', 'pending', 'processing', 'completed', 'failed', 'dead', 'cancelled')),
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
    tags TEXT CHECK (tags IS NULL OR json_type(tags) = 'array'),
    unique_key TEXT,
    expires_at INTEGER CHECK (expires_at {_TIME}),
    timeout INTEGER CHECK (timeout {_SPAN}),
    max_retries INTEGER CHECK (max_retries {_COUNT_OF}),
    backoff TEXT CHECK (backoff IN ('exponential', 'linear', 'fixed')),
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

_COUNT = """
    INSERT INTO counts (queue, state, priority, jobs, timed)
    VALUES (
        {row}.queue, {row}.state, {row}.priority, {sign}1, {sign}(coalesce({row}.timeout, 0) > 0)
    )
    ON CONFLICT (queue, state, priority)
    DO UPDATE SET jobs = jobs + excluded.jobs, timed = timed + excluded.timed;
"""
_ADD = _COUNT.format(row="NEW", sign="")
_SUBTRACT = _COUNT.format(row="OLD", sign="-")

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
    "CREATE TABLE tags (tag TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tag, seq))"
    " STRICT, WITHOUT ROWID",
    # Kept by the triggers below, so that status costs the same with ten jobs or ten million.
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
    f"CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs BEGIN {_ADD} END",
    f"""
    CREATE TRIGGER jobs_moved AFTER UPDATE OF queue, state, priority, timeout ON jobs
    WHEN OLD.state <> NEW.state OR OLD.queue <> NEW.queue OR OLD.priority <> NEW.priority
        OR coalesce(OLD.timeout, 0) <> coalesce(NEW.timeout, 0)
    BEGIN {_SUBTRACT} {_ADD} END
    """,
    f"""
    CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
        {_SUBTRACT}
        DELETE FROM attempts WHERE seq = OLD.seq;
        DELETE FROM outputs WHERE seq = OLD.seq;
    END
    """,
    # What is in the JSON can't be said in a check.
    """
    CREATE TRIGGER jobs_checked BEFORE INSERT ON jobs
    WHEN NEW.argv IS NOT NULL OR NEW.env IS NOT NULL OR NEW.tags IS NOT NULL BEGIN
        SELECT RAISE(ABORT, 'argv, env and tags of a job consist of texts') WHERE EXISTS (
            SELECT 1 FROM json_each(coalesce(NEW.argv, '[]')) WHERE type <> 'text'
            UNION ALL SELECT 1 FROM json_each(coalesce(NEW.env, '{}')) WHERE type <> 'text'
            UNION ALL SELECT 1 FROM json_each(coalesce(NEW.tags, '[]')) WHERE type <> 'text'
        );
    END
    """,
    """
    CREATE TRIGGER jobs_tagged AFTER INSERT ON jobs WHEN NEW.tags IS NOT NULL BEGIN
        INSERT OR IGNORE INTO tags (tag, seq) SELECT value, NEW.seq FROM json_each(NEW.tags);
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
        stop TEXT CHECK (stop IN ('drain', 'release'))
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
)
