"""Jobs that somebody waits for: how many are left, why they wait, and how they ended."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from queuectl import overview
from queuectl.errors import NotFoundError, UsageError
from queuectl.explain import Reason
from queuectl.filter import Filter
from queuectl.finding import meant
from queuectl.job import FINISHED, OPEN, WAITING, Job, Named, State
from queuectl.place import Place
from queuectl.request import read_duration
from queuectl.store.contract import Store
from queuectl.values import replace
from queuectl.waiting import wait_until

if TYPE_CHECKING:
    from datetime import timedelta

NOT_COMPLETED = (State.DEAD, State.CANCELLED)

Ends = Counter[State | None]
"""How many jobs are in which state; None is that of those that were removed."""


def watch(
    store: Store,
    place: Place,
    ids: Sequence[str] | None,
    *,
    queues: Sequence[str],
    tags: Sequence[str],
) -> "Watch":
    if ids is not None:
        return _ById(store, place, ids)
    if tags:
        return _Tagged(store, place, Filter(queues=tuple(queues), tags=tuple(tags)))
    return _Counted(store, place, queues)


def wait_for(
    store: Store,
    place: Place,
    ids: Sequence[Named],
    *,
    timeout: "str | float | timedelta | None",
    tick: Callable[[int], None] | None,
) -> list[Job]:
    if not all(isinstance(id, str | Job) for id in ids):
        raise UsageError("wait takes ids one by one: wait(id), wait(first, second), wait(*ids).")
    seconds = None if timeout is None else read_duration("timeout", timeout) / 1000
    jobs = [meant(store, id) for id in ids]
    watched = _ById(store, place, [job.id for job in jobs])
    wait_until(watched.remaining, store.changed, timeout=seconds, tick=tick)
    return [store.jobs.get(job.id) or job for job in jobs]


class Watch(ABC):
    """Jobs that are waited for: all that fit `which`, or some of them."""

    total = 0
    """How many there are, as far as we know."""
    dead = 0
    """How many of them have been given up so far."""
    only: str | None = None
    """The id, if a single one was asked for."""
    found = True
    """Whether there was anything to wait for."""

    def __init__(self, store: Store, place: Place, which: Filter) -> None:
        self.which = which
        self._store = store
        self._place = place

    @abstractmethod
    def remaining(self) -> int:
        """Count those that aren't finished."""

    @abstractmethod
    def why(self) -> list[Reason]:
        """Say why those wait that haven't been started."""

    @abstractmethod
    def ends(self) -> Ends:
        """Count them by how they ended; call it when none remains."""

    @abstractmethod
    def failed(self, most: int) -> dict[str, Job | None]:
        """Return some that didn't complete, by their ids; None for those that were removed."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Describe how they stand, for `--json`."""


class _ById(Watch):
    """Jobs known by their ids."""

    def __init__(
        self, store: Store, place: Place, ids: Sequence[str], which: Filter | None = None
    ) -> None:
        super().__init__(store, place, which or Filter())
        self._ids = list(dict.fromkeys(ids))
        self._open = set(self._ids)
        self.total = len(self._ids)
        self.only = self._ids[0] if len(self._ids) == 1 else None

    def remaining(self) -> int:
        states = self._store.jobs.states(sorted(self._open))
        self._open = {id for id in self._open if states.get(id) not in (None, *FINISHED)}
        self.dead += sum(state == State.DEAD for state in states.values())
        return len(self._open)

    def why(self) -> list[Reason]:
        return overview.explain_some(self._store, self._place, sorted(self._open))

    def ends(self) -> Ends:
        states = self._store.jobs.states(self._ids)
        return Counter(states.get(id) for id in self._ids)

    def failed(self, most: int) -> dict[str, Job | None]:
        states = self._store.jobs.states(self._ids)
        failed = [id for id in self._ids if states.get(id) != State.COMPLETED]
        return {id: self._store.jobs.get(id) for id in failed[:most]}

    def as_dict(self) -> dict[str, Any]:
        states = self._store.jobs.states(self._ids)
        return {"jobs": {id: states[id].value if id in states else None for id in self._ids}}


class _Tagged(_ById):
    """All jobs with a tag, now or later, finished or not: how it ends doesn't hang on timing."""

    def __init__(self, store: Store, place: Place, which: Filter) -> None:
        jobs = store.jobs.select(which, limit=None, oldest=True)
        if not jobs:
            raise none_tagged(which)
        super().__init__(store, place, [job.id for job in jobs], which)
        self.only = None
        self._open = {job.id for job in jobs if job.state not in FINISHED}
        self._dead = {job.id for job in jobs if job.state == State.DEAD}

    def _add(self, states: tuple[State, ...]) -> list[str]:
        """Take in the jobs that are in these states now; returns them."""
        which = replace(self.which, states=states)
        found = [job.id for job in self._store.jobs.select(which, limit=None, oldest=True)]
        self._ids = list(dict.fromkeys([*self._ids, *found]))
        self.total = len(self._ids)
        return found

    def remaining(self) -> int:
        before, self._open = self._open, set(self._add(OPEN))
        states = self._store.jobs.states(sorted(before - self._open))
        self._dead |= {id for id, state in states.items() if state == State.DEAD}
        self._dead -= self._open  # somebody has retried them
        self.dead = len(self._dead)
        return len(self._open)

    def ends(self) -> Ends:
        self._add(FINISHED)  # those that came and went between two looks
        return super().ends()


class _Counted(Watch):
    """All jobs of some queues or of all, by the counters: it costs the same with ten million."""

    def __init__(self, store: Store, place: Place, queues: Sequence[str]) -> None:
        super().__init__(store, place, Filter(queues=tuple(queues)))
        self._began = store.clock.now()
        self._before = self._count()

    def _count(self) -> dict[State, int]:
        states = dict.fromkeys(State, 0)
        for count in self._store.jobs.counts():
            if not self.which.queues or count.queue in self.which.queues:
                states[count.state] += count.jobs
        return states

    def remaining(self) -> int:
        states = self._count()
        left = sum(states[state] for state in OPEN)
        self.total = max(self.total, left)
        self.found = self.total > 0
        self.dead = max(states[State.DEAD] - self._before[State.DEAD], 0)
        return left

    def why(self) -> list[Reason]:
        waiting = {
            count.queue
            for count in self._store.jobs.counts()
            if count.jobs
            and count.state in WAITING
            and (not self.which.queues or count.queue in self.which.queues)
        }
        some = replace(self.which, states=OPEN)
        jobs = self._store.jobs.select(some, limit=overview.LOOKED_AT + 1)
        if len(jobs) > overview.LOOKED_AT:
            jobs = []
        return overview.explain_unstarted(self._store, self._place, jobs, waiting)

    def ends(self) -> Ends:
        states = self._count()
        return Counter({state: max(states[state] - self._before[state], 0) for state in FINISHED})

    def failed(self, most: int) -> dict[str, Job | None]:
        which = replace(self.which, states=NOT_COMPLETED, finished_since=self._began)
        return {job.id: job for job in self._store.jobs.select(which, limit=most, oldest=True)}

    def as_dict(self) -> dict[str, Any]:
        ends = self.ends()
        return {**{state.value: ends[state] for state in FINISHED}, "left": self.remaining()}


def none_tagged(which: Filter) -> NotFoundError:
    """Say that no job has these tags."""
    names = " and ".join(repr(tag) for tag in which.tags)
    return NotFoundError(f"No job has the tag {names}.", advice="see queuectl list.")
