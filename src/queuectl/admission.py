"""Who of those in line may begin now: facts in, a decision out. No clock, no store.

A store finds candidates in the order of the line, and begins runs of those that are admitted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from queuectl.job import ANY_HANDLER, ANY_TYPE, NEEDS, TYPE, base_handler
from queuectl.values import dataclass

if TYPE_CHECKING:
    from queuectl.limits import Gate
    from queuectl.resources import Stock

T = TypeVar("T")


class Candidate(NamedTuple):
    """A ready job, as far as it matters whether it may begin."""

    priority: int
    seq: int
    crashes: int
    run_at: int
    vtime: int
    row: tuple[Any, ...] | None = None
    """All that is stored of the job, if that was read at once."""
    queue: str = ""
    """Said only of jobs of queues that have limits, as are these."""
    keys: tuple[str, ...] = ()
    handler: str = ""

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among jobs of other queues.

        Virtual times of one queue say nothing in another; who was put first is before all times.
        """
        return -self.priority, min(self.vtime, 0), self.seq

    @property
    def place_in_queue(self) -> tuple[int, int, int]:
        """Where it stands among jobs of its own queue, whoever handles these."""
        return -self.priority, self.vtime, self.seq


class Suspects(NamedTuple):
    """Jobs that one more crash would bury: each gets a node for itself, if that can be had soon."""

    crashes: int
    """Who crashed so often is one."""
    patience: int
    """Who has been due for longer than so many milliseconds takes its turn like all others."""
    idle: bool
    """Whether nothing runs on the node that claims."""

    def has(self, job: Candidate, now: int) -> bool:
        """Tell whether a job is one of them."""
        return job.crashes >= self.crashes and job.run_at >= now - self.patience


@dataclass(frozen=True, slots=True)
class Serving:
    """Which queues a node serves: all, some, or all but some; `in` tells it of each."""

    names: tuple[str, ...] = ()
    """These only; none for all."""
    excluded: tuple[str, ...] = ()
    """All but these, also those that there will be."""
    weights: tuple[int, ...] = ()
    """How much each of the names gets of the node; none if priority decides among them."""
    in_order: bool = False
    """Whether each of the names comes before all that follow."""
    handlers: tuple[str, ...] = ()
    """What the node can run besides commands: what is in the column `handler` of jobs, or
    `ANY_TYPE`."""
    no_commands: bool = False
    """Whether it leaves commands to others."""
    resources: str = ""
    """What of each resource it has, as `resources` writes it."""
    labels: tuple[str, ...] = ()
    """What else is said of it."""

    def __contains__(self, queue: str) -> bool:
        """Tell whether jobs of this queue are taken."""
        return (not self.names or queue in self.names) and queue not in self.excluded

    def handles(self, handler: str) -> bool:
        """Tell whether jobs that need this handler can be run."""
        if not handler:
            return not self.no_commands
        if handler.startswith(NEEDS):
            return self._meets(handler)
        if handler in self.handlers or ANY_HANDLER in self.handlers:
            return True
        return ANY_TYPE in self.handlers and handler.startswith(TYPE)

    @property
    def has_lines(self) -> bool:
        """Whether it takes other jobs than commands that need nothing."""
        return bool(self.handlers or self.resources or self.labels)

    @property
    def has_classes(self) -> bool:
        """Whether it can take jobs that need something."""
        return bool(self.resources or self.labels)

    def _meets(self, handler: str) -> bool:
        """Tell whether it has what jobs of a class need, with all that it has free."""
        if ANY_HANDLER in self.handlers:
            return True
        if not self.has_classes or not self.handles(base_handler(handler)):
            return False
        from queuectl.resources import could_hold, needs_of

        needs = needs_of(handler)
        if needs is None or not set(needs.labels).issubset(self.labels):
            return False
        return could_hold(self.resources, needs)

    def takes(self, queue: str, handler: str) -> bool:
        """Tell whether jobs of this line are taken."""
        return queue in self and self.handles(handler)

    @property
    def named(self) -> tuple[str, ...]:
        """All queues that it names, to be served or not."""
        return self.names + self.excluded

    def __str__(self) -> str:
        """Say it in a few words."""
        if self.excluded:
            return f"all but {', '.join(self.excluded)}"
        if self.weights:
            shares = zip(self.names, self.weights, strict=True)
            return ", ".join(f"{name}:{weight}" for name, weight in shares)
        return (", then " if self.in_order else ", ").join(self.names) or "all"


ALL_QUEUES = Serving()


class Order(Protocol):
    """Who comes first among the ready jobs of several queues; `precedence` has them."""

    def arrange(self, lines: Mapping[str, Sequence[T]]) -> Iterator[T]:
        """Yield the jobs of these queues, of each in its own order; nothing changes by that."""

    def took(self, queues: Iterable[str]) -> None:
        """Hear of which queues jobs were taken, in this order."""


