"""The verbs about sleeping jobs, and what is emitted for them."""

from collections.abc import Sequence
from dataclasses import replace

from queuectl.errors import StateError
from queuectl.facts import Emitted, Sleep, Step
from queuectl.job import Job, State
from queuectl.sleeping import is_over, wakes
from queuectl.store.contract import RunId, Sleeps, Wish
from tests.contract.toy.memory import Memory, wall
from tests.contract.toy.reports import ToyReports


class ToySleeps(Sleeps):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._reports = ToyReports(memory)

    def begin(self, run: RunId, wish: Wish, *, now: int | None = None) -> Step | Sleep:
        memory, now = self._memory, wall() if now is None else now
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
        memory, now = self._memory, wall() if now is None else now
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
