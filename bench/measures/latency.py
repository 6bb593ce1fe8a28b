"""Milliseconds from the call that enqueues a job to the first instruction of its command.

A process of its own enqueues `echo N > PIPE`, a builtin of the shell; another waits at the pipe
and looks at the clock. There are four workers. The median and the 99th percentile are those of
the probes of a round, with pauses of 20 to 80 ms between them.

- *idle*: nothing else is to be done.
- *load*: 50 other `true` jobs a second come in from another process.
- *backlog* (ours only): the workers are at a backlog of `true` jobs all the time, and the probes
  have a higher priority.

The limit is the same command, started by Python without any queue.
"""

import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self

from bench.clients import Asked, awake, broker_of, workers_of
from bench.figures import Reading, percentile
from bench.lab import CHECKOUT, Lab
from bench.measures.drain import completed
from bench.peers.roster import PEERS, Peer
from bench.processes import PATIENCE, BenchError
from bench.subject import Measure, Plain, Subject

WORKERS = 4
FEWEST = 5
"""Probes beside a backlog that are needed to say anything."""


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store, the limit and the peers."""
    found: list[Subject] = [Plain("sh alone", lambda: bare(lab))]
    found += [_Ours(lab, store) for store in lab.stores]
    if lab.peers:
        found += [_Peer(lab, peer) for peer in PEERS]
    return found


class Stamper:
    """The process at the pipe."""

    def __init__(self, lab: Lab) -> None:
        self.pipe = str(lab.folder / "pipe")
        if not os.path.exists(self.pipe):
            os.mkfifo(self.pipe)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.stamper", self.pipe],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._line()

    def next(self) -> tuple[int, int]:
        """Return the number of the next that was written, and when."""
        number, when = self._line().split()
        return int(number), int(when)

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        # Lines come one at a time, so none is ever hidden in a buffer.
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise BenchError("a job that was enqueued never started")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def probe(
    stamper: Stamper, enqueue: Callable[[str], int], times: int, enough: Callable[[], bool]
) -> list[float]:
    """Enqueue jobs one after the other, and return how long each took to start."""
    chance = random.Random(1)
    found = []
    for number in range(times):
        if enough():
            break
        # No poll of anybody's can keep in step with this.
        time.sleep(chance.uniform(0.02, 0.08))
        began = enqueue(f"echo {number} > {stamper.pipe}")
        known, started = stamper.next()
        if known != number:
            raise BenchError(f"job {known} started twice, or after job {number}")
        found.append((started - began) / 1e6)
    return found


def bare(lab: Lab) -> Iterable[Reading]:
    """Start the command without any queue."""
    children: list[subprocess.Popen[bytes]] = []

    def start(command: str) -> int:
        began = time.monotonic_ns()
        children.append(subprocess.Popen(["/bin/sh", "-c", command]))
        return began

    with Stamper(lab) as stamper:
        found = probe(stamper, start, lab.sizes.probes, lambda: False)
    for child in children:
        child.wait()
    return list(_readings("sh", "idle", found))


def _readings(subject: str, how: str, found: list[float]) -> Iterator[Reading]:
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        id = f"latency/{subject}/{how}/{name}"
        yield Reading(id=id, value=percentile(found, share), unit="ms")


class _Probed(Subject):
    """Somebody with four workers, who is probed idle and under load."""

    def __init__(self, lab: Lab, name: str, word: str) -> None:
        super().__init__(name)
        self.lab = lab
        self.word = word

    def warm_up(self) -> None:
        """See that it works at all; each round warms itself up."""
        with self.running() as new_client, new_client() as client, Stamper(self.lab) as stamper:
            probe(stamper, _one(client), 3, lambda: False)

    def measure(self) -> Iterable[Reading]:
        """Probe it idle, then under load."""
        times = self.lab.sizes.probes
        with self.running() as new_client, new_client() as client, Stamper(self.lab) as stamper:
            probe(stamper, _one(client), 3, lambda: False)
            found = probe(stamper, _one(client), times, lambda: False)
            readings = [*_readings(self.word, "idle", found)]
            with new_client() as other:
                other("stream", command="true", rate=self.lab.sizes.load_rate)
                found = probe(stamper, _one(client), times, lambda: False)
                other("stop")
            readings += _readings(self.word, "load", found)
        return readings

    def running(self) -> AbstractContextManager[Callable[[], Asked]]:
        """Run its workers, and lend what makes clients of it."""
        raise NotImplementedError


def _one(client: Asked, **more: Any) -> Callable[[str], int]:
    return lambda command: int(client("one", command=command, **more)["began"])


class _Ours(_Probed):
    def __init__(self, lab: Lab, store: str) -> None:
        super().__init__(lab, f"queuectl on {store}", store)
        self._store = store

    @contextmanager
    def running(self) -> Iterator[Callable[[], Asked]]:
        with self.lab.queue(self._store) as queue, self.lab.node(queue, WORKERS):
            yield lambda: Asked(self.lab, "queuectl_app", queue.place.url)

    def measure(self) -> Iterable[Reading]:
        return [*super().measure(), *self._beside_a_backlog()]

    def _beside_a_backlog(self) -> Iterable[Reading]:
        jobs = self.lab.sizes.backlog_beside_probes
        with (
            self.lab.queue(self._store) as queue,
            self.lab.node(queue, WORKERS),
            Asked(self.lab, "queuectl_app", queue.place.url) as client,
            Stamper(self.lab) as stamper,
        ):
            client("many", command="true", times=jobs)

            def nearly_drained() -> bool:
                return completed(queue) > jobs * 0.9

            found = probe(stamper, _one(client, priority=10), self.lab.sizes.probes, nearly_drained)
            queue.pause("default")
        if len(found) < FEWEST:
            raise BenchError(f"the backlog was gone after {len(found)} probes")
        return _readings(self._store, "backlog", found)


class _Peer(_Probed):
    def __init__(self, lab: Lab, peer: Peer) -> None:
        super().__init__(lab, peer.title, peer.name)
        self._peer = peer

    @contextmanager
    def running(self) -> Iterator[Callable[[], Asked]]:
        lab, peer = self.lab, self._peer
        with broker_of(lab, peer) as broker, workers_of(lab, peer.plain, broker) as groups:
            with Asked(lab, peer.app, broker) as client:
                awake(lab, client, groups, WORKERS)
            yield lambda: Asked(lab, peer.app, broker)

    def configured(self) -> str:
        return self._peer.plain.name


MEASURE = Measure(
    name="latency",
    title="Enqueue to start",
    about=__doc__ or "",
    subjects=subjects,
)
