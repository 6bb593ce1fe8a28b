"""The verbs about nodes and their leases."""

from dataclasses import replace

from queuectl.admission import Serving
from queuectl.errors import StoreError
from queuectl.facts import Event, Node, Stop
from queuectl.store.contract import Nodes
from tests.contract.toy.memory import Memory, steady, wall


class ToyNodes(Nodes):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def register(self, node: Node) -> None:
        if node.id in self._memory.nodes:
            raise StoreError(f"There is a node {node.id} already.")
        lease = node.lease_until - steady()
        self._memory.nodes[node.id] = replace(node, lease=lease)

    def holds_lease(self, id: str) -> bool:
        node = self._memory.nodes.get(id)
        return node is not None and node.lease_until > steady()

    def renew(self, node: str, *, until: int, workers: int, version: str) -> bool:
        if not self.holds_lease(node):
            return False
        known = self._memory.nodes[node]
        self._memory.nodes[node] = replace(
            known,
            lease_until=until,
            beat=known.beat + 1,
            seen_at=wall(),
            lease=until - steady(),
            workers=workers,
            version=version,
        )
        return True

    def set_serving(self, node: str, queues: Serving) -> None:
        if node in self._memory.nodes:
            self._memory.nodes[node] = replace(self._memory.nodes[node], queues=queues)

    def forget(self, node: str, *, beat: int | None = None) -> bool:
        known = self._memory.nodes.get(node)
        if known is None or beat not in (None, known.beat):
            return False
        del self._memory.nodes[node]
        self._memory.reservations.pop(node, None)
        return True

    def all(self) -> list[Node]:
        now = steady()
        found = [replace(n, lapsed=n.lease_until < now) for n in self._memory.nodes.values()]
        return sorted(found, key=lambda node: (node.started_at, node.id))

    def ask_stop(self, node: str, how: Stop, *, event: Event | None = None) -> bool:
        known = self._memory.nodes.get(node)
        if known is None:
            return False
        self._memory.keep(event)
        asked = known.stop if known.stop == Stop.RELEASE else how
        self._memory.nodes[node] = replace(known, stop=asked)
        return True
