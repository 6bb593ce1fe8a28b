"""The baseline, for MariaDB and MySQL.

Their schema changes can't be undone as a whole, so every statement may run twice. Where the
others use a partial index, a column made for it says what the index is about, and nothing for all
other jobs. An index that a change of a job doesn't concern costs nothing then: a claim touches two
of them. Counters have a slot per connection, so that writers rarely wait for each other.
"""

_NOW = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)"
_TIME = "BETWEEN 0 AND 253402300799999"
_SPAN = "BETWEEN 0 AND 3160000000000"
_COUNT_OF = "BETWEEN 0 AND 2147483647"
_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

_JOBS = f"""
CREATE TABLE IF NOT EXISTS @jobs (
    seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id VARCHAR(256) NOT NULL DEFAULT (LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 12))
        CHECK (CHAR_LENGTH(id) BETWEEN 1 AND 256),
    queue VARCHAR(128) NOT NULL DEFAULT 'default' CHECK (CHAR_LENGTH(queue) BETWEEN 1 AND 128),
    state VARCHAR(16) NOT NULL DEFAULT 'pending' CHECK (state IN
        ('blocked', 'pending', 'processing', 'completed', 'failed', 'dead', 'cancelled')),
    -- What it is counted and listed as: one that runs is among the pending ones.
    listed VARCHAR(16) GENERATED ALWAYS AS
        (CASE state WHEN 'processing' THEN 'pending' ELSE state END) STORED,
    -- 1: may be claimed; 0: waits for run_at; NULL: waits for neither.
    ready TINYINT DEFAULT 0 CHECK (ready IN (0, 1)),
    priority INT NOT NULL DEFAULT 0,
    urgency BIGINT GENERATED ALWAYS AS (-priority) STORED,
    run_at BIGINT NOT NULL DEFAULT {_NOW} CHECK (run_at {_TIME}),
    due BIGINT GENERATED ALWAYS AS (CASE ready WHEN 0 THEN run_at END) STORED,
    command MEDIUMTEXT CHECK (CHAR_LENGTH(command) <= 1048576),
    argv MEDIUMTEXT,
    task MEDIUMTEXT,
    data LONGBLOB,
    cwd MEDIUMTEXT,
    env MEDIUMTEXT,
    -- 1: `env` is all there is; else it lies over the environment of the worker.
    env_all TINYINT,
    -- NULL is /bin/sh.
    shell MEDIUMTEXT,
    stdin_bytes BIGINT,
    tags MEDIUMTEXT,
    unique_key VARCHAR(256),
    expires_at BIGINT CHECK (expires_at {_TIME}),
    expiring BIGINT GENERATED ALWAYS AS (CASE WHEN ready IS NULL THEN NULL ELSE expires_at END)
        STORED,
    timeout BIGINT CHECK (timeout {_SPAN}),
    max_retries BIGINT CHECK (max_retries {_COUNT_OF}),
    backoff VARCHAR(16) CHECK (backoff IN ('exponential', 'linear', 'fixed')),
    backoff_base DOUBLE CHECK (backoff_base BETWEEN 1 AND 1e9),
    retry_delay BIGINT CHECK (retry_delay {_SPAN}),
    max_backoff BIGINT CHECK (max_backoff {_SPAN}),
    attempts BIGINT NOT NULL DEFAULT 0 CHECK (attempts {_COUNT_OF}),
    failures BIGINT NOT NULL DEFAULT 0 CHECK (failures {_COUNT_OF}),
    crashes BIGINT NOT NULL DEFAULT 0 CHECK (crashes {_COUNT_OF}),
    node VARCHAR(64),
    held_by VARCHAR(64) GENERATED ALWAYS AS (CASE state WHEN 'processing' THEN node END) STORED,
    worker BIGINT,
    created_at BIGINT NOT NULL DEFAULT {_NOW} CHECK (created_at {_TIME}),
    updated_at BIGINT NOT NULL DEFAULT {_NOW} CHECK (updated_at {_TIME}),
    started_at BIGINT,
    finished_at BIGINT,
    settled VARCHAR(16) GENERATED ALWAYS AS
        (CASE WHEN finished_at IS NOT NULL THEN state END) STORED,
    duration_ms BIGINT,
    slowness BIGINT GENERATED ALWAYS AS (CASE state WHEN 'completed' THEN duration_ms END) STORED,
    exit_code BIGINT,
    error MEDIUMTEXT,
    reason MEDIUMTEXT,
    cancel_reason MEDIUMTEXT,
    -- Set to another value by whoever tells the counters himself that he changes the job.
    told TINYINT NOT NULL DEFAULT 0,
    UNIQUE KEY jobs_id_key (id),
    -- The claim: the first rows of this index, per queue.
    KEY jobs_ready (ready, queue, urgency, seq),
    -- Promotion: what has become due.
    KEY jobs_due (due),
    KEY jobs_expiring (expiring),
    KEY jobs_held (held_by),
    -- Listings by state and queue, newest first.
    KEY jobs_listed (queue, listed, seq),
    -- Pruning, and the slowest jobs.
    KEY jobs_finished (settled, finished_at),
    KEY jobs_slow (slowness),
    CHECK (command IS NOT NULL OR argv IS NOT NULL OR task IS NOT NULL),
    CHECK ((ready IS NOT NULL) = (state IN ('pending', 'failed'))),
    CHECK (state <> 'processing' OR node IS NOT NULL)
) {_TABLE}
"""

