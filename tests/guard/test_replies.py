"""When a guard speaks: at once where its node has to act, together with others where not."""

import os
import select
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from queuectl.guard.replies import Replies
from queuectl.guard.run import NEVER
from queuectl.guard.wire import Decoder, Released, Trouble
from tests.guard.harness import until

if TYPE_CHECKING:
    from queuectl.guard.wire import Message


class Ends:
    """Both ends of a link, the node's and the guard's."""

    def __init__(self) -> None:
        self.node, self.guard = socket.socketpair()
        self.node.setblocking(False)
        self.guard.setblocking(False)
        self.poll = select.poll()
        self.poll.register(self.guard.fileno(), select.POLLIN)
        self.replies = Replies(self.guard.fileno(), self.poll)
        self._decoder = Decoder()

    def heard(self) -> "list[Message]":
        try:
            return self._decoder.feed(self.node.recv(1 << 16))
        except BlockingIOError:
            return []


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    with made.node, made.guard:
        yield made


def test_what_is_urgent_takes_the_rest_along(ends: Ends) -> None:
    ends.replies.say_soon(Released(1))
    ends.replies.say(Released(2))
    ends.replies.say_soon(Released(3))
    assert ends.replies.due() == 0.0
    ends.replies.flush()
    assert ends.heard() == [Released(1), Released(2), Released(3)]
    assert ends.replies.due() == NEVER


def test_the_rest_waits_for_a_moment_that_does_not_move(ends: Ends) -> None:
    ends.replies.say_soon(Released(1))
    due = ends.replies.due()
    assert due != NEVER
    ends.replies.say_soon(Released(2))
    assert ends.replies.due() == due
    until(lambda: time.monotonic() >= due)
    ends.replies.flush()
    assert ends.heard() == [Released(1), Released(2)]


def test_a_node_that_does_not_listen_is_not_waited_for(ends: Ends) -> None:
    said = [Trouble(number, "x" * 1000) for number in range(5_000)]
    for message in said:
        ends.replies.say(message)
    ends.replies.flush()
    heard: list[Message] = []
    while len(heard) < len(said):
        heard += ends.heard()
        if any(event & select.POLLOUT for _, event in ends.poll.poll(0)):
            ends.replies.flush()
    assert heard == said
    assert not ends.poll.poll(0)


def test_a_node_that_is_gone_is_no_error(ends: Ends) -> None:
    ends.node.close()
    ends.replies.say(Released(1))
    ends.replies.flush()
    assert os.read(ends.guard.fileno(), 1) == b""
