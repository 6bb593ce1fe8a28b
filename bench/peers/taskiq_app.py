"""taskiq with a list in Redis, the quickest of its brokers."""

import asyncio
import os

from taskiq_redis import ListQueueBroker

from bench.peers.noop import mark

broker = ListQueueBroker(os.environ["BENCH_BROKER"])
loop = asyncio.new_event_loop()


@broker.task
async def noop(number: int) -> None:
    """Do nothing."""
    mark(number)


def connect() -> None:
    """Open what only those need who enqueue."""
    loop.run_until_complete(broker.startup())


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    loop.run_until_complete(noop.kiq(number))


async def _enqueue(times: int) -> None:
    for number in range(1, times + 1):
        await noop.kiq(number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them; taskiq has no bulk call."""
    loop.run_until_complete(_enqueue(times))
