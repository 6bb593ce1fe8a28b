"""Verbs about what runs tell and keep: results, progress, steps, and the data of their jobs."""

from collections.abc import Callable, Sequence
from typing import Any

from queuectl.errors import DuplicateError, LeaseLostError, StateError
from queuectl.facts import RunProgress, Step
from queuectl.job import Job, State
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
            seq = self._held(run)
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
            seq = self._held(run)
            rows = self._db.rows(self._sql.STEP, seq=seq, name=name)
            if not rows:
                return None
            step = _step(*rows[0])
            if step.seen == run.attempt:
                raise twice(run, name)
            row = {"seq": seq, "name": name, "number": run.attempt}
            self._db.change(self._sql.SEE_STEP, row)
            return step

        return self._db.transact(begin)

    def keep_step(self, run: RunId, name: str, output: bytes, *, now: int | None = None) -> None:
        def keep() -> None:
            seq = self._held(run)
            if self._db.rows(self._sql.STEP, seq=seq, name=name):
                raise twice(run, name)
            row = {"seq": seq, "name": name, "number": run.attempt, "output": output}
            place = self._db.value(self._sql.LAST_STEP, seq=seq) + 1
            at = self._idiom.time(now)
            self._db.change(self._sql.KEEP_STEP, row | {"place": place, "at": at})

        self._db.transact(keep)

    def steps(self, job: Job) -> list[Step]:
        return [_step(*row) for row in self._db.rows(self._sql.STEPS, seq=job.seq)]

    def _held(self, run: RunId) -> int:
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


def twice(run: RunId, name: str) -> DuplicateError:
    """Say that a run came by a step a second time."""
    return DuplicateError(
        f"Step {name!r} of job {run.job} comes twice in one run; give each step its own name."
    )


def no_data(run: RunId) -> StateError:
    """Say that a run has no data to change."""
    return StateError(f"Job {run.job} is a command; only data jobs have data.")
