"""The shared statements about what is around jobs.

Nodes, queues, settings and history, schedules, webhooks, who is let in, and the store as a whole.
The holes are those of `shared`.
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
UPDATE {nodes} SET seen_at = :now, lease_until = :until, lease = :lease, beat = beat + 1,
    workers = :count, version = :version
WHERE id = :id AND {lease_holds}
"""

# Say anew which queues a node serves.
SET_SERVING = "UPDATE {nodes} SET queues = :queues WHERE id = :id"

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

# Ask a node to stop; a stronger request isn't weakened.
ASK_STOP = """
UPDATE {nodes} SET stop = CASE WHEN stop = 'release' THEN stop ELSE :how END WHERE id = :id
"""

# -- queues, settings, history --------------------------------------------------

# Queues on which something was set.
QUEUES = "SELECT name, paused_at, paused_by, limits, closed_until FROM {queues} ORDER BY name"

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

# Call a queue otherwise: its jobs, as far as they don't run, what is set on it, and its keys ...
RENAME_JOBS = "UPDATE {jobs} SET queue = :new WHERE queue = :old AND state <> 'processing'"
LEFT_IN_QUEUE = "SELECT min(state) FROM {jobs} WHERE queue = :queue"
RENAME_QUEUE = "UPDATE {queues} SET name = :new WHERE name = :old"
RENAME_KEYS = "UPDATE {keys} SET queue = :new WHERE queue = :old"

# ... and its times, which come to those that there may be under that name from before.
RENAME_ROLLUPS = """
INSERT INTO {rollups} (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
SELECT was.at, :new, was.node, was.measure, was.bucket, was.count, was.total_ms, was.least_ms,
    was.most_ms
FROM {rollups} AS was WHERE was.queue = :old
{on_conflict[at, queue, node, measure, bucket]}
    count = {rollups}.count + {excluded[count]},
    total_ms = {rollups}.total_ms + {excluded[total_ms]},
    least_ms = {least}({rollups}.least_ms, {excluded[least_ms]}),
    most_ms = {greatest}({rollups}.most_ms, {excluded[most_ms]})
"""
DROP_ROLLUPS = "DELETE FROM {rollups} WHERE queue = :old"

# Take away what is set on a queue, and what is known of its keys.
DROP_QUEUE = "DELETE FROM {queues} WHERE name = :name"
DROP_KEYS_OF = "DELETE FROM {keys} WHERE queue = :name"

# The shared settings.
CONFIG = "SELECT name, value FROM {config} ORDER BY name"

# Set one.
SET_CONFIG = """
INSERT INTO {config} (name, value, updated_at) VALUES (:name, :value, :now)
{on_conflict[name]} value = {excluded[value]}, updated_at = {excluded[updated_at]}
"""

# Forget one.
UNSET_CONFIG = "DELETE FROM {config} WHERE name = :name"

# Events between two, in the order in which they were kept or the other way round.
EVENTS = """
SELECT at, kind, job, node, who, detail, action, was, seq FROM {events} WHERE {conditions}
ORDER BY seq {direction} LIMIT :limit
"""

# The event up to which a listing goes that looks at no more than so many of those.
EVENTS_HORIZON = """
SELECT seq FROM {events} WHERE {conditions} ORDER BY seq {direction} LIMIT 1 OFFSET :looks
"""

# Conditions for these two. Those of one job, and of one action, have an index.
EVENT_OF_JOB = "job = :job"
EVENT_OF_ACTION = "action = :action"
EVENT_BEFORE = "seq < :before"
EVENT_AFTER = "seq > :after"
EVENT_WHO = "{contains_who[who]}"
EVENT_KIND = "kind = :kind"
EVENT_TEXT = "{contains_text[detail]}"
EVENT_SINCE = "at >= :since"
EVENT_UNTIL = "at < :until"

# Which event of an action is the last of each of some jobs.
LAST_EVENTS = """
SELECT job, max(seq) FROM {events} WHERE job {in_ids} AND action IS NOT NULL GROUP BY job
"""

