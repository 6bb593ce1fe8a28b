"""New jobs for a queue that bounds how many wait in it: who has to go, or that none is taken."""

import json
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from queuectl.errors import QueueFullError
from queuectl.job import WAITING, State
from queuectl.limits import Crowd, Full, Limits, WhenFull, full
from queuectl.store.database import Database

MOST = 1_000
"""How many jobs with the same keys are looked at."""


class Displaced(NamedTuple):
    """A job that has to go: one that is stored, by its place in the line, or a new one, by id."""

    job: int | str
    reason: str


class _Some:
    """Jobs of a queue that share something, oldest first; new ones by their ids."""

    def __init__(self, running: Sequence[int], waiting: Sequence[int | str], more: int = 0) -> None:
        self.running = list(running)
        self.waiting = list(waiting)
        self._more = more
        """How many wait that aren't named."""

    @property
    def crowd(self) -> Crowd:
        return Crowd(len(self.running), len(self.waiting) + self._more)


class Crowding:
    """Takes in new jobs for a queue whose row is held, one by one."""

    def __init__(self, db: Database, queue: str, limits: Limits) -> None:
        self._db = db
        self._queue = queue
        self._limits = limits
        self._how = limits.when_full or WhenFull.REJECT
        self._same: dict[tuple[str, ...], _Some] = {}
        running = [seq for (seq,) in db.rows(db.sql.RUNNING_OF, queue=queue)]
        waiting = int(db.value(db.sql.IN_LINE, queue=queue)) - len(running)
        named = []
        if self._how in (WhenFull.REPLACE_WAITING, WhenFull.CANCEL_RUNNING):
            oldest = db.rows(db.sql.LONGEST_WAITING, queue=queue, limit=MOST)
            named = [seq for (seq,) in oldest]
        self._whole = _Some(running, named, waiting - len(named))
        self.displaced: list[Displaced] = []

    def add(self, id: str, keys: Sequence[str]) -> None:
        """Take in a new job, or raise."""
        same = self._with(tuple(keys)) if keys else self._whole
        what = full(self._limits, keys, self._whole.crowd, same.crowd)
        scope = same if what == Full.KEY else self._whole
        stays = True
        if what is not None:
            stays = self._make_room(id, scope, self._name(what, keys))
        if stays:
            for some in {self._whole, same}:
                some.waiting.append(id)

    def _make_room(self, id: str, scope: _Some, name: str) -> bool:
        """Say who goes for a new job; False if that is the job itself."""
        if self._how in (WhenFull.REJECT, WhenFull.WAIT):
            raise QueueFullError(f"{name} is full; nothing was enqueued.")
        if self._how == WhenFull.DROP_NEWEST:
            self.displaced.append(Displaced(id, f"{name} was full when it came"))
            return False
        goes = scope.waiting[:1] if self._how == WhenFull.REPLACE_WAITING else scope.waiting[:]
        if self._how == WhenFull.CANCEL_RUNNING:
            goes += scope.running
        self.displaced += [
            Displaced(job, f"{name} was full, and {id} took its place") for job in goes
        ]
        for some in (self._whole, *self._same.values()):
            some.waiting = [job for job in some.waiting if job not in goes]
            some.running = [job for job in some.running if job not in goes]
        return True

    def _with(self, keys: tuple[str, ...]) -> _Some:
        """Return the jobs with the same keys."""
        if keys not in self._same:
            of = {state: self._of(keys, state) for state in (*WAITING, State.PROCESSING)}
            waiting = sorted(seq for state in WAITING for seq in of[state])
            self._same[keys] = _Some(of[State.PROCESSING], waiting)
        return self._same[keys]

    def _of(self, keys: tuple[str, ...], state: State) -> list[int]:
        text = json.dumps(keys, ensure_ascii=False)
        same = {"queue": self._queue, "keys": text, "state": state.value, "limit": MOST}
        return [seq for (seq,) in self._db.rows(self._db.sql.OF_SAME_KEYS, **same)]

    def _name(self, what: Full, keys: Sequence[str]) -> str:
        if what == Full.QUEUE:
            return f"Queue {self._queue}"
        return f"Key {', '.join(islice(keys, 4))} of queue {self._queue}"
