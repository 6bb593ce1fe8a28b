"""What a store does: a short list of verbs, each with its promise, and the values they pass.

A store holds no policy. It applies the transitions it is given, fenced by (id, attempt, node):
a run that lost its lease changes nothing, and `finish` says so. Every verb that writes is a
transaction of its own, or part of the one opened with `transaction()`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from queuectl.errors import UsageError
from queuectl.facts import Batch, Count, Event, Node, QueueInfo, Rollup, Stop
from queuectl.filter import Filter, Sort
from queuectl.job import Attempt, Job, NewJob, OneOfMany, Outcome, Output, State, Transition
from queuectl.values import dataclass

T = TypeVar("T")
LONGEST_PIECE = 1 << 18
"""How many bytes of a running attempt's output are shown in one piece."""
ONLY_FILES_ARE_SHARED = (
    "Only a queue in a file is shared with a group; on a server, grant rights to its users."
)


class Topic(StrEnum):
    """What a wake-up is about."""

    WORK = "work"
    """There may be a job to claim."""
    CONTROL = "control"
    """A node should look for stop requests, cancellations or changed settings."""


class InLine(NamedTuple):
    """What a claim looks at to see whose turn it is."""

    priority: int
    seq: int
    crashes: int
    run_at: int
    row: tuple[Any, ...] | None = None
    """All that is stored of the job, if that was read at once."""


class Suspects(NamedTuple):
    """Jobs that one more crash would bury: each gets a node for itself, if that can be had soon."""

    crashes: int
    """Who crashed so often is one."""
    since: int
    """Who was due before that has waited long enough, and takes its turn like all others."""
    idle: bool
    """Whether nothing runs on the node that claims."""

    def has(self, job: InLine) -> bool:
        """Tell whether a job is one of them."""
        return job.crashes >= self.crashes and job.run_at >= self.since

    def admit(self, line: list[InLine]) -> list[InLine]:
        """Return those of the first in line who may run now: up to a suspect, or that one alone."""
        for place, job in enumerate(line):
            if self.has(job):
                return line[:1] if self.idle and place == 0 else line[:place]
        return line


class Claimed(NamedTuple):
    """What a claim came to."""

    jobs: list[Job]
    """Those to run: processing, each with the number of the run that must now be made."""
    buried: list[Job]
    """Those that are dead instead: they have expired, or can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that is over, and what becomes of its job."""

    job: Job
    """As it was claimed: `job.attempts` is the run's number and `job.node` its node."""
    outcome: Outcome
    transition: Transition
    started_at: int
    finished_at: int
    duration_ms: int
    host: str
    error: str | None = None
    output: Output = Output()
    noticed_at: int | None = None
    """When it was found out that a run was lost, which may be long after its end."""

    @property
    def settled_at(self) -> int:
        """From when on its job is what it became."""
        return self.finished_at if self.noticed_at is None else self.noticed_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of what a run has written so far, for those who can't see its host's files."""

    stream: str
    """`stdout` or `stderr`."""
    start: int
    """How many bytes the stream had before it; more than were shown when some were left out."""
    data: bytes
    """No bytes at all say that up to here this is all, for now."""


class Listener(ABC):
    """Hears about changes without polling. Made by `Store.listen`."""

    @abstractmethod
    def fileno(self) -> int:
        """Return a descriptor that becomes readable when something was heard; -1 for none."""

    @abstractmethod
    def heard(self) -> set[Topic]:
        """Take what was heard since the last call, without waiting."""

    @abstractmethod
    def expect(self) -> None:
        """Listen more closely for a while: something was just found, and more may follow."""

    @abstractmethod
    def disregard(self) -> None:
        """Take no notice of what this store itself has just written."""

    @abstractmethod
    def recheck_in(self) -> float | None:
        """Seconds after which to look at the store though nothing more is heard; None for never."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""


