"""The boards: small files that say what was begun, for whoever finds the node dead.

Of all that a node had claimed, only what was begun can have taken it down. Right before it starts
a run, the guard writes it on the board, in one of the places of its worker; the oldest makes room.
A job may kill its node and be over before anybody notices, so not only the last one counts.

The last one of a worker is also the one that has the worker's files, if they are the ones that the
board says: see `files.py`.

Each guard of a node has a board of its own; the node that has warm programs keeps more of them,
with more places. The first line says how many there are of both: only from all of them together one
knows what was not begun. The guard that takes the place of a lost one goes on
with its board: nothing that was begun may be forgotten before the node has written it down.
"""

import os
from contextlib import suppress

from queuectl.sharing import mode_in

_ROOM = 128
"""Bytes for each run: longer than any token with two inodes."""
_PLACES = 32
"""For each worker: more than it can have begun without any of it being written down."""
MANY_PLACES = 256
"""The same, of a worker that runs tasks: these are short, and many of them ahead."""


_GAP = b"gap"
"""At the end of the first line: something that was begun isn't here."""


class Board:
    """A board, as the guard writes it. Without a file it does nothing: any run may have begun."""

    __slots__ = ("_begun", "_fd", "_places")

    def __init__(self, places: int = _PLACES) -> None:
        self._fd = -1
        self._places = places
        self._begun: dict[int, int] = {}
        """How many runs each worker has begun."""

    def open(self, path: str, boards: int, *, first: bool, more: int = 0) -> None:
        """Write to this board, one of so many, and make it if there is none; or do without one.

        Unless it is the first of its workers, one that has to be made has a gap.
        """
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        raw = _read(path)
        self._begun = _counts(raw, self._places)
        try:
            if _count(raw):
                self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            else:
                self._fd = _make(path, boards, more, gap=not first)
        except OSError:
            # What is said on an old one would be about others.
            with suppress(OSError):
                os.unlink(path)

    def note(self, worker: int, token: str, out: int = 0, err: int = 0) -> bool:
        """Say what a worker is about to run, and in which files; False when that can't be said."""
        if self._fd < 0:
            return False
        number = self._begun.get(worker, 0)
        self._begun[worker] = number + 1
        place = worker * self._places + number % self._places
        try:
            _write(self._fd, place, f"{number} {out} {err} {token}")
        except OSError:
            # A board with a gap would clear somebody who isn't innocent. Whose the files of
            # workers are it still says.
            with suppress(OSError):
                _note_gap(self._fd)
            return False
        return True


def _make(path: str, boards: int, more: int, *, gap: bool) -> int:
    """Make a board that is there with its first line, or not at all."""
    new = path + ".new"
    mode = mode_in(os.path.dirname(path))
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        # Whatever the umask is, those who look for the dead must read it.
        os.fchmod(fd, mode)
        # Workers are counted from one, so there is room before them.
        _write(fd, 0, f"{boards} {more}" if more else str(boards))
        if gap:
            _note_gap(fd)
        os.rename(new, path)
    except OSError:
        os.close(fd)
        raise
    return fd


def _note_gap(fd: int) -> None:
    os.pwrite(fd, _GAP, _ROOM - len(_GAP))


def _write(fd: int, place: int, text: str) -> None:
    os.pwrite(fd, text.encode().ljust(_ROOM, b"\0"), place * _ROOM)


class Note:
    """One run on a board."""

    __slots__ = ("inodes", "number", "token")

    def __init__(self, number: int, inodes: tuple[int, int], token: str) -> None:
        self.number = number
        """How many its worker had begun before."""
        self.inodes = inodes
        """The files of its worker that it has; 0 where it has its own."""
        self.token = token


def board_at(folder: str, number: int) -> str:
    """Return where the board of a node's guard is; they are numbered from one."""
    return f"{folder}/board.{number}"


def number_of(worker: int, boards: int) -> int:
    """Return on which of so many boards a worker is."""
    return 1 + worker % boards


def read_boards(folder: str) -> set[str] | None:
    """Return the tokens of the runs that were begun last by each worker; None if unknown."""
    begun: set[str] = set()
    head = _read(board_at(folder, 1), 0, _ROOM)
    boards = _count(head)
    for number in range(1, boards + _count(head, 1) + 1):
        tokens = read_board(board_at(folder, number))
        if tokens is None:
            return None
        begun |= tokens
    return begun if boards else None


def read_board(path: str) -> set[str] | None:
    """Return the tokens on one board, which are those of the workers of one guard."""
    raw = _read(path)
    if not _count(raw) or raw[:_ROOM].endswith(_GAP):
        return None
    return {note.token for note in _notes(raw[_ROOM:])}


def last_of(folder: str, worker: int) -> Note | None:
    """Return the run that a worker has begun last; None if unknown."""
    boards = _count(_read(board_at(folder, 1), 0, _ROOM))
    if not boards or worker < 1:
        return None
    size = _PLACES * _ROOM
    notes = _notes(_read(board_at(folder, number_of(worker, boards)), worker * size, size))
    return max(notes, key=lambda note: note.number, default=None)


def _read(path: str, at: int = 0, size: int = -1) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(at)
            return file.read(size)
    except OSError:
        return b""


def _count(raw: bytes, which: int = 0) -> int:
    """Return how many boards of guards the first line of one says that there are, or more of them.

    0 if it says nothing.
    """
    words = raw[:_ROOM].partition(b"\0")[0].split()
    return int(words[which]) if len(words) > which and words[which].isdigit() else 0


def _counts(raw: bytes, places: int) -> dict[int, int]:
    """Return how many runs each worker has begun."""
    size = places * _ROOM
    counts = {}
    for worker in range(1, -(-len(raw) // size)):
        if notes := _notes(raw[worker * size : (worker + 1) * size]):
            counts[worker] = 1 + max(note.number for note in notes)
    return counts


def _notes(raw: bytes) -> list[Note]:
    notes = []
    for at in range(0, len(raw), _ROOM):
        words = raw[at : at + _ROOM].rstrip(b"\0").decode("utf-8", "replace").split(" ", 3)
        # One that is being written may be anything.
        if len(words) == 4 and all(map(str.isdecimal, words[:3])):
            number, out, err = map(int, words[:3])
            notes.append(Note(number, (out, err), words[3]))
    return notes