# What was last asked of each of some jobs that ends it: in which words, and as which action.
LAST_REQUESTS = """
SELECT e.job, e.detail, e.action FROM (
    SELECT max(seq) AS seq FROM {events}
    WHERE job {in_ids} AND kind IN ('cancel', 'force-finish') GROUP BY job
) newest
JOIN {events} e ON e.seq = newest.seq
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

# The same by when, of all queues, of one, and of each.
SERIES = """
SELECT at - at % :span, measure, bucket, sum(count), sum(total_ms), min(least_ms), max(most_ms)
FROM {rollups} WHERE at >= :since AND at < :until GROUP BY at - at % :span, measure, bucket
"""
SERIES_OF_QUEUE = """
SELECT at - at % :span, measure, bucket, sum(count), sum(total_ms), min(least_ms), max(most_ms)
FROM {rollups} WHERE at >= :since AND at < :until AND queue = :queue
GROUP BY at - at % :span, measure, bucket
"""
SERIES_BY_QUEUE = """
SELECT queue, at - at % :span, measure, bucket, sum(count), sum(total_ms), min(least_ms),
    max(most_ms)
FROM {rollups} WHERE at >= :since GROUP BY queue, at - at % :span, measure, bucket
"""

# Those of all time, of each queue by itself, in a few spans: each in the first that it fits into.
SPANS = 16
each_span = " ".join(f"WHEN bucket <= :span{n} THEN {n}" for n in range(SPANS))
TOTALS_BY_QUEUE = f"""
SELECT queue, measure, CASE {each_span} END, sum(count), sum(total_ms)
FROM {{rollups}} WHERE at = 0 GROUP BY 1, 2, 3
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
LEAVE_RECEIPT = """
INSERT INTO {receipts} (client, serial, at) VALUES (:client, :serial, :now)
{on_conflict[client]}
    serial = CASE WHEN abs({receipts}.serial) < {excluded[serial]} THEN {excluded[serial]} END,
    at = {excluded[at]}
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

# Receipts nobody can be waiting for any more.
DROP_RECEIPTS = "DELETE FROM {receipts} WHERE at < :before"

# -- the store as a whole ------------------------------------------------------------

# How many counters disagree with the jobs they count.
WRONG_COUNTS = """
WITH counted (queue, state, priority, jobs, timed) AS (
    SELECT queue, counted_as, priority, count(*), sum(CASE WHEN timeout > 0 THEN 1 ELSE 0 END)
    FROM (
        SELECT queue, CASE state WHEN 'processing' THEN 'pending' ELSE state END AS counted_as,
            priority, timeout FROM {jobs}
    ) AS each_job GROUP BY queue, counted_as, priority
), said (queue, state, priority, jobs, timed) AS (
    SELECT queue, state, priority, sum(jobs), sum(timed) FROM {counts}
    GROUP BY queue, state, priority HAVING sum(jobs) <> 0 OR sum(timed) <> 0
)
SELECT count(*) FROM (
    SELECT queue, state, priority FROM (
        SELECT * FROM counted UNION ALL SELECT * FROM said
    ) AS both_ways GROUP BY queue, state, priority, jobs, timed HAVING count(*) <> 2
) AS wrong
"""

# How many rows of a table belong to no job.
ORPHANED_ATTEMPTS = "SELECT count(*) FROM {attempts} WHERE seq NOT IN (SELECT seq FROM {jobs})"
ORPHANED_OUTPUTS = "SELECT count(*) FROM {outputs} WHERE seq NOT IN (SELECT seq FROM {jobs})"
ORPHANED_INPUTS = "SELECT count(*) FROM {inputs} WHERE seq NOT IN (SELECT seq FROM {jobs})"
ORPHANED_TAGS = "SELECT count(*) FROM {tags} WHERE seq NOT IN (SELECT seq FROM {jobs})"

ORPHANED_RESULTS = "SELECT count(*) FROM {results} WHERE seq NOT IN (SELECT seq FROM {jobs})"
ORPHANED_PROGRESS = "SELECT count(*) FROM {progress} WHERE seq NOT IN (SELECT seq FROM {jobs})"
ORPHANED_STEPS = "SELECT count(*) FROM {steps} WHERE seq NOT IN (SELECT seq FROM {jobs})"
ORPHANED_SLEEPS = "SELECT count(*) FROM {sleeps} WHERE seq NOT IN (SELECT seq FROM {jobs})"

ORPHANED_EDGES = "SELECT count(*) FROM {edges} WHERE child NOT IN (SELECT seq FROM {jobs})"

# How many jobs wait for another number of parents than their edges say, or are blocked by none; how
# many open ones don't know that others wait for them; and how many groups count otherwise.
WRONG_PARENTS = """
SELECT count(*) FROM {jobs} j WHERE (open_parents <> 0 OR after IS NOT NULL OR state = 'blocked'
        OR after_group IS NOT NULL)
    AND (open_parents <> (SELECT count(*) FROM {edges} e WHERE e.child = j.seq AND e.met = 0)
        OR (state = 'blocked' AND open_parents = 0))
