"""Replies: messages of a guard to its node, sent at once or together with those that follow soon.

The node writes what it hears down in a commit, so it hears rather once of ten ends than ten times
of one. An end waits only while the worker has its next run already; otherwise the node must know.
"""

import os
import select
import time

from queuectl.guard.run import NEVER
from queuectl.guard.wire import encode

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.guard.wire import Message

TOGETHER = 0.005
"""Seconds that an end may wait for others."""


class Replies:
    """Messages on their way to the node. It never waits for the node to take them."""

    __slots__ = ("_choked", "_due", "_link", "_messages", "_poll", "_unsent")

    def __init__(self, link: int, poll: select.poll) -> None:
        self._link = link
        self._poll = poll
        self._messages: list[Message] = []
        self._due = NEVER
        self._unsent = bytearray()
        self._choked = False
        """Whether the node hasn't taken all that we have to say."""

    def say(self, message: "Message") -> None:
        """Tell the node at once."""
        self._messages.append(message)
        self._due = 0.0

    def say_soon(self, message: "Message") -> None:
        """Tell the node together with what follows, in a moment at the latest."""
        self._messages.append(message)
        if self._due == NEVER:
            self._due = time.monotonic() + TOGETHER

    def due(self) -> float:
        """Return when `flush` is wanted next."""
        return self._due

    def flush(self) -> None:
        """Send what is due, as far as the node's socket takes it now."""
        if self._due <= time.monotonic():
            self._unsent += encode(self._messages)
            self._messages.clear()
            self._due = NEVER
        if not self._unsent:
            return
        try:
            del self._unsent[: os.write(self._link, self._unsent)]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._unsent.clear()  # The end of the file will be read next.
        if bool(self._unsent) != self._choked:
            self._choked = bool(self._unsent)
            more = select.POLLOUT if self._choked else 0
            self._poll.modify(self._link, select.POLLIN | more)
