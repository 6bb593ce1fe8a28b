"""The verbs of the contract, over the named statements: what all SQL databases share.

A database adds how to run a statement, how to begin and end a transaction, its clocks and its
wake-ups; and overrides a verb only where it must say it in another way.
"""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from threading import RLock
from typing import Any

from queuectl import lifecycle
from queuectl.errors import DuplicateError, LeaseLostError, StoreCorruptError, StoreError
from queuectl.job import (
    ATTEMPT_COLUMNS,
    Attempt,
    Job,
    NewJob,
    Output,
    State,
    Transition,
)
from queuectl.store import statements as sql
from queuectl.store.contract import (
    Batch,
    Count,
    Ended,
    Event,
    Filter,
    Node,
    QueueInfo,
    Rollup,
    Stop,
    Store,
    Topic,
    chunks,
)
from queuectl.store.dialects import Dialect
from queuectl.store.ids import new_ids
from queuectl.store.rollups import Tally
from queuectl.store.rows import ended_row, fence, new_row, storable, transition_row
from queuectl.store.selection import select_seqs

Params = Mapping[str, Any]
Row = tuple[Any, ...]

PROMOTED_AT_ONCE = 10_000
BURIED_AT_ONCE = 1_000
HOUR = 3_600_000


class UnreadableError(StoreCorruptError):
    """A row holds text that isn't valid UTF-8."""


