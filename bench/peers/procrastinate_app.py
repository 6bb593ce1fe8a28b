"""Procrastinate, with PostgreSQL."""

import os

from procrastinate import App, PsycopgConnector

from bench.peers.noop import mark
from bench.peers.shell import run_shell

app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_BROKER"]))


@app.task
def shell(command: str) -> None:
    """Run a shell command."""
    run_shell(command)


def connect() -> None:
    """Open what only those need who enqueue."""
    app.open()


@app.task
def noop(number: int) -> None:
    """Do nothing."""
    mark(number)


def enqueue(command: str) -> None:
    """Enqueue one."""
    shell.defer(command=command)


def enqueue_many(command: str, times: int) -> None:
    """Enqueue many, by its bulk call."""
    shell.batch_defer(*({"command": command} for _ in range(times)))


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    noop.defer(number=number)


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them, by its bulk call."""
    noop.batch_defer(*({"number": number} for number in range(1, times + 1)))
