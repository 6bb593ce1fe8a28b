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

IDLE, LOAD, BACKLOG = "idle", "load", "backlog"
NewClient = Callable[[], Asked]
WORKERS = 4
WARMING = 3
"""Probes that aren't counted."""
FEWEST = 5
"""Probes beside a backlog that are needed to say anything."""


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store, the limit and the peers."""
    found: list[Subject] = [Plain("sh alone", lambda: bare(lab))]
    for how in (IDLE, LOAD):
        found += [_Ours(lab, store, how) for store in lab.stores]
        if lab.peers:
            found += [_Peer(lab, peer, how) for peer in PEERS]
    found += [_BesideBacklog(lab, store) for store in lab.stores]
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
            raise BenchError(f"a job that was enqueued didn't start within {PATIENCE:.0f} seconds")
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
    stamper: Stamper,
    enqueue: Callable[[str], int],
    times: int,
    until: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Enqueue jobs one after the other, and return how long each took to start."""
    chance = random.Random(1)
    found = []
    for number in range(times):
        if until():
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
        found = probe(stamper, start, lab.sizes.probes)
    for child in children:
        child.wait()
    return list(_readings("sh", IDLE, found))


def _readings(subject: str, how: str, found: list[float]) -> Iterator[Reading]:
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        id = f"latency/{subject}/{how}/{name}"
        yield Reading(id=id, value=percentile(found, share), unit="ms")


class _Probed(Subject):
    """Somebody with four workers, who is probed in one way."""

    def __init__(self, lab: Lab, name: str, word: str, how: str) -> None:
        super().__init__(f"{name}, {how}")
        self.lab = lab
        self.word = word
        self.how = how

    def warm_up(self) -> None:
        """See that it works at all; each round warms itself up."""
        with self.running() as new_client, new_client() as client, Stamper(self.lab) as stamper:
            probe(stamper, _one(client), WARMING)

    def measure(self) -> Iterable[Reading]:
        """Probe it."""
        with self.running() as new_client, new_client() as client, Stamper(self.lab) as stamper:
            probe(stamper, _one(client), WARMING)
            with self.busy(new_client):
                found = probe(stamper, _one(client), self.lab.sizes.probes)
        return list(_readings(self.word, self.how, found))

    @contextmanager
    def busy(self, new_client: NewClient) -> Iterator[None]:
        """Keep the workers busy, if that is how it is probed."""
        if self.how == IDLE:
            yield
            return
        with new_client() as other:
            other("stream", command="true", rate=self.lab.sizes.load_rate)
            yield
            other("stop")

    def running(self) -> AbstractContextManager[NewClient]:
        """Run its workers, and lend what makes clients of it."""
        raise NotImplementedError


def _one(client: Asked, **more: Any) -> Callable[[str], int]:
    return lambda command: int(client("one", command=command, **more)["began"])


class _Ours(_Probed):
    def __init__(self, lab: Lab, store: str, how: str) -> None:
        super().__init__(lab, f"queuectl on {store}", store, how)

    @contextmanager
    def running(self) -> Iterator[NewClient]:
        with self.lab.queue(self.word) as queue, self.lab.node(queue, WORKERS):
            yield lambda: Asked(self.lab, "queuectl_app", queue.place.url)


class _BesideBacklog(_Ours):
    """Jobs of a higher priority, while the workers are at a backlog."""

    def __init__(self, lab: Lab, store: str) -> None:
        super().__init__(lab, store, BACKLOG)

    def measure(self) -> Iterable[Reading]:
        jobs = self.lab.sizes.backlog_beside_probes
        with (
            self.lab.queue(self.word) as queue,
            self.lab.node(queue, WORKERS),
            Asked(self.lab, "queuectl_app", queue.place.url) as client,
            Stamper(self.lab) as stamper,
        ):
            client("many", command="true", times=jobs)

            def nearly_drained() -> bool:
                return completed(queue) > jobs * 0.9

            urgent = _one(client, priority=10)
            found = probe(stamper, urgent, self.lab.sizes.probes, until=nearly_drained)
            queue.pause("default")
        if len(found) < FEWEST:
            raise BenchError(f"the backlog was gone after {len(found)} probes")
        return list(_readings(self.word, BACKLOG, found))


class _Peer(_Probed):
    def __init__(self, lab: Lab, peer: Peer, how: str) -> None:
        super().__init__(lab, peer.title, peer.name, how)
        self._peer = peer

    @contextmanager
    def running(self) -> Iterator[NewClient]:
        lab, peer = self.lab, self._peer
        with broker_of(lab, peer) as broker, workers_of(lab, peer.plain, broker) as groups:
            with Asked(lab, peer.app, broker) as client:
                awake(lab, client, groups, WORKERS)
            yield lambda: Asked(lab, peer.app, broker)

    def configured(self) -> str:
        return self._peer.plain.name if self.how == IDLE else ""


MEASURE = Measure(
    name="latency",
    title="Enqueue to start",
    about=__doc__ or "",
    subjects=subjects,
)
