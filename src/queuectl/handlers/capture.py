"""What a task writes, whoever writes it: Python, C or a program that it starts.

stdout and stderr of the process are files; what is in them is of the job that runs, and they are
emptied when it is over. A job that closes them, or puts others in their place, harms no one but
itself: the next finds them as they were. What a job has written can be read by its name meanwhile,
once `show` was called; then the next job gets new files, so that nobody reads what is another's.
"""

import os
import stat
import sys
from contextlib import suppress
from typing import Any

from queuectl.guard.output import halves

_STREAMS = ((1, "stdout"), (2, "stderr"))


class Capture:
    """The two streams of this process."""

    def __init__(self) -> None:
        self.limit = 1 << 20
        """How many bytes are kept of each, half of them head, half tail."""
        self._files = [fd for fd in (1, 2) if stat.S_ISREG(os.fstat(fd).st_mode)]
        self._paths = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in self._files}
        self._saved: dict[int, int] = {}
        self._ids: dict[int, tuple[int, int] | None] = {}
        for fd in (1, 2):
            self._adopt(fd)
        self._shown: list[str] = []
        """The names by which they can be read now."""
        self._streams: dict[str, Any] = {"stdout": sys.stdout, "stderr": sys.stderr}
        for stream in self._streams.values():
            # So that what Python, C and programs write stays in its order.
            stream.reconfigure(line_buffering=True, errors="backslashreplace")

    def _adopt(self, fd: int) -> None:
        """Take what a descriptor is now for what it should be."""
        if fd in self._saved:
            os.close(self._saved[fd])
        if fd in self._files:
            # A descriptor of its own, which can be read from, too.
            self._saved[fd] = os.open(self._paths[fd], os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            os.dup2(self._saved[fd], fd)
        else:
            self._saved[fd] = os.dup(fd)
        self._ids[fd] = _identity(fd)

    def show(self, names: tuple[str, str]) -> None:
        """Let what is written be read by these names, of stdout and stderr."""
        for fd, name in zip((1, 2), names, strict=True):
            if fd in self._files:
                with suppress(OSError):
                    os.link(self._paths[fd], name)
                    self._shown.append(name)

    def take(self) -> dict[str, tuple[bytes, int]]:
        """Return what was written to each, and how much that was in all, and empty them."""
        taken = {}
        for fd, name in _STREAMS:
            if (size := self._settle(fd, name)) and fd in self._files:
                taken[name] = self._read(self._saved[fd], size), size
                if not self._shown:
                    os.ftruncate(self._saved[fd], 0)
        if self._shown:
            self._begin_anew()
        return taken

    def _begin_anew(self) -> None:
        """Have new files, as somebody may still read the old ones."""
        for name in self._shown:
            with suppress(OSError):
                os.unlink(name)
        self._shown.clear()
        for fd in self._files:
            path = self._paths[fd]
            mode = stat.S_IMODE(os.fstat(self._saved[fd]).st_mode)
            new = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
            os.fchmod(new, mode)
            os.close(new)
            os.rename(f"{path}.new", path)
            self._adopt(fd)

    def _settle(self, fd: int, name: str) -> int:
        """Have a stream written out, and in its place; return how many bytes its file has."""
        own = self._streams[name]
        if getattr(sys, name) is own and not _is_gone(own):
            # What it can't write out now, it can when it is mended.
            with suppress(OSError):
                own.flush()
                found = os.fstat(fd)
                if (found.st_dev, found.st_ino) == self._ids[fd]:
                    return found.st_size
        self._mend(fd, name)
        return os.fstat(fd).st_size

    def _mend(self, fd: int, name: str) -> None:
        """Put a stream back in its place, and write out what it holds."""
        if _identity(fd) != self._ids[fd]:
            os.dup2(self._saved[fd], fd)
        own = self._streams[name]
        gone = _is_gone(own)
        if getattr(sys, name) is not own or gone:
            if gone:
                own = open(fd, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - for good
                self._streams[name] = own
            setattr(sys, name, own)
        own.flush()

    def _read(self, fd: int, size: int) -> bytes:
        if size <= self.limit:
            return os.pread(fd, size, 0)
        head, tail = halves(self.limit)
        return os.pread(fd, head, 0) + os.pread(fd, tail, size - tail)


def _is_gone(stream: Any) -> bool:
    """Tell whether a stream was closed, or its buffer taken away."""
    try:
        return bool(stream.closed)
    except ValueError:
        return True


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino
