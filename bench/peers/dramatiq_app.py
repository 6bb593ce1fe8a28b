"""dramatiq with Redis."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.noop import mark
from bench.peers.shell import run_shell

broker = RedisBroker(url=os.environ["BENCH_BROKER"])
dramatiq.set_broker(broker)


@dramatiq.actor
def shell(command: str) -> None:
    """Run a shell command."""
    run_shell(command)


@dramatiq.actor
def noop(number: int) -> None:
    """Do nothing."""
    mark(number)


def enqueue(command: str) -> None:
    """Enqueue one."""
    shell.send(command)


def enqueue_many(command: str, times: int) -> None:
    """Enqueue many; dramatiq has no bulk call."""
    for _ in range(times):
        shell.send(command)


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    noop.send(number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them."""
    for number in range(1, times + 1):
        noop.send(number)
