"""Jobs that somebody waits for: how many are left, why they wait, and how they ended."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from queuectl.errors import NotFoundError, UsageError
from queuectl.explain import Reason
from queuectl.facts import Count
from queuectl.filter import Filter
from queuectl.job import FINISHED, OPEN, Job, Named, State
from queuectl.report import group_dict
from queuectl.request import read_duration
from queuectl.values import replace
from queuectl.waiting import unless_stuck

if TYPE_CHECKING:
    from datetime import timedelta

    from queuectl.facts import Group
    from queuectl.groups import Groups

NOT_COMPLETED = (State.DEAD, State.CANCELLED)

Ends = Counter[State | None]
"""How many jobs are in which state; None is that of those that were removed."""


Jobs = list[Job]
Counts = list[Count]
Reasons = list[Reason]


class Asked(Protocol):
    """Who is asked how jobs stand: a queue, wherever it is."""

    def now(self) -> int:
        """Return the clock of the queue."""

    def meant(self, id: Named) -> Job:
        """Return a job by its id."""

    def find(self, id: str) -> Job | None:
        """Return the job with exactly this id."""

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        """Return the states of jobs."""

    def counts(self) -> Counts:
        """Count jobs by queue, state and priority."""

    def list(self, which: Filter, *, limit: int | None, oldest: bool) -> Jobs:
        """Return the jobs that fit, as they are at one moment."""

    def explain_some(self, which: Sequence[str]) -> Reasons:
        """Say why jobs wait."""

    def is_stuck(self, which: Sequence[str] | Filter) -> bool:
        """Tell whether all that is left of jobs waits in vain."""

    def explain_open(self, queues: Collection[str]) -> Reasons:
        """Say why the jobs of queues wait."""

    @property
    def groups(self) -> "Groups":
        """The groups of the queue."""

    def wait_until(
        self,
        remaining: Callable[[], int],
        *,
        timeout: float | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        """Wait until nothing remains."""


def watch(
    queue: Asked,
    ids: Sequence[str] | None,
    *,
    queues: Sequence[str],
    tags: Sequence[str],
    groups: Sequence[str],
) -> "Watch":
    if ids is not None:
        return _ById(queue, ids)
    if groups:
        return _Grouped(queue, groups)
    if tags:
        return _Tagged(queue, Filter(queues=tuple(queues), tags=tuple(tags)))
    return _Counted(queue, queues)


def wait_for(
    queue: Asked,
    ids: Sequence[Named],
    *,
    timeout: "str | float | timedelta | None",
    tick: Callable[[int], None] | None,
    or_stuck: bool = False,
) -> list[Job]:
    if not all(isinstance(id, str) or hasattr(id, "id") for id in ids):
        raise UsageError("wait takes ids one by one: wait(id), wait(first, second), wait(*ids).")
    seconds = None if timeout is None else read_duration("timeout", timeout) / 1000
    jobs = [queue.meant(id) for id in ids]
    watched = _ById(queue, [job.id for job in jobs])
    tick = unless_stuck(watched.is_stuck, watched.why, tick) if or_stuck else tick
    queue.wait_until(watched.remaining, timeout=seconds, tick=tick)
    return [queue.find(job.id) or job for job in jobs]


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

    def __init__(self, queue: Asked, which: Filter) -> None:
        self.which = which
        self._queue = queue

    @abstractmethod
    def remaining(self) -> int:
        """Count those that aren't finished."""

    @abstractmethod
    def why(self) -> list[Reason]:
        """Say why those wait that haven't been started."""

    @abstractmethod
    def is_stuck(self) -> bool:
        """Tell whether all that is left of them waits in vain; call it after `remaining`."""

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

    def __init__(self, queue: Asked, ids: Sequence[str], which: Filter | None = None) -> None:
        super().__init__(queue, which or Filter())
        self._ids = list(dict.fromkeys(ids))
        self._open = set(self._ids)
        self.total = len(self._ids)
        self.only = self._ids[0] if len(self._ids) == 1 else None

    def remaining(self) -> int:
        states = self._queue.states(sorted(self._open))
        self._open = {id for id in self._open if states.get(id) not in (None, *FINISHED)}
        self.dead += sum(state == State.DEAD for state in states.values())
        return len(self._open)

    def why(self) -> list[Reason]:
        return self._queue.explain_some(sorted(self._open))

    def is_stuck(self) -> bool:
        return self._queue.is_stuck(sorted(self._open))

    def ends(self) -> Ends:
        states = self._queue.states(self._ids)
        return Counter(states.get(id) for id in self._ids)

    def failed(self, most: int) -> dict[str, Job | None]:
        states = self._queue.states(self._ids)
        failed = [id for id in self._ids if states.get(id) != State.COMPLETED]
        return {id: self._queue.find(id) for id in failed[:most]}

    def as_dict(self) -> dict[str, Any]:
        states = self._queue.states(self._ids)
        return {"jobs": {id: states[id].value if id in states else None for id in self._ids}}


