"""The statements that all databases share, and those that only one of them says in another way.

Here stands what is about single jobs and their runs; `between` and `around` have the others.

What they say differently in many places is a hole, which the `Dialect` fills: how a list is bound
(`{in_ids}`), a row locked (`{row_lock}`, `{skip_locked}`), a key that is taken answered
(`{on_conflict[name]}`, `{excluded[value]}`, `{or_nothing[name]}`), the lesser of two values found
(`{least}`, `{greatest}`), a text searched (`{contains_text[id]}`), and a lease judged
(`{lease_holds}`). Words that a database keeps for itself are in double quotes.
"""

from queuectl import fields
from queuectl.store.statements import columns
from queuectl.store.statements.around import *  # noqa: F403 - a store finds all in one place
from queuectl.store.statements.between import *  # noqa: F403 - as above

# -- jobs -----------------------------------------------------------------------

# The columns of a new job: what each has for itself, what the store finds out, and what was asked
# for. The database gives `seq`: its place in the line.
NEW_COLUMNS = (
    *"id command argv parameters vtime".split(),
    *"state ready run_at expires_at created_at updated_at tick hook body_digest handler".split(),
    *(field.column for field in fields.COPIED),
)
NEW_JOB = columns(NEW_COLUMNS)
EDITED = (
    *"command argv parameters ready run_at expires_at vtime parked handler".split(),
    *(field.column for field in fields.COPIED),
)
RESTORED = (
    *(name for name in EDITED if name != "ready"),
    *"state failures crashes reason finished_at".split(),
)

SAID = ("ready",)
"""What a new job has none of only if that is said: left out, it would be something else."""

# Store jobs; the store adds a place for each value of each.
ENQUEUE = f"INSERT INTO {{jobs}} ({NEW_JOB}) VALUES "

# Store one job ...
ENQUEUE_ONE = f"{ENQUEUE}(:{', :'.join(NEW_COLUMNS)})"

# ... and return its place in the line, where a database can do that.
ENQUEUE_RETURNING = ENQUEUE_ONE + " RETURNING seq"

# Keep a piece of what the runs of a job find on stdin.
ADD_INPUT = """
INSERT INTO {inputs} (seq, start, data) SELECT seq, :start, :data FROM {jobs} WHERE id = :id
"""

# All pieces of that.
INPUT = "SELECT data FROM {inputs} WHERE seq = :seq ORDER BY start"

# Without it from now on.
DROP_INPUT = "DELETE FROM {inputs} WHERE seq = :seq"

# One job by its id.
GET = "SELECT {job_columns} FROM {jobs} WHERE id = :id"

# Ids that begin with a prefix.
IDS_LIKE = "SELECT id FROM {jobs} WHERE id >= :prefix AND id < :beyond ORDER BY id LIMIT :limit"

# The next tag in order, below an end. Asked again and again, it finds tags without reading all
# the jobs that have them.
NEXT_TAG = "SELECT MIN(tag) FROM {tags} WHERE tag > :tag AND tag < :end"

# Which of these ids exist, and their states.
STATES = "SELECT id, state FROM {jobs} WHERE id {in_ids}"

# The places in the line of jobs with these ids.
PLACES = "SELECT id, seq FROM {jobs} WHERE id {in_ids}"

# Jobs whose ids begin with a prefix, such as the hooks of another.
JOBS_LIKE = """
SELECT {job_columns} FROM {jobs} WHERE id >= :prefix AND id < :beyond ORDER BY id LIMIT :limit
"""

# Jobs by their place in the line.
JOBS_AT = "SELECT {job_columns} FROM {jobs} WHERE seq {in_seqs} ORDER BY seq"

# The same, as they are now, and nobody else changes them until the transaction is over.
LOCK_JOBS = JOBS_AT + "{row_lock}"

# Places in the line of jobs that fit; the store adds conditions, order and limit.
SELECT = """
SELECT j.seq FROM {jobs} j WHERE {conditions} ORDER BY j.seq {direction} LIMIT :limit
"""

