"""The console: the standard error of a node, whose reader may be slow or gone.

A reader may stall: a pager that waits for a key, Ctrl+S, a collector of logs that hangs. Jobs go on
meanwhile. What isn't read waits, up to a size; what comes after that is left out and counted.
"""

import os
import select
import stat
from time import monotonic
from typing import TextIO

MOST_WAITING = 1 << 20
"""Bytes that wait for their reader."""
AT_ONCE = 4096
"""What a pipe takes whole when it takes anything (PIPE_BUF)."""
LAST_WORDS = 2.0
"""Seconds for which the end of a node waits for its reader."""


class Console:
    """The node's standard error. It waits for its reader at the end only."""

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._encoding = stream.encoding or "utf-8"
        self._plain = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        self._fd = stream.fileno() if self._plain else _opened_again(stream.fileno())
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._waiting = bytearray()
        self._left_out = 0

    def write(self, text: str) -> None:
        """Write lines, or keep them until they can be."""
        data = text.encode(self._encoding, "backslashreplace")
        if self._left_out or len(self._waiting) + len(data) > MOST_WAITING:
            self._left_out += data.count(b"\n")
        else:
            self._waiting += data
        self.push()

    def push(self, patience: float = 0.0) -> None:
        """Write of what waits as much as is taken, within so many seconds."""
        until = monotonic() + patience
        while self._waiting or self._left_out:
            if not self._waiting:
                self._waiting += b"[%d lines left out: nobody read them]\n" % self._left_out
                self._left_out = 0
            if not self._takes_more(max(0.0, until - monotonic())):
                return
            try:
                taken = os.write(
                    self._fd, self._waiting if self._plain else self._waiting[:AT_ONCE]
                )
            except BlockingIOError:
                return
            del self._waiting[:taken]

    def _takes_more(self, within: float) -> bool:
        return self._plain or bool(self._poll.poll(within * 1000))

    def close(self) -> None:
        """Write the rest, unless nobody reads it."""
        self.push(LAST_WORDS)


def _opened_again(fd: int) -> int:
    """Open a pipe or a terminal once more, so that nobody else finds it not to block.

    Where that can't be done, as with a socket, what is written at once is small enough to fit.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return fd
