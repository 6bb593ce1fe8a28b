"""Every SQL statement, each with a name and a sentence. A reader finds every query here.

Holes in braces are filled by the dialect: table names (`{jobs}`, `{attempts}`, ...), column lists,
and what databases say differently. Values are always bound, as `:name`. Words that a database
keeps for itself are in double quotes. Blanks like `<this>` tell statements of one kind apart.
"""


def _with(statement: str, **parts: str) -> str:
    """Return a statement of a kind, with its blanks filled."""
    for name, part in parts.items():
        before, blank, after = statement.partition(f"<{name}>")
        if not blank:
            raise ValueError(f"there is no <{name}> in {statement}")
        statement = before + part + after
    return statement


# -- jobs -----------------------------------------------------------------------

# The columns of a new job: first what each has for itself, then what many share, as `NewRow` has
# them. The database gives `seq`: its place in the line.
NEW_JOB = (
    "id, command, argv, queue, state, ready, priority, run_at, cwd, env, env_all, shell"
    ", stdin_bytes, tags, expires_at, timeout, max_retries, backoff, backoff_base, retry_delay"
    ", max_backoff, created_at, updated_at"
)

# Store jobs; the store adds a place for each value of each.
ENQUEUE = f"INSERT INTO {{jobs}} ({NEW_JOB}) VALUES "

# Store one job ...
ENQUEUE_ONE = f"{ENQUEUE}(:{NEW_JOB.replace(', ', ', :')})"

# ... and return its place in the line, where a database can do that.
ENQUEUE_RETURNING = ENQUEUE_ONE + " RETURNING seq"

# Keep a piece of what the runs of a job find on stdin.
ADD_INPUT = """
INSERT INTO {inputs} (seq, start, data) SELECT seq, :start, :data FROM {jobs} WHERE id = :id
"""

# All pieces of that.
INPUT = "SELECT data FROM {inputs} WHERE seq = :seq ORDER BY start"

# One job by its id.
GET = "SELECT {job_columns} FROM {jobs} WHERE id = :id"

# Ids that begin with a prefix.
IDS_LIKE = "SELECT id FROM {jobs} WHERE id >= :prefix AND id < :beyond ORDER BY id LIMIT :limit"

# The next tag in order, below an end. Asked again and again, it finds tags without reading all
# the jobs that have them.
NEXT_TAG = "SELECT MIN(tag) FROM {tags} WHERE tag > :tag AND tag < :end"

# Which of these ids exist, and their states.
STATES = "SELECT id, state FROM {jobs} WHERE id {in_ids}"

# Jobs by their place in the line.
JOBS_AT = "SELECT {job_columns} FROM {jobs} WHERE seq {in_seqs} ORDER BY seq"

# The same, as they are now, and nobody else changes them until the transaction is over.
LOCK_JOBS = JOBS_AT + "{row_lock}"

# Places in the line of jobs that fit; the store adds conditions, order and limit.
_SELECT = "SELECT j.seq FROM {jobs} j<of> {conditions} ORDER BY j.seq {direction} LIMIT :limit"
SELECT = _with(_SELECT, of=" WHERE")

# The same for jobs that run. They are few: where no other index has them by their state, they are
# found by their nodes and sorted.
SELECT_RUNNING = _with(_SELECT, of="{by_holder} WHERE {is_running} AND")

# The same for jobs with a tag, along the tag's own index. Each job is looked at by itself: of a
# join, a server that knows nothing yet about the tables would make a scan of all jobs.
SELECT_TAGGED = """
SELECT t.seq FROM {tags} t
WHERE t.tag = :tag0 AND {page}
    AND (SELECT true FROM {jobs} j WHERE j.seq = t.seq AND {conditions})
ORDER BY t.seq {direction} LIMIT :limit
"""

# Places in the line of jobs that fit, sorted by columns that the store names. No index has them so:
# all that fit are looked at, and as many kept as are wanted.
SELECT_SORTED = "SELECT j.seq FROM {jobs} j WHERE {conditions} ORDER BY {order} LIMIT :limit"

