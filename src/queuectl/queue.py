"""Queue: the Python interface. All that the command line and the web can do, they do through it.

Each method passes on to a part, a module beside this one; what it promises is said here only.

from queuectl import Queue

queue = Queue("jobs.db")
job = queue.enqueue("make report", priority=5, timeout="10m")
queue.wait(job.id)
"""

import os
from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from queuectl.address import is_remote
from queuectl.enqueueing import Enqueuer, Request
from queuectl.facts import (
    Batch,
    Count,
    Emitted,
    Event,
    Node,
    Pause,
    Progress,
    QueueInfo,
    QueueUse,
    RunProgress,
    Sleep,
    Step,
)
from queuectl.fields import Keywords
from queuectl.filter import ANY_EVENT, EventFilter, Filter, Names
from queuectl.job import Attempt, Job, Named, Output, State, Usage
from queuectl.place import Place, find_place
from queuectl.request import Values
from queuectl.store import Store, open_store

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from queuectl import (
        awaiting,
        changes,
        cloning,
        composing,
        configuration,
        editing,
        figures,
        finding,
        following,
        listing,
        maintenance,
        outputs,
        overview,
        pausing,
        queues,
        relatives,
        roster,
        told,
        undoing,
        waiting,
        watches,
    )
    from queuectl.explain import Reason
    from queuectl.figures import Figures
    from queuectl.grants import Access
    from queuectl.groups import Groups
    from queuectl.lineage import Along, Graph, Relative
    from queuectl.queue_limits import QueueLimits
    from queuectl.report import Part, Stats, Status
    from queuectl.schedules import Schedules
    from queuectl.settings import Settings
    from queuectl.store.contract import RunId, Wish
    from queuectl.store.copying import Copied
    from queuectl.store.health import Finding
    from queuectl.tasks.task import Register, Task, TaskOptions
    from queuectl.together import Together
    from queuectl.trends import Trends
    from queuectl.webhooks import Webhooks

    Followers = list[following.Follower]
    Relatives = list[Relative]
    Reasons = list[Reason]
    Copies = list[Copied]
    Findings = list[Finding]
    SeriesParts = list[Part]
    AllSeries = list[list[Part]]
