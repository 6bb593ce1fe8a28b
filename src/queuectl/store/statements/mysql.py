"""The statements that MariaDB and MySQL have for themselves; the others are shared.

They have no partial indexes, and none with a descending column. So the schema has columns for
them (`due`, `expiring`, `held_by`, `keyed`, `listed`, `settled`, `slowness`, `urgency`), and
statements name these. Without statistics they may read, and lock, all jobs to find a few: so
indexes are named. `1 = (...)` keeps them from using another index: two who lock the entries of one
row in another order deadlock. Statements about many rows stand for one; `mysql.rows` makes them one
for all.
"""

from queuectl.store.statements import for_rows
from queuectl.store.statements.shared import *  # noqa: F403 - a store finds all in one place

# -- the claim ------------------------------------------------------------------

# Whether it still holds when it has claimed. From here on nobody can strike it from the register
# before the commit, and then they see what it claimed. As late as possible: renewals may have to
# wait for it.
KEEP_LEASE = """
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
FROM {nodes} WHERE id = :id AND lease > 0 LOCK IN SHARE MODE
"""

# Queues that have ready jobs which every node can run and are neither paused nor closed, with their
# limits. A recursion would read the whole index at every step: the names come from the counters.
READY_QUEUES = """
SELECT line.name, (SELECT q.limits FROM {queues} q WHERE q.name = line.name) AS limits,
    '' AS handler
FROM (SELECT DISTINCT queue AS name FROM {counts}) AS line
WHERE (
    SELECT 1 FROM {jobs} j FORCE INDEX (jobs_ready)
    WHERE j.ready = 1 AND j.queue = line.name AND j.handler = '' LIMIT 1
) = 1
    AND (
        SELECT 1 FROM {queues} q
        WHERE q.name = line.name AND (q.paused_at IS NOT NULL OR q.closed_until > :now)
    ) IS NULL
"""

# The same for a node that has handlers: lines, which are pairs of a queue and a handler. Handlers
# are a list, as JSON.
READY_LINES = """
SELECT line.name, (SELECT q.limits FROM {queues} q WHERE q.name = line.name) AS limits,
    line.handler
FROM (
    SELECT each_queue.name,
        CONVERT(named.handler USING utf8mb4) COLLATE utf8mb4_nopad_bin AS handler
    FROM (SELECT DISTINCT queue AS name FROM {counts}) AS each_queue
    CROSS JOIN
        JSON_TABLE(:handlers, '$[*]' COLUMNS (handler VARCHAR(360) PATH '$')) AS named
) AS line
WHERE (
    SELECT 1 FROM {jobs} j FORCE INDEX (jobs_ready)
    WHERE j.ready = 1 AND j.queue = line.name AND j.handler = line.handler LIMIT 1
) = 1
    AND (
        SELECT 1 FROM {queues} q
        WHERE q.name = line.name AND (q.paused_at IS NOT NULL OR q.closed_until > :now)
    ) IS NULL
"""

# The queues that have jobs, and the next handler that ready jobs of one need.
QUEUES_WITH_JOBS = "SELECT DISTINCT queue FROM {counts}"
NEXT_HANDLER = """
SELECT min(handler) FROM {jobs} FORCE INDEX (jobs_ready)
WHERE ready = 1 AND queue = :queue AND handler > :handler
"""

# The next of them, among so many ready jobs, and how many of these need each.
NEXT_HANDLERS = """
SELECT handler, count(*) FROM (
    SELECT handler FROM {jobs} FORCE INDEX (jobs_ready)
    WHERE ready = 1 AND queue = :queue AND handler > :handler ORDER BY handler LIMIT :limit
) AS next GROUP BY handler ORDER BY handler
"""

# The first of several lines, each up to a limit of its own; others may claim them meanwhile.
LINES_AT_ONCE = 32
FIRST_OF_LINES = " UNION ALL ".join(
    f"""(
    SELECT {line}, priority, seq, crashes, run_at, vtime FROM {{jobs}} FORCE INDEX (jobs_ready)
    WHERE ready = 1 AND queue = :queue{line} AND handler = :handler{line}
        AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY urgency, vtime, seq LIMIT :limit{line}
)"""
    for line in range(LINES_AT_ONCE)
)
OLDEST = """
SELECT min(run_at) FROM (
    SELECT run_at FROM {jobs} FORCE INDEX (jobs_ready)
    WHERE ready = 1 AND queue = :queue AND handler = :handler AND urgency = -:priority
    ORDER BY vtime, seq LIMIT :limit
) AS line
"""
LINE_LENGTH = """
SELECT count(*) FROM (
    SELECT 1 FROM {jobs} FORCE INDEX (jobs_ready)
    WHERE ready = 1 AND queue = :queue AND handler = :handler LIMIT :limit
) AS line
"""

