"""Verbs about jobs that have given their workers back, and about what is emitted for them."""

from collections.abc import Sequence

from queuectl.facts import Emitted, Sleep, Step
from queuectl.job import Job, State
from queuectl.sleeping import is_over, wakes
from queuectl.store.changed import Changed
from queuectl.store.contract import RunId, Sleeps, Wish
from queuectl.store.idiom import Idiom
from queuectl.store.rows import storable
from queuectl.store.verbs.reports import SqlReports, asleep, sleep_of


class SqlSleeps(Sleeps):
    """Who sleeps in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql
        self._reports = SqlReports(idiom)

    # -- falling asleep -----------------------------------------------------------------

    def begin(self, run: RunId, wish: Wish, *, now: int | None = None) -> Step | Sleep:
        return self._db.transact(lambda: self._begin(run, wish, self._idiom.time(now)))

    def _begin(self, run: RunId, wish: Wish, now: int) -> Step | Sleep:
        # First of all, as who emits it does: what isn't there yet finds us asleep.
        came = None if wish.awaits is None else self._hold(wish.awaits)
        seq = self._reports.held(run)
        name = self._name(run, seq, wish)
        was = self.find([seq]).get(seq)
        if was is not None and was.step != name:
            if was.number == run.attempt:
                raise asleep(run, was)
            was = None
        if (done := self._reports.come_by(run, seq, name)) is not None:
            return done
        until, at = (wish.ends_at(now), now) if was is None else (was.until, was.at)
        if is_over(came, until, now):
            self._db.change(self._sql.DROP_SLEEP, {"seq": seq})
            told = b"" if came is None else came.payload.encode()
            return self._reports.add(run, seq, name, told, now)
        row = {"seq": seq, "number": run.attempt, "step": name, "awaits": wish.awaits}
        self._db.change(self._sql.FALL_ASLEEP, row | {"until": until, "at": at})
        return sleep_of(seq, run.attempt, name, wish.awaits, until, at, 0)

    def _name(self, run: RunId, seq: int, wish: Wish) -> str:
        """Return the name of the step: the first by which the run hasn't come, if it may choose."""
        name, number = wish.step, 1
        while wish.numbered and self._reports.was_by(run, seq, name):
            number += 1
            name = f"{wish.step} #{number}"
        return name

    # -- who sleeps ---------------------------------------------------------------------

    def of(self, jobs: Sequence[Job]) -> dict[int, Sleep]:
        known = {job.seq: job for job in jobs if job.attempts and job.state == State.PENDING}
        found = self.find(list(known)) if known else {}
        return {seq: sleep for seq, sleep in found.items() if sleep.is_of(known[seq])}

    def find(self, seqs: Sequence[int], *, lock: bool = False) -> dict[int, Sleep]:
        """Return what jobs sleep for, or did, by their places; if so, nobody else changes it."""
        statement = self._sql.LOCK_SLEEPS if lock else self._sql.SLEEPS
        rows = self._db.rows(statement, seqs=self._idiom.bind(seqs))
        return {row[0]: sleep_of(*row) for row in rows}

    # -- emitting -----------------------------------------------------------------------

    def emit(
        self, name: str, payload: str, *, who: str, now: int | None = None
    ) -> tuple[Emitted, int | None]:
        return self._db.transact(lambda: self._emit(name, payload, who, self._idiom.time(now)))

    def _emit(self, name: str, payload: str, who: str, now: int) -> tuple[Emitted, int | None]:
        if (first := self._hold(name)) is not None:
            return first, None
        self._db.change(self._sql.EMIT, {"name": name, "payload": payload, "at": now, "who": who})
        emitted = Emitted(name=name, payload=payload, at=now, who=who)
        return emitted, self._wake(name, now)

    def _wake(self, name: str, now: int) -> int:
        """Bring back all that wait for a name; says how many did."""
        sleeps = [sleep_of(*row) for row in self._db.rows(self._sql.LOCK_SLEEPERS, name=name)]
        if not sleeps:
            return 0
        seqs = self._idiom.bind([sleep.seq for sleep in sleeps])
        jobs = {job.seq: job for job in self._idiom.jobs(self._sql.LOCK_JOBS, seqs=seqs)}
        # One whose run isn't over yet finds at its end that it is awake.
        self._db.change(self._sql.WAKE, {"seqs": seqs})
        waiting = [s for s in sleeps if (job := jobs.get(s.seq)) and s.number == job.attempts]
        back = [s.seq for s in waiting if wakes(jobs[s.seq], s, now)]
        if back:
            self._db.change(self._sql.BRING_BACK, {"seqs": self._idiom.bind(back), "now": now})
            self._idiom.after_change(Changed(State.PENDING, back, wakes=True))
        return len([s for s in waiting if jobs[s.seq].state in (State.PENDING, State.PROCESSING)])

    def emitted(self, name: str | None = None, *, limit: int = 1) -> list[Emitted]:
        if name is None:
            rows = self._db.rows(self._sql.ALL_EMITTED, limit=limit)
        else:
            rows = self._db.rows(self._sql.EMITTED, name=name)
        return [_emitted(*row) for row in rows]

    def names(self, prefix: str, limit: int) -> dict[str, bool]:
        if not storable(prefix):
            return {}
        span = {"prefix": prefix, "beyond": prefix + "\U0010ffff", "limit": limit}
        return {name: bool(came) for name, came in self._db.rows(self._sql.NAMES, **span)}

    def _hold(self, name: str) -> Emitted | None:
        """Return what was emitted under a name; until the transaction is over, nothing else is."""
        self._db.change(self._sql.ASK_EMITTED, {"name": name})
        return next((_emitted(*row) for row in self._db.rows(self._sql.EMITTED, name=name)), None)


def _emitted(name: str, payload: str, at: int, who: str) -> Emitted:
    return Emitted(name=name, payload=payload, at=at, who=who)
