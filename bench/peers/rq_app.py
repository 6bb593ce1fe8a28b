"""RQ: each job is run in a process that is forked for it."""

import os

from redis import Redis
from rq import Queue

from bench.peers.noop import mark
from bench.peers.shell import run_shell

queue = Queue(connection=Redis.from_url(os.environ["BENCH_BROKER"]))


def enqueue(command: str) -> None:
    """Enqueue one."""
    queue.enqueue(run_shell, command)


def enqueue_many(command: str, times: int) -> None:
    """Enqueue many, by its bulk call."""
    queue.enqueue_many([Queue.prepare_data(run_shell, (command,)) for _ in range(times)])


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    queue.enqueue(mark, number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them, by its bulk call."""
    queue.enqueue_many([Queue.prepare_data(mark, (number,)) for number in range(1, times + 1)])
