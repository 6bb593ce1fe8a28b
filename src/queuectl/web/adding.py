"""A thread that adds jobs for requests: those that wait at the same moment share a commit.

While it stores some, others come; it takes all of these next. So nobody waits for company, and
the more there are, the less each costs. A request is answered when the commit that holds its job
is over, and not before.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from queuectl.web.call import Adding

if TYPE_CHECKING:
    from queuectl.queue import Queue
    from queuectl.together import Outcome

MOST_TOGETHER = 64
"""Jobs in one commit, so that other writers needn't wait for long."""
LONGEST_TOGETHER = 64 << 10
"""Bytes of a request that is added together with others."""


class _Task(NamedTuple):
    ask: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    over: "asyncio.Future[Any]"


class Adder:
    """Has requests answered that add jobs, and stores these. It is asked by one loop."""

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._thread: Thread | None = None

    def run(self, ask: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Have a request answered; what it adds is stored together with what others add.

        What may have to wait for somebody isn't stored, but handed back for another thread to do.
        """
        loop = asyncio.get_running_loop()
        over: asyncio.Future[Any] = loop.create_future()
        if self._thread is None:
            # What is left when the server has waited for long enough must not keep it from ending.
            self._thread = Thread(target=self._work, name="adder", daemon=True)
            self._thread.start()
        self._tasks.put(_Task(ask, loop, over))
        return over

    def _work(self) -> None:
        while True:
            tasks = self._take()
            try:
                answers = self._add([_asked(task) for task in tasks])
            except BaseException as error:  # noqa: BLE001 - it is for who asked to see
                answers = [error] * len(tasks)
            with suppress(RuntimeError):  # the loop is closed: nobody is there any more
                tasks[0].loop.call_soon_threadsafe(_settle, tasks, answers)
            del tasks, answers

    def _take(self) -> list[_Task]:
        """Return all that wait; waits itself for the first only."""
        tasks = [self._tasks.get()]
        try:
            while len(tasks) < MOST_TOGETHER:
                tasks.append(self._tasks.get_nowait())
        except Empty:
            pass
        return tasks

    def _add(self, asked: Sequence[Any]) -> list[Any]:
        """Store what can be stored at once, and return an answer or an error for each."""
        answers = list(asked)
        ready = [
            (place, one)
            for place, one in enumerate(asked)
            if isinstance(one, Adding) and not one.prepared.may_wait
        ]
        outcomes = self._queue.together.add([one.prepared for _, one in ready])
        for (place, one), outcome in zip(ready, outcomes, strict=True):
            answers[place] = _answered(one, outcome)
        return answers


def _asked(task: _Task) -> Any:
    """Return what is answered to a request, or the error."""
    try:
        return task.ask()
    except Exception as error:  # noqa: BLE001 - it is for who asked to see
        return error


def _answered(one: Adding, outcome: "Outcome") -> Any:
    """Return what is answered to what became of a job, or the error."""
    try:
        return one.answer(outcome)
    except Exception as error:  # noqa: BLE001 - it is for who asked to see
        return error


def _settle(tasks: Sequence[_Task], answers: Sequence[Any]) -> None:
    for task, answer in zip(tasks, answers, strict=True):
        if task.over.done():
            continue
        if isinstance(answer, BaseException):
            task.over.set_exception(answer)
        else:
            task.over.set_result(answer)
