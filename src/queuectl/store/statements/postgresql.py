"""The statements that PostgreSQL has for itself; the others are shared.

Values of many rows are bound as one JSON text, `:rows`, and are a table there. What must hold of a
row besides its place stands in `0 <> int4(...)`: words that don't fit other indexes, and by which
it expects most rows to pass. Without statistics it would take all ready jobs for fewer than the
handful whose places are given.
"""

from queuectl.store.statements import for_rows
from queuectl.store.statements.shared import *  # noqa: F403 - a store finds all in one place
from queuectl.store.statements.shared import (
    ENQUEUE_RETURNING,
    READY_LINES,
    READY_QUEUES,
    with_line,
    with_pairs,
)

# -- the claim in one statement ------------------------------------------------------------------

# A claim is one statement. It looks whether the node's lease holds and claims the first ready jobs
# of all queues at once; no names of queues mean all, but for those that are excluded. If one of
# these queues has limits, jobs are due or have expired, or one of the first in line has crashed so
# often that it may not run beside others, it claims nothing and says so: then a claim goes step by
# step. The lease is kept, so that nobody can strike the node out before the commit, but only if
# there is something to claim. Each row tells the time, whether nothing was claimed for that reason,
# whether the node was struck out just now, and one claimed job if there is any.
_claim = """
WITH RECURSIVE /* lines */,
look AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000) AS clock, /* counters */
        EXISTS (
            SELECT 1 FROM {queues} q
            WHERE q.limits IS NOT NULL AND q.paused_at IS NULL
                AND (q.closed_until IS NULL OR q.closed_until <= :now)
                AND (CAST(:queues AS text[]) = '{{}}' OR q.name = ANY(:queues))
                AND q.name <> ALL(:excluded) AND /* waits */
        ) OR coalesce(least(
            (SELECT opens_at FROM {keys} WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1),
            (SELECT run_at FROM {jobs} WHERE ready = 0 AND parked IS NULL AND run_at >= 0
                ORDER BY run_at LIMIT 1),
            (SELECT expires_at FROM {jobs}
                WHERE ready IS NOT NULL AND expires_at IS NOT NULL AND expires_at >= 0
                ORDER BY expires_at LIMIT 1)
        ) <= :now, false) AS passed
    FROM {nodes} WHERE id = :node AND lease > 0
),
in_line AS MATERIALIZED (
    SELECT first.seq, first.crashes,
        row_number() OVER (ORDER BY priority DESC, vtime, seq) AS place
    FROM (
        SELECT first.* FROM pair CROSS JOIN LATERAL (
            SELECT priority, vtime, seq, crashes FROM {jobs}
            WHERE ready = 1 AND queue = pair.name AND handler = pair.handler
                AND (expires_at IS NULL OR expires_at > :now)
            ORDER BY priority DESC, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
        ) AS first
        WHERE pair.name NOT IN (
            SELECT q.name FROM {queues} q WHERE q.paused_at IS NOT NULL OR q.closed_until > :now
        )
            AND (CAST(:queues AS text[]) = '{{}}' OR pair.name = ANY(:queues))
            AND pair.name <> ALL(:excluded)
    ) AS first
    WHERE EXISTS (SELECT 1 FROM look WHERE NOT passed)
    ORDER BY priority DESC, vtime, seq LIMIT :limit
),
suspect AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM in_line WHERE crashes >= :crashes) AS there
),
chosen AS MATERIALIZED (
    SELECT seq, place FROM in_line WHERE NOT (SELECT there FROM suspect)
),
kept AS MATERIALIZED (
    SELECT id FROM {nodes}
    WHERE id = :node AND lease > 0 AND EXISTS (SELECT 1 FROM chosen) FOR KEY SHARE
),
run AS (
    SELECT chosen.seq AS seq_, kept.id AS node_, CAST(:now AS bigint) AS now_,
        (CAST(:workers AS bigint[]))[place] AS worker_
    FROM chosen, kept
),
claimed AS (
    UPDATE {jobs} SET
        state = 'processing', ready = NULL, attempts = attempts + 1, node = r.node_,
        worker = r.worker_, started_at = r.now_, updated_at = r.now_, finished_at = NULL,
        duration_ms = NULL, exit_code = NULL, reason = NULL, cancel_reason = NULL
    FROM run AS r WHERE seq = r.seq_ AND 0 <> int4(ready = 1)
    RETURNING {job_columns}
) /* receipt */
SELECT clock, passed OR (SELECT there FROM suspect),
    EXISTS (SELECT 1 FROM chosen) AND NOT EXISTS (SELECT 1 FROM kept), claimed.*
FROM look LEFT JOIN claimed ON true
"""


