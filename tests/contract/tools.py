"""What the contract tests share: a fixed time, short ways to make runs, and a foreign client."""

import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any, Protocol

from queuectl.admission import Offer, Serving, Suspects
from queuectl.facts import Event, Node, Pause, Sleep, count_waiting
from queuectl.filter import Filter, Sort
from queuectl.job import Exited, Job, NewJob, Outcome, Output, State, Transition, Usage
from queuectl.lifecycle import Policy, decide, finished
from queuectl.precedence import order_of
from queuectl.resources import Holding, Stock, needs_of
from queuectl.sleeping import snoozed
from queuectl.store import Store
from queuectl.store.contract import (
    Asked,
    Capability,
    Decision,
    Ended,
    EndRun,
    Listener,
    Over,
    Topic,
    Turned,
)
from queuectl.store.polling import PollingListener
from queuectl.store.sqlstore import SqlStore
from tests.contract.actors import Row

NOW = 1_762_606_800_000
"""2025-11-08T13:00:00Z: the start of an hour, not of a day."""
SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

Served = Serving | Sequence[str]


class Client(Protocol):
    """A database connection that isn't ours. Tables are named in braces, values bound as `?`."""

    def run(self, text: str, *params: object) -> list[Row]:
        """Run one statement, committed at once, and return its rows."""

    def close(self) -> None:
        """Disconnect."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A database the suite runs on."""

    name: str
    client: Callable[[str], Client]
    tells: bool = True
    """Whether it tells its listeners of changes; if not, they have to look again and again."""
    knows: bool = True
    """Whether it knows if anybody else wrote; if not, it says so now and then."""
    capabilities: frozenset[str] = frozenset(Capability)


def no_client(url: str) -> Client:
    """Stand for the client of a store that has none."""
    raise AssertionError("no other program can use that store")


def add(store: Store, id: str, *, now: int = NOW, **fields: Any) -> Job:
    """Enqueue one job and return it as it is stored."""
    work: dict[str, Any] = {} if {"argv", "data"} & fields.keys() else {"command": f"echo {id}"}
    store.jobs.enqueue([NewJob(**{"id": id, **work, **fields})], now=now)
    return the(store, id)


def the(store: Store, id: str) -> Job:
    """Return a job that must be there."""
    job = store.jobs.get(id)
    assert job is not None, f"there is no job {id}"
    return job


def ids(jobs: Sequence[Job]) -> list[str]:
    """Return the ids of jobs."""
    return [job.id for job in jobs]


def a_node(store: Store, id: str = "node-1", *, lease: int = HOUR, **changes: Any) -> Node:
    """Register a node whose lease ends so many milliseconds from now."""
    node = replace(
        Node(
            id=id,
            host="host-2",
            boot="boot-3",
            pid=4,
            pid_start=5,
            workers=6,
            queues=Serving(("queue-7", "queue-8")),
            spool="/spool/9",
            version="10.11",
            started_at=NOW - 12,
            seen_at=NOW - 13,
            lease_until=store.clock.steady() + lease,
        ),
        **changes,
    )
    store.nodes.register(node)
    return node


def take(
    store: Store,
    count: int = 1,
    *,
    node: str = "node-1",
    queues: Served = (),
    now: int = NOW,
) -> list[Job]:
    """Claim jobs for so many workers of a node that have none, numbered from 1."""
    busy = {job.worker for job in store.runs.held(node)}
    idle = [worker for worker in range(1, count + len(busy) + 1) if worker not in busy][:count]
    return list(claim(store, node, idle, queues, now=now).jobs)


def take_one(store: Store, *, node: str = "node-1", now: int = NOW) -> Job:
    """Claim exactly one job."""
    (job,) = take(store, node=node, now=now)
    return job


def ended(
    job: Job,
    outcome: Outcome | None = None,
    *,
    now: int = NOW + 5 * SECOND,
    policy: Policy | None = None,
    **changes: Any,
) -> Ended:
    """Describe the end of a run, with what the policy makes of it; exit code 0 unless said."""
    outcome = outcome or Exited(0)
    end = Ended(
        job=job,
        outcome=outcome,
        transition=decide(job, outcome, now, policy or Policy()),
        started_at=(job.started_at or 0) + 21,
        finished_at=now,
        duration_ms=4_022,
        host="host-23",
        error="error 24",
        output=Output(stdout=b"out 25", stderr=b"err 26", stdout_bytes=2_025, stderr_bytes=2_026),
        used=Usage(peak_memory=2_027, cpu_ms=2_028, read_bytes=2_029, written_bytes=2_030),
        noted="noted 31",
    )
    return replace(end, **changes)


def tired(end: Ended, *, now: int, policy: Policy | None = None) -> Ended:
    """Describe the same end of a run that may have said that its job sleeps."""
    return replace(end, if_asleep=partial(_asleep, end, now, policy or Policy()))


def _asleep(end: Ended, now: int, policy: Policy, sleep: Sleep) -> Ended:
    outcome = snoozed(sleep, now)
    return replace(
        end, outcome=outcome, transition=decide(end.job, outcome, now, policy), error=None
    )


