"""The statements that SQLite has for itself; the others are shared.

Values of many rows are bound as one table, `given`: the store puts as many places as it needs for
`:rows`. A plus before a condition keeps SQLite from using an index for it: whatever it knows of its
indexes, the rows come first, then the job at the place of each.
"""

from queuectl.store.statements import for_rows
from queuectl.store.statements.shared import *  # noqa: F403 - a store finds all in one place
from queuectl.store.statements.shared import READY_LINES, READY_QUEUES

# -- the claim ------------------------------------------------------------------

# Whether a node's lease holds; a node without one may not claim. And when the next waiting job
# becomes due, when the next expires, and when the next key opens; in each row with one of the
# queues that have ready jobs, or none; or of the lines, for a node that has handlers.
LOOK = f"""
SELECT NULL,
    (SELECT min(run_at) FROM {{jobs}} WHERE ready = 0 AND parked IS NULL AND run_at >= 0),
    (SELECT min(expires_at) FROM {{jobs}}
        WHERE ready IS NOT NULL AND expires_at IS NOT NULL AND expires_at >= 0),
    (SELECT min(opens_at) FROM {{keys}} WHERE opens_at >= 0), found.name, found.limits,
    found.handler
FROM {{nodes}} LEFT JOIN ({READY_QUEUES}) AS found ON 1 = 1
WHERE id = :id AND lease_until > :steady
"""
LOOK_LINES = LOOK.replace(READY_QUEUES, READY_LINES)

# The first ready jobs of a line, in the order of promise 5.
READY = """
SELECT priority, seq, crashes, run_at, vtime FROM {jobs}
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY priority DESC, vtime, seq LIMIT :limit
"""

# Nobody else claims meanwhile.
READY_UNLOCKED = READY

# The same jobs with all that is stored of them, for when there is just one line to choose from.
READY_WHOLE = """
SELECT {job_columns} FROM {jobs}
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY priority DESC, vtime, seq LIMIT :limit
"""

# The same jobs with what limits go by.
READY_LIMITED = """
SELECT priority, seq, crashes, run_at, vtime, keys FROM {jobs}
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY priority DESC, vtime, seq LIMIT :limit
"""

# Park jobs under the keys that have no room for them.
PARK = for_rows(
    "parked seq",
    """
UPDATE {jobs} SET ready = 0, parked = r.parked_
FROM (
    WITH given (parked_, seq_) AS (VALUES :rows) SELECT * FROM given
) AS r
WHERE seq = r.seq_ AND +(ready = 1)
""",
)

# Begin runs: from here on, `attempts` is the fence of each. (Of all columns it would return, text
# that isn't valid UTF-8 would be noticed too late.)
CLAIM = for_rows(
    "node worker now seq",
    """
UPDATE {jobs} SET
    state = 'processing', ready = NULL, attempts = attempts + 1, node = r.node_,
    worker = r.worker_, started_at = r.now_, updated_at = r.now_, finished_at = NULL,
    duration_ms = NULL, exit_code = NULL, reason = NULL, cancel_reason = NULL
FROM (
    WITH given (node_, worker_, now_, seq_) AS (VALUES :rows) SELECT * FROM given
) AS r
WHERE seq = r.seq_ AND +(ready = 1)
""",
)

# Make due jobs ready.
PROMOTE = """
UPDATE {jobs} SET ready = 1, state = 'pending'
WHERE seq IN (SELECT value FROM json_each(:seqs)) AND +(ready = 0)
"""

# -- the end of runs --------------------------------------------------------------