def _filled(text: str, **parts: str) -> str:
    """Put parts in their places, which are comments of their names."""
    for name, part in parts.items():
        text = text.replace(f"/* {name} */", part)
    return text


# For a node that runs commands only: a line is a queue. It has such jobs if its first handler is
# that of commands.
_of_commands = _filled(
    _claim,
    lines=f"""{with_line},
pair (name, handler) AS (
    SELECT line.name, CAST('' AS text) COLLATE "C" FROM line WHERE line.name IS NOT NULL
)""",
    waits="""(
                    SELECT j.handler FROM {jobs} j WHERE j.ready = 1 AND j.queue = q.name
                    ORDER BY j.handler LIMIT 1
                ) = ''""",
)

# For a node that has handlers: a line is a pair of a queue and a handler, and has jobs.
_of_handlers = _filled(
    _claim, lines=f"{with_line},\n{with_pairs}", waits="q.name IN (SELECT pair.name FROM pair)"
)

# As a transaction by itself, it leaves a receipt, which names the jobs, for when the answer is
# lost; no job, no receipt. As there is nothing else in the transaction, the counters needn't be
# told that they stay the same.
_alone = {
    "counters": "set_config('queuectl.counters', 'unmoved', true) AS counters,",
    "receipt": """,
receipt AS (
    INSERT INTO {receipts} (client, serial, at, claimed)
    SELECT :client, :serial, :now, array_agg(seq) FROM claimed HAVING count(*) > 0
    ON CONFLICT (client) DO UPDATE SET
        serial = CASE WHEN abs({receipts}.serial) < excluded.serial THEN excluded.serial END,
        at = excluded.at, claimed = excluded.claimed
)""",
}

CLAIM_AT_ONCE = _filled(_of_commands, counters="", receipt="")
CLAIM_ALONE = _filled(_of_commands, **_alone)
CLAIM_LINES_AT_ONCE = _filled(_of_handlers, counters="", receipt="")
CLAIM_LINES_ALONE = _filled(_of_handlers, **_alone)

# For a node that has resources or labels, too: if a job is ready that needs any, it claims nothing,
# as what fits together isn't for a statement to find.
_classes = " OR EXISTS (SELECT 1 FROM pair WHERE handler >= 'needs:' AND handler < 'needs;')"
_of_classes = _of_handlers.replace(") <= :now, false)", f") <= :now, false){_classes}")
CLAIM_CLASSES_AT_ONCE = _filled(_of_classes, counters="", receipt="")
CLAIM_CLASSES_ALONE = _filled(_of_classes, **_alone)

# What was claimed then, and is still held.
CLAIMED = """
SELECT {job_columns} FROM {jobs}
WHERE state = 'processing' AND node = :node AND seq = ANY((
    SELECT claimed FROM {receipts} WHERE client = :client AND serial = :serial
)::bigint[]) ORDER BY priority DESC, vtime, seq
"""

# -- the claim, step by step ---------------------------------------------------------

