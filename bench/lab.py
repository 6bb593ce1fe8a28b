"""Queues and nodes for the benchmarks, in temporary folders that vanish afterwards."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from queuectl import Queue


@contextmanager
def queue(url: str | None = None) -> Iterator[Queue]:
    """Open a fresh queue: a file, or a place on a server with a name of its own."""
    if url is not None:
        name = f"bench_{secrets.token_hex(4)}_"
        with Queue(
            f"{url}?{'schema' if url.startswith('postgres') else 'prefix'}={name}"
        ) as opened:
            yield opened
        return
    with (
        tempfile.TemporaryDirectory(prefix="queuectl-bench-") as folder,
        Queue(os.path.join(folder, "queue.db")) as opened,
    ):
        yield opened


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """Run a PostgreSQL and a MariaDB of our own, as durable as they come; gives their URLs."""
    from tests.servers.mariadb import MariaDB
    from tests.servers.postgres import Postgres

    with Postgres() as postgres, MariaDB() as mariadb:
        for server in (postgres, mariadb):
            server.create_database("bench")
        yield {"postgresql": postgres.url("bench"), "mariadb": mariadb.url("bench")}


def command(*args: str) -> list[str]:
    """Return the installed command with arguments."""
    return [str(Path(sys.executable).with_name("queuectl")), *args]


@contextmanager
def node(opened: Queue, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a node beside the measurement."""
    process = subprocess.Popen(
        command("worker", "start", "--count", str(workers)),
        env=os.environ | {"QUEUECTL_DB": opened.place.url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not opened.nodes():
            if process.poll() is not None:
                raise RuntimeError("the node did not start")
            time.sleep(0.01)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def family(pid: int) -> list[int]:
    """Return a node and its guard."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time all threads of a node and its guard have used."""
    total = 0
    for member in family(pid):
        for task in Path(f"/proc/{member}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def memory_mb(pid: int) -> float:
    """Return the proportional memory of a node and its guard."""
    total = 0
    for member in family(pid):
        for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024
