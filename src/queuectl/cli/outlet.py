"""Writing to stdout, which may be lost: to a full disk, or with a reader that goes away.

A command that only reads ends then. One that changes something is patient: it goes on to its end,
and says on stderr what it has done.
"""

import os
import sys
from collections.abc import Callable
from errno import EPIPE

from queuectl.errors import EXIT_FAILED

EXIT_BROKEN_PIPE = 141
"""What a program killed by SIGPIPE exits with, as far as a shell can tell."""


class LostError(Exception):
    """Stdout couldn't be written; `truthful` says what was done nevertheless."""

    def __init__(self, why: OSError) -> None:
        super().__init__(str(why))
        self.exit_code = EXIT_BROKEN_PIPE if why.errno == EPIPE else EXIT_FAILED


class _Outlet:
    """The stdout of this process."""

    def __init__(self) -> None:
        self.is_patient = False
        """Whether the command goes on though nothing can be written any more."""
        self.lost: OSError | None = None
        """Why nothing can be written any more."""
        self.done: Callable[[], str] = lambda: "What was asked for is done"
        """Says what has been done by now."""

    def put(self, text: str) -> None:
        try:
            sys.stdout.write(text)
        except OSError as error:
            self._lose(error)

    def flush(self) -> None:
        """Write what was held back."""
        try:
            sys.stdout.flush()
        except OSError as error:
            self._lose(error)

    def end(self) -> None:
        """Write what was held back; if that, or anything before, was lost, it is a `LostError`."""
        self.flush()
        if self.lost is not None:
            raise LostError(self.lost)

    def _lose(self, error: OSError) -> None:
        if not self.is_patient:
            raise error
        self.lost = error
        abandon()


def abandon() -> None:
    """Let what is unwritten go nowhere: Python would complain about it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


outlet = _Outlet()
