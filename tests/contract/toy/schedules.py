"""The verbs about schedules and their ticks."""

from collections.abc import Callable
from dataclasses import replace

from queuectl.errors import NotFoundError, StateError, UsageError
from queuectl.facts import Event
from queuectl.host import whoami
from queuectl.job import Job
from queuectl.schedule import Schedule, mark
from queuectl.store.contract import Look, Schedules, Tick, Ticked
from queuectl.uniqueness import OnDuplicate
from tests.contract.toy.jobs import ToyJobs
from tests.contract.toy.memory import Memory, wall


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
        after = decide(before, wall())
        if after is None:
            self._memory.schedules.pop(name, None)
            for key in [key for key in self._memory.ticks if key[0] == name]:
                del self._memory.ticks[key]
        else:
            self._memory.schedules[name] = after
        self._memory.keep(None if after is before else event)
        return after

    def tick(self, look: Look, *, name: str | None = None, now: int | None = None) -> list[Job]:
        at = wall() if now is None else now
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
            except (StateError, NotFoundError, UsageError) as error:
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
