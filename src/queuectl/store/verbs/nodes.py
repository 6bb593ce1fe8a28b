"""Verbs about nodes: the register, and leases."""

from time import clock_gettime
from typing import TYPE_CHECKING

from queuectl.facts import Event, Node, Stop
from queuectl.store.clock import ELAPSED
from queuectl.store.contract import Nodes, Topic
from queuectl.store.database import Database
from queuectl.store.rows import event_row
from queuectl.values import fields, replace

if TYPE_CHECKING:
    from queuectl.admission import Serving

COLUMNS = [f.name for f in fields(Node) if f.name != "lapsed"]


class SqlNodes(Nodes):
    """The nodes of a queue in an SQL database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql

    def register(self, node: Node) -> None:
        import json

        from queuectl.store.serving import written

        values = {name: getattr(node, name) for name in COLUMNS if name != "stop"}
        lease = node.lease_until - self._db.driver.clock.steady()
        values |= {"queues": json.dumps(written(node.queues)), "lease": lease}
        self._db.write(self._sql.REGISTER, **values)

    def renew(self, node: str, *, until: int, workers: int, version: str) -> bool:
        clock = self._db.driver.clock
        now, steady = clock.now(), clock.steady()
        # Twice is as good as once, so no transaction is needed that could be left in doubt.
        return (
            self._db.again(
                self._sql.RENEW,
                id=node,
                until=until,
                lease=until - steady,
                now=now,
                steady=steady,
                count=workers,
                version=version,
            )
            > 0
        )

    def set_serving(self, node: str, queues: "Serving") -> None:
        import json

        from queuectl.store.serving import written

        self._db.again(self._sql.SET_SERVING, id=node, queues=json.dumps(written(queues)))

    def all(self) -> list[Node]:
        # From before they are read: time that passes meanwhile proves nothing.
        read_at = self._db.driver.clock.steady()
        # Clocks leave out what is less than a millisecond: in the one in which it ends it may hold.
        return [
            replace(node, lapsed=True) if node.lease_until < read_at else node
            for node in self._read()
        ]

    def _read(self) -> list[Node]:
        rows = self._db.rows(self._sql.NODES)
        if not rows:
            return []
        import json

        from queuectl.store.serving import serving_of

        found = []
        for row in rows:
            values = dict(zip(COLUMNS, row, strict=True))
            values["queues"] = serving_of(json.loads(values["queues"]))
            values["stop"] = None if values["stop"] is None else Stop(values["stop"])
            found.append(Node(**values))
        return found

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
        """Since when each of them has been at this beat: told from watching."""

    def all(self) -> list[Node]:
        read_at = clock_gettime(ELAPSED)
        found = self._read()
        now = clock_gettime(ELAPSED)
        before = self._seen
        self._seen = {
            node.id: before[node.id]
            if node.id in before and before[node.id][0] == node.beat
            else (node.beat, now)
            for node in found
        }
        return [
            replace(node, lapsed=True)
            if node.lease <= 0 or (read_at - self._seen[node.id][1]) * 1000 > node.lease
            else node
            for node in found
        ]
