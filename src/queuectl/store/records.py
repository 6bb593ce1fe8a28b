"""The verbs of the contract about everything but jobs: nodes, queues, settings and history."""

import json
from collections.abc import Sequence
from dataclasses import fields

from queuectl.store import statements as sql
from queuectl.store.contract import Event, Node, QueueInfo, Rollup, Stop
from queuectl.store.transactions import Transactions

HOUR = 3_600_000


class Records(Transactions):
    """What a store keeps besides jobs."""

    def set_meta(self, name: str, value: str) -> None:
        """Set what the store knows about itself."""
        self._write_again(sql.SET_META, name=name, value=value)

    def run_script(self, statements: Sequence[str]) -> None:
        """Run schema statements, in the transaction they are called in."""
        for statement in statements:
            self._run(self.dialect.render_schema(statement), {})

    # -- nodes ------------------------------------------------------------------------

    def register(self, node: Node) -> None:
        values = {f.name: getattr(node, f.name) for f in fields(node) if f.name != "stop"}
        lease = node.lease_until - self.steady()
        self._write(sql.REGISTER, **values | {"queues": json.dumps(node.queues), "lease": lease})

    def renew(self, node: str, *, until: int) -> bool:
        now, steady = self.now(), self.steady()
        lease = until - steady
        # Twice is as good as once, so no transaction is needed that could be left in doubt.
        return (
            self._write_again(sql.RENEW, id=node, until=until, lease=lease, now=now, steady=steady)
            > 0
        )

    def lapsed(self, node: Node) -> bool:
        return node.lease_until <= self.steady()

    def forget(self, node: str, *, beat: int | None = None) -> bool:
        if beat is None:
            return self._write(sql.FORGET, id=node) > 0
        return self._write(sql.FORGET_SILENT, id=node, beat=beat) > 0

    def nodes(self) -> list[Node]:
        names = [f.name for f in fields(Node)]
        found = [dict(zip(names, row, strict=True)) for row in self._rows(sql.NODES)]
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

    def ask_stop(self, node: str, how: Stop) -> bool:
        return self._write(sql.ASK_STOP, id=node, how=how.value) > 0

    # -- queues, settings, history ------------------------------------------------------

    def queues(self) -> list[QueueInfo]:
        return [
            QueueInfo(name=name, paused_at=paused_at, paused_by=paused_by)
            for name, paused_at, paused_by in self._rows(sql.QUEUES)
        ]

    def set_paused(self, queue: str, *, paused: bool, who: str, now: int) -> bool:
        if not paused:
            return self._write(sql.RESUME, name=queue) > 0

        def pause() -> bool:
            self._change(self._text(sql.ADD_QUEUE), {"name": queue})
            return self._change(self._text(sql.PAUSE), {"name": queue, "who": who, "now": now}) > 0

        return self._atomic(pause)

    def config(self) -> dict[str, str]:
        return dict(self._rows(sql.CONFIG))

    def set_config(self, name: str, value: str | None, *, now: int) -> None:
        if value is None:
            self._write(sql.UNSET_CONFIG, name=name)
        else:
            self._write(sql.SET_CONFIG, name=name, value=value, now=now)

    def record(self, event: Event) -> None:
        self._write(sql.RECORD, **{f.name: getattr(event, f.name) for f in fields(event)})

    def events(self, job: str | None = None, *, limit: int = 100) -> list[Event]:
        if job is None:
            rows = self._rows(sql.EVENTS, limit=limit)
        else:
            rows = self._rows(sql.EVENTS_OF_JOB, job=job, limit=limit)
        names = [f.name for f in fields(Event)]
        return [Event(**dict(zip(names, row, strict=True))) for row in rows]

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        if queue is None:
            rows = self._rows(sql.ROLLUPS, since=since or 0)
        else:
            rows = self._rows(sql.ROLLUPS_OF_QUEUE, since=since or 0, queue=queue)
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
        for span, age in ((HOUR, 48 * HOUR), (24 * HOUR, 60 * 24 * HOUR)):
            bounds = {"span": span, "before": now - age - (now - age) % span}
            self._change(self._text(sql.COARSEN), bounds)
            self._change(self._text(sql.DROP_FINE), bounds)

    def fold(self) -> None:
        self._write(sql.DROP_EMPTY_COUNTS)
