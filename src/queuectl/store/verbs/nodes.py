"""Verbs about nodes: the register, and leases."""

from time import clock_gettime

from queuectl.facts import Event, Node, Stop
from queuectl.store.clock import ELAPSED
from queuectl.store.contract import Nodes, Topic
from queuectl.store.database import Database
from queuectl.store.rows import event_row
from queuectl.values import fields


class SqlNodes(Nodes):
    """The nodes of a queue in an SQL database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql
        self._read_at = 0
        """When the nodes were last read, or a little before, by the clock of leases."""

    def register(self, node: Node) -> None:
        values = {f.name: getattr(node, f.name) for f in fields(node) if f.name != "stop"}
        import json

        lease = node.lease_until - self._db.driver.clock.steady()
        values |= {"queues": json.dumps(node.queues), "lease": lease}
        self._db.write(self._sql.REGISTER, **values)

    def renew(self, node: str, *, until: int) -> bool:
        clock = self._db.driver.clock
        now, steady = clock.now(), clock.steady()
        # Twice is as good as once, so no transaction is needed that could be left in doubt.
        times = {"until": until, "lease": until - steady, "now": now, "steady": steady}
        return self._db.again(self._sql.RENEW, id=node, **times) > 0

    def forget(self, node: str, *, beat: int | None = None) -> bool:
        if beat is None:
            return self._db.write(self._sql.FORGET, id=node) > 0
        return self._db.write(self._sql.FORGET_SILENT, id=node, beat=beat) > 0

    def all(self) -> list[Node]:
        self._read_at = self._db.driver.clock.steady()
        names = [f.name for f in fields(Node)]
        found = [dict(zip(names, row, strict=True)) for row in self._db.rows(self._sql.NODES)]
        if not found:
            return []
        import json

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

    def lapsed(self, node: Node) -> bool:
        # Clocks leave out what is less than a millisecond: in the one in which it ends it may hold.
        return node.lease_until < self._read_at

    def describe(self, node: str, *, workers: int, version: str) -> None:
        self._db.again(self._sql.DESCRIBE, id=node, workers=workers, version=version)

    def ask_stop(self, node: str, how: Stop, *, event: Event | None = None) -> bool:
        def ask() -> bool:
            if not self._db.change(self._sql.ASK_STOP, {"id": node, "how": how.value}):
                return False
            if event is not None:
                self._db.insert(self._sql.RECORD, [event_row(event)])
                self._db.nudge(Topic.CONTROL)
            return True

        return self._db.atomic(ask)


class WatchedNodes(SqlNodes):
    """Nodes on many hosts, which have no clock in common: leases are observed, not compared."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._seen: dict[str, tuple[int, float]] = {}
        self._seen_at = 0.0

    def all(self) -> list[Node]:
        self._seen_at = clock_gettime(ELAPSED)
        found = super().all()
        now = clock_gettime(ELAPSED)
        seen = self._seen
        # Since when has each of them been as it is now? Told from watching, not by their clocks.
        self._seen = {
            node.id: seen[node.id]
            if node.id in seen and seen[node.id][0] == node.beat
            else (node.beat, now)
            for node in found
        }
        return found

    def lapsed(self, node: Node) -> bool:
        beat, since = self._seen.get(node.id, (None, 0.0))
        if beat != node.beat:
            return False
        return node.lease <= 0 or (self._seen_at - since) * 1000 > node.lease
