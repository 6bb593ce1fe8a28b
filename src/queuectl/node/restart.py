"""The restart of a node: how far it has come, and the step that ends it.

First the queuectl that is installed now is asked, which may have been upgraded since this node was
started, or be broken: in a process of its own, with the arguments of this node, while the node goes
on with its work. If it can go on with the runs, they are handed over as soon as all that has ended
is written down. If it can't, the runs are finished first; if the restart can't wait, they are
released. Then the process starts anew, with nothing.
"""

import json
import os
import select
import subprocess
from collections.abc import Collection
from enum import Enum
from math import inf
from time import monotonic

from queuectl.job import signal_name
from queuectl.node.handover import Again, HandedNode, become, in_memory, terms

PATIENCE = 120.0
"""Seconds that the installed queuectl may take to answer: it starts like any command, on a host
that may be busy."""
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
            said = json.loads(answer)
            self.version, self.fits = str(said["version"]), said["terms"] == terms()
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


class Way(Enum):
    """How a node is started again."""

    HAND_OVER = "its runs go on"
    ANEW = "it has none by then"


class Restart:
    """A restart that was asked for, or none. The loop polls, and hands on what is ready."""

    def __init__(self, again: Again | None) -> None:
        self._again = again
        self._asked: Installed | None = None
        self._poll: select.poll | None = None
        self.at_once = False
        """Whether runs are released rather than waited for."""
        self.way: Way | None = None
        """How, once that is decided."""

    @property
    def wanted(self) -> bool:
        """Whether it was asked for, and neither refused nor called off."""
        return self._asked is not None or self.way is not None

    def ask(self, poll: select.poll, *, at_once: bool) -> None:
        """Ask the installed queuectl, and be woken by its answer; an `OSError` if there is none."""
        if self._again is None:
            raise OSError("it wasn't started by a command")
        self._poll = poll
        self.at_once = at_once
        self._asked = Installed(self._again)
        poll.register(self._asked.fileno(), select.POLLIN)

    def answers_in(self) -> float:
        """Return in how many seconds an answer is there at the latest."""
        return inf if self._asked is None else self._asked.answers_in()

    def hear(self, ready: Collection[int]) -> Installed | None:
        """Return the installed queuectl, if it has answered now."""
        asked = self._asked
        if asked is None or (asked.fileno() not in ready and asked.answers_in() > 0):
            return None
        if not asked.has_answered():
            return None
        self._let_go()
        return asked

    def call_off(self) -> bool:
        """Don't start again; False if nobody wanted that."""
        wanted, self.way = self.wanted, None
        self._let_go()
        return wanted

    def _let_go(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and self._poll is not None:
            self._poll.unregister(asked.fileno())
            asked.close()

    def execute(self, handed: HandedNode | None) -> None:
        """Become the installed queuectl; returns only by an `OSError`."""
        assert self._again is not None
        become(self._again, handed)


def answer(version: str) -> str:
    """Return what the installed queuectl answers if it can be started."""
    return json.dumps({"version": version, "terms": terms()})
