"""The other nodes of the queue: who is there, and what the dead among them have left."""

from collections.abc import Collection

from queuectl.facts import Node
from queuectl.node.membership import Membership
from queuectl.node.upkeep import Rescuer
from queuectl.queue import Queue


class Neighbours:
    """The other nodes, as they were when we last looked."""

    def __init__(self, queue: Queue, member: Membership, rescuer: Rescuer) -> None:
        self._queue = queue
        self._member = member
        self._rescuer = rescuer
        self._others: list[Node] = []

    def __bool__(self) -> bool:
        return bool(self._others)

    def look(self) -> Node | None:
        """See who is there; returns what the register says of us."""
        nodes = {node.id: node for node in self._queue.store.nodes.all()}
        me = nodes.pop(self._member.id, None)
        self._others = list(nodes.values())
        return me

    def rescue(self, *, changed: bool) -> None:
        """Rescue what the dead held; if nothing has `changed`, only if there is reason to look."""
        if changed or self._rescuer.waits or any(map(self._queue.is_dead, self._others)):
            self._rescuer.rescue(self._others)

    def may_leave_jobs(self, queues: Collection[str]) -> bool:
        """Tell whether nodes that seem to be dead hold jobs: once that is certain, these wait."""
        return self._rescuer.waits or any(
            not queues or job.queue in queues
            for node in self._others
            if not self._queue.is_alive(node) and not self._queue.is_dead(node)
            for job in self._queue.store.runs.held(node.id)
        )
