"""What the figures were obtained on, without which they mean little."""

import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from time import perf_counter

import apsw

from bench.clients import packages_of
from bench.figures import Json
from bench.lab import CHECKOUT
from tests.servers.install import find

PEERS = (
    "huey",
    "rq",
    "dramatiq",
    "celery",
    "procrastinate",
    "saq",
    "taskiq",
    "arq",
    "flexiq",
    "redis",
    "psycopg",
    "PyMySQL",
)
PROGRAMS = {
    "xargs": ("xargs", "--version"),
    "PostgreSQL": ("postgres", "--version"),
    "MariaDB": ("mariadbd", "--version"),
    "Redis": ("redis-server", "--version"),
    "GNU parallel": ("parallel", "--version"),
    "task-spooler": ("tsp", "-V"),
}
SYNCS = 100


def describe() -> Json:
    """Return what this machine is, and what is installed on it."""
    return {
        "on": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _said(["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty"]),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "linux": platform.release().split("-")[0],
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "fdatasync_ms": sync_ms(),
        "versions": _versions(),
    }


def busy(load: float) -> bool:
    """Tell whether others keep this machine from being measured."""
    return load > 0.5 * (os.cpu_count() or 1)


def sync_ms() -> float:
    """Return how long the disk takes to make a page durable: most of what a commit costs."""
    found = []
    with tempfile.TemporaryFile(prefix="queuectl-bench-") as file:
        for _ in range(SYNCS):
            file.write(bytes(4096))
            file.flush()
            began = perf_counter()
            os.fdatasync(file.fileno())
            found.append((perf_counter() - began) * 1000)
    return statistics.median(found)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PEERS:
        apart = [str(packages_of(name)), *sys.path]
        for one in metadata.distributions(name=name, path=apart):
            found[name] = one.version
            break
    for name, (program, flag) in PROGRAMS.items():
        if path := find(program):
            number = re.search(r"\d+(\.\d+)*", _said([path, flag]))
            found[name] = number[0] if number else "unknown"
    return found


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
