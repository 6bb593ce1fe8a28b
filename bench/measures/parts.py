"""Microseconds of a Python task that does nothing: where they go.

As in `tasks`: a node with two workers drains a backlog. What each task takes is the time that
passes, and the time of the processors: of the node, of the programs that run the tasks, of the
guards, and of the database server. They are counted from one tenth of the tasks on.

In the node, the parts of its loop have a clock: `bench/clocked.py`. *Claim*, *end* and *commit* are
the time that passes at the store; they are one transaction for many tasks, and *commit* is its
begin and its sync. The others are the node's own work. What is left of the time that passes is
spent waiting for the programs.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from functools import partial
from statistics import median

from bench.clients import Asked, Marks, peer_environment
from bench.figures import Reading
from bench.lab import MARIADB, POSTGRESQL, Lab
from bench.measures.drain import completed
from bench.measures.tasks import OURS, SKIPPED
from bench.processes import PROC, Group, cpu_seconds, wait_for, watch
from bench.subject import Measure, Plain, Subject
from queuectl import Queue

WORKERS = 2
UNIT = "us"
SINGLE = 300
"""Tasks that are enqueued one by one."""
PROGRAM = b"queuectl.handlers"
"""What the command line of a program that runs tasks has in it."""


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store."""
    return [
        Plain(f"queuectl on {store}", partial(parts, lab, store), cold=True) for store in lab.stores
    ]


def parts(lab: Lab, store: str) -> Iterable[Reading]:
    """Drain tasks, and return what each took where."""
    found = {**_enqueue(lab, store), **_drain(lab, store, lab.sizes.task_jobs)}
    return [
        Reading(id=f"parts/{store}/{part}", value=value, unit=UNIT) for part, value in found.items()
    ]


def _enqueue(lab: Lab, store: str) -> dict[str, float]:
    """Return what it takes to enqueue a task, by itself."""
    with lab.place(store) as url, Asked(lab, OURS, url) as client:
        took = [client("task", number=number) for number in range(1, SINGLE + 1)]
    return {"enqueue": median(one["stored"] - one["began"] for one in took) / 1000}


def _drain(lab: Lab, store: str, tasks: int) -> dict[str, float]:
    """Return what it takes to run a task."""
    with lab.place(store) as url, lab.scratch() as folder, Queue(url) as queue:
        marks = Marks(lab, tasks)
        with Asked(lab, OURS, url) as client:
            bulk = client("tasks", times=tasks)["seconds"] / tasks * 1e6
        os.sync()
        clocks = folder / "clocks"
        app = f"bench.peers.{OURS}:queue"
        command = [sys.executable, "-m", "bench.clocked", str(clocks), "worker", "start"]
        command += ["--count", str(WORKERS), "--app", app]
        env = {**peer_environment(lab, url), "QUEUECTL_DB": url}
        with Group(command, env=env, cwd=folder, log=lab.log()) as group:
            wait_for(lambda: marks.count() >= tasks // SKIPPED, "the first tasks", group.check)
            skipped, before, began = marks.count(), _used(lab, store, group), time.monotonic()
            watch(marks.count, tasks, group.check)
            watch(lambda: completed(queue), tasks, group.check)
            after = _used(lab, store, group)
            # Of very few, all may be over before anybody looks: then there is nothing to tell.
            counted = max(tasks - skipped, 1)
            passed = (time.monotonic() - began) / counted * 1e6
        clocked = json.loads(clocks.read_text())
    return {
        "bulk": bulk,
        "passes": passed,
        **{who: (after[who] - before[who]) / counted * 1e6 for who in after},
        **{part: times[0] / tasks for part, times in clocked.items() if part != "wait"},
    }


def _used(lab: Lab, store: str, group: Group) -> dict[str, float]:
    """Return the seconds of the processors that everybody has used so far."""
    members = group.members()
    programs = [pid for pid in members if PROGRAM in _command_line(pid)]
    servers = {POSTGRESQL: lab.postgres, MARIADB: lab.mariadb}
    return {
        "node": cpu_seconds([group.pid]),
        "programs": cpu_seconds(programs),
        "guards": cpu_seconds({*members} - {*programs, group.pid}),
        "server": cpu_seconds(servers[store]().processes()) if store in servers else 0.0,
    }


def _command_line(pid: int) -> bytes:
    """Return what a process was started with; nothing if it is gone."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


MEASURE = Measure(
    name="parts",
    title="Where the time of a task goes",
    about=__doc__ or "",
    subjects=subjects,
)
