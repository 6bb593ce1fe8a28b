"""What a store does: a short list of verbs, each with its promise, and the values they pass.

A store holds no policy. It applies the transitions it is given, fenced by (id, attempt, node):
a run that lost its lease changes nothing, and `turn` says so. Every verb that writes is a
transaction of its own, or part of the one in which `transact` calls it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from queuectl.errors import UsageError
from queuectl.facts import (
    Batch,
    Count,
    Edge,
    Emitted,
    Event,
    Group,
    Node,
    Pause,
    QueueInfo,
    QueueUse,
    Reservation,
    Rollup,
    RunProgress,
    Sleep,
    Step,
    Stop,
    Total,
    Use,
)
from queuectl.filter import ANY_EVENT, EventFilter, Filter, Sort
from queuectl.job import Attempt, Job, NewJob, OneOfMany, Outcome, Output, State, Transition, Usage
from queuectl.values import dataclass, rowclass

if TYPE_CHECKING:
    from queuectl.access import Grant
    from queuectl.admission import Offer, Serving
    from queuectl.limits import Limits
    from queuectl.schedule import Schedule
    from queuectl.store.clock import Clock
    from queuectl.store.folder import Folder
    from queuectl.webhook import Webhook

T = TypeVar("T")
LONGEST_PIECE = 1 << 18
"""How many bytes of a running attempt's output are shown in one piece."""


class Capability(StrEnum):
    """What a store may be able to do, or not."""

    TRANSACTIONS = "transactions"
    """Several verbs can be one durable write (`transact`), and what is about many jobs is done to
    all of them or none."""
    LENDING = "lending"
    """A connection of somebody else's can be used (`borrowed`)."""
    NOTIFICATIONS = "notifications"
    """Listeners are told (`listen`); else they have to look."""


class Topic(StrEnum):
    """What a wake-up is about."""

    WORK = "work"
    """There may be a job to claim."""
    CONTROL = "control"
    """A node should look for stop requests, cancellations, pauses or changed settings."""


@rowclass(frozen=True, slots=True, kw_only=True)
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
    result: str | None = None
    """What the run says that its job came to, as JSON; kept if it completed it."""
    event: Event | None = None
    """What else is kept of it."""
    noticed_at: int | None = None
    """When it was found out that a run was lost, which may be long after its end."""
    used: Usage = Usage()
    """What the run has used."""
    noted: str | None = None
    """What it wasn't kept to, as its host can't."""
    if_asleep: "Callable[[Sleep], Ended] | None" = None
    """Says how the run ended if its job sleeps; not set, if it can't have said so."""

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


class Shown(NamedTuple):
    """What is shown of one stream of a running attempt."""

    job: Job
    stream: str
    pieces: Sequence[Piece]
    gap: tuple[int, int] | None = None
    """Pieces that start at the first of these, or later, but before the second, are taken away."""


Asked = Callable[[], Mapping[int, Job]]
"""Tells which of a node's jobs somebody wants ended, by their places in the line."""


@dataclass(frozen=True, slots=True)
class Over:
    """What is over on a node, to be written down."""

    unstarted: Sequence[Job] = ()
    """Claimed jobs whose runs never began: they are released, as if they hadn't been claimed."""
    judge: Callable[[Sequence[Job], Asked, int], Sequence[Ended]] = lambda stuck, asked, now: []
    """Says how runs ended, at this time. It is told which of the unstarted couldn't be released:
    their lease is lost, or somebody wants them cancelled. Called again, if need be."""
    note: Callable[[Job, Ended | None, int], Event | None] | None = None
    """Says what else is kept of a job that was released, or whose end was written."""