_COUNTER = "{0}.queue, {0}.listed, {0}.priority, CONNECTION_ID() MOD 16"
_OLD = f"{_COUNTER.format('OLD')}, -1, -(COALESCE(OLD.timeout, 0) > 0)"
_NEW = f"{_COUNTER.format('NEW')}, 1, COALESCE(NEW.timeout, 0) > 0"

_COUNT = """
    INSERT INTO @counts (queue, state, priority, slot, jobs, timed) VALUES {0}
    ON DUPLICATE KEY UPDATE jobs = jobs + VALUES(jobs), timed = timed + VALUES(timed);
"""

_TAG = """
    INSERT IGNORE INTO @tags (tag, seq) SELECT item.tag, NEW.seq FROM JSON_TABLE(
        NEW.tags, '$[*]' COLUMNS (tag VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')
    ) AS item;
"""
# From the tags of the job to their rows: the other way round it would read the whole table.
_UNTAG = """
    DELETE t FROM JSON_TABLE(
        OLD.tags, '$[*]' COLUMNS (tag VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$')
    ) AS item STRAIGHT_JOIN @tags AS t ON t.tag = item.tag COLLATION AND t.seq = OLD.seq;
"""

# Whether a column is JSON of the right kind that holds nothing but texts.
_CHECK = """
    IF NEW.{column} IS NOT NULL THEN
        IF NOT JSON_VALID(NEW.{column}) THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{column} of a job is not valid JSON';
        END IF;
        IF JSON_TYPE(NEW.{column}) <> '{kind}' OR JSON_LENGTH(NEW.{column}) < {least} THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{column} of a job is not such a list';
        END IF;
        IF JSON_LENGTH(NEW.{column}) > 0 THEN
            IF EXISTS (
                SELECT 1 FROM JSON_TABLE({items}, '$[*]' COLUMNS (item JSON PATH '$')) AS part
                WHERE COALESCE(JSON_TYPE(part.item), '') <> 'STRING'
            ) THEN
                SIGNAL SQLSTATE '45000'
                SET MESSAGE_TEXT = 'argv, env and tags of a job consist of texts';
            END IF;
        END IF;
    END IF;
"""
_CHECKS = "".join(
    _CHECK.format(column=column, kind=kind, least=least, items=items)
    for column, kind, least, items in (
        ("argv", "ARRAY", 1, "NEW.argv"),
        ("tags", "ARRAY", 0, "NEW.tags"),
        ("env", "OBJECT", 0, "JSON_EXTRACT(NEW.env, '$.*')"),
    )
)