else:

    class _Part:
        """A module with a part of the queue; imported when it is needed, for few need many."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(f"queuectl.{self._name}"), attribute)

    _PARTS = (
        "awaiting changes cloning composing configuration editing figures finding following listing"
        " maintenance outputs overview pausing queues relatives roster told undoing waiting"
        " watches"
    )
    globals().update((name, _Part(name)) for name in _PARTS.split())


def _named(url: str | os.PathLike[str] | None, place: Place | None) -> str:
    """Return where a queue is."""
    return (place or find_place()).url if url is None else os.fspath(url)


P = ParamSpec("P")
R = TypeVar("R")

# `Queue.list` hides the builtin of that name inside the class, so its types are named out here.
Jobs = list[Job]
Attempts = list[Attempt]
Events = list[Event]
Steps = list[Step]
AllEmitted = list[Emitted]
Counts = list[Count]
Nodes = list[Node]
Queues = list[QueueInfo]
Dicts = list[dict[str, Any]]
Texts = list[str]

FOLLOWED_WITHIN = 3.0
"""Seconds within which running nodes follow a change of the number of workers."""


class Queue:
    """A job queue in a store. Safe to share between threads; open a new one after a fork."""

    def __new__(
        cls,
        url: str | os.PathLike[str] | None = None,
        *,
        place: Place | None = None,
        **_: Any,
    ) -> "Queue":
        """Make one that asks a server, if the URL names one, and else one with a store."""
        if cls is Queue and is_remote(_named(url, place)):
            # By its name: it is one of us, so it imports us.
            cls = import_module("queuectl.remote.queue").RemoteQueue
        return super().__new__(cls)

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        create: bool = True,
        absent_ok: bool = False,
        upgrade: bool = False,
        place: Place | None = None,
        here: bool = True,
    ) -> None:
        """Open the queue at a path or URL, or the one this directory and environment mean.

        A queue that doesn't exist yet is made, unless `create` is False: then it is a
        `StoreMissingError`. With `absent_ok` that holds only for one that was named. The default
        queue is an empty one then, for whoever reads, and nothing is made. With `upgrade`, its
        tables may be those of an older version, or of a copy that was cut short: see `migrate`.
        Jobs that don't say in which folder they run do so in the current one or, unless that is
        meant to be `here`, in that of their worker.
        """
        self.place = place or find_place(None if url is None else os.fspath(url))
        absent_ok = absent_ok and self.place.is_default
        self.store: Store = open_store(
            self.place.url, create=create, absent_ok=absent_ok, upgrade=upgrade, unfinished=upgrade
        )
        self._enqueuer = Enqueuer(self.store, self.place, here=here)

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    @cached_property
    def schedules(self) -> "Schedules":
        """What makes jobs at times: `queue.schedules.add("nightly", "0 3 * * *", "backup.sh")`."""
        from queuectl.schedules import Schedules

        return Schedules(self.store, self._enqueuer)

    @cached_property
    def groups(self) -> "Groups":
        """Jobs that are waited for together: `queue.groups.wait("nightly")`, `.results(...)`."""
        from queuectl.groups import Groups

        return Groups(self, self.store, self.place)

    @cached_property
    def limits(self) -> "QueueLimits":
        """What queues allow, to be read and set: how many run at once, begin in a time, or wait."""
        from queuectl.queue_limits import QueueLimits

        return QueueLimits(self.store, self._enqueuer)

    @cached_property
    def together(self) -> "Together":
        """What stores jobs of several who ask at the same moment in one durable write."""
        from queuectl.together import Together

        return Together(self.store, self._enqueuer)

    @cached_property
    def access(self) -> "Access":
        """Who may do what over HTTP: tokens, sessions, and links to sign in with."""
        from queuectl.grants import Access

        return Access(self.store)

    @cached_property
    def webhooks(self) -> "Webhooks":
        """Whom the ends of jobs are told to: `queue.webhooks.add("https://example.com/hook")`."""
        from queuectl.webhooks import Webhooks

        return Webhooks(self.store)

    @cached_property
    def _trends(self) -> "Trends":
        from queuectl.trends import Trends

        return Trends(self.store)

    @cached_property
    def tasks(self) -> "dict[str, Task[..., Any, Any]]":
        """The functions that were registered here with `task`, by their names."""
        return {}

    @overload
    def task(
        self, function: "Callable[P, Coroutine[Any, Any, R]]", /
    ) -> "Task[P, R, Coroutine[Any, Any, R]]": ...

    @overload
    def task(self, function: "Callable[P, R]", /) -> "Task[P, R, R]": ...

    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        **options: "Unpack[TaskOptions]",
    ) -> "Register": ...

    def task(
        self,
        function: Any = None,
        /,
        *,
        name: Any = None,
        **options: Any,
    ) -> Any:
        """Register a function as a task, which workers can call: `@queue.task(retries=5)`.

        The options are the fields of its jobs, as `enqueue` takes them; in `unique` and `keys`,
        `{parameter}` stands for an argument. Its name is that of its module and its own.
        """
        from queuectl.tasks.task import register

        if function is not None:
            return register(self, function, name, options)
        return lambda function: register(self, function, name, options)

    @property
    def url(self) -> str:
        """Where the queue is, without secrets."""
        return self.store.url

    @property
    def is_new(self) -> bool:
        """Whether the queue was made when it was opened."""
        return self.store.is_new

    @property
    def folder(self) -> str:
        """The folder on this host, beside the queue, of what nodes write: output and logs."""
        return os.path.dirname(self.store.folder.spool)

    @property
    def before_commit(self) -> Callable[[], None] | None:
        """Called, if somebody sets it, just before each commit: from then on, things may be stored.

        For whoever must not be interrupted between that and saying what was stored.
        """
        return self.store.before_commit

    @before_commit.setter
    def before_commit(self, called: Callable[[], None] | None) -> None:
        self.store.before_commit = called

    def now(self) -> int:
        """Return the clock of the queue, by which all its times are: milliseconds since 1970."""
        return self.store.clock.now()

    # -- enqueue --------------------------------------------------------------

    def enqueue(
        self, what: Request | None = None, *, connection: Any = None, **fields: Unpack[Keywords]
    ) -> Job:
        """Store a job and return it. When this returns, the job survives a power cut.

        `what` is a shell command, a list (program and arguments, run without a shell), a mapping
        of fields, or a `NewJob`. Keywords override the fields of a mapping.

        With a `connection` of your own to the same database (psycopg, PyMySQL or apsw), the job
        becomes part of its transaction: it exists if and only if you commit.
        """
        return self._enqueuer.take(what, fields, connection)

    def clone(self, job: Named, /, **changes: Unpack[Keywords]) -> "cloning.Clone":
        """Store another job with all that one was asked for, also its variables and its stdin.

        Changes are laid over that as `edit` does. It has an id of its own, and the unique key of
        the other only if no job has that just now; what is left out is said.
        """
        return cloning.clone(self.store, self._enqueuer, self.meant(job), changes)

    def push(
        self,
        id: str,
        data: str | bytes,
        /,
        *,
        connection: Any = None,
        **fields: Unpack[Keywords],
    ) -> Job:
        """Store a data job and return it; who runs it has a program for its type.

        All else is as in `enqueue`: an id that is taken is a `DuplicateError`.
        """
        return self._enqueuer.take(None, {"id": id, "data": data, **fields}, connection)

    submit = push

    def enqueue_many(
        self,
        what: Iterable[Request],
        *,
        keep_going: bool = False,
        connection: Any = None,
        progress: Progress | None = None,
        total: int = 0,
        **fields: Unpack[Keywords],
    ) -> Batch:
        """Store many jobs in their order: all of them or, if one can't be, none.

        Keywords are fields that hold for all. What a job says itself wins, but tags add up and
        variables merge. Many jobs made of one request are what `queuectl.expand` returns.

        With `keep_going` they are stored in large batches, ids already taken are skipped, those
        that the queue can't take are refused one by one (`refused`, `refused_at`), and what was
        stored before one that can't be read stays stored. Without it, at most 250,000 jobs can be
        stored at once. With a `connection`, they are part of its transaction, as in `enqueue`.
        """
        return self._enqueuer.take_all(
            self._enqueuer.read(what, fields),
            keep_going=keep_going,
            connection=connection,
            progress=progress,
            total=total,
        )

    def graph(self, **fields: Unpack[Keywords]) -> "composing.GraphBuilder":
        """Put a graph together, which is stored in one transaction when the block ends.

            with queue.graph(queue="etl") as graph:
                fetch = graph.add("fetch.sh")
                graph.add("load.sh", after=fetch)

        Nothing is stored if the block raises. Keywords are fields that hold for all its jobs.
        """
        return composing.GraphBuilder(self.enqueue_many, fields)

    def chain(self, items: "Iterable[composing.Item]", **fields: Unpack[Keywords]) -> Batch:
        """Store jobs of which each waits for the one before it: `["fetch.sh", "load.sh"]`.

        An item may be a `chain` or `parallel` of others. Keywords hold for all; with `after`, the
        first ones wait for that. All are stored in one transaction.
        """
        return composing.store(self.enqueue_many, composing.chain(items), fields)

    def parallel(self, items: "Iterable[composing.Item]", **fields: Unpack[Keywords]) -> Batch:
        """Store jobs that go side by side; all else is as with `chain`."""
        return composing.store(self.enqueue_many, composing.parallel(items), fields)

    def enqueue_graph(
        self,
        jobs: "Iterable[Request] | Mapping[str, Request]",
        **fields: Unpack[Keywords],
    ) -> "composing.Stored":
        """Store jobs that name each other by a `name`, in one transaction.

        They come as a list, or as a mapping of names to jobs, in which names that begin with `x-`
        or `.` are no jobs, as in YAML.
        Names are of this graph alone: each job gets an id, unless it says one, and keeps its name
        as the parameter `name`, unless that is its id or it says such a parameter. What they wait
        for are names, or ids, of each other, or ids of jobs that are stored already; a circle, an
        unknown job and a name that comes twice are refused. Keywords hold for all.
        """
        return composing.store_named(self, jobs, fields)

    def enqueue_read(
        self,
        given: Iterable[Values],
        *,
        keep_going: bool = False,
        connection: Any = None,
        progress: Progress | None = None,
        total: int = 0,
    ) -> Batch:
        """Do what `enqueue_many` does with requests that `request.read_values` has read."""
        return self._enqueuer.take_all(
            self._enqueuer.complete(given),
            keep_going=keep_going,
            connection=connection,
            progress=progress,
            total=total,
        )

    # -- reading --------------------------------------------------------------

    def get(self, id: Named) -> Job:
        """Return the job with this id, or with the one id that begins with these characters.

        For a `Job`, which every method takes in place of an id, that is the job as it is now.
        """
        return finding.get(self.store, id)

    def find(self, id: str) -> Job | None:
        """Return the job with exactly this id; None if there is none."""
        return self.store.jobs.get(id)

    def meant(self, id: Named) -> Job:
        """Return the job with this id; the beginning is enough for ids that were made for a job.

        Those that people give must be named in full: who removes `job1` a second time, or waits for
        it then, doesn't mean `job10`.
        """
        return finding.meant(self.store, id)

    def list(
        self,
        which: Filter | None = None,
        *,
        state: Names | None = None,
        queue: Names | None = None,
        tag: Names | None = None,
        type: Names | None = None,
        limit: int | None = 50,
        after: Named | None = None,
        oldest: bool = False,
        sort: str | None = None,
    ) -> Jobs:
        """Return jobs as `iterate` does, as they are at one moment, and 50 unless `limit` says."""
        chosen = listing.narrowed(which, state=state, queue=queue, tag=tag, type=type)
        return listing.snapshot(
            self.store, chosen, limit=limit, after=after, oldest=oldest, sort=sort
        )

    def iterate(
        self,
        which: Filter | None = None,
        *,
        state: Names | None = None,
        queue: Names | None = None,
        tag: Names | None = None,
        type: Names | None = None,
        limit: int | None = None,
        after: Named | None = None,
        oldest: bool = False,
        sort: str | None = None,
    ) -> Iterator[Job]:
        """Yield jobs, newest first, without holding them all: a million take no more memory.

        A state, queue, tag or type narrows it down, or a list of states, queues or types, or of
        tags to have all of; a `Filter` says anything that can be asked for.
        `after` goes on behind the job with that id. `sort` names another order: "finished",
        "-duration" for the longest first, "queue,-priority" for both.
        """
        chosen = listing.narrowed(which, state=state, queue=queue, tag=tag, type=type)
        return listing.iterate(
            self.store, chosen, limit=limit, after=after, oldest=oldest, sort=sort
        )

    def count(
        self,
        which: Filter | None = None,
        *,
        state: Names | None = None,
        queue: Names | None = None,
        tag: Names | None = None,
        type: Names | None = None,
    ) -> int:
        """Return how many jobs fit, chosen as in `iterate`.

        By state and queue, that takes no longer with ten million jobs than with ten; otherwise all
        that fit are read.
        """
        chosen = listing.narrowed(which, state=state, queue=queue, tag=tag, type=type)
        return listing.count(self.store, chosen)

    def counted(self, which: Filter) -> int | None:
        """Return how many jobs fit, if the counters can tell that at once: by state and queue."""
        return listing.counted(self.store, which)

    def counts(self) -> Counts:
        """Count jobs by queue, state and priority, at once however many there are."""
        return self.store.jobs.counts()

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        """Return the states of the jobs with these ids; those that aren't there are left out."""
        return self.store.jobs.states(ids)

    def page(
        self,
        which: Filter | None = None,
        *,
        limit: int | None = 50,
        after: Named | None = None,
        oldest: bool = False,
        sort: str | None = None,
    ) -> "listing.Page[Job]":
        """Return jobs as `iterate` does, as a page that knows whether there are more behind it."""
        return listing.Page(
            lambda most: self.iterate(which, limit=most, after=after, oldest=oldest, sort=sort),
            limit,
        )

    def search(
        self,
        which: Filter,
        *,
        limit: int = 50,
        looks: int = 10_000,
        after: Named | None = None,
        oldest: bool = False,
    ) -> "listing.Searched":
        """Return jobs as `iterate` does, and look at no more than about so many to find them.

        So it takes no longer where there are millions. It says behind which job to go on.
        """
        return listing.search(
            self.store, which, limit=limit, looks=looks, after=after, oldest=oldest
        )

    def jobs_like(self, prefix: str, states: Sequence[State] = (), *, limit: int = 50) -> Jobs:
        """Return some jobs in these states, or in any, whose ids begin with a prefix."""
        return listing.like(self.store, prefix, states, limit=limit)

    def tags_like(self, prefix: str, *, limit: int = 50) -> Texts:
        """Return some tags of jobs that begin with a prefix."""
        return self.store.jobs.like(prefix, limit, tags=True)

    def types_like(self, prefix: str, *, limit: int = 50) -> Texts:
        """Return types that begin with a prefix: those of the newest jobs, or handled by nodes."""
        return listing.types_like(self.store, prefix, limit=limit)

    def attempts(self, id: Named) -> Attempts:
        """Return the runs of a job that are over, oldest first."""
        return self.store.history.attempts(self.get(id))

    def hooks(self, id: Named) -> Jobs:
        """Return the jobs that ends of a job have made for its hooks, oldest first."""
        return self.store.jobs.hooks(self.get(id))

    def parents(self, id: Named) -> "Relatives":
        """Return the jobs that one waits for, or did, with what they came to."""
        return relatives.parents(self.store, self.get(id))

    def children(self, id: Named, *, limit: int = 1_000) -> "Relatives":
        """Return jobs that wait for one, or did, as they were enqueued."""
        return relatives.children(self.store, self.get(id), limit=limit)

    def count_children(self, id: Named, *, limit: int = 10_000) -> int:
        """Return how many jobs wait for one, or did; of more than the limit, that."""
        return relatives.count_children(self.store, self.get(id), most=limit)

    def graph_of(self, id: Named, *, limit: int = 200) -> "Graph":
        """Return a job with all that must end before it, and all that waits for its end.

        If there are more jobs than the limit, the nearest.
        """
        return relatives.graph(self.store, self.get(id), most=limit)

    def graph_of_group(self, name: str, *, limit: int = 200) -> "Graph":
        """Return the jobs of a group, and who of them waits for whom."""
        return relatives.graph_of_group(self.store, name, most=limit)

    def taken_along(self, jobs: Iterable[Named], *, limit: int = 10_000) -> "Along":
        """Return which jobs are cancelled with these, as they wait for them and so can't run."""
        meant = [self.get(job) for job in finding.several("taken_along", jobs)]
        return relatives.along(self.store, meant, most=limit)

    def output(self, id: Named, attempt: int | None = None) -> Output:
        """Return what a finished run of a job wrote: the newest, or the one with this number."""
        return outputs.kept(self.store, self.get(id), attempt)

    def written(self, id: Named, attempt: int | None = None) -> "outputs.Written":
        """Return what a run of a job wrote, also while it goes on: the newest, or this one."""
        return outputs.written(self.store, self.place, self.get(id), attempt)

    def result(self, id: Named) -> Any:
        """Return what a completed job came to, as its run told it.

        A job that isn't completed is a `StateError`; one whose run told nothing, a `NotFoundError`.
        """
        return told.result(self.store, self.get(id))

    def results(self, jobs: Sequence[Job]) -> dict[int, Any]:
        """Return the results of those of these jobs that have one, by their `seq`."""
        return told.results(self.store, jobs)

    def usages(self, jobs: Sequence[Job]) -> dict[int, Usage]:
        """Return what the newest runs of jobs that are over have used, by the `seq` of these."""
        return told.usages(self.store, jobs)

    def progress(self, jobs: Sequence[Job]) -> dict[int, RunProgress]:
        """Return how far the newest runs of jobs have come, as they say, by the `seq` of these."""
        return told.progress(self.store, jobs)

    def running_progress(self) -> dict[int, RunProgress]:
        """Return how far all jobs that run have come, as far as they say, by their `seq`."""
        return told.running_progress(self.store)

    def steps(self, id: Named) -> Steps:
        """Return the steps of a job that are done, in the order in which they were."""
        return self.store.reports.steps(self.get(id))

    def begin_step(self, run: "RunId", name: str, *, connection: Any = None) -> Step | None:
        """Return a step of a job that an earlier run has done; None if it is yet to be done.

        The second time that a run comes by it is a `DuplicateError`, and a run that has lost its
        lease gets a `LeaseLostError`. With a `connection`, it is part of its transaction.
        """
        return told.begin_step(self.store, run, name, connection)

    def keep_step(self, run: "RunId", name: str, output: bytes, *, connection: Any = None) -> None:
        """Store that a run has done a step, and what that wrote; fenced as `begin_step` is."""
        told.keep_step(self.store, run, name, output, connection)

    def sleeps(self, jobs: Sequence[Job]) -> dict[int, Sleep]:
        """Return what those of these jobs do that sleep, or wait for what is emitted, by `seq`."""
        return awaiting.sleeps(self.store, jobs)

    def fall_asleep(self, run: "RunId", wish: "Wish") -> Step | Sleep:
        """Return the step of a sleep that is over; or have the job of a run sleep from its end on.

        Fenced as `begin_step` is. The run should end then.
        """
        return awaiting.begin(self.store, run, wish)

    def emit(self, name: str, value: Any = None, *, connection: Any = None) -> "awaiting.Emission":
        """Tell something, once, to all jobs that wait for it or will, and bring these back.

        The first under a name counts; what is emitted later changes nothing, as is said. With a
        `connection` of your own, it is part of its transaction, as in `enqueue`.
        """
        return awaiting.emit(self.store, name, value, connection)

    def emit_text(self, name: str, payload: str) -> "awaiting.Emission":
        """Do the same with JSON as it was written."""
        return awaiting.emit_text(self.store, name, payload)

    def emitted(self, name: str | None = None, *, limit: int = 100) -> AllEmitted:
        """Return what was emitted, newest first; or under one name, if anything was."""
        return self.store.sleeps.emitted(name, limit=limit)

    def emitted_like(self, prefix: str, *, came: bool | None = None, limit: int = 50) -> Texts:
        """Return some names that begin with a prefix: emitted, only awaited yet, or either."""
        return awaiting.names_like(self.store, prefix, came=came, limit=limit)

    def heartbeat(self, run: "RunId | None" = None) -> Job:
        """Return the job of a run, the one that we are in unless it is given, as it is now.

        A run that has lost its lease gets a `LeaseLostError`; one that somebody wants ended, a
        `StateError`. No run has to do this to be alive: its node does.
        """
        return told.heartbeat(self.store, run)

    def update_data(
        self,
        data: "Mapping[str, Any] | str | bytes",
        *,
        replace: bool = False,
        run: "RunId | None" = None,
    ) -> bytes:
        """Change the data of the job of a run, the one that we are in unless it is given.

        Later runs of it are given that. A mapping is merged into the data, which must be a JSON
        object, name by name; with `replace`, or if it is text or bytes, it takes their place. A run
        that has lost its lease changes nothing, and gets a `LeaseLostError`. Returns the new data.
        """
        return told.update_data(self.store, run, data, replace=replace)

    def events(self, id: Named | None = None, *, limit: int | None = 100) -> Events:
        """Return what was done by hand and which jobs died or were rescued, newest first."""
        return [*self.iterate_events(id, limit=limit)]

    def iterate_events(
        self,
        id: Named | None = None,
        *,
        action: str | None = None,
        which: EventFilter = ANY_EVENT,
        before: int | None = None,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """Yield them without holding them all: of one job, also one that is gone, or one action.

        They go on behind the one whose `seq` is `before`.
        """
        limit = listing.check_limit(limit)
        job = None if id is None else listing.with_events(self.store, id)
        return listing.events(
            self.store, job, action=action, which=which, before=before, limit=limit
        )

    def page_events(
        self,
        id: Named | None = None,
        *,
        action: str | None = None,
        which: EventFilter = ANY_EVENT,
        before: int | None = None,
        limit: int | None = 50,
    ) -> "listing.Page[Event]":
        """Return them as a page that knows whether there are more behind it."""
        return listing.Page(
            lambda most: self.iterate_events(
                id, action=action, which=which, before=before, limit=most
            ),
            limit,
        )

    def search_events(
        self,
        which: EventFilter = ANY_EVENT,
        *,
        id: Named | None = None,
        action: str | None = None,
        limit: int = 50,
        looks: int = 10_000,
        before: int | None = None,
        after: int | None = None,
    ) -> "listing.SearchedEvents":
        """Return events that fit, newest first, and look at no more than so many to find them.

        They are the newest, the next ones before the event whose `seq` is `before`, or the next
        ones after it. So it takes no longer where there are millions; it says where to go on.
        """
        return listing.search_events(
            self.store,
            None if id is None else listing.with_events(self.store, id),
            action=action,
            which=which,
            limit=limit,
            looks=looks,
            before=before,
            after=after,
        )

    # -- following ------------------------------------------------------------

    def follower(
        self,
        job: Job,
        sink: "following.Sink",
        *,
        first: int = 1,
        seen: tuple[int, int] = (0, 0),
        last: int | None = None,
        talk: "following.Talk" = lambda _: None,
    ) -> "following.Follower":
        """Return what hands all that a job writes to a sink, from one of its runs to another.

        `talk` hears what happens between them. Of the `first` run, so many bytes of stdout and
        stderr were `seen` before.
        """
        return following.Follower(
            self.store, job, sink, first=first, seen=seen, last=last, talk=talk
        )

    def follow(self, followers: "Followers", *, tick: "following.Tick" = lambda: None) -> None:
        """Follow jobs until all of them are finished; `tick` is called after each look."""
        following.follow_jobs(self.store, followers, tick=tick)

    def follow_all(
        self,
        which: Filter,
        make: "following.Make",
        *,
        whole: bool = False,
        tick: "following.Tick" = lambda: None,
    ) -> None:
        """Follow every job that fits and runs, until interrupted.

        `make` makes a follower for a job from a run on. With `whole`, what those wrote that are
        finished already comes first, and it ends by itself when all that fit are finished.
        """
        following.follow_all(self.store, which, make, whole=whole, tick=tick)

    def show_all(
        self, which: Filter, make: "following.Make", *, warn: "following.Talk" = lambda _: None
    ) -> None:
        """Hand on what all jobs that fit have written by now, the first enqueued first."""
        following.show_jobs(self.store, which, make, warn=warn)

    # -- reports --------------------------------------------------------------

    def explain(self, id: Named) -> "Reasons":
        """Say why a job waits, with all reasons there are, or that its run is paused."""
        return overview.explain_job(self.store, self.place, self.get(id))

    def explain_some(self, which: Sequence[str] | Filter) -> "Reasons":
        """Say why the jobs with these ids, or that fit, wait: what keeps all of them.

        Of a single one, all reasons.
        """
        return overview.explain_some(self.store, self.place, which)

    def is_stuck(self, which: Sequence[str] | Filter) -> bool:
        """Tell whether of the jobs with these ids, or that fit, all that is left waits in vain.

        Nothing of them runs or will, until somebody retries what they wait for.
        """
        return relatives.are_in_vain(self.store, which)

    def explain_open(self, queues: Collection[str] = ()) -> "Reasons":
        """Say why the jobs of these queues, or of any, wait that aren't finished."""
        return overview.explain_open(self.store, self.place, queues)

    def hindrances(self, queues: Collection[str]) -> "Reasons":
        """Say what keeps all jobs of these queues from being started, if anything does."""
        (found,) = overview.explain_queues(self.store, [queues])
        return found

    def hindrances_of_each(self, queues: Sequence[str]) -> "dict[str, Reasons]":
        """Return the same of each of these queues by itself, and which jobs of it no node can run.

        Those are jobs that are ready; they are counted up to 10,000.
        """
        return overview.explain_each_queue(self.store, queues)

    def status(self) -> "Status":
        """Return counts per state and queue, and who works."""
        return overview.status(self.store)

    def stats(
        self,
        *,
        since: "int | datetime | None" = None,
        queue: str | None = None,
        tag: Names | None = None,
    ) -> "Stats":
        """Return totals, run and wait times, the slowest jobs and the spread of priorities.

        Times are those of runs that ended `since` then: a datetime, or milliseconds since 1970.
        With a tag, or several that a job must have, the times are those of the last runs of the
        jobs in the store, which are all read; without, they include jobs that were pruned.
        """
        return overview.stats(self.store, since=since, queue=queue, tag=tag)

    def series(
        self,
        *,
        since: "int | datetime",
        span: int,
        queues: Sequence[str] = (),
    ) -> "SeriesParts":
        """Return what `stats` says of times, part by part, since then: for charts.

        A part is so many milliseconds long, from a minute on, and there is one for each, the oldest
        first, also where nothing ended. It is about all queues, or about these.
        """
        (found,) = self.several_series([queues], since=since, span=span)
        return found

    def several_series(
        self, choices: Sequence[Sequence[str]], *, since: "int | datetime", span: int
    ) -> "AllSeries":
        """Return the same for several choices of queues, each of them the `queues` of `series`."""
        return self._trends.series(self.now(), since=since, span=span, choices=choices)

    def figures(self) -> "Figures":
        """Return what is worth watching, for monitoring; `queuectl.metrics` makes metrics of it.

        It costs the same with ten jobs or ten million.
        """
        return figures.figures(self.store)

    # -- waiting --------------------------------------------------------------

    def changed(self) -> bool:
        """Tell whether anybody may have changed something since the last call.

        It costs next to nothing; a server that can't tell says so now and then.
        """
        return self.store.changed()

    def check_place(self) -> None:
        """Raise a `StoreMissingError` if the database was deleted or replaced under us.

        Whoever writes finds that out; who only reads would see what nobody else sees any more.
        """
        self.store.check_place()

    def wait(
        self,
        *ids: Named,
        timeout: "str | float | timedelta | None" = None,
        tick: Callable[[int], None] | None = None,
        or_stuck: bool = False,
    ) -> Jobs:
        """Wait until these jobs are finished (completed, dead or cancelled) and return them.

        Tells `tick` how many are left, whenever that may have changed and every second. Raises
        `TimeoutError` when the `timeout` is over: seconds, a text such as "5m", or a timedelta.
        With `or_stuck`, raises `StuckError` once all that is left waits in vain for others.
        """
        return watches.wait_for(self, ids, timeout=timeout, tick=tick, or_stuck=or_stuck)

    def watch(
        self,
        ids: Sequence[str] | None = None,
        *,
        queues: Sequence[str] = (),
        tags: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> "watches.Watch":
        """Return jobs to be waited for by `wait_until(watch.remaining)`, and how they ended.

        Those with these ids; or all of these groups; or all that have these tags, which must be
        some; or all of these queues, or of any, that aren't finished.
        """
        return watches.watch(self, ids, queues=queues, tags=tags, groups=groups)

    def wait_until(
        self,
        remaining: Callable[[], int],
        *,
        timeout: float | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        """Wait until `remaining()` is 0, asking it whenever the store has changed."""
        waiting.wait_until(remaining, self.store.changed, timeout=timeout, tick=tick)

    # -- changing -------------------------------------------------------------

    def cancel(self, id: Named, *, reason: str | None = None) -> Job:
        """Call a job off. A waiting job is cancelled at once, a running one is ended by its node.

        Cancelling a finished job is a `StateError`.
        """
        return self.cancel_all([self.meant(id)], reason=reason)[0]

    def force_finish(self, id: Named, *, result: Any = None) -> Job:
        """Complete a job by hand, without a run of it, and return it as it is then.

        One that runs is completed when its node has ended the run, whatever that came to: wait for
        it. `result` is what it came to, if that is anything. A finished job is a `StateError`.
        """
        change = changes.finishing(None if result is None else told.result_of(result))
        return changes.make(self.store, [self.get(id)], change)[0]

    def cancel_all(self, jobs: Iterable[Named], *, reason: str | None = None) -> Jobs:
        """Call several jobs off: all of them or, if one can't be, none; returns them afterwards.

        This is one transaction, like `retry_all` and `remove_all`, and others wait for its end:
        change thousands of jobs with `change_matching`.
        """
        return changes.make_all(self.store, "cancel_all", jobs, changes.cancelling(reason))

    def retry(
        self, id: Named, *, changed: Keywords | None = None, from_step: str | None = None
    ) -> Job:
        """Put a dead, cancelled or completed job back in line, or make a waiting retry due now.

        Failures and crashes are counted from zero again; attempts and history stay. With fields
        that are `changed`, such as `{"timeout": "1h"}`, it runs as another one from now on, and
        what they were is kept in its history. Steps that are done stay done, but for `from_step`
        and those after it.
        """
        return self.retry_all([self.meant(id)], changed=changed, from_step=from_step)[0]

    def retry_all(
        self,
        jobs: Iterable[Named],
        *,
        changed: Keywords | None = None,
        from_step: str | None = None,
    ) -> Jobs:
        """Put several jobs back in line: all of them or, if one can't be, none."""
        change = editing.retrying(changed) if changed else changes.RETRY
        if from_step is not None:
            change = changes.retrying_from(from_step, change)
        return changes.make_all(self.store, "retry_all", jobs, change)

    def retry_dead(self, id: Named) -> Job:
        """Put one job of the dead letter queue back in line; any other state is an error."""
        return changes.make(self.store, [self.meant(id)], changes.RETRY_DEAD)[0]

    def remove(self, id: Named) -> Job:
        """Delete a job that isn't running, with all its attempts and output."""
        return self.remove_all([self.meant(id)])[0]

    def remove_all(self, jobs: Iterable[Named]) -> Jobs:
        """Delete several jobs: all of them or, if one can't be, none; returns them as they were."""
        return changes.make_all(self.store, "remove_all", jobs, changes.REMOVE)

    def pause_jobs(self, jobs: Iterable[Named]) -> dict[str, bool]:
        """Have running jobs stand still: all their processes, and the clock of their timeout.

        All of them or, if one doesn't run, none: that is a `StateError`. Says of each, by its id,
        whether it was paused by this; False when it was already. They keep their workers, and their
        places in limits. `resume_jobs`, a cancel and whatever else ends a run end the pause.
        """
        return pausing.set_paused(self.store, "pause_jobs", jobs, paused=True)

    def resume_jobs(self, jobs: Iterable[Named]) -> dict[str, bool]:
        """Let running jobs go on that are paused; False for those that weren't."""
        return pausing.set_paused(self.store, "resume_jobs", jobs, paused=False)

    def pauses(self) -> dict[int, Pause]:
        """Return which runs stand still, since when and by whom, by the `seq` of their jobs."""
        return overview.pauses_of(self.store)

    def edit(self, job: Named, /, **fields: Unpack[Keywords]) -> Job:
        """Change what a job that waits is to be: `queue.edit(id, priority=5, timeout="1h")`.

        Tags and keys replace those that it has; variables are laid over them. What was and what is
        then are kept as an event. A job that doesn't wait is a `StateError`.
        """
        return self.edit_all([self.meant(job)], **fields)[0]

    def edit_all(self, jobs: Iterable[Named], /, **fields: Unpack[Keywords]) -> Jobs:
        """Change several jobs that wait: all of them or, if one can't be, none."""
        return changes.make_all(self.store, "edit_all", jobs, editing.editing(fields))

    def hold(self, id: Named) -> Job:
        """Keep a job that waits from running, until it is released."""
        return self.hold_all([self.meant(id)])[0]

    def hold_all(self, jobs: Iterable[Named]) -> Jobs:
        """Hold several jobs: all of them or, if one can't be, none."""
        return changes.make_all(self.store, "hold_all", jobs, editing.HOLD)

    def release(self, id: Named) -> Job:
        """Let a job run again that is held; one that isn't is a `StateError`."""
        return self.release_all([self.meant(id)])[0]

    def release_all(self, jobs: Iterable[Named]) -> Jobs:
        """Release several jobs: all of them or, if one isn't held, none."""
        return changes.make_all(self.store, "release_all", jobs, editing.RELEASE)

    def top(self, id: Named) -> Job:
        """Put a job that waits before all others of its queue that have its priority."""
        return self.top_all([self.meant(id)])[0]

    def top_all(self, jobs: Iterable[Named]) -> Jobs:
        """Do so with several, in this order: all of them or, if one doesn't wait, none."""
        return changes.make_all(self.store, "top_all", jobs, editing.TOP)

    def move(self, id: Named, to: str) -> Job:
        """Have a job that waits do so in another queue.

        There it stands by when it was enqueued or, if that queue has keys, as if it were new.
        """
        return self.move_all([self.meant(id)], to)[0]

    def move_all(self, jobs: Iterable[Named], to: str) -> Jobs:
        """Move several jobs: all of them or, if one doesn't wait, none."""
        return changes.make_all(self.store, "move_all", jobs, editing.moving(to))

    def swap(self, one: Named, other: Named) -> tuple[Job, Job]:
        """Have two jobs that wait in one queue take each other's place; returns both.

        They exchange their priorities, and also their places in lists.
        """
        return editing.swap(self.store, one, other)

    def change_all(self, jobs: Iterable[Named], change: "changes.Change") -> Jobs:
        """Make a change to several jobs: to all of them or, if one can't be changed, to none."""
        return changes.make_all(self.store, "change_all", jobs, change)

    def change_named(
        self,
        ids: Iterable[Named],
        change: "changes.Change",
        *,
        dry_run: bool = False,
        told: "Callable[[changes.Changed | changes.Refused], None]" = lambda _: None,
    ) -> None:
        """Make a change to each job that is named, whatever becomes of the others.

        What became of each is told at once, also which couldn't be changed and why. Who is named
        twice is changed once.
        """
        changes.make_named(self.store, ids, change, told, dry_run=dry_run)

    def change_matching(
        self,
        which: Filter,
        change: "changes.Change",
        *,
        dry_run: bool = False,
        told: "Callable[[Sequence[changes.Changed]], None]" = lambda _: None,
    ) -> int:
        """Make a change to all jobs that fit, however many, and return how many those were.

        A filter without states means those in which the change is usual. Some hundred jobs are
        changed in each transaction, and told once that can't be undone any more.
        """
        return changes.make_matching(self.store, which, change, told, dry_run=dry_run)

    def last_action(self, *, since: int | None = None) -> str:
        """Return the last action of who asks, since a time in milliseconds.

        It is the one that was begun last, also if it can't be undone.

        Raises:
            NotFoundError: There is none in the last ten minutes.
            StateError: What was done last is no action that can be named, as a pause of a queue.
        """
        return undoing.last_action(self.store, since)

    def undo(
        self,
        action: str | None = None,
        *,
        dry_run: bool = False,
        may_change_work: bool = True,
        told: "Callable[[Sequence[changes.Changed | changes.Refused]], None]" = lambda _: None,
    ) -> "undoing.Undone":
        """Take back what an action did to jobs, or the last one of who asks, within ten minutes.

        Those that have changed since, or run, stay as they are: what became of each is told.
        Cancellations, holds, releases, moves, retries, edits and new places can be taken back, as
        far as jobs didn't run; and what was cancelled with a job that ran. Unless
        `may_change_work`, what jobs run stays.

        Raises:
            NotFoundError: There is no such action, or none in the last ten minutes.
            StateError: It was done longer ago, or can't be undone, as an undo.
        """
        return undoing.undo(
            self.store, action, told, may_change_work=may_change_work, dry_run=dry_run
        )

    # -- settings -------------------------------------------------------------

    @property
    def settings(self) -> "Settings":
        """The settings in force right now."""
        return self.explain_settings()[0]

    def explain_settings(self) -> "tuple[Settings, dict[str, str]]":
        """Return the settings in force, and for those that aren't defaults where they come from."""
        return self.place.settings(self.store.settings.config())

    def set_setting(self, name: str, value: object) -> tuple[str, str]:
        """Set a setting for all nodes and users of this store; returns its name and text.

        A duration is text such as "7d", a timedelta, or a number of seconds.
        """
        changed = configuration.set_shared(self.store, name, value)
        self._enqueuer.note_new_settings()
        return changed

    def unset_setting(self, name: str) -> str:
        """Forget a shared setting, so that its default holds again; returns its name."""
        key = configuration.unset_shared(self.store, name)
        self._enqueuer.note_new_settings()
        return key

    # -- queues ---------------------------------------------------------------

    def pause(self, queue: str) -> bool:
        """Stop giving out jobs of a queue; running ones go on. False when it was paused already."""
        return queues.set_paused(self.store, queue, paused=True)

    def resume(self, queue: str) -> bool:
        """Give out jobs of a queue again. False when it wasn't paused."""
        return queues.set_paused(self.store, queue, paused=False)

    def rename_queue(self, old: str, new: str) -> QueueUse:
        """Call a queue otherwise, with its jobs, limits, keys and history, as one change.

        Schedules that name it name the new one then. Returns what there was of it.

        Raises:
            NotFoundError: There is nothing of the queue.
            StateError: Some of its jobs run, or something is in the queue of the new name, or set
                on it; nothing was changed.
        """
        use = queues.rename(self.store, old, new)
        self._enqueuer.note_new_settings()
        return use

    def remove_queue(self, name: str) -> None:
        """Remove a queue without jobs: all that is set on it, and what is known of its keys.

        Raises:
            NotFoundError: Nothing is set on the queue.
            StateError: There are jobs in it, or schedules that make some; nothing was changed.
        """
        queues.remove(self.store, name)
        self._enqueuer.note_new_settings()

    def queues(self) -> Queues:
        """Return the queues on which something was set."""
        return self.store.settings.queues()

    def unused(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return those of these queues that nobody has used, each with a used one that looks alike.

        Nobody has used a queue if no job is in it, none has run there, and nothing was set on it.
        """
        return queues.unused(self.store, names)

    def unknown_tags(self, tags: Iterable[str]) -> dict[str, str | None]:
        """Return those of these tags that no job has, each with a known one that looks alike."""
        return queues.unknown_tags(self.store, tags)

    # -- nodes ----------------------------------------------------------------

    def living_nodes(self) -> Nodes:
        """Return the nodes that live; cheaper than `nodes`, which says what each of them runs."""
        return roster.living(self.store)

    def registered_nodes(self) -> Nodes:
        """Return all nodes that have signed on and not off, alive or not."""
        return self.store.nodes.all()

    def held(self, node: str) -> Jobs:
        """Return the jobs that the node with this id has in processing."""
        return self.store.runs.held(node)

    def nodes(self) -> Dicts:
        """Return the registered nodes, with whether they live and how many jobs they run."""
        return overview.nodes(self.store)

    def is_alive(self, node: Node) -> bool:
        """Tell whether a node lives: by its process where we can see it, and by its lease."""
        return roster.is_alive(self.store, node)

    def is_dead(self, node: Node) -> bool:
        """Tell whether a node can't be alive, beyond doubt: then its jobs may be given to others.

        Between the living and the dead are those on other hosts whose lease seems to be over.
        """
        return roster.is_dead(self.store, node)

    def is_left_behind(self, job: Job) -> bool:
        """Tell whether a job is only called running because nobody has taken it over yet."""
        return roster.is_left_behind(self.store, job)

    def stop_nodes(self, nodes: Sequence[str] = (), *, force: bool = False) -> Texts:
        """Ask nodes (all living ones by default) to stop; returns the ids of those asked."""
        return roster.stop(self.store, nodes, force=force)

    def restart_nodes(self, nodes: Sequence[str] = (), *, now: bool = False) -> Dicts:
        """Ask nodes on this host (all living ones by default) to start again in place.

        Their runs go on meanwhile; with `now` they are released. Says of each node whether it was
        `asked`, and if not, for which `reason`. What came of it is in the log of the node.
        """
        return roster.restart(self.store, nodes, now=now)

    def followers(self, *, within: float = FOLLOWED_WITHIN) -> tuple[Nodes, Nodes]:
        """Return the nodes with as many workers as the shared settings say, and the others.

        Waits, if need be, for nodes that are about to follow a change. Others have been told a
        number of their own: by `--count`, their environment or a `queuectl.toml`.
        """
        return roster.followers(self.store, within=within)

    # -- maintenance ----------------------------------------------------------

    def prune(
        self,
        states: Sequence[State],
        older_than: "str | float | timedelta",
        *,
        dry_run: bool = False,
        progress: Callable[[State, int], None] | None = None,
    ) -> dict[State, int]:
        """Delete finished jobs that are older than a duration; says how many of which.

        The duration is text such as "7d", a timedelta, or a number of seconds. They go in batches,
        each for good: `progress` hears of those of a state that are gone so far.
        """
        return maintenance.prune(self.store, states, older_than, dry_run=dry_run, progress=progress)

    def info(self) -> Mapping[str, Any]:
        """Describe the store: engine, version, size, durability."""
        return self.store.info()

    def checkup(self) -> "Findings":
        """Check the queue, its database and this host; says of each finding what to do."""
        return maintenance.checkup(self.store, self.place)

    def share(self, group: str) -> str | None:
        """Let the members of a group of this host use the queue as its owner does.

        They can add jobs, which run as the user of the workers. Only a queue in a file can be
        shared, one in a folder of its own. To share it again mends what isn't the group's.
        Returns the folder further up that keeps them out all the same, if one does.
        """
        return maintenance.share(self.store, group)

    def migrate(self) -> tuple[int, int]:
        """Bring the tables up to date, whoever else is at it; says from and to which version."""
        return self.store.migrate()

    def verify(self) -> Texts:
        """Check the store's integrity; returns what is wrong, one sentence each."""
        return self.store.verify()

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """Write a consistent copy while everything goes on."""
        maintenance.backup(self.store, path, progress)

    def vacuum(self) -> None:
        """Give unused space back to the filesystem."""
        self.store.vacuum()

    def copy_to(
        self,
        url: str,
        *,
        overwrite: bool = False,
        force: bool = False,
        progress: Progress | None = None,
        verifying: Progress | None = None,
    ) -> "Copies":
        """Copy everything to another store, which is made if need be, and compare both.

        A copy that was cut short is gone on with. A target that isn't empty is a `StateError`,
        unless it may be overwritten. Stop the workers first: while nodes live here, it is one
        as well, unless it is forced. What they run then counts as lost at the target, and runs
        again there.
        """
        return maintenance.copy_to(
            self.store,
            url,
            overwrite=overwrite,
            force=force,
            progress=progress,
            verifying=verifying,
        )

    def reset(self, *, settings: bool = False, progress: Progress | None = None) -> int:
        """Delete all jobs with their output, and all history; returns how many jobs there were.

        Settings, pauses and tokens stay, unless `settings` goes as well. While nodes live it is a
        `StateError`. Events of before go, too: the first that follows says who did it.
        """
        jobs = maintenance.reset(self.store, settings=settings, progress=progress)
        self._enqueuer.note_new_settings()
        return jobs
