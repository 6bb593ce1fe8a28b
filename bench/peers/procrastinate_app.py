"""Procrastinate, with PostgreSQL."""

import os

from procrastinate import App, PsycopgConnector

from bench.peers.shell import run_shell

app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_BROKER"]))


@app.task
def shell(command: str) -> None:
    """Run a shell command."""
    run_shell(command)


def connect() -> None:
    """Open what only those need who enqueue."""
    app.open()


def enqueue(command: str) -> None:
    """Enqueue one."""
    shell.defer(command=command)


def enqueue_many(command: str, times: int) -> None:
    """Enqueue many, by its bulk call."""
    shell.batch_defer(*({"command": command} for _ in range(times)))
