"""Verbs about the output of a run while it goes on, for those who can't see its host's files."""

from collections.abc import Sequence
from typing import Any

from queuectl.job import Job
from queuectl.store.contract import LONGEST_PIECE, LiveOutput, Piece, Shown, Topic
from queuectl.store.database import Database

PIECES_AT_ONCE = 8
"""Pieces of live output in one answer."""


class SqlLiveOutput(LiveOutput):
    """The live output of runs in an SQL database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql

    def watch(self, job: Job, *, until: int, now: int, first: bool = False) -> None:
        run = _run_of(job)

        def ask() -> None:
            self._db.change(self._sql.ADD_WATCH, run)
            if self._db.change(self._sql.BEGIN_WATCH, {**run, "until": until, "now": now}):
                self._db.change(self._sql.DROP_LIVE, run)
            else:
                self._db.change(self._sql.EXTEND_WATCH, {**run, "until": until})
            if first:
                self._db.nudge(Topic.CONTROL)

        self._db.atomic(ask)

    def watched(self, jobs: Sequence[Job], *, now: int) -> dict[int, int]:
        if not jobs:
            return {}
        numbers = {job.seq: job.attempts for job in jobs}
        seqs = self._db.driver.dialect.bind_list(list(numbers))
        rows = self._db.rows(self._sql.WATCHED, seqs=seqs, now=now)
        return {seq: until for seq, number, until in rows if numbers[seq] == number}

    def show(self, *shown: Shown) -> None:
        def show() -> None:
            for job, stream, pieces, gap in shown:
                run = _run_of(job) | {"stream": stream}
                for piece in pieces:
                    row = {"start": piece.start, "data": piece.data}
                    self._db.change(self._sql.ADD_LIVE, run | row)
                if gap is not None:
                    self._db.change(self._sql.TRIM_LIVE, run | {"first": gap[0], "before": gap[1]})

        self._db.atomic(show)

    def pieces(self, job: Job, stream: str, *, after: int) -> list[Piece]:
        rows = self._db.rows(
            self._sql.LIVE,
            **_run_of(job),
            stream=stream,
            after=after,
            longest=LONGEST_PIECE,
            limit=PIECES_AT_ONCE,
        )
        return [Piece(stream=stream, start=start, data=bytes(data)) for start, data in rows]

    def end(self, job: Job) -> None:
        def end() -> None:
            self._db.change(self._sql.DROP_WATCH, _run_of(job))
            self._db.change(self._sql.DROP_LIVE, _run_of(job))

        self._db.atomic(end)


def _run_of(job: Job) -> dict[str, Any]:
    """Name the newest run of a job."""
    return {"seq": job.seq, "number": job.attempts}
