"""Verbs about what has been: attempts and their output, events, and how long things took."""

from queuectl.facts import Event, Rollup
from queuectl.job import ATTEMPT_COLUMNS, Attempt, Job, Output
from queuectl.store.contract import History, Nodes
from queuectl.store.idiom import Idiom
from queuectl.store.rollups import EVER, Tally
from queuectl.store.rows import event_row
from queuectl.values import fields

HOUR = 3_600_000
FOREVER = 2**62
KEEP_RECEIPTS = 24 * HOUR
"""Milliseconds after which nobody can be in doubt about a commit any more."""


class SqlHistory(History):
    """The history of a queue in an SQL database."""

    def __init__(self, idiom: Idiom, nodes: Nodes) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql
        self._nodes = nodes

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
        self, job: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> list[Event]:
        page = {"limit": limit, "before": FOREVER if before is None else before}
        if job is None:
            rows = self._db.rows(self._sql.EVENTS, **page)
        else:
            rows = self._db.rows(self._sql.EVENTS_OF_JOB, job=job, **page)
        names = [f.name for f in fields(Event)]
        return [Event(**dict(zip(names, row, strict=True))) for row in rows]

    def prune_events(self, before: int, *, limit: int) -> int:
        return self._db.atomic(lambda: self._prune_events(before, limit))

    def _prune_events(self, before: int, limit: int) -> int:
        old = self._db.rows(self._sql.OLD_EVENTS, before=before, limit=limit)
        if not old:
            return 0
        seqs = self._idiom.bind([seq for (seq,) in old])
        return self._db.change(self._sql.PRUNE_EVENTS, {"seqs": seqs})

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        span = {"since": EVER, "until": EVER}
        if since is not None:
            span = {"since": max(since, EVER + 1), "until": FOREVER}
        if queue is None:
            rows = self._db.rows(self._sql.ROLLUPS, **span)
        else:
            rows = self._db.rows(self._sql.ROLLUPS_OF_QUEUE, **span, queue=queue)
        return [
            Rollup(
                measure=measure,
                bucket=bucket,
                count=int(count),
                total_ms=int(total),
                least_ms=least,
                most_ms=most,
            )
            for measure, bucket, count, total, least, most in rows
        ]

    def coarsen(self, *, now: int) -> None:
        self._db.atomic(lambda: self._coarsen(now))
        self.fold()
        if self._db.driver.remote:
            self._db.again(self._sql.DROP_RECEIPTS, before=now - KEEP_RECEIPTS)

    def _coarsen(self, now: int) -> None:
        self._db.rows(self._sql.HOLD_ROLLUPS)
        for span, age in ((HOUR, 48 * HOUR), (24 * HOUR, 60 * 24 * HOUR)):
            bounds = {"span": span, "before": now - age - (now - age) % span}
            self._db.change(self._sql.COARSEN, bounds)
            self._db.change(self._sql.DROP_FINE, bounds)
        self._bring_totals_together()

    def _bring_totals_together(self) -> None:
        """Add the totals of nodes that are gone to those under no name."""
        gone = {node for (node,) in self._db.rows(self._sql.TOTALED_NODES)}
        gone -= {node.id for node in self._nodes.all()}
        if not gone:
            return
        tally = Tally()
        rows = []
        for queue, node, measure, bucket, *sums in self._db.rows(
            self._sql.TOTALS, ids=self._idiom.bind(sorted(gone))
        ):
            tally.merge((EVER, queue, "", measure, bucket), tuple(map(int, sums)))  # type: ignore[arg-type]
            rows.append({"queue": queue, "node": node, "measure": measure, "bucket": bucket})
        self._db.insert(self._sql.ADD_ROLLUPS, list(tally.rows()))
        self._db.each(self._sql.DROP_TOTAL, rows)

    def fold(self) -> None:
        self._idiom.fold()
