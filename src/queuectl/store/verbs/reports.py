"""Verbs about what runs tell and keep: results, progress, steps, and the data of their jobs."""

from collections.abc import Callable, Sequence
from typing import Any

from queuectl.errors import DuplicateError, LeaseLostError, StateError
from queuectl.facts import RunProgress, Sleep, Step
from queuectl.job import Job, State, Usage
from queuectl.store.contract import Reports, RunId
from queuectl.store.idiom import Idiom


class SqlReports(Reports):
    """What runs tell and keep in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

    def results(self, jobs: Sequence[Job]) -> dict[int, str]:
        wanted = {job.seq: job.attempts for job in jobs if job.state == State.COMPLETED}
        rows = self._of(self._sql.RESULTS, list(wanted))
        return {seq: value for seq, number, value in rows if wanted[seq] == number}

    def usages(self, jobs: Sequence[Job]) -> dict[int, Usage]:
        seqs = [job.seq for job in jobs if job.attempts]
        # The newest of each comes last.
        return {
            seq: Usage(peak_memory=memory, cpu_ms=cpu, read_bytes=read, written_bytes=written)
            for seq, _, memory, cpu, read, written in self._of(self._sql.USAGES, seqs)
        }

    def set_progress(self, *progress: tuple[Job, RunProgress]) -> None:
        def tell() -> None:
            for job, told in progress:
                run = RunId(job.id, told.number, job.node or "")
                if self._hold(run) is not None:
                    self._db.change(self._sql.SET_PROGRESS, _progress_row(told))

        self._db.atomic(tell)

    def progress(self, jobs: Sequence[Job]) -> dict[int, RunProgress]:
        numbers = {job.seq: job.attempts for job in jobs}
        rows = self._of(self._sql.PROGRESS, list(numbers))
        names = ("seq", "number", "percent", "note", "at")
        found = [RunProgress(**dict(zip(names, row, strict=True))) for row in rows]
        return {one.seq: one for one in found if one.number == numbers[one.seq]}

    def _of(self, statement: str, seqs: Sequence[int]) -> list[tuple[Any, ...]]:
        return self._db.rows(statement, seqs=self._idiom.bind(seqs)) if seqs else []

    # -- data ---------------------------------------------------------------------------

    def running(self, run: RunId) -> Job:
        jobs = self._idiom.jobs(self._sql.RUNNING, **_fence(run))
        if not jobs:
            raise lost(run)
        return jobs[0]

    def set_data(
        self, run: RunId, make: Callable[[bytes], bytes], *, now: int | None = None
    ) -> bytes:
        def change() -> bytes:
            seq = self.held(run)
            data = self._db.value(self._sql.DATA, seq=seq)
            if data is None:
                raise no_data(run)
            made = make(bytes(data))
            row = {"seq": seq, "data": made, "now": self._idiom.time(now)}
            self._db.change(self._sql.SET_DATA, row)
            return made

        return self._db.transact(change)

    # -- steps --------------------------------------------------------------------------

    def begin_step(self, run: RunId, name: str) -> Step | None:
        def begin() -> Step | None:
            seq = self.place(run)
            rows = self._db.rows(self._sql.SLEEPS, seqs=self._idiom.bind([seq]))
            for said in rows:
                sleep = sleep_of(*said)
                if sleep.number == run.attempt:
                    raise asleep(run, sleep)
            return self.come_by(run, seq, name)

        return self._db.transact(begin)

    def come_by(self, run: RunId, seq: int, name: str) -> Step | None:
        """Return a step that is done, and note that a run came by it, within a transaction."""
        rows = self._db.rows(self._sql.STEP, seq=seq, name=name)
        if not rows:
            return None
        step = _step(*rows[0])
        if step.seen == run.attempt:
            raise twice(run, name)
        row = {"seq": seq, "name": name, "number": run.attempt}
        self._db.change(self._sql.SEE_STEP, row)
        return step

    def keep_step(self, run: RunId, name: str, output: bytes, *, now: int | None = None) -> None:
        def keep() -> None:
            seq = self.held(run)
            if self._db.rows(self._sql.STEP, seq=seq, name=name):
                raise twice(run, name)
            self.add(run, seq, name, output, self._idiom.time(now))

        self._db.transact(keep)

    def add(self, run: RunId, seq: int, name: str, output: bytes, at: int) -> Step:
        """Keep a step behind all others, within a transaction that holds the run."""
        row = {"seq": seq, "name": name, "number": run.attempt, "output": output, "at": at}
        place = self._db.value(self._sql.LAST_STEP, seq=seq) + 1
        self._db.change(self._sql.KEEP_STEP, row | {"place": place})
        return _step(name, run.attempt, run.attempt, output, at)

    def steps(self, job: Job) -> list[Step]:
        return [_step(*row) for row in self._db.rows(self._sql.STEPS, seq=job.seq)]

    def was_by(self, run: RunId, seq: int, name: str) -> bool:
        """Tell whether a run has come by a step, within a transaction."""
        rows = self._db.rows(self._sql.STEP, seq=seq, name=name)
        return bool(rows) and _step(*rows[0]).seen == run.attempt

    def place(self, run: RunId) -> int:
        """Return the place of the job of a run, which may lose it at any time."""
        rows = self._db.rows(self._sql.FIND_RUN, **_fence(run))
        if not rows:
            raise lost(run)
        return int(rows[0][0])

    def held(self, run: RunId) -> int:
        """Return the place of the job of a run, which stays this run's until all is written."""
        seq = self._hold(run)
        if seq is None:
            raise lost(run)
        return seq

    def _hold(self, run: RunId) -> int | None:
        rows = self._db.rows(self._sql.HOLD_RUN, **_fence(run))
        return int(rows[0][0]) if rows else None


def _fence(run: RunId) -> dict[str, Any]:
    return {"id": run.job, "attempt": run.attempt, "node": run.node}


def _step(name: str, number: int, seen: int, output: bytes, at: int) -> Step:
    return Step(name=name, number=number, seen=seen, output=bytes(output), at=at)


def sleep_of(
    seq: int, number: int, step: str, awaits: str | None, until: int | None, at: int, woken: int
) -> Sleep:
    """Return what a row says of a job that sleeps."""
    return Sleep(
        seq=seq, number=number, step=step, awaits=awaits, until=until, at=at, woken=bool(woken)
    )


def _progress_row(told: RunProgress) -> dict[str, Any]:
    return {
        "seq": told.seq,
        "number": told.number,
        "percent": told.percent,
        "note": told.note,
        "at": told.at,
    }


def lost(run: RunId) -> LeaseLostError:
    """Say that a run isn't that of its job any more."""
    return LeaseLostError(
        f"Run {run.attempt} of job {run.job} has lost its lease, so that nothing of it is stored."
    )


def asleep(run: RunId, sleep: Sleep) -> StateError:
    """Say that a run goes on though it has given its worker back."""
    return StateError(
        f"Run {run.attempt} of job {run.job} {sleep} since its step {sleep.step!r}, and does no"
        " other; it should have ended there.",
        advice="begin the script with set -e.",
    )


def twice(run: RunId, name: str) -> DuplicateError:
    """Say that a run came by a step a second time."""
    return DuplicateError(
        f"Step {name!r} of job {run.job} comes twice in one run; give each step its own name."
    )


def no_data(run: RunId) -> StateError:
    """Say that a run has no data to change."""
    return StateError(f"Job {run.job} is a command; only data jobs have data.")
