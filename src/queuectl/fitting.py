"""Which jobs with needs may begin on a node, and what is kept free for one that doesn't fit yet.

Facts in, a decision out: no clock, no store. In the order of the line, what fits begins. The first
that a node could hold, but that fits nowhere now, is reserved on one node. From then on other jobs
begin there only as long as the reserved one would have room beside all that began after it was
reserved: so it begins at the latest when what ran then is over, however many small ones come by.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from queuectl.admission import Candidate, Offer, Serving
from queuectl.resources import Devices, Needs, Room, needs_of, room_of


class Holding(NamedTuple):
    """What a run has of its node."""

    at: int
    """Since when, by the store's clock."""
    needs: Needs
    devices: Devices


class Stock(NamedTuple):
    """What a node has, and what its runs have of it."""

    resources: str
    holdings: Sequence[Holding] = ()

    def room(self, since: int | None = None) -> Room:
        """Return what is free; or what would be, if only the runs since some time were there."""
        room = room_of(self.resources)
        for held in self.holdings:
            if since is None or held.at > since:
                room.use(held.needs, held.devices)
        return room


class Reserved(NamedTuple):
    """That room is kept on a node for a job."""

    seq: int
    node: str
    at: int


class Neighbour(NamedTuple):
    """A node, as others see it."""

    id: str
    serving: Serving
    stock: Stock
    idle: bool
    """Whether it has a free worker."""


class Picked(NamedTuple):
    """What may begin on a node now."""

    taken: list[Candidate]
    workers: list[int]
    """Who runs each of them."""
    devices: dict[int, Devices]
    """Which devices each gets that needs any, by its place in the line."""
    reserved: Candidate | None
    """The job for which room is kept from now on."""
    waits: bool
    """Whether there is a job that waits for room: then the end of a run may make it."""


def pick(
    line: Iterable[Candidate],
    offer: Offer,
    now: int,
    stock: Stock,
    *,
    reserved: tuple[Candidate, int] | None,
    may_reserve: Callable[[Candidate], bool],
) -> Picked:
    """Return which jobs of a line begin on a node, of those that it could hold.

    `reserved` is the job for which it keeps room, which comes first, and since when.
    """
    picking = _Picking(offer, now, stock)
    if reserved is not None:
        picking.begin_or_keep(*reserved)
    for job in line:
        if picking.is_over:
            break
        if reserved is not None and job.seq == reserved[0].seq:
            continue
        if not picking.offer_to(job) and not picking.keeps_room and may_reserve(job):
            picking.keep_room(job, now)
    return picking.picked()


class _Picking:
    """Hands out workers and room, job by job."""

    def __init__(self, offer: Offer, now: int, stock: Stock) -> None:
        self._offer = offer
        self._now = now
        self._stock = stock
        self._room = stock.room()
        workers = list(offer.workers)
        idle = len(workers) if offer.idle is None else offer.idle
        self._idle, self._busy = workers[:idle], workers[idle:]
        self._kept: tuple[Candidate, Needs, Room] | None = None
        self._found = Picked([], [], {}, None, False)
        self._waits = False
        self._closed = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more can begin."""
        return self._closed or not (self._idle or self._busy)

    @property
    def keeps_room(self) -> bool:
        """Whether room is kept for a job."""
        return self._kept is not None

    def offer_to(self, job: Candidate) -> bool:
        """Have a job begin if it may; False if it waits for room."""
        suspects = self._offer.suspects
        is_suspect = suspects is not None and suspects.has(job, self._now)
        if is_suspect and suspects is not None and (self._found.taken or not suspects.idle):
            self._closed = True
            return True
        needs = needs_of(job.handler)
        if needs is None:
            return True
        if not needs.amounts:
            self._begin(job, (self._idle or self._busy).pop(0))
        elif not self._give(job, needs):
            self._waits = True
            return False
        self._closed = self._closed or is_suspect
        return True

    def begin_or_keep(self, job: Candidate, since: int) -> None:
        """Have the job begin for which room is kept, or go on keeping it."""
        suspects = self._offer.suspects
        waits = suspects is not None and suspects.has(job, self._now) and not suspects.idle
        if not waits:
            self.offer_to(job)
        if job not in self._found.taken:
            self.keep_room(job, since)

    def _give(self, job: Candidate, needs: Needs) -> bool:
        """Give a job its share of the node, if there is that much for it."""
        if not self._room.fits(needs):
            return False
        if not self._idle:
            # Nobody has room behind a run of which nobody knows when it ends.
            self._waits = True
            return True
        trial = self._room.copy()
        given = trial.take(needs)
        assert given is not None
        if self._kept is not None:
            _, wanted, left = self._kept
            left = left.copy()
            left.use(needs, given)
            if not left.fits(wanted):
                return False
            self._kept = self._kept[0], wanted, left
        self._room = trial
        self._begin(job, self._idle.pop(0))
        if given:
            self._found.devices[job.seq] = given
        return True

    def _begin(self, job: Candidate, worker: int) -> None:
        self._found.taken.append(job)
        self._found.workers.append(worker)

    def keep_room(self, job: Candidate, since: int) -> None:
        """Let nothing begin from now on that would take the place of this job."""
        needs = needs_of(job.handler)
        assert needs is not None
        self._kept = job, needs, self._stock.room(since)
        self._waits = True

    def picked(self) -> Picked:
        """Return what came of it."""
        kept = None if self._kept is None else self._kept[0]
        return self._found._replace(reserved=kept, waits=self._waits)


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


def largest(resources: Iterable[str]) -> Mapping[str, int]:
    """Return the most that any of these nodes has of each resource."""
    most: dict[str, int] = {}
    for one in resources:
        for name, many in room_of(one).totals().items():
            most[name] = max(most.get(name, 0), many)
    return most