# Whether a node's lease holds; a node without one may not claim. And what the server's clock says,
# when the next waiting job becomes due, when the next expires, and when the next key opens; in each
# row with one of these queues, or none.
LOOK = f"""
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
    (SELECT min(due) FROM {{jobs}} WHERE due >= 0),
    (SELECT min(expiring) FROM {{jobs}} WHERE expiring >= 0),
    (SELECT min(opens_at) FROM {{keys}} WHERE opens_at >= 0), found.name, found.limits,
    found.handler
FROM {{nodes}} LEFT JOIN ({READY_QUEUES}) AS found ON 1 = 1
WHERE id = :id AND lease > 0
"""
LOOK_LINES = LOOK.replace(READY_QUEUES, READY_LINES)

# The same queues, one in a row or none, and in each row when the next waiting job becomes due, when
# the next expires, and when the next queue and the next key open again.
OUTLOOK = f"""
SELECT (SELECT min(due) FROM {{jobs}} WHERE due >= 0),
    (SELECT min(expiring) FROM {{jobs}} WHERE expiring >= 0),
    (SELECT min(closed_until) FROM {{queues}} WHERE closed_until > :now),
    (SELECT min(opens_at) FROM {{keys}} WHERE opens_at >= 0), found.name
FROM (SELECT 1 AS one) AS always LEFT JOIN ({READY_QUEUES}) AS found ON 1 = 1
"""
OUTLOOK_LINES = OUTLOOK.replace(READY_QUEUES, READY_LINES)

# The first ready jobs of a line, in the order of promise 5. Without a lock: one on every entry of
# the index that is passed by, also on those of jobs that were claimed a moment ago, would cost more
# than all the rest of the claim ...
READY_UNLOCKED = """
SELECT priority, seq, crashes, run_at, vtime FROM {jobs} FORCE INDEX (jobs_ready)
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY urgency, vtime, seq LIMIT :limit
"""

# ... and then those of them that are still ready and that nobody else claims. All that is stored of
# one is in two columns: the driver reads the description of each column at length.
LOCK_READY = """
SELECT JSON_ARRAY({texts}), data FROM {jobs} FORCE INDEX (PRIMARY)
WHERE seq IN :seqs AND 1 = (ready = 1) ORDER BY seq FOR UPDATE SKIP LOCKED
"""

# The same jobs, locked as they are found, for when others claim at the same time ...
READY = f"{READY_UNLOCKED.rstrip()} FOR UPDATE SKIP LOCKED"

# ... and with all that is stored of them, for when there is just one line to choose from.
READY_WHOLE = """
SELECT {job_columns} FROM {jobs} FORCE INDEX (jobs_ready)
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY urgency, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# The same jobs with what limits go by.
READY_LIMITED = """
SELECT priority, seq, crashes, run_at, vtime, "keys" FROM {jobs} FORCE INDEX (jobs_ready)
WHERE ready = 1 AND queue = :queue AND handler = :handler
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY urgency, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# How many of the first in its line come before a job.
BEFORE = """
SELECT count(*) FROM (
    SELECT priority, vtime, seq FROM {jobs} FORCE INDEX (jobs_ready)
    WHERE ready = 1 AND queue = :queue AND handler = :handler
    ORDER BY urgency, vtime, seq LIMIT :limit
) AS line
WHERE priority > :priority
    OR (priority = :priority AND (vtime < :vtime OR (vtime = :vtime AND seq < :seq)))
"""

# Which workers have jobs of a queue, of which keys: its slots that are taken.
TAKEN_SLOTS = """
SELECT DISTINCT node, worker, "keys" FROM {jobs} FORCE INDEX (jobs_held)
WHERE held_by > '' AND queue = :queue
"""

# The jobs of a queue that run.
RUNNING_OF = """
SELECT seq FROM {jobs} FORCE INDEX (jobs_held) WHERE held_by > '' AND queue = :queue ORDER BY seq
"""

# Jobs of a queue that have the same keys, how many these are, and those that have waited longest.
OF_SAME_KEYS = """
SELECT seq, "keys" FROM {jobs}
WHERE queue = :queue AND "keys" = :keys AND keyed = :state AND seq > :after
ORDER BY seq LIMIT :limit
"""
COUNT_SAME_KEYS = """
SELECT count(*) FROM {jobs} WHERE queue = :queue AND "keys" = :keys AND keyed = :state
"""
LONGEST_WAITING = """
SELECT seq, "keys" FROM {jobs}
WHERE queue = :queue AND listed = :state AND state = :state AND seq > :after
ORDER BY seq LIMIT :limit
"""

