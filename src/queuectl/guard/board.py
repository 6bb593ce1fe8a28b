"""The boards: small files that say what was begun, for whoever finds the node dead.

Of all that a node had claimed, only what was begun can have taken it down. Right before it starts
a run, the guard writes it on the board, in one of the places of its worker; the oldest makes room.
A job may kill its node and be over before anybody notices, so not only the last one counts.

Each guard of a node has a board of its own. Its first line says how many there are: only from all
of them together one knows what was not begun.
"""

import os
from contextlib import suppress

_ROOM = 64
"""Bytes for each run: longer than any token."""
_PLACES = 32
"""For each worker: more than it can have begun without any of it being written down."""


class Board:
    """The guard's end of it. Without a file it does nothing: then all runs are under suspicion."""

    __slots__ = ("_fd", "_next")

    def __init__(self) -> None:
        self._fd = -1
        self._next: dict[int, int] = {}
        """The place for the next run of each worker."""

    def open(self, path: str, boards: int) -> None:
        """Begin one of so many boards; one that is open is given up."""
        self._next.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with suppress(OSError):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            # Workers are counted from one, so there is room before them.
            self._write(0, str(boards))

    def note(self, worker: int, token: str) -> None:
        """Say what a worker is about to run."""
        if self._fd < 0:
            return
        place = self._next.get(worker, 0)
        self._next[worker] = (place + 1) % _PLACES
        self._write((worker * _PLACES + place) * _ROOM, token)

    def _write(self, at: int, text: str) -> None:
        try:
            os.pwrite(self._fd, text.encode().ljust(_ROOM, b"\0"), at)
        except OSError:
            # A board with a gap would clear somebody who isn't innocent.
            with suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def board_at(folder: str, number: int) -> str:
    """Return where the board of a node's guard is; they are numbered from one."""
    return f"{folder}/board.{number}"


def read_boards(folder: str) -> set[str] | None:
    """Return the tokens of the runs that were begun last by each worker; None if unknown."""
    begun: set[str] = set()
    number, boards = 1, 1
    while number <= boards:
        found = _read(board_at(folder, number))
        if found is None:
            return None
        boards, tokens = found
        begun |= tokens
        number += 1
    return begun


def read_board(path: str) -> set[str] | None:
    """Return the same of the workers of one guard."""
    found = _read(path)
    return None if found is None else found[1]


def _read(path: str) -> tuple[int, set[str]] | None:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return None
    rooms = [raw[at : at + _ROOM] for at in range(0, max(len(raw), 1), _ROOM)]
    head, *tokens = (room.rstrip(b"\0").decode("utf-8", "replace") for room in rooms)
    return (int(head), set(tokens) - {""}) if head.isdecimal() else None
