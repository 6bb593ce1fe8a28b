"""Milliseconds that a command takes from its start to its end, in a fresh process.

`queuectl enqueue true` (on an SQLite queue that exists) and `queuectl --help`, against
`python -c "import click, apsw"`, which is the least that a command line over SQLite can cost, and
against `python -c pass`. All use the same interpreter and environment, in turns; a reading is the
median of several starts. The CPU time of the same starts is kept beside it: it says the same on a
machine that is busy.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from statistics import median

from bench.figures import Reading
from bench.lab import SQLITE, Lab, queuectl
from bench.processes import BenchError
from bench.subject import Measure, Plain, Subject
from queuectl import Queue


def subjects(lab: Lab) -> list[Subject]:
    """Return one subject: its commands take turns by themselves."""
    return [Plain("commands", lambda: starts(lab))]


def starts(lab: Lab) -> Iterable[Reading]:
    """Start each command several times, in turns."""
    with lab.place(SQLITE) as url:
        Queue(url).close()
        env = lab.environment(QUEUECTL_DB=url)
        commands = {
            "enqueue": queuectl("enqueue", "true"),
            "help": queuectl("--help"),
            "imports": [sys.executable, "-c", "import click, apsw"],
            "python": [sys.executable, "-c", "pass"],
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(lab.sizes.startup_runs):
            for name, command in commands.items():
                found[name].append(start(command, env))
    return list(_readings(found))


def _readings(found: dict[str, list[tuple[float, float]]]) -> Iterator[Reading]:
    for name, pairs in found.items():
        yield Reading(id=f"startup/{name}", value=median(wall for wall, _ in pairs), unit="ms")
        yield Reading(id=f"startup/{name}/cpu", value=median(cpu for _, cpu in pairs), unit="ms")


def start(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Run a command, and return the milliseconds by the clock and of CPU time."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, env, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    took = time.perf_counter() - began
    if status:
        raise BenchError(f"{' '.join(command)} failed")
    return took * 1000, (usage.ru_utime + usage.ru_stime) * 1000


MEASURE = Measure(
    name="startup",
    title="Start of a command",
    about=__doc__ or "",
    subjects=subjects,
)
