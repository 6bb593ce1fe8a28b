"""SAQ with Redis: its tasks are coroutines."""

import asyncio
import os
from typing import Any

from saq import Queue

from bench.peers.noop import mark

queue = Queue.from_url(os.environ["BENCH_BROKER"])
loop = asyncio.new_event_loop()
AT_ONCE = 50


async def noop(ctx: dict[str, Any], *, number: int) -> None:
    """Do nothing."""
    mark(number)


settings = {"queue": queue, "functions": [noop]}
settings_100 = {**settings, "concurrency": 100}


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    loop.run_until_complete(queue.enqueue("noop", number=number))


async def _enqueue(times: int) -> None:
    for first in range(1, times + 1, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, times + 1))
        await asyncio.gather(*(queue.enqueue("noop", number=number) for number in numbers))


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them; SAQ has no bulk call that doesn't wait for results."""
    loop.run_until_complete(_enqueue(times))
