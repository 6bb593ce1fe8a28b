"""What nodes have for jobs that need something, and the room that they keep for some of them."""

from collections.abc import Sequence

from queuectl.admission import Candidate, Offer
from queuectl.facts import Reservation, Use
from queuectl.fitting import Neighbour, NodeKeeper, best_node, lined_up
from queuectl.job import NEEDS, Job
from queuectl.resources import Holding, Stock, needs_of
from tests.contract.toy.memory import Memory


def uses(memory: Memory) -> list[Use]:
    """Return what runs have of their nodes."""
    return [
        Use(node=job.node or "", at=job.started_at or 0, handler=job.handler, devices=job.devices)
        for job in memory.running()
        if job.handler.startswith(NEEDS)
    ]


def valid_reservations(memory: Memory) -> list[Reservation]:
    """Return for which jobs that are ready nodes keep room that take jobs."""
    ready = {memory.line[id].seq for id, is_ready in memory.ready.items() if is_ready}
    found = [
        one
        for one in memory.reservations.values()
        if one.seq in ready and one.node in memory.nodes and memory.nodes[one.node].stop is None
    ]
    return sorted(found, key=lambda one: one.seq)


class Stocked:
    """What a claim goes by: what the node has, and for which jobs nodes keep room."""

    def __init__(
        self, memory: Memory, offer: Offer, node: str, waiting: Sequence[Job], now: int
    ) -> None:
        assert offer.stock is not None
        self._memory = memory
        self._offer = offer
        self._node = node
        self._now = now
        there = valid_reservations(memory)
        self._elsewhere = {one.seq for one in there if one.node != node}
        self._keeping = {one.node for one in there if one.node != node}
        by_seq = {job.seq: job for job in waiting}
        mine = next((one for one in there if one.node == node and one.seq in by_seq), None)
        self._mine = mine
        reserved = None if mine is None else (mine.seq, mine.at)
        self.keeper = NodeKeeper(offer.stock, now, may_keep=self._may_keep, reserved=reserved)

    def first_in(self, line: Sequence[Candidate]) -> list[Candidate]:
        """Put the job for which room is kept in its place."""
        seq = None if self._mine is None else self._mine.seq
        mine = next((job for job in line if job.seq == seq), None)
        return list(lined_up(line, mine, has_order=self._offer.order is not None))

    def _may_keep(self, job: Candidate, stock: Stock) -> bool:
        if job.seq in self._elsewhere:
            return False
        held: dict[str, list[Holding]] = {}
        for use in uses(self._memory):
            if (needs := needs_of(use.handler)) is not None:
                held.setdefault(use.node, []).append(Holding(use.at, needs, use.devices))
        others = [
            Neighbour(
                one.id,
                one.queues,
                Stock(one.queues.resources, held.get(one.id, ())),
                one.workers > len({j.worker for j in self._memory.running() if j.node == one.id}),
            )
            for one in self._memory.nodes.values()
            if one.id != self._node and one.stop is None and one.queues.has_classes
        ]
        me = Neighbour(self._node, self._offer.queues, stock, bool(self._offer.idle))
        best = best_node(job.queue, job.handler, [me, *others], self._keeping)
        return best == self._node

    def keep(self, begun: Sequence[Job]) -> None:
        """Keep room for one job at most, and none for what has begun."""
        kept, seqs = self.keeper.kept, {job.seq for job in begun}
        there = self._memory.reservations
        for node in [node for node, one in there.items() if one.seq in seqs]:
            del there[node]
        if self._mine is not None and kept is not None and kept.seq == self._mine.seq:
            return
        there.pop(self._node, None)
        if kept is not None:
            for node in [node for node, one in there.items() if one.seq == kept.seq]:
                del there[node]
            there[self._node] = Reservation(seq=kept.seq, node=self._node, at=self._now)
