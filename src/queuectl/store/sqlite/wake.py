"""How nodes hear of changes to an SQLite file, in milliseconds and without polling.

Our own writers touch a file after each commit that matters; inotify tells at once. Other SQLite
clients touch nothing, but their commits modify the write-ahead log. That event comes before the
commit is visible, so it is only a hint: look again a little later, then later still.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from queuectl.errors import StoreError
from queuectl.inotify import ATTRIB, MODIFY, ONESHOT, Inotify
from queuectl.store.contract import Listener, Topic
from queuectl.store.files import touch

LOOK_AGAIN = (0.01, 0.05, 0.25)
"""Seconds after a foreign write at which to look; a commit takes a few milliseconds."""
POLL = 0.1
"""Seconds between looks where the system can't tell of changes."""


def listen(
    path: str, folder: str, version: Callable[[], int], make: Callable[[], None]
) -> Listener:
    """Listen to the database at `path` with its companion folder, which `make` makes.

    `version` tells by another number that another connection has committed something.
    """
    touch(folder, Topic, make)
    try:
        return _Watching(path, folder, version)
    except OSError:
        return _Polling(path, folder)


class _Watching(Listener):
    """Told by inotify."""

    def __init__(self, path: str, folder: str, version: Callable[[], int]) -> None:
        self._version = version
        self._seen = version()
        self._inotify = Inotify()
        self._log = path + "-wal"
        self._wal = -1
        """The watch on the log; one write is enough to know, so it is set anew with every look."""
        self._watch_log()
        self._folder = self._inotify.watch(folder, ATTRIB)
        self._looks: list[float] = []
        self._topics: set[Topic] = set()
        """What was heard and not yet told."""

    def _watch_log(self) -> None:
        self._wal = self._inotify.watch(self._log, MODIFY | ONESHOT)

    def fileno(self) -> int:
        return self._inotify.fileno()

    def heard(self) -> set[Topic]:
        if self._hear():
            self._expect(monotonic())
        topics, self._topics = self._topics, set()
        self.told = Topic.WORK in topics
        if self._looks and monotonic() >= self._looks[0]:
            self._looks.pop(0)
            if self._wal < 0:
                # Without a log nobody writes; it is there again when somebody does.
                with suppress(OSError):
                    self._watch_log()
                if self._wal < 0:
                    self._expect(monotonic())
            if self._was_changed():
                topics.add(Topic.WORK)
                # That was the commit, most likely; only the last look makes sure.
                del self._looks[:-1]
        return topics

    def _hear(self) -> bool:
        """Take in what inotify has to tell; True when somebody has written to the log."""
        written = False
        for watch, name in self._inotify.read():
            if watch == self._folder and name in (Topic.WORK, Topic.CONTROL):
                self._topics.add(Topic(name))
            elif watch == self._wal:
                self._wal = -1
                written = True
        return written

    def _was_changed(self) -> bool:
        """Tell whether others have committed something: what we write goes into the same log."""
        before = self._seen
        try:
            self._seen = self._version()
        except StoreError:
            return True  # Whoever looks will find out what is wrong.
        return self._seen != before

    def _expect(self, now: float) -> None:
        """Look soon, and once more so long after the last write that its commit must be over."""
        if self._looks:
            self._looks[1:] = [now + LOOK_AGAIN[-1]]
        else:
            self._looks = [now + delay for delay in LOOK_AGAIN]

    def expect(self) -> None:
        return

    def disregard(self) -> None:
        if not self._hear():
            return
        # First watch, then look: what others commit from here on is heard. To miss somebody who is
        # at it just now takes a moment that hardly is, and then the next look around finds it.
        with suppress(OSError):
            self._watch_log()
        if self._looks or self._wal < 0:
            self._expect(monotonic())
        elif self._was_changed():
            self._topics.add(Topic.WORK)

    def recheck_in(self) -> float | None:
        if self._topics:
            return 0.0
        return max(0.0, self._looks[0] - monotonic()) if self._looks else None

    def close(self) -> None:
        self._inotify.close()


class _Polling(Listener):
    """Compares times of the same files, where nothing better is to be had."""

    def __init__(self, path: str, folder: str) -> None:
        self._files = {topic: os.path.join(folder, topic.value) for topic in Topic}
        self._wal = path + "-wal"
        self._seen = self._look()

    def _look(self) -> dict[str, tuple[int, int]]:
        looks = {}
        for name in (*self._files.values(), self._wal):
            try:
                status = os.stat(name)
                looks[name] = (status.st_mtime_ns, status.st_size)
            except FileNotFoundError:
                looks[name] = (0, 0)
        return looks

    def fileno(self) -> int:
        return -1

    def heard(self) -> set[Topic]:
        before, self._seen = self._seen, self._look()
        topics = {t for t, name in self._files.items() if before[name] != self._seen[name]}
        if before[self._wal] != self._seen[self._wal]:
            topics.add(Topic.WORK)
        return topics

    def expect(self) -> None:
        return

    def disregard(self) -> None:
        return

    def recheck_in(self) -> float | None:
        return POLL

    def close(self) -> None:
        return
