"""Unique keys and who has them: held, judged and taken, as parts of a transaction.

The constraint is the table's: a key is a row, and whoever decides about one holds it until the
transaction is over. A key that is new is inserted first, so that two who ask at once meet there.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from queuectl.errors import DuplicateError
from queuectl.job import Job, State
from queuectl.scope import reaches
from queuectl.store.contract import chunks
from queuectl.store.database import Database
from queuectl.store.driver import Row
from queuectl.uniqueness import Holding, taken_by, who_has
from queuectl.values import replace

AT_ONCE = 1_000


class Names:
    """Unique keys that are held until the transaction is over, and what becomes of them."""

    def __init__(self, db: Database, keys: Collection[str], now: int) -> None:
        """Hold these keys; waits for whoever else decides about one of them."""
        self._db = db
        self._now = now
        self._holdings: dict[str, Holding] = {}
        for some in chunks(sorted(keys), AT_ONCE):
            self._hold(some)
        self._jobs = self._holders()
        self._taken: set[str] = set()

    def _hold(self, keys: Sequence[str]) -> None:
        missing = set(keys)
        while missing:
            if self._db.driver.remote:
                nobody = {"job": "", "since": self._now}
                rows = [nobody | {"name": key} for key in sorted(missing)]
                self._db.insert(self._db.sql.ADD_HOLDINGS, rows)
            for name, job, starts, until, since in self._read(self._db.sql.HOLDINGS, missing):
                self._holdings[name] = Holding(job=job, starts=starts, until=until, since=since)
            # One may be gone again, with its job; where there is one writer, it was never there.
            missing = missing - self._holdings.keys() if self._db.driver.remote else set()

    def _holders(self) -> dict[str, Job]:
        ids = {holding.job for holding in self._holdings.values()} - {""}
        return {job.id: job for job in map(Job.from_row, self._named(ids))}

    def _named(self, ids: Collection[str]) -> list[Row]:
        parts = chunks(sorted(ids), AT_ONCE)
        return [row for some in parts for row in self._read(self._db.sql.JOBS_NAMED, some)]

    def _read(self, statement: str, names: Collection[str]) -> list[Row]:
        ids = self._db.driver.dialect.bind_list(sorted(names))
        return self._db.rows(statement, ids=ids)

    def lock(self, keys: Iterable[str], lock: Callable[[Sequence[int]], dict[int, Job]]) -> None:
        """See to it that nobody else changes the jobs that have these keys."""
        left = {self._holdings[key].job for key in keys if key in self._holdings}
        while left := left & self._jobs.keys():
            held = lock(sorted(self._jobs[id].seq for id in left))
            self._jobs |= {job.id: job for job in held.values() if job.id in left}
            left -= {job.id for job in held.values()}
            # Those have other places by now, or are gone.
            again = {job.id: job for job in map(Job.from_row, self._named(left))}
            for id in left:
                if id in again:
                    self._jobs[id] = again[id]
                else:
                    del self._jobs[id]

    def holding(self, key: str) -> Holding:
        """Return what is known of a key that a job has."""
        return self._holdings[key]

    def holder(self, key: str) -> Job | None:
        """Return the job that has a key, if one does."""
        holding = self._holdings.get(key)
        job = None if holding is None else self._jobs.get(holding.job)
        has_it = holding is not None and holding.holds(job, key, self._now)
        return job if has_it else None

    def take(self, key: str, job: Job, holding: Holding) -> None:
        """Give a key to a job, from which nobody keeps it, or have it otherwise from now on."""
        self._holdings[key] = holding
        self._jobs[job.id] = job
        self._taken.add(key)

    def write(self) -> None:
        """Write down who has taken keys."""
        rows = [
            {
                "name": key,
                "job": holding.job,
                "starts": holding.starts,
                "until": holding.until,
                "since": holding.since,
            }
            for key, holding in sorted(self._holdings.items())
            if key in self._taken
        ]
        for some in chunks(rows, AT_ONCE):
            self._db.insert(self._db.sql.SET_HOLDINGS, some)


def told_of(key: str, holder: Job) -> str:
    """Say which job has a key, as far as that is anything to who asks."""
    if reaches(holder.queue):
        return who_has(key, holder)
    return f"A job of another queue has the unique key {key!r}"


def take_again(db: Database, jobs: Sequence[Job], now: int) -> None:
    """Give jobs that are put back in line their unique keys again, or raise who has one."""
    keys = {job.unique_key for job in jobs if job.unique_key is not None}
    if not keys:
        return
    names = Names(db, keys, now)
    for job in jobs:
        key = job.unique_key
        if key is None:
            continue
        other = names.holder(key)
        if other is not None and other.id != job.id:
            raise DuplicateError(f"{told_of(key, other)}; {job.id} can't have it as well.")
        names.take(
            key,
            replace(job, state=State.PENDING),
            taken_by(job, job.id, now, attempts=job.attempts),
        )
    names.write()
