"""What a `Queue` elsewhere asks: the command line, and programs in Python, with `--db https://...`.

It asks method by method, so that it can show and return the same as where the database is. Names
and types are in `remote.calls`; here is what answers, and who may ask. For programs in other
languages, the other routes are made.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

from queuectl.access import Grant, Right
from queuectl.awaiting import Emission
from queuectl.changes import Asked, Changed, Refused
from queuectl.delivery import Answer
from queuectl.editing import change_of
from queuectl.enqueueing import BATCH
from queuectl.errors import DuplicateError, NotFoundError, QueuectlError, UsageError, shown
from queuectl.explain import Reason
from queuectl.facts import (
    Batch,
    Count,
    Emitted,
    Event,
    Node,
    Pause,
    QueueInfo,
    QueueUse,
    RunProgress,
    Sleep,
    Step,
    batch_of,
)
from queuectl.facts import Group as JobGroup
from queuectl.filter import ANY_EVENT, EventFilter, Filter
from queuectl.job import Attempt, Job, Output, State, Usage
from queuectl.limits import Limits
from queuectl.lineage import Along, Graph, Relative, Roots
from queuectl.outputs import Written
from queuectl.queue_limits import KeyUse
from queuectl.relatives import MOST_ALONG
from queuectl.remote.calls import NAMES, Calls, Result, Shape, shape_of
from queuectl.report import Part, Stats, Status
from queuectl.schedule import POLICY, Schedule
from queuectl.settings import Settings
from queuectl.telling import check_json, check_result
from queuectl.values import replace
from queuectl.web.api import webhooks
from queuectl.web.api.bulk import pages_told
from queuectl.web.api.jobs import MOST_NODES, asked_of, changes_of, guarded
from queuectl.web.api.maintenance import may_set
from queuectl.web.api.once import id_of
from queuectl.web.api.queues import checked_limits
from queuectl.web.api.schedules import check_made, checked_job
from queuectl.web.api.tokens import grantable
from queuectl.web.call import Call, ForbiddenError, Lines
from queuectl.web.route import JSON, LINES, LONGEST_JOB, Group, Param, Route, Schema, Scope
from queuectl.webhook import Webhook
from queuectl.webhooks import Tested

MOST = 1_000
"""Items that come in one answer at most; more come as lines."""
group = Group(name="calls", about=__doc__ or "")

F = TypeVar("F", bound=Callable[..., Any])
_ALLOWED = "queuectl_allowed"


def _most(limit: int) -> int:
    """Return how many are told of those that are asked for."""
    return max(0, min(limit, MOST))


def allowed(
    needs: Right = Right.SEE, scope: Scope = Scope.QUEUE, *, slow: bool = False
) -> Callable[[F], F]:
    """Say who may make a call, and whether it waits for somebody else."""

    def mark(call: F) -> F:
        setattr(call, _ALLOWED, (needs, scope, slow))
        return call

    return mark


class Answers:
    """Answers the calls of somebody, as far as that one may know and do things."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._queue = call.queue

    # -- jobs -----------------------------------------------------------------------------

    @allowed()
    def now(self) -> int:
        return self._queue.now()

    @allowed()
    def get(self, id: str) -> Job:
        return self._found(id, self._queue.get)

    @allowed()
    def meant(self, id: str) -> Job:
        return self._found(id, self._queue.meant)

    def _found(self, id: str, find: Callable[[str], Job]) -> Job:
        """Return a job that who asks may know of; others aren't spoken of, nor like-named ones."""
        if self._call.grant.queues:
            return self._call.job(id)
        return find(id)

    @allowed()
    def find(self, id: str) -> Job | None:
        return self._mine(self._queue.find(id))

    def _mine(self, job: Job | None) -> Job | None:
        return None if job is None or not self._call.grant.is_for(job.queue) else job

    @allowed()
    def jobs(
        self, which: Filter, limit: int, after: str | None, oldest: bool, sort: str | None
    ) -> list[Job]:
        behind = None if after is None else self.get(after)
        return self._queue.list(
            self._call.within(which),
            limit=_most(limit),
            after=behind,
            oldest=oldest,
            sort=sort,
        )

    @allowed()
    def all_jobs(self, which: Filter, sort: str | None) -> Iterator[Job]:
        return self._queue.iterate(self._call.within(which), sort=sort)

    @allowed()
    def count(self, which: Filter) -> int:
        return self._queue.count(self._call.within(which))

    @allowed()
    def counted(self, which: Filter) -> int | None:
        return self._queue.counted(self._call.within(which))

    @allowed()
    def counts(self) -> list[Count]:
        return [one for one in self._queue.counts() if self._call.grant.is_for(one.queue)]

    @allowed()
    def states(self, ids: list[str]) -> dict[str, State]:
        if not self._call.grant.queues:
            return self._queue.states(ids)
        return {job.id: job.state for job in self._some(ids)}

    def _some(self, ids: list[str]) -> list[Job]:
        """Return those of these jobs that are there, and may be known of."""
        return [job for job in map(self.find, ids) if job is not None]

    @allowed()
    def jobs_like(self, prefix: str, states: list[State], limit: int) -> list[Job]:
        found = self._queue.jobs_like(prefix, states, limit=_most(limit))
        return [job for job in found if self._call.grant.is_for(job.queue)]

    @allowed(scope=Scope.ALL)
    def tags_like(self, prefix: str, limit: int) -> list[str]:
        return self._queue.tags_like(prefix, limit=_most(limit))

    @allowed(scope=Scope.ALL)
    def types_like(self, prefix: str, limit: int) -> list[str]:
        return self._queue.types_like(prefix, limit=_most(limit))

    @allowed()
    def attempts(self, id: str) -> list[Attempt]:
        return self._queue.attempts(self.get(id))

    @allowed()
    def hooks(self, id: str) -> list[Job]:
        found = self._queue.hooks(self.get(id))
        return [job for job in found if self._call.grant.is_for(job.queue)]

    @allowed()
    def parents(self, id: str) -> list[Relative]:
        return self._queue.parents(self.get(id))

    @allowed()
    def children(self, id: str, limit: int) -> list[Relative]:
        return self._queue.children(self.get(id), limit=_most(limit))

    @allowed()
    def count_children(self, id: str, limit: int) -> int:
        return self._queue.count_children(self.get(id), limit=max(0, min(limit, MOST_ALONG)))

    @allowed()
    def graph_of(self, id: str, limit: int) -> Graph:
        return self._queue.graph_of(self.get(id), limit=max(1, min(limit, MOST_NODES)))

    @allowed()
    def graph_of_group(self, name: str, limit: int) -> Graph:
        return self._queue.graph_of_group(name, limit=max(1, min(limit, MOST_NODES)))

    @allowed()
    def taken_along(self, ids: list[str], limit: int) -> Along:
        jobs = self._some(ids[:MOST_ALONG])
        return self._queue.taken_along(jobs, limit=max(0, min(limit, MOST_ALONG)))

    @allowed()
    def output(self, id: str, attempt: int | None) -> Output:
        return self._queue.output(self.get(id), attempt)

    @allowed()
    def written(self, id: str, attempt: int | None) -> Written:
        return self._queue.written(self.get(id), attempt)

    @allowed()
    def result(self, id: str) -> Any:
        return self._queue.result(self.get(id))

    @allowed()
    def results(self, ids: list[str]) -> dict[int, Any]:
        return self._queue.results(self._some(ids))

    @allowed()
    def usages(self, ids: list[str]) -> dict[int, Usage]:
        return self._queue.usages(self._some(ids))

    @allowed()
    def progress(self, ids: list[str]) -> dict[int, RunProgress]:
        return self._queue.progress(self._some(ids))

    @allowed()
    def running_progress(self) -> dict[int, RunProgress]:
        return self._of_mine(self._queue.running_progress())

    @allowed()
    def pauses(self) -> dict[int, Pause]:
        return self._of_mine(self._queue.pauses())

    def _of_mine(self, found: dict[int, Any]) -> dict[int, Any]:
        """Return what is said of running jobs, as far as they may be known of."""
        if not found or not self._call.grant.queues:
            return found
        which = self._call.within(Filter(states=(State.PROCESSING,)))
        mine = {job.seq for job in self._queue.list(which, limit=None)}
        return {seq: one for seq, one in found.items() if seq in mine}

    @allowed()
    def sleeps(self, ids: list[str]) -> dict[int, Sleep]:
        return self._queue.sleeps(self._some(ids))

    @allowed()
    def steps(self, id: str) -> list[Step]:
        return self._queue.steps(self.get(id))

    @allowed()
    def is_left_behind(self, id: str) -> bool:
        return self._queue.is_left_behind(self.get(id))

    # -- groups ---------------------------------------------------------------------------

    @allowed(scope=Scope.ALL)
    def groups_named(self, names: list[str]) -> list[JobGroup]:
        return self._queue.groups.named(names[:MOST])

    @allowed(scope=Scope.ALL)
    def newest_groups(self, limit: int, before: str | None) -> list[JobGroup]:
        return self._queue.groups.newest(_most(limit), before=before)

    @allowed(scope=Scope.ALL)
    def groups_like(self, prefix: str, limit: int) -> list[str]:
        return self._queue.groups.like(prefix, limit=_most(limit))

    @allowed()
    def unknown_groups(self, names: list[str]) -> list[str]:
        # Groups have jobs of all queues, and so aren't told of to those who are let in for some.
        return [] if self._call.grant.queues else self._queue.groups.unknown(names[:MOST])

    @allowed(scope=Scope.ALL)
    def why_group(self, name: str) -> list[Reason]:
        return self._queue.groups.why(name)

    @allowed(scope=Scope.ALL)
    def running_groups(self) -> dict[str, int]:
        return self._queue.groups.running()

    @allowed(scope=Scope.ALL)
    def stuck_groups(self, names: list[str]) -> list[str]:
        return self._queue.groups.stuck(names[:MOST])

    @allowed(scope=Scope.ALL)
    def roots_of_group(self, name: str) -> Roots:
        return self._queue.groups.roots(name)

    @allowed(scope=Scope.ALL)
    def children_of_group(self, name: str, limit: int) -> list[Relative]:
        return self._queue.groups.children(name, limit=_most(limit))

    @allowed(scope=Scope.ALL)
    def along_with_group(self, name: str, limit: int) -> Along:
        return self._queue.groups.taken_along(name, limit=max(1, min(limit, MOST_ALONG)))

    # -- new jobs -------------------------------------------------------------------------

    @allowed(Right.SUBMIT)
    def enqueue(self, asked: dict[str, Any], key: str) -> Job:
        who = self._call.grant.root
        digest = sha256(f"{who}\0{key}".encode("utf-8", "surrogatepass"))
        together, fields = self._queue.together, asked_of(self._call, asked)
        if fields.get("id") is None:
            fields["id"] = id_of(f"calls {who}", key)
        prepared = together.prepare(fields, digest=digest.hexdigest())
        (stored,) = together.add([prepared])
        if isinstance(stored, Exception):
            raise stored
        if self._mine(stored.job) is None:
            raise DuplicateError("There is such a job in another queue; nothing was enqueued.")
        return stored.job

    @allowed(Right.SUBMIT)
    def enqueue_many(self, keep_going: bool) -> Batch:
        if not keep_going:
            return self._queue.enqueue_many(map(self._checked, self._call.lines(LONGEST_JOB)))
        stored = [
            self._queue.enqueue_many(map(self._checked, part), keep_going=True)
            for part in self._call.parts(BATCH)
        ]
        return batch_of(stored)

    def _checked(self, asked: Any) -> dict[str, Any]:
        if isinstance(asked, QueuectlError):
            raise asked
        if not isinstance(asked, dict):
            raise UsageError(f"A job is a JSON object, not {shown(asked)}.")
        return asked_of(self._call, asked)

    # -- changing jobs --------------------------------------------------------------------

    def _change(self, asked: Asked) -> Any:
        """Return a change, if who asks may make it."""
        if asked.given is not None:
            changes_of(self._call, dict(asked.given))
        if asked.do == "finish" and asked.result is not None:
            asked = replace(
                asked, result=check_result(asked.result.encode("utf-8", "surrogatepass"))
            )
        return guarded(self._call, change_of(asked))

    @allowed(Right.OPERATE)
    def change_all(self, ids: list[str], asked: Asked) -> list[Job]:
        change = self._change(asked)
        return self._queue.change_all([self.meant(id) for id in ids], change)

    @allowed(Right.OPERATE)
    def change_named(self, ids: list[str], asked: Asked, dry_run: bool) -> Iterator[list[Result]]:
        change = self._change(asked)
        told: list[Changed | Refused] = []
        known: list[str | Job] = []
        for id in ids:
            if not self._call.grant.queues:
                known.append(id)
                continue
            try:
                known.append(self.meant(id))
            except NotFoundError as error:
                told.append(Refused(name=id, job=None, error=error))
        self._queue.change_named(known, change, dry_run=dry_run, told=told.append)
        yield [*map(_result, told)]

    @allowed(Right.OPERATE)
    def change_matching(self, which: Filter, asked: Asked, dry_run: bool) -> Iterator[list[Result]]:
        change, which = self._change(asked), self._call.within(which)
        pages = pages_told(
            lambda tell: self._queue.change_matching(which, change, dry_run=dry_run, told=tell)
        )
        for page in pages:
            yield [*map(_result, page)]

    @allowed(Right.OPERATE)
    def last_action(self, since: int | None) -> str:
        # What was done before was done by another of that name.
        known = self._call.grant.created_at + 1
        return self._queue.last_action(since=max(since or 0, known))

    @allowed(Right.OPERATE)
    def undo(self, action: str, may_change_work: bool, dry_run: bool) -> Iterator[list[Result]]:
        may = may_change_work and self._call.may(Right.SUBMIT)
        pages = pages_told(
            lambda tell: self._queue.undo(action, dry_run=dry_run, may_change_work=may, told=tell)
        )
        for page in pages:
            yield [*map(_result, page)]

    @allowed(Right.OPERATE)
    def swap(self, one: str, other: str) -> tuple[Job, Job]:
        return self._queue.swap(self.get(one), self.get(other))

    @allowed(Right.OPERATE)
    def pause_jobs(self, ids: list[str]) -> dict[str, bool]:
        return self._queue.pause_jobs([self.meant(id) for id in ids])

    @allowed(Right.OPERATE)
    def resume_jobs(self, ids: list[str]) -> dict[str, bool]:
        return self._queue.resume_jobs([self.meant(id) for id in ids])

    @allowed(Right.OPERATE, Scope.ALL)
    def prune(self, states: list[State], older_than: int, dry_run: bool) -> dict[State, int]:
        return self._queue.prune(states, older_than / 1000, dry_run=dry_run)

    # -- reports --------------------------------------------------------------------------

    @allowed()
    def events(
        self,
        id: str | None,
        action: str | None,
        which: EventFilter | None,
        before: int | None,
        limit: int,
    ) -> list[Event]:
        return [*self._events(id, action, which, before, _most(limit))]

    @allowed()
    def all_events(
        self, id: str | None, action: str | None, which: EventFilter | None, before: int | None
    ) -> Iterator[Event]:
        return self._events(id, action, which, before, None)

    def _events(
        self,
        id: str | None,
        action: str | None,
        which: EventFilter | None,
        before: int | None,
        limit: int | None,
    ) -> Iterator[Event]:
        return self._queue.iterate_events(
            self._whose(id), action=action, which=which or ANY_EVENT, before=before, limit=limit
        )

    def _whose(self, id: str | None) -> str | Job | None:
        if not self._call.grant.queues:
            # A job may be gone, and its events still there.
            return id
        if id is None:
            raise ForbiddenError(f"{self._call.grant.name} is let in for some queues only.")
        return self.get(id)

    @allowed()
    def explain(self, id: str) -> list[Reason]:
        return self._queue.explain(self.get(id))

    @allowed()
    def explain_some(self, ids: list[str] | None, which: Filter | None) -> list[Reason]:
        if which is not None:
            return self._queue.explain_some(self._call.within(which))
        return self._queue.explain_some([job.id for job in self._some(ids or [])])

    @allowed()
    def are_in_vain(self, ids: list[str] | None, which: Filter | None) -> bool:
        if which is not None:
            return self._queue.is_stuck(self._call.within(which))
        return self._queue.is_stuck([job.id for job in self._some(ids or [])])

    @allowed()
    def explain_open(self, queues: list[str]) -> list[Reason]:
        return self._queue.explain_open(self._call.within(Filter(queues=tuple(queues))).queues)

    @allowed()
    def hindrances(self, queues: list[str]) -> list[Reason]:
        return self._queue.hindrances([self._call.need_queue(name) for name in queues])

    @allowed()
    def hindrances_of_each(self, queues: list[str]) -> dict[str, list[Reason]]:
        return self._queue.hindrances_of_each([self._call.need_queue(name) for name in queues])

    @allowed(scope=Scope.ALL)
    def status(self) -> Status:
        return self._queue.status()

    @allowed()
    def stats(self, since: int | None, queue: str | None, tags: list[str]) -> Stats:
        if queue is not None or self._call.grant.queues:
            queue = self._call.need_queue(queue or "")
        return self._queue.stats(since=since, queue=queue, tag=tags or None)

    @allowed(scope=Scope.ALL)
    def series(self, choices: list[list[str]], since: int, span: int) -> list[list[Part]]:
        return self._queue.several_series(choices, since=since, span=span)

    # -- queues and settings ----------------------------------------------------------------

    @allowed()
    def queues(self) -> list[QueueInfo]:
        return [one for one in self._queue.queues() if self._call.grant.is_for(one.name)]

    @allowed()
    def unused(self, names: list[str]) -> dict[str, str | None]:
        # What is like a name may be that of a queue which isn't spoken of.
        return {} if self._call.grant.queues else self._queue.unused(names)

    @allowed()
    def unknown_tags(self, tags: list[str]) -> dict[str, str | None]:
        return {} if self._call.grant.queues else self._queue.unknown_tags(tags)

    @allowed(Right.OPERATE)
    def pause(self, queue: str) -> bool:
        return self._queue.pause(self._call.need_queue(queue))

    @allowed(Right.OPERATE)
    def resume(self, queue: str) -> bool:
        return self._queue.resume(self._call.need_queue(queue))

    @allowed(Right.ADMIN, Scope.ALL)
    def rename_queue(self, old: str, new: str) -> QueueUse:
        return self._queue.rename_queue(old, new)

    @allowed(Right.ADMIN, Scope.ALL)
    def remove_queue(self, name: str) -> None:
        self._queue.remove_queue(name)

    @allowed()
    def limits(self) -> dict[str, Limits]:
        known = self._queue.limits.all()
        return {name: one for name, one in known.items() if self._call.grant.is_for(name)}

    @allowed()
    def keys(self, name: str) -> list[KeyUse]:
        return self._queue.limits.keys(self._call.need_queue(name))

    @allowed(Right.ADMIN, Scope.ALL)
    def set_limits(self, name: str, changes: dict[str, Any]) -> Limits:
        return self._queue.limits.set(name, **checked_limits(self._call, changes))

    @allowed(Right.ADMIN, Scope.ALL)
    def clear_limits(self, name: str) -> None:
        self._queue.limits.clear(name)

    @allowed()
    def config(self) -> dict[str, str]:
        settings, sources = self._queue.explain_settings()
        known = {name: settings.text(name) for name in sources}
        return known if self._call.may(Right.ADMIN) else _harmless(known)

    @allowed(Right.ADMIN, Scope.ALL)
    def set_setting(self, name: str, value: str | int | float | bool) -> tuple[str, str]:
        return self._queue.set_setting(may_set(self._call, name), value)

    @allowed(Right.ADMIN, Scope.ALL)
    def unset_setting(self, name: str) -> str:
        return self._queue.unset_setting(may_set(self._call, name))

    # -- nodes ------------------------------------------------------------------------------

    @allowed(scope=Scope.ALL)
    def living_nodes(self) -> list[Node]:
        return self._queue.living_nodes()

    @allowed(scope=Scope.ALL)
    def registered_nodes(self) -> list[Node]:
        return self._queue.registered_nodes()

    @allowed(scope=Scope.ALL)
    def nodes(self) -> list[dict[str, Any]]:
        return self._queue.nodes()

    @allowed(scope=Scope.ALL)
    def held(self, node: str) -> list[Job]:
        return self._queue.held(node)

    @allowed(scope=Scope.ALL)
    def followers(self, within: float) -> tuple[list[Node], list[Node]]:
        return self._queue.followers(within=min(within, LONGEST_LOOK))

    @allowed(Right.ADMIN, Scope.ALL)
    def stop_nodes(self, nodes: list[str], force: bool) -> list[str]:
        return self._queue.stop_nodes(nodes, force=force)

    @allowed(scope=Scope.ALL)
    def info(self) -> dict[str, Any]:
        return {**self._queue.info()}

    # -- schedules --------------------------------------------------------------------------

    @allowed(scope=Scope.ALL)
    def schedules(self) -> list[Schedule]:
        return self._queue.schedules.all()

    @allowed(scope=Scope.ALL)
    def next_ticks(self, name: str, count: int) -> list[int]:
        return self._queue.schedules.next(name, count)

    @allowed(scope=Scope.ALL)
    def ticks(self, name: str, limit: int) -> list[Any]:
        return self._queue.schedules.ticks(name, _most(limit))

    @allowed(Right.SUBMIT, Scope.ALL)
    def add_schedule(
        self, name: str, rule: str, job: dict[str, Any], policy: dict[str, Any], draft: bool
    ) -> Schedule:
        schedules = self._queue.schedules
        make = schedules.draft if draft else schedules.add
        return make(name, rule, checked_job(self._call, job), **_policy(policy))

    @allowed(Right.SUBMIT, Scope.ALL)
    def edit_schedule(self, name: str, changes: dict[str, Any]) -> Schedule:
        known = {word: changes[word] for word in changes if word in (*POLICY, "rule")}
        job = {word: changes[word] for word in changes if word not in known}
        what = job.pop("what", None)
        given = {} if what is None else {"what": checked_job(self._call, what)}
        given |= checked_job(self._call, job)
        check_made(self._call, name, given)
        return self._queue.schedules.edit(name, **known, **given)

    @allowed(Right.OPERATE, Scope.ALL)
    def pause_schedule(self, name: str) -> bool:
        return self._queue.schedules.pause(name)

    @allowed(Right.OPERATE, Scope.ALL)
    def resume_schedule(self, name: str) -> bool:
        return self._queue.schedules.resume(name)

    @allowed(Right.OPERATE, Scope.ALL)
    def remove_schedule(self, name: str) -> None:
        self._queue.schedules.remove(name)

    @allowed(Right.OPERATE, Scope.ALL)
    def run_schedule(self, name: str) -> Job:
        return self._queue.schedules.run(name)

    @allowed(Right.OPERATE, Scope.ALL)
    def backfill(self, name: str, begin: str | int, end: str | int, dry_run: bool) -> list[int]:
        return self._queue.schedules.backfill(name, begin, end, dry_run=dry_run)

    # -- webhooks ---------------------------------------------------------------------------

    @allowed()
    def webhooks(self) -> list[Webhook]:
        return webhooks.seen(self._call)

    @allowed()
    def deliveries(self, name: str, limit: int) -> list[Job]:
        one = webhooks.found(self._call, name)
        newest = self._queue.webhooks.deliveries(one.name, limit=_most(limit))
        # They are told of, and wait in a queue that who asks may have nothing to do with.
        return [replace(job, data=None) for job in newest]

    @allowed(Right.SUBMIT)
    def add_webhook(self, name: str, asked: dict[str, Any]) -> Webhook:
        return self._queue.webhooks.add_read(webhooks.asked(self._call, name, asked))

    @allowed(Right.OPERATE)
    def pause_webhook(self, name: str) -> bool:
        return self._queue.webhooks.pause(webhooks.found(self._call, name).name)

    @allowed(Right.OPERATE)
    def resume_webhook(self, name: str) -> bool:
        return self._queue.webhooks.resume(webhooks.found(self._call, name).name)

    @allowed(Right.OPERATE)
    def remove_webhook(self, name: str) -> int:
        return self._queue.webhooks.remove(webhooks.found(self._call, name).name)

    @allowed(Right.OPERATE, slow=True)
    def test_webhook(self, name: str) -> Tested:
        return self._queue.webhooks.test(webhooks.found(self._call, name).name)

    # -- what is emitted ----------------------------------------------------------------------

    @allowed(Right.OPERATE, Scope.ALL)
    def emit(self, name: str, payload: str) -> Emission:
        text = check_json(payload.encode("utf-8", "surrogatepass"), "The payload")
        return self._queue.emit_text(name, text)

    @allowed(scope=Scope.ALL)
    def emitted(self, name: str | None, limit: int) -> list[Emitted]:
        return self._queue.emitted(name, limit=_most(limit))

    @allowed(scope=Scope.ALL)
    def emitted_like(self, prefix: str, came: bool | None, limit: int) -> list[str]:
        return self._queue.emitted_like(prefix, came=came, limit=_most(limit))

    # -- who may come in ----------------------------------------------------------------------

    @allowed()
    def whoami(self) -> Grant:
        return self._call.grant

    @allowed(Right.ADMIN, Scope.ALL)
    def tokens(self) -> list[Grant]:
        return self._queue.access.tokens()

    @allowed(Right.ADMIN, Scope.ALL)
    def add_token(
        self, name: str, roles: list[str], queues: list[str], expires: str | int | float | None
    ) -> tuple[Grant, str]:
        roles_given = grantable(self._call, roles)
        return self._queue.access.add_token(
            name, roles_given, queues=queues, expires=expires, maker=self._call.grant
        )

    @allowed(Right.ADMIN, Scope.ALL)
    def remove_token(self, name: str) -> list[Grant]:
        return self._queue.access.remove_token(name)

    @allowed(Right.ADMIN, Scope.ALL)
    def sessions(self) -> list[Grant]:
        return self._queue.access.sessions()

    @allowed(Right.ADMIN, Scope.ALL)
    def remove_session(self, id: str) -> Grant:
        return self._queue.access.remove_session(id)

    @allowed(Right.ADMIN, Scope.ALL)
    def remove_sessions(self, of: str | None) -> list[Grant]:
        return self._queue.access.remove_sessions(of)


LONGEST_LOOK = 10.0
"""Seconds for which an answer waits for nodes to follow a setting."""


def _result(told: Changed | Refused) -> Result:
    if isinstance(told, Refused):
        return Result(before=told.job, name=told.name, error=told.error)
    return Result(before=told.before, after=told.after)


def _harmless(known: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that are numbers: they say nothing of hosts, folders or programs."""
    usual = Settings()
    return {name: text for name, text in known.items() if isinstance(getattr(usual, name), int)}


def _policy(given: Mapping[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in POLICY:
            raise UsageError(f"A schedule has no {shown(name)}.")
    return {**given}


# -- what may be seen -----------------------------------------------------------------------


def _seen(call: Call, value: Any) -> Any:
    """Leave out of a value what isn't for who asks: what jobs are given, and secrets."""
    match value:
        case Job():
            secrets = call.may(Right.SECRETS)
            env = dict.fromkeys(value.env, "") if secrets else {}
            data = value.data if secrets else None
            return replace(value, env=env, data=data, body_digest=None)
        case Schedule():
            return replace(value, request=_seen_request(call, value.request))
        case Grant():
            return replace(value, digest="")
        case Webhook():
            return webhooks.shown_to(call, value)
        case Tested(answer=Answer() as answer) if not call.may(Right.SECRETS):
            return replace(value, answer=replace(answer, text=""))
    return value


def _seen_request(call: Call, request: Mapping[str, Any]) -> dict[str, Any]:
    if call.may(Right.SECRETS):
        return {
            name: dict.fromkeys(it, "") if name == "env" and isinstance(it, dict) else it
            for name, it in request.items()
        }
    hidden = ("env", "data", "data_base64", "stdin", "stdin_base64")
    return {name: it for name, it in request.items() if name not in hidden}


# -- the routes -----------------------------------------------------------------------------


def _answer(name: str, shape: Shape, call: Call) -> Any:
    """Read what a call takes, make it, and write what it gives."""
    given = call.query if shape.takes_lines else call.body
    if not isinstance(given, dict):
        raise UsageError("The arguments of a call are a JSON object.")
    arguments = {word: form.read(given.get(word)) for word, form in shape.takes.items()}
    found = getattr(Answers(call), name)(**arguments)
    seen = partial(_seen, call)
    if shape.yields:
        return Lines(values=(shape.gives.write(one, seen) for one in found))
    return shape.gives.write(found, seen)


def _route(name: str) -> Route:
    shape = shape_of(name)
    needs, scope, slow = getattr(getattr(Answers, name), _ALLOWED)
    return Route(
        method="POST",
        path=f"/calls/{name}",
        group=group.name,
        name=f"call_{name}",
        about=getattr(Calls, name).__doc__ or "",
        needs=needs,
        scope=scope,
        slow=slow,
        run=partial(_answer, name, shape),
        takes={} if shape.takes_lines else _arguments(shape),
        takes_as=LINES if shape.takes_lines else JSON,
        longest=LONGEST_JOB,
        query=tuple(_params(shape)) if shape.takes_lines else (),
        answers=shape.gives.schema,
        answers_as=LINES if shape.yields else JSON,
        reads=shape.reads,
    )


def _arguments(shape: Shape) -> Schema:
    return {
        "type": "object",
        "properties": {word: form.schema for word, form in shape.takes.items()},
    }


def _params(shape: Shape) -> Iterator[Param]:
    for word, form in shape.takes.items():
        yield Param(name=word, schema=form.schema, about="")


group.routes.extend(map(_route, NAMES))
