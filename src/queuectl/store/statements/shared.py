"""The statements that all databases share, and those that only one of them says in another way.

What they say differently in many places is a hole, which the `Dialect` fills: how a list is bound
(`{in_ids}`), a row locked (`{row_lock}`, `{skip_locked}`), a key that is taken answered
(`{on_conflict[name]}`, `{excluded[value]}`, `{or_nothing[name]}`), the lesser of two values found
(`{least}`, `{greatest}`), a text searched (`{contains_text[id]}`), and a lease judged
(`{lease_holds}`). Words that a database keeps for itself are in double quotes.
"""

from queuectl import fields
from queuectl.store.statements import columns

# -- jobs -----------------------------------------------------------------------

# The columns of a new job: what each has for itself, what the store finds out, and what was asked
# for. The database gives `seq`: its place in the line.
NEW_COLUMNS = (
    *"id command argv parameters state ready run_at expires_at created_at updated_at".split(),
    *("tick", "vtime", "hook", "body_digest", "handler"),
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

# -- jobs that wait for others ------------------------------------------------------

# The jobs at these places: until the transaction is over, nobody else changes them.
LOCK_PARENTS = """
SELECT id, seq, queue, state FROM {jobs} WHERE seq {in_seqs} ORDER BY seq{row_lock}
"""

# Note that others wait for them. How their runs end has to be told then: see `FINISH`.
HAVE_CHILDREN = "UPDATE {jobs} SET has_children = 1 WHERE seq {in_seqs} AND has_children = 0"

# How many others these wait for.
SET_PARENTS = "UPDATE {jobs} SET open_parents = :count WHERE seq {in_seqs}"

# Who waits for these jobs and hasn't been told of their ends; who waits for those that were stored
# one after the other; and who waits itself, as it is now and stays until the transaction is over.
OPEN_EDGES = """
SELECT parent, child, wanted FROM {edges} WHERE parent {in_seqs} AND came_to IS NULL
LIMIT :limit
"""
EDGES_FROM = """
SELECT parent, child FROM {edges}
WHERE parent >= :first AND parent <= :last AND came_to IS NULL ORDER BY parent LIMIT :limit
"""
LOCK_CHILDREN = """
SELECT seq, if_parent_fails FROM {jobs} WHERE seq {in_seqs} ORDER BY seq{row_lock}
"""

# Tell what a parent has come to, to some of its children, or parents to all who want the same of
# them; and that some are to run again, which counts for those whom their ends didn't allow to run.
SETTLE_EDGES = """
UPDATE {edges} SET came_to = :state, met = :met WHERE parent = :parent AND child {in_seqs}
"""
SETTLE_ALL_EDGES = """
UPDATE {edges} SET came_to = :state, met = :met
WHERE parent {in_seqs} AND came_to IS NULL AND wanted = :wanted
"""
REOPEN_EDGES = """
UPDATE {edges} SET came_to = NULL WHERE parent {in_seqs} AND came_to IS NOT NULL AND met = 0
"""

# So many parents less keep these from running: those whom none keeps any more wait in line. What is
# set last is looked at first: one database sees what the same statement has set before.
LET_GO = """
UPDATE {jobs} SET
    ready = CASE WHEN state = 'blocked' AND open_parents = :count
        THEN CASE WHEN parked IS NULL AND run_at <= :now THEN 1 ELSE 0 END ELSE ready END,
    updated_at = CASE WHEN state = 'blocked' AND open_parents = :count
        THEN :now ELSE updated_at END,
    state = CASE WHEN state = 'blocked' AND open_parents = :count
        THEN 'pending' ELSE state END,
    open_parents = open_parents - :count
WHERE seq {in_seqs}
"""

# Ends of which not all have been told: kept, found, and forgotten.
ADD_UNTOLD = """
INSERT INTO {untold} (seq, id, state, action, how) VALUES (:seq, :id, :state, :action, :how)
{or_nothing[seq]}
"""
UNTOLD = "SELECT seq, id, state, action, how FROM {untold} ORDER BY seq LIMIT :limit{skip_locked}"
DROP_UNTOLD = "DELETE FROM {untold} WHERE seq {in_seqs}"

# Have a job wait for some no longer.
DROP_EDGES = "DELETE FROM {edges} WHERE child = :child AND parent {in_seqs}"

# For what jobs wait that hasn't ended.
OPEN_PARENTS = "SELECT DISTINCT parent FROM {edges} WHERE child {in_seqs} AND came_to IS NULL"

# Whom jobs wait for, and who waits for them.
PARENTS = """
SELECT child, parent, parent_id, wanted, came_to, met FROM {edges} WHERE child {in_seqs}
"""
CHILDREN = """
SELECT child, parent, parent_id, wanted, came_to, met FROM {edges} WHERE parent {in_seqs}
LIMIT :limit
"""

# -- groups ---------------------------------------------------------------------------

# All of a group; some of them, which nobody else changes until the transaction is over, and that
# others wait for one.
GROUP = (
    "name, made_at, jobs, open, completed, dead, cancelled, unneeded, max_fails, stopped_at,"
    " over_at, rounds"
)
GROUPS_NAMED = f"SELECT {GROUP} FROM {{groups}} WHERE name {{in_ids}} ORDER BY name"
LOCK_GROUPS = f"""
SELECT seq, has_children, stopping, {GROUP} FROM {{groups}} WHERE name {{in_ids}}
ORDER BY name{{row_lock}}
"""
GROUP_HAS_CHILDREN = "UPDATE {groups} SET has_children = 1 WHERE seq = :seq"

# Groups, the newest first, before a place.
GROUPS = f"""
SELECT {GROUP} FROM {{groups}} WHERE seq < :before ORDER BY seq DESC LIMIT :limit
"""

PLACE_OF_GROUP = "SELECT seq FROM {groups} WHERE name = :name"

# Names that begin with a prefix.
GROUPS_LIKE = """
SELECT name FROM {groups} WHERE name >= :prefix AND name < :beyond ORDER BY name LIMIT :limit
"""

# Of which groups the jobs are that run. They are few, and found by their nodes; asked to count them
# by groups, a database that knows nothing about the tables goes through all jobs of all groups.
RUNNING_OF_GROUPS = """
SELECT "group" FROM {jobs} WHERE state = 'processing' AND node >= ''
"""

# Who waits for a group, or did.
CHILDREN_OF_GROUP = """
SELECT child, parent, parent_id, wanted, came_to, met FROM {edges}
WHERE parent = (SELECT seq FROM {groups} WHERE name = :name) + :groups_at LIMIT :limit
"""

# Make sure that there is one; and what it has come to.
ADD_GROUP = "INSERT INTO {groups} (name, made_at) VALUES (:name, :now) {or_nothing[name]}"
COUNT_GROUP = """
UPDATE {groups} SET jobs = :jobs, open = :open, completed = :completed, dead = :dead,
    cancelled = :cancelled, unneeded = :unneeded, max_fails = :max_fails,
    stopped_at = :stopped_at, stopping = :stopping, over_at = :over_at, rounds = :rounds
WHERE seq = :seq
"""

# Groups of which not all that waits was cancelled yet since they were stopped; such jobs; how far
# that is.
STOPPING = """
SELECT seq, name, stopping FROM {groups} WHERE stopping IS NOT NULL ORDER BY seq{row_lock}
"""
WAITING_OF_GROUP = """
SELECT seq FROM {jobs} WHERE "group" = :group AND seq > :after
    AND state IN ('pending', 'failed', 'blocked')
ORDER BY seq LIMIT :limit
"""

# Which of these wait for jobs of their own group. Each parent is looked at by itself.
AFTER_OWN_GROUP = """
SELECT DISTINCT e.child FROM {edges} e
WHERE e.child {in_seqs} AND (SELECT p."group" FROM {jobs} p WHERE p.seq = e.parent) = :group
"""
STOP_GROUP = "UPDATE {groups} SET stopping = :stopping WHERE seq = :seq"

# The jobs of groups that wait for others.
BLOCKED_OF_GROUPS = """
SELECT seq FROM {jobs} WHERE "group" {in_ids} AND state = 'blocked'
"""
GROUPS_AT_PLACES = "SELECT name FROM {groups} WHERE seq {in_seqs}"

# Groups that are over for long, without jobs, and for which nobody waits.
DROP_GROUPS = """
DELETE FROM {groups} WHERE over_at < :before
    AND NOT EXISTS (SELECT 1 FROM {jobs} j WHERE j."group" = {groups}.name)
    AND NOT EXISTS (SELECT 1 FROM {edges} e WHERE e.parent = {groups}.seq + :groups_at)
"""

# What else is about runs that go on, of jobs of which none does.
DROP_WATCHES = "DELETE FROM {watches} WHERE seq {in_seqs}"
DROP_ALL_LIVE = "DELETE FROM {live} WHERE seq {in_seqs}"

# The jobs that have been in a final state longest. They are held: nobody can put them back in line
# before they are deleted.
OLD = """
SELECT seq FROM {jobs} WHERE state = :state AND finished_at < :before
ORDER BY finished_at LIMIT :limit{skip_locked}
"""

# How many that would be in all.
PRUNABLE = "SELECT count(*) FROM {jobs} WHERE state = :state AND finished_at < :before"

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

# -- limits -----------------------------------------------------------------------------

# The limits of queues; whoever holds them is the only one who decides about their jobs.
LOCK_LIMITS = """
SELECT name, limits, vtime, closed_until FROM {queues} WHERE name {in_ids} ORDER BY name{row_lock}
"""
LIMITS = "SELECT limits FROM {queues} WHERE name = :name"
LIMITED = "SELECT name, limits FROM {queues} WHERE limits IS NOT NULL ORDER BY name"

# Set them, and open the queue; and what a claim leaves: how far it has come, and when it opens.
SET_LIMITS = "UPDATE {queues} SET limits = :limits, closed_until = NULL WHERE name = :name"
SET_GATE = "UPDATE {queues} SET vtime = :vtime, closed_until = :closed WHERE name = :name"

# Which workers have jobs of a queue, of which keys: its slots that are taken.
TAKEN_SLOTS = """
SELECT DISTINCT node, worker, "keys" FROM {jobs} WHERE queue = :queue AND state = 'processing'
"""

# The jobs of a queue that run.
RUNNING_OF = """
SELECT seq FROM {jobs} WHERE queue = :queue AND state = 'processing' ORDER BY seq
"""

# How many wait in it or run, by the counters; those that have waited longest; and those that have
# the same keys.
IN_LINE = """
SELECT coalesce(sum(jobs), 0) FROM {counts} WHERE queue = :queue AND state IN ('pending', 'failed')
"""
LONGEST_WAITING = """
SELECT seq FROM {jobs} WHERE queue = :queue AND state = 'pending' ORDER BY seq LIMIT :limit
"""
OF_SAME_KEYS = """
SELECT seq FROM {jobs} WHERE queue = :queue AND "keys" = :keys AND state = :state
ORDER BY seq LIMIT :limit
"""

# Until when the rates of its keys are used.
METERS = """
SELECT name, meters FROM {keys} WHERE queue = :queue AND name {in_ids} AND meters IS NOT NULL
"""
SET_METERS = """
INSERT INTO {keys} (queue, name, meters, used_until) VALUES (:queue, :name, :meters, :used_until)
{on_conflict[queue, name]} meters = {excluded[meters]}, used_until = {excluded[used_until]}
"""

# When a key opens again; those that may go on, and those that can't yet.
SET_OPENING = """
INSERT INTO {keys} (queue, name, opens_at) VALUES (:queue, :name, :opens)
{on_conflict[queue, name]} opens_at = {excluded[opens_at]}
"""
OPENING = """
SELECT queue, name FROM {keys} WHERE opens_at IS NOT NULL AND opens_at <= :now
ORDER BY opens_at LIMIT :limit
"""
OPENED = "UPDATE {keys} SET opens_at = NULL WHERE queue = :queue AND name = :name"
OPENED_ALL = "UPDATE {keys} SET opens_at = NULL, meters = NULL WHERE queue = :queue"
CLOSED_KEYS = "SELECT name FROM {keys} WHERE queue = :queue AND opens_at IS NOT NULL"

# Open what is closed for longer than it can be.
OPEN_LATE = "UPDATE {queues} SET closed_until = NULL WHERE name = :name AND closed_until > :before"
OPEN_LATE_KEYS = "UPDATE {keys} SET opens_at = :now WHERE queue = :name AND opens_at > :before"

# How far keys have come in the virtual time of their queue.
SHARES = "SELECT name, vtime FROM {keys} WHERE queue = :queue AND name {in_ids}"
SET_SHARE = """
INSERT INTO {keys} (queue, name, vtime) VALUES (:queue, :name, :vtime)
{on_conflict[queue, name]} vtime = {excluded[vtime]}
"""

# Keys of which nothing need be known: they aren't ahead of their queue, and used up no rate.
DROP_KEYS = """
DELETE FROM {keys} WHERE opens_at IS NULL AND used_until < :now AND vtime <= (
    SELECT coalesce(max(q.vtime), 0) FROM {queues} q WHERE q.name = {keys}.queue
)
"""

# The first jobs of a handler that wait for a key, the next handler that some of these need, and the
# next key that some wait for.
FIRST_PARKED = """
SELECT seq FROM {jobs}
WHERE parked = :parked AND parked IS NOT NULL AND queue = :queue AND handler = :handler
ORDER BY priority DESC, vtime, seq LIMIT :limit{skip_locked}
"""
NEXT_PARKED_HANDLER = """
SELECT min(handler) FROM {jobs}
WHERE queue = :queue AND parked = :parked AND parked IS NOT NULL AND handler > :handler
"""
NEXT_PARKED = """
SELECT min(parked) FROM {jobs} WHERE queue = :queue AND parked IS NOT NULL AND parked > :parked
"""

# Bring them back; those that are held by hand are parked under no key.
UNPARK = "UPDATE {jobs} SET ready = 1, parked = NULL WHERE seq {in_seqs} AND parked > ''"
UNPARK_ALL = """
UPDATE {jobs} SET ready = 1, parked = NULL
WHERE queue = :queue AND parked IS NOT NULL AND parked > ''
"""

# When a key may go on whose rate is used up.
OPENS_AT = "SELECT opens_at FROM {keys} WHERE queue = :queue AND name = :name"

# -- unique keys ------------------------------------------------------------------

# Who took unique keys last; held until the transaction is over. And what has become of these jobs.
HOLDINGS = """
SELECT name, job, starts, until, since FROM {uniques}
WHERE name {in_ids} ORDER BY name{row_lock}
"""
JOBS_NAMED = "SELECT {job_columns} FROM {jobs} WHERE id {in_ids}"

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
