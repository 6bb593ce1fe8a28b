"""Which jobs with needs may begin on a node, and what is kept free for one that doesn't fit yet.

Facts in, a decision out: no clock, no store. In the order of the line, what fits begins. The first
that a node could hold, but that fits nowhere now, is reserved on one node. From then on other jobs
begin there only as long as the reserved one would have room beside all that began after it was
reserved: so it begins at the latest when what ran then is over, however many small ones come by.
Only jobs of a higher priority go before it, and have the room kept for themselves if they wait.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from queuectl.admission import Candidate, Serving
from queuectl.resources import Devices, Holding, Needs, Room, Stock, needs_of, room_of


class Neighbour(NamedTuple):
    """A node, as others see it."""

    id: str
    serving: Serving
    stock: Stock
    idle: bool
    """Whether it has a free worker."""


class NodeKeeper:
    """Knows what is free on a node while jobs begin there, and keeps room for one of them."""

    def __init__(
        self,
        stock: Stock,
        now: int,
        *,
        may_keep: Callable[[Candidate, Stock], bool],
        reserved: tuple[int, int] | None = None,
    ) -> None:
        """`may_keep` says whether this is the node on which room is kept for a job, as things are.

        `reserved` is the job for which it keeps room already, by its place, and since when.
        """
        self._stock = stock
        self._now = now
        self._may_keep = may_keep
        self._reserved = reserved
        self._had_its_turn = False
        """Whether that job was asked for by now: those before it have a higher priority."""
        self._room = stock.room()
        self._kept: tuple[Needs, Room] | None = None
        """What the job needs for which room is kept, and what is left of the node for it."""
        self._taken: list[Holding] = []
        self.kept: Candidate | None = None
        """The job for which room is kept from now on."""
        self.devices: dict[int, Devices] = {}
        """Which devices each job gets that needs any, by its place in the line."""
        self.waits = False
        """Whether there is a job that waits for room: then the end of a run may make it."""

    def asks(self, job: Candidate) -> bool:
        """Tell whether a job takes anything of the node; most need none of it for themselves."""
        needs = needs_of(job.handler)
        return needs is None or bool(needs.amounts)

    def is_reserved(self, job: Candidate) -> bool:
        """Tell whether room is kept for this job since before."""
        return self._reserved is not None and job.seq == self._reserved[0]

    def has_room(self, job: Candidate) -> bool:
        """Tell whether a job may begin; if not, room may be kept for it from now on."""
        needs = needs_of(job.handler)
        if needs is None:
            return False
        self._had_its_turn |= self.is_reserved(job)
        if self._room.fits(needs) and self._leaves_room(needs):
            return True
        self.wait(job)
        return False

    def _leaves_room(self, needs: Needs) -> bool:
        if self._kept is None:
            return True
        wanted, left = self._kept
        left, uses = _after(left, needs, self._devices_for(needs)), dict(needs.amounts)
        return all(left.has(name, many) for name, many in wanted.amounts if name in uses)

    def _devices_for(self, needs: Needs) -> Devices:
        return self._room.copy().take(needs) or {}

    def wait(self, job: Candidate) -> None:
        """Hear that a job doesn't begin now, for want of room or of a worker that is free."""
        self.waits = True
        self._had_its_turn |= self.is_reserved(job)
        if self.kept is not None:
            return
        if self._reserved is not None and self.is_reserved(job):
            self._keep(job, self._reserved[1])
            return
        may_be_kept = self._reserved is None or not self._had_its_turn
        if may_be_kept and self._may_keep(job, self._now_held):
            self._keep(job, self._now)

    @property
    def _now_held(self) -> Stock:
        return Stock(self._stock.resources, [*self._stock.holdings, *self._taken])

    def _keep(self, job: Candidate, since: int) -> None:
        """Let nothing begin from now on that would take the place of this job."""
        needs = needs_of(job.handler)
        assert needs is not None
        self.kept = job
        self._kept = needs, self._stock.room(since)

    def take(self, job: Candidate) -> None:
        """Hear that a job begins: what it needs isn't free any more."""
        needs = needs_of(job.handler)
        assert needs is not None
        given = self._room.take(needs)
        assert given is not None
        if given:
            self.devices[job.seq] = given
        self._taken.append(Holding(self._now, needs, given))
        if self._kept is not None:
            wanted, left = self._kept
            self._kept = wanted, _after(left, needs, given)
        if self.is_reserved(job):
            # Room can be kept for another one.
            self._reserved = None


def lined_up(
    line: Iterable[Candidate], kept: Candidate | None, *, has_order: bool
) -> Iterator[Candidate]:
    """Yield a line with the job for which room is kept; only a higher priority goes before it.

    Where the node has an order among its queues, priorities are compared within a queue.
    """
    left = kept
    for job in line:
        if left is not None:
            same = job.queue == left.queue or not has_order
            if not (same and job.priority > left.priority):
                yield left
                left = None
        if kept is None or job.seq != kept.seq:
            yield job
    if left is not None:
        yield left


def _after(room: Room, needs: Needs, given: Devices) -> Room:
    left = room.copy()
    left.use(needs, given)
    return left


def best_node(
    queue: str, handler: str, nodes: Sequence[Neighbour], reserved: Collection[str]
) -> str | None:
    """Say on which node room is to be kept for a job; None if it fits somewhere now, or nowhere.

    That is the one on which the fewest runs have to end first, if the oldest end first; of several,
    the one that is left with the least. Those that keep room for another job don't count.
    """
    needs = needs_of(handler)
    if needs is None:
        return None
    best: tuple[int, float, str] | None = None
    for node in nodes:
        if node.id in reserved or not node.serving.takes(queue, handler):
            continue
        ends = _ends_until(needs, node.stock)
        if ends == 0 and node.idle:
            return None
        totals = room_of(node.stock.resources).totals()
        left = sum(totals[name] / many for name, many in needs.amounts)
        rank = ends, left, node.id
        best = rank if best is None else min(best, rank)
    return None if best is None else best[2]


def _ends_until(needs: Needs, stock: Stock) -> int:
    """Count the runs that have to end until there is room, if the oldest end first."""
    held = sorted(stock.holdings, key=lambda one: one.at)
    for ended in range(len(held) + 1):
        if Stock(stock.resources, held[ended:]).room().fits(needs):
            return ended
    return len(held)
