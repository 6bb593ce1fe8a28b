"""New jobs about which more is to be decided: by unique keys, limits, and those they wait for.

In one transaction, in the order of the requests: who has the unique key of each, what becomes of
the request then, who takes it; then their places in the line, and who has to go for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from queuectl.dependencies import standing_in
from queuectl.errors import DuplicateError
from queuectl.facts import Batch, Event
from queuectl.host import whoami
from queuectl.job import FINISHED, Job, NewJob, State, distinct
from queuectl.lifecycle import cancelled
from queuectl.scope import reaches
from queuectl.store.changed import Changed, Moves
from queuectl.store.contract import Changes, Decide, Decision, Edit, EndRun, chunks
from queuectl.store.crowding import AT_ONCE, Displaced, Succession
from queuectl.store.edges import Link
from queuectl.store.idiom import Idiom
from queuectl.store.naming import Names, told_of
from queuectl.store.rows import NewRow, joined_by, stored_job, with_parents, with_values
from queuectl.uniqueness import Holding, OnDuplicate, latest_start, taken_by
from queuectl.values import replace
from queuectl.when import LATEST

_KEEPS = (
    "id seq state attempts failures crashes node worker created_at started_at finished_at"
    " duration_ms exit_code error reason cancel_reason forced tick hook body_digest vtime"
    " parked after after_group if_parent_fails open_parents has_children group"
).split()
"""What a job keeps that becomes what another request asks for."""


class Line(Protocol):
    """The jobs that are there, as a part of the same transaction."""

    def get(self, id: str) -> Job | None: ...
    def at(self, places: Sequence[int]) -> list[Job]: ...
    def lock(self, seqs: Sequence[int]) -> dict[int, Job]: ...
    def change_within(self, jobs: Sequence[Job], decide: Decide, now: int | None) -> Changes: ...
    def add_input(self, id: str, data: bytes) -> None: ...
    def replace_input(self, job: Job, data: bytes | None) -> None: ...


class New(NamedTuple):
    """A job on its way in."""

    row: NewRow
    model: NewJob

    @property
    def id(self) -> str:
        return self.row[0]


class Arrival:
    """Some jobs on their way in, as a part of a transaction."""

    def __init__(self, idiom: Idiom, jobs: Line, news: Sequence[New], now: int) -> None:
        self._idiom = idiom
        self._jobs = jobs
        self._news = news
        self._now = now
        models = distinct(new.model for new in news)
        keys = {model.unique for model in models if model.unique is not None}
        self._names = Names(idiom.db, list(keys), now)
        self._names.lock(
            {model.unique or "" for model in models if _changes_holder(model)}, jobs.lock
        )
        self._stored: dict[str, New] = {}
        self._edited: dict[int, tuple[Job, New]] = {}
        """What becomes of jobs that are there, by their places."""
        self._succession = Succession()
        self._took: dict[str, list[str]] = {}
        """Which new jobs take keys that others have, in their order."""
        self._had: dict[str, Holding] = {}
        """What those had of these keys, by their ids."""
        self._displaced: list[Displaced] = []
        self._instead: dict[str, str] = {}
        """Which jobs stand for requests that aren't stored as these have their keys, by their ids.
        """
        self._ids: list[str] = []
        self._existing: list[str] = []
        self._duplicates: list[str] = []
        self._refused: dict[int, str] = {}
        """Why some aren't stored, by how many requests came before each."""

    def take(self, taken: set[str], *, skip_duplicates: bool) -> Batch:
        """Store what is to be stored; ids that are taken, and keys, are passed over or raise."""
        self._choose(taken, skip=skip_duplicates)
        self._insert(list(self._stored.values()))
        self._replace()
        self._names.write()
        self._edit()
        call_off(self._jobs, self._displaced, self._now)
        return Batch(
            ids=tuple(self._ids),
            duplicates=tuple(self._duplicates),
            existing=tuple(self._existing),
            dropped=tuple(str(one.job) for one in self._displaced if one.job in self._stored),
            refused=tuple(self._refused.values()),
            refused_at=tuple(self._refused),
        )

    def _choose(self, taken: set[str], *, skip: bool) -> None:
        """Find out which of them are stored."""
        for at, new in enumerate(self._news):
            if self._is_settled(new, at, skip=skip):
                continue
            if new.id in taken or new.id in self._stored:
                if not skip:
                    raise DuplicateError(
                        f"The id {new.id!r} is taken; nothing was enqueued.", field="id"
                    )
                self._duplicates.append(new.id)
                continue
            self._stored[new.id] = self._with_key(self._with_parents(new))
            self._ids.append(new.id)

    def _with_parents(self, new: New) -> New:
        """Have a job wait for those that stand for its parents."""
        if not self._instead or not new.model.after:
            return new
        after = standing_in(new.model.after, self._instead)
        if after == tuple(new.model.after):
            return new
        model = replace(new.model, after=after)
        return New(with_parents(new.row, model), model)

    # -- unique keys --------------------------------------------------------------------

    def _is_settled(self, new: New, at: int, *, skip: bool) -> bool:
        """Do to a request what its key says, if another job has that; False to store it.

        It is the one that so many came before.
        """
        key = new.model.unique
        holder = None if key is None else self._names.holder(key)
        if key is None or holder is None:
            return False
        how = new.model.on_duplicate or OnDuplicate.RETURN
        is_ours = reaches(holder.queue)
        if how == OnDuplicate.REPLACE and is_ours:
            return False
        is_late = is_ours and how == OnDuplicate.DEBOUNCE and not _waits(holder)
        if not is_ours or how == OnDuplicate.REJECT or is_late:
            only = "; only a job that waits can be debounced" if is_late else ""
            error = DuplicateError(f"{told_of(key, holder)}{only}; nothing was enqueued.")
            if not skip:
                raise error
            self._refused[at] = error.alone
            return True
        if how == OnDuplicate.DEBOUNCE:
            self._debounce(new, key, holder)
        self._instead[new.id] = holder.id
        self._ids.append(holder.id)
        self._existing.append(holder.id)
        return True

    def _debounce(self, new: New, key: str, holder: Job) -> None:
        """Have a job that waits become what another request asks for."""
        since = self._names.holding(key).since
        moved = new._replace(row=_due(new, since, self._now))
        if holder.id in self._stored:
            row = (holder.id, *moved.row[1:])
            self._stored[holder.id] = moved._replace(row=row)
            had = taken_by(new.model, holder.id, self._now, since=since)
            self._names.take(key, stored_job(row, 0), had)
            return
        had = taken_by(new.model, holder.id, self._now, attempts=holder.attempts, since=since)
        self._names.take(key, holder, had)
        asked = stored_job(moved.row, holder.seq)
        kept = {name: getattr(holder, name) for name in _KEEPS}
        if holder.parked and (asked.queue, asked.keys) != (holder.queue, holder.keys):
            kept["parked"] = None
        self._edited[holder.seq] = replace(asked, **kept), new

    def _with_key(self, new: New) -> New:
        """Let a new job have its key; returns it as it is stored."""
        key = new.model.unique
        if key is None:
            return new
        if new.model.on_duplicate == OnDuplicate.DEBOUNCE:
            new = new._replace(row=_due(new, self._now, self._now))
        if (holder := self._names.holder(key)) is not None:
            self._succession.add(new.id, holder)
            self._took.setdefault(key, []).append(new.id)
            self._had[holder.id] = self._names.holding(key)
        self._names.take(key, stored_job(new.row, 0), taken_by(new.model, new.id, self._now))
        return new

    def _replace(self) -> None:
        """Call off those whose keys were taken; a job that its queue has dropped takes none."""
        for key, ids in self._took.items():
            for id in ids:
                holder = self._succession.before(id)
                if holder is not None and id not in self._succession.dropped:
                    reason = f"{id} took its place and its unique key {key!r}"
                    self._displaced.append(Displaced(holder.seq or holder.id, reason))
            holder = self._succession.before(ids[-1])
            if holder is not None and ids[-1] in self._succession.dropped:
                self._names.take(key, holder, self._had[holder.id])

    # -- storing ------------------------------------------------------------------------

    def _insert(self, news: Sequence[New]) -> None:
        """Store jobs; limits of their queues decide about some of them."""
        rows: Sequence[NewRow] = [new.row for new in news]
        models = [new.model for new in news]
        shared = distinct(models)
        links = []
        if any(model.after or model.after_group for model in shared):
            links = [
                Link(new.id, new.model.after, new.model.after_group, new.model.group)
                for new in news
                if new.model.after or new.model.after_group
            ]
            new_groups = {new.model.group for new in news if new.model.group is not None}
            new_ids = [new.id for new in news]
            parents = self._idiom.edges.find_parents(links, new_ids, new_groups, self._now)
            waiting = {link.id for link in links}
            rows = [
                with_values(row, state=State.BLOCKED.value, ready=None)
                if row[0] in waiting
                else row
                for row in rows
            ]
        if any(model.has_limits for model in shared):
            rows, displaced = self._idiom.limiting.place_new(rows, models, self._succession)
            self._displaced += displaced
        if rows:
            self._idiom.insert_jobs(rows)
            if any(model.stdin for model in shared):
                for new in news:
                    if new.model.stdin:
                        self._jobs.add_input(new.id, new.model.stdin)
            joined = joined_by(models)
            self._idiom.after_change(
                Changed(State.PENDING, (), wakes=True, new=True, joined=joined, at=self._now)
            )
            if links:
                moves = Moves()
                self._idiom.edges.link(links, parents, self._now, moves)
                self._idiom.spread([], [], moves, self._now)

    def _edit(self) -> None:
        if not self._edited:
            return

        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            return {
                seq: Decision(Edit(self._edited[seq][0]), self._event(held[seq])) for seq in held
            }

        jobs = [job for job, _ in self._edited.values()]
        self._jobs.change_within(jobs, decide, self._now)
        for job, new in self._edited.values():
            self._jobs.replace_input(job, new.model.stdin)

    def _event(self, job: Job) -> Event:
        detail = f"unique key {job.unique_key!r}: a later request took the place of: {job.title}"
        return Event(
            at=self._now, kind="debounce", job=job.id, node=None, who=whoami(), detail=detail
        )