class Keeper(Protocol):
    """Knows what a node has for jobs that need something; `fitting` has it."""

    def asks(self, job: Candidate) -> bool:
        """Tell whether a job takes anything of the node; most need none of it for themselves."""

    def is_reserved(self, job: Candidate) -> bool:
        """Tell whether room is kept for this job since before."""

    def has_room(self, job: Candidate) -> bool:
        """Tell whether a job may begin; if not, room may be kept for it from now on."""

    def wait(self, job: Candidate) -> None:
        """Hear that a job doesn't begin now, for want of room or of a worker that is free."""

    def take(self, job: Candidate) -> None:
        """Hear that a job begins: what it needs isn't free any more."""


class Offer(NamedTuple):
    """What a node has room for."""

    workers: Sequence[int]
    """Each gets one job at most."""
    queues: Serving = ALL_QUEUES
    suspects: Suspects | None = None
    idle: int | None = None
    """How many of the workers have nothing to do, the first of them; None is all. The others get
    jobs ahead of their time."""
    order: Order | None = None
    """Whose turn it is among the queues; None if priority decides, then who came first."""
    stock: "Stock | None" = None
    """What the node has for jobs that need something, and what its runs have of it."""


class Admitted(NamedTuple):
    """What of a line may begin, where limits were asked."""

    taken: list[Candidate]
    workers: list[int]
    """Who runs each of them."""
    parked: list[tuple[Candidate, str]]
    """Those whose keys have no room, each with the key."""


def admit(line: list[Candidate], offer: Offer, now: int) -> list[Candidate]:
    """Return those of the first in line who may begin: up to a suspect, or that one alone."""
    suspects = offer.suspects
    if suspects is None:
        return line
    for place, job in enumerate(line):
        if suspects.has(job, now):
            return line[:1] if suspects.idle and place == 0 else line[:place]
    return line


def admit_limited(
    line: Iterable[Candidate],
    offer: Offer,
    now: int,
    gates: "Mapping[str, Gate]",
    node: str,
    keeper: "Keeper | None" = None,
) -> Admitted:
    """Return who may begin, where queues have limits, or jobs need something: like `admit`.

    The gates of the queues say of whom one may, and the keeper of the node for whom it has room.
    """
    from queuectl.limits import Place

    found = Admitted([], [], [])
    suspects, idle = offer.suspects, len(offer.workers) if offer.idle is None else offer.idle
    places = [Place(node, worker, at >= idle) for at, worker in enumerate(offer.workers)]
    for job in line:
        if not places:
            break
        gate = gates.get(job.queue)
        if gate is not None and gate.is_shut:
            continue
        is_suspect = suspects is not None and suspects.has(job, now)
        needy = keeper is not None and keeper.asks(job)
        if is_suspect and suspects is not None and (found.taken or not suspects.idle):
            if keeper is not None and needy and keeper.is_reserved(job):
                # It waits for the node to be idle, and others go on meanwhile.
                keeper.wait(job)
                continue
            break
        free = places
        if keeper is not None and needy:
            if not keeper.has_room(job):
                continue
            # Nobody takes room for a run of which nobody knows when it begins.
            free = [place for place in places if not place.ahead]
            if not free:
                keeper.wait(job)
                continue
        at: int | None = 0
        if gate is not None:
            at, key = gate.ask(job.keys, job.vtime, free)
            if key is not None:
                found.parked.append((job, key))
        if at is None:
            continue
        found.taken.append(job)
        found.workers.append(places.pop(at).worker)
        if keeper is not None and needy:
            keeper.take(job)
        if is_suspect:
            break
    return found


def first_in_line(lines: Mapping[str, list[Candidate]], offer: Offer) -> list[Candidate]:
    """Return the first jobs over several queues without limits, as many as there is room for."""
    if offer.order is not None:
        return list(islice(line_up(lines, offer), len(offer.workers)))
    found = [job for line in lines.values() for job in line]
    found.sort(key=lambda job: job.place)
    return found[: len(offer.workers)]


def line_up(lines: Mapping[str, Sequence[Candidate]], offer: Offer) -> Iterator[Candidate]:
    """Yield the jobs of several queues, of each in its own order, as the node wants them."""
    return merge(list(lines.values())) if offer.order is None else offer.order.arrange(lines)


def one_line(lines: Sequence[list[Candidate]], limit: int) -> list[Candidate]:
    """Return the first jobs of a queue, of which those of each handler are a line by themselves."""
    if len(lines) == 1:
        return lines[0]
    found = [job for line in lines for job in line]
    found.sort(key=lambda job: job.place_in_queue)
    return found[:limit]


def merge(lines: Sequence[Sequence[Candidate]]) -> Iterator[Candidate]:
    """Yield the jobs of several queues, of each in its own order: by priority, then first come.

    Among queues, only who stands first in each is compared.
    """
    heads = [list(reversed(line)) for line in lines if line]
    while heads:
        first = min(heads, key=lambda line: line[-1].place)
        yield first.pop()
        if not first:
            heads.remove(first)
