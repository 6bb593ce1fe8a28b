"""How MariaDB and MySQL do what is hot: look without locks, then lock; tell counters themselves."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from queuectl.admission import Candidate, Offer, Serving
from queuectl.guard.output import halves
from queuectl.job import ANY_HANDLER, ANY_TYPE, JOB_COLUMNS, State
from queuectl.store.contract import Ended
from queuectl.store.database import Database
from queuectl.store.driver import Params, Row
from queuectl.store.idiom import Idiom
from queuectl.store.mysql.driver import MysqlDriver
from queuectl.store.rows import NewRow, filled, named
from queuectl.store.statements import columns
from queuectl.values import replace

_SEQ, _DATA = JOB_COLUMNS.index("seq"), JOB_COLUMNS.index("data")
SEEN_AT_ONCE = 256
"""How many ready jobs are looked at to find the next handlers that they need: of one that many need
all others are passed over, and of those that few need many are found at once."""
SLOTS = 16
"""Over which each counter is spread, as the triggers do it: see the schema."""
SMALL_CHANGE = 64 * 1024
"""Bytes of a packet that the other columns of a row may take."""


class MysqlIdiom(Idiom):
    """The way of MariaDB and MySQL."""

    def __init__(self, db: Database, driver: MysqlDriver) -> None:
        super().__init__(db)
        self._driver = driver

    # -- storing ------------------------------------------------------------------------

    def insert_job(self, row: NewRow) -> int:
        if self._driver.is_mariadb:
            return super().insert_job(row)
        self.db.change(self.sql.ENQUEUE_ONE, named(row))
        (job,) = self.jobs(self.sql.GET, id=row[0])
        return job.seq

    def insert_jobs(self, rows: Sequence[NewRow]) -> None:
        # Each value travels as text, NULLs as well.
        names, values = filled(rows)
        text = self.sql.ENQUEUE.replace(self.sql.NEW_JOB, columns(names))
        self.db.each(f"{text}({', '.join('?' * len(names))})", list(values))

    # -- claiming -----------------------------------------------------------------------

    def handled(self, serving: Serving) -> dict[str, object]:
        named = list(serving.handlers) if serving.no_commands else ["", *serving.handlers]
        ranges = {ANY_TYPE, ANY_HANDLER}.intersection(named)
        if ranges or serving.has_classes:
            known = {*named, *self._handlers()} - ranges
            named = sorted(name for name in known if serving.handles(name))
        return {"handlers": json.dumps(named)}

    def _handlers(self) -> Iterator[str]:
        """Yield all handlers that ready jobs need: here each step is a statement."""
        for (queue,) in self.db.rows(self.sql.QUEUES_WITH_JOBS):
            handler, seen = "", SEEN_AT_ONCE
            while seen == SEEN_AT_ONCE:
                where = {"queue": queue, "handler": handler, "limit": SEEN_AT_ONCE}
                found = self.db.rows(self.sql.NEXT_HANDLERS, **where)
                seen = sum(jobs for _, jobs in found)
                yield from (handler for handler, _ in found)
                handler = found[-1][0] if found else ""

    def first_of_lines(self, lines: Sequence[tuple[str, str, int]], now: int) -> list[Candidate]:
        many: int = self.sql.LINES_AT_ONCE
        found: list[Candidate] = []
        for start in range(0, len(lines), many):
            some = lines[start : start + many]
            asked: dict[str, object] = {"now": now}
            for n in range(many):
                # Nothing is wanted of those that are left over.
                queue, handler, limit = some[n] if n < len(some) else ("", "", 0)
                asked |= {f"queue{n}": queue, f"handler{n}": handler, f"limit{n}": limit}
            found += [
                Candidate._make((*row, None, some[n][0], (), some[n][1]))
                for n, *row in self.db.rows(self.sql.FIRST_OF_LINES, **asked)
            ]
        return found

    def candidates(
        self, lines: Mapping[str, Sequence[str]], offer: Offer, now: int
    ) -> list[Candidate]:
        if sum(map(len, lines.values())) == 1:
            return super().candidates(lines, offer, now)
        found = self.first_of(lines, offer, now, self.sql.READY_UNLOCKED)
        stored = self._lock_ready(found)
        if len(stored) < len(found):
            # Others claim at the same time: look again, and pass over what they have locked.
            return super().candidates(lines, offer, now)
        return [job._replace(row=stored[job.seq]) for job in found]

    def first_ready(self, queue: str, handler: str, limit: int, now: int) -> list[Row]:
        asked = {"queue": queue, "handler": handler, "limit": limit, "now": now}
        rows = self.db.rows(self.sql.READY_UNLOCKED, **asked)
        found = [Candidate(*row) for row in rows]
        stored = self._lock_ready(found)
        if len(stored) < len(found):
            return super().first_ready(queue, handler, limit, now)
        return [stored[job.seq] for job in found]

    def _lock_ready(self, found: Sequence[Candidate]) -> dict[int, Row]:
        """Lock jobs that are still ready, as far as nobody else has; returns them by their seq."""
        if not found:
            return {}
        stored = {}
        seqs = self.bind([job.seq for job in found])
        for text, data in self.db.rows(self.sql.LOCK_READY, seqs=seqs):
            # A job that fills a packet by itself doesn't fit into one as JSON, and is NULL.
            if text is not None:
                row = json.loads(text)
                row.insert(_DATA, data)
                stored[row[_SEQ]] = tuple(row)
        return stored

    # -- ending -------------------------------------------------------------------------

    def end_runs(self, rows: Mapping[int, Params]) -> set[int]:
        session = self.db.here
        if session.one_by_one or len(rows) == 1:
            return super().end_runs(rows)
        ended = session.update(self.sql.FINISH_COUNTED, list(rows.values()))
        session.insert(self.sql.KEEP_ATTEMPTS, list(rows.values()))
        if moved := _moved(rows.values(), slot=session.db.thread_id() % SLOTS):
            session.insert(self.sql.ADD_COUNTS, moved)
        return ended

    def fit(self, end: Ended) -> Ended:
        """Cut out the middle of output that the server wouldn't take in one piece."""
        # Written as text, odd bytes take two.
        room = (self._driver.packet // 2 - SMALL_CHANGE) // 2
        if end.result is not None and len(end.result.encode()) > 2 * room:
            end = replace(end, result=None)
        out, err = end.output.stdout, end.output.stderr
        if len(out) <= room and len(err) <= room:
            return end
        output = replace(
            end.output, stdout=_without_middle(out, room), stderr=_without_middle(err, room)
        )
        return replace(end, output=output)

    # -- counters -----------------------------------------------------------------------

    def fold(self) -> None:
        self.db.atomic(self._fold)

    def _fold(self) -> None:
        """Bring counters that are spread over several slots together, as far as nobody has them."""
        first: dict[tuple[Any, ...], int] = {}
        for queue, state, priority, slot, jobs, timed in self.db.rows(self.sql.SPREAD):
            key = {"queue": queue, "state": state, "priority": priority}
            here = first.setdefault((queue, state, priority), slot)
            if here == slot and (jobs or timed):
                continue
            if here != slot:
                moved = {**key, "slot": here, "jobs": jobs, "timed": timed}
                if not self.db.change(self.sql.ADD_COUNT, moved):
                    del first[queue, state, priority]
                    continue
            else:
                del first[queue, state, priority]
            self.db.change(self.sql.DROP_COUNT, {**key, "slot": slot})


def _moved(rows: Iterable[Params], *, slot: int) -> list[Params]:
    """Return by how much ended runs move the counters; jobs that ran were counted as pending."""
    moved: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        timed = bool(row["timeout"])
        for state, sign in ((State.PENDING.value, -1), (row["state"], 1)):
            counter = moved[row["queue"], state, row["priority"]]
            counter[0] += sign
            counter[1] += sign * timed
    names = ("queue", "state", "priority", "slot", "jobs", "timed")
    return [
        dict(zip(names, (*key, slot, jobs, timed), strict=True))
        for key, (jobs, timed) in sorted(moved.items())
        if jobs or timed
    ]


def _without_middle(data: bytes, room: int) -> bytes:
    if len(data) <= room:
        return data
    # Halves, as everywhere: whoever shows them says how much is missing between the two.
    head, tail = halves(room)
    return data[:head] + data[len(data) - tail :]
