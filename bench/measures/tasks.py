"""Python tasks per second: how fast a backlog of functions that do nothing is run.

Every queue has the same task: it takes a number and returns nothing. It leaves a mark, which is the
time, in the cell of its number in memory that all processes share: see `bench/peers/noop.py`. That
costs everybody the same, under a microsecond, and shows that each task was run, once, and when.

All tasks are enqueued before the workers are started; ours wait in a paused queue until the nodes
are there. The clock runs from the mark of the task at one tenth of them, so that the start of the
workers isn't counted, and what they took ahead before matters little. For peers it runs to the last
mark: that they note the end of the last tasks isn't counted, which favours them a little. For ours
it runs until the store says that the last one is completed: every start and every end is a part of
a commit that was synced.

Everybody runs with the number of workers that was quickest in the warm-up, which tries all the
setups that a peer has; ours with 1, 2, 4 and 8 workers of one node, `worker start --app`, and with
two nodes of 2 and 4. *A handler* is ours with a program of fifty lines that is handed tasks as
lines of JSON, `worker start --serve`.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path

from bench.clients import Asked, Marks, broker_of, check_all, peer_environment, workers_of
from bench.figures import Reading
from bench.lab import SQLITE, Lab, queuectl
from bench.measures.drain import completed
from bench.peers.roster import TASK_PEERS, Peer, Setup
from bench.processes import BenchError, Group, watch
from bench.subject import Measure, Subject
from queuectl import Queue

UNIT = "tasks/s"
OURS = "queuectl_tasks"
HANDLER = "handler"
"""What ours is called when a handler runs the tasks, on SQLite."""
SKIPPED = 10
"""One in so many tasks comes before the clock runs."""
SHORT = 10.0
"""Seconds: who drains all in less is tried with all of them in the warm-up."""
Way = Callable[[int], float]
"""Drains so many tasks in one setup, and returns how many a second."""


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store, ours with a handler, and the peers."""
    crews = [(n, 1) for n in lab.sizes.task_workers]
    # As peers are tried with several processes.
    crews += [(n, nodes) for nodes in lab.sizes.drain_nodes if nodes > 1 for n in (2, 4)]
    found: list[Subject] = []
    for word in who_of_ours(lab):
        ways = {crew(*each): partial(drain_ours, lab, word, *each) for each in crews}
        found.append(_AtBest(lab, name_of(word), f"tasks/ours/{word}", ways))
    if lab.peers:
        for peer in TASK_PEERS:
            setups = peer.quick[: lab.sizes.task_setups]
            choices = {one.name: partial(drain_peer, lab, peer, one) for one in setups}
            found.append(_AtBest(lab, peer.title, f"tasks/peer/{peer.name}", choices))
    return found


def who_of_ours(lab: Lab) -> list[str]:
    """Return the stores, and the handler if there is such an option."""
    return [*lab.stores, *([HANDLER] if SQLITE in lab.stores and can_serve() else [])]


def name_of(word: str) -> str:
    """Name one of ours."""
    return "queuectl with a handler" if word == HANDLER else f"queuectl on {word}"


def crew(workers: int, nodes: int) -> str:
    """Say how many workers there are, in how many nodes."""
    each = "1 worker" if workers == 1 else f"{workers} workers"
    return each if nodes == 1 else f"{nodes} nodes, {each} each"


@cache
def can_serve() -> bool:
    """Tell whether nodes can have handlers of other people."""
    said = subprocess.run(
        queuectl("worker", "start", "--help"), capture_output=True, text=True, check=False
    )
    return "--serve" in said.stdout


class _AtBest(Subject):
    """Somebody who drains tasks in the quickest of several ways."""

    def __init__(self, lab: Lab, name: str, id: str, ways: Mapping[str, Way]) -> None:
        super().__init__(name)
        self._lab = lab
        self._id = id
        self._ways = ways
        self._best = next(iter(ways))

    def warm_up(self) -> None:
        few, all = self._lab.sizes.task_jobs // SKIPPED, self._lab.sizes.task_jobs
        rates, failed = {}, None
        for name, way in self._ways.items():
            try:
                rate = way(few)
                rates[name] = way(all) if all / rate < SHORT else rate
            except BenchError as error:
                failed = error
        if failed is not None and not rates:
            raise failed
        self._best = max(rates, key=lambda name: rates[name])

    def configured(self) -> str:
        return self._best

    def measure(self) -> Iterable[Reading]:
        rate = self._ways[self._best](self._lab.sizes.task_jobs)
        yield Reading(id=self._id, value=rate, unit=UNIT)


def drain_ours(lab: Lab, word: str, workers: int, nodes: int, tasks: int) -> float:
    """Return how many tasks a second so many nodes of ours run, with so many workers each."""
    with place_of(lab, word) as url:
        marks = Marks(lab, tasks)
        with Asked(lab, OURS, url) as enqueue:
            enqueue("tasks", times=tasks)
        os.sync()
        with Queue(url) as queue, ExitStack() as stack:
            # Or the first node would have done most of it before the second is there.
            queue.pause("default")
            groups = [stack.enter_context(node_of(lab, word, queue, workers)) for _ in range(nodes)]
            queue.resume("default")
            watch(marks.count, tasks, lambda: check_all(groups))
            # Only now: to ask the store while it is at work would cost it time.
            watch(lambda: completed(queue), tasks, lambda: check_all(groups))
            over = time.monotonic_ns()
    return _rate(marks, over)


@contextmanager
def place_of(lab: Lab, word: str) -> Iterator[str]:
    """Lend an empty place for a queue of ours."""
    with lab.place(SQLITE if word == HANDLER else word) as url:
        yield url


@contextmanager
def node_of(lab: Lab, word: str, queue: Queue, workers: int) -> Iterator[Group]:
    """Run a node that runs tasks."""
    env = peer_environment(lab, queue.place.url)
    options = (
        ("--serve", _handler(lab)) if word == HANDLER else ("--app", f"bench.peers.{OURS}:queue")
    )
    with lab.node(queue, workers, *options, env=env) as group:
        yield group


def _handler(lab: Lab) -> str:
    """Return the path of the handler, as a program that can be executed."""
    path: Path = lab.folder / "handler"
    python = queuectl()[0].replace("queuectl", "python")
    path.write_text(f"#!/bin/sh\nexec {python} -m bench.peers.queuectl_handler\n")
    path.chmod(0o755)
    return str(path)


def drain_peer(lab: Lab, peer: Peer, setup: Setup, tasks: int) -> float:
    """Return how many tasks a second a peer runs."""
    with broker_of(lab, peer) as broker:
        marks = Marks(lab, tasks)
        with Asked(lab, peer.app, broker, peer.apart) as enqueue:
            enqueue("tasks", times=tasks)
        os.sync()
        with workers_of(lab, setup, broker, peer.apart) as groups:
            watch(marks.count, tasks, lambda: check_all(groups))
    return _rate(marks)


def _rate(marks: Marks, over: int | None = None) -> float:
    times = marks.times()
    skipped = len(times) // SKIPPED
    return (len(times) - 1 - skipped) / (((over or times[-1]) - times[skipped]) / 1e9)


MEASURE = Measure(
    name="tasks",
    title="Drain of Python tasks",
    about=__doc__ or "",
    subjects=subjects,
)