class SqlStore(Store):
    """A store in an SQL database."""

    dialect: Dialect

    def __init__(self) -> None:
        self._lock = RLock()
        self._depth = 0
        self._nudges: set[Topic] = set()
        self._texts: dict[str, str] = {}

    # -- what a database must bring -----------------------------------------------

    @abstractmethod
    def _run(self, text: str, params: Params) -> list[Row]:
        """Run a rendered statement and return its rows; errors come out as `StoreError`s."""

    @abstractmethod
    def _change(self, text: str, params: Params) -> int:
        """Run a rendered statement and return how many rows it changed."""

    @abstractmethod
    def _begin(self) -> None:
        """Begin a transaction that may write."""

    @abstractmethod
    def _commit(self) -> None:
        """Make it durable."""

    @abstractmethod
    def _rollback(self) -> None:
        """Undo it; must not raise."""

    @abstractmethod
    def _wake(self, topics: set[Topic]) -> None:
        """Wake the listeners now."""

    # -- statements and transactions ------------------------------------------------

    def _text(self, statement: str) -> str:
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = self.dialect.render(statement)
        return text

    def _rows(self, statement: str, **params: Any) -> list[Row]:
        return self._run(self._text(statement), params)

    def _value(self, statement: str, **params: Any) -> Any:
        rows = self._run(self._text(statement), params)
        return rows[0][0] if rows else None

    def _jobs(self, statement: str, **params: Any) -> list[Job]:
        return [Job.from_row(row) for row in self._run(self._text(statement), params)]

    def _write(self, statement: str, **params: Any) -> int:
        with self._writing():
            return self._change(self._text(statement), params)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Be in a transaction, without a part of it that can fail by itself.

        For verbs that write much: under a savepoint, SQLite keeps every page they touch.
        """
        if self._depth:
            yield
            return
        with self.transaction():
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            yield from self._inner() if self._depth else self._outer()

    def _outer(self) -> Iterator[None]:
        self._begin()
        self._depth = 1
        try:
            yield
            self._commit()
        except BaseException:
            self._nudges.clear()
            self._rollback()
            raise
        finally:
            self._depth = 0
        if self._nudges:
            topics, self._nudges = self._nudges, set()
            self._wake(topics)

    def _inner(self) -> Iterator[None]:
        """Part of a transaction that can fail by itself, if whoever called it handles that."""
        name = f"level{self._depth}"
        self._run(f"SAVEPOINT {name}", {})
        self._depth += 1
        try:
            yield
            self._run(f"RELEASE SAVEPOINT {name}", {})
        except BaseException:
            # A database in trouble may have undone everything already; the outer part finds out.
            with suppress(StoreError):
                self._run(f"ROLLBACK TO SAVEPOINT {name}", {})
                self._run(f"RELEASE SAVEPOINT {name}", {})
            raise
        finally:
            self._depth -= 1

    def nudge(self, topic: Topic) -> None:
        with self._lock:
            if self._depth:
                self._nudges.add(topic)
            else:
                self._wake({topic})

    def run_script(self, statements: Sequence[str]) -> None:
        """Run schema statements, in the transaction they are called in."""
        for statement in statements:
            self._run(statement, {})

    def set_meta(self, name: str, value: str) -> None:
        """Set what the store knows about itself."""
        self._write(sql.SET_META, name=name, value=value)

    # -- jobs -------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob], *, now: int, skip_duplicates: bool = False) -> Batch:
        made = iter(new_ids(sum(job.id is None for job in jobs)))
        ids = [job.id or next(made) for job in jobs]
        rows = [new_row(job, id, now) for job, id in zip(jobs, ids, strict=True)]
        if skip_duplicates:
            return self._enqueue_some(rows)
        with self._writing():
            self._refuse_taken([job.id for job in jobs if job.id is not None])
            for row in rows:
                self._change(self._text(sql.ENQUEUE), row)
            self.nudge(Topic.WORK)
        return Batch(ids=tuple(ids))

    def _refuse_taken(self, ids: Sequence[str]) -> None:
        """Raise before anything is written, so that nothing has to be undone."""
        twice = next((id for id, times in Counter(ids).items() if times > 1), None)
        taken = next(iter(self.states(ids)), None) if ids else None
        if taken is not None:
            raise DuplicateError(
                f"The id {taken!r} is taken; choose another, or remove that job first"
                " (finished jobs keep their ids until they are pruned)."
            )
        if twice is not None:
            raise DuplicateError(
                f"The id {twice!r} is given twice in one request; nothing was enqueued."
            )

    def _enqueue_some(self, rows: Sequence[Params]) -> Batch:
        """Store those whose ids are free."""
        ids: list[str] = []
        duplicates: list[str] = []
        with self._writing():
            for row in rows:
                stored = self._change(self._text(sql.ENQUEUE_OR_SKIP), row)
                (ids if stored else duplicates).append(row["id"])
            self.nudge(Topic.WORK)
        return Batch(ids=tuple(ids), duplicates=tuple(duplicates))

    def get(self, id: str) -> Job | None:
        jobs = self._jobs(sql.GET, id=id) if storable(id) else []
        return jobs[0] if jobs else None

    def ids_like(self, prefix: str, limit: int = 10) -> list[str]:
        if not storable(prefix):
            return []
        beyond = prefix + "\U0010ffff"
        return [id for (id,) in self._rows(sql.IDS_LIKE, prefix=prefix, beyond=beyond, limit=limit)]

    def select(
        self, which: Filter, *, limit: int | None, after: int | None = None, oldest: bool = False
    ) -> list[Job]:
        if not storable(which.text):
            return []
        with self._snapshot():
            seqs = select_seqs(
                self._select, self.counts, which, limit=limit, after=after, oldest=oldest
            )
            jobs = self._jobs(sql.JOBS_AT, seqs=json.dumps(seqs)) if seqs else []
        return jobs if oldest else jobs[::-1]

    def _select(
        self, statement: str, conditions: Sequence[str], direction: str, params: Params
    ) -> list[int]:
        """Run one of the selecting statements with these conditions."""
        where = " AND ".join(conditions) or "1 = 1"
        text = self.dialect.render(
            statement, conditions=self.dialect.render(where), direction=direction
        )
        return [seq for (seq,) in self._run(text, params)]

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See one state of the store in several reads. Databases override it where it matters."""
        with self._lock:
            yield

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        found: dict[str, State] = {}
        for part in chunks(ids, 5_000):
            rows = self._rows(sql.STATES, ids=json.dumps(list(part)))
            found.update((id, State(state)) for id, state in rows)
        return found

    def counts(self) -> list[Count]:
        return [
            Count(queue=queue, state=State(state), priority=priority, jobs=jobs, timed=timed)
            for queue, state, priority, jobs, timed in self._rows(sql.COUNTS)
        ]

    def slowest(self, limit: int) -> list[Job]:
        return self._jobs(sql.SLOWEST, limit=limit)

    def next_due(self) -> int | None:
        due: int | None = self._value(sql.NEXT_DUE)
        return due

    def waiting(self, queues: Sequence[str] = ()) -> int:
        paused = {queue.name for queue in self.queues() if queue.paused_at is not None}
        return sum(
            count.jobs
            for count in self.counts()
            if count.state in (State.PENDING, State.FAILED)
            and count.queue not in paused
            and (not queues or count.queue in queues)
        )

    # -- running ----------------------------------------------------------------------

    def claim(
        self, node: str, workers: Sequence[int], queues: Sequence[str], *, now: int
    ) -> list[Job]:
        if not workers:
            return []
        with self._writing():
            if not self._rows(sql.HOLDS_LEASE, id=node, steady=self.steady()):
                raise LeaseLostError(f"Node {node} has no lease any more; it can't claim jobs.")
            self._bury_expired(now)
            self._change(self._text(sql.PROMOTE), {"now": now, "limit": PROMOTED_AT_ONCE})
            line = self._first_ready(queues, len(workers), now)
            jobs: list[Job] = []
            for worker, seq in zip(workers, line, strict=False):
                try:
                    jobs += self._jobs(sql.CLAIM, seq=seq, node=node, worker=worker, now=now)
                except UnreadableError:
                    # Another program wrote it. One odd row must not stop the others.
                    self._change(self._text(sql.BURY_UNREADABLE), {"seq": seq, "now": now})
            return jobs

    def _bury_expired(self, now: int) -> None:
        for job in self._jobs(sql.EXPIRED, now=now, limit=BURIED_AT_ONCE):
            self.apply(job, lifecycle.expired(job), now=now)

    def _first_ready(self, queues: Sequence[str], limit: int, now: int) -> list[int]:
        """Return the places of the first ready jobs over all queues a node serves."""
        found: list[tuple[int, int]] = []
        for queue in self._ready_queues(queues):
            found += [
                (-priority, seq)
                for priority, seq in self._rows(sql.READY, queue=queue, limit=limit, now=now)
            ]
        found.sort()
        return [seq for _, seq in found[:limit]]

    def _ready_queues(self, queues: Sequence[str]) -> list[str]:
        names = [name for (name,) in self._rows(sql.READY_QUEUES)]
        return [name for name in names if name in queues] if queues else names

    def claimable(self, queues: Sequence[str], *, now: int) -> bool:
        return bool(
            self._ready_queues(queues)
            or self._rows(sql.IS_DUE, now=now)
            or self._rows(sql.IS_EXPIRED, now=now)
        )

    def finish(self, ends: Sequence[Ended]) -> list[Ended]:
        if not ends:
            return []
        lost: list[Ended] = []
        tally = Tally()
        with self._writing():
            for end in ends:
                params = ended_row(end)
                if not self._change(self._text(sql.FINISH), params):
                    lost.append(end)
                    continue
                self._change(self._text(sql.KEEP_ATTEMPT), params)
                if end.output.stdout or end.output.stderr:
                    self._change(self._text(sql.KEEP_OUTPUT), params)
                tally.add(end)
                if params["ready"] == 1:
                    self.nudge(Topic.WORK)
            for row in tally.rows():
                self._change(self._text(sql.ADD_ROLLUP), row)
        return lost

    def held(self, node: str) -> list[Job]:
        return self._jobs(sql.HELD, node=node)

    def strays(self) -> list[Job]:
        return self._jobs(sql.STRAYS)

    def to_cancel(self, node: str) -> list[Job]:
        return self._jobs(sql.TO_CANCEL, node=node)

    # -- by hand ----------------------------------------------------------------------

    def apply(self, job: Job, transition: Transition, *, now: int) -> bool:
        params = fence(job) | transition_row(transition, now) | {"now": now, "was": job.state}
        return self._write(sql.APPLY, **params) > 0

    def ask_cancel(self, job: Job, reason: str, *, now: int) -> bool:
        return self._write(sql.ASK_CANCEL, **fence(job), reason=reason, now=now) > 0

    def remove(self, job: Job) -> bool:
        return self._write(sql.REMOVE, **fence(job), was=job.state.value) > 0

    def prune(self, state: State, before: int, *, limit: int) -> int:
        return self._write(sql.PRUNE, state=state.value, before=before, limit=limit)

    def prunable(self, state: State, before: int) -> int:
        count: int = self._value(sql.PRUNABLE, state=state.value, before=before)
        return count

    # -- attempts ---------------------------------------------------------------------

    def attempts(self, job: Job) -> list[Attempt]:
        return [
            Attempt(**dict(zip(ATTEMPT_COLUMNS, (job.id, *row), strict=True)))
            for row in self._rows(sql.ATTEMPTS, seq=job.seq)
        ]

    def output(self, job: Job, number: int) -> Output | None:
        rows = self._rows(sql.OUTPUT, seq=job.seq, number=number)
        if not rows:
            return None
        stdout, stderr, stdout_bytes, stderr_bytes = rows[0]
        return Output(
            stdout=bytes(stdout or b""),
            stderr=bytes(stderr or b""),
            stdout_bytes=stdout_bytes,
            stderr_bytes=stderr_bytes,
        )

    # -- nodes ------------------------------------------------------------------------

    def register(self, node: Node) -> None:
        values = {f.name: getattr(node, f.name) for f in fields(node) if f.name != "stop"}
        self._write(sql.REGISTER, **values | {"queues": json.dumps(node.queues)})

    def renew(self, node: str, *, until: int) -> bool:
        now, steady = self.now(), self.steady()
        return self._write(sql.RENEW, id=node, until=until, now=now, steady=steady) > 0

    def forget(self, node: str) -> None:
        self._write(sql.FORGET, id=node)

    def nodes(self) -> list[Node]:
        names = [f.name for f in fields(Node)]
        found = [dict(zip(names, row, strict=True)) for row in self._rows(sql.NODES)]
        return [
            Node(
                **row
                | {
                    "queues": tuple(json.loads(row["queues"])),
                    "stop": None if row["stop"] is None else Stop(row["stop"]),
                }
            )
            for row in found
        ]

    def ask_stop(self, node: str, how: Stop) -> bool:
        return self._write(sql.ASK_STOP, id=node, how=how.value) > 0

    # -- queues, settings, history ------------------------------------------------------

    def queues(self) -> list[QueueInfo]:
        return [
            QueueInfo(name=name, paused_at=paused_at, paused_by=paused_by)
            for name, paused_at, paused_by in self._rows(sql.QUEUES)
        ]

    def set_paused(self, queue: str, *, paused: bool, who: str, now: int) -> bool:
        if paused:
            return self._write(sql.PAUSE, name=queue, who=who, now=now) > 0
        return self._write(sql.RESUME, name=queue) > 0

    def config(self) -> dict[str, str]:
        return dict(self._rows(sql.CONFIG))

    def set_config(self, name: str, value: str | None, *, now: int) -> None:
        if value is None:
            self._write(sql.UNSET_CONFIG, name=name)
        else:
            self._write(sql.SET_CONFIG, name=name, value=value, now=now)

    def record(self, event: Event) -> None:
        self._write(sql.RECORD, **{f.name: getattr(event, f.name) for f in fields(event)})

    def events(self, job: str | None = None, *, limit: int = 100) -> list[Event]:
        if job is None:
            rows = self._rows(sql.EVENTS, limit=limit)
        else:
            rows = self._rows(sql.EVENTS_OF_JOB, job=job, limit=limit)
        names = [f.name for f in fields(Event)]
        return [Event(**dict(zip(names, row, strict=True))) for row in rows]

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        names = [f.name for f in fields(Rollup)]
        rows = self._rows(sql.ROLLUPS, since=since or 0, queue=queue)
        return [Rollup(**dict(zip(names, row, strict=True))) for row in rows]

    def coarsen(self, *, now: int) -> None:
        with self._writing():
            for span, age in ((HOUR, 48 * HOUR), (24 * HOUR, 60 * 24 * HOUR)):
                bounds = {"span": span, "before": now - age - (now - age) % span}
                self._change(self._text(sql.COARSEN), bounds)
                self._change(self._text(sql.DROP_FINE), bounds)
            self._change(self._text(sql.DROP_EMPTY_COUNTS), {})
