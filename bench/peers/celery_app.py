"""Celery with Redis."""

import os

from celery import Celery

from bench.peers.noop import mark
from bench.peers.shell import run_shell

app = Celery("bench", broker=os.environ["BENCH_BROKER"])


@app.task
def shell(command: str) -> None:
    """Run a shell command."""
    run_shell(command)


@app.task
def noop(number: int) -> None:
    """Do nothing."""
    mark(number)


def enqueue(command: str) -> None:
    """Enqueue one."""
    shell.delay(command)


def enqueue_many(command: str, times: int) -> None:
    """Enqueue many over one connection."""
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(times):
            shell.apply_async((command,), producer=producer)


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    noop.delay(number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them over one connection."""
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(1, times + 1):
            noop.apply_async((number,), producer=producer)
