"""Verbs about schedules: what they are, and the ticks that make jobs."""

from collections.abc import Callable, Mapping

from queuectl.errors import NotFoundError, QueuectlError, StateError, UsageError
from queuectl.facts import Event
from queuectl.host import whoami
from queuectl.job import Job, NewJob
from queuectl.schedule import Schedule, mark
from queuectl.store.contract import Decision, Jobs, Look, Schedules, Tick, Ticked, Topic
from queuectl.store.idiom import Idiom
from queuectl.store.schedules import locked, row_of, schedule_of
from queuectl.uniqueness import OnDuplicate
from queuectl.values import replace

AT_ONCE = 50
"""Schedules that are looked at in one transaction."""


class SqlSchedules(Schedules):
    """The schedules of a queue in an SQL database."""

    def __init__(self, idiom: Idiom, jobs: Jobs) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql
        self._jobs = jobs

    def all(self) -> list[Schedule]:
        return [schedule_of(row) for row in self._db.rows(self._sql.SCHEDULES)]

    def change(
        self,
        name: str,
        decide: Callable[[Schedule | None, int], Schedule | None],
        *,
        event: Event | None = None,
    ) -> Schedule | None:
        def change() -> Schedule | None:
            before = locked(self._db, name)
            after = decide(before, self._idiom.time(None))
            if after is None and before is not None:
                self._db.change(self._sql.DROP_TICKS, {"name": name})
                self._db.change(self._sql.DROP_SCHEDULE, {"name": name})
            elif after is not None:
                statement = self._sql.ADD_SCHEDULE if before is None else self._sql.CHANGE_SCHEDULE
                self._db.change(statement, row_of(after))
            self._idiom.record([] if event is None or after is before else [event])
            self._db.nudge(Topic.CONTROL)
            return after

        return self._db.transact(change)

    def tick(self, look: Look, *, name: str | None = None, now: int | None = None) -> list[Job]:
        return self._db.transact(lambda: self._tick(look, name, self._idiom.time(now)))

    def _tick(self, look: Look, name: str | None, now: int) -> list[Job]:
        if name is None:
            rows = self._db.rows(self._sql.DUE_SCHEDULES, now=now, limit=AT_ONCE)
            found = [schedule_of(row) for row in rows]
        else:
            one = locked(self._db, name)
            found = [] if one is None else [one]
        made: list[Job] = []
        for schedule in found:
            newest = self._newest(schedule)
            ticked = look(schedule, newest, now)
            if ticked is not None:
                made += self._make(ticked, newest, now, by_hand=name is not None)
        return made

    def _newest(self, schedule: Schedule) -> Job | None:
        if schedule.last_seq is None:
            return None
        jobs = self._jobs.at([schedule.last_seq])
        return jobs[0] if jobs else None

    def _make(self, ticked: Ticked, newest: Job | None, now: int, *, by_hand: bool) -> list[Job]:
        schedule = ticked.schedule
        made: list[Job] = []
        for planned, new in ticked.jobs:
            try:
                # Nothing of what is refused half way stays; nor does it keep others from ticking.
                with self._db.transaction():
                    job = self._make_one(schedule.name, planned, new, now)
            except (StateError, NotFoundError, UsageError) as error:
                # Who asks for it is told; a tick by itself is skipped.
                if by_hand:
                    raise
                self._idiom.record([_skipped(schedule.name, error, now)])
                continue
            if job is not None:
                made.append(job)
                schedule = replace(schedule, last_tick=planned, last_job=job.id, last_seq=job.seq)
        # First: the end of its newest job changes it again.
        self._db.change(self._sql.CHANGE_SCHEDULE, row_of(schedule))
        self._idiom.record(ticked.events)
        if ticked.cancel is not None and newest is not None:
            self._cancel(newest, ticked.cancel, now)
        return made

    def _make_one(self, name: str, planned: int, new: NewJob, now: int) -> Job | None:
        tick = {"schedule": name, "planned": planned}
        if self._db.rows(self._sql.TICK_MADE, **tick):
            return None
        job = self._enqueue(replace(new, tick=mark(name, planned)), now)
        made = {"seq": job.seq, "job": job.id, "now": now}
        self._db.change(self._sql.ADD_TICK, tick | made)
        return job

    def _enqueue(self, new: NewJob, now: int) -> Job:
        """Store a job; another one that has its unique key isn't the answer to a tick."""
        if new.unique is not None and new.on_duplicate in (None, OnDuplicate.RETURN):
            new = replace(new, on_duplicate=OnDuplicate.REJECT)
        return self._jobs.enqueue_one(new, now=now)

    def _cancel(self, newest: Job, decision: Decision, now: int) -> None:
        def decide(held: Mapping[int, Job], now: int) -> Mapping[int, Decision]:
            same = {seq for seq, job in held.items() if job.state == newest.state}
            return dict.fromkeys(same, decision)

        self._jobs.change([newest], decide, now=now)

    def ticks(self, name: str, limit: int) -> list[Tick]:
        return [Tick._make(row) for row in self._db.rows(self._sql.TICKS, name=name, limit=limit)]

    def next_at(self) -> int | None:
        at: int | None = self._db.value(self._sql.NEXT_TICK)
        return at


def _skipped(name: str, error: QueuectlError, now: int) -> Event:
    detail = f"{name}: skipped: {error}"
    return Event(at=now, kind="schedule", job=None, node=None, who=whoami(), detail=detail)