# Conditions for these four.
WHERE_STATE = "j.{listed} = :state"
WHERE_PENDING = WHERE_STATE + "{not_running}"
WHERE_QUEUE = "j.queue = :queue"
WHERE_AFTER = "j.seq > :after"
WHERE_BEFORE = "j.seq < :after"
WHERE_TAG_AFTER = "t.seq > :after"
WHERE_TAG_BEFORE = "t.seq < :after"
WHERE_SINCE = "created_at >= :since"
WHERE_UNTIL = "created_at < :until"
WHERE_FINISHED_SINCE = "finished_at >= :finished_since"
WHERE_FINISHED_BEFORE = "finished_at < :finished_before"
WHERE_IN_TAG = "j.seq IN (SELECT y.seq FROM {tags} y WHERE y.tag = :tag0)"
WHERE_TAGGED = "EXISTS (SELECT 1 FROM {tags} x WHERE x.tag = :tag{n} AND x.seq = j.seq)"
WHERE_TEXT = """(
    {contains_text[j.id]} OR {contains_text[j.command]} OR {contains_text[j.error]}
    OR {contains_text[j.reason]} OR {contains_quoted[j.argv]}
)"""

# How many jobs share a queue, state and priority. Where writers would queue up for one counter,
# each has its own, or adds a row; what counts is the sum. Running jobs are among the pending ones,
# so that a claim has nothing to count. In one statement, which sees both as they are at one moment,
# those that run are counted by themselves, under no state.
COUNTS = """
SELECT queue, state, priority, sum(jobs), sum(timed) FROM {counts}
GROUP BY queue, state, priority
UNION ALL
SELECT queue, NULL, priority, count(*), count(CASE WHEN timeout > 0 THEN 1 END)
FROM {jobs} WHERE {held_by} >= '' GROUP BY queue, priority
"""

# Counters that came down to nothing.
DROP_EMPTY_COUNTS = "DELETE FROM {counts} WHERE jobs = 0 AND timed = 0"

# Completed jobs whose run took longest.
SLOWEST = """
SELECT {job_columns} FROM {jobs} WHERE {is_slow}{slowness} IS NOT NULL
ORDER BY {slowness} DESC LIMIT :limit
"""

# When the next waiting job becomes due.
NEXT_DUE = "SELECT min({due}) FROM {jobs} WHERE {is_due}{due} >= 0"

# -- running --------------------------------------------------------------------

# Jobs that have become due, the longest due first ...
DUE = """
SELECT seq FROM {jobs} WHERE {is_due}{due} <= :now
ORDER BY {due} LIMIT :limit{skip_locked}
"""

# ... which makes them ready.
PROMOTE = "UPDATE {jobs} SET ready = 1, state = 'pending' WHERE seq {in_seqs} {and_also}(ready = 0)"

# Waiting jobs whose time to start is over.
EXPIRED = """
SELECT {job_columns} FROM {jobs}
WHERE {is_expiring}{expires} <= :now ORDER BY {expires} LIMIT :limit{skip_locked}
"""

# Queues that have ready jobs and aren't paused: one step in the index for each queue.
_LINES = """
WITH RECURSIVE line (name) AS (
    SELECT (SELECT queue FROM {jobs} WHERE ready = 1 ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT queue FROM {jobs} WHERE ready = 1 AND queue > line.name ORDER BY queue LIMIT 1
    ) FROM line WHERE line.name IS NOT NULL
)
"""
_OPEN_LINE = """
WHERE line.name IS NOT NULL
    AND line.name NOT IN (SELECT q.name FROM {queues} q WHERE q.paused_at IS NOT NULL)
"""
READY_QUEUES = _LINES + "SELECT name FROM line" + _OPEN_LINE

# The same where a recursion reads the whole index at every step: the names come from the counters.
READY_QUEUES_COUNTED = """
SELECT line.name FROM (SELECT DISTINCT queue AS name FROM {counts}) AS line
WHERE (
    SELECT 1 FROM {jobs} j{by_readiness} WHERE j.ready = 1 AND j.queue = line.name LIMIT 1
) = 1
    AND (SELECT q.paused_at FROM {queues} q WHERE q.name = line.name) IS NULL
"""