# Park jobs under the keys that have no room for them.
PARK = for_rows(
    "parked seq",
    """
UPDATE {jobs} FORCE INDEX (PRIMARY) SET ready = 0, parked = :parked
WHERE seq = :seq AND 1 = (ready = 1)
""",
)

# The next key that some wait for, the next handler that some of these need, and the first jobs of
# one.
NEXT_PARKED = """
SELECT min(parked) FROM {jobs} FORCE INDEX (jobs_parked)
WHERE queue = :queue AND parked > :parked
"""
NEXT_PARKED_HANDLER = """
SELECT min(handler) FROM {jobs} FORCE INDEX (jobs_parked)
WHERE queue = :queue AND parked = :parked AND handler > :handler
"""
FIRST_PARKED = """
SELECT seq FROM {jobs} FORCE INDEX (jobs_parked)
WHERE parked = :parked AND queue = :queue AND handler = :handler
ORDER BY urgency, vtime, seq LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# How far in front the first of a line and priority is, of those in line and of those that wait for
# a key.
FIRST_READY = """
SELECT min(vtime) FROM {jobs} FORCE INDEX (jobs_ready)
WHERE ready = 1 AND queue = :queue AND handler = :handler AND urgency = -:priority
"""
FIRST_OF_KEY = """
SELECT min(vtime) FROM {jobs} FORCE INDEX (jobs_parked)
WHERE queue = :queue AND parked = :parked AND handler = :handler AND urgency = -:priority
"""

# Begin runs: from here on, `attempts` is the fence of each.
CLAIM = for_rows(
    "node worker now seq",
    """
UPDATE {jobs} FORCE INDEX (PRIMARY) SET
    state = 'processing', ready = NULL, attempts = attempts + 1, node = :node,
    worker = :worker, started_at = :now, updated_at = :now, finished_at = NULL,
    duration_ms = NULL, exit_code = NULL, reason = NULL, cancel_reason = NULL
WHERE seq = :seq AND 1 = (ready = 1)
""",
)

# Jobs that have become due, the longest due first ...
DUE = "SELECT seq FROM {jobs} WHERE due <= :now ORDER BY due LIMIT :limit FOR UPDATE SKIP LOCKED"

# ... which makes them ready.
PROMOTE = """
UPDATE {jobs} SET ready = 1, state = 'pending' WHERE seq IN :seqs AND 1 = (ready = 0)
"""

# Waiting jobs whose time to start is over.
EXPIRED = """
SELECT {job_columns} FROM {jobs}
WHERE expiring <= :now ORDER BY expiring LIMIT :limit FOR UPDATE SKIP LOCKED
"""

# -- the end of runs --------------------------------------------------------------

# End runs. One that isn't changed has lost its lease: somebody else has the job, or it is gone; or
# others wait for it by now.
FINISH = for_rows(
    "state ready run_at failures crashes started_at settled_at final duration_ms exit_code error"
    " reason seq id attempt node has_children",
    """
UPDATE {jobs} FORCE INDEX (PRIMARY) SET
    state = :state, ready = :ready, run_at = coalesce(:run_at, run_at),
    failures = :failures, crashes = :crashes, started_at = :started_at,
    updated_at = :settled_at,
    finished_at = CASE :final WHEN 1 THEN :settled_at END,
    duration_ms = :duration_ms, exit_code = :exit_code, error = :error,
    reason = :reason, cancel_reason = NULL
WHERE seq = :seq AND 1 = (
    id = :id AND attempts = :attempt AND node = :node AND state = 'processing'
    AND has_children = :has_children
)
""",
)

# The same of jobs that nobody has moved between counters meanwhile, by somebody who tells these: a
# trigger, where it runs for each row, costs as much as the change itself.
FINISH_COUNTED = for_rows(
    "state ready run_at failures crashes started_at settled_at final duration_ms exit_code error"
    " reason seq id attempt node queue priority timeout has_children",
    """
UPDATE {jobs} FORCE INDEX (PRIMARY) SET
    state = :state, ready = :ready, run_at = coalesce(:run_at, run_at),
    failures = :failures, crashes = :crashes, started_at = :started_at,
    updated_at = :settled_at,
    finished_at = CASE :final WHEN 1 THEN :settled_at END,
    duration_ms = :duration_ms, exit_code = :exit_code, error = :error,
    reason = :reason, cancel_reason = NULL, told = 1 - told
