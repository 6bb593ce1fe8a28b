"""Milliseconds from the call that enqueues a Python task to its first instruction.

The queue is idle, there are four workers (of peers, those of `latency`), and the programs that run
tasks have run some. A process of its own enqueues tasks, with pauses of 20 to 80 ms between them,
in which nothing is asked or watched. The first instruction of a task takes the time, by the clock
that all processes share, and leaves it in shared memory. The median and the 95th percentile are
those of all samples of a round.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from bench.clients import Asked, Marks, broker_of, check_all, workers_of
from bench.figures import Reading, percentile
from bench.lab import Lab
from bench.measures.tasks import OURS, name_of, node_of, place_of, who_of_ours
from bench.peers.roster import TASK_PEERS, Peer
from bench.processes import wait_for
from bench.subject import Measure, Subject
from queuectl import Queue

WORKERS = 4
WARMING = 20
"""Tasks that aren't counted: every program of every worker should have run some."""
SHARES = {"p50": 0.5, "p95": 0.95}
Client = tuple[Asked, Callable[[], None]]
"""Who enqueues, and what raises if the workers are gone."""


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store, ours with a handler, and the peers."""
    found: list[Subject] = [_Probed(lab, name_of(word), word) for word in who_of_ours(lab)]
    if lab.peers:
        found += [_Probed(lab, peer.title, peer.name, peer) for peer in TASK_PEERS]
    return found


class _Probed(Subject):
    def __init__(self, lab: Lab, name: str, word: str, peer: Peer | None = None) -> None:
        super().__init__(name)
        self._lab = lab
        self._word = word
        self._peer = peer

    def warm_up(self) -> None:
        """See that it works at all; each round warms itself up."""
        self._probe(1)

    def configured(self) -> str:
        return self._peer.plain.name if self._peer else f"{WORKERS} workers"

    def measure(self) -> Iterable[Reading]:
        found = self._probe(self._lab.sizes.samples)
        for name, share in SHARES.items():
            id = f"warm/{self._word}/{name}"
            yield Reading(id=id, value=percentile(found, share), unit="ms")

    def _probe(self, times: int) -> list[float]:
        marks = Marks(self._lab, WARMING + times)
        with self._running() as (client, alive):
            return probe(client, alive, marks, WARMING + times)[WARMING:]

    def _running(self) -> AbstractContextManager[Client]:
        return (
            _ours(self._lab, self._word) if self._peer is None else _theirs(self._lab, self._peer)
        )


@contextmanager
def _ours(lab: Lab, word: str) -> Iterator[Client]:
    with (
        place_of(lab, word) as url,
        Queue(url) as queue,
        node_of(lab, word, queue, WORKERS) as group,
        Asked(lab, OURS, url) as client,
    ):
        yield client, group.check


@contextmanager
def _theirs(lab: Lab, peer: Peer) -> Iterator[Client]:
    with (
        broker_of(lab, peer) as broker,
        workers_of(lab, peer.plain, broker, peer.apart) as groups,
        Asked(lab, peer.app, broker, peer.apart) as client,
    ):
        yield client, lambda: check_all(groups)


def probe(client: Asked, alive: Callable[[], None], marks: Marks, times: int) -> list[float]:
    """Enqueue tasks one after the other, and return how long each took to start."""
    chance = random.Random(1)
    found = []
    for number in range(1, times + 1):
        began = int(client("task", number=number)["began"])
        # No poll of anybody's can keep in step with this, and nothing of ours is in the way.
        time.sleep(chance.uniform(0.02, 0.08))
        wait_for(partial(_has_begun, marks, number), "the start of a task", alive)
        found.append((marks.of(number) - began) / 1e6)
    return found


def _has_begun(marks: Marks, number: int) -> bool:
    return marks.of(number) != 0


MEASURE = Measure(
    name="warm",
    title="Enqueue to start of a task",
    about=__doc__ or "",
    subjects=subjects,
)
