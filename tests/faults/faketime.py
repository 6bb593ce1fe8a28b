"""A wall clock that jumps while processes run by it: libfaketime, told by a file what to add."""

import os
from collections.abc import Iterator
from pathlib import Path
from time import CLOCK_BOOTTIME, CLOCK_REALTIME, clock_gettime, clock_gettime_ns

from tests.servers.install import program

SLACK = 0.05
"""Seconds by which the kernel's uptime, as a shell reads it, may be behind."""


class JumpingClock:
    """A wall clock that is the machine's own, plus what we say. Steady clocks aren't touched.

    It keeps its own history, by the time since the machine booted: what it showed, and when.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.clock"
        self._python = folder / f"{name}.python"
        self._python.mkdir(exist_ok=True)
        # The library refuses to sleep until a time of a clock that it leaves alone, as Python does.
        (self._python / "sitecustomize.py").write_text(
            "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds)\n"
        )
        self.offset = 0
        """How many seconds it is ahead."""
        self._history: list[tuple[float, float, int]] = []
        """From when to when it may have been so many seconds ahead, but for the present."""
        self._since = uptime()
        self._write()

    @property
    def env(self) -> dict[str, str]:
        """The environment of processes that live by this clock."""
        program("faketime")
        library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": os.pathsep.join([str(self._python), os.environ.get("PYTHONPATH", "")]),
        }

    def jump(self, seconds: int) -> None:
        """Make it jump."""
        before = uptime()
        old = self.offset
        self.offset += seconds
        self._write()
        self._history.append((self._since, uptime(), old))
        self._since = before

    def now(self) -> float:
        """Return what it shows, in milliseconds since 1970."""
        return _shown(uptime(), self.offset)

    def had_reached(self, time: float, *, since: float, until: float) -> bool:
        """Tell whether it showed that time, in milliseconds, at some moment between two uptimes."""
        return any(
            _shown(min(end, until + SLACK), offset) >= time
            for begin, end, offset in self._all()
            if begin <= until + SLACK and end >= since
        )

    def _all(self) -> Iterator[tuple[float, float, int]]:
        yield from self._history
        yield self._since, float("inf"), self.offset

    def _write(self) -> None:
        # Renamed into place: nobody reads half a number, or none.
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{self.offset:+d}\n")
        # A server has an account of its own.
        draft.chmod(0o644)
        draft.rename(self._file)


def uptime() -> float:
    """Return the seconds since the machine booted, as `/proc/uptime` does."""
    return clock_gettime(CLOCK_BOOTTIME)


def _shown(at: float, offset: int) -> float:
    booted = clock_gettime_ns(CLOCK_REALTIME) - clock_gettime_ns(CLOCK_BOOTTIME)
    return (at + offset) * 1000 + booted / 1e6
