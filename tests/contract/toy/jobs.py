"""The verbs about jobs: storing, finding and changing them."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import Any

from queuectl.action import current_action
from queuectl.bound_values import laid_over
from queuectl.dependencies import read_parent, standing_in
from queuectl.errors import (
    BadJobError,
    DuplicateError,
    NotFoundError,
    QueuectlError,
    StateError,
    UsageError,
)
from queuectl.facts import Batch, Count, Edge, Event
from queuectl.filter import Filter, Sort
from queuectl.hooks import called_for
from queuectl.host import whoami
from queuectl.job import (
    FINISHED,
    JOB_COLUMNS,
    WAITING,
    Job,
    NewJob,
    OneOfMany,
    Outcome,
    State,
    Transition,
    handler_of,
)
from queuectl.lifecycle import cancelled, in_line
from queuectl.limits import Limits, Shares
from queuectl.parameters import read
from queuectl.resources import class_of
from queuectl.store.contract import Changes, Check, Decide, Edit, EndRun, Jobs, Restore, Swapped
from queuectl.store.ids import free_ids, job_ids
from queuectl.store.rows import kept, restored
from queuectl.store.webhooks import GONE
from queuectl.uniqueness import OnDuplicate, taken_by, who_has
from queuectl.values import replace
from queuectl.webhook import delivery_of, hearers, wants_no_more
from queuectl.when import LATEST
from tests.contract.toy.edges import ToyEdges
from tests.contract.toy.memory import Memory, wall
from tests.contract.toy.selecting import fits, sortable


class ToyJobs(Jobs):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.edges = ToyEdges(memory, self.tell)

    def enqueue_one(self, job: NewJob | OneOfMany, *, now: int) -> Job:
        job = _whole(job) if isinstance(job, tuple) else job
        if _needs_care(job):
            (id,) = self.enqueue([job], now=now).ids
            return self._memory.line[id]
        if job.id in self._memory.line:
            raise DuplicateError(f"The id {job.id!r} is taken; choose another.")
        return self._add(job, now)

    def enqueue(
        self, jobs: Sequence[NewJob | OneOfMany], *, now: int, skip_duplicates: bool = False
    ) -> Batch:
        new = [job if isinstance(job, NewJob) else _whole(job) for job in jobs]
        if any(map(_needs_care, new)):
            return self._arrive(new, now, skip_duplicates=skip_duplicates)
        given = [job.id for job in new if job.id is not None]
        if not skip_duplicates and (taken := set(given) & set(self._memory.line)):
            raise DuplicateError(f"The id {taken.pop()!r} is taken; choose another.")
        if not skip_duplicates and len(set(given)) < len(given):
            twice = next(id for id in given if given.count(id) > 1)
            raise DuplicateError(
                f"The id {twice!r} is given twice in one request; nothing was enqueued."
            )
        stored, duplicates = [], []
        for job in new:
            if job.id in self._memory.line:
                duplicates.append(str(job.id))
            else:
                stored.append(self._add(job, now).id)
        return Batch(ids=tuple(stored), duplicates=tuple(duplicates))

    def _arrive(self, news: Sequence[NewJob], now: int, *, skip_duplicates: bool) -> Batch:
        """Store what keys and parents decide about: all of it or, if that raises, nothing."""
        memory = self._memory
        before = {name: copy(value) for name, value in vars(memory).items()}
        try:
            return _Arrival(self, memory, now).take(news, skip_duplicates=skip_duplicates)
        except QueuectlError:
            vars(memory).update(before)
            raise

    def _add(self, new: NewJob, now: int, *, placed: bool = True) -> Job:
        memory = self._memory
        memory.places += 1
        run_at = now + (new.delay or 0) if new.run_at is None else new.run_at
        expires_at = new.expires_at
        if expires_at is None and new.expire:
            expires_at = min(max(now, run_at) + new.expire, LATEST)
        asked = "queue priority command argv cwd tags timeout max_retries backoff"
        asked += " backoff_base retry_delay max_backoff unique_for traceparent tracestate"
        unset = "node worker started_at finished_at duration_ms exit_code error"
        unset += " reason cancel_reason forced"
        fields: dict[str, Any] = {name: getattr(new, name) for name in asked.split()}
        fields |= dict.fromkeys(unset.split())
        fields |= {"task": new.type, "data": new.data}
        fields["handler"] = class_of(new.needs, new.requires, handler_of(new.type))
        fields |= {"needs": new.needs, "requires": new.requires, "devices": {}}
        fields["unique_key"] = new.unique
        fields["unique_until"] = "start" if new.unique_until == "start" else None
        fields |= {"env": dict(new.env), "env_all": bool(new.env_all)}
        fields |= {"stdin_bytes": len(new.stdin or b"") or None, "expires_at": expires_at}
        fields |= {"shell": None if new.shell == "/bin/sh" else new.shell, "tick": new.tick}
        hooks = ("on_success", "on_failure", "on_dead")
        fields |= {name: getattr(new, name) or None for name in hooks} | {"hook": new.hook}
        fields["body_digest"] = new.body_digest
        fields["bounds"] = laid_over(new.bounds, {})
        fields |= dict.fromkeys(("attempts", "failures", "crashes"), 0)
        fields["parameters"] = dict(new.parameters or {})
        fields |= {"keys": new.keys, "vtime": self._place(new) if placed else 0, "parked": None}
        fields |= dict.fromkeys(("created_at", "updated_at"), now)
        fields |= {"after": new.after, "if_parent_fails": new.if_parent_fails}
        fields |= {"after_group": new.after_group, "group": new.group}
        fields |= {"open_parents": 0, "has_children": False}
        id = new.id or job_ids(1)[0]
        job = Job(**fields, id=id, seq=memory.places, state=State.PENDING, run_at=run_at)
        memory.line[job.id] = job
        memory.ready[job.id] = int(run_at <= now)
        memory.attempts[job.seq] = []
        memory.inputs[job.seq] = new.stdin or b""
        return job

    def _place(self, new: NewJob) -> int:
        return self._place_in(new.queue, new.keys, limited=new.is_limited)

    def _place_in(self, queue: str, keys: Sequence[str], *, limited: bool) -> int:
        memory = self._memory
        if not keys and not limited:
            return 0
        limits = memory.limits(queue)
        if limits is None:
            memory.set_limits(queue, limits := Limits())
        shares = Shares(limits, memory.vtimes.get(queue, 0), memory.shares.get(queue, {}))
        place = shares.place(keys)
        memory.shares[queue] = shares.keys
        return place

    def get(self, id: str) -> Job | None:
        return self._memory.line.get(id)

    def stdin(self, job: Job) -> bytes:
        return self._memory.inputs.get(job.seq, b"")

    def like(self, prefix: str, limit: int = 10, *, tags: bool = False) -> list[str]:
        line = self._memory.line
        words = {tag for job in line.values() for tag in job.tags} if tags else set(line)
        return sorted(word for word in words if word.startswith(prefix))[:limit]

    def hooks(self, job: Job) -> list[Job]:
        told = [each for each in self._memory.line.values() if each.hook_of == job.id]
        return [each for each in told if each.webhook is None]

    def call_hooks(self, over: Sequence[tuple[Job, Outcome | None]]) -> None:
        """Make the jobs that ends call for, and keep that."""
        found = [(job, new) for job, outcome in over for new in called_for(job, outcome)]
        line = self._memory.line
        ids = free_ids([str(new.id) for _, new in found], lambda ids: [i for i in ids if i in line])
        for id, (job, new) in zip(ids, found, strict=True):
            at = job.updated_at
            self._add(replace(new, id=id), at)
            event = Event(at=at, kind="hook", job=job.id, node=job.node, who=whoami(), detail=id)
            self._memory.keep(event)
        self.tell(over)

    def tell(self, over: Sequence[tuple[Job, Outcome | None]]) -> None:
        """Make the deliveries that ends call for; pause webhooks whose receivers are gone."""
        memory = self._memory
        for job, outcome in over:
            gone = memory.webhooks.get(wants_no_more(job, outcome) or "")
            if gone is not None and gone.paused_at is None:
                at, by = job.updated_at, "queuectl"
                after = replace(gone, paused_at=at, paused_by=by, updated_at=at)
                memory.webhooks[gone.name] = after
                detail = GONE.format(name=gone.name)
                memory.keep(
                    Event(at=at, kind="pause", job=None, node=job.node, who=by, detail=detail)
                )
        for job, outcome in over:
            for webhook in hearers(memory.webhooks.values(), job, outcome):
                made = self._add(delivery_of(webhook, job, outcome), job.updated_at)
                memory.line[made.id] = replace(made, handler="")

    def select(
        self,
        which: Filter,
        *,
        limit: int | None,
        after: int | None = None,
        last: int | None = None,
        oldest: bool = False,
    ) -> list[Job]:
        if len(which.text) > 1_000:
            raise UsageError("A text to search for can have 1,000 characters at most.")
        line = list(self._memory.line.values())
        if not oldest:
            line.reverse()
        if after is not None:
            line = [job for job in line if (job.seq > after if oldest else job.seq < after)]
        if last is not None:
            line = [job for job in line if (job.seq <= last if oldest else job.seq >= last)]
        return [job for job in line if fits(job, which)][:limit]

    def horizon(
        self, which: Filter, *, looks: int, after: int | None = None, oldest: bool = False
    ) -> Job | None:
        by_index = Filter(tags=which.tags[:1])
        if not which.tags:
            by_index = Filter(states=which.states, queues=which.queues)
            if which.groups:
                by_index = Filter(groups=which.groups)
        looked_at = self.select(by_index, limit=looks, after=after, oldest=oldest)
        return looked_at[-1] if len(looked_at) == looks else None

    def places(self, which: Filter, by: Sequence[Sort], *, limit: int | None) -> list[int]:
        found = self.select(which, limit=None)
        for sort in reversed(by):
            if sort.column not in JOB_COLUMNS:
                raise ValueError(f"jobs have no column {sort.column!r}")
            there = [job for job in found if getattr(job, sort.column) is not None]
            missing = [job for job in found if getattr(job, sort.column) is None]
            there.sort(key=lambda job: sortable(job, sort.column), reverse=sort.descending)
            found = there + missing
        return [job.seq for job in found][:limit]

    def at(self, places: Sequence[int]) -> list[Job]:
        found = {job.seq: job for job in self._memory.line.values()}
        return [found[seq] for seq in places if seq in found]

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        line = self._memory.line
        return {id: line[id].state for id in ids if id in line}

    def counts(self) -> list[Count]:
        jobs, timed = Counter[Any](), Counter[Any]()
        for job in self._memory.line.values():
            key = (job.queue, job.state, job.priority)
            jobs[key] += 1
            timed[key] += (job.timeout or 0) > 0
        return [
            Count(queue=key[0], state=key[1], priority=key[2], jobs=n, timed=timed[key])
            for key, n in jobs.items()
        ]

    def parents(self, jobs: Sequence[Job]) -> list[Edge]:
        ids = {job.id for job in jobs}
        found = self.edges.edges(lambda child, parent, tie: child in ids)
        return sorted(found, key=lambda edge: (edge.child, edge.parent))

    def children(self, jobs: Sequence[Job], *, limit: int) -> list[Edge]:
        ids = {job.id for job in jobs}
        found = self.edges.edges(lambda child, parent, tie: parent in ids and not tie.is_gone)
        return sorted(found, key=lambda edge: (edge.parent, edge.child))[:limit]

    @property
    def unsettled(self) -> bool:
        return False

    def settle(self) -> bool:
        return False

    def count_held(self, queues: Sequence[str]) -> dict[str, int]:
        held = [job.queue for job in self._memory.line.values() if job.is_held]
        return dict(Counter(queue for queue in held if queue in queues))

    def change(self, jobs: Sequence[Job], decide: Decide, *, now: int | None = None) -> Changes:
        """Change one after the other: that is all that such a store can do."""
        made: Changes = {}
        at = wall() if now is None else now
        first: list[tuple[Job, Edit]] = []
        moved: list[tuple[Job, str | None]] = []
        for job in jobs:
            found = self._memory.by_seq(job.seq)
            held = {} if found is None else {found.seq: found}
            for seq, (to, event, forget, result, keeps) in decide(held, at).items():
                if forget is not None:
                    self._forget(held[seq], forget)
                if isinstance(to, Edit) and to.first:
                    first.append((held[seq], to))
                else:
                    made[seq] = self._make(held[seq], to, at)
                if keeps and event is not None:
                    after = made.get(seq) if isinstance(to, Edit) else None
                    event = replace(event, was=kept(held[seq], after))
                self._memory.keep(event)
                if isinstance(to, Transition) and to.state == State.COMPLETED:
                    self._complete(made[seq], result)
                elif isinstance(to, Transition) and to.state in FINISHED:
                    self.tell([(self._memory.line[held[seq].id], None)])
                action = current_action()
                moved.append((held[seq], None if action is None else action.id))
        front = 0
        for job, edit in reversed(first):
            made[job.seq] = put = self._make(job, edit, at)
            assert put is not None
            front = min(front - 1, put.vtime)
            made[job.seq] = self._memory.line[job.id] = replace(put, vtime=front)
        for before, by in moved:
            after = made[before.seq]
            self.edges.changed(before, None if after is None else after.state, at, by)
        for before, _ in moved:
            if made[before.seq] is None:
                self.edges.forget(before)
        self.edges.groups.settle(at)
        return made

    def _complete(self, job: Job | None, result: str | None) -> None:
        """See to what follows when a job is completed by hand."""
        assert job is not None
        self._memory.results.pop(job.id, None)
        if result is not None:
            self._memory.results[job.id] = (job.attempts, result)
        self.call_hooks([(job, None)])

    def swap(self, first: Job, second: Job, check: Check, *, now: int | None = None) -> Swapped:
        memory, at = self._memory, wall() if now is None else now
        one, other = (self._still(job) for job in (first, second))
        for event in check(one, other, at):
            memory.keep(event)
        places = {one.seq: other.seq, other.seq: one.seq}
        for job, place in ((one, other), (other, one)):
            memory.line[job.id] = replace(
                job, seq=place.seq, priority=place.priority, vtime=place.vtime, updated_at=at
            )
        memory.line = {j.id: j for j in sorted(memory.line.values(), key=lambda job: job.seq)}
        memory.attempts |= {there: memory.attempts[seq] for seq, there in places.items()}
        memory.inputs |= {there: memory.inputs[seq] for seq, there in places.items()}
        moved = {key: out for key, out in memory.outputs.items() if key[0] in places}
        memory.outputs = {k: out for k, out in memory.outputs.items() if k not in moved}
        memory.outputs |= {(places[seq], n): out for (seq, n), out in moved.items()}
        for name, schedule in memory.schedules.items():
            last = places.get(schedule.last_seq or 0, schedule.last_seq)
            memory.schedules[name] = replace(schedule, last_seq=last)
        return memory.line[one.id], memory.line[other.id]

    def _forget(self, job: Job, name: str) -> None:
        steps = self._memory.steps.get(job.id, ())
        names = [step.name for step in steps]
        if name not in names:
            raise NotFoundError(f"Job {job.id} has no step {name!r} that is done.")
        self._memory.steps[job.id] = steps[: names.index(name)]
        self._memory.sleeps.pop(job.id, None)

    def _still(self, job: Job) -> Job:
        found = self._memory.line.get(job.id)
        if found is None or found.seq != job.seq:
            raise NotFoundError(f"Job {job.id} isn't here, or was removed meanwhile.")
        return found

    def _make(
        self, job: Job, to: Transition | Edit | EndRun | Restore | None, now: int
    ) -> Job | None:
        memory = self._memory
        if (job.state == State.PROCESSING) != isinstance(to, EndRun):
            raise StateError(f"Job {job.id} is {job.state}; that can't be done to it then.")
        if to is None:
            memory.remove(job)
            memory.over(job, None)
            return None
        if isinstance(to, EndRun):
            memory.line[job.id] = replace(
                job, cancel_reason=to.reason, forced=to.forced, updated_at=now
            )
        elif isinstance(to, Restore):
            self._restore(job, restored(job, to.was), now)
        elif isinstance(to, Edit):
            if to.retried is not None:
                job = self._apply(job, to.retried, now)
            memory.line[job.id] = self._edited(to, job, now)
        else:
            self._apply(job, to, now)
        return memory.line[job.id]

    def _restore(self, job: Job, again: Job, now: int) -> None:
        """Have a job be again what it was."""
        memory, sleep = self._memory, self._memory.sleeps.get(job.id)
        if again.attempts and again.state == State.PENDING and sleep is not None and sleep.woken:
            again = replace(again, run_at=min(again.run_at, now))
        if again.state in (State.PENDING, State.BLOCKED):
            again = replace(again, state=in_line(job))
        self._take_again(job, again, now)
        memory.ready.pop(job.id, None)
        if again.state in (State.PENDING, State.FAILED):
            waits = again.state == State.PENDING and again.parked is None
            memory.ready[job.id] = int(waits and again.run_at <= now)
        memory.line[job.id] = replace(again, updated_at=now)

    def _take_again(self, job: Job, to: Transition | Job, now: int) -> None:
        key = job.unique_key
        if key is None or job.state not in FINISHED or to.state in FINISHED:
            return
        holder = self._memory.holder(key, now)
        if holder is not None and holder.id != job.id:
            raise DuplicateError(f"{who_has(key, holder)}; {job.id} can't have it as well.")
        self._memory.names[key] = taken_by(job, job.id, now, attempts=job.attempts)

    def _apply(self, job: Job, to: Transition, now: int) -> Job:
        self._take_again(job, to, now)
        memory = self._memory
        moved = memory.moved(job, to, now)
        if moved.state == State.PENDING and (moved.expires_at or now) <= now:
            moved = replace(moved, expires_at=None)
        memory.line[job.id] = moved
        memory.over(job, moved.state)
        return moved

    def _edited(self, edit: Edit, was: Job, now: int) -> Job:
        memory, job = self._memory, edit.job
        if was.state not in WAITING:
            raise StateError(f"Job {was.id} is {was.state}; that can't be done to it then.")
        if was.state != State.BLOCKED:
            memory.ready[job.id] = int(
                was.state == State.PENDING and job.parked is None and job.run_at <= now
            )
        if (job.queue, job.keys) != (was.queue, was.keys):
            limited = memory.limits(job.queue) is not None
            job = replace(job, vtime=self._place_in(job.queue, job.keys, limited=limited))
        if edit.first:
            ready = [memory.line[id] for id, is_ready in memory.ready.items() if is_ready]
            same = [j for j in ready if (j.queue, j.priority) == (job.queue, job.priority)]
            job = replace(job, vtime=min([-now, *(j.vtime - 1 for j in same)]))
        same_state = {name: getattr(was, name) for name in _NOT_EDITED}
        job = replace(job, **same_state, updated_at=now)
        return job if job.after == was.after else self._with_less_to_wait_for(job, was, now)

    def _with_less_to_wait_for(self, job: Job, was: Job, now: int) -> Job:
        count = job.open_parents - self.edges.cut(job, was)
        if job.state == State.BLOCKED and not count:
            job = replace(job, state=State.PENDING)
            self._memory.ready[job.id] = int(job.parked is None and job.run_at <= now)
        return replace(job, open_parents=count)

    def prune(self, state: State, before: int, *, limit: int | None) -> int:
        old = sorted(self._old(state, before), key=lambda job: job.finished_at or 0)[:limit]
        for job in old if limit is not None else ():
            self._memory.remove(job)
            self.edges.forget(job)
        return len(old)

    def _old(self, state: State, before: int) -> list[Job]:
        of_state = [job for job in self._memory.line.values() if job.state == state]
        return [job for job in of_state if job.finished_at is not None and job.finished_at < before]


_NOT_EDITED = "state failures crashes reason finished_at".split()


class _Arrival:
    """Jobs on their way in, as unique keys decide about them."""

    def __init__(self, jobs: ToyJobs, memory: Memory, now: int) -> None:
        self._jobs = jobs
        self._memory = memory
        self._now = now
        self._new: dict[str, NewJob] = {}
        self._moved: dict[str, NewJob] = {}
        self._replaced: dict[str, str] = {}

    def take(self, news: Sequence[NewJob], *, skip_duplicates: bool) -> Batch:
        ids, duplicates, existing = [], [], []
        refused: dict[int, str] = {}
        instead: dict[str, str] = {}
        for at, new in enumerate(news):
            if instead and new.after:
                new = replace(new, after=standing_in(new.after, instead))
            key, how = new.unique, new.on_duplicate or OnDuplicate.RETURN
            holder = None if key is None else self._memory.holder(key, self._now)
            if key is not None and holder is not None and how != OnDuplicate.REPLACE:
                waits = holder.state in (State.PENDING, State.FAILED)
                if how == OnDuplicate.REJECT or (how == OnDuplicate.DEBOUNCE and not waits):
                    only = "" if how == OnDuplicate.REJECT else "; only a job that waits can be"
                    only += " debounced" if only else ""
                    told = f"{who_has(key, holder)}{only}"
                    if not skip_duplicates:
                        raise DuplicateError(f"{told}; nothing was enqueued.")
                    refused[at] = f"{told}."
                    continue
                if how == OnDuplicate.DEBOUNCE:
                    self._debounce(key, holder, new)
                instead[str(new.id)] = holder.id
                ids.append(holder.id)
                existing.append(holder.id)
                continue
            if new.id in self._memory.line:
                if not skip_duplicates:
                    raise DuplicateError(f"The id {new.id!r} is taken; nothing was enqueued.")
                duplicates.append(str(new.id))
                continue
            if key is not None and how == OnDuplicate.DEBOUNCE:
                new = replace(new, run_at=self._bounded(new, self._now))
            job = self._jobs._add(new, self._now, placed=False)
            self._new[job.id] = new
            if key is not None and holder is not None:
                reason = f"{job.id} took its place and its unique key {key!r}"
                self._replaced[holder.id] = reason
            if key is not None:
                self._memory.names[key] = taken_by(new, job.id, self._now)
            ids.append(job.id)
        self._settle()
        return Batch(
            ids=tuple(ids),
            duplicates=tuple(duplicates),
            existing=tuple(existing),
            dropped=tuple(id for id in self._replaced if id in self._new),
            refused=tuple(refused.values()),
            refused_at=tuple(refused),
        )

    def _bounded(self, new: NewJob, since: int) -> int:
        run_at = self._now + (new.delay or 0) if new.run_at is None else new.run_at
        return run_at if new.max_wait is None else min(run_at, since + new.max_wait)

    def _debounce(self, key: str, holder: Job, new: NewJob) -> None:
        since = self._memory.names[key].since
        new = replace(new, id=holder.id, run_at=self._bounded(new, since))
        had = taken_by(new, holder.id, self._now, attempts=holder.attempts, since=since)
        self._memory.names[key] = had
        if holder.id in self._new:
            self._become(holder, new)
            self._new[holder.id] = new
        else:
            self._moved[holder.id] = new

    def _become(self, job: Job, new: NewJob) -> None:
        """Have a job be what a later request asks for."""
        memory = self._memory
        places = memory.places
        other = self._jobs._add(replace(new, id="\0"), self._now, placed=False)
        del memory.line["\0"], memory.ready["\0"], memory.attempts[other.seq]
        memory.places = places
        memory.inputs[job.seq] = memory.inputs.pop(other.seq)
        kept = "id seq state attempts failures crashes node worker created_at started_at"
        kept += (
            " finished_at duration_ms exit_code error reason cancel_reason forced tick hook parked"
            " body_digest after after_group if_parent_fails open_parents has_children group"
        )
        values = {name: getattr(job, name) for name in kept.split()}
        if (other.queue, other.keys) == (job.queue, job.keys):
            values["vtime"] = job.vtime
        else:
            values["parked"] = None if job.parked else job.parked
            if job.id not in self._new:
                limited = memory.limits(other.queue) is not None
                place = self._jobs._place_in(other.queue, other.keys, limited=limited)
                values["vtime"] = place
        memory.line[job.id] = now = replace(other, **values, updated_at=self._now)
        waits = now.parked is not None or now.state != State.PENDING
        memory.ready[job.id] = int(not waits and now.run_at <= self._now)

    def _settle(self) -> None:
        for id in self._new:
            self._check_order(id)
        for id, new in self._new.items():
            self._jobs.edges.check(id, new)
        for id, new in self._new.items():
            for name, _ in map(read_parent, new.after_group):
                if name not in {other.group for other in self._new.values()}:
                    self._jobs.edges.groups.check_found(name, id)
        for id, new in self._new.items():
            self._jobs.edges.groups.check(new, id)
            self._jobs.edges.groups.join(new, self._now)
        self._jobs.edges.groups.settle(self._now)
        for id, new in self._new.items():
            job = self._memory.line[id]
            self._memory.line[id] = replace(job, vtime=self._jobs._place(new))
        linked = [id for id, new in self._new.items() if new.after or new.after_group]
        for id in linked:
            self._jobs.edges.tie(self._memory.line[id])
        for id in linked:
            self._jobs.edges.check_circles(id)
        for id in linked:
            self._jobs.edges.tell_of_what_is_over(id, self._now)
        for id, new in self._moved.items():
            job = self._memory.line[id]
            self._become(job, new)
            detail = f"unique key {job.unique_key!r}: a later request took the place of:"
            self._memory.keep(self._event("debounce", job, f"{detail} {job.title}"))
        for id, reason in self._replaced.items():
            job = self._memory.line[id]
            if job.state in FINISHED or job.cancel_reason is not None:
                continue
            runs = job.state == State.PROCESSING
            to = EndRun(reason) if runs else cancelled(job, reason)
            self._jobs._make(job, to, self._now)
            self._memory.keep(self._event("cancel", job, reason))
            self._jobs.edges.changed(job, self._memory.line[id].state, self._now)
        self._jobs.edges.groups.settle(self._now)

    def _check_order(self, id: str) -> None:
        """Raise that a new job can't wait for itself, or one that comes later, if it is to."""
        order = list(self._new)
        for parent, _ in map(read_parent, self._new[id].after):
            if parent in order[order.index(id) :]:
                raise BadJobError(f"Job {id} waits for {parent}, which comes after it.")
        for name, _ in map(read_parent, self._new[id].after_group):
            if name == self._new[id].group:
                raise BadJobError(f"Job {id} can't wait for the group that it is in.")

    def _event(self, kind: str, job: Job, detail: str) -> Event:
        return Event(at=self._now, kind=kind, job=job.id, node=None, who=whoami(), detail=detail)


def _needs_care(job: NewJob) -> bool:
    return job.unique is not None or bool(job.after or job.after_group or job.group)


def _whole(like: OneOfMany) -> NewJob:
    id, command, argv, parameters, model = like
    own = None if parameters is None else read(parameters)
    return replace(model, id=id, command=command, argv=argv, parameters=own)
