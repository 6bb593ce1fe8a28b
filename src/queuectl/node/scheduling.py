"""Scheduling: making the jobs of schedules when they are due. Every node does it, for all."""

from time import monotonic

from queuectl.job import Job
from queuectl.queue import Queue

PAUSE = 2.0
"""Seconds until it is tried again, if it couldn't be done."""
BREATH = 0.1
"""Seconds until it is tried again, if others hold what is due."""
LOOK_EVERY = 60.0
"""Seconds after which a node looks for schedules that nobody told it of."""


class Scheduling:
    """Knows when the next schedule is due, and has its jobs made."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._store = queue.store
        self.next_at: int | None = None
        """When the next one is due, by the store's clock; None if none is."""
        self._look_at = 0.0
        self._rest_until = 0.0

    def look(self) -> None:
        """Find out when the next one is due."""
        self._look_at = monotonic() + LOOK_EVERY
        self.next_at = self._store.schedules.next_at()

    def due_in(self) -> float:
        """Return in how many seconds there is something to do."""
        if self.next_at is None:
            return self._look_at - monotonic() if self._look_at else 0.0
        due = min((self.next_at - self._store.clock.now()) / 1000, self._look_at - monotonic())
        return max(due, self._rest_until - monotonic())

    def tick(self) -> list[Job]:
        """Make the jobs that are due, and return them."""
        made: list[Job] = []
        # Set first: should it fail, it isn't tried again at once.
        due, self.next_at = self.next_at, None
        self._look_at = monotonic() + PAUSE
        if due is not None and due <= self._store.clock.now():
            made = self._queue.schedules.tick()
        self.look()
        if not made and self.next_at is not None and self.next_at <= self._store.clock.now():
            # Another node is at it, and may have been stopped in the middle.
            self._rest_until = monotonic() + BREATH
        return made
