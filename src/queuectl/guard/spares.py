"""Spool files that nothing was written to: the next runs get them, under their own names.

Most commands are silent, or say something on one of their two streams only. To make a file and
remove it again would cost more than all the rest of keeping their output; on a filesystem without
a journal it costs the more, the more files were removed lately.

A file passes on only if nobody but us has it open, so that nobody reads, or writes, what is
another run's. Where the kernel can't tell us that, every run gets a new file.
"""

import os
import stat
from contextlib import suppress

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 1024
_AS_MADE = stat.S_IFREG | 0o600
_AGAIN = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Spares:
    """Empty files by the names that they had in the runs before."""

    __slots__ = ("_claim", "_me", "_paths")

    def __init__(self) -> None:
        self._me = os.geteuid()
        self._paths: dict[str, None] = {}
        self._claim = _claim_by_lease()

    def keep(self, path: str) -> None:
        """Take the file of a run that is over; it may be gone."""
        if self._claim is not None and len(self._paths) < _MOST:
            self._paths[path] = None
        else:
            _remove(path)

    def take(self, path: str) -> int:
        """Open a spare file for appending, under this name from now on; -1 when there is none."""
        self._paths.pop(path, None)
        while self._paths:
            spare, _ = self._paths.popitem()
            fd = self._reopen(spare, path)
            if fd >= 0:
                return fd
            _remove(spare)
        return -1

    def _reopen(self, spare: str, path: str) -> int:
        try:
            fd = os.open(spare, _AGAIN)
        except OSError:
            return -1
        try:
            if self._claim is not None and self._is_as_made(fd) and self._claim(fd, True):
                # Whoever looks for the run before finds nothing by its name from here on.
                os.rename(spare, path)
                self._claim(fd, False)
                os.set_blocking(fd, True)
                return fd
        except OSError:
            pass
        os.close(fd)
        return -1

    def _is_as_made(self, fd: int) -> bool:
        """Tell whether the run before has left its file as it got it."""
        info = os.fstat(fd)
        return (
            info.st_mode == _AS_MADE
            and info.st_size == 0
            and info.st_nlink == 1
            and info.st_uid == self._me
        )

    def clear(self) -> None:
        """Remove them all."""
        for path in self._paths:
            _remove(path)
        self._paths.clear()


def _claim_by_lease() -> "Callable[[int, bool], bool] | None":
    """Return what makes a file ours alone for a moment, and ends that; None where nothing does."""
    import fcntl

    try:
        command, exclusive, none = fcntl.F_SETLEASE, fcntl.F_WRLCK, fcntl.F_UNLCK
    except AttributeError:
        return None

    def claim(fd: int, wanted: bool) -> bool:
        # Refused while any other descriptor for the file is open, anywhere.
        try:
            fcntl.fcntl(fd, command, exclusive if wanted else none)
        except OSError:
            return False
        return True

    return claim


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
