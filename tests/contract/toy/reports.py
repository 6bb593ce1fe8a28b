"""The verbs about what runs tell and keep: results, progress, steps."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from queuectl.errors import DuplicateError, LeaseLostError, StateError
from queuectl.facts import RunProgress, Step
from queuectl.job import Job, State, Usage
from queuectl.store.contract import Reports, RunId
from tests.contract.toy.memory import Memory, wall


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

    def usages(self, jobs: Sequence[Job]) -> dict[int, Usage]:
        newest = {job.seq: self._memory.attempts[job.seq][-1:] for job in jobs}
        return {
            seq: Usage(
                peak_memory=run.peak_memory,
                cpu_ms=run.cpu_ms,
                read_bytes=run.read_bytes,
                written_bytes=run.written_bytes,
            )
            for seq, runs in newest.items()
            for run in runs
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
        data, at = make(job.data), wall() if now is None else now
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
        at = wall() if now is None else now
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
