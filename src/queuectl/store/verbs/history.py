"""Verbs about what has been: attempts and their output, events, and how long things took."""

from collections.abc import Mapping, Sequence
from typing import Any

from queuectl.facts import Event, Rollup, Total
from queuectl.filter import ANY_EVENT, EventFilter
from queuectl.job import ATTEMPT_COLUMNS, Attempt, Job, Output
from queuectl.store.contract import History
from queuectl.store.database import Database
from queuectl.store.histogram import bucket_of
from queuectl.store.rollups import EVER, FAILURE
from queuectl.store.rows import can_be_sought, event_row, storable
from queuectl.values import fields

FOREVER = 2**62


class SqlHistory(History):
    """The history of a queue in an SQL database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql

    def attempts(self, job: Job) -> list[Attempt]:
        return [
            Attempt(**dict(zip(ATTEMPT_COLUMNS, (job.id, *row), strict=True)))
            for row in self._db.rows(self._sql.ATTEMPTS, seq=job.seq)
        ]

    def output(self, job: Job, number: int) -> Output | None:
        rows = self._db.rows(self._sql.OUTPUT, seq=job.seq, number=number)
        if not rows:
            return None
        stdout, stderr, stdout_bytes, stderr_bytes = rows[0]
        return Output(
            stdout=bytes(stdout or b""),
            stderr=bytes(stderr or b""),
            stdout_bytes=stdout_bytes,
            stderr_bytes=stderr_bytes,
        )

    def record(self, *events: Event) -> None:
        rows = [event_row(event) for event in events]
        if rows:
            self._db.atomic(lambda: self._db.insert(self._sql.RECORD, rows))

    def events(
        self,
        job: str | None = None,
        *,
        action: str | None = None,
        which: EventFilter = ANY_EVENT,
        limit: int = 100,
        before: int | None = None,
        after: int | None = None,
        oldest: bool = False,
    ) -> list[Event]:
        if not all(map(storable, (job or "", action or ""))):
            return []
        conditions, params = self._of(job, action, before, after)
        if which != ANY_EVENT:
            from queuectl.store.selection import event_conditions

            if not all(map(can_be_sought, (which.who, which.kind, which.text))):
                return []
            needle = self._db.driver.dialect.needle
            conditions += event_conditions(self._sql, which, needle, params)
        rows = self._look(self._sql.EVENTS, conditions, params | {"limit": limit}, oldest=oldest)
        names = [f.name for f in fields(Event)]
        return [Event(**dict(zip(names, row, strict=True))) for row in rows]

    def horizon(
        self,
        job: str | None = None,
        *,
        action: str | None = None,
        looks: int,
        before: int | None = None,
        after: int | None = None,
        oldest: bool = False,
    ) -> Event | None:
        conditions, params = self._of(job, action, before, after)
        params["looks"] = looks - 1
        rows = self._look(self._sql.EVENTS_HORIZON, conditions, params, oldest=oldest)
        found = self.events(before=rows[0][0] + 1, limit=1) if rows else []
        return found[0] if found else None

    def _of(
        self, job: str | None, action: str | None, before: int | None, after: int | None
    ) -> tuple[list[str], dict[str, Any]]:
        """Return what holds of the events of a job or an action that are between two."""
        known = {
            self._sql.EVENT_OF_JOB: ("job", job),
            self._sql.EVENT_OF_ACTION: ("action", action),
            self._sql.EVENT_BEFORE: ("before", before),
            self._sql.EVENT_AFTER: ("after", after),
        }
        said = {text: pair for text, pair in known.items() if pair[1] is not None}
        return [*said], dict(said.values())

    def _look(
        self, statement: str, conditions: Sequence[str], params: Mapping[str, Any], *, oldest: bool
    ) -> Sequence[Any]:
        where = " AND ".join(conditions) or "1 = 1"
        direction = "ASC" if oldest else "DESC"
        text = statement.replace("{conditions}", where).replace("{direction}", direction)
        return self._db.rows(text, **params)

    def last_of(self, jobs: Sequence[str]) -> dict[str, int]:
        ids = self._db.driver.dialect.bind_list(list(jobs))
        return dict(self._db.rows(self._sql.LAST_EVENTS, ids=ids)) if jobs else {}

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        span = {"since": EVER, "until": EVER}
        if since is not None:
            span = {"since": max(since, EVER + 1), "until": FOREVER}
        if queue is None:
            rows = self._db.rows(self._sql.ROLLUPS, **span)
        else:
            rows = self._db.rows(self._sql.ROLLUPS_OF_QUEUE, **span, queue=queue)
        return [_rollup(*row) for row in rows if not row[0].startswith(FAILURE)]

    def series(
        self, *, since: int, span: int, until: int | None = None, queue: str | None = None
    ) -> dict[int, list[Rollup]]:
        until = FOREVER if until is None else until
        when = {"since": max(since, EVER + 1), "until": until, "span": span}
        if queue is None:
            rows = self._db.rows(self._sql.SERIES, **when)
        else:
            rows = self._db.rows(self._sql.SERIES_OF_QUEUE, **when, queue=queue)
        found: dict[int, list[Rollup]] = {}
        for at, measure, *row in rows:
            if not measure.startswith(FAILURE):
                found.setdefault(int(at), []).append(_rollup(measure, *row))
        return found

    def series_by_queue(self, *, since: int, span: int) -> dict[str, dict[int, list[Rollup]]]:
        when = {"since": max(since, EVER + 1), "span": span}
        found: dict[str, dict[int, list[Rollup]]] = {}
        for queue, at, measure, *row in self._db.rows(self._sql.SERIES_BY_QUEUE, **when):
            if not measure.startswith(FAILURE):
                parts = found.setdefault(queue, {})
                parts.setdefault(int(at), []).append(_rollup(measure, *row))
        return found

    def totals(self, bounds: Sequence[int]) -> dict[str, list[Total]]:
        # What isn't needed is the last once more, which nothing comes to.
        ends = [*bounds, *[bounds[-1]] * (self._sql.SPANS - len(bounds))]
        spans = {f"span{n}": bucket_of(end) for n, end in enumerate(ends)}
        found: dict[str, list[Total]] = {}
        for queue, measure, span, count, ms in self._db.rows(self._sql.TOTALS_BY_QUEUE, **spans):
            within = None if span is None else ends[span]
            total = Total(measure=measure, within=within, count=int(count), total_ms=int(ms))
            found.setdefault(queue, []).append(total)
        return found


def _rollup(measure: str, bucket: int, count: int, total: int, least: int, most: int) -> Rollup:
    # Sums of some databases are decimal numbers.
    return Rollup(
        measure=measure,
        bucket=bucket,
        count=int(count),
        total_ms=int(total),
        least_ms=least,
        most_ms=most,
    )
