"""The shared statements about what jobs have to do with each other.

Who waits for whom, which are in a group, and what they share: limits and names. The holes are those
of `shared`.
"""

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

# How many wait in it or run, by the counters; those that have waited longest, from a place on; and
# those that have the same keys, and how many these are.
IN_LINE = """
SELECT coalesce(sum(jobs), 0) FROM {counts} WHERE queue = :queue AND state IN ('pending', 'failed')
"""
LONGEST_WAITING = """
SELECT seq, "keys" FROM {jobs} WHERE queue = :queue AND state = :state AND seq > :after
ORDER BY seq LIMIT :limit
"""
OF_SAME_KEYS = """
SELECT seq, "keys" FROM {jobs}
WHERE queue = :queue AND "keys" = :keys AND state = :state AND seq > :after
ORDER BY seq LIMIT :limit
"""
COUNT_SAME_KEYS = """
SELECT count(*) FROM {jobs} WHERE queue = :queue AND "keys" = :keys AND state = :state
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
