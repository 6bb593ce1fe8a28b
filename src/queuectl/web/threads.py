"""Threads in which requests are answered, as handlers are synchronous.

Two messages go back and forth, and nothing else: what an executor adds to that is felt where the
work itself is a transaction of a tenth of a millisecond.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Task(NamedTuple):
    do: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    over: "asyncio.Future[Any]"


class Threads:
    """So many threads at most; what they have no time for waits. They are asked by one loop."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._started = 0
        self._asked = 0
        """What is done at the moment, or waits."""
        self._tasks: SimpleQueue[_Task] = SimpleQueue()

    @property
    def is_full(self) -> bool:
        """Whether what comes next has to wait."""
        return self._asked >= self._most

    def run(self, do: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        """Do something in a thread. If who awaits that is cancelled, it goes on all the same."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[T] = loop.create_future()
        if self._asked >= self._started < self._most:
            self._started += 1
            # What is left when the server has waited for long enough must not keep it from ending.
            Thread(target=self._work, name=self._name, daemon=True).start()
        self._asked += 1
        self._tasks.put(_Task(do, args, loop, over))
        return over

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            found, error = None, None
            try:
                found = task.do(*task.args)
            except BaseException as raised:  # noqa: BLE001 - it is for who asked to see
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody is there any more
                task.loop.call_soon_threadsafe(self._settle, task.over, found, error)
            del task, found, error

    def _settle(self, over: "asyncio.Future[Any]", found: Any, error: BaseException | None) -> None:
        self._asked -= 1
        if over.done():
            return
        if error is None:
            over.set_result(found)
        else:
            over.set_exception(error)
