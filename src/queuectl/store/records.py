"""The verbs of the contract about everything but jobs: nodes, queues, settings and history."""

import json
from collections.abc import Sequence
from typing import Any

from queuectl.errors import StateError
from queuectl.facts import Event, Node, QueueInfo, Rollup, Stop
from queuectl.job import Job
from queuectl.store.contract import LONGEST_PIECE, Piece
from queuectl.store.rollups import EVER, Tally
from queuectl.store.transactions import Row, Transactions
from queuectl.values import fields

HOUR = 3_600_000
FOREVER = 2**62
COPY = "copy"
"""The note in `meta` of a store that is being filled with a copy of another."""
PIECES_AT_ONCE = 8
"""Pieces of live output in one answer."""


class Records(Transactions):
    """What a store keeps besides jobs."""

    _looked = 0
    """When the nodes were last read, or a little before, by the clock that leases are meant by."""

    def meta(self, name: str) -> str | None:
        """Return what the store knows about itself under a name."""
        value = self._value(self.sql.META, name=name)
        return None if value is None else str(value)

    def refuse_unfinished(self) -> None:
        """Refuse a store that isn't a queue yet, because a copy to it was cut short."""
        note = self.meta(COPY)
        if note is not None:
            source = json.loads(note)["source"]
            raise StateError(
                f"{self.url} holds an unfinished copy of {source}.",
                advice="run that `queuectl db copy` again to finish it.",
            )

    def set_meta(self, name: str, value: str) -> None:
        """Set what the store knows about itself."""
        self._write_again(self.sql.SET_META, name=name, value=value)

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert whole rows into a table, in the transaction it is called in."""
        names = ", ".join(f'"{name}"' for name in columns)
        places = ", ".join(f":{name}" for name in columns)
        text = self._text(f"INSERT INTO {{{table}}} ({names}) VALUES ({places})")
        self._change_many(text, [dict(zip(columns, row, strict=True)) for row in rows])

    def run_script(self, statements: Sequence[str]) -> None:
        """Run schema statements, in the transaction they are called in."""
        for statement in statements:
            self._run(self.dialect.render_schema(statement), {})

    # -- the output of a run while it goes on -------------------------------------------

    def watch(self, job: Job, *, until: int, now: int) -> None:
        run = _run_of(job)

        def ask() -> None:
            self._change(self._text(self.sql.ADD_WATCH), run)
            if self._change(self._text(self.sql.BEGIN_WATCH), {**run, "until": until, "now": now}):
                self._change(self._text(self.sql.DROP_LIVE), run)
            else:
                self._change(self._text(self.sql.EXTEND_WATCH), {**run, "until": until})

        self._atomic(ask)

    def watched(self, jobs: Sequence[Job], *, now: int) -> dict[int, int]:
        if not jobs:
            return {}
        numbers = {job.seq: job.attempts for job in jobs}
        rows = self._rows(self.sql.WATCHED, seqs=self.dialect.bind_list(list(numbers)), now=now)
        return {seq: until for seq, number, until in rows if numbers[seq] == number}

    def add_live(self, job: Job, pieces: Sequence[Piece]) -> None:
        def add() -> None:
            for piece in pieces:
                shown = {"stream": piece.stream, "start": piece.start, "data": piece.data}
                self._change(self._text(self.sql.ADD_LIVE), _run_of(job) | shown)

        self._atomic(add)

    def trim_live(self, job: Job, stream: str, *, first: int, before: int) -> None:
        self._write_again(
            self.sql.TRIM_LIVE, **_run_of(job), stream=stream, first=first, before=before
        )

    def live(self, job: Job, stream: str, *, after: int) -> list[Piece]:
        rows = self._rows(
            self.sql.LIVE,
            **_run_of(job),
            stream=stream,
            after=after,
            longest=LONGEST_PIECE,
            limit=PIECES_AT_ONCE,
        )
        return [Piece(stream=stream, start=start, data=bytes(data)) for start, data in rows]

    def end_live(self, job: Job) -> None:
        def end() -> None:
            self._change(self._text(self.sql.DROP_WATCH), _run_of(job))
            self._change(self._text(self.sql.DROP_LIVE), _run_of(job))

        self._atomic(end)

    def drop_stale_live(self, *, now: int) -> None:
        def drop() -> None:
            self._change(self._text(self.sql.DROP_STALE_WATCHES), {"now": now})
            self._change(self._text(self.sql.DROP_STALE_LIVE), {})

        self._atomic(drop)

    # -- nodes ------------------------------------------------------------------------

    def register(self, node: Node) -> None:
        values = {f.name: getattr(node, f.name) for f in fields(node) if f.name != "stop"}
        lease = node.lease_until - self.steady()
        self._write(
            self.sql.REGISTER, **values | {"queues": json.dumps(node.queues), "lease": lease}
        )

    def renew(self, node: str, *, until: int) -> bool:
        now, steady = self.now(), self.steady()
        lease = until - steady
        # Twice is as good as once, so no transaction is needed that could be left in doubt.
        return (
            self._write_again(
                self.sql.RENEW, id=node, until=until, lease=lease, now=now, steady=steady
            )
            > 0
        )

    def lapsed(self, node: Node) -> bool:
        # Clocks leave out what is less than a millisecond: in the one in which it ends it may hold.
        return node.lease_until < self._looked

    def forget(self, node: str, *, beat: int | None = None) -> bool:
        if beat is None:
            return self._write(self.sql.FORGET, id=node) > 0
        return self._write(self.sql.FORGET_SILENT, id=node, beat=beat) > 0

    def nodes(self) -> list[Node]:
        self._looked = self.steady()
        names = [f.name for f in fields(Node)]
        found = [dict(zip(names, row, strict=True)) for row in self._rows(self.sql.NODES)]
        return [
            Node(
                **row
                | {
                    "queues": tuple(json.loads(row["queues"])),
                    "stop": None if row["stop"] is None else Stop(row["stop"]),
                }
            )
            for row in found
        ]

    def describe(self, node: str, *, workers: int, version: str) -> None:
        self._write_again(self.sql.DESCRIBE, id=node, workers=workers, version=version)

    def ask_stop(self, node: str, how: Stop) -> bool:
        return self._write(self.sql.ASK_STOP, id=node, how=how.value) > 0

    # -- queues, settings, history ------------------------------------------------------

    def queues(self) -> list[QueueInfo]:
        return [
            QueueInfo(name=name, paused_at=paused_at, paused_by=paused_by)
            for name, paused_at, paused_by in self._rows(self.sql.QUEUES)
        ]

    def set_paused(self, queue: str, *, paused: bool, who: str, now: int) -> bool:
        if not paused:
            return self._write(self.sql.RESUME, name=queue) > 0

        def pause() -> bool:
            self._change(self._text(self.sql.ADD_QUEUE), {"name": queue})
            return (
                self._change(self._text(self.sql.PAUSE), {"name": queue, "who": who, "now": now})
                > 0
            )

        return self._atomic(pause)

    def config(self) -> dict[str, str]:
        return dict(self._rows(self.sql.CONFIG))

    def set_config(self, name: str, value: str | None, *, now: int) -> None:
        if value is None:
            self._write(self.sql.UNSET_CONFIG, name=name)
        else:
            self._write(self.sql.SET_CONFIG, name=name, value=value, now=now)

    def record_all(self, events: Sequence[Event]) -> None:
        names = [f.name for f in fields(Event) if f.name != "seq"]
        rows = [{name: getattr(event, name) for name in names} for event in events]
        if rows:
            self._atomic(lambda: self._insert_rows(self.sql.RECORD, rows))

    def events(
        self, job: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> list[Event]:
        page = {"limit": limit, "before": FOREVER if before is None else before}
        if job is None:
            rows = self._rows(self.sql.EVENTS, **page)
        else:
            rows = self._rows(self.sql.EVENTS_OF_JOB, job=job, **page)
        names = [f.name for f in fields(Event)]
        return [Event(**dict(zip(names, row, strict=True))) for row in rows]

    def prune_events(self, before: int, *, limit: int) -> int:
        return self._atomic(lambda: self._prune_events(before, limit))

    def _prune_events(self, before: int, limit: int) -> int:
        old = self._rows(self.sql.OLD_EVENTS, before=before, limit=limit)
        if not old:
            return 0
        seqs = self.dialect.bind_list([seq for (seq,) in old])
        return self._change(self._text(self.sql.PRUNE_EVENTS), {"seqs": seqs})

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        span = {"since": EVER, "until": EVER}
        if since is not None:
            span = {"since": max(since, EVER + 1), "until": FOREVER}
        if queue is None:
            rows = self._rows(self.sql.ROLLUPS, **span)
        else:
            rows = self._rows(self.sql.ROLLUPS_OF_QUEUE, **span, queue=queue)
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
        self._atomic(lambda: self._coarsen(now))
        self.fold()

    def _coarsen(self, now: int) -> None:
        self._rows(self.sql.HOLD_ROLLUPS)
        for span, age in ((HOUR, 48 * HOUR), (24 * HOUR, 60 * 24 * HOUR)):
            bounds = {"span": span, "before": now - age - (now - age) % span}
            self._change(self._text(self.sql.COARSEN), bounds)
            self._change(self._text(self.sql.DROP_FINE), bounds)
        self._bring_totals_together()

    def _bring_totals_together(self) -> None:
        """Add the totals of nodes that are gone to those under no name."""
        gone = {node for (node,) in self._rows(self.sql.TOTALED_NODES)}
        gone -= {node.id for node in self.nodes()}
        if not gone:
            return
        tally = Tally()
        rows = []
        for queue, node, measure, bucket, *sums in self._rows(
            self.sql.TOTALS, ids=self.dialect.bind_list(sorted(gone))
        ):
            tally.merge((EVER, queue, "", measure, bucket), tuple(map(int, sums)))  # type: ignore[arg-type]
            rows.append({"queue": queue, "node": node, "measure": measure, "bucket": bucket})
        self._insert_rows(self.sql.ADD_ROLLUPS, list(tally.rows()))
        self._change_many(self._text(self.sql.DROP_TOTAL), rows)

    def fold(self) -> None:
        self._write(self.sql.DROP_EMPTY_COUNTS)


def _run_of(job: Job) -> dict[str, Any]:
    """Name the newest run of a job."""
    return {"seq": job.seq, "number": job.attempts}
