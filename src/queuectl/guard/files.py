"""The files that runs write to, as the guard opens and names them.

Most commands are silent, or say something on one of their two streams only. To make a file and
remove it again would cost more than all the rest of keeping their output; on a filesystem without
a journal it costs the more, the more files were removed lately. So each worker has two files, and
its runs have them one after the other. The board says who has them now. What was written to gets
the name of its run when that is over, and the worker a new file.

A file passes on only if nobody but us has it open, so that nobody reads, or writes, what is
another run's. Where the kernel can't tell us that, or there is no board, every run gets files of
its own name from the beginning.
"""

import fcntl
import os
import stat
from contextlib import suppress

from queuectl.guard.board import Board
from queuectl.sharing import PRIVATE_FILE, mode_in

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.guard.wire import Spec

_OWN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
# If somebody has put a pipe there, one who would also read doesn't wait for one who does.
_AGAIN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_ANEW = _AGAIN | os.O_CREAT | os.O_EXCL

# Granted only while no other descriptor for the file is open, anywhere. Linux has it.
_SET_LEASE: int = getattr(fcntl, "F_SETLEASE", -1)


def worker_files(folder: str, worker: int) -> tuple[str, str]:
    """Return the two files of a worker."""
    return f"{folder}/{worker}.out", f"{folder}/{worker}.err"


class Files:
    """Opens the files of runs, and names them in the end."""

    __slots__ = ("_board", "_folder", "_me", "_mode", "_odd_umask", "_shares", "_umask")

    def __init__(self) -> None:
        self._board = Board()
        self._folder = ""
        self._shares = False
        """Whether the runs of a worker can have the same files."""
        self._me = os.geteuid()
        self._umask = _umask()
        self._set_mode(PRIVATE_FILE)

    def _set_mode(self, mode: int) -> None:
        """Make files with this mode from now on."""
        self._mode = mode
        self._odd_umask = bool(self._umask & mode)

    def settle(self, board: str, boards: int, *, first: bool, more: int = 0) -> None:
        """Keep the files of workers beside this board from now on."""
        self._board.open(board, boards, first=first, more=more)
        self._folder = os.path.dirname(board)
        self._set_mode(mode_in(self._folder))
        self._shares = _SET_LEASE >= 0

    def open(self, spec: "Spec", opened: list[int]) -> tuple[str, str]:
        """Open the files of a run that is about to begin; raises OSError with the file's name.

        Returns where they are; `opened` gets the descriptors, also when it fails half-way.
        """
        worker, own = spec["worker"], (spec["stdout"], spec["stderr"])
        if worker and self._shares and own[0] != own[1]:
            files = worker_files(self._folder, worker)
            if self._take(files, worker, spec["token"], opened):
                return files
        if worker:
            self._board.note(worker, spec["token"])
        for path in own:
            opened.append(os.open(path, _OWN, self._mode))
            if self._odd_umask:
                os.fchmod(opened[-1], self._mode)
        return own

    def _take(self, files: tuple[str, str], worker: int, token: str, opened: list[int]) -> bool:
        """Open the files of a worker for its next run; False when they can't be had."""
        out, err = self._alone(files[0], opened), self._alone(files[1], opened)
        # Whoever opens them from here on, or has waited for that, finds the new name on the board.
        if out and err and self._board.note(worker, token, out, err):
            for fd in opened:
                _lease(fd, fcntl.F_UNLCK)
            return True
        while opened:
            os.close(opened.pop())
        return False

    def _alone(self, path: str, opened: list[int]) -> int:
        """Open the file of that name if nobody else has it open, or else a new one.

        Returns its inode, or 0 when neither can be had.
        """
        fd = _open(path, _AGAIN, 0)
        if fd >= 0 and (inode := self._claimed(fd, opened)):
            return inode
        for _ in range(2):
            _remove(path)
            fd = _open(path, _ANEW, self._mode)
            if fd < 0:
                return 0
            if self._odd_umask:
                os.fchmod(fd, self._mode)
            if inode := self._claimed(fd, opened):
                return inode
        # Not even a new file can be ours alone: it can't be told here.
        self._shares = False
        return 0

    def _claimed(self, fd: int, opened: list[int]) -> int:
        """Keep a file that is ours alone for a moment, and as it was made; return its inode."""
        # It is refused while somebody else has it open, and for what is no file.
        if _lease(fd, fcntl.F_WRLCK):
            info = os.fstat(fd)
            if (
                info.st_size == 0
                and info.st_mode == stat.S_IFREG | self._mode
                and info.st_nlink == 1
                and info.st_uid == self._me
            ):
                opened.append(fd)
                return info.st_ino
        os.close(fd)
        return 0

    def close(self, path: str, own: str, written: int) -> None:
        """Be done with a file of a run: what was written gets the run's own name."""
        if written and path != own:
            with suppress(OSError):
                os.rename(path, own)
        elif not written and path == own:
            _remove(path)


def _lease(fd: int, kind: int) -> bool:
    """Make a file ours alone, or end that; False when that is refused."""
    try:
        fcntl.fcntl(fd, _SET_LEASE, kind)
    except OSError:
        return False
    return True


def _open(path: str, flags: int, mode: int) -> int:
    try:
        return os.open(path, flags, mode)
    except OSError:
        return -1


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
