"""huey with Redis, which it waits for without polling."""

import os

from huey import RedisHuey

from bench.peers.noop import mark
from bench.peers.shell import run_shell

huey = RedisHuey("bench", url=os.environ["BENCH_BROKER"])


@huey.task()
def shell(command: str) -> None:
    """Run a shell command."""
    run_shell(command)


@huey.task()
def noop(number: int) -> None:
    """Do nothing."""
    mark(number)


def enqueue(command: str) -> None:
    """Enqueue one."""
    shell(command)


def enqueue_many(command: str, times: int) -> None:
    """Enqueue many; huey has no bulk call."""
    for _ in range(times):
        shell(command)


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    noop(number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them."""
    for number in range(1, times + 1):
        noop(number)