def run(
    store: Store,
    id: str,
    outcome: Outcome | None = None,
    *,
    now: int = NOW + 5 * SECOND,
    policy: Policy | None = None,
    node: str = "node-1",
    **changes: Any,
) -> Job:
    """Claim the next job, which must have this id, end its run, and return it as it is then."""
    job = take_one(store, node=node, now=now - 5 * SECOND)
    assert job.id == id
    assert finish(store, [ended(job, outcome, now=now, policy=policy, **changes)]) == []
    return the(store, id)


def states(store: Store) -> dict[str, State]:
    """Return all jobs with their states."""
    from queuectl.filter import Filter

    return {job.id: job.state for job in store.jobs.select(Filter(), limit=None, oldest=True)}


def everything(client: Client) -> dict[str, list[Row]]:
    """Return every row of the tables about jobs, to compare before and after."""
    tables = ("jobs", "attempts", "outputs", "inputs", "tags", "counts", "rollups", "events")
    return {table: sorted(client.run(f"SELECT * FROM {{{table}}}"), key=repr) for table in tables}


def assert_counts_are_right(store: Store, client: Client) -> None:
    """Compare the counters with the jobs, counted by another program."""
    counted = client.run(
        "SELECT queue, state, priority, count(*), sum(CASE WHEN timeout > 0 THEN 1 ELSE 0 END)"
        " FROM {jobs} GROUP BY queue, state, priority"
    )
    told = [(c.queue, c.state.value, c.priority, c.jobs, c.timed) for c in store.jobs.counts()]
    assert sorted(told) == sorted(counted)


def hear(listener: Listener, topic: Topic, *, within: float = 30.0) -> bool:
    """Wait until a listener hears of a topic, the way a node does; False if it never does."""
    deadline = monotonic() + within
    while (left := deadline - monotonic()) > 0:
        if topic in listener.heard():
            return True
        _wait(listener, left)
    return False


def quieten(listener: Listener) -> set[Topic]:
    """Take in all that is still to be heard, until nothing more is to come; return what it was.

    One that only looks again and again is never done; it is quiet when the bell is.
    """
    heard = listener.heard()
    if isinstance(listener, PollingListener):
        return heard
    while (new := listener.heard()) or listener.recheck_in() is not None:
        heard |= new
        _wait(listener, listener.recheck_in() or 0.0)
    return heard


def _wait(listener: Listener, longest: float) -> None:
    recheck = listener.recheck_in()
    fds = [listener.fileno()] if listener.fileno() >= 0 else []
    select.select(fds, [], [], longest if recheck is None else min(recheck, longest))


def raw(store: Store) -> Any:
    """Return the connection of a store, as its driver has it."""
    assert isinstance(store, SqlStore)
    with store.db.session() as session:
        return session.db


# -- changes by hand, to jobs as they were read --------------------------------------------------


def apply(store: Store, job: Job, to: Transition, *, now: int) -> bool:
    """Apply a transition to a job that doesn't run; False when it has changed since."""
    return bool(apply_all(store, [(job, to)], now=now))


def apply_all(store: Store, changes: Sequence[tuple[Job, Transition]], *, now: int) -> set[int]:
    """Do that to several jobs; returns the places of those that were changed."""
    wanted = {job.seq: Decision(to) for job, to in changes if job.state != State.PROCESSING}
    return _change_same(store, [job for job, _ in changes], wanted, now)


def ask_cancel(store: Store, job: Job, reason: str, *, now: int) -> bool:
    """Have the run of a job ended; False when it has changed since."""
    return bool(ask_cancel_all(store, [job], reason, now=now))


def ask_cancel_all(store: Store, jobs: Sequence[Job], reason: str, *, now: int) -> set[int]:
    """Do that to several jobs; returns the places of those that were asked for."""
    wanted = {job.seq: Decision(EndRun(reason)) for job in jobs if job.state == State.PROCESSING}
    return _change_same(store, jobs, wanted, now)


def force_finish(store: Store, job: Job, result: str | None = None, *, now: int) -> bool:
    """Complete a job by hand, or have its run ended for that; False when it has changed since."""
    to = Decision(finished(job, "by hand"), result=result)
    if job.state == State.PROCESSING:
        to = Decision(EndRun("by hand", forced=result or ""))
    return bool(_change_same(store, [job], {job.seq: to}, now))


def pause(store: Store, job: Job, *, paused: bool = True, who: str = "me", now: int) -> bool:
    """Pause the run of a job, or let it go on; False when it was so already, or is over."""

    def decide(held: Mapping[int, Job], pauses: Mapping[int, Pause], at: int) -> dict[int, Event]:
        found = held.get(job.seq)
        runs = found is not None and found.state == State.PROCESSING
        if not runs or (job.seq in pauses) == paused:
            return {}
        kind = "pause" if paused else "resume"
        return {job.seq: Event(at=at, kind=kind, job=job.id, node=job.node, who=who, detail=None)}

    return bool(store.runs.set_paused([job], decide, now=now))