# The same for jobs that run. They are few, and found by their nodes.
SELECT_RUNNING = """
SELECT j.seq FROM {jobs} j WHERE j.state = 'processing' AND {conditions}
ORDER BY j.seq {direction} LIMIT :limit
"""

# The same for jobs with a tag, along the tag's own index. Each job is looked at by itself: of a
# join, a server that knows nothing yet about the tables would make a scan of all jobs.
SELECT_TAGGED = """
SELECT t.seq FROM {tags} t
WHERE t.tag = :tag0 AND {page}
    AND (SELECT true FROM {jobs} j WHERE j.seq = t.seq AND {conditions})
ORDER BY t.seq {direction} LIMIT :limit
"""

# The place up to which a listing goes that looks at no more than so many jobs of those.
HORIZON = """
SELECT j.seq FROM {jobs} j WHERE {conditions} ORDER BY j.seq {direction} LIMIT 1 OFFSET :looks
"""

# The same for jobs with a tag.
HORIZON_TAGGED = """
SELECT t.seq FROM {tags} t WHERE t.tag = :tag0 AND {page}
ORDER BY t.seq {direction} LIMIT 1 OFFSET :looks
"""

# Places in the line of jobs that fit, sorted by columns that the store names. No index has them so:
# all that fit are looked at, and as many kept as are wanted.
SELECT_SORTED = "SELECT j.seq FROM {jobs} j WHERE {conditions} ORDER BY {order} LIMIT :limit"

# Conditions for these four. A type is known by what a node must have for it.
WHERE_STATE = "j.state = :state"
WHERE_PENDING = WHERE_STATE
WHERE_QUEUE = "j.queue = :queue"
WHERE_AFTER = "j.seq > :after"
WHERE_BEFORE = "j.seq < :after"
WHERE_UP_TO = "j.seq <= :last"
WHERE_DOWN_TO = "j.seq >= :last"
WHERE_TAG_AFTER = "t.seq > :after"
WHERE_TAG_BEFORE = "t.seq < :after"
WHERE_TAG_UP_TO = "t.seq <= :last"
WHERE_TAG_DOWN_TO = "t.seq >= :last"
WHERE_SINCE = "created_at >= :since"
WHERE_UNTIL = "created_at < :until"
WHERE_FINISHED_SINCE = "finished_at >= :finished_since"
WHERE_FINISHED_BEFORE = "finished_at < :finished_before"
# Those that wait are due then.
WHERE_DUE_SINCE = "j.ready IS NOT NULL AND j.run_at >= :due_since"
WHERE_DUE_BEFORE = "j.ready IS NOT NULL AND j.run_at < :due_before"
WHERE_IN_TAG = "j.seq IN (SELECT y.seq FROM {tags} y WHERE y.tag = :tag0)"
WHERE_TAGGED = "EXISTS (SELECT 1 FROM {tags} x WHERE x.tag = :tag{n} AND x.seq = j.seq)"
WHERE_KEY = 'EXISTS (SELECT 1 FROM json_each(j."keys") one WHERE one.value = :key{n})'
WHERE_TYPE = "(j.handler <> '' AND j.task IN ({types}))"
WHERE_GROUP = 'j."group" IN ({groups})'
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
FROM {jobs} WHERE state = 'processing' AND node >= '' GROUP BY queue, priority
"""

# How many jobs of some queues are held by hand: they are parked under no key.
HELD_BY_HAND = """
SELECT queue, count(*) FROM {jobs} WHERE queue {in_ids} AND parked = '' AND parked IS NOT NULL
GROUP BY queue
"""

# Counters that came down to nothing.
DROP_EMPTY_COUNTS = "DELETE FROM {counts} WHERE jobs = 0 AND timed = 0"

# Completed jobs whose run took longest.
SLOWEST = """
SELECT seq FROM {jobs} WHERE state = 'completed' AND duration_ms IS NOT NULL
ORDER BY duration_ms DESC LIMIT :limit
"""

# -- running --------------------------------------------------------------------

# Jobs that have become due, the longest due first.
DUE = """
SELECT seq FROM {jobs} WHERE ready = 0 AND parked IS NULL AND run_at <= :now
ORDER BY run_at LIMIT :limit{skip_locked}
"""

# Waiting jobs whose time to start is over.
EXPIRED = """
SELECT {job_columns} FROM {jobs}
WHERE ready IS NOT NULL AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at LIMIT :limit{skip_locked}
"""

# How many of the first in its line come before a job.
BEFORE = """
SELECT count(*) FROM (
    SELECT priority, vtime, seq FROM {jobs}
    WHERE ready = 1 AND queue = :queue AND handler = :handler
    ORDER BY priority DESC, vtime, seq LIMIT :limit
) AS line
WHERE priority > :priority
    OR (priority = :priority AND (vtime < :vtime OR (vtime = :vtime AND seq < :seq)))
