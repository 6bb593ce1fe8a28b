"""Who of those in line may begin now: facts in, a decision out. No clock, no store.

A store finds candidates in the order of the line, and begins runs of those that are admitted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from queuectl.limits import Gate


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

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among jobs of other queues.

        Virtual times of one queue say nothing in another; who was put first is before all times.
        """
        return -self.priority, min(self.vtime, 0), self.seq


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


class Offer(NamedTuple):
    """What a node has room for."""

    workers: Sequence[int]
    """Each gets one job at most."""
    queues: Sequence[str] = ()
    """The queues it serves; none for all."""
    suspects: Suspects | None = None
    idle: int | None = None
    """How many of the workers have nothing to do, the first of them; None is all. The others get
    jobs ahead of their time."""


class Admitted(NamedTuple):
    """What of a line may begin, where limits were asked."""

    taken: list[Candidate]
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
    line: Sequence[Candidate], offer: Offer, now: int, gates: "Mapping[str, Gate]"
) -> Admitted:
    """Return who may begin, where queues have limits: like `admit`, by what their gates say."""
    found = Admitted([], [])
    suspects, idle = offer.suspects, len(offer.workers) if offer.idle is None else offer.idle
    for job in line:
        if len(found.taken) == len(offer.workers):
            break
        gate = gates.get(job.queue)
        if gate is not None and gate.is_shut:
            continue
        is_suspect = suspects is not None and suspects.has(job, now)
        if is_suspect and suspects is not None and (found.taken or not suspects.idle):
            break
        if gate is not None:
            key = gate.ask(job.keys, job.vtime, ahead=len(found.taken) >= idle)
            if key is not None:
                found.parked.append((job, key))
            if key is not None or gate.is_shut:
                continue
        found.taken.append(job)
        if is_suspect:
            break
    return found


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