# End runs. One that isn't changed has lost its lease: somebody else has the job, or it is gone; or
# others wait for it by now.
FINISH = for_rows(
    "state ready run_at failures crashes started_at settled_at final duration_ms exit_code error"
    " reason seq id attempt node has_children",
    """
UPDATE {jobs} SET
    state = r.state_, ready = r.ready_, run_at = coalesce(r.run_at_, run_at),
    failures = r.failures_, crashes = r.crashes_, started_at = r.started_at_,
    updated_at = r.settled_at_,
    finished_at = CASE r.final_ WHEN 1 THEN r.settled_at_ END,
    duration_ms = r.duration_ms_, exit_code = r.exit_code_, error = r.error_,
    reason = r.reason_, cancel_reason = NULL
FROM (
    WITH given (
        state_, ready_, run_at_, failures_, crashes_, started_at_, settled_at_, final_,
        duration_ms_, exit_code_, error_, reason_, seq_, id_, attempt_, node_, has_children_
    ) AS (VALUES :rows) SELECT * FROM given
) AS r
WHERE seq = r.seq_ AND +(
    id = r.id_ AND attempts = r.attempt_ AND node = r.node_ AND state = 'processing'
    AND has_children = r.has_children_
)
""",
)

# Keep the records of runs.
KEEP_ATTEMPTS = for_rows(
    "seq attempt node host worker started_at finished_at duration_ms outcome exit_code signal error"
    " stdout_bytes stderr_bytes peak_memory cpu_ms read_bytes written_bytes noted",
    """
INSERT INTO {attempts} (
    seq, number, node, host, worker, started_at, finished_at, duration_ms, outcome, exit_code,
    signal, error, stdout_bytes, stderr_bytes, peak_memory, cpu_ms, read_bytes, written_bytes,
    noted
) VALUES :rows
""",
)

# Take claims back whose runs were never started, so that their numbers stay free.
PUT_BACK = for_rows(
    "now seq id attempt node",
    """
UPDATE {jobs} SET
    state = 'pending', ready = 1, attempts = attempts - 1, node = NULL, worker = NULL,
    started_at = NULL, updated_at = r.now_
FROM (
    WITH given (now_, seq_, id_, attempt_, node_) AS (VALUES :rows) SELECT * FROM given
) AS r
WHERE seq = r.seq_ AND +(
    id = r.id_ AND attempts = r.attempt_ AND node = r.node_ AND state = 'processing'
    AND cancel_reason IS NULL
)
""",
)

# Add durations to rollups.
ADD_ROLLUPS = for_rows(
    "at queue node measure bucket count total_ms least_ms most_ms",
    """
INSERT INTO {rollups} (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
VALUES :rows
ON CONFLICT (at, queue, node, measure, bucket) DO UPDATE SET
    count = rollups.count + excluded.count,
    total_ms = rollups.total_ms + excluded.total_ms,
    least_ms = min(rollups.least_ms, excluded.least_ms),
    most_ms = max(rollups.most_ms, excluded.most_ms)
""",
)

# Keep events.
RECORD = for_rows(
    "at kind job node who detail action was",
    "INSERT INTO {events} (at, kind, job, node, who, detail, action, was) VALUES :rows",
)

# Have jobs wait for others.
ADD_EDGES = for_rows(
    "child parent parent_id wanted",
    "INSERT INTO {edges} (child, parent, parent_id, wanted) VALUES :rows",
)

# -- by hand --------------------------------------------------------------------

# Apply transitions to jobs that don't run, if they are still as they were read. What is put in line
# by hand is meant to run, also when the time until which it could start is over.
APPLY = for_rows(
    "state now ready run_at failures crashes reason final seq id attempt was",
    """
UPDATE {jobs} SET
    expires_at = CASE
        WHEN r.state_ = 'pending' AND expires_at <= r.now_ THEN NULL ELSE expires_at
    END,
    state = r.state_, ready = r.ready_, run_at = coalesce(r.run_at_, run_at),
    failures = r.failures_, crashes = r.crashes_, reason = r.reason_,
    parked = NULL, updated_at = r.now_, finished_at = CASE r.final_ WHEN 1 THEN r.now_ END
FROM (
    WITH given (
        state_, now_, ready_, run_at_, failures_, crashes_, reason_, final_, seq_, id_, attempt_,
        was_
    ) AS (VALUES :rows) SELECT * FROM given
) AS r
WHERE seq = r.seq_ AND +(
    id = r.id_ AND attempts = r.attempt_ AND state = r.was_ AND state <> 'processing'
)
""",
)

