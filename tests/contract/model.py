"""A store in plain Python: what the contract says, with lists and dicts and no regard for speed.

It isn't used in place of a store anywhere. It says what the real ones must answer.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from string import ascii_lowercase, ascii_uppercase
from typing import Any, TypeVar

from queuectl.errors import DuplicateError, LeaseLostError
from queuectl.facts import Batch, Count, Event, Node, QueueInfo, Rollup, Stop
from queuectl.filter import Filter
from queuectl.host import whoami
from queuectl.job import FINISHED, Attempt, Job, NewJob, Output, State, Transition
from queuectl.lifecycle import expired
from queuectl.store.contract import Claimed, Ended
from queuectl.store.histogram import bucket_of
from queuectl.when import milliseconds
from tests.contract.tools import DAY, HOUR, MINUTE, NOW

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
T = TypeVar("T")
RollupKey = tuple[int, str, str, str, int]


class Model:
    """Everything a queue holds."""

    def __init__(self) -> None:
        self.places = 0
        self.jobs: dict[str, Job] = {}
        """In the order of the line."""
        self.ready: dict[str, int] = {}
        """Waiting jobs: 1 if they may be claimed, 0 if they have yet to become due."""
        self.runs: dict[int, list[Attempt]] = {}
        self.outputs: dict[tuple[int, int], Output] = {}
        self.inputs: dict[int, bytes] = {}
        self.cells: dict[RollupKey, tuple[int, int, int, int]] = {}
        self.kept: list[Event] = []
        self.settings: dict[str, str] = {}
        self.paused: dict[str, QueueInfo] = {}
        self.registered: dict[str, Node] = {}

    def steady(self) -> int:
        """Return a time by which leases are meant."""
        return NOW

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Go back to how it was if something is raised. Nothing in it is ever changed in place."""
        before = {name: copy(value) for name, value in vars(self).items()}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def transact(self, action: Callable[[], T]) -> T:
        with self.transaction():
            return action()

    # -- jobs -------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob], *, now: int, skip_duplicates: bool = False) -> Batch:
        ids = [job.id or "" for job in jobs]
        if not skip_duplicates and (set(ids) & set(self.jobs) or len(set(ids)) < len(ids)):
            raise DuplicateError("taken")
        stored, duplicates = [], []
        for job in jobs:
            assert job.id
            if job.id in self.jobs:
                duplicates.append(job.id)
            else:
                self._add(job, now)
                stored.append(job.id)
        return Batch(ids=tuple(stored), duplicates=tuple(duplicates))

    def _add(self, new: NewJob, now: int) -> None:
        assert new.id
        self.places += 1
        # Those who ask for times ask for them as such here.
        assert new.delay is None and not new.expire
        run_at = now if new.run_at is None else new.run_at
        asked = "id queue priority command argv cwd env tags expires_at timeout max_retries backoff"
        asked += " shell"
        asked += " backoff_base retry_delay max_backoff"
        unset = (
            "task data unique_key node worker started_at finished_at duration_ms exit_code error"
        )
        unset += " reason cancel_reason"
        fields: dict[str, Any] = {name: getattr(new, name) for name in asked.split()}
        fields |= dict.fromkeys(unset.split())
        fields |= {"env_all": bool(new.env_all), "stdin_bytes": len(new.stdin or b"") or None}
        fields |= dict.fromkeys(("attempts", "failures", "crashes"), 0)
        fields |= dict.fromkeys(("created_at", "updated_at"), now)
        job = Job(**fields, seq=self.places, state=State.PENDING, after=(), run_at=run_at)
        self.jobs[job.id] = job
        self.ready[job.id] = int(run_at <= now)
        self.runs[job.seq] = []
        self.inputs[job.seq] = new.stdin or b""

    def stdin(self, job: Job) -> bytes:
        return self.inputs[job.seq]

    def get(self, id: str) -> Job | None:
        return self.jobs.get(id)

    def ids_like(self, prefix: str, limit: int = 10) -> list[str]:
        return sorted(id for id in self.jobs if id.startswith(prefix))[:limit]

    def tags_like(self, prefix: str, limit: int = 10) -> list[str]:
        tags = {tag for job in self.jobs.values() for tag in job.tags}
        return sorted(tag for tag in tags if tag.startswith(prefix))[:limit]

    def select(
        self, which: Filter, *, limit: int | None, after: int | None = None, oldest: bool = False
    ) -> list[Job]:
        line = list(self.jobs.values())
        if not oldest:
            line.reverse()
        if after is not None:
            line = [job for job in line if (job.seq > after if oldest else job.seq < after)]
        return [job for job in line if self._fits(job, which)][:limit]

    def _fits(self, job: Job, which: Filter) -> bool:
        finished = job.finished_at
        return (
            (not which.states or job.state in which.states)
            and (not which.queues or job.queue in which.queues)
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
            and self._says(job, which.text.translate(_LOWER))
        )

    def _says(self, job: Job, text: str) -> bool:
        quoted = json.dumps(text, ensure_ascii=False)[1:-1]
        argv = "" if job.argv is None else json.dumps(job.argv, ensure_ascii=False)
        plain = (job.id, job.command or "", job.error or "", job.reason or "")
        return quoted in argv.translate(_LOWER) or any(text in t.translate(_LOWER) for t in plain)

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        return {id: self.jobs[id].state for id in ids if id in self.jobs}

    def counts(self) -> list[Count]:
        jobs, timed = Counter[Any](), Counter[Any]()
        for job in self.jobs.values():
            key = (job.queue, job.state, job.priority)
            jobs[key] += 1
            timed[key] += (job.timeout or 0) > 0
        return [
            Count(queue=key[0], state=key[1], priority=key[2], jobs=n, timed=timed[key])
            for key, n in jobs.items()
        ]

    def slowest(self, limit: int) -> list[Job]:
        done = [job for job in self.jobs.values() if job.state == State.COMPLETED]
        return sorted(done, key=lambda job: -(job.duration_ms or 0))[:limit]

    def next_due(self) -> int | None:
        return min((self.jobs[id].run_at for id, r in self.ready.items() if r == 0), default=None)

    def waiting(self, queues: Sequence[str] = ()) -> int:
        return sum(self._serves(queues, self.jobs[id]) for id in self.ready)

    def _serves(self, queues: Sequence[str], job: Job) -> bool:
        info = self.paused.get(job.queue)
        paused = info is not None and info.paused_at is not None
        return not paused and (not queues or job.queue in queues)

    # -- running ----------------------------------------------------------------------

    def claim(
        self, node: str, workers: Sequence[int], queues: Sequence[str], *, now: int
    ) -> Claimed:
        if not workers:
            return Claimed([], [])
        if not self.holds_lease(node):
            raise LeaseLostError("lost")
        late = sorted(self._expired(now), key=lambda job: job.seq)
        for job in late:
            self.apply(job, expired(job), now=now)
        buried = [self.jobs[job.id] for job in late]
        for job in buried:
            self._died(job, now, node)
        for job in self._due(now):
            self.ready[job.id] = 1
            self.jobs[job.id] = replace(job, state=State.PENDING)
        line = [job for id, job in self.jobs.items() if self.ready.get(id) == 1]
        line = [job for job in line if self._serves(queues, job)]
        line.sort(key=lambda job: -job.priority)
        jobs = [self._begin(job, node, n, now) for n, job in zip(workers, line, strict=False)]
        return Claimed(jobs, buried)

    def _died(self, job: Job, at: int, node: str | None) -> None:
        self.record(
            Event(at=at, kind="dead", job=job.id, node=node, who=whoami(), detail=job.reason)
        )

    def _begin(self, job: Job, node: str, worker: int, now: int) -> Job:
        del self.ready[job.id]
        self.jobs[job.id] = replace(
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
        return self.jobs[job.id]

    def _expired(self, now: int) -> list[Job]:
        waiting = [self.jobs[id] for id in self.ready]
        return [job for job in waiting if job.expires_at is not None and job.expires_at <= now]

    def _due(self, now: int) -> list[Job]:
        delayed = [self.jobs[id] for id, ready in self.ready.items() if not ready]
        return [job for job in delayed if job.run_at <= now]

    def outlook(self, queues: Sequence[str], *, now: int) -> tuple[bool, int | None]:
        if any(self._serves(queues, self.jobs[id]) for id, ready in self.ready.items() if ready):
            return True, None
        times = [self.jobs[id].run_at for id, ready in self.ready.items() if not ready]
        times += [at for id in self.ready if (at := self.jobs[id].expires_at) is not None]
        soonest = min(times, default=None)
        return soonest is not None and soonest <= now, soonest

    def finish(self, ends: Sequence[Ended]) -> list[Ended]:
        return [end for end in ends if not self._finish(end)]

    def _finish(self, end: Ended) -> bool:
        job, to = self.jobs.get(end.job.id), end.transition
        if not self._is(job, end.job, State.PROCESSING) or job is None or job.node != end.job.node:
            return False
        exit_code = getattr(end.outcome, "code", None)
        error = None if to.state == State.COMPLETED else end.error
        job = replace(
            self._moved(job, to, end.settled_at),
            started_at=end.started_at,
            duration_ms=end.duration_ms,
            exit_code=exit_code,
            error=error,
            cancel_reason=None,
        )
        self.jobs[job.id] = job
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
        self.runs[job.seq] = [*self.runs[job.seq], run]
        self.outputs[job.seq, job.attempts] = end.output
        self._tally(end, to.state.value, end.duration_ms)
        self._tally(end, "wait", max(0, end.started_at - end.job.run_at))
        if job.state == State.DEAD:
            self._died(job, end.settled_at, job.node)
        return True

    def _tally(self, end: Ended, measure: str, ms: int) -> None:
        at = end.settled_at - end.settled_at % MINUTE
        key = (at, end.job.queue, end.job.node or "", measure, bucket_of(ms))
        self._merge(key, (1, ms, ms, ms))

    def _merge(self, key: RollupKey, cell: tuple[int, int, int, int]) -> None:
        old = self.cells.get(key)
        if old is not None:
            count, total, least, most = old
            more, sum_, low, high = cell
            cell = (count + more, total + sum_, min(least, low), max(most, high))
        self.cells[key] = cell

    def _moved(self, job: Job, to: Transition, now: int) -> Job:
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
            updated_at=now,
            finished_at=now if state in FINISHED else None,
        )

    def _is(self, job: Job | None, seen: Job, state: State) -> bool:
        """Tell whether a job is still as somebody has seen it, and in this state."""
        return (
            job is not None
            and (job.seq, job.attempts) == (seen.seq, seen.attempts)
            and job.state == state
        )

    def put_back(self, jobs: Sequence[Job], *, now: int) -> list[Job]:
        return [job for job in jobs if not self._put_back(job, now)]

    def _put_back(self, seen: Job, now: int) -> bool:
        job = self.jobs.get(seen.id)
        if not self._is(job, seen, State.PROCESSING) or job is None or job.node != seen.node:
            return False
        if job.cancel_reason is not None:
            return False
        self.ready[job.id] = 1
        self.jobs[job.id] = replace(
            job,
            state=State.PENDING,
            attempts=job.attempts - 1,
            node=None,
            worker=None,
            started_at=None,
            updated_at=now,
        )
        return True

    def held(self, node: str) -> list[Job]:
        return [job for job in self._running() if job.node == node]

    def strays(self) -> list[Job]:
        return [job for job in self._running() if job.node not in self.registered]

    def to_cancel(self, node: str) -> list[Job]:
        return [job for job in self.held(node) if job.cancel_reason is not None]

    def _running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == State.PROCESSING]

    # -- by hand ----------------------------------------------------------------------

    def apply(self, job: Job, transition: Transition, *, now: int) -> bool:
        found = self.jobs.get(job.id)
        if not self._is(found, job, job.state) or job.state == State.PROCESSING or found is None:
            return False
        moved = self._moved(found, transition, now)
        if moved.state == State.PENDING and (moved.expires_at or now) <= now:
            moved = replace(moved, expires_at=None)
        self.jobs[job.id] = moved
        return True

    def ask_cancel(self, job: Job, reason: str, *, now: int) -> bool:
        found = self.jobs.get(job.id)
        if not self._is(found, job, State.PROCESSING) or found is None:
            return False
        self.jobs[job.id] = replace(found, cancel_reason=reason, updated_at=now)
        return True

    def remove(self, job: Job) -> bool:
        if not self._is(self.jobs.get(job.id), job, job.state) or job.state == State.PROCESSING:
            return False
        del self.jobs[job.id]
        del self.inputs[job.seq]
        self.ready.pop(job.id, None)
        return True

    def prune(self, state: State, before: int, *, limit: int) -> int:
        old = sorted(self._old(state, before), key=lambda job: job.finished_at or 0)[:limit]
        return sum(self.remove(job) for job in old)

    def prunable(self, state: State, before: int) -> int:
        return len(self._old(state, before))

    def _old(self, state: State, before: int) -> list[Job]:
        of_state = [job for job in self.jobs.values() if job.state == state]
        return [job for job in of_state if job.finished_at is not None and job.finished_at < before]

    def attempts(self, job: Job) -> list[Attempt]:
        return self.runs[job.seq]

    def output(self, job: Job, number: int) -> Output | None:
        return self.outputs.get((job.seq, number))

    # -- nodes ------------------------------------------------------------------------

    def register(self, node: Node) -> None:
        self.registered[node.id] = node

    def holds_lease(self, id: str) -> bool:
        node = self.registered.get(id)
        return node is not None and node.lease_until > self.steady()

    def lapsed(self, node: Node) -> bool:
        return node.lease_until <= self.steady()

    def renew(self, node: str, *, until: int) -> bool:
        if not self.holds_lease(node):
            return False
        known = self.registered[node]
        self.registered[node] = replace(known, lease_until=until, beat=known.beat + 1)
        return True

    def forget(self, node: str, *, beat: int | None = None) -> bool:
        known = self.registered.get(node)
        if known is None or beat not in (None, known.beat):
            return False
        del self.registered[node]
        return True

    def nodes(self) -> list[Node]:
        return sorted(self.registered.values(), key=lambda node: (node.started_at, node.id))

    def ask_stop(self, node: str, how: Stop) -> bool:
        known = self.registered.get(node)
        if known is None:
            return False
        asked = known.stop if known.stop == Stop.RELEASE else how
        self.registered[node] = replace(known, stop=asked)
        return True

    # -- queues, settings, history ------------------------------------------------------

    def queues(self) -> list[QueueInfo]:
        return sorted(self.paused.values(), key=lambda info: info.name)

    def set_paused(self, queue: str, *, paused: bool, who: str, now: int) -> bool:
        info = self.paused.get(queue)
        if (info is not None and info.paused_at is not None) == paused:
            return False
        at, by = (now, who) if paused else (None, None)
        self.paused[queue] = QueueInfo(name=queue, paused_at=at, paused_by=by)
        return True

    def config(self) -> dict[str, str]:
        return self.settings

    def set_config(self, name: str, value: str | None, *, now: int) -> None:
        if value is None:
            self.settings.pop(name, None)
        else:
            self.settings[name] = value

    def record(self, event: Event) -> None:
        self.kept.append(event)

    def events(self, job: str | None = None, *, limit: int = 100) -> list[Event]:
        return [event for event in self.kept[::-1] if job is None or event.job == job][:limit]

    def prune_events(self, before: int, *, limit: int) -> int:
        kept = [event for event in self.kept[:limit] if event.at >= before]
        pruned = len(self.kept[:limit]) - len(kept)
        self.kept = kept + self.kept[limit:]
        return pruned

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        sums = Model()
        for (at, of, _, measure, bucket), cell in self.cells.items():
            if at >= (since or 0) and queue in (None, of):
                sums._merge((0, "", "", measure, bucket), cell)
        return [
            Rollup(
                measure=key[3], bucket=key[4], count=n, total_ms=total, least_ms=low, most_ms=high
            )
            for key, (n, total, low, high) in sums.cells.items()
        ]

    def coarsen(self, *, now: int) -> None:
        for span, age in ((HOUR, 48 * HOUR), (DAY, 60 * DAY)):
            before = now - age - (now - age) % span
            for key in [key for key in self.cells if key[0] < before and key[0] % span]:
                cell = self.cells.pop(key)
                self._merge((key[0] - key[0] % span, *key[1:]), cell)

    def fold(self) -> None:
        return

    def verify(self) -> list[str]:
        stuck = len(self.strays())
        return [f"{stuck} jobs are processing on a node that isn't registered."] if stuck else []

    def close(self) -> None:
        return