class _Tagged(_ById):
    """All jobs with a tag, now or later, finished or not: how it ends doesn't hang on timing."""

    def __init__(self, queue: Asked, which: Filter) -> None:
        jobs = queue.list(which, limit=None, oldest=True)
        if not jobs:
            raise none_tagged(which)
        super().__init__(queue, [job.id for job in jobs], which)
        self.only = None
        self._open = {job.id for job in jobs if job.state not in FINISHED}
        self._dead = {job.id for job in jobs if job.state == State.DEAD}

    def _add(self, states: tuple[State, ...]) -> list[str]:
        """Take in the jobs that are in these states now; returns them."""
        which = replace(self.which, states=states)
        found = [job.id for job in self._queue.list(which, limit=None, oldest=True)]
        self._ids = list(dict.fromkeys([*self._ids, *found]))
        self.total = len(self._ids)
        return found

    def remaining(self) -> int:
        before, self._open = self._open, set(self._add(OPEN))
        states = self._queue.states(sorted(before - self._open))
        self._dead |= {id for id, state in states.items() if state == State.DEAD}
        self._dead -= self._open  # somebody has retried them
        self.dead = len(self._dead)
        return len(self._open)

    def ends(self) -> Ends:
        self._add(FINISHED)  # those that came and went between two looks
        return super().ends()


class _Counted(Watch):
    """All jobs of some queues or of all, by the counters: it costs the same with ten million."""

    def __init__(self, queue: Asked, queues: Sequence[str]) -> None:
        super().__init__(queue, Filter(queues=tuple(queues)))
        self._began = queue.now()
        self._before = self._count()

    def _count(self) -> dict[State, int]:
        states = dict.fromkeys(State, 0)
        for count in self._queue.counts():
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
        return self._queue.explain_open(self.which.queues)

    def is_stuck(self) -> bool:
        states = self._count()
        if any(states[state] for state in OPEN if state != State.BLOCKED):
            return False
        return self._queue.is_stuck(self.which)

    def ends(self) -> Ends:
        states = self._count()
        return Counter({state: max(states[state] - self._before[state], 0) for state in FINISHED})

    def failed(self, most: int) -> dict[str, Job | None]:
        which = replace(self.which, states=NOT_COMPLETED, finished_since=self._began)
        return {job.id: job for job in self._queue.list(which, limit=most, oldest=True)}

    def as_dict(self) -> dict[str, Any]:
        ends = self.ends()
        return {**{state.value: ends[state] for state in FINISHED}, "left": self.remaining()}


class _Grouped(Watch):
    """All jobs of groups, by the rows of these: it costs the same with a million jobs."""

    def __init__(self, queue: Asked, groups: Sequence[str]) -> None:
        names = tuple(dict.fromkeys(groups))
        super().__init__(queue, Filter(groups=names))
        for name in names:
            queue.groups.get(name)
        self._read()

    def _read(self) -> "list[Group]":
        found = self._queue.groups.named(self.which.groups)
        self.total = sum(group.jobs for group in found)
        self.dead = sum(group.dead for group in found)
        self.found = self.total > 0
        return found

    def remaining(self) -> int:
        return sum(group.open for group in self._read())

    def why(self) -> list[Reason]:
        waiting = [group.name for group in self._read() if group.open]
        # That no worker runs, say, is the same for all.
        reasons = [reason for name in waiting for reason in self._queue.groups.why(name)]
        return [*{reason.text: reason for reason in reasons}.values()]

    def is_stuck(self) -> bool:
        waiting = [group.name for group in self._read() if group.open]
        return _are_stuck(self._queue, waiting)

    def ends(self) -> Ends:
        """Count them; what wasn't needed hasn't failed, and isn't counted."""
        ends: Ends = Counter()
        for group in self._read():
            ends[State.COMPLETED] += group.completed
            ends[State.DEAD] += group.dead
            ends[State.CANCELLED] += group.cancelled - group.unneeded
        return ends

    def failed(self, most: int) -> dict[str, Job | None]:
        """Name none: they would have to be looked for among all jobs."""
        return {}

    def as_dict(self) -> dict[str, Any]:
        return {"groups": [group_dict(group) for group in self._read()]}


def _are_stuck(queue: Asked, groups: Sequence[str]) -> bool:
    """Tell whether all that is left of groups waits in vain.

    Of many jobs, some tell that it isn't so, without a look at all of them.
    """
    some = queue.groups.stuck(groups)
    return set(some) == set(groups) and queue.is_stuck(Filter(groups=tuple(groups)))


def none_tagged(which: Filter) -> NotFoundError:
    """Say that no job has these tags."""
    names = " and ".join(repr(tag) for tag in which.tags)
    return NotFoundError(f"No job has the tag {names}.", advice="see queuectl list.")