# Ask the nodes of runs to end them.
ASK_CANCEL = for_rows(
    "reason forced now seq id attempt",
    """
UPDATE {jobs} SET cancel_reason = r.reason_, forced = r.forced_, updated_at = r.now_
FROM (
    WITH given (reason_, forced_, now_, seq_, id_, attempt_) AS (VALUES :rows)
    SELECT * FROM given
) AS r
WHERE seq = r.seq_ AND +(id = r.id_ AND attempts = r.attempt_ AND state = 'processing')
""",
)

# -- the file ---------------------------------------------------------------------------

# The tables there are.
TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"

# Whether there are any.
TABLES_THERE = "SELECT 1 FROM sqlite_schema LIMIT 1"

# A number that is another one when another connection has committed something.
DATA_VERSION = "PRAGMA data_version"

# -- text that isn't text -----------------------------------------------------------

# All the text of waiting jobs, as bytes: what another program has put there may not be text.
TEXTS = """
SELECT seq, CAST(concat_ws(' ', id, queue, command, argv, task, cwd, env, shell, tags, unique_key,
    keys, parked, handler, backoff, node, error, reason, cancel_reason, on_success, on_failure,
    on_dead, hook, forced, body_digest, traceparent, tracestate, after, if_parent_fails, "group",
    parameters, bounds) AS BLOB),
    CAST(id AS BLOB),
    CAST(queue AS BLOB)
FROM {jobs} WHERE seq > :after AND state IN ('pending', 'failed') ORDER BY seq LIMIT :limit
"""

# Put a job that can't be read out of the way of the others. All that it held is kept as bytes.
PUT_ASIDE = """
UPDATE {jobs} SET
    data = CAST(concat_ws(char(10), 'id: ' || id, 'queue: ' || queue, 'command: ' || command,
        'argv: ' || argv, 'task: ' || task, 'cwd: ' || cwd, 'env: ' || env, 'shell: ' || shell,
        'tags: ' || tags, 'unique_key: ' || unique_key, 'keys: ' || keys, 'node: ' || node,
        'error: ' || error, 'reason: ' || reason,
        'cancel_reason: ' || cancel_reason, 'on_success: ' || on_success,
        'on_failure: ' || on_failure, 'on_dead: ' || on_dead, 'hook: ' || hook,
        'forced: ' || forced, 'body_digest: ' || body_digest,
        'traceparent: ' || traceparent, 'tracestate: ' || tracestate, 'after: ' || after,
        'group: ' || "group", 'parameters: ' || parameters, 'bounds: ' || bounds,
        'data: ' || nullif(hex(data), '')) AS BLOB),
    id = :id, queue = :queue, state = 'dead', ready = NULL, task = NULL, argv = NULL, cwd = NULL,
    handler = '',
    command = '(unreadable; its bytes are in the column data)', env = NULL, shell = NULL,
    tags = NULL, unique_key = NULL, keys = NULL, parked = NULL, node = NULL, error = NULL,
    cancel_reason = NULL, on_success = NULL, on_failure = NULL, on_dead = NULL, hook = NULL,
    forced = NULL, body_digest = NULL, traceparent = NULL, tracestate = NULL,
    after = CASE WHEN after IS NOT NULL THEN '[]' END, if_parent_fails = NULL, "group" = NULL,
    parameters = NULL, bounds = NULL,
    finished_at = :now, updated_at = :now, reason = 'it holds text that is not valid UTF-8'
WHERE seq = :seq
"""

# -- unique keys ------------------------------------------------------------------

# Write down who has unique keys now.
SET_HOLDINGS = for_rows(
    "name job starts until since",
    "INSERT OR REPLACE INTO {uniques} (name, job, starts, until, since) VALUES :rows",
)
