"""Threads that answer requests: what one asks for leaves some to others."""

import asyncio
from threading import Event

from queuectl.web.threads import Threads
from tests.support import PATIENCE


def test_one_leaves_some_to_others() -> None:
    async def ask() -> None:
        threads, gate = Threads("test", 4), Event()
        greedy = [threads.run(gate.wait, PATIENCE, whose="a") for _ in range(20)]
        assert threads.is_full("a")
        assert not threads.is_full("b")
        assert await threads.run(lambda: "here", whose="b") == "here"
        gate.set()
        assert await asyncio.gather(*greedy) == [True] * 20
        assert not threads.is_full("a")

    asyncio.run(ask())


def test_what_goes_wrong_lets_the_next_begin() -> None:
    async def ask() -> None:
        threads = Threads("test", 1)
        wrong = [threads.run(int, "x", whose="a") for _ in range(3)]
        right = threads.run(int, "7", whose="a")
        assert [type(one) for one in await asyncio.gather(*wrong, return_exceptions=True)] == [
            ValueError
        ] * 3
        assert await right == 7

    asyncio.run(ask())