# Whether a node's lease holds; a node without one may not claim. And what the server's clock says,
# when the next waiting job becomes due, when the next expires, and when the next key opens; in each
# row with one of the queues that have ready jobs, or none; or of the lines, for a node that has
# handlers.
LOOK = f"""
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000),
    (SELECT run_at FROM {{jobs}} WHERE ready = 0 AND parked IS NULL AND run_at >= 0
        ORDER BY run_at LIMIT 1),
    (SELECT min(expires_at) FROM {{jobs}}
        WHERE ready IS NOT NULL AND expires_at IS NOT NULL AND expires_at >= 0),
    (SELECT min(opens_at) FROM {{keys}} WHERE opens_at IS NOT NULL), found.name, found.limits,
    found.handler
FROM {{nodes}} LEFT JOIN ({READY_QUEUES}) AS found ON true
WHERE id = :id AND lease > 0
"""
LOOK_LINES = LOOK.replace(READY_QUEUES, READY_LINES)

# Whether it still holds when it has claimed. From here on nobody can strike it from the register
# before the commit, and then they see what it claimed.
KEEP_LEASE = "SELECT 1 FROM {nodes} WHERE id = :id AND lease > 0 FOR KEY SHARE"

# The first ready jobs of a line, in the order of promise 5.
READY = """
SELECT priority, seq, crashes, run_at, vtime FROM {jobs}
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY priority DESC, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# The first of several lines, each up to a limit of its own; others may claim them meanwhile.
FIRST_OF_LINES = """
SELECT line.queue_, line.handler_, first.*
FROM json_to_recordset(:rows) AS line (
    queue_ text COLLATE "C", handler_ text COLLATE "C", limit_ bigint
)
CROSS JOIN LATERAL (
    SELECT priority, seq, crashes, run_at, vtime FROM {jobs}
    WHERE ready = 1 AND queue = line.queue_ AND handler = line.handler_
        AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY priority DESC, vtime, seq LIMIT line.limit_
) AS first
"""

# The same jobs with all that is stored of them, for when there is just one line to choose from.
READY_WHOLE = """
SELECT {job_columns} FROM {jobs}
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY priority DESC, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# The same jobs with what limits go by.
READY_LIMITED = """
SELECT priority, seq, crashes, run_at, vtime, keys FROM {jobs}
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY priority DESC, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# Park jobs under the keys that have no room for them.
PARK = for_rows(
    "parked seq",
    """
UPDATE {jobs} SET ready = 0, parked = r.parked_
FROM json_to_recordset(:rows) AS r (parked_ text COLLATE "C", seq_ bigint)
WHERE seq = r.seq_ AND 0 <> int4(ready = 1)
RETURNING seq
""",
)

# The first jobs of a handler that wait for a key.
FIRST_PARKED = """
SELECT seq FROM {jobs}
WHERE parked = :parked AND parked IS NOT NULL AND queue = :queue AND handler = :handler
ORDER BY priority DESC, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# Begin runs: from here on, `attempts` is the fence of each.
CLAIM = for_rows(
    "node worker now seq",
    """
UPDATE {jobs} SET
    state = 'processing', ready = NULL, attempts = attempts + 1, node = r.node_,
    worker = r.worker_, started_at = r.now_, updated_at = r.now_, finished_at = NULL,
    duration_ms = NULL, exit_code = NULL, reason = NULL, cancel_reason = NULL
FROM json_to_recordset(:rows) AS r (
    node_ text COLLATE "C", worker_ bigint, now_ bigint, seq_ bigint
)
WHERE seq = r.seq_ AND 0 <> int4(ready = 1)
RETURNING seq
""",
)

# Make due jobs ready.
PROMOTE = """
UPDATE {jobs} SET ready = 1, state = 'pending' WHERE seq = ANY(:seqs) AND 0 <> int4(ready = 0)
"""

