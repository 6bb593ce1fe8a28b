"""Hearing of work where the database can't tell: asking, often when there is much, seldom when not.

Writers on the same host ring a doorbell: they touch a file, and inotify tells at once. For those
on other hosts there is a clock that runs fast after something was found and slows down again.
"""

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from queuectl.inotify import ATTRIB, Inotify
from queuectl.store.contract import Listener, Topic
from queuectl.store.files import touch

SOONEST = 0.02
"""Seconds until the next look, right after something was found."""
LATEST = 0.5
"""Seconds between looks when nothing happens."""
EARLY = 0.2
"""The share of this time by which who is awake anyway looks early: so it wakes up less often."""
SLOWER = 1.3
"""By how much the looks get rarer each time nothing was found."""


class PollingListener(Listener):
    """A clock, and a doorbell for those on this host."""

    def __init__(self, folder: str, make: Callable[[], None]) -> None:
        touch(folder, Topic, make)
        self._bell: Inotify | None = None
        with suppress(OSError):
            self._bell = Inotify()
            self._bell.watch(folder, ATTRIB)
        self._latest = LATEST
        self.expect()

    def pace(self, seconds: float) -> None:
        self._latest = seconds
        self.expect()

    def expect(self) -> None:
        self._pause = min(SOONEST, self._latest)
        self._next = monotonic() + self._pause

    def fileno(self) -> int:
        return -1 if self._bell is None else self._bell.fileno()

    def heard(self) -> set[Topic]:
        topics: set[Topic] = set()
        if self._bell is not None:
            topics |= {Topic(name) for _, name in self._bell.read() if name in set(Topic)}
        if topics:
            # The bell may ring a little before the commit can be seen.
            self.expect()
        elif monotonic() >= self._next - EARLY * self._pause:
            topics.add(Topic.WORK)
            self._pause = min(self._pause * SLOWER, self._latest)
            self._next = monotonic() + self._pause
        return topics

    def disregard(self) -> None:
        return

    def recheck_in(self) -> float | None:
        return max(0.0, self._next - monotonic())

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()