def call_off(jobs: Line, displaced: Iterable[Displaced], now: int) -> None:
    """Cancel the jobs that have to go, or end their runs."""
    why = {_place_of(jobs, one.job): one.reason for one in displaced}
    if not why:
        return

    def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
        decided = {}
        for seq, job in held.items():
            if job.state in FINISHED or job.cancel_reason is not None:
                continue
            runs = job.state == State.PROCESSING
            to = EndRun(why[seq]) if runs else cancelled(job, why[seq])
            event = Event(
                at=now, kind="cancel", job=job.id, node=None, who=whoami(), detail=why[seq]
            )
            decided[seq] = Decision(to, event)
        return decided

    for some in chunks(sorted(why), AT_ONCE):
        jobs.change_within(jobs.at(some), decide, now)


def _place_of(jobs: Line, job: int | str) -> int:
    found = jobs.get(job) if isinstance(job, str) else None
    return job if isinstance(job, int) else found.seq if found is not None else 0


def _changes_holder(model: NewJob) -> bool:
    changes = (OnDuplicate.REPLACE, OnDuplicate.DEBOUNCE)
    return model.unique is not None and model.on_duplicate in changes


def _waits(job: Job) -> bool:
    return job.state in (State.PENDING, State.FAILED)


def _due(new: New, since: int, now: int) -> NewRow:
    """Return the row of a request that is put off no longer than it can wait."""
    asked = stored_job(new.row, 0).run_at
    run_at = latest_start(asked, since, new.model.max_wait)
    model = new.model
    if run_at == asked:
        return new.row
    values = {"run_at": run_at, "ready": int(run_at <= now)}
    if model.expires_at is None and model.expire:
        values["expires_at"] = min(max(now, run_at) + model.expire, LATEST)
    return with_values(new.row, **values)