# The same queues, one in a row or none, and in each row when the next waiting job becomes due and
# when the next expires.
_OUTLOOK = """
SELECT (SELECT min({due}) FROM {jobs} WHERE {is_due}{due} >= 0),
    (SELECT min({expires}) FROM {jobs} WHERE {is_expiring}{expires} >= 0), found.name
FROM (SELECT 1 AS one) AS always LEFT JOIN (<ready_queues>) AS found ON 1 = 1
"""
OUTLOOK = _LINES + _with(_OUTLOOK, ready_queues="SELECT name FROM line" + _OPEN_LINE)
OUTLOOK_COUNTED = _with(_OUTLOOK, ready_queues=READY_QUEUES_COUNTED)

# The first ready jobs of a queue, in the order of promise 5.
_FIRST_OF = """
SELECT <seen> FROM {jobs}{by_readiness}
WHERE ready = 1 AND queue = <queue> AND (expires_at IS NULL OR expires_at > :now)
ORDER BY {by_urgency} LIMIT :limit<lock>
"""
_IN_LINE = "priority, seq, crashes, run_at"
READY = _with(_FIRST_OF, seen=_IN_LINE, queue=":queue", lock="{skip_locked}")

# The same jobs with all that is stored of them, for when there is just one queue to choose from.
READY_WHOLE = _with(_FIRST_OF, seen="{job_columns}", queue=":queue", lock="{skip_locked}")

# Those of a queue where a lock on every entry of the index that is passed by, also on those of jobs
# that were claimed a moment ago, would cost more than all the rest of the claim ...
READY_UNLOCKED = _with(_FIRST_OF, seen=_IN_LINE, queue=":queue", lock="")

# ... and then those of them that are still ready and that nobody else claims. All that is stored of
# one is in two columns: some drivers read the description of each column at length.
LOCK_READY = """
SELECT JSON_ARRAY({texts}), data FROM {jobs}{by_place}
WHERE seq {in_seqs} {and_also}(ready = 1) ORDER BY seq{skip_locked}
"""

# Whether a node's lease holds; a node without one may not claim. And what the server's clock says,
# when the next waiting job becomes due, and when the next expires.
LOOK = """
SELECT {clock},
    (SELECT min({due}) FROM {jobs} WHERE {is_due}{due} >= 0),
    (SELECT min({expires}) FROM {jobs} WHERE {is_expiring}{expires} >= 0)
FROM {nodes} WHERE id = :id AND {lease_holds}
"""

# Whether it still holds when it has claimed. From here on nobody can strike it from the register
# before the commit, and then they see what it claimed. As late as possible: renewals may have to
# wait for it.
KEEP_LEASE = "SELECT {clock} FROM {nodes} WHERE id = :id AND {lease_holds}{share_lock}"

# Begin runs: from here on, `attempts` is the fence of each.
_CLAIM = """
UPDATE {jobs}{by_place} SET
    state = 'processing', ready = NULL, attempts = attempts + 1, node = {row[node]},
    worker = {row[worker]}, started_at = {row[now]}, updated_at = {row[now]}, finished_at = NULL,
    duration_ms = NULL, exit_code = NULL, reason = NULL, cancel_reason = NULL
<from_rows>WHERE seq = {row[seq]} {and_also}(ready = 1){returning_claimed}
"""
CLAIM = _with(_CLAIM, from_rows="{from_rows}")

