"""The verbs of the contract about jobs, over the named statements: what SQL databases share.

A database overrides a verb only where it must say it in another way.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from queuectl import lifecycle
from queuectl.errors import DuplicateError, LeaseLostError, UsageError
from queuectl.facts import Batch, Count
from queuectl.filter import Filter, Sort
from queuectl.job import ATTEMPT_COLUMNS, Attempt, Job, Like, NewJob, Output, State, Transition
from queuectl.store.contract import LONGEST_PIECE, Claimed, Ended, InLine, Suspects, Topic, chunks
from queuectl.store.migrate import VERSION, check_version
from queuectl.store.records import Records
from queuectl.store.rollups import Tally
from queuectl.store.rows import (
    NEW_COLUMNS,
    NewRow,
    all_columns,
    as_like,
    buried_job,
    claimed_job,
    counted,
    death_of,
    ended_row,
    fence,
    named,
    new_rows,
    output_row,
    storable,
    stored_job,
    transition_row,
    whole_in_line,
)
from queuectl.store.selection import select_seqs, sorted_seqs
from queuectl.store.transactions import Params, Row

PROMOTED_AT_ONCE = 10_000
BURIED_AT_ONCE = 1_000
LONGEST_TEXT = 1_000
"""Characters of a text to search for; where it becomes a pattern, that is what a pattern takes."""


class Look(NamedTuple):
    """What a claim finds when it begins."""

    ahead: int
    """How far our idea of the store's clock was ahead of it."""
    due: int | None
    expires: int | None
    """When the next waiting job becomes due, and when the next expires."""

    def has_passed(self, now: int) -> bool:
        """Tell whether one of these times has come."""
        return any(at is not None and at <= now for at in (self.due, self.expires))


def no_lease(node: str) -> LeaseLostError:
    """Say that a node was struck out."""
    return LeaseLostError(f"Node {node} has no lease any more; it can't claim jobs.")


