"""A gate at which jobs wait, so that they run for as long as a campaign likes."""

import fcntl
from pathlib import Path


class Gate:
    """A locked file. Jobs wait for the lock; if we die, they get it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    @property
    def command(self) -> tuple[str, ...]:
        """What a job does to wait until the gate is open; then it ends well."""
        return ("flock", "--shared", str(self._path), "true")

    def open(self) -> None:
        """Let all jobs end, those that come later too."""
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()
