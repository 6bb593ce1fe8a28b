"""Whether others on the same host are in the way of what is measured, and waiting until not.

A host that is shared gives us less of its processors at some times than at others: by taking them
away for moments, which Linux counts, or by running them slowly, which only a piece of work tells.
"""

import math
import os
from dataclasses import dataclass
from time import monotonic, perf_counter, sleep

MOST_STOLEN = 0.02
"""The part of the processors that others may take while a subject is measured ..."""
MOST_SLOWER = 1.0
"""... and by how much slower these may be than at their best in this run: half of that is usual."""
WORK = 5_000_000
"""Rounds of an empty loop: a tenth of a second or so."""
CALM_WITHIN = 60.0
"""Seconds to wait for a calm moment before a subject is measured."""
LOOK_EVERY = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """How much others on the same host were in the way of what was measured."""

    stolen: float
    """The part of the time for which others had our processors."""
    slower: float
    """By which part a fixed piece of work took longer than at its best: a processor that others
    have half of, or that runs at a lower clock, is there all the time, but slow."""

    @property
    def is_much(self) -> bool:
        """Whether what was measured says little about us."""
        return self.stolen > MOST_STOLEN or self.slower > MOST_SLOWER

    @property
    def sum(self) -> float:
        """Both together, to find the least."""
        return self.stolen + self.slower

    def __str__(self) -> str:
        return (
            f"others took {self.stolen:.0%} of the processors, which were {self.slower:.0%} slower"
        )


class Weather:
    """Watches what others on the same host leave us.

    Nobody waits longer than `patience` seconds for better weather, in all.
    """

    def __init__(self, patience: float) -> None:
        self._best = math.inf
        self._patience = patience
        self._before = (0, 0)
        self._slower = 0.0

    def begin(self) -> None:
        """Begin to watch, in a calm moment; but don't wait for one too long."""
        left = min(CALM_WITHIN, self._patience)
        while (found := self._look()).is_much and left > 0:
            began = monotonic()
            sleep(LOOK_EVERY)
            waited = monotonic() - began
            left -= waited
            self._patience -= waited
        self._before, self._slower = _ticks(), found.slower

    def end(self) -> Disturbance:
        """Return how it was since then."""
        stolen = _stolen_since(self._before)
        return Disturbance(stolen=stolen, slower=max(self._slower, self._look().slower))

    def _look(self) -> Disturbance:
        """Return how it is now."""
        before = _ticks()
        pace = work()
        self._best = min(self._best, pace)
        return Disturbance(stolen=_stolen_since(before), slower=pace / self._best - 1)


def work() -> float:
    """Return how many seconds a fixed piece of work takes on all processors at once."""
    children = []
    began = perf_counter()
    for _ in range(os.cpu_count() or 1):
        child = os.fork()
        if not child:
            for _ in range(WORK):
                pass
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return perf_counter() - began


def _stolen_since(before: tuple[int, int]) -> float:
    stolen, whole = (now - then for now, then in zip(_ticks(), before, strict=True))
    return stolen / max(1, whole)


def _ticks() -> tuple[int, int]:
    """Return for how long others had the processors while we wanted them, and the whole time."""
    with open("/proc/stat") as file:
        _, *ticks = file.readline().split()
    return int(ticks[7]), sum(map(int, ticks[:8]))