# Store one job, and leave the receipt for that, as a transaction by itself.
ENQUEUE_ALONE = (
    """
WITH receipt AS (
    INSERT INTO {receipts} (client, serial, at) VALUES (:client, :serial, :now)
    ON CONFLICT (client) DO UPDATE SET
        serial = CASE WHEN abs({receipts}.serial) < excluded.serial THEN excluded.serial END,
        at = excluded.at
)
"""
    + ENQUEUE_RETURNING
)

# -- the end of runs --------------------------------------------------------------

# End runs, and keep the records of those that were changed. One that isn't changed has lost its
# lease: somebody else has the job, or it is gone; or others wait for it by now.
FINISH_AND_KEEP = for_rows(
    "state ready run_at failures crashes started_at settled_at final duration_ms exit_code error"
    " reason seq id attempt node host worker finished_at outcome signal stdout_bytes stderr_bytes"
    " has_children peak_memory cpu_ms read_bytes written_bytes noted",
    """
WITH ended AS (
    UPDATE {jobs} SET
        state = r.state_, ready = r.ready_, run_at = coalesce(r.run_at_, run_at),
        failures = r.failures_, crashes = r.crashes_, started_at = r.started_at_,
        updated_at = r.settled_at_,
        finished_at = CASE r.final_ WHEN 1 THEN r.settled_at_ END,
        duration_ms = r.duration_ms_, exit_code = r.exit_code_, error = r.error_,
        reason = r.reason_, cancel_reason = NULL
    FROM json_to_recordset(:rows) AS r (
        state_ text COLLATE "C", ready_ bigint, run_at_ bigint, failures_ bigint, crashes_ bigint,
        started_at_ bigint, settled_at_ bigint, final_ bigint, duration_ms_ bigint,
        exit_code_ bigint, error_ text COLLATE "C", reason_ text COLLATE "C", seq_ bigint,
        id_ text COLLATE "C", attempt_ bigint, node_ text COLLATE "C", host_ text COLLATE "C",
        worker_ bigint, finished_at_ bigint, outcome_ text COLLATE "C", signal_ bigint,
        stdout_bytes_ bigint, stderr_bytes_ bigint, has_children_ bigint, peak_memory_ bigint,
        cpu_ms_ bigint, read_bytes_ bigint, written_bytes_ bigint, noted_ text COLLATE "C"
    )
    WHERE seq = r.seq_ AND 0 <> int4(
        id = r.id_ AND attempts = r.attempt_ AND node = r.node_ AND state = 'processing'
        AND has_children = r.has_children_
    )
    RETURNING r.*
),
kept AS (
    INSERT INTO {attempts} (
        seq, number, node, host, worker, started_at, finished_at, duration_ms, outcome, exit_code,
        signal, error, stdout_bytes, stderr_bytes, peak_memory, cpu_ms, read_bytes, written_bytes,
        noted
    )
    SELECT seq_, attempt_, node_, host_, worker_, started_at_, finished_at_, duration_ms_,
        outcome_, exit_code_, signal_, error_, stdout_bytes_, stderr_bytes_, peak_memory_, cpu_ms_,
        read_bytes_, written_bytes_, noted_
    FROM ended
)
SELECT seq_ FROM ended
""",
)

# Take claims back whose runs were never started, so that their numbers stay free.
PUT_BACK = for_rows(
    "now seq id attempt node",
    """
UPDATE {jobs} SET
    state = 'pending', ready = 1, attempts = attempts - 1, node = NULL, worker = NULL,
    started_at = NULL, updated_at = r.now_
FROM json_to_recordset(:rows) AS r (
    now_ bigint, seq_ bigint, id_ text COLLATE "C", attempt_ bigint, node_ text COLLATE "C"
)
WHERE seq = r.seq_ AND 0 <> int4(
    id = r.id_ AND attempts = r.attempt_ AND node = r.node_ AND state = 'processing'
    AND cancel_reason IS NULL
)
RETURNING seq
""",
)

