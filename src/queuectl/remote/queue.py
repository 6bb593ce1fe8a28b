"""A `Queue` behind `queuectl web`: the same methods, asked over HTTP.

What isn't here is done where the database is, and says so: workers, the database as a whole, and
what a job tells of itself while it runs.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from queuectl import finding, listing, told, waiting
from queuectl.address import read_remote
from queuectl.changes import Asked, Changed, Refused
from queuectl.enqueueing import BATCH, MOST_AT_ONCE, Request
from queuectl.errors import (
    BadJobError,
    DuplicateError,
    NotFoundError,
    StoreUnsettledError,
    UsageError,
)
from queuectl.facts import Batch, Node, Pause, QueueUse, RunProgress, Sleep, batch_of
from queuectl.fields import Keywords
from queuectl.filter import ANY_EVENT, EventFilter, Filter, Names
from queuectl.job import Job, Named, Output, State, Usage
from queuectl.place import Place, find_place, near
from queuectl.queue import (
    FOLLOWED_WITHIN,
    AllEmitted,
    Attempts,
    Counts,
    Dicts,
    Jobs,
    Nodes,
    Queue,
    Queues,
    Steps,
    Texts,
)
from queuectl.remote import requests
from queuectl.remote.caller import caller
from queuectl.remote.calls import Result
from queuectl.remote.http import Client
from queuectl.remote.parts import (
    RemoteAccess,
    RemoteGroups,
    RemoteLimits,
    RemoteSchedules,
    RemoteWebhooks,
)
from queuectl.remote.tokens import check_way, token_for
from queuectl.request import Values, read_duration
from queuectl.schedules import plain_fields
from queuectl.store import Store
from queuectl.store.ids import job_ids
from queuectl.values import replace
from queuectl.when import milliseconds

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from queuectl import changes, following, outputs, undoing
    from queuectl.awaiting import Emission
    from queuectl.explain import Reason
    from queuectl.grants import Access
    from queuectl.groups import Groups
    from queuectl.lineage import Along, Graph, Relative
    from queuectl.queue_limits import QueueLimits
    from queuectl.report import Part, Stats, Status
    from queuectl.schedules import Schedules
    from queuectl.settings import Settings
    from queuectl.webhooks import Webhooks

    Followers = list[following.Follower]
    Relatives = list[Relative]
    Reasons = list[Reason]
    AllSeries = list[list[Part]]

MOST = 1_000
"""Items that one answer has at most."""


class RemoteQueue(Queue):
    """A queue that a server is asked for. Safe to share between threads."""

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
        """Know where the server is; it is asked when there is something to ask.

        The queue is there, or isn't: nothing is made, and jobs run in the folder of their worker.
        """
        self.place = place or find_place(None if url is None else os.fspath(url))
        self._remote = read_remote(self.place.url)
        check_way(self._remote)
        self._client = Client(self._remote, lambda: token_for(self._remote))
        self._before_commit: Callable[[], None] | None = None
        self._ask = caller(self._client, lambda: self._before_commit)

    def close(self) -> None:
        """Let go of the server."""
        self._client.close()

    @property
    def store(self) -> Store:  # type: ignore[override]
        """There is none: what needs one is done where the database is."""
        near(self.place)
        raise AssertionError(f"{self.url} is near")

    @property
    def url(self) -> str:
        return self._remote.url

    @property
    def is_new(self) -> bool:
        return False

    @property
    def before_commit(self) -> Callable[[], None] | None:
        return self._before_commit

    @before_commit.setter
    def before_commit(self, called: Callable[[], None] | None) -> None:
        self._before_commit = called

    def now(self) -> int:
        return self._ask.now()

    @cached_property
    def schedules(self) -> "Schedules":
        return RemoteSchedules(self._ask)

    @cached_property
    def groups(self) -> "Groups":
        return RemoteGroups(self, self._ask)

    @cached_property
    def limits(self) -> "QueueLimits":
        return RemoteLimits(self._ask)

    @cached_property
    def access(self) -> "Access":
        return RemoteAccess(self._ask)

    @cached_property
    def webhooks(self) -> "Webhooks":
        return RemoteWebhooks(self._ask)

    # -- enqueue --------------------------------------------------------------

    def enqueue(
        self, what: Request | None = None, *, connection: Any = None, **fields: Unpack[Keywords]
    ) -> Job:
        return self._add(requests.read(what, fields, self.now), connection)

    def push(
        self, id: str, data: str | bytes, /, *, connection: Any = None, **fields: Unpack[Keywords]
    ) -> Job:
        given = {"id": id, "data": data, **fields}
        return self._add(requests.read(None, given, self.now), connection)

    submit = push

    def _add(self, values: Values, connection: Any) -> Job:
        _check_connection(connection)
        # It may be sent again: under its key, it is added once.
        (id,) = job_ids(1)
        asked = {"id": id, **requests.written(values)}
        try:
            return self._ask.enqueue(asked, str(uuid4()))
        except StoreUnsettledError as error:
            error.advice = f"queuectl show {asked['id']} says whether the job is there."
            raise

    def enqueue_many(
        self,
        what: Iterable[Request],
        *,
        keep_going: bool = False,
        connection: Any = None,
        progress: Callable[[int, int], None] | None = None,
        total: int = 0,
        **fields: Unpack[Keywords],
    ) -> Batch:
        return self.enqueue_read(
            requests.read_several(what, fields, self.now),
            keep_going=keep_going,
            connection=connection,
            progress=progress,
            total=total,
        )

    def enqueue_read(
        self,
        given: Iterable[Values],
        *,
        keep_going: bool = False,
        connection: Any = None,
        progress: Callable[[int, int], None] | None = None,
        total: int = 0,
    ) -> Batch:
        _check_connection(connection)
        if keep_going:
            return self._add_batches(given, progress, total)
        values = list(given)
        if len(values) > MOST_AT_ONCE:
            raise BadJobError(
                f"More than {MOST_AT_ONCE:,} jobs can't be stored all at once without holding up"
                " the workers; split them, or keep going, which stores batch by batch."
            )
        batch = self._add_all(values, keep_going=False)
        if progress is not None:
            progress(len(values), len(values))
        return batch

    def _add_batches(
        self,
        given: Iterable[Values],
        progress: Callable[[int, int], None] | None,
        total: int,
    ) -> Batch:
        done: list[Batch] = []
        count = 0
        for part in _parts(given, BATCH):
            done.append(self._add_all(part, keep_going=True))
            count += done[-1].requests
            if progress is not None:
                progress(count, total)
        return batch_of(done)

    def _add_all(self, values: Sequence[Values], *, keep_going: bool) -> Batch:
        """Store jobs, whose ids are made here: so it can be told what came of a lost request."""
        if not values:
            return Batch(ids=())
        made = job_ids(len(values))
        asked = [{"id": id, **requests.written(one)} for id, one in zip(made, values, strict=True)]
        ours = [one["id"] for id, one in zip(made, asked, strict=True) if one["id"] == id]
        return self._ask_adding(asked, ours, keep_going=keep_going)

    def _ask_adding(
        self, asked: Sequence[Mapping[str, Any]], ours: Sequence[str], *, keep_going: bool
    ) -> Batch:
        lines = _Lines(asked)
        try:
            batch = self._ask.enqueue_many(keep_going, lines)
        except DuplicateError:
            if lines.sent > 1 and ours and self._ask.states([*ours[:1]]):
                # The answer to the first time was lost.
                return Batch(ids=tuple(str(one["id"]) for one in asked))
            raise
        return _settled(batch, frozenset(ours)) if lines.sent > 1 else batch

    # -- reading --------------------------------------------------------------

    def get(self, id: Named) -> Job:
        return self._known(id, self._ask.get)

    def find(self, id: str) -> Job | None:
        return self._ask.find(id)

    def meant(self, id: Named) -> Job:
        return self._known(id, self._ask.meant)

    def _known(self, id: Named, ask: Callable[[str], Job]) -> Job:
        try:
            return ask(finding.name_of(id))
        except NotFoundError:
            if not isinstance(id, str):
                raise finding.gone(id) from None
            raise

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
        chosen = listing.narrowed(which, state=state, queue=queue, tag=tag, type=type)
        return [*self.iterate(chosen, limit=limit, after=after, oldest=oldest, sort=sort)]

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
        chosen = _sent(listing.narrowed(which, state=state, queue=queue, tag=tag, type=type))
        limit = listing.check_limit(limit)
        if sort is not None and (after is not None or oldest):
            raise UsageError("A sorted list has no after and no oldest; they go by the line.")
        if sort is not None and (limit is None or limit > MOST):
            listing.read_sort(sort)
            return _first(self._ask.all_jobs(chosen, sort), limit)
        behind = None if after is None else self.get(after).id
        return self._pages(chosen, limit, behind, oldest, sort)

    def _pages(
        self, which: Filter, limit: int | None, after: str | None, oldest: bool, sort: str | None
    ) -> Iterator[Job]:
        left = limit
        while left is None or left > 0:
            size = MOST if left is None else min(MOST, left)
            page = self._ask.jobs(which, size, after, oldest, sort)
            yield from page
            if len(page) < size:
                return
            after = page[-1].id
            left = None if left is None else left - len(page)

    def count(
        self,
        which: Filter | None = None,
        *,
        state: Names | None = None,
        queue: Names | None = None,
        tag: Names | None = None,
        type: Names | None = None,
    ) -> int:
        chosen = listing.narrowed(which, state=state, queue=queue, tag=tag, type=type)
        return self._ask.count(_sent(chosen))

    def counted(self, which: Filter) -> int | None:
        return self._ask.counted(_sent(which))

    def counts(self) -> Counts:
        return self._ask.counts()

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        return self._ask.states([*ids]) if ids else {}

    def jobs_like(self, prefix: str, states: Sequence[State] = (), *, limit: int = 50) -> Jobs:
        return self._ask.jobs_like(prefix, [*states], limit)

    def tags_like(self, prefix: str, *, limit: int = 50) -> Texts:
        return self._ask.tags_like(prefix, limit)

    def types_like(self, prefix: str, *, limit: int = 50) -> Texts:
        return self._ask.types_like(prefix, limit)

    def attempts(self, id: Named) -> Attempts:
        return self._ask.attempts(finding.name_of(id))

    def hooks(self, id: Named) -> Jobs:
        return self._ask.hooks(finding.name_of(id))

    def parents(self, id: Named) -> "Relatives":
        return self._ask.parents(finding.name_of(id))

    def children(self, id: Named, *, limit: int = 1_000) -> "Relatives":
        return self._ask.children(finding.name_of(id), limit)

    def count_children(self, id: Named, *, limit: int = 10_000) -> int:
        return self._ask.count_children(finding.name_of(id), limit)

    def graph_of(self, id: Named, *, limit: int = 200) -> "Graph":
        return self._ask.graph_of(finding.name_of(id), limit)

    def graph_of_group(self, name: str, *, limit: int = 200) -> "Graph":
        return self._ask.graph_of_group(name, limit)

    def taken_along(self, jobs: Iterable[Named], *, limit: int = 10_000) -> "Along":
        several = finding.several("taken_along", jobs)
        return self._ask.taken_along([finding.name_of(job) for job in several], limit)

    def output(self, id: Named, attempt: int | None = None) -> Output:
        return self._ask.output(finding.name_of(id), attempt)

    def written(self, id: Named, attempt: int | None = None) -> "outputs.Written":
        return self._ask.written(finding.name_of(id), attempt)

    def result(self, id: Named) -> Any:
        return self._ask.result(finding.name_of(id))

    def results(self, jobs: Sequence[Job]) -> dict[int, Any]:
        return self._ask.results([job.id for job in jobs]) if jobs else {}

    def usages(self, jobs: Sequence[Job]) -> dict[int, Usage]:
        return self._ask.usages([job.id for job in jobs]) if jobs else {}

    def progress(self, jobs: Sequence[Job]) -> dict[int, RunProgress]:
        return self._ask.progress([job.id for job in jobs]) if jobs else {}

    def running_progress(self) -> dict[int, RunProgress]:
        return self._ask.running_progress()

    def steps(self, id: Named) -> Steps:
        return self._ask.steps(finding.name_of(id))

    def sleeps(self, jobs: Sequence[Job]) -> dict[int, Sleep]:
        return self._ask.sleeps([job.id for job in jobs]) if jobs else {}

    def emit(self, name: str, value: Any = None, *, connection: Any = None) -> "Emission":
        from queuectl.awaiting import payload_of

        _check_connection(connection)
        return self._ask.emit(name, payload_of(value))

    def emit_text(self, name: str, payload: str) -> "Emission":
        return self._ask.emit(name, payload)

    def emitted(self, name: str | None = None, *, limit: int = 100) -> AllEmitted:
        return self._ask.emitted(name, limit)

    def emitted_like(self, prefix: str, *, came: bool | None = None, limit: int = 50) -> Texts:
        return self._ask.emitted_like(prefix, came, limit)

    def iterate_events(
        self,
        id: Named | None = None,
        *,
        action: str | None = None,
        which: EventFilter = ANY_EVENT,
        before: int | None = None,
        limit: int | None = None,
    ) -> Iterator[Any]:
        limit = listing.check_limit(limit)
        name = None if id is None else finding.name_of(id)
        if limit is not None and limit <= MOST:
            return iter(self._ask.events(name, action, which, before, limit))
        return _first(self._ask.all_events(name, action, which, before), limit)

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
        from queuectl.remote.following import RemoteFollower

        return RemoteFollower(self, job, sink, first=first, seen=seen, last=last, talk=talk)

    def follow(self, followers: "Followers", *, tick: "following.Tick" = lambda: None) -> None:
        from queuectl.remote.following import follow_jobs

        follow_jobs(self._client, followers, tick=tick)

    def follow_all(
        self,
        which: Filter,
        make: "following.Make",
        *,
        whole: bool = False,
        tick: "following.Tick" = lambda: None,
    ) -> None:
        from queuectl.remote.following import follow_all

        follow_all(self, self._client, which, make, whole=whole, tick=tick)

    def show_all(
        self, which: Filter, make: "following.Make", *, warn: "following.Talk" = lambda _: None
    ) -> None:
        for job in self.iterate(which, oldest=True):
            make(job, max(job.attempts, 1)).show(warn=warn)

    # -- reports --------------------------------------------------------------

    def explain(self, id: Named) -> "Reasons":
        return self._ask.explain(finding.name_of(id))

    def explain_some(self, which: Sequence[str] | Filter) -> "Reasons":
        if isinstance(which, Filter):
            return self._ask.explain_some(None, _sent(which))
        return self._ask.explain_some([*which], None)

    def is_stuck(self, which: Sequence[str] | Filter) -> bool:
        if isinstance(which, Filter):
            return self._ask.are_in_vain(None, _sent(which))
        return self._ask.are_in_vain([*which], None)

    def explain_open(self, queues: Collection[str] = ()) -> "Reasons":
        return self._ask.explain_open([*queues])

    def hindrances(self, queues: Collection[str]) -> "Reasons":
        return self._ask.hindrances([*queues])

    def hindrances_of_each(self, queues: Sequence[str]) -> "dict[str, Reasons]":
        return self._ask.hindrances_of_each([*queues])

    def status(self) -> "Status":
        return replace(self._ask.status(), url=self.url)

    def stats(
        self,
        *,
        since: "int | datetime | None" = None,
        queue: str | None = None,
        tag: Names | None = None,
    ) -> "Stats":
        begin = None if since is None else milliseconds(since)
        return self._ask.stats(begin, queue, [*listing.narrowed(None, tag=tag).tags])

    def several_series(
        self, choices: Sequence[Sequence[str]], *, since: "int | datetime", span: int
    ) -> "AllSeries":
        return self._ask.series([[*one] for one in choices], milliseconds(since), span)

    # -- waiting --------------------------------------------------------------

    def changed(self) -> bool:
        """Tell nothing: who waits here hears of changes in another way."""
        return False

    def wait_until(
        self,
        remaining: Callable[[], int],
        *,
        timeout: float | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        """Wait until `remaining()` is 0. A server that goes away meanwhile is waited for."""
        from queuectl.remote.news import News

        with self._client.patient(timeout), News(self._client) as news:
            waiting.wait_until(remaining, news.changed, timeout=timeout, tick=tick)

    # -- changing -------------------------------------------------------------

    def force_finish(self, id: Named, *, result: Any = None) -> Job:
        from queuectl.changes import finishing

        change = finishing(None if result is None else told.result_of(result))
        return self.change_all([self.get(id)], change)[0]

    def cancel_all(self, jobs: Iterable[Named], *, reason: str | None = None) -> Jobs:
        from queuectl.changes import cancelling

        return self._change_all("cancel_all", jobs, cancelling(reason))

    def retry_all(
        self,
        jobs: Iterable[Named],
        *,
        changed: Keywords | None = None,
        from_step: str | None = None,
    ) -> Jobs:
        from queuectl import changes, editing

        change = editing.retrying(changed) if changed else changes.RETRY
        if from_step is not None:
            change = changes.retrying_from(from_step, change)
        return self._change_all("retry_all", jobs, change)

    def retry_dead(self, id: Named) -> Job:
        from queuectl.changes import RETRY_DEAD

        return self._change_all("retry_dead", [id], RETRY_DEAD)[0]

    def remove_all(self, jobs: Iterable[Named]) -> Jobs:
        from queuectl.changes import REMOVE

        return self._change_all("remove_all", jobs, REMOVE)

    def edit_all(self, jobs: Iterable[Named], /, **fields: Unpack[Keywords]) -> Jobs:
        from queuectl.editing import editing

        return self._change_all("edit_all", jobs, editing(fields))

    def hold_all(self, jobs: Iterable[Named]) -> Jobs:
        from queuectl.editing import HOLD

        return self._change_all("hold_all", jobs, HOLD)

    def release_all(self, jobs: Iterable[Named]) -> Jobs:
        from queuectl.editing import RELEASE

        return self._change_all("release_all", jobs, RELEASE)

    def top_all(self, jobs: Iterable[Named]) -> Jobs:
        from queuectl.editing import TOP

        return self._change_all("top_all", jobs, TOP)

    def move_all(self, jobs: Iterable[Named], to: str) -> Jobs:
        from queuectl.editing import moving

        return self._change_all("move_all", jobs, moving(to))

    def change_all(self, jobs: Iterable[Named], change: "changes.Change") -> Jobs:
        return self._change_all("change_all", jobs, change)

    def _change_all(self, call: str, jobs: Iterable[Named], change: "changes.Change") -> Jobs:
        names = [finding.name_of(job) for job in finding.several(call, jobs)]
        return self._ask.change_all(names, _words(change))

    def swap(self, one: Named, other: Named) -> tuple[Job, Job]:
        return self._ask.swap(finding.name_of(one), finding.name_of(other))

    def pause_jobs(self, jobs: Iterable[Named]) -> dict[str, bool]:
        several = finding.several("pause_jobs", jobs)
        return self._ask.pause_jobs([finding.name_of(job) for job in several])

    def resume_jobs(self, jobs: Iterable[Named]) -> dict[str, bool]:
        several = finding.several("resume_jobs", jobs)
        return self._ask.resume_jobs([finding.name_of(job) for job in several])

    def pauses(self) -> dict[int, Pause]:
        return self._ask.pauses()

    def change_named(
        self,
        ids: Iterable[Named],
        change: "changes.Change",
        *,
        dry_run: bool = False,
        told: Callable[[Any], None] = lambda _: None,
    ) -> None:
        names = [finding.name_of(id) for id in finding.several("change_named", ids)]
        for page in self._ask.change_named(names, _words(change), dry_run):
            for one in page:
                told(_told(one))

    def change_matching(
        self,
        which: Filter,
        change: "changes.Change",
        *,
        dry_run: bool = False,
        told: Callable[[Any], None] = lambda _: None,
    ) -> int:
        total = 0
        for page in self._ask.change_matching(_sent(which), _words(change), dry_run):
            total += len(page)
            told([_told(one) for one in page])
        return total

    def last_action(self, *, since: int | None = None) -> str:
        return self._ask.last_action(since)

    def undo(
        self,
        action: str | None = None,
        *,
        dry_run: bool = False,
        may_change_work: bool = True,
        told: Callable[[Any], None] = lambda _: None,
    ) -> "undoing.Undone":
        from queuectl.undoing import Undone

        which = self.last_action() if action is None else action
        done = refused = 0
        for page in self._ask.undo(which, may_change_work, dry_run):
            refusals = sum(one.error is not None for one in page)
            refused += refusals
            done += len(page) - refusals
            told([_told(one) for one in page])
        return Undone(action=which, jobs=done, refused=refused)

    # -- settings -------------------------------------------------------------

    def explain_settings(self) -> "tuple[Settings, dict[str, str]]":
        return self.place.settings(self._ask.config())

    def set_setting(self, name: str, value: object) -> tuple[str, str]:
        if hasattr(value, "total_seconds"):
            value = value.total_seconds()
        if not isinstance(value, str | int | float):
            raise UsageError(f"A setting is text or a number, not {type(value).__name__}.")
        return self._ask.set_setting(name, value)

    def unset_setting(self, name: str) -> str:
        return self._ask.unset_setting(name)

    # -- queues ---------------------------------------------------------------

    def pause(self, queue: str) -> bool:
        return self._ask.pause(queue)

    def resume(self, queue: str) -> bool:
        return self._ask.resume(queue)

    def rename_queue(self, old: str, new: str) -> QueueUse:
        return self._ask.rename_queue(old, new)

    def remove_queue(self, name: str) -> None:
        self._ask.remove_queue(name)

    def queues(self) -> Queues:
        return self._ask.queues()

    def unused(self, names: Iterable[str]) -> dict[str, str | None]:
        return self._ask.unused([*names])

    def unknown_tags(self, tags: Iterable[str]) -> dict[str, str | None]:
        known = [*tags]
        return self._ask.unknown_tags(known) if known else {}

    # -- nodes ----------------------------------------------------------------

    def living_nodes(self) -> Nodes:
        return self._ask.living_nodes()

    def registered_nodes(self) -> Nodes:
        return self._ask.registered_nodes()

    def held(self, node: str) -> Jobs:
        return self._ask.held(node)

    def nodes(self) -> Dicts:
        return self._ask.nodes()

    def is_alive(self, node: Node) -> bool:
        return any(living.id == node.id for living in self.living_nodes())

    def is_left_behind(self, job: Job) -> bool:
        return job.state == State.PROCESSING and self._ask.is_left_behind(job.id)

    def stop_nodes(self, nodes: Sequence[str] = (), *, force: bool = False) -> Texts:
        return self._ask.stop_nodes([*nodes], force)

    def followers(self, *, within: float = FOLLOWED_WITHIN) -> tuple[Nodes, Nodes]:
        return self._ask.followers(within)

    # -- maintenance ----------------------------------------------------------

    def prune(
        self,
        states: Sequence[State],
        older_than: "str | float | timedelta",
        *,
        dry_run: bool = False,
        progress: Callable[[State, int], None] | None = None,
    ) -> dict[State, int]:
        age = read_duration("older_than", older_than)
        gone = self._ask.prune([*states], age, dry_run)
        if progress is not None:
            for state, count in gone.items():
                progress(state, count)
        return gone

    def info(self) -> Mapping[str, Any]:
        return self._ask.info()


class _Lines:
    """Requests that are sent as lines, and counted how often."""

    def __init__(self, asked: Sequence[Mapping[str, Any]]) -> None:
        self._asked = asked
        self.sent = 0

    def __iter__(self) -> Iterator[Any]:
        self.sent += 1
        return iter(self._asked)


def _settled(batch: Batch, ours: Collection[str]) -> Batch:
    """Return what became of requests that were sent twice: ids that we made were taken by us."""
    return replace(
        batch,
        ids=(*batch.ids, *(id for id in batch.duplicates if id in ours)),
        duplicates=tuple(id for id in batch.duplicates if id not in ours),
    )


def _check_connection(connection: Any) -> None:
    if connection is not None:
        raise UsageError("A connection of your own is one to the database, not to a server before.")


def _parts(items: Iterable[Values], size: int) -> Iterator[list[Values]]:
    left = iter(items)
    while part := [*islice(left, size)]:
        yield part


def _sent(which: Filter) -> Filter:
    """Return a filter whose times are numbers."""
    times: dict[str, Any] = {
        name: milliseconds(at)
        for name in ("since", "until", "finished_since", "finished_before")
        if (at := getattr(which, name)) is not None
    }
    return replace(which, **times)


def _words(change: "changes.Change") -> Asked:
    """Return a change in words that can be sent."""
    asked = change.asked
    return asked if asked.given is None else replace(asked, given=plain_fields(asked.given))


def _first(items: Iterator[Any], limit: int | None) -> Iterator[Any]:
    yield from islice(items, limit)


def _told(result: Result) -> Changed | Refused:
    if result.error is not None:
        return Refused(name=result.name or "", job=result.before, error=result.error)
    assert result.before is not None
    return Changed(before=result.before, after=result.after)
