"""A folder in which another user leaves the result of a run: the spool is closed to that one."""

import os
import stat
from contextlib import suppress

from queuectl.guard import tree

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.guard.confine import Account

RESULT, PROGRESS = b"QUEUECTL_RESULT", b"QUEUECTL_PROGRESS"
"""The variables that name files in it."""
BEFORE = "/tmp/queuectl."
"""What the names of folders of runs begin with; pid and start time of their guards follow."""
_MOST = 2**21
"""Bytes of a result that are brought home; the node takes less."""


class Outbox:
    """The folder of one run; its guard brings the result from there to where the node looks."""

    __slots__ = ("_home", "_path")

    def __init__(self, account: "Account", token: str, env: dict[bytes, bytes]) -> None:
        """Make it for a user, and tell the run of it; raises OSError."""
        me = os.getpid()
        name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in token)
        self._path = f"{BEFORE}{me}.{tree.process_start(me)}.{name}"
        self._home = env.get(RESULT, b"")
        os.mkdir(self._path, 0o700)
        os.chown(self._path, account.uid, account.gid)
        for variable in (RESULT, PROGRESS):
            if variable in env:
                word = variable.removeprefix(b"QUEUECTL_").lower()
                env[variable] = os.fsencode(self._path) + b"/" + word

    def empty(self) -> None:
        """Bring the result home, and remove the folder."""
        # What can't be brought is missed like a result that wasn't written.
        with suppress(OSError):
            self._bring()
        import shutil

        shutil.rmtree(self._path, ignore_errors=True)

    def _bring(self) -> None:
        bring_home(f"{self._path}/result", self._home)


def bring_home(path: str, home: bytes) -> None:
    """Copy the result that a run has left where the node looks for it; raises OSError."""
    # Whatever somebody has put there, it must neither lead elsewhere nor keep us waiting.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        data = os.read(fd, _MOST)
    finally:
        os.close(fd)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(home, flags, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
