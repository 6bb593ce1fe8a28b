"""The queuectl that is installed now, asked whether it can take the place of the one that runs.

It may have been upgraded since this node was started, or be broken. So it is asked in a process of
its own, with the arguments of this node, while the node goes on with its work.
"""

import json
import os
import subprocess
from time import monotonic

from queuectl.job import signal_name
from queuectl.node.handover import Again, in_memory, terms

PATIENCE = 120.0
"""Seconds that it may take to answer; it starts like any command, on a host that may be busy."""
LONGEST = 1 << 16
"""Bytes of its answer that are looked at."""


class Installed:
    """The installed queuectl, in a process of its own, and what it answers."""

    def __init__(self, again: Again) -> None:
        """Ask; an `OSError` when there is nobody to ask."""
        arguments = in_memory(json.dumps(again.arguments))
        try:
            self._process = subprocess.Popen(
                again.ask,
                stdin=arguments,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(arguments)
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        os.set_blocking(self._pipe.fileno(), False)
        self._deadline = monotonic() + PATIENCE
        self._heard = b""
        self.version = ""
        self.fits = False
        """Whether it can go on with the runs of this node."""
        self.trouble = ""
        """Why it can't be started at all."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._pipe.fileno()

    def answers_in(self) -> float:
        """Return in how many seconds no answer is an answer."""
        return self._deadline - monotonic()

    def has_answered(self) -> bool:
        """Take in what it says; True when the answer is known."""
        while chunk := self._read():
            self._heard = (self._heard + chunk)[-LONGEST:]
        if chunk is None and self.answers_in() > 0:
            return False
        self._end()
        last = self._heard.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if chunk is None:
            self.trouble = f"it didn't answer within {PATIENCE:g} seconds"
        elif self._process.returncode < 0:
            self.trouble = f"it was ended by {signal_name(-self._process.returncode)}"
        elif not self._understand(last):
            self.trouble = last.removeprefix("queuectl: ") or "it says nothing"
        return True

    def _read(self) -> bytes | None:
        """Return the next bytes of its answer: none at the end, and None if more may come."""
        try:
            return os.read(self.fileno(), LONGEST)
        except BlockingIOError:
            return None

    def _understand(self, answer: str) -> bool:
        try:
            told = json.loads(answer)
            self.version, self.fits = str(told["version"]), told["terms"] == terms()
        except (ValueError, TypeError, KeyError):
            return False
        return self._process.returncode == 0

    def _end(self) -> None:
        try:
            # Who has closed its output ends within a moment.
            self._process.wait(5.0 if self.answers_in() > 0 else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Let it go, answered or not."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()


def answer(version: str) -> str:
    """Return what the installed queuectl answers if it can be started."""
    return json.dumps({"version": version, "terms": terms()})