"""

# Parts of statements, for WITH RECURSIVE. The queues that have ready jobs, by one step in the index
# for each; NULL is the last of them.
with_line = """line (name) AS (
    SELECT (SELECT queue FROM {jobs} WHERE ready = 1 ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (
        SELECT queue FROM {jobs} WHERE ready = 1 AND queue > line.name ORDER BY queue LIMIT 1
    ) FROM line WHERE line.name IS NOT NULL
)"""

# And for a node that has handlers, lines, which are pairs of a queue and a handler. It looks for
# each handler that is named in each queue, and goes from one to the next in a range of them.
with_pairs = """range_of (name, handler) AS (
    SELECT line.name, (
        SELECT j.handler FROM {jobs} j WHERE j.ready = 1 AND j.queue = line.name
            AND j.handler >= :first_handler AND j.handler < :last_handler
        ORDER BY j.handler LIMIT 1
    ) FROM line WHERE line.name IS NOT NULL
    UNION ALL
    SELECT range_of.name, (
        SELECT j.handler FROM {jobs} j WHERE j.ready = 1 AND j.queue = range_of.name
            AND j.handler > range_of.handler AND j.handler < :last_handler
        ORDER BY j.handler LIMIT 1
    ) FROM range_of WHERE range_of.handler IS NOT NULL
),
pair (name, handler) AS (
    SELECT line.name, named.handler FROM line CROSS JOIN (
        SELECT value AS handler FROM {each_handler}
    ) AS named
    WHERE (
        SELECT j.handler FROM {jobs} j
        WHERE j.ready = 1 AND j.queue = line.name AND j.handler >= named.handler
        ORDER BY j.handler LIMIT 1
    ) = named.handler
    UNION ALL
    SELECT name, handler FROM range_of WHERE handler IS NOT NULL
)"""

# Queues that have ready jobs which every node can run and are neither paused nor closed, with their
# limits: one step in the index for each queue, and a look at it.
READY_QUEUES = f"""
WITH RECURSIVE {with_line}
SELECT name, (SELECT q.limits FROM {{queues}} q WHERE q.name = line.name) AS limits, '' AS handler
FROM line
WHERE line.name IS NOT NULL AND line.name NOT IN (
    SELECT q.name FROM {{queues}} q WHERE q.paused_at IS NOT NULL OR q.closed_until > :now
)
    AND (
        SELECT j.handler FROM {{jobs}} j WHERE j.ready = 1 AND j.queue = line.name
        ORDER BY j.handler LIMIT 1
    ) = ''
"""

# The same for a node that has handlers: lines.
READY_LINES = f"""
WITH RECURSIVE {with_line},
{with_pairs}
SELECT name, (SELECT q.limits FROM {{queues}} q WHERE q.name = pair.name) AS limits, handler
FROM pair
WHERE pair.name NOT IN (
    SELECT q.name FROM {{queues}} q WHERE q.paused_at IS NOT NULL OR q.closed_until > :now
)
"""

# How long a line is, up to a limit.
LINE_LENGTH = """
SELECT count(*) FROM (
    SELECT seq FROM {jobs} WHERE ready = 1 AND queue = :queue AND handler = :handler
    ORDER BY priority DESC, vtime, seq LIMIT :limit
) AS line
"""

# The next handler, in order, that ready jobs of a queue need.
NEXT_HANDLER = """
SELECT min(handler) FROM {jobs} WHERE ready = 1 AND queue = :queue AND handler > :handler
"""

# Since when the first of a line that have a priority are due: that one of them that is longest.
OLDEST = """
SELECT min(run_at) FROM (
    SELECT run_at FROM {jobs}
    WHERE ready = 1 AND queue = :queue AND handler = :handler AND priority = :priority
    ORDER BY vtime, seq LIMIT :limit
) AS line
"""

# Queues that have ready jobs and are neither paused nor closed, one in a row or none: one step in
# the index for each queue. And in each row when the next waiting job becomes due, when the next
# expires, and when the next queue and the next key open again.
OUTLOOK = f"""
SELECT (SELECT run_at FROM {{jobs}} WHERE ready = 0 AND parked IS NULL AND run_at >= 0
        ORDER BY run_at LIMIT 1),
    (SELECT min(expires_at) FROM {{jobs}}
        WHERE ready IS NOT NULL AND expires_at IS NOT NULL AND expires_at >= 0),
    (SELECT min(closed_until) FROM {{queues}} WHERE closed_until > :now),
    (SELECT min(opens_at) FROM {{keys}} WHERE opens_at >= 0), found.name
FROM (SELECT 1 AS one) AS always LEFT JOIN ({READY_QUEUES}) AS found ON 1 = 1
"""
OUTLOOK_LINES = OUTLOOK.replace(READY_QUEUES, READY_LINES)

# What a node has in processing.
HELD = """
SELECT {job_columns} FROM {jobs} WHERE state = 'processing' AND node = :node ORDER BY seq
"""

# How many workers of each node have something in processing.
BUSY = """
SELECT node, count(DISTINCT worker) FROM {jobs}
WHERE state = 'processing' AND node >= '' GROUP BY node
"""

# What is in processing on nodes that nobody knows (any more).
STRAYS = """
SELECT {job_columns} FROM {jobs}
WHERE state = 'processing' AND node > '' AND node NOT IN (SELECT n.id FROM {nodes} n)
ORDER BY node, seq
"""

# What jobs that run have of their nodes, of those that need something.
USING = """
SELECT node, started_at, handler, devices FROM {jobs}
WHERE state = 'processing' AND node >= '' AND handler >= 'needs:' AND handler < 'needs;'
"""

# Which devices runs were given.
SET_DEVICES = "UPDATE {jobs} SET devices = :devices WHERE seq = :seq"

# Nodes that take jobs, with the queues that each serves, and what it has.
TAKING = "SELECT id, workers, queues FROM {nodes} WHERE stop IS NULL ORDER BY id"

# For which jobs nodes keep room, with what is ready of these; of nodes that are to stop, none.
RESERVATIONS = """
SELECT kept.seq, kept.node, kept.at, j.queue, j.handler, j.priority, j.crashes, j.run_at, j.vtime,
    j."keys"
FROM {reservations} kept JOIN {nodes} n ON n.id = kept.node AND n.stop IS NULL
    JOIN {jobs} j ON j.seq = kept.seq AND CASE WHEN j.ready = 1 THEN 1 ELSE 0 END = 1
"""

# Keep room for a job on a node, if none is kept for it and the node keeps none for another. What is
# there of nodes that are to stop goes first.
RESERVE = """
INSERT INTO {reservations} (seq, node, at) VALUES (:seq, :node, :at) {or_nothing[seq]}
"""
UNRESERVE_NODE = "DELETE FROM {reservations} WHERE node = :node"
UNRESERVE = "DELETE FROM {reservations} WHERE seq {in_seqs}"

# Jobs that are still ready and that nobody else claims, with all that is stored of them.
LOCK_LINE = """
SELECT {job_columns} FROM {jobs}
WHERE seq {in_seqs} AND CASE WHEN ready = 1 THEN 1 ELSE 0 END = 1 ORDER BY seq{skip_locked}
"""

# What of it somebody wants cancelled.
TO_CANCEL = """
SELECT {job_columns} FROM {jobs}
WHERE state = 'processing' AND node = :node AND cancel_reason IS NOT NULL ORDER BY seq
"""

# Runs that are paused, which are few: SQLite begins with what stands left of CROSS JOIN. A job that
# was put back before its run began has that number again later: by when it was claimed, one is told
# from the other.
PAUSES = """
SELECT p.seq, p.number, p.at, p.who FROM {pauses} p CROSS JOIN {jobs} j
WHERE j.seq = p.seq AND j.state = 'processing' AND j.attempts = p.number AND j.started_at <= p.at
ORDER BY p.seq
"""

# What is known of pauses of runs of these jobs, also of runs that are over.
PAUSES_OF = "SELECT seq, number, at, who FROM {pauses} WHERE seq {in_seqs}"

# Pause a run.
ADD_PAUSE = "INSERT INTO {pauses} (seq, number, at, who) VALUES (:seq, :number, :at, :who)"

# Let the runs of these jobs go on.
DROP_PAUSES = "DELETE FROM {pauses} WHERE seq {in_seqs}"

# Forget the pauses of runs that are over.
DROP_OLD_PAUSES = """
DELETE FROM {pauses} WHERE NOT EXISTS (
    SELECT 1 FROM {jobs} j
    WHERE j.seq = {pauses}.seq AND j.state = 'processing' AND j.attempts = {pauses}.number
)
"""

# Keep what it wrote.
KEEP_OUTPUT = """
INSERT INTO {outputs} (seq, number, stdout, stderr) VALUES (:seq, :attempt, :stdout, :stderr)
"""

# -- by hand --------------------------------------------------------------------

# Delete jobs; triggers take their attempts along. Whoever does that holds them, so that they stay
# as he has seen them.
REMOVE = "DELETE FROM {jobs} WHERE seq {in_seqs}"

# Make another job of one that waits, in all that a request decides.
EDIT = f"""
UPDATE {{jobs}} SET {", ".join(f"{columns([name])} = :{name}" for name in EDITED)},
    updated_at = :now
WHERE seq = :seq AND id = :id AND attempts = :attempt AND state = :was
    AND (ready IS NOT NULL OR state = 'blocked')
"""

# Have a job be what it was before something was done to it, if it is still what came of that.
RESTORE = f"""
UPDATE {{jobs}} SET {", ".join(f"{columns([name])} = :{name}" for name in RESTORED)},
    ready = :ready, updated_at = :now
WHERE seq = :seq AND id = :id AND attempts = :attempt AND state = :was AND state <> 'processing'
"""

# How far in front the first of a line and priority is, of those in line and of those that wait for
# a key.
FIRST_READY = """
SELECT min(vtime) FROM {jobs}
WHERE ready = 1 AND queue = :queue AND handler = :handler AND priority = :priority
"""
FIRST_OF_KEY = """
SELECT min(vtime) FROM {jobs} WHERE queue = :queue AND parked = :parked AND parked IS NOT NULL
    AND handler = :handler AND priority = :priority
"""

# Give a job that waits another place, and take along all that is kept of it; tags and ticks are
# found by what the job itself says.
MOVE_JOB = """
UPDATE {jobs} SET seq = :to, priority = :priority, vtime = :vtime, updated_at = :now
WHERE seq = :seq AND (ready IS NOT NULL OR state = 'blocked')
"""
MOVE_ATTEMPTS = "UPDATE {attempts} SET seq = :to WHERE seq = :seq"
MOVE_OUTPUTS = "UPDATE {outputs} SET seq = :to WHERE seq = :seq"
MOVE_INPUTS = "UPDATE {inputs} SET seq = :to WHERE seq = :seq"
MOVE_RESULT = "UPDATE {results} SET seq = :to WHERE seq = :seq"
MOVE_PROGRESS = "UPDATE {progress} SET seq = :to WHERE seq = :seq"
MOVE_STEPS = "UPDATE {steps} SET seq = :to WHERE seq = :seq"
MOVE_SLEEP = "UPDATE {sleeps} SET seq = :to WHERE seq = :seq"
MOVE_PARENTS = "UPDATE {edges} SET child = :to WHERE child = :seq"
MOVE_CHILDREN = "UPDATE {edges} SET parent = :to WHERE parent = :seq"
MOVE_TAGS = "UPDATE {tags} SET seq = :to WHERE tag {in_ids} AND seq = :seq"
MOVE_TICK = """
UPDATE {ticks} SET seq = :to WHERE schedule = :schedule AND planned = :planned AND seq = :seq
"""
MOVE_LAST = "UPDATE {schedules} SET last_seq = :to WHERE name = :schedule AND last_seq = :seq"

# -- attempts -------------------------------------------------------------------

# The runs of a job that are over.
ATTEMPTS = """
SELECT number, node, host, worker, started_at, finished_at, duration_ms, outcome, exit_code,
    "signal", error, stdout_bytes, stderr_bytes, peak_memory, cpu_ms, read_bytes, written_bytes,
    noted
FROM {attempts} WHERE seq = :seq ORDER BY number
"""

# What one of them wrote.
OUTPUT = """
SELECT o.stdout, o.stderr, a.stdout_bytes, a.stderr_bytes
FROM {attempts} a LEFT JOIN {outputs} o ON o.seq = a.seq AND o.number = a.number
WHERE a.seq = :seq AND a.number = :number
"""

# -- what runs tell and keep --------------------------------------------------------

# The place of a job of which a node has this run; until the transaction is over, it stays so. No
# row means that the lease is lost.
HOLD_RUN = """
SELECT seq FROM {jobs}
WHERE id = :id AND attempts = :attempt AND node = :node AND state = 'processing'{row_lock}
"""

# The same, for who only looks: an application may have the transaction open for long.
FIND_RUN = HOLD_RUN.replace("{row_lock}", "")

# The job of a run, as long as it is that.
RUNNING = """
SELECT {job_columns} FROM {jobs}
WHERE id = :id AND attempts = :attempt AND node = :node AND state = 'processing'
"""

# The data of a job, and other data in their place for its later runs.
DATA = "SELECT data FROM {jobs} WHERE seq = :seq"
SET_DATA = "UPDATE {jobs} SET data = :data, updated_at = :now WHERE seq = :seq"

# Keep what a job came to; that of another run gives way.
KEEP_RESULT = """
INSERT INTO {results} (seq, number, value) VALUES (:seq, :number, :value)
{on_conflict[seq]} number = {excluded[number]}, value = {excluded[value]}
"""
DROP_RESULT = "DELETE FROM {results} WHERE seq = :seq"
RESULTS = "SELECT seq, number, value FROM {results} WHERE seq {in_seqs}"

# What the runs of these jobs have used.
USAGES = """
SELECT seq, number, peak_memory, cpu_ms, read_bytes, written_bytes FROM {attempts}
WHERE seq {in_seqs} ORDER BY seq, number
"""

# Tell how far a run has come.
SET_PROGRESS = """
INSERT INTO {progress} (seq, number, percent, note, at)
VALUES (:seq, :number, :percent, :note, :at)
{on_conflict[seq]} number = {excluded[number]}, percent = {excluded[percent]},
    note = {excluded[note]}, at = {excluded[at]}
"""
PROGRESS = "SELECT seq, number, percent, note, at FROM {progress} WHERE seq {in_seqs}"

# The steps of a job that are done, in their order; and that a run came by one of them.
STEPS = "SELECT name, number, seen, output, at FROM {steps} WHERE seq = :seq ORDER BY place"
STEP = "SELECT name, number, seen, output, at FROM {steps} WHERE seq = :seq AND name = :name"
SEE_STEP = """
UPDATE {steps} SET seen = :number WHERE seq = :seq AND name = :name AND seen < :number
"""

# Keep one. Whoever does that holds the job, so that no two get the same place.
LAST_STEP = "SELECT coalesce(max(place), 0) FROM {steps} WHERE seq = :seq"
KEEP_STEP = """
INSERT INTO {steps} (seq, name, place, number, seen, output, at)
VALUES (:seq, :name, :place, :number, :number, :output, :at)
"""

# Forget a step and those after it. MariaDB reads no table that it deletes from.
PLACE_OF_STEP = "SELECT place FROM {steps} WHERE seq = :seq AND name = :name"
FORGET_STEPS = "DELETE FROM {steps} WHERE seq = :seq AND place >= :place"

# -- jobs that sleep, and what is emitted for them ----------------------------------

# What jobs sleep for, by their places: as it is known; and as it is, until the transaction is over.
# Whoever writes to both holds this before the job, as long as he doesn't run it.
SLEEPS = "SELECT seq, number, step, awaits, until, at, woken FROM {sleeps} WHERE seq {in_seqs}"
LOCK_SLEEPS = SLEEPS + " ORDER BY seq{row_lock}"

# Those who wait for something.
LOCK_SLEEPERS = """
SELECT seq, number, step, awaits, until, at, woken FROM {sleeps}
WHERE awaits = :name AND awaits IS NOT NULL ORDER BY seq{row_lock}
"""

# Have a job sleep; what it slept for before gives way. And that it has done so.
FALL_ASLEEP = """
INSERT INTO {sleeps} (seq, number, step, awaits, until, at, woken)
VALUES (:seq, :number, :step, :awaits, :until, :at, 0)
{on_conflict[seq]} number = {excluded[number]}, step = {excluded[step]},
    awaits = {excluded[awaits]}, until = {excluded[until]}, at = {excluded[at]}, woken = 0
"""
DROP_SLEEP = "DELETE FROM {sleeps} WHERE seq = :seq"

# Note that what they wait for was emitted, and bring back those whose runs are over; one that is
# held stays so.
WAKE = "UPDATE {sleeps} SET woken = 1 WHERE seq {in_seqs}"
BRING_BACK = """
UPDATE {jobs} SET run_at = :now, ready = CASE WHEN parked IS NULL THEN 1 ELSE 0 END,
    updated_at = :now
WHERE seq {in_seqs} AND state = 'pending' AND ready = 0
"""

# Hold what was emitted under a name, or what there is to wait for: who emits and who falls asleep
# come one after the other. That it is changed tells those who look at a state from before.
ASK_EMITTED = """
INSERT INTO {emitted} (name, asked) VALUES (:name, 1)
{on_conflict[name]} asked = {emitted}.asked + 1
"""
EMITTED = "SELECT name, payload, at, who FROM {emitted} WHERE name = :name AND at IS NOT NULL"
EMIT = "UPDATE {emitted} SET payload = :payload, at = :at, who = :who WHERE name = :name"

# The newest that were.
ALL_EMITTED = """
SELECT name, payload, at, who FROM {emitted} WHERE at IS NOT NULL AND at >= 0
ORDER BY at DESC, name LIMIT :limit
"""

# The first names that begin with a prefix, those that are only waited for among them.
NAMES = """
SELECT name, at IS NOT NULL FROM {emitted} WHERE name >= :prefix AND name < :beyond
ORDER BY name LIMIT :limit
"""

# Forget what nobody waits for: names under which nothing came, and what came before a time.
DROP_EMITTED = """
DELETE FROM {emitted} WHERE (at IS NULL OR at < :before)
    AND NOT EXISTS (SELECT 1 FROM {sleeps} s WHERE s.awaits = {emitted}.name)
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
