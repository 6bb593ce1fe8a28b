"""The metrics of a node: its own, and those of its queue beside them.

All of it is read by another thread than the loop's, which takes no lock and waits for nobody: what
it finds was so a moment ago. The queue it reads over a connection of its own.
"""

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from queuectl import metrics
from queuectl.errors import StoreError
from queuectl.metrics import Points, QueueMetrics, Text, families
from queuectl.node.config import Config
from queuectl.node.crew import Crew
from queuectl.node.guards import Guards
from queuectl.node.membership import Membership
from queuectl.node.turns import TurnTaker
from queuectl.place import Place
from queuectl.queue import Queue

if TYPE_CHECKING:
    from prometheus_client import Metric

PATIENCE = 2.0
"""Seconds to wait for a database that has gone away: whoever asks doesn't wait for long, either."""


@dataclass(eq=False, kw_only=True)
class NodeMetrics:
    """What a node tells of itself."""

    member: Membership
    config: Config
    crew: Crew
    turns: TurnTaker
    guards: Guards

    def points(self) -> Points:
        """Return what there is to tell now."""
        points, done = Points(), self.turns.done
        points.add(families.NODE, 1, self.member.id, metrics.label(self.member.host))
        points.add(families.NODE_WORKERS, self.config.count)
        points.add(families.NODE_BUSY, self.crew.workers.busy)
        for outcome, runs in done.ended.copy().items():
            points.add(families.NODE_RUNS, runs, outcome)
        points.add(families.NODE_CLAIMS, done.claimed)
        points.sum_up(families.NODE_COMMITS, done.commits, done.seconds)
        points.add(families.NODE_REFUSALS, done.refused)
        points.add(families.NODE_LEASE, self.config.settings.lease / 1000)
        points.add(families.NODE_LEASE_AGE, self.member.lease.age)
        points.add(families.NODE_GUARDS, len(self.guards))
        points.add(families.NODE_PROGRAMS, self.crew.runner.count_warm())
        return points


class Pages:
    """What is served: at `/metrics` the node and its queue, at `/metrics/node` the node alone.

    One thread asks.
    """

    def __init__(self, node: NodeMetrics, place: Place) -> None:
        self._node = node
        self._place = place
        self._queue: Queue | None = None
        self._metrics: QueueMetrics | None = None

    def answer(self, path: str, accept: str) -> Text | None:
        """Return what is at a path, in the format that fits an Accept header; None for nothing."""
        if path not in ("/metrics", "/metrics/node"):
            return None
        told = self._node.points().families()
        if path == "/metrics":
            told = [*chain(self._of_queue(), told)]
        return metrics.as_text(told, openmetrics=metrics.wants_openmetrics(accept))

    def _of_queue(self) -> "list[Metric]":
        if self._metrics is None:
            try:
                self._queue = Queue(place=self._place, create=False)
            except StoreError:
                return metrics.unreachable()
            self._queue.store.patience = PATIENCE
            self._metrics = QueueMetrics(self._queue)
        return self._metrics.families()

    def close(self) -> None:
        """Let go of the database."""
        if self._queue is not None:
            self._queue.close()