# All of that in one statement, where a database can do it: look, and unless jobs are due or expired
# by the time `heed`, claim the first ready ones of all queues at once; no names of queues mean all.
# Of the jobs in line, those before the first suspect are chosen; and that one, if it is the very
# first and nothing runs. The lease is kept only if there is something to claim. Each row tells what
# was seen, whether the node was struck out just now, and one claimed job if there is any.
_CLAIM_FIRST = (
    _LINES.rstrip()
    + f""",
look AS MATERIALIZED (
    SELECT {{clock}} AS clock,<counted>
        (SELECT min({{due}}) FROM {{jobs}} WHERE {{is_due}}{{due}} >= 0) AS due,
        (SELECT min({{expires}}) FROM {{jobs}} WHERE {{is_expiring}}{{expires}} >= 0) AS expires
    FROM {{nodes}} WHERE id = :node AND {{lease_holds}}
),
in_line AS (
    SELECT first.seq, row_number() OVER urgency AS place,
        count(*) FILTER (WHERE crashes >= :crashes AND run_at >= :since) OVER urgency AS suspects
    FROM (
        SELECT first.* FROM line CROSS JOIN LATERAL (
            {_with(_FIRST_OF, seen=_IN_LINE, queue="line.name", lock="{skip_locked}")}
        ) AS first
        {_OPEN_LINE} AND (CAST(:queues AS text[]) = '{{{{}}}}' OR line.name = ANY(:queues))
    ) AS first
    WHERE EXISTS (SELECT 1 FROM look WHERE least(due, expires, :heed + 1) > :heed)
    WINDOW urgency AS (ORDER BY priority DESC, seq)
),
chosen AS MATERIALIZED (
    SELECT seq, place FROM in_line
    WHERE place <= :limit AND (suspects = 0 OR (:idle AND place = 1))
),
kept AS MATERIALIZED (
    SELECT id FROM {{nodes}}
    WHERE id = :node AND {{lease_holds}} AND EXISTS (SELECT 1 FROM chosen){{share_lock}}
),
run AS (
    SELECT chosen.seq AS seq_, kept.id AS node_, CAST(:now AS bigint) AS now_,
        (CAST(:workers AS bigint[]))[place] AS worker_
    FROM chosen, kept
),
claimed AS ({_with(_CLAIM, from_rows="FROM run AS r ")})<receipt>
SELECT clock, due, expires,
    EXISTS (SELECT 1 FROM chosen) AND NOT EXISTS (SELECT 1 FROM kept), claimed.*
FROM look LEFT JOIN claimed ON true
"""
)
CLAIM_FIRST = _with(_CLAIM_FIRST, counted="", receipt="")

# All the text of waiting jobs, as bytes: what another program has put there may not be text.
TEXTS = """
SELECT seq, CAST(concat_ws(' ', id, queue, command, argv, task, cwd, env, shell, tags, unique_key,
    backoff, node, error, reason, cancel_reason) AS BLOB), CAST(id AS BLOB), CAST(queue AS BLOB)
FROM {jobs} WHERE seq > :after AND state IN ('pending', 'failed') ORDER BY seq LIMIT :limit
"""

# Put a job that can't be read out of the way of the others. All that it held is kept as bytes.
PUT_ASIDE = """
UPDATE {jobs} SET
    data = CAST(concat_ws(char(10), 'id: ' || id, 'queue: ' || queue, 'command: ' || command,
        'argv: ' || argv, 'task: ' || task, 'cwd: ' || cwd, 'env: ' || env, 'shell: ' || shell,
        'tags: ' || tags,
        'unique_key: ' || unique_key, 'node: ' || node, 'error: ' || error, 'reason: ' || reason,
        'cancel_reason: ' || cancel_reason, 'data: ' || nullif(hex(data), '')) AS BLOB),
    id = :id, queue = :queue, state = 'dead', ready = NULL, task = NULL, argv = NULL, cwd = NULL,
    command = '(unreadable; its bytes are in the column data)', env = NULL, shell = NULL,
    tags = NULL, unique_key = NULL, node = NULL, error = NULL, cancel_reason = NULL,
    finished_at = :now, updated_at = :now, reason = 'it holds text that is not valid UTF-8'
WHERE seq = :seq
"""

# End runs. One that isn't changed has lost its lease: somebody else has the job, or it is gone.
_FINISH = """
UPDATE {jobs}{by_place} SET
    state = {row[state]}, ready = {row[ready]}, run_at = coalesce({row[run_at]}, run_at),
    failures = {row[failures]}, crashes = {row[crashes]}, started_at = {row[started_at]},
    updated_at = {row[settled_at]},
    finished_at = CASE {row[final]} WHEN 1 THEN {row[settled_at]} END,
    duration_ms = {row[duration_ms]}, exit_code = {row[exit_code]}, error = {row[error]},
    reason = {row[reason]}, cancel_reason = NULL<told>
{from_rows}WHERE seq = {row[seq]} {and_also}(
    id = {row[id]} AND attempts = {row[attempt]} AND node = {row[node]} AND state = 'processing'
<unmoved>)<returning>
"""
FINISH = _with(_FINISH, told="", unmoved="", returning="{returning_seq}")