STATEMENTS = (
    "CREATE TABLE IF NOT EXISTS @meta (name VARCHAR(64) NOT NULL PRIMARY KEY,"
    f" value TEXT NOT NULL) {_TABLE}",
    _JOBS,
    f"""
    CREATE TABLE IF NOT EXISTS @attempts (
        seq BIGINT NOT NULL,
        number BIGINT NOT NULL,
        node VARCHAR(64) NOT NULL,
        host VARCHAR(256) NOT NULL,
        worker BIGINT NOT NULL,
        started_at BIGINT NOT NULL,
        finished_at BIGINT NOT NULL,
        duration_ms BIGINT NOT NULL,
        outcome VARCHAR(32) NOT NULL,
        exit_code BIGINT,
        "signal" BIGINT,
        error MEDIUMTEXT,
        stdout_bytes BIGINT NOT NULL,
        stderr_bytes BIGINT NOT NULL,
        PRIMARY KEY (seq, number)
    ) {_TABLE}
    """,
    # Apart from the attempts, so that reading the history of a job doesn't read megabytes.
    f"""
    CREATE TABLE IF NOT EXISTS @outputs (
        seq BIGINT NOT NULL,
        number BIGINT NOT NULL,
        stdout LONGBLOB NOT NULL,
        stderr LONGBLOB NOT NULL,
        PRIMARY KEY (seq, number)
    ) {_TABLE}
    """,
    # What runs read from stdin, in pieces, so that no claim reads it. Most jobs have none.
    f"""
    CREATE TABLE IF NOT EXISTS @inputs (
        seq BIGINT NOT NULL,
        start BIGINT NOT NULL,
        data LONGBLOB NOT NULL,
        PRIMARY KEY (seq, start)
    ) {_TABLE}
    """,
    "CREATE TABLE IF NOT EXISTS @tags (tag VARCHAR(256) NOT NULL, seq BIGINT NOT NULL,"
    f" PRIMARY KEY (tag, seq)) {_TABLE}",
    f"""
    CREATE TABLE IF NOT EXISTS @counts (
        queue VARCHAR(128) NOT NULL,
        state VARCHAR(16) NOT NULL,
        priority INT NOT NULL,
        slot INT NOT NULL DEFAULT 0,
        jobs BIGINT NOT NULL,
        timed BIGINT NOT NULL,
        PRIMARY KEY (queue, state, priority, slot)
    ) {_TABLE}
    """,
    f"""
    CREATE TRIGGER IF NOT EXISTS @jobs_checked BEFORE INSERT ON @jobs FOR EACH ROW BEGIN
        {_CHECKS}
    END
    """,
    f"""
    CREATE TRIGGER IF NOT EXISTS @jobs_inserted AFTER INSERT ON @jobs FOR EACH ROW BEGIN
        {_COUNT.format(f"({_NEW})")}
        IF NEW.tags IS NOT NULL THEN {_TAG} END IF;
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
                IF OLD.tags IS NOT NULL THEN {_UNTAG} END IF;
                IF NEW.tags IS NOT NULL THEN {_TAG} END IF;
            END IF;
        END IF;
    END
    """,
    f"""
    CREATE TRIGGER IF NOT EXISTS @jobs_deleted AFTER DELETE ON @jobs FOR EACH ROW BEGIN
        {_COUNT.format(f"({_OLD})")}
        DELETE FROM @attempts WHERE seq = OLD.seq;
        DELETE FROM @outputs WHERE seq = OLD.seq;
        IF OLD.tags IS NOT NULL THEN {_UNTAG} END IF;
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS @jobs_emptied AFTER DELETE ON @jobs FOR EACH ROW BEGIN
        IF OLD.stdin_bytes IS NOT NULL THEN DELETE FROM @inputs WHERE seq = OLD.seq; END IF;
    END
    """,
    f"""
    CREATE TABLE IF NOT EXISTS @nodes (
        id VARCHAR(64) NOT NULL PRIMARY KEY,
        host VARCHAR(256) NOT NULL,
        boot VARCHAR(256) NOT NULL,
        pid BIGINT NOT NULL,
        pid_start BIGINT NOT NULL,
        workers BIGINT NOT NULL,
        queues MEDIUMTEXT NOT NULL,
        spool MEDIUMTEXT NOT NULL,
        version VARCHAR(64) NOT NULL,
        started_at BIGINT NOT NULL,
        seen_at BIGINT NOT NULL,
        lease_until BIGINT NOT NULL,
        stop VARCHAR(16) CHECK (stop IN ('drain', 'release')),
        lease BIGINT NOT NULL DEFAULT 0,
        beat BIGINT NOT NULL DEFAULT 0
    ) {_TABLE}
    """,
    "CREATE TABLE IF NOT EXISTS @queues (name VARCHAR(128) NOT NULL PRIMARY KEY,"
    f" paused_at BIGINT, paused_by MEDIUMTEXT) {_TABLE}",
    f"""
    CREATE TABLE IF NOT EXISTS @rollups (
        at BIGINT NOT NULL,
        queue VARCHAR(128) NOT NULL,
        node VARCHAR(64) NOT NULL,
        measure VARCHAR(32) NOT NULL,
        bucket BIGINT NOT NULL,
        count BIGINT NOT NULL,
        total_ms BIGINT NOT NULL,
        least_ms BIGINT NOT NULL,
        most_ms BIGINT NOT NULL,
        PRIMARY KEY (at, queue, node, measure, bucket)
    ) {_TABLE}
    """,
    f"""
    CREATE TABLE IF NOT EXISTS @events (
        seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        at BIGINT NOT NULL,
        kind VARCHAR(64) NOT NULL,
        job VARCHAR(256),
        node VARCHAR(64),
        who MEDIUMTEXT NOT NULL,
        detail MEDIUMTEXT,
        KEY events_of_job (job, seq)
    ) {_TABLE}
    """,
    "CREATE TABLE IF NOT EXISTS @config (name VARCHAR(128) NOT NULL PRIMARY KEY,"
    f" value MEDIUMTEXT NOT NULL, updated_at BIGINT NOT NULL) {_TABLE}",
    # Who watches the output of which run, until when; and what its node shows them.
    f"""
    CREATE TABLE IF NOT EXISTS @watches (
        seq BIGINT NOT NULL,
        number BIGINT NOT NULL,
        until BIGINT NOT NULL,
        PRIMARY KEY (seq, number)
    ) {_TABLE}
    """,
    f"""
    CREATE TABLE IF NOT EXISTS @live (
        seq BIGINT NOT NULL,
        number BIGINT NOT NULL,
        stream VARCHAR(8) NOT NULL CHECK (stream IN ('stdout', 'stderr')),
        start BIGINT NOT NULL,
        data LONGBLOB NOT NULL,
        PRIMARY KEY (seq, number, stream, start)
    ) {_TABLE}
    """,
    # Whether a commit came through whose answer was lost.
    f"""
    CREATE TABLE IF NOT EXISTS @receipts (
        client VARCHAR(32) NOT NULL PRIMARY KEY,
        serial BIGINT NOT NULL,
        at BIGINT NOT NULL
    ) {_TABLE}
    """,
)
