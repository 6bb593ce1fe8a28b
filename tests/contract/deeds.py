"""What clients do to a store, as values: a client in another process can be told to do them.

A deed is a function of a store. Those here can be pickled, with all that they are bound to.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from queuectl.errors import BadJobError, DuplicateError, LeaseLostError, NotFoundError, StateError
from queuectl.facts import Count, Event, Node, Rollup, Total
from queuectl.job import WAITING, Exited, Job, Lost, NewJob
from queuectl.lifecycle import Policy, cancelled, in_line, retried
from queuectl.store.contract import Decision, Edit, Ended
from tests.contract import tools
from tests.contract.tools import ended

Deed = Callable[[Any], Any]
POLICY = Policy(max_crashes=2)

_OF_JOB = attrgetter(*(f.name for f in fields(Job) if f.name != "seq"))
"""All of a job but its place in the line."""


class UndoneError(Exception):
    """What makes a transaction fail in the middle."""


# -- what is done -----------------------------------------------------------------------


def enqueue(store: Any, *, jobs: Sequence[NewJob], now: int, skip: bool = False) -> Any:
    return store.jobs.enqueue(jobs, now=now, skip_duplicates=skip)


def claim(store: Any, *, node: str, count: int, now: int) -> Any:
    return tools.claim(store, node, range(count), (), now=now)


def run(store: Any, *, now: int) -> Any:
    """Claim jobs and end them at once."""
    claimed = tools.claim(store, "node-1", range(2), (), now=now)
    ends = [ended(job, Exited(0), now=now, policy=POLICY) for job in claimed.jobs]
    # Ties would make the slowest ambiguous, so none of them completes.
    return claimed, tools.finish(
        store, [replace(e, transition=cancelled(e.job, "x")) for e in ends]
    )


def finish(store: Any, *, ends: Sequence[Ended]) -> Any:
    return tools.finish(store, ends)


def cancel(store: Any, *, id: str, now: int) -> Any:
    job = store.jobs.get(id)
    return job and tools.apply(store, job, cancelled(job, "in between"), now=now)


def retry(store: Any, *, id: str, now: int) -> Any:
    job = store.jobs.get(id)
    return job and tools.apply(store, job, retried(now, in_line(job)), now=now)


def edit(store: Any, *, id: str, changes: Mapping[str, Any], now: int) -> Any:
    """Make another job of one, if it waits."""
    job = store.jobs.get(id)
    to = job and Edit(replace(job, **changes))
    return job and _decide(store, job, to, now)


def put_first(store: Any, *, id: str, now: int) -> Any:
    job = store.jobs.get(id)
    return job and _decide(store, job, Edit(job, first=True), now)


def _decide(store: Any, job: Job, to: Edit, now: int) -> Any:
    if job.state not in WAITING:
        return None
    return list(store.jobs.change([job], lambda held, _: {job.seq: Decision(to)}, now=now).values())


def swap(store: Any, *, ids: Sequence[str], now: int) -> Any:
    """Have two jobs take each other's place, if both are there and wait."""
    jobs = [store.jobs.get(id) for id in ids]
    if any(job is None or job.state not in WAITING for job in jobs):
        return None
    note = Event(at=now, kind="swap", job=ids[0], node=None, who="wer", detail=ids[1])
    return store.jobs.swap(*jobs, lambda one, other, now: [note], now=now)


def remove(store: Any, *, id: str) -> Any:
    job = store.jobs.get(id)
    return job and tools.remove(store, job)


def configure(store: Any, *, name: str, now: int) -> Any:
    return store.settings.set_config(name, "x", now=now)


def pause(store: Any, *, queue: str, now: int) -> Any:
    return store.settings.set_paused(queue, paused=True, who="me", now=now)


def record(store: Any, *, event: Event) -> Any:
    return store.history.record(event)


def rescue(store: Any, *, now: int) -> Any:
    """Give back what nodes held whose lease is over, the way a node does it for others."""
    return [_rescue_one(store, node, now) for node in store.nodes.all() if node.lapsed]


def _rescue_one(store: Any, node: Node, now: int) -> Any:
    def give_back() -> Any:
        if not tools.forget(store, node.id, beat=node.beat):
            return node.id, None
        held = sorted(store.runs.held(node.id), key=lambda job: job.id)
        ends = [ended(job, Lost("its node is gone"), now=now, policy=POLICY) for job in held]
        late = tools.finish(store, ends)
        for job in held:
            store.history.record(
                Event(at=now, kind="rescue", job=job.id, node=node.id, who="wer", detail=None)
            )
        return node.id, ends, late

    return store.transact(give_back)


def together(store: Any, *, deeds: Sequence[Deed]) -> Any:
    """Do all of it as one durable write."""
    return store.transact(lambda: [answer(deed, store) for deed in deeds])


# -- what is answered -------------------------------------------------------------------


def answer(deed: Deed, store: Any) -> Any:
    """Do something and return the answer, also if it is a refusal."""
    try:
        return deed(store)
    except (
        BadJobError,
        DuplicateError,
        LeaseLostError,
        NotFoundError,
        StateError,
        UndoneError,
    ) as error:
        return type(error).__name__


def plain(value: Any) -> Any:
    """Leave out what a store numbers or times by itself, and order what has no order."""
    match value:
        case Job():
            # Whether one that waits for a limit is parked is for a store to decide.
            return _OF_JOB(value if value.parked == "" else replace(value, parked=None))
        case Ended():
            return value.job.id, value.job.attempts
        case Node():
            return replace(value, seen_at=0, lease_until=0), value.beat
        case [Count() | Rollup() | Total(), *_]:
            return sorted(value, key=repr)
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value