class Turned(NamedTuple):
    """What a turn came to."""

    jobs: Sequence[Job] = ()
    """Those to run: processing, each with the number of the run that must now be made."""
    buried: Sequence[Job] = ()
    """Those that are dead instead: they have expired, or can't be read."""
    ends: Sequence[Ended] = ()
    """How runs ended."""
    lost: Sequence[Ended] = ()
    """Those of these ends that change nothing: the lease was lost."""
    limited: bool = False
    """Whether limits were asked: then the end of a run may make room for a job."""
    waits: bool = False
    """Whether a job waits for room on this node: then the end of a run may make it."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a claim would find."""

    ready: bool
    """Whether a job is ready in the queues that were asked about, and not paused."""
    due: int | None
    """When the next delayed job, of any queue, becomes ready."""
    expires: int | None
    """When the next waiting job, of any queue, expires."""
    opens: int | None = None
    """When the next queue, or key, opens that was closed by its limits."""

    @property
    def changes_at(self) -> int | None:
        """When there will be something to do that there isn't now."""
        times = (self.due, self.expires, self.opens)
        return min((at for at in times if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class EndRun:
    """That the node which runs a job shall end it: it is cancelled then, unless it is forced."""

    reason: str
    forced: str | None = None
    """What the job comes to instead: completed, with this result as JSON, or empty for none."""


@dataclass(frozen=True, slots=True)
class Edit:
    """That a job which waits is another one from now on, in all that a request decides."""

    job: Job
    """As it is to be; held, if it is parked under no key."""
    first: bool = False
    """Whether it goes before all others of its queue and priority; of several, in their order."""
    retried: Transition | None = None
    """What brings it back in line, if it needn't wait yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """That a job is again what it was before something was done to it by hand."""

    was: str
    """What the event of that keeps."""


class Decision(NamedTuple):
    """What is made of a job by hand; with None, it is deleted."""

    to: Transition | Edit | EndRun | Restore | None
    event: Event | None = None
    """What is kept of that."""
    forget: str | None = None
    """The step that is forgotten, with all after it; that there is none is a `NotFoundError`."""
    result: str | None = None
    """What the job came to, as JSON."""
    keeps: bool = False
    """Whether the event keeps what the job was, so that this can be undone."""


Decide = Callable[[Mapping[int, Job], int], Mapping[int, Decision]]
"""Says, of jobs by their places in the line, and at this time, what is made of which. Missing jobs
are missing, and those that it says nothing of stay as they are. Called again, if need be."""
Changes = dict[int, Job | None]
DecidePauses = Callable[[Mapping[int, Job], Mapping[int, Pause], int], Mapping[int, Event]]
"""Says, of jobs and of pauses of their runs, both by their places in the line, and at this time, of
which the run changes: what goes on is paused by who the event names, and what is paused goes on.
The event is kept. Missing jobs are missing; of one that doesn't run it says nothing, or raises.
Called again, if need be."""
Check = Callable[[Job, Job, int], Sequence[Event]]
"""Raises why two jobs can't take each other's place, at this time, or says what is kept of it."""
Swapped = tuple[Job, Job]


class Listener(ABC):
    """Hears about changes without polling. Made by `Store.listen`."""

    told = False
    """Whether what was heard last was told by who wrote it, after the commit: no guess."""

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

    def pace(self, seconds: float) -> None:  # noqa: B027 - most have nothing to do
        """Look so often at the latest, where it takes looking to hear of anything."""

    @abstractmethod
    def recheck_in(self) -> float | None:
        """Seconds after which to look at the store though nothing more is heard; None for never."""

    @abstractmethod
    def close(self) -> None:
        """Stop listening."""


class Jobs(ABC):
    """Storing, finding and counting jobs, and changing those that don't run."""

    @abstractmethod
    def enqueue_one(self, job: NewJob | OneOfMany, *, now: int) -> Job:
        """Store a job as `enqueue` does, and return it; a taken id is a `DuplicateError`."""

    @abstractmethod
    def enqueue(
        self, jobs: Sequence[NewJob | OneOfMany], *, now: int, skip_duplicates: bool = False
    ) -> Batch:
        """Store jobs, complete with policy, in this order. A delay or expiry counts from `now`.

        A taken id is a `DuplicateError` and stores none of them, unless duplicates are skipped. One
        that waits for others is blocked; that they aren't there, or come after it, is an error.
        """

    @abstractmethod
    def get(self, id: str) -> Job | None:
        """Return the job with exactly this id."""

    @abstractmethod
    def stdin(self, job: Job) -> bytes:
        """Return what the runs of a job find on stdin."""

    @abstractmethod
    def like(self, prefix: str, limit: int = 10, *, tags: bool = False) -> list[str]:
        """Return ids of jobs, or tags, that begin with a prefix, in order.

        Costs no more where a million jobs have the same tag.
        """

    @abstractmethod
    def hooks(self, job: Job) -> list[Job]:
        """Return the jobs that ends of a job have made for its hooks, in the order of the line.

        Of each kind of hook, the first 1,000 by their ids.
        """

    @abstractmethod
    def select(
        self,
        which: Filter,
        *,
        limit: int | None,
        after: int | None = None,
        last: int | None = None,
        oldest: bool = False,
    ) -> list[Job]:
        """Return jobs, newest first (or `oldest` first), after the one with seq `after`.

        None is behind the place `last`.
        """

    @abstractmethod
    def horizon(
        self, which: Filter, *, looks: int, after: int | None = None, oldest: bool = False
    ) -> Job | None:
        """Return the job up to which `select` looks at no more than so many; None, if at no more.

        Jobs of other states, queues and, if there is one, without the first tag are none that are
        looked at.
        """

    @abstractmethod
    def places(self, which: Filter, by: Sequence[Sort], *, limit: int | None) -> list[int]:
        """Return the seqs of jobs, sorted by columns of theirs; of equal ones the newest first.

        Unlike `select`, it has to look at all jobs that fit; only the slowest of the completed ones
        are found at once.
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
    def count_held(self, queues: Sequence[str]) -> dict[str, int]:
        """Count the jobs of these queues that are held by hand; queues that have none are missing.

        Costs no more where others wait behind a limit.
        """

    @abstractmethod
    def parents(self, jobs: Sequence[Job]) -> list[Edge]:
        """Return for whom these jobs wait, or did, by the places of these and those."""

    @abstractmethod
    def children(self, jobs: Sequence[Job], *, limit: int) -> list[Edge]:
        """Return who waits for these jobs, or did, by the places of these and those.

        Of more than `limit`, it isn't said which are returned.
        """

    @property
    @abstractmethod
    def unsettled(self) -> bool:
        """Whether something that was done here has left that to be gone on with."""

    @abstractmethod
    def settle(self) -> bool:
        """Go on to tell the children of jobs that have ended; says whether any may be left.

        The end of a job with very many children tells the first of them; the others are told so,
        piece by piece, by whoever comes.
        """

    @abstractmethod
    def change(self, jobs: Sequence[Job], decide: Decide, *, now: int | None = None) -> Changes:
        """Change jobs by hand, as `decide` says of them when nobody else can change them.

        All of it or, if it raises, nothing. Returns the jobs that were changed as they are then, by
        their places; None for those that are gone. `now` is the store's clock, unless it is given.
        """

    @abstractmethod
    def swap(self, first: Job, second: Job, check: Check, *, now: int | None = None) -> Swapped:
        """Have two jobs that wait take each other's place: priority, share and seq.

        All that is kept of them goes along. `check` sees both when nobody else can change them: it
        raises, or says what else is kept. One that is gone is a `NotFoundError`.
        """

    @abstractmethod
    def prune(self, state: State, before: int, *, limit: int | None) -> int:
        """Delete jobs that reached a final state before a time, oldest first; says how many.

        With no `limit`, none is deleted: it only says how many there are.
        """


class Groups(ABC):
    """Jobs that are waited for together, as they are counted."""

    @abstractmethod
    def named(self, names: Sequence[str]) -> list[Group]:
        """Return the groups of these names, by name; missing ones are missing.

        Costs no more where a million jobs are in them.
        """

    @abstractmethod
    def newest(self, limit: int, *, before: str | None = None) -> list[Group]:
        """Return groups, the newest first, from before the one of a name."""

    @abstractmethod
    def like(self, prefix: str, limit: int = 10) -> list[str]:
        """Return names of groups that begin with a prefix, in order."""

    @abstractmethod
    def running(self) -> dict[str, int]:
        """Count the jobs of groups that run: of each group of which any does, by its name.

        Costs as much as there are jobs that run, however many wait.
        """

    @abstractmethod
    def children(self, name: str, *, limit: int) -> list[Edge]:
        """Return who waits for a group, or did, in the order of the line: of very many, some."""


class Runs(ABC):
    """Claiming jobs and ending their runs."""

    @abstractmethod
    def turn(
        self, node: str, over: Over | None, offer: "Offer | None", *, now: int | None = None
    ) -> Turned:
        """Write down what is over on a node, and give it ready jobs, as one durable write.

        Each worker that is offered gets one job: by priority, then first come, as far as they are
        admitted. Due jobs are promoted and expired ones buried first, each with an event. Ends
        apply their transitions, keep the attempts, and an event of each job that is dead then. A
        node whose lease doesn't hold gets a `LeaseLostError` and no job. `now` is the store's
        clock, unless it is given.
        """

    @abstractmethod
    def rescue(
        self,
        node: str,
        plan: Callable[[Sequence[Job], int], Over],
        *,
        beat: int | None = None,
        registered: bool = True,
    ) -> Turned | None:
        """Strike a node from the register and write down what becomes of all that it holds.

        From then on it can neither renew its lease nor claim. With `beat`, only if it hasn't
        renewed it since; if not `registered`, only if it isn't there: else it is None. `plan` is
        told of the jobs in its hands, and the time.
        """

    @abstractmethod
    def held(self, node: str | None, *, to_cancel: bool = False) -> list[Job]:
        """Return the jobs a node has in processing; or those that somebody wants cancelled.

        With None, those of nodes that aren't registered.
        """

    @abstractmethod
    def pauses(self) -> list[Pause]:
        """Return the runs that go on and are to stand still, by the places of their jobs.

        A pause is that of one run: the next of the same job knows nothing of it.
        """

    @abstractmethod
    def set_paused(
        self, jobs: Sequence[Job], decide: "DecidePauses", *, now: int | None = None
    ) -> set[int]:
        """Pause runs, or let them go on, as `decide` says when nobody else can change their jobs.

        All of it or, if it raises, nothing. Returns the places of the jobs whose runs were paused,
        or were and aren't any more; their nodes are told. `now` is the store's clock, unless it is
        given.
        """

    @abstractmethod
    def outlook(self, queues: "Serving | None" = None) -> Outlook:
        """Tell, without taking any lock, what a claim from these queues would find, and when.

        Of all, if none are named. Jobs that need a handler are there for who has that.
        """

    @abstractmethod
    def using(self) -> list[Use]:
        """Return what the jobs that run have of their nodes, of those that need something."""

    @abstractmethod
    def reservations(self) -> list[Reservation]:
        """Return for which jobs that are ready nodes keep room, by the places of these."""

    @abstractmethod
    def before(self, job: Job, limit: int) -> int:
        """Count the ready jobs of its queue and handler that come before a job, up to a limit."""

    @abstractmethod
    def lines(self, limit: int) -> dict[tuple[str, str], int]:
        """Count the ready jobs that need handlers, by queue and handler, each up to a limit.

        Those of queues that are paused, or closed by their limits, are left out.
        """

    @abstractmethod
    def opens_at(self, queue: str, key: str) -> int | None:
        """Return when the next job of a key may begin whose rate is used up, if that is known."""

    @abstractmethod
    def oldest(self, queue: str, priorities: Sequence[int], *, limit: int) -> int | None:
        """Return since when a job of a queue is due that is ready; None if none is.

        It is the first that became due of so many in line, at each of these priorities and for each
        handler; whether the queue is paused doesn't matter.
        """

    @abstractmethod
    def busy(self) -> dict[str, int]:
        """Return how many workers of each node have jobs in processing; of some nodes none have."""


class RunId(NamedTuple):
    """What names a run, and so fences what it writes."""

    job: str
    attempt: int
    node: str


class Reports(ABC):
    """What runs tell and keep of themselves and their work: results, progress, steps, data."""

    @abstractmethod
    def results(self, jobs: Sequence[Job]) -> dict[int, str]:
        """Return what completed jobs came to, as JSON, by their places; missing ones are missing.

        It is that of the run which completed the job, and of no other.
        """

    @abstractmethod
    def usages(self, jobs: Sequence[Job]) -> dict[int, Usage]:
        """Return what the newest runs of jobs that are over have used, by the places of these."""

    @abstractmethod
    def set_progress(self, *progress: tuple[Job, RunProgress]) -> None:
        """Tell how far runs have come, as far as their nodes still have them."""

    @abstractmethod
    def progress(self, jobs: Sequence[Job]) -> dict[int, RunProgress]:
        """Return how far the newest runs of jobs have come, or had, by the places of these."""

    @abstractmethod
    def running(self, run: RunId) -> Job:
        """Return the job of a run that goes on; one that has lost its lease: `LeaseLostError`."""

    @abstractmethod
    def set_data(
        self, run: RunId, make: Callable[[bytes], bytes], *, now: int | None = None
    ) -> bytes:
        """Have the job of a run hold the data that `make` makes of what it has, and return that.

        Later runs of it are given that. A job that isn't of data is a `StateError`. A run that has
        lost its lease changes nothing, and gets a `LeaseLostError`. `make` is called again, if need
        be.
        """

    @abstractmethod
    def begin_step(self, run: RunId, name: str) -> Step | None:
        """Return a step of this name that an earlier run has done; None if it is yet to be done.

        A run comes by each step once: the second time is a `DuplicateError`. One that has lost its
        lease gets a `LeaseLostError`.
        """

    @abstractmethod
    def keep_step(self, run: RunId, name: str, output: bytes, *, now: int | None = None) -> None:
        """Store that a run has done a step, and what that wrote, behind all others.

        One that is done already is a `DuplicateError`. A run that has lost its lease stores
        nothing, and gets a `LeaseLostError`.
        """

    @abstractmethod
    def steps(self, job: Job) -> list[Step]:
        """Return the steps of a job that are done, in the order in which they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a run asks for that wants to give its worker back."""

    step: str
    """The name of the step that is done when it is over."""
    numbered: bool = False
    """Whether a number is added to the name when the run has come by it before."""
    awaits: str | None = None
    """What must be emitted; None if only the time counts."""
    wait: int | None = None
    until: int | None = None
    """For how many milliseconds, or until when; without either, for ever."""

    def ends_at(self, now: int) -> int | None:
        """Return when it is over at the latest, if it begins now."""
        return self.until if self.wait is None else now + self.wait


class Sleeps(ABC):
    """Jobs that have given their workers back, and what is emitted for them."""

    @abstractmethod
    def begin(self, run: RunId, wish: Wish, *, now: int | None = None) -> Step | Sleep:
        """Return the step of a sleep that is over; or have the job of a run sleep, and return that.

        It is over when its time has come, or what it awaits was emitted: that is the step's output,
        which is empty if it was in vain. A run that comes again finds the sleep as it was. What
        isn't over is written down so that whatever is emitted from then on ends it; the run is to
        come to its end then, and comes by no other step: that is a `StateError`. Else it is as with
        `begin_step`.
        """

    @abstractmethod
    def of(self, jobs: Sequence[Job]) -> dict[int, Sleep]:
        """Return what jobs sleep for since their newest runs, by the places of these."""

    @abstractmethod
    def emit(
        self, name: str, payload: str, *, who: str, now: int | None = None
    ) -> tuple[Emitted, int | None]:
        """Keep what is emitted under a name, and bring back the jobs that wait for it.

        The first counts: if there is one, it is returned, and nothing changes. Else it says how
        many jobs were waiting.
        """

    @abstractmethod
    def emitted(self, name: str | None = None, *, limit: int = 1) -> list[Emitted]:
        """Return what was emitted under a name, if anything was; or the newest, newest first."""

    @abstractmethod
    def names(self, prefix: str, limit: int) -> dict[str, bool]:
        """Return names that begin with a prefix, in order; of each, whether it was emitted.

        The others are those that jobs await, or have awaited since the store was tidied up.
        """


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
        self,
        job: str | None = None,
        *,
        action: str | None = None,
        which: EventFilter = ANY_EVENT,
        limit: int = 100,
        before: int | None = None,
        after: int | None = None,
        oldest: bool = False,
    ) -> list[Event]:
        """Return events, newest first (or `oldest` first): of one job, of one action, or all.

        They are those that fit, older than the one with seq `before` and newer than `after`.
        """

    @abstractmethod
    def horizon(
        self,
        job: str | None = None,
        *,
        action: str | None = None,
        looks: int,
        before: int | None = None,
        after: int | None = None,
        oldest: bool = False,
    ) -> Event | None:
        """Return the event up to which `events` looks at no more than so many; None, if at no more.

        Those of other jobs, or of other actions, are none that are looked at.
        """

    @abstractmethod
    def last_of(self, jobs: Sequence[str]) -> dict[str, int]:
        """Return the seq of the last event that each of these jobs has of any action."""

    @abstractmethod
    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        """Return how long runs and waits took, summed over time and nodes."""

    @abstractmethod
    def series(
        self, *, since: int, span: int, until: int | None = None, queue: str | None = None
    ) -> dict[int, list[Rollup]]:
        """Return the same by when: each part is as long as `span`, and begins at a multiple of it.

        Parts in which nothing ended are left out. What is older is known by the hour or the day
        only, and counts where that begins.
        """

    @abstractmethod
    def series_by_queue(self, *, since: int, span: int) -> dict[str, dict[int, list[Rollup]]]:
        """Return the same of each queue by itself."""

    @abstractmethod
    def totals(self, bounds: Sequence[int]) -> dict[str, list[Total]]:
        """Return, for each queue, all runs and waits that there ever were, by how long they took.

        `bounds` are times, at most sixteen, the shortest first. Failed runs are counted once more,
        by their kind and without times: their measure is `failure timed out`, say. Nothing that is
        done to jobs makes less of any of this; a queue that is renamed takes it along.
        """


class LiveOutput(ABC):
    """The output of a run while it goes on, for those who can't see the files of its host."""

    @abstractmethod
    def watch(self, job: Job, *, until: int, now: int, first: bool = False) -> None:
        """Ask the node of a running attempt to show what it writes, until a time.

        The `first` time the node is woken for it; asking again extends it. What was shown to those
        who stopped watching is taken away, so whatever is there was written for somebody who
        watches now.
        """

    @abstractmethod
    def watched(self, jobs: Sequence[Job], *, now: int) -> dict[int, int]:
        """Return which of these running attempts somebody watches: seq of the job, until when."""

    @abstractmethod
    def show(self, *shown: Shown) -> None:
        """Show pieces of what running attempts wrote, each of at most `LONGEST_PIECE` bytes.

        A piece takes the place of one with the same start: to show it twice does no harm.
        """

    @abstractmethod
    def pieces(self, job: Job, stream: str, *, after: int) -> list[Piece]:
        """Return the next pieces of a stream with bytes behind the first `after`, in order.

        The first may start earlier, and pieces may overlap. An empty one at the end says that
        there was no more when the node last looked.
        """

    @abstractmethod
    def end(self, job: Job) -> None:
        """Take away all that was shown of an attempt, and who watched it: it is over."""


class Nodes(ABC):
    """The register of nodes, and their leases."""

    @abstractmethod
    def register(self, node: Node) -> None:
        """Make a node known."""

    @abstractmethod
    def renew(self, node: str, *, until: int, workers: int, version: str) -> bool:
        """Extend a lease that still holds; False when it is lost, which is final.

        And say how many workers the node has by now, and its version.
        """

    @abstractmethod
    def set_serving(self, node: str, queues: "Serving") -> None:
        """Say anew which queues a node serves, and what it handles, if it is registered."""

    @abstractmethod
    def all(self) -> list[Node]:
        """Return all registered nodes, oldest first, and say of each whether its lease has lapsed.

        Where no clock is shared, that is a matter of watching a node do nothing, from one call to
        the next, for the length of its lease; so it may become true later than the clocks say,
        but never too soon.
        """

    @abstractmethod
    def ask_stop(self, node: str, how: Stop, *, event: Event | None = None) -> bool:
        """Ask a node to stop, and keep an event of that; False when there is no such node."""


class Ticked(NamedTuple):
    """What becomes of a schedule that is looked at."""

    schedule: "Schedule"
    """As it is from now on; the store fills in what its newest job is."""
    jobs: Sequence[tuple[int, NewJob]] = ()
    """Those that it makes, each with the instant for which its tick was planned."""
    cancel: Decision | None = None
    """What is made of its newest job."""
    events: Sequence[Event] = ()


class Tick(NamedTuple):
    """A tick that made a job."""

    planned: int
    seq: int
    job: str
    made_at: int


Look = Callable[["Schedule", Job | None, int], Ticked | None]
"""Says what becomes of a schedule, with its newest job as it is, and the time; None is nothing.
Called again, if need be."""


class Schedules(ABC):
    """Rules that make jobs at times."""

    @abstractmethod
    def all(self) -> "list[Schedule]":
        """Return all schedules, by name."""

    @abstractmethod
    def change(
        self,
        name: str,
        decide: Callable[["Schedule | None", int], "Schedule | None"],
        *,
        event: Event | None = None,
    ) -> "Schedule | None":
        """Add, change or remove a schedule, as `decide` says when nobody else can change it.

        It is told what there is, and the time; what it returns is there from then on, and with None
        it is gone, and with it which ticks have made jobs.
        """

    @abstractmethod
    def tick(self, look: Look, *, name: str | None = None, now: int | None = None) -> list[Job]:
        """Look at schedules that have something to do, or at one; returns the jobs they made.

        All of it or nothing, and each tick makes one job at most, however often it is tried.
        """

    @abstractmethod
    def ticks(self, name: str, limit: int) -> list[Tick]:
        """Return the newest ticks that made jobs, of this schedule, newest first."""

    @abstractmethod
    def next_at(self) -> int | None:
        """Return when the next schedule has something to do."""


class Webhooks(ABC):
    """Whom the ends of jobs are told to."""

    @abstractmethod
    def all(self) -> "list[Webhook]":
        """Return all webhooks, by name."""

    @abstractmethod
    def change(
        self,
        name: str,
        decide: Callable[["Webhook | None", int], "Webhook | None"],
        *,
        event: Event | None = None,
    ) -> "Webhook | None":
        """Add, change or remove a webhook, as `decide` says when nobody else can change it.

        It is told what there is, and the time; what it returns is there from then on, and with None
        it is gone. Others hear of it within a second: until then they make deliveries as before,
        but for one that is paused or gone they never make any.
        """


class SharedSettings(ABC):
    """What was set for all who use the queue."""

    @abstractmethod
    def queues(self) -> list[QueueInfo]:
        """Return the queues on which something was set."""

    @abstractmethod
    def set_paused(
        self, queue: str, *, paused: bool, who: str, now: int, event: Event | None = None
    ) -> bool:
        """Pause or resume a queue, and keep an event of that; False when it was so already."""

    @abstractmethod
    def set_limits(
        self, queue: str, decide: "Callable[[Limits], Limits]", *, event: Event | None = None
    ) -> "Limits":
        """Set the limits of a queue, as `decide` says when nobody else can change them.

        They hold from then on: what waits for the old ones is looked at anew. Runs go on, also if
        they are more than the new limits allow.
        """

    @abstractmethod
    def rename_queue(
        self,
        old: str,
        new: str,
        *,
        check: Callable[[QueueUse, QueueUse], None],
        event: Event | None = None,
    ) -> QueueUse:
        """Call a queue otherwise, with all that there is of it; returns what that was.

        Its jobs, what is set on it, its keys, its times in the history and the schedules that name
        it go over as one; what is left of the other name, on which nothing was set, goes. `check`
        is told what there is of both, and may raise. None of its jobs runs then, or it is not done.
        """

    @abstractmethod
    def remove_queue(
        self, name: str, *, check: Callable[[QueueUse], None], event: Event | None = None
    ) -> None:
        """Take away all that is set on a queue, and what is known of its keys.

        `check` is told what there is of it, and may raise. Times stay in the history.
        """

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the shared settings, as text."""

    @abstractmethod
    def set_config(
        self,
        name: str,
        value: str | None,
        *,
        now: int,
        check: Callable[[Mapping[str, str]], None] | None = None,
        event: Event | None = None,
    ) -> None:
        """Set a shared setting, or with None forget it, and keep an event of that.

        `check` is told what all of them would be then, and may raise.
        """


class Grants(ABC):
    """Who is let in over HTTP: tokens, sessions, and links to sign in with."""

    @abstractmethod
    def all(self) -> "list[Grant]":
        """Return all grants, those that are over as well, the oldest first."""

    @abstractmethod
    def get(self, id: str) -> "Grant | None":
        """Return the grant with this id; None if there is none."""

    @abstractmethod
    def find(self, digest: str) -> "Grant | None":
        """Return the grant whose secret has this digest; None if there is none."""

    @abstractmethod
    def add(self, grant: "Grant", *, now: int, event: Event | None = None) -> None:
        """Keep a grant; a token whose name another has is a `DuplicateError`.

        Those of before that were over by `now` are forgotten, so that they don't add up.
        """

    @abstractmethod
    def exchange(
        self,
        was: "Grant",
        grant: "Grant",
        *,
        left: "Grant | None" = None,
        event: Event | None = None,
    ) -> bool:
        """Put a grant in the place of another, with what is `left` of that one beside it.

        Neither is a token. False if that one is gone, or has another secret by now: then nothing is
        changed. So of two who come with the same one at a time, only one gets something for it.
        """

    @abstractmethod
    def remove(self, id: str, *, event: Event | None = None) -> "list[Grant]":
        """Take a grant away, with those that were derived from it; returns all of them.

        Of those that are added meanwhile some may be left, derived from what isn't there any more.
        """

    @abstractmethod
    def touch(self, id: str, at: int) -> None:
        """Note when a grant was used, if it is still there; never an earlier time than it has."""


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
    clock: "Clock"
    """By which every stored time is meant."""
    capabilities: frozenset[Capability] = frozenset()
    """What it can do besides what every store can."""
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
    def reports(self) -> Reports:
        """What runs tell and keep."""

    @property
    @abstractmethod
    def sleeps(self) -> Sleeps:
        """Who sleeps, and what was emitted."""

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
    def schedules(self) -> Schedules:
        """What makes jobs at times."""

    @property
    @abstractmethod
    def grants(self) -> Grants:
        """Who is let in over HTTP."""

    @property
    @abstractmethod
    def groups(self) -> Groups:
        """Which jobs are waited for together."""

    @property
    @abstractmethod
    def webhooks(self) -> Webhooks:
        """Whom the ends of jobs are told to."""

    @property
    @abstractmethod
    def folder(self) -> "Folder":
        """What there is of it in the file system of this host."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What names it among all queues that a host may know, however its URL is spelled."""

    def transact(self, action: Callable[[], T]) -> T:
        """Do something as one durable write, and do it again if the database says so.

        A server may refuse a transaction because of another one, or lose the connection; so the
        action must change nothing outside the store. When it can't be told whether the commit
        came through, that is found out before this returns, or it is a `StoreUnsettledError`.
        """
        raise _unable(Capability.TRANSACTIONS)

    def borrowed(self, connection: Any) -> AbstractContextManager[None]:
        """Do everything inside on a connection that isn't ours, as part of its transaction.

        Whoever owns it commits or rolls back; only then do the jobs exist or not. One that this
        store can't use is a `UsageError`.
        """
        raise _unable(Capability.LENDING)

    def listen(self) -> Listener:
        """Start hearing about new work and control messages from any process or host."""
        raise _unable(Capability.NOTIFICATIONS)

    @abstractmethod
    def changed(self) -> bool:
        """Tell whether anybody else may have committed something since the last call.

        Asked many times a second. A server that can't tell says so now and then.
        """

    # -- the store itself -------------------------------------------------------

    def check_place(self) -> None:
        """Raise a `StoreMissingError` if what is read here isn't what others find at its place.

        That can be of a file only, which was deleted or replaced since it was opened.
        """
        return

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
    def tidy(
        self,
        *,
        now: int | None = None,
        events_before: int | None = None,
        emitted_before: int | None = None,
    ) -> None:
        """Make small again what has grown.

        The counters that writers left beside each other, so as not to wait in line, are added up:
        that is worth it after every few commits. With `now`, once in a while, old rollups are
        merged into hours and older ones into days, and live output that nobody watches any more is
        deleted, as are pauses of runs that are over, names that nobody waits for any more, and
        events and what was emitted from before a time.
        """

    @abstractmethod
    def vacuum(self) -> None:
        """Give unused space back to the filesystem."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. A closed store can't be used again."""


def _unable(capability: Capability) -> UsageError:
    return UsageError(f"The store of this queue has no {capability}.")


def chunks(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """Cut a sequence into pieces of at most `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))
