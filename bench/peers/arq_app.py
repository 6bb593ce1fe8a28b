"""arq with Redis: its tasks are coroutines."""

import asyncio
import os
from typing import Any

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings

from bench.peers.noop import mark

REDIS = RedisSettings.from_dsn(os.environ["BENCH_BROKER"])
loop = asyncio.new_event_loop()
pools: list[ArqRedis] = []


async def noop(ctx: dict[str, Any], number: int) -> None:
    """Do nothing."""
    mark(number)


class WorkerSettings:
    """As it comes: ten at a time."""

    functions = (noop,)
    redis_settings = REDIS


class Settings100:
    """A hundred at a time. It doesn't see what is inherited."""

    functions = (noop,)
    redis_settings = REDIS
    max_jobs = 100


def connect() -> None:
    """Open what only those need who enqueue."""
    pools.append(loop.run_until_complete(create_pool(REDIS)))


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    loop.run_until_complete(pools[0].enqueue_job("noop", number))


async def _enqueue(times: int) -> None:
    for number in range(1, times + 1):
        await pools[0].enqueue_job("noop", number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them; arq has no bulk call."""
    loop.run_until_complete(_enqueue(times))
