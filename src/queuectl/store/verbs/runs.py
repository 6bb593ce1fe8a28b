"""Verbs about runs: claiming jobs, ending their runs, and what a node has in its hands."""

from collections.abc import Sequence

from queuectl.job import Job, State
from queuectl.store.contract import Claimed, Ended, Runs, Suspects
from queuectl.store.idiom import Changed, Idiom
from queuectl.store.rollups import Tally
from queuectl.store.rows import death_of, ended_row, fence, output_row


class SqlRuns(Runs):
    """The runs of jobs in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

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
        return self._idiom.claim(node, workers, queues, now, suspects)

    def outlook(self, queues: Sequence[str], *, now: int) -> tuple[bool, int | None]:
        rows = self._db.rows(self._sql.OUTLOOK)
        if any(name is not None and (not queues or name in queues) for _, _, name in rows):
            return True, None
        soonest = min((at for at in rows[0][:2] if at is not None), default=None)
        return soonest is not None and soonest <= now, soonest

    def finish(self, ends: Sequence[Ended]) -> list[Ended]:
        if not ends:
            return []
        fitting = [self._idiom.fit(end) for end in ends]
        lost = set(map(id, self._db.atomic(lambda: self._finish(fitting))))
        return [end for end, fits in zip(ends, fitting, strict=True) if id(fits) in lost]

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
        finished = self._idiom.end_runs(rows)
        tally = Tally()
        lost = []
        changed = []
        for end in ends:
            if end.job.seq not in finished:
                lost.append(end)
                continue
            tally.add(end)
            event = None
            if end.transition.state == State.DEAD:
                reason, at = end.transition.reason, end.settled_at
                event = death_of(end.job, reason, at=at, node=end.job.node)
            changed.append(Changed(event, ready=rows[end.job.seq]["ready"] == 1))
            if end.output.stdout or end.output.stderr:
                self._db.change(self._sql.KEEP_OUTPUT, output_row(end))
        if finished:
            tally.count_for_ever()
            self._db.insert(self._sql.ADD_ROLLUPS, list(tally.rows()))
        self._idiom.after_change(changed)
        return lost

    def put_back(self, jobs: Sequence[Job], *, now: int) -> list[Job]:
        return self._db.atomic(lambda: self._put_back(jobs, now)) if jobs else []

    def _put_back(self, jobs: Sequence[Job], now: int) -> list[Job]:
        rows = [fence(job) | {"node": job.node, "now": now} for job in jobs]
        back = self._db.update(self._sql.PUT_BACK, rows)
        self._idiom.after_change([Changed(ready=True)] * len(back))
        return [job for job in jobs if job.seq not in back]

    def held(self, node: str) -> list[Job]:
        return self._idiom.jobs(self._sql.HELD, node=node)

    def strays(self) -> list[Job]:
        return self._idiom.jobs(self._sql.STRAYS)

    def strayed_from(self) -> list[str]:
        return [node for (node,) in self._db.rows(self._sql.STRAYED_FROM)]

    def to_cancel(self, node: str) -> list[Job]:
        return self._idiom.jobs(self._sql.TO_CANCEL, node=node)