# The same of jobs that nobody has moved between counters meanwhile, by somebody who tells these: a
# trigger, where it runs for each row, costs as much as the change itself.
FINISH_COUNTED = _with(
    _FINISH,
    told=", told = 1 - told",
    unmoved="""
    AND queue = {row[queue]} AND priority = {row[priority]} AND timeout <=> {row[timeout]}
""",
    returning="{returning_seq}",
)
ADD_COUNTS = """
INSERT INTO {counts} (queue, state, priority, slot, jobs, timed)
{each[queue, state, priority, slot, jobs, timed]}
ON DUPLICATE KEY UPDATE jobs = jobs + VALUES(jobs), timed = timed + VALUES(timed)
"""

# Take claims back whose runs were never started, so that their numbers stay free.
PUT_BACK = """
UPDATE {jobs}{by_place} SET
    state = 'pending', ready = 1, attempts = attempts - 1, node = NULL, worker = NULL,
    started_at = NULL, updated_at = {row[now]}
{from_rows}WHERE seq = {row[seq]} {and_also}(
    id = {row[id]} AND attempts = {row[attempt]} AND node = {row[node]} AND state = 'processing'
    AND cancel_reason IS NULL
){returning_seq}
"""

# Keep the records of runs.
_KEEP_ATTEMPTS = """
INSERT INTO {attempts} (
    seq, number, node, host, worker, started_at, finished_at, duration_ms, outcome, exit_code,
    "signal", error, stdout_bytes, stderr_bytes
) <each>[
    seq, attempt, node, host, worker, started_at, finished_at, duration_ms, outcome, exit_code,
    signal, error, stdout_bytes, stderr_bytes
]}
"""
KEEP_ATTEMPTS = _with(_KEEP_ATTEMPTS, each="{each")

# End runs and keep the records of those that were changed, where a database can do both at once.
FINISH_AND_KEEP = f"""
WITH ended AS ({_with(_FINISH, told="", unmoved="", returning=" RETURNING r.*")}),
kept AS ({_with(_KEEP_ATTEMPTS, each="{each_ended")})
SELECT {{row[seq]}} FROM ended AS r
"""

# Keep what it wrote.
KEEP_OUTPUT = """
INSERT INTO {outputs} (seq, number, stdout, stderr) VALUES (:seq, :attempt, :stdout, :stderr)
"""

# Add durations to rollups.
ADD_ROLLUPS = """
INSERT INTO {rollups} (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
{each[at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms]}
{on_conflict[at, queue, node, measure, bucket]}
    count = {rollups}.count + {excluded[count]},
    total_ms = {rollups}.total_ms + {excluded[total_ms]},
    least_ms = {least}({rollups}.least_ms, {excluded[least_ms]}),
    most_ms = {greatest}({rollups}.most_ms, {excluded[most_ms]})
"""

# What a node has in processing.
HELD = "SELECT {job_columns} FROM {jobs} WHERE {held_by} = :node ORDER BY seq"

# What is in processing on a node that nobody knows (any more).
STRAYS = """
SELECT {job_columns} FROM {jobs}
WHERE {held_by} > '' AND node NOT IN (SELECT n.id FROM {nodes} n)
"""

# Who these nodes are.
STRAYED_FROM = """
SELECT DISTINCT node FROM {jobs}
WHERE {held_by} > '' AND node NOT IN (SELECT n.id FROM {nodes} n)
"""

# What of it somebody wants cancelled.
TO_CANCEL = """
SELECT {job_columns} FROM {jobs}
WHERE {held_by} = :node AND cancel_reason IS NOT NULL ORDER BY seq
"""

# -- by hand --------------------------------------------------------------------

# Apply transitions to jobs that don't run, if they are still as they were read. What is put in line
# by hand is meant to run, also when the time until which it could start is over.
APPLY = """
UPDATE {jobs}{by_place} SET
    expires_at = CASE
        WHEN {row[state]} = 'pending' AND expires_at <= {row[now]} THEN NULL ELSE expires_at
    END,
    state = {row[state]}, ready = {row[ready]}, run_at = coalesce({row[run_at]}, run_at),
    failures = {row[failures]}, crashes = {row[crashes]}, reason = {row[reason]},
    updated_at = {row[now]}, finished_at = CASE {row[final]} WHEN 1 THEN {row[now]} END
{from_rows}WHERE seq = {row[seq]} {and_also}(
    id = {row[id]} AND attempts = {row[attempt]} AND state = {row[was]} AND state <> 'processing'
){returning_seq}
"""