WHERE seq = :seq AND 1 = (
    id = :id AND attempts = :attempt AND node = :node AND state = 'processing'
    AND queue = :queue AND priority = :priority AND timeout <=> :timeout
    AND has_children = :has_children
)
""",
)

# Tell the counters.
ADD_COUNTS = for_rows(
    "queue state priority slot jobs timed",
    """
INSERT INTO {counts} (queue, state, priority, slot, jobs, timed)
VALUES (:queue, :state, :priority, :slot, :jobs, :timed)
ON DUPLICATE KEY UPDATE jobs = jobs + VALUES(jobs), timed = timed + VALUES(timed)
""",
)

# Keep the records of runs.
KEEP_ATTEMPTS = for_rows(
    "seq attempt node host worker started_at finished_at duration_ms outcome exit_code signal error"
    " stdout_bytes stderr_bytes peak_memory cpu_ms read_bytes written_bytes noted",
    """
INSERT INTO {attempts} (
    seq, number, node, host, worker, started_at, finished_at, duration_ms, outcome, exit_code,
    "signal", error, stdout_bytes, stderr_bytes, peak_memory, cpu_ms, read_bytes, written_bytes,
    noted
) VALUES (:seq, :attempt, :node, :host, :worker, :started_at, :finished_at, :duration_ms,"""
    " :outcome, :exit_code, :signal, :error, :stdout_bytes, :stderr_bytes, :peak_memory, :cpu_ms,"
    " :read_bytes, :written_bytes, :noted)",
)

# Take claims back whose runs were never started, so that their numbers stay free.
PUT_BACK = for_rows(
    "now seq id attempt node",
    """
UPDATE {jobs} FORCE INDEX (PRIMARY) SET
    state = 'pending', ready = 1, attempts = attempts - 1, node = NULL, worker = NULL,
    started_at = NULL, updated_at = :now
WHERE seq = :seq AND 1 = (
    id = :id AND attempts = :attempt AND node = :node AND state = 'processing'
    AND cancel_reason IS NULL
)
""",
)

# Add durations to rollups.
ADD_ROLLUPS = for_rows(
    "at queue node measure bucket count total_ms least_ms most_ms",
    """
INSERT INTO {rollups} (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
VALUES (:at, :queue, :node, :measure, :bucket, :count, :total_ms, :least_ms, :most_ms)
ON DUPLICATE KEY UPDATE
    count = {rollups}.count + VALUES(count),
    total_ms = {rollups}.total_ms + VALUES(total_ms),
    least_ms = least({rollups}.least_ms, VALUES(least_ms)),
    most_ms = greatest({rollups}.most_ms, VALUES(most_ms))
""",
)

# Keep events.
RECORD = for_rows(
    "at kind job node who detail action was",
    """
INSERT INTO {events} (at, kind, job, node, who, detail, action, was)
VALUES (:at, :kind, :job, :node, :who, :detail, :action, :was)
""",
)

# Have jobs wait for others.
ADD_EDGES = for_rows(
    "child parent parent_id wanted",
    """
INSERT INTO {edges} (child, parent, parent_id, wanted)
VALUES (:child, :parent, :parent_id, :wanted)
""",
)

# -- by hand --------------------------------------------------------------------

# Apply transitions to jobs that don't run, if they are still as they were read. What is put in line
# by hand is meant to run, also when the time until which it could start is over.
APPLY = for_rows(
    "state now ready run_at failures crashes reason final seq id attempt was",
    """
UPDATE {jobs} FORCE INDEX (PRIMARY) SET
    expires_at = CASE
        WHEN :state = 'pending' AND expires_at <= :now THEN NULL ELSE expires_at
    END,
    state = :state, ready = :ready, run_at = coalesce(:run_at, run_at),
    failures = :failures, crashes = :crashes, reason = :reason,
    parked = NULL, updated_at = :now, finished_at = CASE :final WHEN 1 THEN :now END
WHERE seq = :seq AND 1 = (
    id = :id AND attempts = :attempt AND state = :was AND state <> 'processing'
)
""",
)

# Ask the nodes of runs to end them.
ASK_CANCEL = for_rows(
    "reason forced now seq id attempt",
    """
UPDATE {jobs} FORCE INDEX (PRIMARY)
SET cancel_reason = :reason, forced = :forced, updated_at = :now
WHERE seq = :seq AND 1 = (id = :id AND attempts = :attempt AND state = 'processing')
""",
)

# -- where a column of the schema stands for an index -----------------------------------

# Jobs that run: they are few, and have an index of their own.
SELECT_RUNNING = """
SELECT j.seq FROM {jobs} j FORCE INDEX (jobs_held) WHERE j.held_by >= '' AND {conditions}
ORDER BY j.seq {direction} LIMIT :limit
"""
WHERE_STATE = "j.listed = :state"

# Those that run are listed among them. In words that need nothing but indexes: with a look at each
# job, more of them are read.
WHERE_PENDING = """
j.listed = :state AND j.seq NOT IN (SELECT r.seq FROM {jobs} r WHERE r.held_by >= '')
"""
WHERE_KEY = 'JSON_CONTAINS(j."keys", JSON_QUOTE(:key{n}))'
COUNTS = """
SELECT queue, state, priority, sum(jobs), sum(timed) FROM {counts}
GROUP BY queue, state, priority
UNION ALL
SELECT queue, NULL, priority, count(*), count(CASE WHEN timeout > 0 THEN 1 END)
FROM {jobs} WHERE held_by >= '' GROUP BY queue, priority
"""
SLOWEST = """
SELECT seq FROM {jobs} WHERE slowness IS NOT NULL ORDER BY slowness DESC LIMIT :limit
"""
RUNNING_OF_GROUPS = """
SELECT "group" FROM {jobs} FORCE INDEX (jobs_held) WHERE held_by >= ''
"""
HELD = "SELECT {job_columns} FROM {jobs} WHERE held_by = :node ORDER BY seq"
USING = """
SELECT held_by, started_at, handler, devices FROM {jobs} FORCE INDEX (jobs_held)
WHERE held_by >= '' AND handler >= 'needs:' AND handler < 'needs;'
"""
BUSY = """
SELECT held_by, count(DISTINCT worker) FROM {jobs} FORCE INDEX (jobs_held)
WHERE held_by >= '' GROUP BY held_by
"""
STRAYS = """
SELECT {job_columns} FROM {jobs}
WHERE held_by > '' AND node NOT IN (SELECT n.id FROM {nodes} n)
ORDER BY held_by, seq
"""
TO_CANCEL = """
SELECT {job_columns} FROM {jobs} WHERE held_by = :node AND cancel_reason IS NOT NULL ORDER BY seq
"""
OLD = """
SELECT seq FROM {jobs} WHERE settled = :state AND finished_at < :before
ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED
"""
PRUNABLE = "SELECT count(*) FROM {jobs} WHERE settled = :state AND finished_at < :before"

# -- counters ---------------------------------------------------------------------

# Counters are spread over slots; those that nobody has just now ...
SPREAD = """
SELECT queue, state, priority, slot, jobs, timed FROM {counts} FOR UPDATE SKIP LOCKED
"""

# ... are added to another slot ...
ADD_COUNT = """
UPDATE {counts} SET jobs = jobs + :jobs, timed = timed + :timed
WHERE queue = :queue AND state = :state AND priority = :priority AND slot = :slot
"""

# ... and go.
DROP_COUNT = """
DELETE FROM {counts}
WHERE queue = :queue AND state = :state AND priority = :priority AND slot = :slot
"""

# -- the schema itself --------------------------------------------------------------

# Whether there is a table.
TABLE_THERE = """
SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :name
"""

# Wait until nobody else migrates it, and keep others from it until that is released.
GET_LOCK = "SELECT GET_LOCK(:name, :within)"
RELEASE_LOCK = "SELECT RELEASE_LOCK(:name)"

# Which server it is, what a commit is worth there, and how much it takes at once.
INFO = "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@max_allowed_packet"

# How much space the queue takes.
SIZE = """
SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables
WHERE table_schema = DATABASE() AND LEFT(table_name, :n) = :prefix
"""

# -- the connection, and what isn't about rows --------------------------------------------

# The server's time in milliseconds.
CLOCK = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"

# Which database a connection is to, and how many bytes the server takes at once.
DATABASE = "SELECT DATABASE()"
PACKET = "SELECT @@max_allowed_packet"

# -- unique keys ------------------------------------------------------------------

# Make sure that unique keys have rows, and hold them. Waits for whoever stores one just now.
ADD_HOLDINGS = for_rows(
    "name job since",
    """
INSERT INTO {uniques} (name, job, since) VALUES (:name, :job, :since)
ON DUPLICATE KEY UPDATE name = VALUES(name)
""",
)

# Write down who has unique keys now.
SET_HOLDINGS = for_rows(
    "name job starts until since",
    """
INSERT INTO {uniques} (name, job, starts, until, since)
VALUES (:name, :job, :starts, :until, :since)
ON DUPLICATE KEY UPDATE
    job = VALUES(job), starts = VALUES(starts), until = VALUES(until), since = VALUES(since)
""",
)
