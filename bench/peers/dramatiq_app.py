"""dramatiq with Redis."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.shell import run_shell

broker = RedisBroker(url=os.environ["BENCH_BROKER"])
dramatiq.set_broker(broker)


@dramatiq.actor
def shell(command: str) -> None:
    """Run a shell command."""
    run_shell(command)


def enqueue(command: str) -> None:
    """Enqueue one."""
    shell.send(command)


def enqueue_many(command: str, times: int) -> None:
    """Enqueue many; dramatiq has no bulk call."""
    for _ in range(times):
        shell.send(command)
