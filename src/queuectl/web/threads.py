"""Threads in which requests are answered, as handlers are synchronous.

Two messages go back and forth, and nothing else: what an executor adds to that is felt where the
work itself is a transaction of a tenth of a millisecond.
"""

import asyncio
from collections import Counter, deque
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
    whose: str


class Threads:
    """So many threads at most; what they have no time for waits. They are asked by one loop."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._started = 0
        self._asked = 0
        """What is done at the moment, or waits."""
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._share = max(most * 3 // 4, 1)
        """Threads that one may have: the others are for others."""
        self._of: Counter[str] = Counter()
        """How many each has, or waits for."""
        self._behind: dict[str, deque[_Task]] = {}
        """What waits for others of the same."""

    def is_full(self, whose: str) -> bool:
        """Whether what somebody asks for next has to wait."""
        return self._asked >= self._most or self._of[whose] >= self._share

    def run(self, do: Callable[..., T], *args: Any, whose: str = "") -> "asyncio.Future[T]":
        """Do something in a thread. If who awaits that is cancelled, it goes on all the same.

        What is asked for by one alone leaves some threads to others.
        """
        loop = asyncio.get_running_loop()
        over: asyncio.Future[T] = loop.create_future()
        task = _Task(do, args, loop, over, whose)
        if whose and self._of[whose] >= self._share:
            self._behind.setdefault(whose, deque()).append(task)
        else:
            self._begin(task)
        return over

    def _begin(self, task: _Task) -> None:
        if self._asked >= self._started < self._most:
            self._started += 1
            # What is left when the server has waited for long enough must not keep it from ending.
            Thread(target=self._work, name=self._name, daemon=True).start()
        self._asked += 1
        if task.whose:
            self._of[task.whose] += 1
        self._tasks.put(task)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            found, error = None, None
            try:
                found = task.do(*task.args)
            except BaseException as raised:  # noqa: BLE001 - it is for who asked to see
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody is there any more
                task.loop.call_soon_threadsafe(self._settle, task, found, error)
            del task, found, error

    def _leave(self, whose: str) -> None:
        """Let what waits for somebody's turn begin."""
        self._of[whose] -= 1
        if (behind := self._behind.get(whose)) is not None:
            self._begin(behind.popleft())
            if not behind:
                del self._behind[whose]
        elif not self._of[whose]:
            del self._of[whose]

    def _settle(self, task: _Task, found: Any, error: BaseException | None) -> None:
        self._asked -= 1
        if task.whose:
            self._leave(task.whose)
        over = task.over
        if over.done():
            return
        if error is None:
            over.set_result(found)
        else:
            over.set_exception(error)
