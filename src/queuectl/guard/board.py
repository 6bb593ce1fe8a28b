"""The board: a small file that says what each worker runs, for whoever finds the node dead.

Of all that a node had claimed, only what its workers were at when it died can have taken it down.
The guard writes a worker's run on the board right before it starts it.
"""

import os
from contextlib import suppress

_ROOM = 64
"""Bytes for each worker: longer than any token."""


class Board:
    """The guard's end of it. Without a file it does nothing: then all runs are under suspicion."""

    __slots__ = ("_fd",)

    def __init__(self) -> None:
        self._fd = -1

    def open(self, path: str) -> None:
        """Begin a board; one that is open is given up."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with suppress(OSError):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def note(self, worker: int, token: str) -> None:
        """Say what a worker is about to run."""
        if self._fd < 0:
            return
        try:
            os.pwrite(self._fd, token.encode().ljust(_ROOM, b"\0"), worker * _ROOM)
        except OSError:
            # A board with a gap would clear somebody who isn't innocent.
            with suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def read_board(path: str) -> set[str] | None:
    """Return the tokens of the runs that were started last, each by its worker; None if unknown."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return None
    rooms = (raw[at : at + _ROOM] for at in range(0, len(raw), _ROOM))
    tokens = {room.rstrip(b"\0").decode("utf-8", "replace") for room in rooms}
    return tokens - {""} or None