# Ask the nodes of runs to end them.
ASK_CANCEL = """
UPDATE {jobs}{by_place} SET cancel_reason = {row[reason]}, updated_at = {row[now]}
{from_rows}WHERE seq = {row[seq]} {and_also}(
    id = {row[id]} AND attempts = {row[attempt]} AND state = 'processing'
){returning_seq}
"""

# Delete jobs; triggers take their attempts along. Whoever does that holds them, so that they stay
# as he has seen them.
REMOVE = "DELETE FROM {jobs} WHERE seq {in_seqs}"

# The jobs that have been in a final state longest. They are held: nobody can put them back in line
# before they are deleted.
OLD = """
SELECT seq FROM {jobs} WHERE {settled} = :state AND finished_at < :before
ORDER BY finished_at LIMIT :limit{skip_locked}
"""

# How many that would be in all.
PRUNABLE = "SELECT count(*) FROM {jobs} WHERE {settled} = :state AND finished_at < :before"

# -- attempts -------------------------------------------------------------------

# The runs of a job that are over.
ATTEMPTS = """
SELECT number, node, host, worker, started_at, finished_at, duration_ms, outcome, exit_code,
    "signal", error, stdout_bytes, stderr_bytes
FROM {attempts} WHERE seq = :seq ORDER BY number
"""

# What one of them wrote.
OUTPUT = """
SELECT o.stdout, o.stderr, a.stdout_bytes, a.stderr_bytes
FROM {attempts} a LEFT JOIN {outputs} o ON o.seq = a.seq AND o.number = a.number
WHERE a.seq = :seq AND a.number = :number
"""

# -- the output of a run while it goes on -----------------------------------------

# Make sure that a run has a row for those who watch it ...
ADD_WATCH = """
INSERT INTO {watches} (seq, number, until) VALUES (:seq, :number, 0)
{on_conflict[seq, number]} until = {watches}.until
"""

# ... and begin to watch it. Zero rows mean that somebody else watches it already ...
BEGIN_WATCH = """
UPDATE {watches} SET until = :until WHERE seq = :seq AND number = :number AND until <= :now
"""

# ... so that this is enough.
EXTEND_WATCH = "UPDATE {watches} SET until = :until WHERE seq = :seq AND number = :number"

# Which runs of these jobs are watched.
WATCHED = "SELECT seq, number, until FROM {watches} WHERE seq {in_seqs} AND until > :now"

# Show a piece of output.
ADD_LIVE = """
INSERT INTO {live} (seq, number, stream, start, data)
VALUES (:seq, :number, :stream, :start, :data)
{on_conflict[seq, number, stream, start]} data = {excluded[data]}
"""

# Pieces that somebody who has read a stream up to `after` has yet to read. None is longer than
# `longest`, so the index leads to the first of them.
LIVE = """
SELECT start, data FROM {live}
WHERE seq = :seq AND number = :number AND stream = :stream AND start > :after - :longest
    AND (start = :after OR start + length(data) > :after)
ORDER BY start LIMIT :limit
"""

# Take pieces from the middle of a stream.
TRIM_LIVE = """
DELETE FROM {live} WHERE seq = :seq AND number = :number AND stream = :stream
    AND start >= :first AND start < :before
"""

# Take away what was shown of a run.
DROP_LIVE = "DELETE FROM {live} WHERE seq = :seq AND number = :number"

# Nobody watches a run that is over.
DROP_WATCH = "DELETE FROM {watches} WHERE seq = :seq AND number = :number"

# Those who watched until a time that has passed ...
DROP_STALE_WATCHES = "DELETE FROM {watches} WHERE until <= :now"

# ... and what nobody watches any more.
DROP_STALE_LIVE = """
DELETE FROM {live} WHERE NOT EXISTS (
    SELECT 1 FROM {watches} w WHERE w.seq = {live}.seq AND w.number = {live}.number
)
"""

# -- nodes ----------------------------------------------------------------------