def remove(store: Store, job: Job) -> bool:
    """Delete a job that doesn't run; False when it has changed since."""
    return bool(remove_all(store, [job]))


def remove_all(store: Store, jobs: Sequence[Job]) -> set[int]:
    """Do that to several jobs; returns the places of those that were deleted."""
    wanted = {job.seq: Decision(None) for job in jobs if job.state != State.PROCESSING}
    return _change_same(store, jobs, wanted, None)


def _change_same(
    store: Store, jobs: Sequence[Job], wanted: Mapping[int, Decision], now: int | None
) -> set[int]:
    """Change those jobs that are still in the same state and run."""
    known = {job.seq: (job.id, job.attempts, job.state) for job in jobs}

    def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
        same = {s for s, job in held.items() if (job.id, job.attempts, job.state) == known[s]}
        return {seq: decision for seq, decision in wanted.items() if seq in same}

    return set(store.jobs.change(jobs, decide, now=now))


# -- the parts of a turn, one by one -------------------------------------------------------------


def claim(
    store: Store,
    node: str,
    workers: Sequence[int],
    queues: Served = (),
    *,
    now: int | None = None,
    suspects: Suspects | None = None,
) -> Turned:
    """Give a node jobs for these workers."""
    served = serving(queues)
    offer = Offer(
        workers, served, suspects, order=order_of(served), stock=stock(store, node, served)
    )
    return store.runs.turn(node, None, offer, now=now)


def stock(store: Store, node: str, served: Serving) -> Stock | None:
    """Return what a node has, and what its runs have of it, as it would say itself."""
    if not served.has_classes:
        return None
    holdings = [
        Holding(job.started_at or 0, needs, job.devices)
        for job in store.runs.held(node)
        if (needs := needs_of(job.handler))
    ]
    return Stock(served.resources, holdings)


def serving(queues: Served) -> Serving:
    """Serve these queues; no names are all."""
    return queues if isinstance(queues, Serving) else Serving(tuple(queues))


def finish(store: Store, ends: Sequence[Ended]) -> list[Ended]:
    """Write down how runs ended; returns those whose lease was lost."""
    over = Over(judge=lambda stuck, asked, now: ends)
    return list(store.runs.turn("", over, None).lost)


def bury_first(store: Store, id: str) -> None:
    """Have the first job in line, which must have this id, fail for good."""
    now = store.clock.now()
    a_node(store, lease=DAY)
    job = take_one(store, now=now)
    assert job.id == id
    end = ended(job, Exited(1), now=now, policy=Policy(max_retries=0))
    assert finish(store, [end]) == []


def release(store: Store, jobs: Sequence[Job], *, now: int) -> list[Job]:
    """Put claimed jobs back in line that were never started; returns those that couldn't be."""
    left: list[Job] = []

    def judge(stuck: Sequence[Job], asked: Asked, now: int) -> list[Ended]:
        left[:] = stuck
        return []

    store.runs.turn("", Over(jobs, judge), None, now=now)
    return left


def transaction(store: Store) -> AbstractContextManager[None]:
    """Make everything inside one durable write, on a store that can."""
    able: Any = store.db if isinstance(store, SqlStore) else store
    done: AbstractContextManager[None] = able.transaction()
    return done


def nudge(store: Store, topic: Topic) -> None:
    """Wake those who listen, after the current transaction if there is one."""
    assert isinstance(store, SqlStore)
    store.db.nudge(topic)


def forget(store: Store, node: str, *, beat: int | None = None) -> bool:
    """Strike a node from the register, whatever it holds; False when it isn't there."""
    known = any(one.id == node for one in store.nodes.all())
    return store.runs.rescue(node, lambda jobs, now: Over(), beat=beat) is not None and known


def renew(store: Store, node: str, *, until: int) -> bool:
    """Extend a lease of a node that is otherwise as `a_node` makes it."""
    return store.nodes.renew(node, until=until, workers=6, version="10.11")


def foresee(store: Store, queues: Served, *, now: int) -> tuple[bool, int | None]:
    """Tell whether a claim would find something, and if nothing is ready, when that changes."""
    outlook = store.runs.outlook(serving(queues))
    at = None if outlook.ready else outlook.changes_at
    return outlook.ready or (at is not None and at <= now), at


def slowest(store: Store, limit: int) -> list[Job]:
    """Return the completed jobs whose last run took longest."""
    by = [Sort("duration_ms", descending=True)]
    return store.jobs.at(store.jobs.places(Filter(states=(State.COMPLETED,)), by, limit=limit))


def waiting(store: Store, queues: Served = ()) -> int:
    """Count jobs that could still come to a node serving these queues."""
    return count_waiting(store.jobs.counts(), store.settings.queues(), serving(queues))


def strays(store: Store) -> list[str]:
    """Return names of nodes that aren't registered, but have jobs in processing."""
    return sorted({str(job.node) for job in store.runs.held(None)})