# Add durations to rollups.
ADD_ROLLUPS = for_rows(
    "at queue node measure bucket count total_ms least_ms most_ms",
    """
INSERT INTO {rollups} (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
SELECT at_, queue_, node_, measure_, bucket_, count_, total_ms_, least_ms_, most_ms_
FROM json_to_recordset(:rows) AS r (
    at_ bigint, queue_ text COLLATE "C", node_ text COLLATE "C", measure_ text COLLATE "C",
    bucket_ bigint, count_ bigint, total_ms_ bigint, least_ms_ bigint, most_ms_ bigint
)
ON CONFLICT (at, queue, node, measure, bucket) DO UPDATE SET
    count = {rollups}.count + excluded.count,
    total_ms = {rollups}.total_ms + excluded.total_ms,
    least_ms = least({rollups}.least_ms, excluded.least_ms),
    most_ms = greatest({rollups}.most_ms, excluded.most_ms)
""",
)

# Keep events.
RECORD = for_rows(
    "at kind job node who detail action was",
    """
INSERT INTO {events} (at, kind, job, node, who, detail, action, was)
SELECT at_, kind_, job_, node_, who_, detail_, action_, was_
FROM json_to_recordset(:rows) AS r (
    at_ bigint, kind_ text COLLATE "C", job_ text COLLATE "C", node_ text COLLATE "C",
    who_ text COLLATE "C", detail_ text COLLATE "C", action_ text COLLATE "C",
    was_ text COLLATE "C"
)
""",
)

# Have jobs wait for others.
ADD_EDGES = for_rows(
    "child parent parent_id wanted",
    """
INSERT INTO {edges} (child, parent, parent_id, wanted)
SELECT child_, parent_, parent_id_, wanted_
FROM json_to_recordset(:rows) AS r (
    child_ bigint, parent_ bigint, parent_id_ text COLLATE "C", wanted_ text COLLATE "C"
)
""",
)

# Who waits for jobs, one job after the other along the index: of a limit alone, the planner would
# think that any rows will do, and read the table from its beginning.
OPEN_EDGES = """
SELECT e.parent, e.child, e.wanted
FROM unnest(CAST(:seqs AS bigint[])) AS p (seq) CROSS JOIN LATERAL (
    SELECT parent, child, wanted FROM {edges} WHERE parent = p.seq AND came_to IS NULL
    ORDER BY child LIMIT :limit
) AS e LIMIT :limit
"""
CHILDREN = """
SELECT e.child, e.parent, e.parent_id, e.wanted, e.came_to, e.met
FROM unnest(CAST(:seqs AS bigint[])) AS p (seq) CROSS JOIN LATERAL (
    SELECT * FROM {edges} WHERE parent = p.seq ORDER BY came_to, child LIMIT :limit
) AS e LIMIT :limit
"""

# Tell some children of a parent, each by its key: of a list, the planner would go through all of
# the parent's edges and through the list for each of them.
SETTLE_EDGES = """
UPDATE {edges} SET came_to = :state, met = :met
FROM unnest(CAST(:seqs AS bigint[])) AS c (seq)
WHERE {edges}.child = c.seq AND {edges}.parent = :parent
"""

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
FROM json_to_recordset(:rows) AS r (
    state_ text COLLATE "C", now_ bigint, ready_ bigint, run_at_ bigint, failures_ bigint,
    crashes_ bigint, reason_ text COLLATE "C", final_ bigint, seq_ bigint, id_ text COLLATE "C",
    attempt_ bigint, was_ text COLLATE "C"
)
WHERE seq = r.seq_ AND 0 <> int4(
    id = r.id_ AND attempts = r.attempt_ AND state = r.was_ AND state <> 'processing'
)
RETURNING seq
""",
)

# Ask the nodes of runs to end them.
ASK_CANCEL = for_rows(
    "reason forced now seq id attempt",
    """
