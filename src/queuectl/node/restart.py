"""The restart of a node: how far it has come, and the step that ends it.

First the installed queuectl is asked (`installed`). If it can go on with the runs, they are handed
over as soon as all that has ended is written down. If it can't, the runs are finished first; if the
restart can't wait, they are released. Then the process starts anew, with nothing.
"""

from collections.abc import Collection
from enum import Enum
from math import inf
from select import POLLIN, poll

from queuectl.node.handover import Again, HandedNode, become
from queuectl.node.installed import Installed


class Way(Enum):
    """How a node is started again."""

    HAND_OVER = "its runs go on"
    ANEW = "it has none by then"


class Restart:
    """A restart that was asked for, or none. The loop polls, and hands on what is ready."""

    def __init__(self, again: Again | None) -> None:
        self._again = again
        self._asked: Installed | None = None
        self._poll: poll | None = None
        self.at_once = False
        """Whether runs are released rather than waited for."""
        self.way: Way | None = None
        """How, once that is decided."""

    @property
    def wanted(self) -> bool:
        """Whether it was asked for, and neither refused nor called off."""
        return self._asked is not None or self.way is not None

    def ask(self, poll: "poll", *, at_once: bool) -> None:
        """Ask the installed queuectl, and be woken by its answer; an `OSError` if there is none."""
        if self._again is None:
            raise OSError("it wasn't started by a command")
        self._poll = poll
        self.at_once = at_once
        self._asked = Installed(self._again)
        poll.register(self._asked.fileno(), POLLIN)

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