# Make a node known.
REGISTER = """
INSERT INTO {nodes} (
    id, host, boot, pid, pid_start, workers, queues, spool, version, started_at, seen_at,
    lease_until, lease
) VALUES (
    :id, :host, :boot, :pid, :pid_start, :workers, :queues, :spool, :version, :started_at,
    :seen_at, :lease_until, :lease
)
"""

# Extend a lease that still holds. Zero rows mean that it is lost, which is final.
RENEW = """
UPDATE {nodes} SET seen_at = :now, lease_until = :until, lease = :lease, beat = beat + 1
WHERE id = :id AND {lease_holds}
"""

# Strike a node from the register.
FORGET = "DELETE FROM {nodes} WHERE id = :id"

# The same, if it has shown no life since.
FORGET_SILENT = "DELETE FROM {nodes} WHERE id = :id AND beat = :beat"

# All registered nodes.
NODES = """
SELECT id, host, boot, pid, pid_start, workers, queues, spool, version, started_at, seen_at,
    lease_until, stop, lease, beat
FROM {nodes} ORDER BY started_at, id
"""

# Say anew how many workers a node has, and its version.
DESCRIBE = "UPDATE {nodes} SET workers = :workers, version = :version WHERE id = :id"

# Ask a node to stop; a stronger request isn't weakened.
ASK_STOP = """
UPDATE {nodes} SET stop = CASE WHEN stop = 'release' THEN stop ELSE :how END WHERE id = :id
"""

# -- queues, settings, history --------------------------------------------------

# Queues on which something was set.
QUEUES = "SELECT name, paused_at, paused_by FROM {queues} ORDER BY name"

# Make sure that a queue has a row.
ADD_QUEUE = "INSERT INTO {queues} (name) VALUES (:name) {or_nothing[name]}"

# Pause a queue that isn't paused.
PAUSE = """
UPDATE {queues} SET paused_at = :now, paused_by = :who WHERE name = :name AND paused_at IS NULL
"""

# Resume a queue that is.
RESUME = """
UPDATE {queues} SET paused_at = NULL, paused_by = NULL WHERE name = :name AND paused_at IS NOT NULL
"""

# The shared settings.
CONFIG = "SELECT name, value FROM {config} ORDER BY name"

# Set one.
SET_CONFIG = """
INSERT INTO {config} (name, value, updated_at) VALUES (:name, :value, :now)
{on_conflict[name]} value = {excluded[value]}, updated_at = {excluded[updated_at]}
"""

# Forget one.
UNSET_CONFIG = "DELETE FROM {config} WHERE name = :name"

# Keep events.
RECORD = """
INSERT INTO {events} (at, kind, job, node, who, detail) {each[at, kind, job, node, who, detail]}
"""

# The newest events, of all or of one job, behind one that was read before.
EVENTS = """
SELECT at, kind, job, node, who, detail, seq FROM {events} WHERE seq < :before
ORDER BY seq DESC LIMIT :limit
"""
EVENTS_OF_JOB = """
SELECT at, kind, job, node, who, detail, seq FROM {events} WHERE job = :job AND seq < :before
ORDER BY seq DESC LIMIT :limit
"""

# The oldest events, as far as they are from before a time. They were kept in the order of time,
# so that no index is needed ...
OLD_EVENTS = """
SELECT seq FROM (SELECT seq, at FROM {events} ORDER BY seq LIMIT :limit) oldest WHERE at < :before
"""

# ... which are deleted.
PRUNE_EVENTS = "DELETE FROM {events} WHERE seq {in_seqs}"

# Rollups, summed over time and nodes. Those of all time are there as such: `at` is 0.
ROLLUPS = """
SELECT measure, bucket, sum(count), sum(total_ms), min(least_ms), max(most_ms)
FROM {rollups} WHERE at >= :since AND at <= :until GROUP BY measure, bucket
"""
ROLLUPS_OF_QUEUE = """
SELECT measure, bucket, sum(count), sum(total_ms), min(least_ms), max(most_ms)
FROM {rollups} WHERE at >= :since AND at <= :until AND queue = :queue GROUP BY measure, bucket
"""

# Nodes that have rollups of all time.
TOTALED_NODES = "SELECT DISTINCT node FROM {rollups} WHERE at = 0 AND node > ''"

