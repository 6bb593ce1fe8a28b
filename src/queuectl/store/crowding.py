"""New jobs for a queue that bounds how many wait in it: who has to go, or that none is taken."""

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

from queuectl.errors import QueueFullError
from queuectl.job import WAITING, Job, State
from queuectl.limits import Crowd, Full, Limits, WhenFull, full
from queuectl.store.database import Database

AT_ONCE = 1_000
"""How many jobs are looked at in one step."""
IN_LINE = (State.PENDING, State.FAILED)
"""The states of jobs that count as waiting in their queue."""


class Displaced(NamedTuple):
    """A job that has to go: one that is stored, by its place in the line, or a new one, by id."""

    job: int | str
    reason: str


class Succession:
    """Which jobs new ones replace, each the one before it that stays."""

    def __init__(self) -> None:
        self._before: dict[str, Job] = {}
        self.dropped: set[str] = set()
        """New jobs that weren't let in: these replace nobody."""

    def add(self, id: str, job: Job) -> None:
        """Have a new job replace one that is stored, or that came before it."""
        self._before[id] = job

    def before(self, id: str) -> Job | None:
        """Return the job that a new one replaces, if it does."""
        job = self._before.get(id)
        while job is not None and job.id in self.dropped:
            job = self._before.get(job.id)
        return job


class _Waiting(NamedTuple):
    """A job that waits: its place, or its id if it is new; and its keys as they are stored."""

    job: int | str
    keys: str
    in_line: bool
    """Whether it counts in its queue, not only among those with its keys."""


class _Line:
    """Jobs of a queue that share something: how many they are, and who has waited longest."""

    def __init__(self, running: Iterable[int], waiting: int, stored: Iterator[_Waiting]) -> None:
        self.running = set(running)
        self.waiting = waiting
        self.stored = stored
        """Those that were there before; they are read as far as somebody asks."""
        self.new: deque[_Waiting] = deque()

    @property
    def crowd(self) -> Crowd:
        return Crowd(len(self.running), self.waiting)


class Crowding:
    """Takes in new jobs for a queue whose row is held, one by one; nothing is changed by that."""

    def __init__(self, db: Database, queue: str, limits: Limits) -> None:
        self._db = db
        self._queue = queue
        self._limits = limits
        self._how = limits.when_full or WhenFull.REJECT
        self._same: dict[str, _Line] = {}
        self._gone: set[int | str] = set()
        self._gone_of: Counter[str] = Counter()
        """How many of those that are stored left, by their keys."""
        running = [seq for (seq,) in db.rows(db.sql.RUNNING_OF, queue=queue)]
        waiting = int(db.value(db.sql.IN_LINE, queue=queue)) - len(running)
        stored = merge(*(self._stored(state) for state in IN_LINE))
        self._whole = _Line(running, waiting, stored)
        self.displaced: list[Displaced] = []

    def add(self, id: str, keys: Sequence[str], replaced: Job | None = None) -> bool:
        """Take in a new job, or raise; False if it is dropped.

        One that it replaces, and that waits in this queue, makes room for it; one that runs has its
        slot until its run is over.
        """
        text = _text(keys)
        same = self._with(text) if text and self._limits.max_waiting is None else self._whole
        leaves = self._leaving(replaced)
        if leaves is not None:
            self._count(leaves, -1)
        what = full(self._limits, keys, self._whole.crowd, same.crowd)
        if what is not None:
            name = self._name(what, keys)
            if self._how == WhenFull.DROP_NEWEST:
                if leaves is not None:
                    self._count(leaves, 1)
                self.displaced.append(Displaced(id, f"{name} was full when it came"))
                return False
            self._make_room(id, same if what == Full.KEY else self._whole, name)
        new = _Waiting(id, text, in_line=True)
        self._whole.new.append(new)
        if same is not self._whole:
            same.new.append(new)
        self._count(new, 1)
        return True

    def _make_room(self, id: str, line: _Line, name: str) -> None:
        """Say who goes for a new job."""
        if self._how in (WhenFull.REJECT, WhenFull.WAIT):
            raise QueueFullError(f"{name} is full; nothing was enqueued.")
        reason = f"{name} was full, and {id} took its place"
        waiting = self._waiting(line)
        for one in islice(waiting, 1) if self._how == WhenFull.REPLACE_WAITING else waiting:
            self._count(one, -1)
            self.displaced.append(Displaced(one.job, reason))
        if self._how == WhenFull.CANCEL_RUNNING:
            running = set(line.running)
            self.displaced += [Displaced(job, reason) for job in sorted(running)]
            for some in (self._whole, *self._same.values()):
                some.running -= running

    def _waiting(self, line: _Line) -> Iterator[_Waiting]:
        """Yield those that wait, those first who have waited longest; each of them leaves."""
        for one in line.stored:
            if one.job not in self._gone:
                yield one
        while line.new:
            one = line.new.popleft()
            if one.job not in self._gone:
                yield one

    def _count(self, one: _Waiting, by: int) -> None:
        """Count one that comes, or leaves."""
        if by < 0:
            self._gone.add(one.job)
        else:
            self._gone.discard(one.job)
        if one.in_line:
            self._whole.waiting += by
        if one.keys in self._same:
            self._same[one.keys].waiting += by
        elif one.keys:
            self._gone_of[one.keys] -= by

    def _leaving(self, job: Job | None) -> _Waiting | None:
        """Return whose place becomes free if a job is replaced, if that is so."""
        if job is None or job.queue != self._queue or job.state not in WAITING:
            return None
        one = _Waiting(job.seq or job.id, _text(job.keys), in_line=job.state in IN_LINE)
        return None if one.job in self._gone else one

    def _with(self, keys: str) -> _Line:
        """Return the jobs with the same keys."""
        if keys not in self._same:
            running = [one.job for one in self._stored(State.PROCESSING, keys)]
            same = {"queue": self._queue, "keys": keys}
            count = self._db.sql.COUNT_SAME_KEYS
            waiting = sum(
                int(self._db.value(count, state=state.value, **same)) for state in WAITING
            )
            self._same[keys] = _Line(
                (seq for seq in running if isinstance(seq, int)),
                waiting - self._gone_of[keys],
                merge(*(self._stored(state, keys) for state in WAITING)),
            )
        return self._same[keys]

    def _stored(self, state: State, keys: str | None = None) -> Iterator[_Waiting]:
        """Yield the jobs of the queue in a state, or those of them with these keys, in line."""
        statement = self._db.sql.LONGEST_WAITING if keys is None else self._db.sql.OF_SAME_KEYS
        which = {"queue": self._queue, "state": state.value, "limit": AT_ONCE}
        if keys is not None:
            which["keys"] = keys
        last = 0
        while True:
            rows = self._db.rows(statement, after=last, **which)
            for seq, text in rows:
                last = seq
                yield _Waiting(seq, text or "", in_line=state in IN_LINE)
            if len(rows) < AT_ONCE:
                return

    def _name(self, what: Full, keys: Sequence[str]) -> str:
        if what == Full.QUEUE:
            return f"Queue {self._queue}"
        return f"Key {', '.join(islice(keys, 4))} of queue {self._queue}"


def _text(keys: Sequence[str]) -> str:
    """Write keys as they are stored; empty for none."""
    return json.dumps(list(keys), ensure_ascii=False) if keys else ""
