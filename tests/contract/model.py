"""A toy store in plain Python: what the contract says, with lists and dicts, however slow.

It says what the real ones must answer. And it is as poor as a store may be: it changes one item
after the other, and has no tables that somebody else could use.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from string import ascii_lowercase, ascii_uppercase
from time import CLOCK_MONOTONIC, clock_gettime_ns, time_ns
from typing import Any, TypeVar

from queuectl.admission import (
    ALL_QUEUES,
    Candidate,
    Offer,
    Serving,
    admit,
    admit_limited,
    line_up,
)
from queuectl.errors import (
    DuplicateError,
    LeaseLostError,
    NotFoundError,
    StateError,
    StoreError,
    UsageError,
)
from queuectl.facts import (
    Batch,
    Count,
    Emitted,
    Event,
    Node,
    Pause,
    QueueInfo,
    QueueUse,
    Rollup,
    RunProgress,
    Sleep,
    Step,
    Stop,
)
from queuectl.filter import Filter, Sort
from queuectl.hooks import called_for
from queuectl.host import whoami
from queuectl.job import (
    ANY_HANDLER,
    FINISHED,
    JOB_COLUMNS,
    Attempt,
    Job,
    NewJob,
    OneOfMany,
    Outcome,
    Output,
    State,
    Transition,
    handler_of,
)
from queuectl.lifecycle import cancelled, expired
from queuectl.limits import Gate, Limits, Meters, Shares, refunded
from queuectl.schedule import Schedule, after_end, mark
from queuectl.sleeping import is_over, wakes
from queuectl.store.contract import (
    LONGEST_PIECE,
    Changes,
    Check,
    Decide,
    DecidePauses,
    Edit,
    Ended,
    EndRun,
    History,
    Jobs,
    LiveOutput,
    Look,
    Nodes,
    Outlook,
    Over,
    Piece,
    Reports,
    RunId,
    Runs,
    Schedules,
    SharedSettings,
    Shown,
    Sleeps,
    Store,
    Swapped,
    Tick,
    Ticked,
    Turned,
    Wish,
)
from queuectl.store.folder import Folder
from queuectl.store.histogram import bucket_of
from queuectl.store.ids import free_ids, job_ids
from queuectl.store.sqlite.driver import HostClock
from queuectl.uniqueness import Holding, OnDuplicate, taken_by, who_has
from queuectl.when import LATEST, milliseconds
from tests.contract.tools import DAY, HOUR, MINUTE

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
RollupKey = tuple[int, str, str, str, int]
Cell = tuple[int, int, int, int]
T = TypeVar("T")


class Memory:
    """Everything a queue holds. Nothing in it is ever changed in place."""

    def __init__(self) -> None:
        self.places = 0
        self.line: dict[str, Job] = {}
        """Jobs, in the order of the line."""
        self.ready: dict[str, int] = {}
        """Waiting jobs: 1 if they may be claimed, 0 if they have yet to become due."""
        self.attempts: dict[int, list[Attempt]] = {}
        self.outputs: dict[tuple[int, int], Output] = {}
        self.inputs: dict[int, bytes] = {}
        self.cells: dict[RollupKey, Cell] = {}
        self.events: list[Event] = []
        self.config: dict[str, str] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.nodes: dict[str, Node] = {}
        self.watches: dict[tuple[int, int], int] = {}
        self.live: dict[tuple[int, int, str, int], bytes] = {}
        self.pauses: dict[int, Pause] = {}
        """By the places of their jobs: the newest of each, also of runs that are over."""
        self.results: dict[str, tuple[int, str]] = {}
        self.progress: dict[str, RunProgress] = {}
        self.steps: dict[str, tuple[Step, ...]] = {}
        self.sleeps: dict[str, Sleep] = {}
        """By the ids of their jobs, as what follows them wherever they go."""
        self.emitted: dict[str, Emitted] = {}
        self.schedules: dict[str, Schedule] = {}
        self.ticks: dict[tuple[str, int], Tick] = {}
        self.shares: dict[str, dict[str, int]] = {}
        self.vtimes: dict[str, int] = {}
        """How far the keys of a queue, and the queue, have come."""
        self.meters: dict[str, dict[str, Meters]] = {}
        self.names: dict[str, Holding] = {}
        """Who took unique keys last."""

    def holder(self, key: str, now: int) -> Job | None:
        """Return the job that has a unique key, if one does."""
        holding = self.names.get(key)
        job = None if holding is None else self.line.get(holding.job)
        return job if holding is not None and holding.holds(job, key, now) else None

    def limits(self, queue: str) -> Limits | None:
        """Return the limits of a queue, if it has any."""
        info = self.queues.get(queue)
        return None if info is None else info.limits

    def set_limits(self, queue: str, limits: Limits) -> None:
        """Set them."""
        info = self.queues.get(queue) or QueueInfo(name=queue, paused_at=None, paused_by=None)
        self.queues[queue] = replace(info, limits=limits)

    def by_seq(self, seq: int) -> Job | None:
        """Return the job at a place in the line."""
        return next((job for job in self.line.values() if job.seq == seq), None)

    def running(self) -> list[Job]:
        """Return the jobs in processing."""
        return [job for job in self.line.values() if job.state == State.PROCESSING]

    def is_same(self, job: Job | None, seen: Job, state: State) -> bool:
        """Tell whether a job is still as somebody has seen it, and in this state."""
        return (
            job is not None
            and (job.seq, job.attempts) == (seen.seq, seen.attempts)
            and job.state == state
        )

    def moved(self, job: Job, to: Transition, now: int) -> Job:
        """Apply a transition, readiness included."""
        state = to.state
        self.ready.pop(job.id, None)
        if state in (State.PENDING, State.FAILED):
            ready = to.run_at is None or to.run_at <= now
            self.ready[job.id] = int(ready)
            state = State.PENDING if ready else state
        return replace(
            job,
            state=state,
            run_at=job.run_at if to.run_at is None else to.run_at,
            failures=to.failures,
            crashes=to.crashes,
            reason=to.reason,
            parked=None,
            updated_at=now,
            finished_at=now if state in FINISHED else None,
        )

    def remove(self, job: Job) -> None:
        """Delete a job, with all that belongs to it."""
        del self.line[job.id]
        self.ready.pop(job.id, None)
        self.inputs.pop(job.seq, None)
        self.attempts.pop(job.seq, None)
        self.results.pop(job.id, None)
        self.progress.pop(job.id, None)
        self.steps.pop(job.id, None)
        self.sleeps.pop(job.id, None)

    def merge(self, key: RollupKey, cell: Cell) -> None:
        """Add durations to a rollup."""
        found = self.cells.get(key)
        if found is not None:
            count, total, least, most = found
            more, sum_, low, high = cell
            cell = (count + more, total + sum_, min(least, low), max(most, high))
        self.cells[key] = cell

    def keep(self, event: Event | None) -> None:
        """Keep an event, if there is one."""
        if event is not None:
            self.events.append(event)

    def over(self, job: Job, state: State | None) -> None:
        """Have the schedule go on that made a job which is over, or gone."""
        schedule = self.schedules.get(job.schedule or "")
        if schedule is None or not (state is None or state in FINISHED):
            return
        now = _wall()
        after = after_end(schedule, job.seq, state, now)
        self.schedules[schedule.name] = after
        if after.paused_at != schedule.paused_at:
            detail = f"schedule {schedule.name}: {after.failures} jobs in a row died"
            self.keep(
                Event(at=now, kind="pause", job=None, node=None, who="queuectl", detail=detail)
            )

    def died(self, job: Job, at: int, node: str | None) -> None:
        """Keep the event that a job is dead."""
        self.events.append(
            Event(at=at, kind="dead", job=job.id, node=node, who=whoami(), detail=job.reason)
        )


class ToyJobs(Jobs):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def enqueue_one(self, job: NewJob | OneOfMany, *, now: int) -> Job:
        job = _whole(job) if isinstance(job, tuple) else job
        if job.unique is not None:
            (id,) = self.enqueue([job], now=now).ids
            return self._memory.line[id]
        if job.id in self._memory.line:
            raise DuplicateError(f"The id {job.id!r} is taken; choose another.")
        return self._add(job, now)

    def enqueue(
        self, jobs: Sequence[NewJob | OneOfMany], *, now: int, skip_duplicates: bool = False
    ) -> Batch:
        new = [job if isinstance(job, NewJob) else _whole(job) for job in jobs]
        if any(job.unique is not None for job in new):
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
        """Store what unique keys decide about: all of it or, if that raises, nothing."""
        memory = self._memory
        before = deepcopy(vars(memory))
        try:
            return _Arrival(self, memory, now).take(news, skip_duplicates=skip_duplicates)
        except DuplicateError:
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
        asked += " backoff_base retry_delay max_backoff unique_for"
        unset = "node worker started_at finished_at duration_ms exit_code error"
        unset += " reason cancel_reason forced"
        fields: dict[str, Any] = {name: getattr(new, name) for name in asked.split()}
        fields |= dict.fromkeys(unset.split())
        fields |= {"task": new.type, "data": new.data, "handler": handler_of(new.type)}
        fields["unique_key"] = new.unique
        fields["unique_until"] = "start" if new.unique_until == "start" else None
        fields |= {"env": dict(new.env), "env_all": bool(new.env_all)}
        fields |= {"stdin_bytes": len(new.stdin or b"") or None, "expires_at": expires_at}
        fields |= {"shell": None if new.shell == "/bin/sh" else new.shell, "tick": new.tick}
        hooks = ("on_success", "on_failure", "on_dead")
        fields |= {name: getattr(new, name) or None for name in hooks} | {"hook": new.hook}
        fields |= dict.fromkeys(("attempts", "failures", "crashes"), 0)
        fields |= {"keys": new.keys, "vtime": self._place(new) if placed else 0, "parked": None}
        fields |= dict.fromkeys(("created_at", "updated_at"), now)
        id = new.id or job_ids(1)[0]
        job = Job(**fields, id=id, seq=memory.places, state=State.PENDING, after=(), run_at=run_at)
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
        return [each for each in self._memory.line.values() if each.hook_of == job.id]

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

    def select(
        self, which: Filter, *, limit: int | None, after: int | None = None, oldest: bool = False
    ) -> list[Job]:
        if len(which.text) > 1_000:
            raise UsageError("A text to search for can have 1,000 characters at most.")
        line = list(self._memory.line.values())
        if not oldest:
            line.reverse()
        if after is not None:
            line = [job for job in line if (job.seq > after if oldest else job.seq < after)]
        return [job for job in line if _fits(job, which)][:limit]

    def places(self, which: Filter, by: Sequence[Sort], *, limit: int | None) -> list[int]:
        found = self.select(which, limit=None)
        for sort in reversed(by):
            if sort.column not in JOB_COLUMNS:
                raise ValueError(f"jobs have no column {sort.column!r}")
            there = [job for job in found if getattr(job, sort.column) is not None]
            missing = [job for job in found if getattr(job, sort.column) is None]
            there.sort(key=lambda job: _sortable(job, sort.column), reverse=sort.descending)
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

    def count_held(self, queues: Sequence[str]) -> dict[str, int]:
        held = [job.queue for job in self._memory.line.values() if job.is_held]
        return dict(Counter(queue for queue in held if queue in queues))

    def change(self, jobs: Sequence[Job], decide: Decide, *, now: int | None = None) -> Changes:
        """Change one after the other: that is all that such a store can do."""
        made: Changes = {}
        at = _wall() if now is None else now
        first: list[tuple[Job, Edit]] = []
        for job in jobs:
            found = self._memory.by_seq(job.seq)
            held = {} if found is None else {found.seq: found}
            for seq, (to, event, forget, result) in decide(held, at).items():
                if forget is not None:
                    self._forget(held[seq], forget)
                if isinstance(to, Edit) and to.first:
                    first.append((held[seq], to))
                else:
                    made[seq] = self._make(held[seq], to, at)
                self._memory.keep(event)
                if isinstance(to, Transition) and to.state == State.COMPLETED:
                    self._complete(made[seq], result)
        front = 0
        for job, edit in reversed(first):
            made[job.seq] = put = self._make(job, edit, at)
            assert put is not None
            front = min(front - 1, put.vtime)
            made[job.seq] = self._memory.line[job.id] = replace(put, vtime=front)
        return made

    def _complete(self, job: Job | None, result: str | None) -> None:
        """See to what follows when a job is completed by hand."""
        assert job is not None
        self._memory.results.pop(job.id, None)
        if result is not None:
            self._memory.results[job.id] = (job.attempts, result)
        self.call_hooks([(job, None)])

    def swap(self, first: Job, second: Job, check: Check, *, now: int | None = None) -> Swapped:
        memory, at = self._memory, _wall() if now is None else now
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

    def _make(self, job: Job, to: Transition | Edit | EndRun | None, now: int) -> Job | None:
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
        elif isinstance(to, Edit):
            if to.retried is not None:
                job = self._apply(job, to.retried, now)
            memory.line[job.id] = self._edited(to, job, now)
        else:
            self._apply(job, to, now)
        return memory.line[job.id]

    def _take_again(self, job: Job, to: Transition, now: int) -> None:
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
        if was.state not in (State.PENDING, State.FAILED):
            raise StateError(f"Job {was.id} is {was.state}; that can't be done to it then.")
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
        return replace(job, **same_state, updated_at=now)

    def prune(self, state: State, before: int, *, limit: int | None) -> int:
        old = sorted(self._old(state, before), key=lambda job: job.finished_at or 0)[:limit]
        for job in old if limit is not None else ():
            self._memory.remove(job)
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
        ids, duplicates, existing, refused = [], [], [], []
        for new in news:
            key, how = new.unique, new.on_duplicate or OnDuplicate.RETURN
            holder = None if key is None else self._memory.holder(key, self._now)
            if key is not None and holder is not None and how != OnDuplicate.REPLACE:
                waits = holder.state in (State.PENDING, State.FAILED)
                if how == OnDuplicate.REJECT or (how == OnDuplicate.DEBOUNCE and not waits):
                    only = "" if how == OnDuplicate.REJECT else "; only a job that waits can be"
                    only += " debounced" if only else ""
                    told = f"{who_has(key, holder)}{only}; nothing was enqueued."
                    if not skip_duplicates:
                        raise DuplicateError(told)
                    refused.append(told)
                    continue
                if how == OnDuplicate.DEBOUNCE:
                    self._debounce(key, holder, new)
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
            refused=tuple(refused),
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
        for id, new in self._new.items():
            job = self._memory.line[id]
            self._memory.line[id] = replace(job, vtime=self._jobs._place(new))
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

    def _event(self, kind: str, job: Job, detail: str) -> Event:
        return Event(at=self._now, kind=kind, job=job.id, node=None, who=whoami(), detail=detail)


def _candidate(job: Job) -> Candidate:
    return Candidate(
        job.priority, job.seq, job.crashes, job.run_at, job.vtime, None, job.queue, job.keys
    )


def _in_line(job: Job) -> tuple[int, int, int]:
    return -job.priority, job.vtime, job.seq


def _whole(like: OneOfMany) -> NewJob:
    id, command, argv, model = like
    return replace(model, id=id, command=command, argv=argv)


def _sortable(job: Job, column: str) -> Any:
    value = getattr(job, column)
    return str(value) if isinstance(value, str) else value


def _fits(job: Job, which: Filter) -> bool:
    finished = job.finished_at
    return (
        (not which.states or job.state in which.states)
        and (not which.queues or job.queue in which.queues)
        and (not which.types or job.type in which.types)
        and set(which.tags) <= set(job.tags)
        and (which.since is None or job.created_at >= milliseconds(which.since))
        and (which.until is None or job.created_at < milliseconds(which.until))
        and (
            which.finished_since is None
            or (finished is not None and finished >= milliseconds(which.finished_since))
        )
        and (
            which.finished_before is None
            or (finished is not None and finished < milliseconds(which.finished_before))
        )
        and _says(job, which.text.translate(_LOWER))
    )


def _says(job: Job, text: str) -> bool:
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    argv = "" if job.argv is None else json.dumps(job.argv, ensure_ascii=False)
    plain = (job.id, job.command or "", job.error or "", job.reason or "")
    return quoted in argv.translate(_LOWER) or any(text in t.translate(_LOWER) for t in plain)


class ToyRuns(Runs):
    def __init__(self, memory: Memory, jobs: ToyJobs, nodes: "ToyNodes") -> None:
        self._memory = memory
        self._jobs = jobs
        self._nodes = nodes

    def turn(
        self, node: str, over: Over | None, offer: Offer | None, *, now: int | None = None
    ) -> Turned:
        at = _wall() if now is None else now
        turned = self._end(node, over, at) if over is not None else Turned()
        if offer is None or not offer.workers:
            return turned
        jobs, buried, limited = self._claim(node, offer, at)
        return turned._replace(jobs=jobs, buried=buried, limited=limited)

    def rescue(
        self,
        node: str,
        plan: Callable[[Sequence[Job], int], Over],
        *,
        beat: int | None = None,
        registered: bool = True,
    ) -> Turned | None:
        if registered:
            gone = self._nodes.forget(node, beat=beat)
            if beat is not None and not gone:
                return None
        elif node in self._memory.nodes:
            return None
        now = _wall()
        return self._end(node, plan(self.held(node), now), now)

    def _end(self, node: str, over: Over, now: int) -> Turned:
        stuck = [job for job in over.unstarted if not self._release(job, now)]

        def asked() -> Mapping[int, Job]:
            return {job.seq: job for job in self.held(node, to_cancel=True)}

        ends = [self._asleep(end) for end in over.judge(stuck, asked, now)]
        finished = [self._finish(end) for end in ends]
        lost = [end for end, is_done in zip(ends, finished, strict=True) if not is_done]
        done = [end for end, is_done in zip(ends, finished, strict=True) if is_done]
        states = list(dict.fromkeys(end.transition.state for end in done))
        done.sort(key=lambda end: states.index(end.transition.state))
        self._jobs.call_hooks([(self._memory.line[end.job.id], end.outcome) for end in done])
        if over.note is not None:
            kept = [(job, None) for job in over.unstarted if job not in stuck]
            told = [*kept, *((end.job, end) for end in ends if end not in lost)]
            events = [over.note(job, end, now) for job, end in told]
            self._memory.events += [event for event in events if event is not None]
        return Turned(ends=ends, lost=lost)

    def _claim(self, node: str, offer: Offer, now: int) -> tuple[list[Job], list[Job], bool]:
        memory = self._memory
        if not self._nodes.holds_lease(node):
            raise LeaseLostError("lost")
        late = sorted(self._expired(now), key=lambda job: job.seq)[:1_000]
        for job in late:
            memory.line[job.id] = memory.moved(job, expired(job), now)
        buried = [memory.line[job.id] for job in late]
        for job in buried:
            memory.died(job, now, node)
            memory.over(job, State.DEAD)
        self._jobs.call_hooks([(job, None) for job in buried])
        for job in self._due(now):
            memory.ready[job.id] = 1
            memory.line[job.id] = replace(job, state=State.PENDING)
        waiting = [job for id, job in memory.line.items() if memory.ready.get(id) == 1]
        waiting = [job for job in waiting if self._serves(offer.queues, job)]
        waiting = [job for job in waiting if job.expires_at is None or job.expires_at > now]
        lines = {
            queue: [_candidate(job) for job in sorted(waiting, key=_in_line) if job.queue == queue]
            for queue in {job.queue for job in waiting}
        }
        chosen, workers, limited = self._admit(list(line_up(lines, offer)), offer, node, now)
        line = {job.seq: job for job in waiting}
        pairs = zip(workers, chosen, strict=False)
        jobs = [self._begin(line[one.seq], node, worker, now) for worker, one in pairs]
        return jobs, buried, limited

    def _admit(
        self, line: list[Candidate], offer: Offer, node: str, now: int
    ) -> tuple[list[Candidate], Sequence[int], bool]:
        memory = self._memory
        limited = {job.queue: memory.limits(job.queue) for job in line}
        gates = {
            queue: Gate(
                limits,
                [
                    ((job.node, job.worker), job.keys)
                    for job in memory.running()
                    if job.queue == queue
                ],
                memory.meters.get(queue, {}),
                memory.vtimes.get(queue, 0),
                now,
            )
            for queue, limits in limited.items()
            if limits is not None
        }
        if not gates:
            return admit(line[: len(offer.workers)], offer, now), offer.workers, False
        admitted = admit_limited(line, offer, now, gates, node)
        for queue, gate in gates.items():
            memory.vtimes[queue] = gate.vtime
            memory.meters[queue] = memory.meters.get(queue, {}) | gate.charged
        return admitted.taken, admitted.workers, True

    def _serves(self, queues: Serving, job: Job) -> bool:
        info = self._memory.queues.get(job.queue)
        paused = info is not None and info.paused_at is not None
        return not paused and queues.takes(job.queue, job.handler)

    def _begin(self, job: Job, node: str, worker: int, now: int) -> Job:
        memory = self._memory
        del memory.ready[job.id]
        memory.line[job.id] = replace(
            job,
            state=State.PROCESSING,
            attempts=job.attempts + 1,
            node=node,
            worker=worker,
            started_at=now,
            updated_at=now,
            finished_at=None,
            duration_ms=None,
            exit_code=None,
            reason=None,
            cancel_reason=None,
        )
        return memory.line[job.id]

    def _expired(self, now: int) -> list[Job]:
        waiting = [self._memory.line[id] for id in self._memory.ready]
        return [job for job in waiting if job.expires_at is not None and job.expires_at <= now]

    def _due(self, now: int) -> list[Job]:
        memory = self._memory
        delayed = [memory.line[id] for id, ready in memory.ready.items() if not ready]
        return [job for job in delayed if job.run_at <= now and job.parked is None]

    def before(self, job: Job, limit: int) -> int:
        line, ready = self._memory.line, self._memory.ready
        same = [line[id] for id in ready if ready[id] and line[id].queue == job.queue]
        same = [other for other in same if other.handler == job.handler]
        return min(sum(_in_line(other) < _in_line(job) for other in same), limit)

    def lines(self, limit: int) -> dict[tuple[str, str], int]:
        line, ready = self._memory.line, self._memory.ready
        everything = Serving(handlers=(ANY_HANDLER,))
        found = [line[id] for id in ready if ready[id] and self._serves(everything, line[id])]
        counted = Counter((job.queue, job.handler) for job in found if job.handler)
        return {pair: min(jobs, limit) for pair, jobs in counted.items()}

    def opens_at(self, queue: str, key: str) -> int | None:
        return None

    def outlook(self, queues: Serving | None = None) -> Outlook:
        line, ready = self._memory.line, self._memory.ready
        due = [
            line[id].run_at
            for id, is_ready in ready.items()
            if not is_ready and line[id].parked is None
        ]
        expiring = [at for id in ready if (at := line[id].expires_at) is not None]
        return Outlook(
            any(
                self._serves(queues or ALL_QUEUES, line[id])
                for id, is_ready in ready.items()
                if is_ready
            ),
            min(due, default=None),
            min(expiring, default=None),
        )

    def _asleep(self, end: Ended) -> Ended:
        sleep = self._memory.sleeps.get(end.job.id)
        sleeps = sleep is not None and sleep.number == end.job.attempts
        return end.if_asleep(sleep) if sleep and sleeps and end.if_asleep else end

    def _finish(self, end: Ended) -> bool:
        memory, to = self._memory, end.transition
        job = memory.line.get(end.job.id)
        same = memory.is_same(job, end.job, State.PROCESSING)
        if not same or job is None or job.node != end.job.node:
            return False
        exit_code = getattr(end.outcome, "code", None)
        error = None if to.state == State.COMPLETED else end.error
        job = replace(
            memory.moved(job, to, end.settled_at),
            started_at=end.started_at,
            duration_ms=end.duration_ms,
            exit_code=exit_code,
            error=error,
            cancel_reason=None,
        )
        memory.line[job.id] = job
        run = Attempt(
            job=job.id,
            number=job.attempts,
            node=job.node or "",
            host=end.host,
            worker=job.worker or 0,
            started_at=end.started_at,
            finished_at=end.finished_at,
            duration_ms=end.duration_ms,
            outcome=end.outcome.name,
            exit_code=exit_code,
            signal=getattr(end.outcome, "signal", None),
            error=error,
            stdout_bytes=end.output.stdout_bytes,
            stderr_bytes=end.output.stderr_bytes,
        )
        memory.attempts[job.seq] = [*memory.attempts[job.seq], run]
        memory.outputs[job.seq, job.attempts] = end.output
        if end.result is not None and to.state == State.COMPLETED:
            memory.results[job.id] = (job.attempts, end.result)
        memory.keep(end.event)
        self._tally(end, to.state.value, end.duration_ms)
        self._tally(end, "wait", max(0, end.started_at - end.job.run_at))
        if job.state == State.DEAD:
            memory.died(job, end.settled_at, job.node)
        memory.over(job, job.state)
        return True

    def _tally(self, end: Ended, measure: str, ms: int) -> None:
        at = end.settled_at - end.settled_at % MINUTE
        key = (at, end.job.queue, end.job.node or "", measure, bucket_of(ms))
        self._memory.merge(key, (1, ms, ms, ms))

    def _release(self, seen: Job, now: int) -> bool:
        memory = self._memory
        job = memory.line.get(seen.id)
        same = memory.is_same(job, seen, State.PROCESSING)
        if not same or job is None or job.node != seen.node or job.cancel_reason is not None:
            return False
        memory.ready[job.id] = 1
        limits = memory.limits(job.queue) or Limits()
        meters = memory.meters.get(job.queue, {})
        back = {
            key: refunded(limits.key_rates if key else limits.rates, meters[key], 1)
            for key in ("", *job.keys)
            if key in meters
        }
        memory.meters[job.queue] = meters | back
        memory.line[job.id] = replace(
            job,
            state=State.PENDING,
            attempts=job.attempts - 1,
            node=None,
            worker=None,
            started_at=None,
            updated_at=now,
        )
        return True

    def held(self, node: str | None, *, to_cancel: bool = False) -> list[Job]:
        if node is None:
            return [job for job in self._memory.running() if job.node not in self._memory.nodes]
        mine = [job for job in self._memory.running() if job.node == node]
        return [job for job in mine if job.cancel_reason is not None] if to_cancel else mine

    def pauses(self) -> list[Pause]:
        return list(self._paused([job.seq for job in self._memory.running()]).values())

    def _paused(self, seqs: Sequence[int]) -> dict[int, Pause]:
        jobs = {job.seq: job for job in self._memory.running()}
        known = self._memory.pauses
        return {n: known[n] for n in sorted(seqs) if n in known and known[n].is_of(jobs[n])}

    def set_paused(
        self, jobs: Sequence[Job], decide: DecidePauses, *, now: int | None = None
    ) -> set[int]:
        memory = self._memory
        held = {job.seq: found for job in jobs if (found := memory.by_seq(job.seq)) is not None}
        running = [seq for seq, job in held.items() if job.state == State.PROCESSING]
        paused = self._paused(running)
        events = decide(held, paused, _wall() if now is None else now)
        for seq, event in events.items():
            memory.pauses.pop(seq, None)
            if seq not in paused:
                at = max(event.at, held[seq].started_at or 0)
                memory.pauses[seq] = Pause(seq=seq, number=held[seq].attempts, at=at, who=event.who)
            memory.keep(event)
        return set(events)


class ToyReports(Reports):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def results(self, jobs: Sequence[Job]) -> dict[int, str]:
        known = self._memory.results
        return {
            job.seq: known[job.id][1]
            for job in jobs
            if job.state == State.COMPLETED and known.get(job.id, (-1, ""))[0] == job.attempts
        }

    def set_progress(self, *progress: tuple[Job, RunProgress]) -> None:
        for job, told in progress:
            if self._job_of(RunId(job.id, told.number, job.node or "")) is not None:
                self._memory.progress[job.id] = told

    def progress(self, jobs: Sequence[Job]) -> dict[int, RunProgress]:
        known = self._memory.progress
        return {
            job.seq: replace(told, seq=job.seq)
            for job in jobs
            if (told := known.get(job.id)) is not None and told.number == job.attempts
        }

    def running(self, run: RunId) -> Job:
        job = self._job_of(run)
        if job is None:
            raise LeaseLostError(f"Run {run.attempt} of job {run.job} has lost its lease.")
        return job

    def set_data(
        self, run: RunId, make: Callable[[bytes], bytes], *, now: int | None = None
    ) -> bytes:
        job = self.running(run)
        if job.data is None:
            raise StateError(f"Job {run.job} is a command; only data jobs have data.")
        data, at = make(job.data), _wall() if now is None else now
        self._memory.line[job.id] = replace(job, data=data, updated_at=at)
        return data

    def begin_step(self, run: RunId, name: str) -> Step | None:
        step = self.step(run, name)
        sleep = self._memory.sleeps.get(run.job)
        if sleep is not None and sleep.number == run.attempt:
            raise StateError(f"Run {run.attempt} of job {run.job} {sleep}.")
        return self.come_by(run, name, step)

    def come_by(self, run: RunId, name: str, step: Step | None) -> Step | None:
        if step is None:
            return None
        if step.seen == run.attempt:
            raise DuplicateError(f"Step {name!r} of job {run.job} comes twice in one run.")
        steps = self._memory.steps[run.job]
        seen = replace(step, seen=run.attempt)
        self._memory.steps[run.job] = tuple(seen if s is step else s for s in steps)
        return step

    def keep_step(self, run: RunId, name: str, output: bytes, *, now: int | None = None) -> None:
        if self.step(run, name) is not None:
            raise DuplicateError(f"Step {name!r} of job {run.job} comes twice in one run.")
        at = _wall() if now is None else now
        step = Step(name=name, number=run.attempt, seen=run.attempt, output=output, at=at)
        self._memory.steps[run.job] = (*self._memory.steps.get(run.job, ()), step)

    def steps(self, job: Job) -> list[Step]:
        return list(self._memory.steps.get(job.id, ()))

    def step(self, run: RunId, name: str) -> Step | None:
        if self._job_of(run) is None:
            raise LeaseLostError(f"Run {run.attempt} of job {run.job} has lost its lease.")
        return next((s for s in self._memory.steps.get(run.job, ()) if s.name == name), None)

    def _job_of(self, run: RunId) -> Job | None:
        job = self._memory.line.get(run.job)
        same = job is not None and (job.attempts, job.node) == (run.attempt, run.node)
        return job if same and job is not None and job.state == State.PROCESSING else None


class ToySleeps(Sleeps):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._reports = ToyReports(memory)

    def begin(self, run: RunId, wish: Wish, *, now: int | None = None) -> Step | Sleep:
        memory, now = self._memory, _wall() if now is None else now
        came = None if wish.awaits is None else memory.emitted.get(wish.awaits)
        name, step, number = wish.step, self._reports.step(run, wish.step), 1
        while wish.numbered and step is not None and step.seen == run.attempt:
            number += 1
            name = f"{wish.step} #{number}"
            step = self._reports.step(run, name)
        was = memory.sleeps.get(run.job)
        if was is not None and was.step != name:
            if was.number == run.attempt:
                raise StateError(f"Run {run.attempt} of job {run.job} {was}.")
            was = None
        if step is not None:
            return self._reports.come_by(run, name, step) or step
        until, at = (wish.ends_at(now), now) if was is None else (was.until, was.at)
        if is_over(came, until, now):
            memory.sleeps.pop(run.job, None)
            self._reports.keep_step(run, name, came.payload.encode() if came else b"", now=now)
            return memory.steps[run.job][-1]
        seq = memory.line[run.job].seq
        sleep = Sleep(
            seq=seq, number=run.attempt, step=name, awaits=wish.awaits, until=until, at=at
        )
        memory.sleeps[run.job] = sleep
        return sleep

    def of(self, jobs: Sequence[Job]) -> dict[int, Sleep]:
        known = {job.seq: self._memory.sleeps.get(job.id) for job in jobs}
        found = {seq: replace(sleep, seq=seq) for seq, sleep in known.items() if sleep is not None}
        return {
            job.seq: found[job.seq]
            for job in jobs
            if job.seq in found and found[job.seq].is_of(job)
        }

    def emit(
        self, name: str, payload: str, *, who: str, now: int | None = None
    ) -> tuple[Emitted, int | None]:
        memory, now = self._memory, _wall() if now is None else now
        if (first := memory.emitted.get(name)) is not None:
            return first, None
        memory.emitted[name] = Emitted(name=name, payload=payload, at=now, who=who)
        count = 0
        for id, sleep in memory.sleeps.items():
            job = memory.line[id]
            if sleep.awaits != name:
                continue
            memory.sleeps[id] = replace(sleep, woken=True)
            open_ones = (State.PENDING, State.PROCESSING)
            count += sleep.number == job.attempts and job.state in open_ones
            if wakes(job, replace(sleep, seq=job.seq), now):
                memory.ready[id] = int(job.parked is None)
                memory.line[id] = replace(job, run_at=now, updated_at=now)
        return memory.emitted[name], count

    def emitted(self, name: str | None = None, *, limit: int = 1) -> list[Emitted]:
        known = self._memory.emitted
        if name is not None:
            return [known[name]] if name in known else []
        return sorted(known.values(), key=lambda one: (-one.at, one.name))[:limit]

    def names(self, prefix: str, limit: int) -> dict[str, bool]:
        awaited = {one.awaits for one in self._memory.sleeps.values() if one.awaits is not None}
        known = sorted(awaited | self._memory.emitted.keys())
        found = [name for name in known if name.startswith(prefix)]
        return {name: name in self._memory.emitted for name in found[:limit]}


class ToyHistory(History):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def attempts(self, job: Job) -> list[Attempt]:
        return self._memory.attempts.get(job.seq, [])

    def output(self, job: Job, number: int) -> Output | None:
        if job.seq not in self._memory.attempts:
            return None
        return self._memory.outputs.get((job.seq, number))

    def record(self, *events: Event) -> None:
        self._memory.events += events

    def events(
        self, job: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> list[Event]:
        numbered = [replace(event, seq=n) for n, event in enumerate(self._memory.events, 1)]
        fit = [event for event in numbered[::-1] if job is None or event.job == job]
        return [event for event in fit if before is None or event.seq < before][:limit]

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        sums = Memory()
        for (at, of, _, measure, bucket), cell in self._memory.cells.items():
            if at >= (since or 0) and queue in (None, of):
                sums.merge((0, "", "", measure, bucket), cell)
        return [
            Rollup(
                measure=key[3], bucket=key[4], count=n, total_ms=total, least_ms=low, most_ms=high
            )
            for key, (n, total, low, high) in sums.cells.items()
        ]


class ToyLiveOutput(LiveOutput):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def watch(self, job: Job, *, until: int, now: int, first: bool = False) -> None:
        run = (job.seq, job.attempts)
        if self._memory.watches.get(run, 0) <= now:
            self._drop(run)
        self._memory.watches[run] = until

    def _drop(self, run: tuple[int, int]) -> None:
        for key in [key for key in self._memory.live if key[:2] == run]:
            del self._memory.live[key]

    def watched(self, jobs: Sequence[Job], *, now: int) -> dict[int, int]:
        runs = {(job.seq, job.attempts) for job in jobs}
        found = self._memory.watches.items()
        return {run[0]: until for run, until in found if run in runs and until > now}

    def show(self, *shown: Shown) -> None:
        live = self._memory.live
        for job, stream, pieces, gap in shown:
            mine = (job.seq, job.attempts, stream)
            live.update({(*mine, piece.start): piece.data for piece in pieces})
            first, before = gap or (0, 0)
            for key in [key for key in live if key[:3] == mine and first <= key[3] < before]:
                del live[key]

    def pieces(self, job: Job, stream: str, *, after: int) -> list[Piece]:
        mine = (job.seq, job.attempts, stream)
        found = sorted((k[3], data) for k, data in self._memory.live.items() if k[:3] == mine)
        return [
            Piece(stream=stream, start=start, data=data)
            for start, data in found
            if start > after - LONGEST_PIECE and (start == after or start + len(data) > after)
        ][:8]

    def end(self, job: Job) -> None:
        self._memory.watches.pop((job.seq, job.attempts), None)
        self._drop((job.seq, job.attempts))


class ToyNodes(Nodes):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def register(self, node: Node) -> None:
        if node.id in self._memory.nodes:
            raise StoreError(f"There is a node {node.id} already.")
        lease = node.lease_until - _steady()
        self._memory.nodes[node.id] = replace(node, lease=lease)

    def holds_lease(self, id: str) -> bool:
        node = self._memory.nodes.get(id)
        return node is not None and node.lease_until > _steady()

    def renew(self, node: str, *, until: int, workers: int, version: str) -> bool:
        if not self.holds_lease(node):
            return False
        known = self._memory.nodes[node]
        self._memory.nodes[node] = replace(
            known,
            lease_until=until,
            beat=known.beat + 1,
            seen_at=_wall(),
            lease=until - _steady(),
            workers=workers,
            version=version,
        )
        return True

    def set_serving(self, node: str, queues: Serving) -> None:
        if node in self._memory.nodes:
            self._memory.nodes[node] = replace(self._memory.nodes[node], queues=queues)

    def forget(self, node: str, *, beat: int | None = None) -> bool:
        known = self._memory.nodes.get(node)
        if known is None or beat not in (None, known.beat):
            return False
        del self._memory.nodes[node]
        return True

    def all(self) -> list[Node]:
        now = _steady()
        found = [replace(n, lapsed=n.lease_until < now) for n in self._memory.nodes.values()]
        return sorted(found, key=lambda node: (node.started_at, node.id))

    def ask_stop(self, node: str, how: Stop, *, event: Event | None = None) -> bool:
        known = self._memory.nodes.get(node)
        if known is None:
            return False
        self._memory.keep(event)
        asked = known.stop if known.stop == Stop.RELEASE else how
        self._memory.nodes[node] = replace(known, stop=asked)
        return True


class ToySchedules(Schedules):
    def __init__(self, memory: Memory, jobs: ToyJobs) -> None:
        self._memory = memory
        self._jobs = jobs

    def all(self) -> list[Schedule]:
        return [self._memory.schedules[name] for name in sorted(self._memory.schedules)]

    def change(
        self,
        name: str,
        decide: Callable[[Schedule | None, int], Schedule | None],
        *,
        event: Event | None = None,
    ) -> Schedule | None:
        before = self._memory.schedules.get(name)
        after = decide(before, _wall())
        if after is None:
            self._memory.schedules.pop(name, None)
            for key in [key for key in self._memory.ticks if key[0] == name]:
                del self._memory.ticks[key]
        else:
            self._memory.schedules[name] = after
        self._memory.keep(None if after is before else event)
        return after

    def tick(self, look: Look, *, name: str | None = None, now: int | None = None) -> list[Job]:
        at = _wall() if now is None else now
        found = [one for one in self.all() if name in (None, one.name)]
        if name is None:
            found = [one for one in found if one.next_at is not None and one.next_at <= at]
        made: list[Job] = []
        for schedule in sorted(found, key=lambda one: one.next_at or 0)[:50]:
            newest = None
            if schedule.last_seq is not None:
                newest = self._memory.by_seq(schedule.last_seq)
            ticked = look(schedule, newest, at)
            if ticked is not None:
                made += self._make(ticked, newest, at, by_hand=name is not None)
        return made

    def _make(self, ticked: Ticked, newest: Job | None, now: int, *, by_hand: bool) -> list[Job]:
        after, made = ticked.schedule, []
        for planned, new in ticked.jobs:
            key = (after.name, planned)
            if key in self._memory.ticks:
                continue
            new = replace(new, tick=mark(*key))
            if new.unique is not None and new.on_duplicate in (None, OnDuplicate.RETURN):
                new = replace(new, on_duplicate=OnDuplicate.REJECT)
            try:
                job = self._jobs.enqueue_one(new, now=now)
            except DuplicateError as error:
                if by_hand:
                    raise
                detail = f"{after.name}: skipped: {error}"
                who = whoami()
                self._memory.keep(
                    Event(at=now, kind="schedule", job=None, node=None, who=who, detail=detail)
                )
                continue
            self._memory.ticks[key] = Tick(planned, job.seq, job.id, now)
            after = replace(after, last_tick=planned, last_job=job.id, last_seq=job.seq)
            made.append(job)
        self._memory.schedules[after.name] = after
        self._memory.events += ticked.events
        if ticked.cancel is not None and newest is not None:
            decision = ticked.cancel
            self._jobs.change([newest], lambda held, now: dict.fromkeys(held, decision), now=now)
        return made

    def ticks(self, name: str, limit: int) -> list[Tick]:
        mine = [tick for (of, _), tick in self._memory.ticks.items() if of == name]
        return sorted(mine, reverse=True)[:limit]

    def next_at(self) -> int | None:
        times = [one.next_at for one in self._memory.schedules.values()]
        return min((at for at in times if at is not None), default=None)


class ToySettings(SharedSettings):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def queues(self) -> list[QueueInfo]:
        return sorted(self._memory.queues.values(), key=lambda info: info.name)

    def set_paused(
        self, queue: str, *, paused: bool, who: str, now: int, event: Event | None = None
    ) -> bool:
        info = self._memory.queues.get(queue)
        if (info is not None and info.paused_at is not None) == paused:
            return False
        self._memory.keep(event)
        at, by = (now, who) if paused else (None, None)
        info = info or QueueInfo(name=queue, paused_at=None, paused_by=None)
        self._memory.queues[queue] = replace(info, paused_at=at, paused_by=by)
        return True

    def set_limits(
        self, queue: str, decide: Callable[[Limits], Limits], *, event: Event | None = None
    ) -> Limits:
        limits = decide(self._memory.limits(queue) or Limits())
        self._memory.set_limits(queue, limits)
        self._memory.meters.pop(queue, None)
        self._memory.keep(event)
        return limits

    def rename_queue(
        self,
        old: str,
        new: str,
        *,
        check: Callable[[QueueUse, QueueUse], None],
        event: Event | None = None,
    ) -> QueueUse:
        memory = self._memory
        use = self._use(old)
        check(use, self._use(new))
        by_queue: Sequence[dict[str, Any]] = (
            memory.queues,
            memory.shares,
            memory.vtimes,
            memory.meters,
        )
        for known in by_queue:
            known.pop(new, None)
            if old in known:
                known[new] = known.pop(old)
        if new in memory.queues:
            memory.queues[new] = replace(memory.queues[new], name=new)
        for job in [job for job in memory.line.values() if job.queue == old]:
            memory.line[job.id] = replace(job, queue=new)
        for key in [key for key in memory.cells if key[1] == old]:
            memory.merge((key[0], new, *key[2:]), memory.cells.pop(key))
        for name in use.schedules:
            schedule = memory.schedules[name]
            memory.schedules[name] = replace(schedule, request={**schedule.request, "queue": new})
        memory.keep(event)
        return use

    def remove_queue(
        self, name: str, *, check: Callable[[QueueUse], None], event: Event | None = None
    ) -> None:
        memory = self._memory
        check(self._use(name))
        for of_queues in (memory.queues, memory.shares, memory.vtimes, memory.meters):
            of_queues.pop(name, None)
        memory.keep(event)

    def _use(self, name: str) -> QueueUse:
        memory = self._memory
        naming = sorted(memory.schedules.values(), key=lambda one: one.name)
        return QueueUse(
            name=name,
            states=Counter(job.state for job in memory.line.values() if job.queue == name),
            info=memory.queues.get(name),
            schedules=tuple(one.name for one in naming if one.request.get("queue") == name),
        )

    def config(self) -> dict[str, str]:
        return dict(sorted(self._memory.config.items()))

    def set_config(
        self,
        name: str,
        value: str | None,
        *,
        now: int,
        check: Callable[[Mapping[str, str]], None] | None = None,
        event: Event | None = None,
    ) -> None:
        if check is not None:
            others = {key: text for key, text in self._memory.config.items() if key != name}
            check(others if value is None else others | {name: value})
        self._memory.keep(event)
        if value is None:
            self._memory.config.pop(name, None)
        else:
            self._memory.config[name] = value


class Toy(Store):
    """A store in the memory of this process."""

    url = "toy:"
    clock = HostClock()
    patience = 0.0
    before_commit = None

    def __init__(self, memory: Memory | None = None) -> None:
        """Open the store of some memory, or of a new one."""
        self.memory = Memory() if memory is None else memory
        self._jobs = ToyJobs(self.memory)
        self._nodes = ToyNodes(self.memory)
        self._runs = ToyRuns(self.memory, self._jobs, self._nodes)
        self._history = ToyHistory(self.memory)
        self._live = ToyLiveOutput(self.memory)
        self._reports = ToyReports(self.memory)
        self._sleeps = ToySleeps(self.memory)
        self._settings = ToySettings(self.memory)
        self._schedules = ToySchedules(self.memory, self._jobs)

    @property
    def jobs(self) -> ToyJobs:
        return self._jobs

    @property
    def runs(self) -> ToyRuns:
        return self._runs

    @property
    def history(self) -> ToyHistory:
        return self._history

    @property
    def reports(self) -> ToyReports:
        return self._reports

    @property
    def sleeps(self) -> ToySleeps:
        return self._sleeps

    @property
    def live(self) -> ToyLiveOutput:
        return self._live

    @property
    def nodes(self) -> ToyNodes:
        return self._nodes

    @property
    def settings(self) -> ToySettings:
        return self._settings

    @property
    def schedules(self) -> ToySchedules:
        return self._schedules

    @property
    def identity(self) -> str:
        return self.url

    @property
    def folder(self) -> Folder:
        raise UsageError("This store is in no folder.")

    def changed(self) -> bool:
        return True

    def info(self) -> dict[str, Any]:
        return {"engine": "toy", "schema_version": 0}

    def verify(self) -> list[str]:
        stuck = len(self.runs.held(None))
        return [f"{stuck} jobs are processing on a node that isn't registered."] if stuck else []

    def migrate(self) -> tuple[int, int]:
        return 0, 0

    def check_schema(self) -> None:
        return

    def vacuum(self) -> None:
        return

    def tidy(
        self,
        *,
        now: int | None = None,
        events_before: int | None = None,
        emitted_before: int | None = None,
    ) -> None:
        if now is None:
            return
        memory = self.memory
        for span, age in ((HOUR, 48 * HOUR), (DAY, 60 * DAY)):
            before = now - age - (now - age) % span
            for key in [key for key in memory.cells if key[0] < before and key[0] % span]:
                cell = memory.cells.pop(key)
                memory.merge((key[0] - key[0] % span, *key[1:]), cell)
        memory.watches = {run: until for run, until in memory.watches.items() if until > now}
        memory.live = {k: d for k, d in memory.live.items() if k[:2] in memory.watches}
        memory.events = [event for event in memory.events if event.at >= (events_before or 0)]
        awaited = {sleep.awaits for sleep in memory.sleeps.values()}
        memory.emitted = {
            name: one
            for name, one in memory.emitted.items()
            if one.at >= (emitted_before or 0) or name in awaited
        }
        kept = now - 30 * DAY
        memory.ticks = {key: tick for key, tick in memory.ticks.items() if tick.made_at >= kept}
        running = {(job.seq, job.attempts) for job in memory.running()}
        memory.pauses = {
            seq: pause for seq, pause in memory.pauses.items() if (seq, pause.number) in running
        }

    def close(self) -> None:
        return


class Model(Toy):
    """The same as the judge of others: what it does can be undone."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Go back to how it was if something is raised."""
        before = {name: copy(value) for name, value in vars(self.memory).items()}
        try:
            yield
        except BaseException:
            vars(self.memory).update(before)
            raise

    def transact(self, action: Callable[[], T]) -> T:
        with self.transaction():
            return action()


def _wall() -> int:
    return time_ns() // 1_000_000


def _steady() -> int:
    return clock_gettime_ns(CLOCK_MONOTONIC) // 1_000_000
