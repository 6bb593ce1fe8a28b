"""A guard's clocks: when the next step of each run is due, and when the node's lease ends."""

import time
from heapq import heapify, heappop, heappush

from queuectl.guard.run import NEVER

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuectl.guard.run import Run

_LEASE_CHECK = 1.0
"""Seconds to sleep at most while a lease counts by a clock other than the one we sleep by: that
clock may have gone on while the machine was suspended."""


class Timers:
    """Runs by the time of their next step. Setting another time, or none, replaces the last."""

    __slots__ = ("_heap", "_live", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Run]] = []
        self._live = 0
        self._serial = 0

    def set(self, run: "Run", due: float) -> None:
        """Make the next step of a run due at that time."""
        if run.due == NEVER:
            self._live += 1
        run.due = due
        self._serial += 1
        heappush(self._heap, (due, self._serial, run))
        # Long timeouts of short runs would pile up.
        if len(self._heap) > 4 * self._live + 64:
            self._heap = [timer for timer in self._heap if timer[0] == timer[2].due]
            heapify(self._heap)

    def clear(self, run: "Run") -> None:
        """Forget a run."""
        if run.due != NEVER:
            self._live -= 1
            run.due = NEVER

    def next(self) -> float:
        """Return when the next step is due, at the earliest."""
        return self._heap[0][0] if self._heap else NEVER

    def due(self, now: float) -> "Iterator[Run]":
        """Yield the runs whose next step is due; more may be set meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            due, _, run = heappop(self._heap)
            if due == run.due:
                self.clear(run)
                yield run


class Deadline:
    """The end of the node's lease, by a clock of its choice; none until the node names one."""

    __slots__ = ("_at", "_clock", "noted")

    def __init__(self) -> None:
        self._clock = time.CLOCK_MONOTONIC
        self._at: float | None = None
        self.noted = False
        """Whether it has been acted upon."""

    def extend(self, clock: int, at: float | None) -> None:
        """Put it off, or set it; None is for ever."""
        self._clock = clock
        self._at = at
        self.noted = False

    def is_over(self) -> bool:
        """Tell whether it has passed."""
        return self._at is not None and time.clock_gettime(self._clock) >= self._at

    def look_in(self) -> float:
        """Return how many seconds may pass before it has to be looked at again."""
        if self._at is None or self.noted:
            return NEVER
        left = self._at - time.clock_gettime(self._clock)
        return left if self._clock == time.CLOCK_MONOTONIC else min(left, _LEASE_CHECK)