UPDATE {jobs} SET cancel_reason = r.reason_, forced = r.forced_, updated_at = r.now_
FROM json_to_recordset(:rows) AS r (
    reason_ text COLLATE "C", forced_ text COLLATE "C", now_ bigint, seq_ bigint,
    id_ text COLLATE "C", attempt_ bigint
)
WHERE seq = r.seq_ AND 0 <> int4(
    id = r.id_ AND attempts = r.attempt_ AND state = 'processing'
)
RETURNING seq
""",
)

# -- counters ---------------------------------------------------------------------

# How many changes of counters there are, if not too many to count.
MANY_COUNTS = "SELECT count(*) FROM (SELECT 1 FROM {counts} LIMIT :limit) AS rows_there"

# Add them up, as far as nobody else does.
FOLD = """
WITH taken AS (
    DELETE FROM {counts} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {counts} LIMIT 50000 FOR UPDATE SKIP LOCKED
    )) RETURNING queue, state, priority, jobs, timed
)
INSERT INTO {counts} SELECT queue, state, priority, sum(jobs), sum(timed) FROM taken
GROUP BY queue, state, priority HAVING sum(jobs) <> 0 OR sum(timed) <> 0
"""

# -- listings -----------------------------------------------------------------------

# Of which types a job may be. By CASE the planner takes it for half of all jobs, and goes along the
# order of the listing; of types that it takes for rare ones, it would read and sort all jobs.
WHERE_KEY = 'CAST(j."keys" AS jsonb) @> to_jsonb(CAST(:key{n} AS text))'
WHERE_TYPE = "CASE WHEN j.handler = '' THEN false ELSE j.task IN ({types}) END"

# -- the schema itself --------------------------------------------------------------

# Whether there is a table, and whether there is a schema.
TABLE_THERE = "SELECT to_regclass(:name) IS NOT NULL"
SCHEMA_THERE = "SELECT 1 FROM pg_namespace WHERE nspname = :name"

# Wait until nobody else migrates it, and keep others from it until the transaction is over.
BE_THE_ONLY_ONE = "SELECT pg_advisory_xact_lock(hashtext(:name))"

# Which server it is, what a commit is worth there, and how much space the queue takes.
INFO = """
SELECT current_setting('server_version'), current_setting('fsync'),
    current_setting('synchronous_commit'), coalesce(sum(pg_total_relation_size(c.oid)), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind = 'r'
"""

# -- the connection, and what isn't about rows --------------------------------------------

# The server's time in milliseconds.
CLOCK = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)"

# Who serves the connection, and whether a commit waits for the disk.
WHO_SERVES = "SELECT pg_backend_pid(), current_setting('synchronous_commit')"

# Tell those who listen.
NOTIFY = "SELECT pg_notify(:channel, :topic)"

# Makes a table give out numbers behind the highest one.
ADVANCE = """
SELECT setval(numbers, greatest(:highest, nextval(numbers)))
FROM (SELECT pg_get_serial_sequence(:table, 'seq')::regclass AS numbers) AS of_table
"""

# -- unique keys ------------------------------------------------------------------

# Make sure that unique keys have rows, which can be held. Waits for whoever stores one just now.
ADD_HOLDINGS = for_rows(
    "name job since",
    """
INSERT INTO {uniques} (name, job, since)
SELECT name_, job_, since_
FROM json_to_recordset(:rows) AS r (name_ text COLLATE "C", job_ text COLLATE "C", since_ bigint)
ON CONFLICT (name) DO NOTHING
""",
)

# Write down who has unique keys now.
SET_HOLDINGS = for_rows(
    "name job starts until since",
    """
INSERT INTO {uniques} (name, job, starts, until, since)
SELECT name_, job_, starts_, until_, since_
FROM json_to_recordset(:rows) AS r (
    name_ text COLLATE "C", job_ text COLLATE "C", starts_ bigint, until_ bigint, since_ bigint
)
ON CONFLICT (name) DO UPDATE SET
    job = excluded.job, starts = excluded.starts, until = excluded.until, since = excluded.since
""",
)