class Jobs(ABC):
    """Storing, finding and counting jobs, and changing those that don't run."""

    @abstractmethod
    def enqueue_one(self, job: NewJob, *, now: int) -> Job:
        """Store a job as `enqueue` does, and return it; a taken id is a `DuplicateError`."""

    @abstractmethod
    def enqueue(
        self, jobs: Sequence[NewJob | OneOfMany], *, now: int, skip_duplicates: bool = False
    ) -> Batch:
        """Store jobs, complete with policy, in this order. A delay or expiry counts from `now`.

        A taken id is a `DuplicateError` and stores none of them, unless duplicates are skipped.
        """

    @abstractmethod
    def get(self, id: str) -> Job | None:
        """Return the job with exactly this id."""

    @abstractmethod
    def stdin(self, job: Job) -> bytes:
        """Return what the runs of a job find on stdin."""

    @abstractmethod
    def ids_like(self, prefix: str, limit: int = 10) -> list[str]:
        """Return ids that begin with a prefix, in order."""

    @abstractmethod
    def tags_like(self, prefix: str, limit: int = 10) -> list[str]:
        """Return tags of jobs that begin with a prefix, in order.

        Costs no more where a million jobs have the same tag.
        """

    @abstractmethod
    def select(
        self, which: Filter, *, limit: int | None, after: int | None = None, oldest: bool = False
    ) -> list[Job]:
        """Return jobs, newest first (or `oldest` first), after the one with seq `after`."""

    @abstractmethod
    def places(self, which: Filter, by: Sequence[Sort], *, limit: int | None) -> list[int]:
        """Return the seqs of jobs, sorted by columns of theirs; of equal ones the newest first.

        Unlike `select`, it has to look at all jobs that fit.
        """

    @abstractmethod
    def at(self, places: Sequence[int]) -> list[Job]:
        """Return the jobs with these seqs, in this order; missing ones are missing."""

    @abstractmethod
    def states(self, ids: Sequence[str]) -> dict[str, State]:
        """Return the states of these jobs; missing ones are missing."""

    @abstractmethod
    def counts(self) -> list[Count]:
        """Count jobs by queue, state and priority.

        Costs the same with ten jobs or ten million, as long as as many of them run.
        """

    @abstractmethod
    def slowest(self, limit: int) -> list[Job]:
        """Return the completed jobs whose last run took longest."""

    @abstractmethod
    def next_due(self) -> int | None:
        """Return the earliest `run_at` that a waiting job isn't yet ready for."""

    @abstractmethod
    def lock(self, jobs: Sequence[Job]) -> list[Job]:
        """Return these jobs as they are now, by their place in the line; missing ones are missing.

        Until the transaction is over, nobody else can change them.
        """

    def apply(self, job: Job, transition: Transition, *, now: int) -> bool:
        """Apply a transition to a job that doesn't run; False when it has changed since."""
        return bool(self.apply_all([(job, transition)], now=now))

    @abstractmethod
    def apply_all(self, changes: Sequence[tuple[Job, Transition]], *, now: int) -> set[int]:
        """Do the same for several jobs; returns the places of those that were changed."""

    def ask_cancel(self, job: Job, reason: str, *, now: int) -> bool:
        """Ask the node that runs this attempt to end it; False when it has changed since."""
        return bool(self.ask_cancel_all([job], reason, now=now))

    @abstractmethod
    def ask_cancel_all(self, jobs: Sequence[Job], reason: str, *, now: int) -> set[int]:
        """Do the same for several jobs; returns the places of those that were asked for."""

    def remove(self, job: Job) -> bool:
        """Delete a job that doesn't run, with its attempts; False when it has changed since."""
        return bool(self.remove_all([job]))

    @abstractmethod
    def remove_all(self, jobs: Sequence[Job]) -> set[int]:
        """Do the same for several jobs; returns the places of those that were deleted."""

    @abstractmethod
    def prune(self, state: State, before: int, *, limit: int) -> int:
        """Delete jobs that reached a final state before a time, oldest first; says how many."""

    @abstractmethod
    def prunable(self, state: State, before: int) -> int:
        """Count what `prune` would delete."""


class Runs(ABC):
    """Claiming jobs and ending their runs."""

    @abstractmethod
    def claim(
        self,
        node: str,
        workers: Sequence[int],
        queues: Sequence[str],
        *,
        now: int,
        suspects: Suspects | None = None,
    ) -> Claimed:
        """Give one ready job to each of these workers: by priority, then first come.

        Due jobs are promoted and expired ones buried first, each with an event. A suspect is
        given alone, to an idle node; for another node the line ends before it, so that it becomes
        idle. A node whose lease doesn't hold gets a `LeaseLostError` and no job.
        """

    @abstractmethod
    def outlook(self, queues: Sequence[str], *, now: int) -> tuple[bool, int | None]:
        """Tell, without taking any lock, whether a claim would find something.

        And if nothing is ready, when the next job becomes so, or expires.
        """

    @abstractmethod
    def finish(self, ends: Sequence[Ended]) -> list[Ended]:
        """Apply transitions, keep the attempts, and an event of each job that is dead then.

        Returns those whose lease was lost: unchanged.
        """

    @abstractmethod
    def put_back(self, jobs: Sequence[Job], *, now: int) -> list[Job]:
        """Put claimed jobs back in line whose runs were never started, as if they hadn't been.

        Returns those that weren't: the lease is lost, or somebody wants them cancelled.
        """

    @abstractmethod
    def held(self, node: str) -> list[Job]:
        """Return the jobs a node has in processing."""

    @abstractmethod
    def strays(self) -> list[Job]:
        """Return jobs in processing on a node that isn't registered: they are in nobody's hands."""

    @abstractmethod
    def strayed_from(self) -> list[str]:
        """Return the names of these nodes, which is much less to read."""

    @abstractmethod
    def to_cancel(self, node: str) -> list[Job]:
        """Return those of its jobs that somebody wants cancelled."""


