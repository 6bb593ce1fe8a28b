"""A thin hold on Linux inotify, through ctypes: told of changes to files instead of polling."""

import ctypes
import os
import struct
import sys

MODIFY = 0x00000002
ATTRIB = 0x00000004
ONESHOT = 0x80000000
_EVENT = struct.Struct("iIII")
_NONBLOCK = 0o4000
_CLOEXEC = 0o2000000


class Inotify:
    """Watches files and folders. `fileno()` is readable when something happened."""

    def __init__(self) -> None:
        """Open an inotify instance; an `OSError` where the system has none."""
        if not sys.platform.startswith("linux"):
            raise OSError("inotify is a Linux facility")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._check(self._libc.inotify_init1(_NONBLOCK | _CLOEXEC))

    def _check(self, result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._fd

    def watch(self, path: str, mask: int) -> int:
        """Watch a path; returns the number its events carry."""
        return self._check(
            self._libc.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask))
        )

    def read(self) -> list[tuple[int, str]]:
        """Take all events that are there: (number of the watch, name within a watched folder)."""
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return []
        events = []
        offset = 0
        while offset < len(data):
            watch, _mask, _cookie, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size
            name = data[offset : offset + length].rstrip(b"\0")
            offset += length
            events.append((watch, os.fsdecode(name)))
        return events

    def close(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
