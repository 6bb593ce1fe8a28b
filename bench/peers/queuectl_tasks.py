"""queuectl, as a program that has tasks uses it; its workers import this, too."""

import os

from bench.peers.noop import mark
from queuectl import Queue

queue = Queue(os.environ["BENCH_BROKER"])


@queue.task
def noop(number: int) -> None:
    """Do nothing."""
    mark(number)


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    noop.enqueue(number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them, all or none."""
    queue.enqueue_many([noop.request((number,), {}) for number in range(1, times + 1)])
