"""The clocks of stores; that of a server is asked now and then, and counted by our own in between.

Our own clock only measures how long ago the server was asked; what it shows doesn't matter. The
answer was true some time between question and reply, so the reading is never ahead of the server;
unless the server's clock was put back since. So every claim asks it along with its first question.
"""

import time
from math import ceil
from threading import Lock
from time import clock_gettime
from typing import Protocol

# Goes on while the host sleeps; elsewhere than on Linux, CLOCK_MONOTONIC does.
ELAPSED: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

STALE = 10.0
"""Seconds after which the server is asked again."""


class Clock(Protocol):
    """The clock of a store, as this host knows it."""

    lease_clock: int
    """The id of the host's clock by which a node must give up its lease by itself."""

    def now(self) -> int:
        """Return the time, in milliseconds since 1970."""

    def steady(self) -> int:
        """Return the time by which leases are meant, in milliseconds since whenever."""

    def is_stale(self) -> bool:
        """Tell whether it is time to ask the database for its time."""

    def learn(self, *, asked: float, said: int, heard: float) -> int:
        """Take in what the database said between two of our readings.

        Returns how many milliseconds our reading was ahead.
        """


class ServerClock:
    """What a server's clock says."""

    # A host that sleeps can't renew, and others take over: so its sleep must count.
    lease_clock = ELAPSED

    def __init__(self) -> None:
        self._offset: float | None = None
        self._asked = 0.0
        self._lock = Lock()

    def is_stale(self) -> bool:
        """Tell whether it is time to ask the server."""
        return self._offset is None or clock_gettime(ELAPSED) - self._asked > STALE

    def learn(self, *, asked: float, said: int, heard: float) -> int:
        """Take in that the server said a time, in milliseconds, between two of our readings.

        Returns how many milliseconds our reading was ahead: so far the server's was put back.
        """
        least, most = said - heard * 1000, said + 1 - asked * 1000
        with self._lock:
            self._asked = heard
            before = self._offset
            if before is not None and least <= before <= most:
                return 0
            self._offset = least
            return 0 if before is None or before < least else ceil(before - least)

    def now(self) -> int:
        """Return what the server's clock says now, or a moment ago."""
        assert self._offset is not None, "the server wasn't asked yet"
        return int(clock_gettime(ELAPSED) * 1000 + self._offset)

    def steady(self) -> int:
        """Return the same: there is no other clock in common."""
        return self.now()


_clocks: dict[str, ServerClock] = {}


def clock_of(server: str) -> ServerClock:
    """Return the clock of a server: one for all that use it in this process."""
    return _clocks.setdefault(server, ServerClock())