"""
UNLINKED_PARENTS = """
SELECT count(DISTINCT e.parent) FROM {edges} e JOIN {jobs} j ON j.seq = e.parent
WHERE e.came_to IS NULL AND j.has_children = 0
"""
WRONG_GROUPS = """
SELECT count(*) FROM {groups} g WHERE open <> (
    SELECT count(*) FROM {jobs} j WHERE j."group" = g.name
        AND j.state NOT IN ('completed', 'dead', 'cancelled')
)
"""

# How many jobs have another stdin than was stored with them.
SHORT_INPUTS = """
SELECT count(*) FROM {jobs} j WHERE stdin_bytes IS NOT NULL AND stdin_bytes <> (
    SELECT coalesce(sum(octet_length(i.data)), 0) FROM {inputs} i WHERE i.seq = j.seq
)
"""

# How many jobs are processing on a node that isn't registered.
HELD_BY_NOBODY = """
SELECT count(*) FROM {jobs}
WHERE state = 'processing' AND (node IS NULL OR node NOT IN (SELECT id FROM {nodes}))
"""

# The note of a copy that is being made: put there if there is none, moved on and taken away by
# whoever has written what is there.
NOTE_COPY = "INSERT INTO {meta} (name, value) VALUES (:name, :value) {or_nothing[name]}"
MOVE_COPY_NOTE = "UPDATE {meta} SET value = :value WHERE name = :name AND value = :before"
DROP_COPY_NOTE = "DELETE FROM {meta} WHERE name = :name AND value = :before"
DROP_META = "DELETE FROM {meta} WHERE name = :name"

# Nodes that hold jobs, registered or not.
HOLDERS = "SELECT DISTINCT node FROM {jobs} WHERE state = 'processing'"

# Copies that were begun, and receipts that nobody has tidied up.
UNFINISHED_COPIES = "SELECT count(*) FROM {meta} WHERE substr(name, 1, 4) = 'copy'"
OLD_RECEIPTS = "SELECT count(*) FROM {receipts} WHERE at < :before"

# -- copies -----------------------------------------------------------------------------

# Makes a table give out numbers behind the highest one; empty where inserting that is enough.
ADVANCE = ""

# -- schedules --------------------------------------------------------------------------

# All columns of a schedule.
SCHEDULE = (
    "name, rule, zone, anchor, request, missed, missed_within, overlap, jitter, pause_after,"
    " paused_at, paused_by, done_until, next_at, failures, last_tick, last_job, last_seq,"
    " created_at, updated_at"
)

# All schedules; one of them, which nobody else changes then; and those that have something to do.
SCHEDULES = f"SELECT {SCHEDULE} FROM {{schedules}} ORDER BY name"
LOCK_SCHEDULE = f"SELECT {SCHEDULE} FROM {{schedules}} WHERE name = :name{{row_lock}}"
DUE_SCHEDULES = f"""
SELECT {SCHEDULE} FROM {{schedules}} WHERE next_at <= :now
ORDER BY next_at LIMIT :limit{{skip_locked}}
"""

# When the next of them has.
NEXT_TICK = "SELECT min(next_at) FROM {schedules} WHERE next_at >= 0"

ADD_SCHEDULE = f"INSERT INTO {{schedules}} ({SCHEDULE}) VALUES (:{SCHEDULE.replace(', ', ', :')})"
CHANGE_SCHEDULE = (
    "UPDATE {schedules} SET "
    + ", ".join(f"{name} = :{name}" for name in SCHEDULE.split(", ")[1:])
    + " WHERE name = :name"
)
DROP_SCHEDULE = "DELETE FROM {schedules} WHERE name = :name"

# Whether a tick has made a job; and that it has.
TICK_MADE = "SELECT job FROM {ticks} WHERE schedule = :schedule AND planned = :planned"
ADD_TICK = """
INSERT INTO {ticks} (schedule, planned, seq, job, made_at)
VALUES (:schedule, :planned, :seq, :job, :now)
"""

# The newest ticks of a schedule.
TICKS = """
SELECT planned, seq, job, made_at FROM {ticks} WHERE schedule = :name
ORDER BY planned DESC LIMIT :limit
"""
DROP_TICKS = "DELETE FROM {ticks} WHERE schedule = :name"
DROP_OLD_TICKS = "DELETE FROM {ticks} WHERE made_at < :before"

# -- webhooks ---------------------------------------------------------------------------

# All columns of a webhook.
WEBHOOK = (
    "name, url, news, queues, via, secret, private, with_data, paused_at, paused_by, created_at,"
    " updated_at"
)

# All webhooks; and one of them, which nobody else changes then.
WEBHOOKS = f"SELECT {WEBHOOK} FROM {{webhooks}} ORDER BY name"
LOCK_WEBHOOK = f"SELECT {WEBHOOK} FROM {{webhooks}} WHERE name = :name{{row_lock}}"

ADD_WEBHOOK = f"INSERT INTO {{webhooks}} ({WEBHOOK}) VALUES (:{WEBHOOK.replace(', ', ', :')})"
CHANGE_WEBHOOK = (
    "UPDATE {webhooks} SET "
    + ", ".join(f"{name} = :{name}" for name in WEBHOOK.split(", ")[1:])
    + " WHERE name = :name"
)
DROP_WEBHOOK = "DELETE FROM {webhooks} WHERE name = :name"

# -- who is let in over HTTP ----------------------------------------------------------

# All columns of a grant, but for the name of a token once more, which keeps others from having it.
GRANT = "id, kind, name, digest, roles, queues, created_at, created_by, expires_at, used_at, parent"

# All grants; one of them, by the digest of its secret or by its id; and one, and those that were
# derived from some, which nobody else changes then.
GRANTS = f"SELECT {GRANT} FROM {{grants}} ORDER BY created_at, id"
GRANT_OF_DIGEST = f"SELECT {GRANT} FROM {{grants}} WHERE digest = :digest"
GRANT_OF_ID = f"SELECT {GRANT} FROM {{grants}} WHERE id = :id"
LOCK_GRANT = GRANT_OF_ID + "{row_lock}"
LOCK_DERIVED = f"""
SELECT {GRANT} FROM {{grants}} WHERE parent {{in_ids}} ORDER BY created_at, id{{row_lock}}
"""

# Keep one, unless there is a token of that name; and which one has it.
ADD_GRANT = (
    f"INSERT INTO {{grants}} ({GRANT}, token) VALUES (:{GRANT.replace(', ', ', :')}, :token)"
    " {or_nothing[token]}"
)
TOKEN_NAMED = "SELECT id FROM {grants} WHERE token = :token"

# Put one in the place of another that still has its secret.
EXCHANGE_GRANT = (
    "UPDATE {grants} SET "
    + ", ".join(f"{name} = :{name}" for name in GRANT.split(", "))
    + ", token = :token WHERE id = :was AND digest = :was_digest"
)

# Note that one was used.
TOUCH_GRANT = """
UPDATE {grants} SET used_at = :at WHERE id = :id AND (used_at IS NULL OR used_at < :at)
"""

# Take some away, or all that are over.
DROP_GRANTS = "DELETE FROM {grants} WHERE id {in_ids}"
DROP_GRANTS_OVER = "DELETE FROM {grants} WHERE expires_at <= :now"