class SqlStore(Records):
    """A store in an SQL database."""

    def _jobs(self, statement: str, **params: Any) -> list[Job]:
        return [Job.from_row(row) for row in self._run(self._text(statement), params)]

    def _list(self, items: Sequence[Any]) -> Any:
        return self.dialect.bind_list(items)

    # -- schema -----------------------------------------------------------------------

    def check_schema(self) -> None:
        check_version(self.url, self._version_in_meta())

    def _version_in_meta(self) -> int:
        """Return the version of the schema; 0 when there is none that makes sense."""
        text = self.meta(VERSION)
        return int(text) if text is not None and text.isdecimal() else 0

    # -- jobs -------------------------------------------------------------------------

    def enqueue(
        self, jobs: Sequence[NewJob | Like], *, now: int, skip_duplicates: bool = False
    ) -> Batch:
        likes = [job if isinstance(job, tuple) else as_like(job) for job in jobs]
        chosen = [like[0] for like in likes if like[0] is not None]
        rows = new_rows(likes, now)
        inputs = {place: like[3].stdin for place, like in enumerate(likes) if like[3].stdin}
        if skip_duplicates:
            return self._atomic(lambda: self._enqueue_some(rows, chosen, inputs))
        return self._atomic(lambda: self._enqueue_all(rows, chosen, inputs))

    def enqueue_one(self, job: NewJob, *, now: int) -> Job:
        (row,) = new_rows([as_like(job)], now)
        chosen = job.id
        if chosen is None and not job.stdin:
            return self._in_one_statement(lambda: self._enqueue_one(row))

        def enqueue() -> Job:
            if chosen is not None:
                self._refuse_taken([chosen])
            stored = self._enqueue_one(row)
            if job.stdin:
                self._add_input(stored.id, job.stdin)
            return stored

        return self._atomic(enqueue)

    def _enqueue_one(self, row: NewRow) -> Job:
        seq = self._insert_job(row)
        self._nudge_for_new_jobs()
        return stored_job(row, seq)

    def _insert_job(self, row: NewRow) -> int:
        """Write a job whose id is free, and return its place in the line."""
        return int(self._run(self._text(self.sql.ENQUEUE_RETURNING), named(row))[0][0])

    def _nudge_for_new_jobs(self) -> None:
        self.nudge(Topic.WORK)

    def _refuse_taken(self, chosen: Sequence[str]) -> None:
        taken = next(iter(self.states(chosen)), None) if chosen else None
        if taken is not None:
            raise DuplicateError(
                f"The id {taken!r} is taken; choose another, or remove that job first"
                " (finished jobs keep their ids until they are pruned)."
            )

    def _enqueue_all(
        self, rows: Sequence[NewRow], chosen: Sequence[str], inputs: Mapping[int, bytes]
    ) -> Batch:
        """Store all of them; raises before anything is written, so nothing has to be undone."""
        twice = next((id for id, times in Counter(chosen).items() if times > 1), None)
        self._refuse_taken(chosen)
        if twice is not None:
            raise DuplicateError(
                f"The id {twice!r} is given twice in one request; nothing was enqueued."
            )
        self._insert_jobs(rows)
        for place, data in inputs.items():
            self._add_input(rows[place][0], data)
        self._nudge_for_new_jobs()
        return Batch(ids=tuple([row[0] for row in rows]))

    def _insert_jobs(self, rows: Sequence[NewRow]) -> None:
        """Write jobs whose ids are free, in this order."""
        self._change_many(self._enqueue_row, [all_columns(row) for row in rows])

    @cached_property
    def _enqueue_row(self) -> str:
        return self._enqueue_text(1)

    def _enqueue_text(self, jobs: int) -> str:
        """Return the statement that stores so many jobs at once."""
        place = "%s" if self.dialect.percent else "?"
        row = f"({', '.join([place] * len(NEW_COLUMNS))})"
        return self._text(self.sql.ENQUEUE) + ", ".join([row] * jobs)

    def _enqueue_some(
        self, rows: Sequence[NewRow], chosen: Sequence[str], inputs: Mapping[int, bytes]
    ) -> Batch:
        """Store those whose ids are free, and of several with one id the first."""
        taken = set(self.states(chosen))
        fresh: dict[str, int] = {}
        duplicates: list[str] = []
        for place, row in enumerate(rows):
            if row[0] in taken or row[0] in fresh:
                duplicates.append(row[0])
            else:
                fresh[row[0]] = place
        if fresh:
            self._insert_jobs([rows[place] for place in fresh.values()])
            for id, place in fresh.items() if inputs else ():
                if place in inputs:
                    self._add_input(id, inputs[place])
            self._nudge_for_new_jobs()
        return Batch(ids=tuple(fresh), duplicates=tuple(duplicates))

    def _add_input(self, id: str, data: bytes) -> None:
        """Keep what the runs of a new job find on stdin, in pieces that every server takes."""
        text = self._text(self.sql.ADD_INPUT)
        for start in range(0, len(data), LONGEST_PIECE):
            piece = data[start : start + LONGEST_PIECE]
            self._change(text, {"id": id, "start": start, "data": piece})

    def stdin(self, job: Job) -> bytes:
        if job.stdin_bytes is None:
            return b""
        return b"".join(bytes(data) for (data,) in self._rows(self.sql.INPUT, seq=job.seq))

    def get(self, id: str) -> Job | None:
        jobs = self._jobs(self.sql.GET, id=id) if storable(id) else []
        return jobs[0] if jobs else None

    def ids_like(self, prefix: str, limit: int = 10) -> list[str]:
        if not storable(prefix):
            return []
        beyond = prefix + "\U0010ffff"
        return [
            id for (id,) in self._rows(self.sql.IDS_LIKE, prefix=prefix, beyond=beyond, limit=limit)
        ]

    def tags_like(self, prefix: str, limit: int = 10) -> list[str]:
        if not storable(prefix):
            return []
        end = prefix + "\U0010ffff"
        exact = prefix and self.select(Filter(tags=(prefix,)), limit=1)
        found = [prefix] if exact else []
        last = prefix
        while len(found) < limit:
            last = self._value(self.sql.NEXT_TAG, tag=last, end=end)
            if last is None:
                break
            found.append(last)
        return found[:limit]

    def select(
        self, which: Filter, *, limit: int | None, after: int | None = None, oldest: bool = False
    ) -> list[Job]:
        if not _can_fit(which):
            return []
        with self._snapshot():
            seqs = select_seqs(
                self.sql,
                self._select,
                self.counts,
                which,
                needle=self.dialect.needle,
                limit=limit,
                after=after,
                oldest=oldest,
            )
            jobs = self._jobs(self.sql.JOBS_AT, seqs=self._list(seqs)) if seqs else []
        return jobs if oldest else jobs[::-1]

    def places(self, which: Filter, by: Sequence[Sort], *, limit: int | None) -> list[int]:
        if not _can_fit(which):
            return []
        with self._snapshot():
            return sorted_seqs(
                self.sql,
                self._select,
                self.counts,
                which,
                by,
                needle=self.dialect.needle,
                limit=limit,
            )

    def jobs_at(self, places: Sequence[int]) -> list[Job]:
        jobs = self._jobs(self.sql.JOBS_AT, seqs=self._list(places)) if places else []
        found = {job.seq: job for job in jobs}
        return [found[seq] for seq in places if seq in found]

    def _select(
        self, statement: str, conditions: Sequence[str], direction: str, params: Params
    ) -> list[int]:
        """Run one of the selecting statements with these conditions."""
        where = " AND ".join(conditions) or "1 = 1"
        text = self._text(
            statement.replace("{conditions}", where).replace("{direction}", direction)
        )
        return [seq for (seq,) in self._run(text, params)]

    def lock(self, jobs: Sequence[Job]) -> list[Job]:
        if not jobs:
            return []
        return self._jobs(self.sql.LOCK_JOBS, seqs=self._list([job.seq for job in jobs]))

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        found: dict[str, State] = {}
        for part in chunks(ids, 5_000):
            known = [id for id in part if storable(id)]
            rows = self._rows(self.sql.STATES, ids=self._list(known)) if known else []
            found.update((id, State(state)) for id, state in rows)
        return found

    def counts(self) -> list[Count]:
        return counted(self._rows(self.sql.COUNTS))

    def slowest(self, limit: int) -> list[Job]:
        return self._jobs(self.sql.SLOWEST, limit=limit)

    def next_due(self) -> int | None:
        due: int | None = self._value(self.sql.NEXT_DUE)
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
        self,
        node: str,
        workers: Sequence[int],
        queues: Sequence[str],
        *,
        now: int,
        suspects: Suspects | None = None,
    ) -> Claimed:
        if not workers:
            return Claimed([], [])
        return self._in_a_claim(lambda: self._claim(node, workers, queues, now, suspects))

    def _in_a_claim(self, claim: Callable[[], Claimed]) -> Claimed:
        """Claim all or nothing: in a transaction, unless a database needs one statement only."""
        return self._atomic(claim)

    def _claim(
        self,
        node: str,
        workers: Sequence[int],
        queues: Sequence[str],
        now: int,
        suspects: Suspects | None,
    ) -> Claimed:
        look = self._look(node)
        # No job is due, and none has expired, by a clock that was put back a moment ago.
        now -= look.ahead
        buried = self._make_way(look, node, now)
        line = self._line(queues, len(workers), now, suspects)
        jobs = self._begin_runs(line, workers, {"node": node, "now": now}) if line else []
        if jobs:
            self._keep_lease(node)
        return Claimed(jobs, buried)

    def _keep_lease(self, node: str) -> None:
        """Keep others from striking the node out before the claim is committed."""

    def _make_way(self, look: Look, node: str, now: int) -> list[Job]:
        """See to the jobs that have expired or become due; returns those that are dead now."""
        buried: list[Job] = []
        if look.expires is not None and look.expires <= now:
            buried = self._bury_expired(node, now)
        if look.due is not None and look.due <= now:
            self._promote(now)
        return buried

    def _begin_runs(
        self, line: Sequence[InLine], workers: Sequence[int], same: Params
    ) -> list[Job]:
        """Begin a run of each of these jobs that is still ready, and return them as they are then.

        They are read first, so that nothing is begun that can't be read.
        """
        found = {job.seq: job.row for job in line if job.row is not None}
        if not found:
            found = self._whole([job.seq for job in line])
        runs = [
            {"seq": seq, "worker": worker, **same}
            for seq, worker in zip(found, workers, strict=False)
        ]
        begun = self._change_rows(self.sql.CLAIM, runs) if runs else set()
        return [claimed_job(found[run["seq"]], run) for run in runs if run["seq"] in begun]

    def _whole(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Read jobs, in this order."""
        by_seq = {row[0]: row for row in self._rows(self.sql.JOBS_AT, seqs=self._list(seqs))}
        return {seq: by_seq[seq] for seq in seqs if seq in by_seq}

    def _look(self, node: str) -> Look:
        """Check a node's lease, and see what else there is to do for a claim."""
        _, due, expires = self._check_lease(self.sql.LOOK, node)
        return Look(ahead=0, due=due, expires=expires)

    def _check_lease(self, statement: str, node: str) -> Row:
        rows = self._rows(statement, id=node, steady=self.steady())
        if not rows:
            raise no_lease(node)
        return rows[0]

    def _promote(self, now: int) -> None:
        due = [seq for (seq,) in self._rows(self.sql.DUE, now=now, limit=PROMOTED_AT_ONCE)]
        if due:
            self._change(self._text(self.sql.PROMOTE), {"seqs": self._list(due)})

    def _bury_expired(self, node: str, now: int) -> list[Job]:
        late = self._jobs(self.sql.EXPIRED, now=now, limit=BURIED_AT_ONCE)
        changes = [(job, lifecycle.expired(job)) for job in late]
        gone = self.apply_all(changes, now=now)
        buried = [buried_job(job, to, now) for job, to in changes if job.seq in gone]
        buried.sort(key=lambda job: job.seq)
        self.record_all([death_of(job, job.reason, at=now, node=node) for job in buried])
        return buried

    def _line(
        self, queues: Sequence[str], limit: int, now: int, suspects: Suspects | None
    ) -> list[InLine]:
        """Return the jobs whose turn it is."""
        line = self._first_ready(queues, limit, now)
        for place, job in enumerate(line):
            if suspects is not None and suspects.has(job):
                line = line[:1] if suspects.idle and place == 0 else line[:place]
                break
        return line

    def _first_ready(self, queues: Sequence[str], limit: int, now: int) -> list[InLine]:
        """Return the first ready jobs over all queues a node serves."""
        found: list[InLine] = []
        names = self._ready_queues(queues)
        if len(names) == 1:
            return self._ready_whole(names[0], limit, now)
        for queue in names:
            rows = self._rows(self.sql.READY, queue=queue, limit=limit, now=now)
            found += [InLine(*row) for row in rows]
        found.sort(key=lambda job: (-job.priority, job.seq))
        return found[:limit]

    def _ready_whole(self, queue: str, limit: int, now: int) -> list[InLine]:
        rows = self._rows(self.sql.READY_WHOLE, queue=queue, limit=limit, now=now)
        return list(map(whole_in_line, rows))

    def _ready_queues(self, queues: Sequence[str]) -> list[str]:
        names = [name for (name,) in self._rows(self.sql.READY_QUEUES)]
        return [name for name in names if name in queues] if queues else names

    def outlook(self, queues: Sequence[str], *, now: int) -> tuple[bool, int | None]:
        rows = self._rows(self.sql.OUTLOOK)
        if any(name is not None and (not queues or name in queues) for _, _, name in rows):
            return True, None
        soonest = min((at for at in rows[0][:2] if at is not None), default=None)
        return soonest is not None and soonest <= now, soonest

    def finish(self, ends: Sequence[Ended]) -> list[Ended]:
        return self._atomic(lambda: self._finish(ends)) if ends else []

    def _finish(self, ends: Sequence[Ended]) -> list[Ended]:
        first: dict[int, Ended] = {}
        for end in ends:
            first.setdefault(end.job.seq, end)
        lost = self._finish_apart(list(first.values()))
        if len(first) < len(ends):
            # Of several ends of one job, each finds what the one before has left.
            lost += self._finish([end for end in ends if end is not first[end.job.seq]])
        return lost

    def _finish_apart(self, ends: Sequence[Ended]) -> list[Ended]:
        """Finish runs of as many jobs."""
        rows = {end.job.seq: ended_row(end) for end in ends}
        finished = self._end_runs(rows)
        if any(rows[seq]["ready"] == 1 for seq in finished):
            self.nudge(Topic.WORK)
        tally = Tally()
        lost = []
        deaths = []
        for end in ends:
            if end.job.seq not in finished:
                lost.append(end)
                continue
            tally.add(end)
            if end.transition.state == State.DEAD:
                reason, at = end.transition.reason, end.settled_at
                deaths.append(death_of(end.job, reason, at=at, node=end.job.node))
            if end.output.stdout or end.output.stderr:
                self._change(self._text(self.sql.KEEP_OUTPUT), output_row(end))
        if finished:
            tally.count_for_ever()
            self._insert_rows(self.sql.ADD_ROLLUPS, list(tally.rows()))
        self.record_all(deaths)
        return lost

    def _end_runs(self, rows: Mapping[int, Params]) -> set[int]:
        """End the runs of the jobs at these places that still have them, and keep a record."""
        finished = self._change_rows(self.sql.FINISH, list(rows.values()))
        if finished:
            kept = [row for seq, row in rows.items() if seq in finished]
            self._insert_rows(self.sql.KEEP_ATTEMPTS, kept)
        return finished

    def put_back(self, jobs: Sequence[Job], *, now: int) -> list[Job]:
        return self._atomic(lambda: self._put_back(jobs, now)) if jobs else []

    def _put_back(self, jobs: Sequence[Job], now: int) -> list[Job]:
        rows = [fence(job) | {"node": job.node, "now": now} for job in jobs]
        back = self._change_rows(self.sql.PUT_BACK, rows)
        if back:
            self.nudge(Topic.WORK)
        return [job for job in jobs if job.seq not in back]

    def held(self, node: str) -> list[Job]:
        return self._jobs(self.sql.HELD, node=node)

    def strays(self) -> list[Job]:
        return self._jobs(self.sql.STRAYS)

    def strayed_from(self) -> list[str]:
        return [node for (node,) in self._rows(self.sql.STRAYED_FROM)]

    def to_cancel(self, node: str) -> list[Job]:
        return self._jobs(self.sql.TO_CANCEL, node=node)

    # -- by hand ----------------------------------------------------------------------

    def apply_all(self, changes: Sequence[tuple[Job, Transition]], *, now: int) -> set[int]:
        rows = [
            fence(job) | transition_row(to, now) | {"now": now, "was": job.state.value}
            for job, to in changes
        ]
        return self._atomic(lambda: self._change_rows(self.sql.APPLY, rows)) if rows else set()

    def ask_cancel_all(self, jobs: Sequence[Job], reason: str, *, now: int) -> set[int]:
        rows = [fence(job) | {"reason": reason, "now": now} for job in jobs]
        return self._atomic(lambda: self._change_rows(self.sql.ASK_CANCEL, rows)) if rows else set()

    def remove_all(self, jobs: Sequence[Job]) -> set[int]:
        return self._atomic(lambda: self._remove_all({job.seq: job for job in jobs}))

    def _remove_all(self, jobs: Mapping[int, Job]) -> set[int]:
        # Who holds them decides whether they are still the same; nobody can change them then.
        same = {
            job.seq
            for job in self.lock(list(jobs.values()))
            if fence(job) == fence(jobs[job.seq])
            and job.state == jobs[job.seq].state != State.PROCESSING
        }
        if same:
            self._change(self._text(self.sql.REMOVE), {"seqs": self._list(sorted(same))})
        return same

    def prune(self, state: State, before: int, *, limit: int) -> int:
        return self._atomic(lambda: self._prune(state, before, limit))

    def _prune(self, state: State, before: int, limit: int) -> int:
        old = self._rows(self.sql.OLD, state=state.value, before=before, limit=limit)
        if not old:
            return 0
        return self._change(
            self._text(self.sql.REMOVE), {"seqs": self._list([seq for (seq,) in old])}
        )

    def prunable(self, state: State, before: int) -> int:
        count: int = self._value(self.sql.PRUNABLE, state=state.value, before=before)
        return count

    # -- attempts ---------------------------------------------------------------------

    def attempts(self, job: Job) -> list[Attempt]:
        return [
            Attempt(**dict(zip(ATTEMPT_COLUMNS, (job.id, *row), strict=True)))
            for row in self._rows(self.sql.ATTEMPTS, seq=job.seq)
        ]

    def output(self, job: Job, number: int) -> Output | None:
        rows = self._rows(self.sql.OUTPUT, seq=job.seq, number=number)
        if not rows:
            return None
        stdout, stderr, stdout_bytes, stderr_bytes = rows[0]
        return Output(
            stdout=bytes(stdout or b""),
            stderr=bytes(stderr or b""),
            stdout_bytes=stdout_bytes,
            stderr_bytes=stderr_bytes,
        )


def _can_fit(which: Filter) -> bool:
    """Tell whether any job can fit; a text that is too long to search for is a `UsageError`."""
    if not all(storable(word) for word in (which.text, *which.tags, *which.queues)):
        return False
    if len(which.text) > LONGEST_TEXT:
        raise UsageError(f"A text to search for can have {LONGEST_TEXT:,} characters at most.")
    return True
