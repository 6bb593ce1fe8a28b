"""Who of those in line may begin now: facts in, a decision out. No clock, no store.

A store finds candidates in the order of the line, and begins runs of those that are admitted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Candidate(NamedTuple):
    """A ready job, as far as it matters whether it may begin."""

    priority: int
    seq: int
    crashes: int
    run_at: int
    row: tuple[Any, ...] | None = None
    """All that is stored of the job, if that was read at once."""


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


def admit(line: list[Candidate], offer: Offer, now: int) -> list[Candidate]:
    """Return those of the first in line who may begin: up to a suspect, or that one alone."""
    suspects = offer.suspects
    if suspects is None:
        return line
    for place, job in enumerate(line):
        if suspects.has(job, now):
            return line[:1] if suspects.idle and place == 0 else line[:place]
    return line
