"""A clock that can be moved: what is due in five minutes is due now."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from queuectl.queue import Queue
from queuectl.request import read_duration
from queuectl.store.clock import Clock


class MovedClock:
    """The clock of a queue, as this process sees it. It goes on by itself, and can be moved on."""

    def __init__(self, clock: Clock) -> None:
        """Begin with what another clock says."""
        self._clock = clock
        self._ahead = 0
        self.lease_clock = clock.lease_clock

    def move(self, by: "str | float | timedelta") -> datetime:
        """Move it on by a duration such as `5m`, and return what it says then."""
        self._ahead += read_duration("move", by)
        return self.time

    def move_to(self, at: int) -> None:
        """Move it on to a time in milliseconds since 1970, unless that is over."""
        self._ahead += max(0, at - self.now())

    @property
    def time(self) -> datetime:
        """What it says, in UTC."""
        return datetime.fromtimestamp(self.now() / 1000, UTC)

    def now(self) -> int:
        """Return what it says, in milliseconds since 1970."""
        return self._clock.now() + self._ahead

    def steady(self) -> int:
        """Return the time by which leases are meant, which doesn't move."""
        return self._clock.steady()

    def is_stale(self) -> bool:
        """Tell whether it is time to ask the database for its time."""
        return self._clock.is_stale()

    def learn(self, *, asked: float, said: int, heard: float) -> int:
        """Take in what the database said."""
        return self._clock.learn(asked=asked, said=said, heard=heard)


@contextmanager
def moving(queue: Queue) -> Iterator[MovedClock]:
    """Give a queue a clock that can be moved, for as long as this lasts.

    It holds for what this process does with this `Queue`: workers have clocks of their own.
    """
    # The two places in which a store in a database has its clock.
    store: Any = queue.store
    before = store.clock
    if isinstance(before, MovedClock):
        yield before
        return
    clock = MovedClock(before)
    store.clock = store.db.driver.clock = clock
    try:
        yield clock
    finally:
        store.clock = store.db.driver.clock = before
