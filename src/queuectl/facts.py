"""What is said of a queue besides its jobs: counts, nodes, queues, times, events."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from queuectl.job import WAITING, Job, State, moment
from queuectl.values import dataclass, field

if TYPE_CHECKING:
    from datetime import datetime

    from queuectl.admission import Serving
    from queuectl.limits import Limits

Progress = Callable[[int, int], None]
"""Hears how far a long operation is: `done` of `total` steps."""


class Stop(StrEnum):
    """What a node is asked to do with its running jobs when it stops."""

    DRAIN = "drain"
    """Finish what runs, claim nothing more."""
    RELEASE = "release"
    """End the runs and give their jobs back unharmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A registered node, alive or not yet rescued."""

    id: str
    host: str
    boot: str
    """The host's boot id and pid namespace: pids mean something only where this is the same."""
    pid: int
    pid_start: int
    """Start time of that process, so that a recycled pid isn't taken for it."""
    workers: int
    queues: "Serving"
    spool: str
    """The folder on its host where the output of its running jobs is."""
    version: str
    started_at: int
    seen_at: int
    lease_until: int
    """By the store's steady clock."""
    stop: Stop | None = None
    lease: int = field(default=0, compare=False)
    """How many milliseconds it may go without a renewal; set by the store."""
    beat: int = field(default=0, compare=False)
    """Counts the renewals: whoever strikes the node from the register names the last one seen."""
    lapsed: bool = field(default=False, compare=False)
    """Whether its lease was over beyond doubt when the node was read: its jobs can be rescued."""

    def serves(self, queue: str) -> bool:
        """Tell whether it takes jobs of this queue."""
        return queue in self.queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a job that runs has of its node."""

    node: str
    at: int
    """When it was claimed."""
    handler: str
    """Its class of need is a part of that."""
    devices: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """That a node keeps room for a job that doesn't fit yet."""

    seq: int
    """The place of the job."""
    node: str
    at: int
    """Since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """That a run stands still, since when, and who wanted that."""

    seq: int
    number: int
    """The run: its job, and which attempt it is."""
    at: int
    who: str

    @property
    def since(self) -> "datetime":
        """Since when."""
        return moment(self.at)

    def is_of(self, job: Job) -> bool:
        """Tell whether it is that of the run which a job has now.

        One that was put back before it began has its number again when it is claimed the next time.
        """
        if job.state != State.PROCESSING or job.started_at is None:
            return False
        is_same = (job.seq, job.attempts) == (self.seq, self.number)
        return is_same and job.started_at <= self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run has come, as it says itself."""

    seq: int
    number: int
    """The run: its job, and which attempt it is."""
    percent: float | None
    """From 0 to 100; None if it said only a word."""
    note: str
    at: int

    def __str__(self) -> str:
        """Write it in one line: `40% rows 400/1000`."""
        share = "" if self.percent is None else f"{self.percent:.3g}%"
        return " ".join(part for part in (share, self.note) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of a job that is done: no later run does it again."""

    name: str
    number: int
    """The run that did it."""
    seen: int
    """The last run that came by it."""
    output: bytes
    """What it wrote to stdout."""
    at: int

    @property
    def done(self) -> "datetime":
        """When it was done."""
        return moment(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """That a job has given its worker back: for a time, or until something is emitted."""

    seq: int
    number: int
    """The run that said so last."""
    step: str
    """The name of the step that is done when it is over."""
    awaits: str | None
    """What must be emitted; None if only the time counts."""
    until: int | None
    """When it is over at the latest; None is never."""
    at: int
    """Since when."""
    woken: bool = False
    """Whether it was emitted since."""

    def is_of(self, job: Job) -> bool:
        """Tell whether it is what a job waits for: its newest run said so, and is over."""
        return job.state == State.PENDING and job.attempts == self.number and job.seq == self.seq

    def __str__(self) -> str:
        """Write what the job does: `sleeps`, or `awaits paid`."""
        return "sleeps" if self.awaits is None else f"awaits {self.awaits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What somebody told all jobs that wait for it, or will: once, under a name, as JSON."""

    name: str
    payload: str
    at: int
    who: str

    @property
    def value(self) -> Any:
        """What was told."""
        from queuectl.jsontext import read_stored

        return read_stored(self.payload)

    @property
    def time(self) -> "datetime":
        """When it was."""
        return moment(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many jobs share a queue, state and priority, and how many of them have a timeout."""

    queue: str
    state: State
    priority: int
    jobs: int
    timed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """Durations of one kind in one bucket of a histogram. `histogram` says how wide it is."""

    measure: str
    """How the run ended (`completed`, `failed`, `dead`, ...), or `wait` for time in the queue."""
    bucket: int
    count: int
    total_ms: int
    least_ms: int
    most_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Runs or waits of one kind that there ever were, of those that took about as long."""

    measure: str
    """As that of a rollup; or, for runs that failed, `failure` and how."""
    within: int | None
    """The time that they didn't exceed, by more than 1 %; None if they took longer than any that
    was asked for."""
    count: int
    total_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue somebody has set something on."""

    name: str
    paused_at: int | None
    paused_by: str | None
    limits: "Limits | None" = None
    """What was set on it besides; None if nothing was, and none of its jobs has a key."""
    closed_until: int | None = field(default=None, compare=False)
    """Until when nothing of it can begin, as far as the last claim from it could tell."""

    @property
    def is_limited(self) -> bool:
        """Whether limits or defaults were set on it."""
        return self.limits is not None and bool(self.limits.as_dict())


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUse:
    """All that there is of a queue, to whoever wants it renamed or removed."""

    name: str
    states: Mapping[State, int]
    """How many jobs of it are in which state; states that none is in are left out."""
    info: QueueInfo | None
    schedules: tuple[str, ...]
    """Those whose jobs go there because they say so."""

    @property
    def jobs(self) -> int:
        """How many jobs are in it."""
        return sum(self.states.values())

    @property
    def is_set(self) -> bool:
        """Whether something is set on it that makes a difference."""
        info = self.info
        return info is not None and (info.paused_at is not None or info.is_limited)


UNDO_FOR = 600_000
"""Milliseconds for which what was done by hand can be undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something done by hand, a rescue or a death: who did what, when."""

    at: int
    kind: str
    job: str | None
    node: str | None
    who: str
    detail: str | None
    action: str | None = field(default=None, compare=False)
    """What it was done with: one command, request or call is one action."""
    was: str | None = field(default=None, compare=False)
    """What the job was before, if that can be undone: its columns, as JSON; set by the store."""
    seq: int = field(default=0, compare=False)
    """Its place among the events; set by the store."""

    @property
    def time(self) -> "datetime":
        """When it was done."""
        return moment(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """That a job waits for another, or did."""

    child: int
    parent: int
    """Their places in the line; that of one that is gone is nobody's any more."""
    parent_id: str
    wanted: str
    """How the parent has to end: `ok`, `fail` or `any`."""
    came_to: str | None
    """The state that it ended in; None if it hasn't, or is to run again."""
    is_met: bool
    """Whether the child may run, as far as this parent is concerned. That stays so."""
    is_group: bool = False
    """Whether the parent is a group, and its id a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs that are waited for together: how many there are, and how many of them ended how.

    Those that were pruned count as what they were; those that were removed by hand don't count.
    """

    name: str
    made_at: int
    jobs: int = 0
    open: int = 0
    """Those that wait, or run."""
    completed: int = 0
    dead: int = 0
    cancelled: int = 0
    unneeded: int = 0
    """Those of the cancelled that weren't needed, as what they were to follow didn't happen."""
    max_fails: int | None = None
    """So many dead ones, and those that still wait are cancelled."""
    stopped_at: int | None = None
    """When that was."""
    over_at: int | None = None
    """When the last of them ended; None while any is open."""
    rounds: int = 0
    """How often that was: after it, jobs may have come, or have been retried."""

    @property
    def done(self) -> int:
        """How many of its jobs have ended."""
        return self.jobs - self.open

    def left(self, now: int) -> int | None:
        """Return how many milliseconds the rest takes if it goes on so; None if nobody knows."""
        took = now - self.made_at
        if not self.open or self.done <= 0 or took <= 0:
            return None
        return round(took / self.done * self.open)

    @property
    def came_to(self) -> State:
        """How it has ended, if all of its jobs are over."""
        if self.dead:
            return State.DEAD
        return State.CANCELLED if self.cancelled > self.unneeded else State.COMPLETED


def undo_until(event: Event) -> int | None:
    """Return until when what was done can be undone, if its job doesn't change; None if never."""
    return None if event.was is None else event.at + UNDO_FOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What became of an enqueue: ids in the order of the request, and what was refused."""

    ids: tuple[str, ...]
    """Of a request for a unique key that another job has, the id of that one."""
    duplicates: tuple[str, ...] = ()
    """Ids that were taken; these requests were passed over."""
    existing: tuple[str, ...] = ()
    """Those of the ids whose jobs were there already, as they have the unique key."""
    dropped: tuple[str, ...] = ()
    """Those of the ids whose jobs are cancelled already: their queue was full, or a later one of
    the same requests took their place."""
    refused: tuple[str, ...] = ()
    """Why other requests were passed over: a sentence each."""
    refused_at: tuple[int, ...] = ()
    """Which these are: how many requests came before each."""

    @property
    def requests(self) -> int:
        """How many requests it is about."""
        return len(self.ids) + len(self.duplicates) + len(self.refused)


def batch_of(parts: Iterable[Batch]) -> Batch:
    """Return what became of requests that were stored part by part."""
    known = [*parts]
    firsts = accumulate((part.requests for part in known), initial=0)
    return Batch(
        ids=tuple(id for part in known for id in part.ids),
        duplicates=tuple(id for part in known for id in part.duplicates),
        existing=tuple(id for part in known for id in part.existing),
        dropped=tuple(id for part in known for id in part.dropped),
        refused=tuple(text for part in known for text in part.refused),
        refused_at=tuple(
            first + at for first, part in zip(firsts, known, strict=False) for at in part.refused_at
        ),
    )


def count_waiting(
    counts: Iterable[Count], queues: Iterable[QueueInfo], served: "Serving | None" = None
) -> int:
    """Count jobs that could still come to a node serving these queues, or to any.

    Those of queues that are paused can't.
    """
    return sum(waiting_by_queue(counts, queues, served).values())


def waiting_by_queue(
    counts: Iterable[Count], queues: Iterable[QueueInfo], served: "Serving | None" = None
) -> dict[str, int]:
    """Count them by queue."""
    paused = {queue.name for queue in queues if queue.paused_at is not None}
    waiting: dict[str, int] = {}
    for count in counts:
        may_come = count.queue not in paused and (served is None or count.queue in served)
        if may_come and count.jobs and count.state in (State.PENDING, State.FAILED):
            waiting[count.queue] = waiting.get(count.queue, 0) + count.jobs
    return waiting


def count_unserved(counts: Iterable[Count], served: "Iterable[Serving]") -> dict[str, int]:
    """Count the jobs that wait in queues which no node serves, by queue.

    A node is given by the queues that it serves.
    """
    known = list(served)
    waiting: dict[str, int] = {}
    for count in counts:
        if count.state in WAITING and not any(count.queue in queues for queues in known):
            waiting[count.queue] = waiting.get(count.queue, 0) + count.jobs
    return {queue: jobs for queue, jobs in sorted(waiting.items()) if jobs}


def count_unhandled(
    lines: Mapping[tuple[str, str], int], served: "Iterable[Serving]"
) -> dict[str, int]:
    """Count the ready jobs of queues that are served, but not for their handler, by that."""
    known = list(served)
    found: dict[str, int] = {}
    for (queue, handler), jobs in sorted(lines.items()):
        serving = [node for node in known if queue in node]
        if serving and not any(node.handles(handler) for node in serving):
            found[handler] = found.get(handler, 0) + jobs
    return found
