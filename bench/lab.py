"""Queues and nodes for the benchmarks, in temporary folders that vanish afterwards."""

import os
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
def queue() -> Iterator[Queue]:
    """Open a fresh queue."""
    with (
        tempfile.TemporaryDirectory(prefix="queuectl-bench-") as folder,
        Queue(os.path.join(folder, "queue.db")) as opened,
    ):
        yield opened


def command(*args: str) -> list[str]:
    """Return the installed command with arguments."""
    return [str(Path(sys.executable).with_name("queuectl")), *args]


@contextmanager
def node(opened: Queue, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a node beside the measurement."""
    process = subprocess.Popen(
        command("worker", "start", "--count", str(workers), "--db", opened.url),
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
