"""Verbs about jobs: storing, finding and counting them, and changing those that don't run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from queuectl.errors import DuplicateError
from queuectl.facts import Batch, Count, Edge
from queuectl.filter import Filter, Sort
from queuectl.job import Job, NewJob, OneOfMany, State, distinct
from queuectl.scope import reaches
from queuectl.store.changed import Changed
from queuectl.store.contract import (
    LONGEST_PIECE,
    Changes,
    Check,
    Decide,
    Jobs,
    Swapped,
    chunks,
)
from queuectl.store.driver import Params
from queuectl.store.idiom import Idiom
from queuectl.store.rows import (
    NewRow,
    can_be_sought,
    counted,
    joined_by,
    new_rows,
    one_of_many,
    storable,
    stored_job,
)
from queuectl.values import replace

if TYPE_CHECKING:
    from queuectl.store.crowding import Displaced

NEW = Changed(State.PENDING, (), wakes=True, new=True)
NOT_EDITED = Changed(State.PENDING, ())
MOST_HOOKS = 1_000


class SqlJobs(Jobs):
    """The jobs of a queue in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

    # -- storing ------------------------------------------------------------------------

    def enqueue_one(self, job: NewJob | OneOfMany, *, now: int) -> Job:
        one = job if isinstance(job, tuple) else one_of_many(job)
        id, model = one[0], one[-1]
        stdin = model.stdin
        if _needs_care(model) or model.has_limits or model.group is not None:
            return self._db.atomic(lambda: self._enqueue_carefully(one, now))
        (row,) = new_rows([one], now)
        if id is None and not stdin:
            return self._db.alone(lambda: self._enqueue_one(row))

        def enqueue() -> Job:
            if id is not None:
                self._refuse_taken([id])
            stored = self._enqueue_one(row)
            if stdin:
                self.add_input(stored.id, stdin)
            return stored

        return self._db.atomic(enqueue)

    def _enqueue_carefully(self, one: OneOfMany, now: int) -> Job:
        (id,) = self.enqueue([one], now=now).ids
        found = self.get(id)
        assert found is not None
        return found

    def _enqueue_one(self, row: NewRow) -> Job:
        seq = self._idiom.insert_job(row)
        self._idiom.after_change(NEW)
        return stored_job(row, seq)

    def enqueue(
        self, jobs: Sequence[NewJob | OneOfMany], *, now: int, skip_duplicates: bool = False
    ) -> Batch:
        many = [job if isinstance(job, tuple) else one_of_many(job) for job in jobs]
        ids, models = (list(map(itemgetter(place), many)) for place in (0, -1))
        chosen = list(filter(None, ids))
        rows = new_rows(many, now)
        shared = distinct(models)
        if any(map(_needs_care, shared)):
            return self._db.atomic(lambda: self._arrive(many, rows, chosen, now, skip_duplicates))
        inputs: dict[int, bytes] = {}
        if any(model.stdin for model in shared):
            inputs = {at: model.stdin for at, model in enumerate(models) if model.stdin}
        enqueue = self._enqueue_some if skip_duplicates else self._enqueue_all
        return self._db.atomic(lambda: enqueue(rows, models, chosen, inputs, now))

    def _arrive(
        self,
        many: Sequence[OneOfMany],
        rows: Sequence[NewRow],
        chosen: Sequence[str],
        now: int,
        skip_duplicates: bool,
    ) -> Batch:
        from queuectl.store.verbs.arriving import Arrival, New

        news = list(map(New, rows, map(itemgetter(-1), many)))
        taken = set(self.states(chosen)) if chosen else set()
        return Arrival(self._idiom, self, news, now).take(taken, skip_duplicates=skip_duplicates)

    def _refuse_taken(self, chosen: Sequence[str]) -> None:
        taken = next(iter(self.states(chosen)), None) if chosen else None
        if taken is not None:
            raise DuplicateError(
                f"The id {taken!r} is taken; choose another, or remove that job first"
                " (finished jobs keep their ids until they are pruned).",
                field="id",
            )

    def _enqueue_all(
        self,
        rows: Sequence[NewRow],
        models: Sequence[NewJob],
        chosen: Sequence[str],
        inputs: Mapping[int, bytes],
        now: int,
    ) -> Batch:
        """Store all of them; raises before anything is written, so nothing has to be undone."""
        twice = next((id for id, times in Counter(chosen).items() if times > 1), None)
        self._refuse_taken(chosen)
        if twice is not None:
            raise DuplicateError(
                f"The id {twice!r} is given twice in one request; nothing was enqueued."
            )
        dropped = self._insert(rows, models, inputs, now)
        return Batch(ids=tuple(map(itemgetter(0), rows)), dropped=dropped)

    def _enqueue_some(
        self,
        rows: Sequence[NewRow],
        models: Sequence[NewJob],
        chosen: Sequence[str],
        inputs: Mapping[int, bytes],
        now: int,
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
        dropped: tuple[str, ...] = ()
        if fresh:
            kept = {n: inputs[at] for n, at in enumerate(fresh.values()) if at in inputs}
            places = fresh.values()
            shared = [models[place] for place in places]
            dropped = self._insert([rows[place] for place in places], shared, kept, now)
        return Batch(ids=tuple(fresh), duplicates=tuple(duplicates), dropped=dropped)

    def _insert(
        self,
        rows: Sequence[NewRow],
        models: Sequence[NewJob],
        inputs: Mapping[int, bytes],
        now: int,
    ) -> tuple[str, ...]:
        """Store jobs; returns which of them their queues have dropped at once."""
        displaced: Sequence[Displaced] = ()
        if any(model.has_limits for model in distinct(models)):
            rows, displaced = self._idiom.limiting.place_new(rows, models)
        self._idiom.insert_jobs(rows)
        for place, data in inputs.items():
            self.add_input(rows[place][0], data)
        joined = joined_by(models)
        self._idiom.after_change(replace(NEW, joined=joined, at=now) if joined else NEW)
        if not displaced:
            return ()
        from queuectl.store.verbs.arriving import call_off

        call_off(self, displaced, now)
        return tuple(one.job for one in displaced if isinstance(one.job, str))

    def add_input(self, id: str, data: bytes) -> None:
        """Keep what the runs of a new job find on stdin, in pieces that every server takes."""
        for start in range(0, len(data), LONGEST_PIECE):
            piece = data[start : start + LONGEST_PIECE]
            self._db.change(self._sql.ADD_INPUT, {"id": id, "start": start, "data": piece})

    def replace_input(self, job: Job, data: bytes | None) -> None:
        """Have the runs of a job find something else on stdin."""
        self._db.change(self._sql.DROP_INPUT, {"seq": job.seq})
        self.add_input(job.id, data or b"")

    # -- finding ------------------------------------------------------------------------

    def stdin(self, job: Job) -> bytes:
        if job.stdin_bytes is None:
            return b""
        return b"".join(bytes(data) for (data,) in self._db.rows(self._sql.INPUT, seq=job.seq))

    def get(self, id: str) -> Job | None:
        jobs = self._idiom.jobs(self._sql.GET, id=id) if storable(id) else []
        return jobs[0] if jobs else None

    def like(self, prefix: str, limit: int = 10, *, tags: bool = False) -> list[str]:
        if not storable(prefix):
            return []
        end = prefix + "\U0010ffff"
        if tags:
            return self._tags_like(prefix, end, limit)
        rows = self._db.rows(self._sql.IDS_LIKE, prefix=prefix, beyond=end, limit=limit)
        return [id for (id,) in rows]

    def hooks(self, job: Job) -> list[Job]:
        from queuectl.hooks import Occasion, name_of

        found: list[Job] = []
        for prefix in [name_of(occasion, job.id) for occasion in Occasion]:
            span = {"prefix": prefix, "beyond": prefix + "\U0010ffff", "limit": MOST_HOOKS}
            found += self._idiom.jobs(self._sql.JOBS_LIKE, **span)
        return sorted((each for each in found if each.hook_of == job.id), key=lambda each: each.seq)

    def _tags_like(self, prefix: str, end: str, limit: int) -> list[str]:
        exact = prefix and self.select(Filter(tags=(prefix,)), limit=1)
        found = [prefix] if exact else []
        last = prefix
        while len(found) < limit:
            last = self._db.value(self._sql.NEXT_TAG, tag=last, end=end)
            if last is None:
                break
            found.append(last)
        return found[:limit]

    def select(
        self,
        which: Filter,
        *,
        limit: int | None,
        after: int | None = None,
        last: int | None = None,
        oldest: bool = False,
    ) -> list[Job]:
        from queuectl.store.selection import select_seqs

        if not _can_fit(which):
            return []
        with self._db.snapshot():
            seqs = select_seqs(
                self._sql,
                self._look,
                self.counts,
                which,
                needle=self._db.driver.dialect.needle,
                limit=limit,
                after=after,
                last=last,
                oldest=oldest,
            )
            jobs = self._at(seqs)
        return jobs if oldest else jobs[::-1]

    def horizon(
        self, which: Filter, *, looks: int, after: int | None = None, oldest: bool = False
    ) -> Job | None:
        from queuectl.store.selection import horizon

        if not _can_fit(which):
            return None
        with self._db.snapshot():
            seq = horizon(
                self._sql,
                self._look,
                self.counts,
                which,
                looks=looks,
                after=after,
                oldest=oldest,
            )
            return None if seq is None else next(iter(self._at([seq])), None)

    def places(self, which: Filter, by: Sequence[Sort], *, limit: int | None) -> list[int]:
        from queuectl.store.selection import sorted_seqs

        if not _can_fit(which):
            return []
        with self._db.snapshot():
            return sorted_seqs(
                self._sql,
                self._look,
                self.counts,
                which,
                by,
                needle=self._db.driver.dialect.needle,
                limit=limit,
            )

    def at(self, places: Sequence[int]) -> list[Job]:
        found = {job.seq: job for job in self._at(places)}
        return [found[seq] for seq in places if seq in found]

    def _at(self, seqs: Sequence[int]) -> list[Job]:
        if not seqs:
            return []
        return self._idiom.jobs(self._sql.JOBS_AT, seqs=self._idiom.bind(seqs))

    def _look(
        self, statement: str, conditions: Sequence[str], direction: str, params: Params
    ) -> list[int]:
        """Run one of the selecting statements with these conditions."""
        where = " AND ".join(conditions) or "1 = 1"
        text = statement.replace("{conditions}", where).replace("{direction}", direction)
        return [seq for (seq,) in self._db.rows(text, **params)]

    def states(self, ids: Sequence[str]) -> dict[str, State]:
        found: dict[str, State] = {}
        for part in chunks(ids, 5_000):
            known = [id for id in part if storable(id)]
            rows = self._db.rows(self._sql.STATES, ids=self._idiom.bind(known)) if known else []
            found.update((id, State(state)) for id, state in rows)
        return found

    def counts(self) -> list[Count]:
        return counted(self._db.rows(self._sql.COUNTS))

    def count_held(self, queues: Sequence[str]) -> dict[str, int]:
        names = self._idiom.bind(sorted(queues))
        return dict(self._db.rows(self._sql.HELD_BY_HAND, ids=names)) if queues else {}

    # -- jobs that wait for others -------------------------------------------------------

    def parents(self, jobs: Sequence[Job]) -> list[Edge]:
        seqs = self._idiom.bind([job.seq for job in jobs])
        rows = self._db.rows(self._sql.PARENTS, seqs=seqs) if jobs else []
        return [edge_of(*row) for row in sorted(rows)]

    def children(self, jobs: Sequence[Job], *, limit: int) -> list[Edge]:
        if not jobs:
            return []
        seqs = self._idiom.bind([job.seq for job in jobs])
        rows = self._db.rows(self._sql.CHILDREN, seqs=seqs, limit=limit)
        return [edge_of(*row) for row in sorted(rows, key=_by_parent)]

    @property
    def unsettled(self) -> bool:
        return self._idiom.has_untold

    def settle(self) -> bool:
        return self._db.atomic(self._idiom.settle)

    # -- changing -----------------------------------------------------------------------

    def change(self, jobs: Sequence[Job], decide: Decide, *, now: int | None = None) -> Changes:
        return self._db.transact(lambda: self.change_within(jobs, decide, now)) if jobs else {}

    def change_within(self, jobs: Sequence[Job], decide: Decide, now: int | None) -> Changes:
        from queuectl.store.verbs.decided import Decided

        found = self.lock([job.seq for job in jobs])
        held = {seq: job for seq, job in found.items() if reaches(job.queue)}
        now = self._db.driver.clock.now() if now is None else now
        decided = decide(held, now)
        Decided(self._idiom, self.lock, held, decided, now).carry_out()
        after = self.lock(list(decided))
        return {seq: after.get(seq) for seq in decided}

    def swap(self, first: Job, second: Job, check: Check, *, now: int | None = None) -> Swapped:
        from queuectl.store.placing import swap

        def exchange() -> Swapped:
            return swap(self._idiom, first, second, check, self._idiom.time(now))

        return self._db.transact(exchange)

    def lock(self, seqs: Sequence[int]) -> dict[int, Job]:
        """Return jobs as they are now: until the transaction is over, nobody else changes them."""
        bound = self._idiom.bind(seqs)
        found = self._idiom.jobs(self._sql.LOCK_JOBS, seqs=bound) if seqs else []
        return {job.seq: job for job in found}

    def prune(self, state: State, before: int, *, limit: int | None) -> int:
        if limit is not None:
            return self._db.atomic(lambda: self._prune(state, before, limit))
        count: int = self._db.value(self._sql.PRUNABLE, state=state.value, before=before)
        return count

    def _prune(self, state: State, before: int, limit: int) -> int:
        old = self._db.rows(self._sql.OLD, state=state.value, before=before, limit=limit)
        if not old:
            return 0
        seqs = [seq for (seq,) in old]
        pruned = self._db.change(self._sql.REMOVE, {"seqs": self._idiom.bind(seqs)})
        self._idiom.after_change(Changed(None, seqs))
        return pruned


_by_parent = itemgetter(1, 0)


def edge_of(child: int, parent: int, id: str, wanted: str, came_to: str | None, met: int) -> Edge:
    """Return what a row says of who waits for whom."""
    from queuectl.store.changed import GROUPS_AT

    return Edge(
        child=child,
        parent=parent,
        parent_id=id,
        wanted=wanted,
        came_to=came_to,
        is_met=bool(met),
        is_group=parent >= GROUPS_AT,
    )


def _needs_care(model: NewJob) -> bool:
    """Tell whether a new job is more than a row: a unique key or other jobs decide about it."""
    return bool(model.unique is not None or model.after or model.after_group)


def _can_fit(which: Filter) -> bool:
    """Tell whether any job can fit; a text that is too long to search for is a `UsageError`."""
    words = (*which.tags, *which.queues, *which.types, *which.keys, *which.groups)
    return all(map(storable, words)) and can_be_sought(which.text)