class History(ABC):
    """What has been: attempts and their output, events, and how long things took."""

    @abstractmethod
    def attempts(self, job: Job) -> list[Attempt]:
        """Return the runs that are over, oldest first."""

    @abstractmethod
    def output(self, job: Job, number: int) -> Output | None:
        """Return what a finished run wrote; None when there is no such run."""

    @abstractmethod
    def record(self, *events: Event) -> None:
        """Keep events, in their order."""

    @abstractmethod
    def events(
        self, job: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> list[Event]:
        """Return events, newest first: of one job, or all; behind the one with seq `before`."""

    @abstractmethod
    def prune_events(self, before: int, *, limit: int) -> int:
        """Delete events from before a time, oldest first; says how many."""

    @abstractmethod
    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        """Return how long runs and waits took, summed over time and nodes."""

    @abstractmethod
    def coarsen(self, *, now: int) -> None:
        """Merge old rollups into hours, older ones into days."""

    @abstractmethod
    def fold(self) -> None:
        """Add up the counters that writers left beside each other so as not to wait in line."""


class LiveOutput(ABC):
    """The output of a run while it goes on, for those who can't see the files of its host."""

    @abstractmethod
    def watch(self, job: Job, *, until: int, now: int) -> None:
        """Ask the node of a running attempt to show what it writes, until a time.

        Asking again extends it. What was shown to those who stopped watching is taken away, so
        whatever is there was written for somebody who watches now.
        """

    @abstractmethod
    def watched(self, jobs: Sequence[Job], *, now: int) -> dict[int, int]:
        """Return which of these running attempts somebody watches: seq of the job, until when."""

    @abstractmethod
    def show(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Show pieces of what a running attempt wrote, each of at most `LONGEST_PIECE` bytes.

        A piece takes the place of one with the same start: to show it twice does no harm.
        """

    @abstractmethod
    def trim(self, job: Job, stream: str, *, first: int, before: int) -> None:
        """Take away the pieces of a stream that start at `first` or later, but before `before`."""

    @abstractmethod
    def pieces(self, job: Job, stream: str, *, after: int) -> list[Piece]:
        """Return the next pieces of a stream with bytes behind the first `after`, in order.

        The first may start earlier, and pieces may overlap. An empty one at the end says that
        there was no more when the node last looked.
        """

    @abstractmethod
    def end(self, job: Job) -> None:
        """Take away all that was shown of an attempt, and who watched it: it is over."""

    @abstractmethod
    def drop_stale(self, *, now: int) -> None:
        """Take away what nobody watches any more."""


class Nodes(ABC):
    """The register of nodes, and their leases."""

    @abstractmethod
    def register(self, node: Node) -> None:
        """Make a node known."""

    @abstractmethod
    def renew(self, node: str, *, until: int) -> bool:
        """Extend a lease that still holds; False when it is lost, which is final."""

    @abstractmethod
    def forget(self, node: str, *, beat: int | None = None) -> bool:
        """Strike a node from the register; False when it isn't there.

        With `beat`, only if it hasn't renewed its lease since: from then on it can't any more.
        """

    @abstractmethod
    def all(self) -> list[Node]:
        """Return all registered nodes, oldest first."""

    @abstractmethod
    def lapsed(self, node: Node) -> bool:
        """Tell whether the lease of a node was over beyond doubt when `nodes` was last called.

        Whoever rescues its jobs relies on it. Where no clock is shared, it is a matter of watching
        a node do nothing for the length of its lease; so it may become true later than the
        clocks say, but never too soon. Time that has passed since the node was read proves
        nothing: it may have renewed its lease while we were held up.
        """

    @abstractmethod
    def describe(self, node: str, *, workers: int, version: str) -> None:
        """Say anew how many workers a node has, and its version."""

    @abstractmethod
    def ask_stop(self, node: str, how: Stop) -> bool:
        """Ask a node to stop; False when there is no such node."""


class SharedSettings(ABC):
    """What was set for all who use the queue."""

    @abstractmethod
    def queues(self) -> list[QueueInfo]:
        """Return the queues on which something was set."""

    @abstractmethod
    def set_paused(self, queue: str, *, paused: bool, who: str, now: int) -> bool:
        """Pause or resume a queue; False when it was so already."""

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the shared settings, as text."""

    @abstractmethod
    def set_config(self, name: str, value: str | None, *, now: int) -> None:
        """Set a shared setting, or with None forget it."""


class Store(ABC):
    """Durable state of a queue. Safe to use from several threads; not across a fork."""

    url: str
    """Where it is, without secrets."""
    one_host: bool = False
    """Whether all its nodes are on one host, so that one from before a reboot can't be alive."""
    secret_variables: tuple[str, ...] = ()
    """Environment variables in which its password may be: jobs don't get to see them."""
    is_new: bool = False
    """Whether it was made when it was opened."""
    patience: float
    """Seconds to wait for a server that has gone away before saying so."""
    before_commit: Callable[[], None] | None
    """Called just before each commit, if somebody sets it: from then on, things may be stored."""

    @property
    @abstractmethod
    def jobs(self) -> Jobs:
        """Storing, finding and changing jobs."""

    @property
    @abstractmethod
    def runs(self) -> Runs:
        """Claiming jobs and ending their runs."""

    @property
    @abstractmethod
    def history(self) -> History:
        """What has been."""

    @property
    @abstractmethod
    def live(self) -> LiveOutput:
        """The output of runs that go on."""

    @property
    @abstractmethod
    def nodes(self) -> Nodes:
        """Who works here."""

    @property
    @abstractmethod
    def settings(self) -> SharedSettings:
        """What was set for all."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What names it among all queues that a host may know, however its URL is spelled."""

    @abstractmethod
    def now(self) -> int:
        """Return the store's wall clock: every stored time is by this clock."""

    @abstractmethod
    def steady(self) -> int:
        """Return the clock by which `Node.lease_until` is meant."""

    @abstractmethod
    def lease_clock(self) -> int:
        """Return the id of the host clock by which a node must give up its lease by itself."""

    def is_elsewhere(self, node: Node) -> bool:
        """Tell whether a node works on another store, of which this one is a copy."""
        return False

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Make everything inside one durable write: all of it or nothing. May be nested."""

    @abstractmethod
    def transact(self, action: Callable[[], T]) -> T:
        """Do something as one durable write, and do it again if the database says so.

        A server may refuse a transaction because of another one, or lose the connection; so the
        action must change nothing outside the store. When it can't be told whether the commit
        came through, that is found out before this returns, or it is a `StoreUnsettledError`.
        """

    @abstractmethod
    def borrowed(self, connection: Any) -> AbstractContextManager[None]:
        """Do everything inside on a connection that isn't ours, as part of its transaction.

        Whoever owns it commits or rolls back; only then do the jobs exist or not. One that this
        store can't use is a `UsageError`.
        """

    @abstractmethod
    def listen(self) -> Listener:
        """Start hearing about new work and control messages from any process or host."""

    @abstractmethod
    def nudge(self, topic: Topic) -> None:
        """Wake the listeners, after the current transaction if there is one."""

    @abstractmethod
    def changed(self) -> bool:
        """Tell whether anybody else may have committed something since the last call.

        Asked many times a second. A server that can't tell says so now and then.
        """

    def waiting(self, queues: Sequence[str] = ()) -> int:
        """Count jobs that could still come to a node serving these queues (paused ones can't)."""
        paused = {queue.name for queue in self.settings.queues() if queue.paused_at is not None}
        return sum(
            count.jobs
            for count in self.jobs.counts()
            if count.state in (State.PENDING, State.FAILED)
            and count.queue not in paused
            and (not queues or count.queue in queues)
        )

    # -- the store itself -------------------------------------------------------

    @abstractmethod
    def info(self) -> Mapping[str, Any]:
        """Describe the store: engine, version, size, durability."""

    @abstractmethod
    def verify(self) -> list[str]:
        """Check integrity; returns what is wrong, one sentence each."""

    @abstractmethod
    def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date, whoever else is at it; says from and to which version."""

    @abstractmethod
    def check_schema(self) -> None:
        """Raise `StoreTooNewError` if a newer queuectl has upgraded the schema under us."""

    @abstractmethod
    def vacuum(self) -> None:
        """Give unused space back to the filesystem."""

    @abstractmethod
    def spool_root(self) -> str:
        """Return the folder, on this host, under which nodes keep the output of running jobs."""

    @abstractmethod
    def make_spool_root(self) -> str:
        """Make that folder, if it isn't there, for those who may use the store; returns it."""

    def share(self, group: str) -> None:
        """Let the members of a group of this host use the store as its owner does."""
        raise UsageError(ONLY_FILES_ARE_SHARED)

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. A closed store can't be used again."""


def chunks(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """Cut a sequence into pieces of at most `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))