# Those rollups of some nodes, which come together with those of all other nodes that are gone.
TOTALS = """
SELECT queue, node, measure, bucket, count, total_ms, least_ms, most_ms
FROM {rollups} WHERE at = 0 AND node {in_ids}{row_lock}
"""
DROP_TOTAL = """
DELETE FROM {rollups} WHERE at = 0 AND queue = :queue AND node = :node AND measure = :measure
    AND bucket = :bucket
"""

# Held by whoever merges rollups: another who reads the same ones meanwhile would count them twice.
# It is a row that every queue has.
HOLD_ROLLUPS = "SELECT value FROM {meta} WHERE name = 'schema_version'{row_lock}"

# Merge fine rollups older than a time into coarser ones ...
COARSEN = """
INSERT INTO {rollups} (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
SELECT at - at % :span, queue, node, measure, bucket, sum(count), sum(total_ms), min(least_ms),
    max(most_ms)
FROM {rollups} WHERE at < :before AND at % :span <> 0
GROUP BY at - at % :span, queue, node, measure, bucket
{on_conflict[at, queue, node, measure, bucket]}
    count = {rollups}.count + {excluded[count]},
    total_ms = {rollups}.total_ms + {excluded[total_ms]},
    least_ms = {least}({rollups}.least_ms, {excluded[least_ms]}),
    most_ms = {greatest}({rollups}.most_ms, {excluded[most_ms]})
"""

# ... and drop the fine ones.
DROP_FINE = "DELETE FROM {rollups} WHERE at < :before AND at % :span <> 0"

# -- the schema itself ----------------------------------------------------------

# What the store knows about itself: the schema version above all.
META = "SELECT value FROM {meta} WHERE name = :name"
SET_META = """
INSERT INTO {meta} (name, value) VALUES (:name, :value)
{on_conflict[name]} value = {excluded[value]}
"""

# -- commits that were cut off -----------------------------------------------------

# A receipt that is part of each transaction of a client: its number is there if and only if the
# transaction was committed. It fails (with NULL, which can't be there) when the number is struck.
_UNLESS_STRUCK = """
{on_conflict[client]}
    serial = CASE WHEN abs({receipts}.serial) < {excluded[serial]} THEN {excluded[serial]} END,
    at = {excluded[at]}
"""
LEAVE_RECEIPT = f"""
INSERT INTO {{receipts}} (client, serial, at) VALUES (:client, :serial, :now){_UNLESS_STRUCK}
"""

# Strike a number that isn't there: below zero, it keeps a transaction that comes late from leaving
# it. Waits for one that is still at it.
STRIKE_RECEIPT = """
INSERT INTO {receipts} (client, serial, at) VALUES (:client, -:serial, :now)
{on_conflict[client]} serial = CASE
    WHEN abs({receipts}.serial) < :serial THEN {excluded[serial]} ELSE {receipts}.serial
END
"""

# The number of its last transaction.
RECEIPT = "SELECT serial FROM {receipts} WHERE client = :client{row_lock}"

# Store one job and leave the receipt for that, where a database can do both at once.
ENQUEUE_ALONE = f"WITH receipt AS ({LEAVE_RECEIPT}) {ENQUEUE_RETURNING}"

# The same for a claim. The receipt names the jobs, for when the answer is lost; no job, no receipt.
# As there is nothing else in the transaction, the counters needn't be told that they stay the same.
CLAIM_ALONE = _with(
    _CLAIM_FIRST,
    counted=" set_config('queuectl.counters', 'unmoved', true) AS counters,",
    receipt=f""",
receipt AS (
    INSERT INTO {{receipts}} (client, serial, at, claimed)
    SELECT :client, :serial, :now, array_agg(seq) FROM claimed HAVING count(*) > 0
    {_UNLESS_STRUCK.rstrip()}, claimed = {{excluded[claimed]}}
)""",
)

# What was claimed then, and is still held.
CLAIMED = """
SELECT {job_columns} FROM {jobs}
WHERE {held_by} = :node AND seq = ANY((
    SELECT claimed FROM {receipts} WHERE client = :client AND serial = :serial
)::bigint[]) ORDER BY priority DESC, seq
"""

# Receipts nobody can be waiting for any more.
DROP_RECEIPTS = "DELETE FROM {receipts} WHERE at < :before"
