"""What the same things cost with more and more jobs: N wait, N are finished, N are delayed.

The delayed jobs have a higher priority than those that wait, and the finished ones have left
attempts, output and rollups, spread over the last day. Filling is described in `bench/fill.py`.

- *drain*: `true` jobs per second, with four workers, from the front of that backlog. As many are
  enqueued before as are drained, so it stays as long as it was.
- *status*, *list* (the newest 20), *stats*, *enqueue*: milliseconds of one call of the Python
  interface, the median of several. The start of a command would hide how they grow.

MariaDB is filled up to 100,000 of each; its triggers make more take very long.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from statistics import median

from bench.figures import Reading
from bench.fill import fill
from bench.lab import MARIADB, Lab
from bench.measures.drain import completed
from bench.processes import watch
from bench.subject import Measure, Subject
from queuectl import Queue

WORKERS = 4
MOST_IN_MARIADB = 100_000


def subjects(lab: Lab) -> list[Subject]:
    """Return each store with each size."""
    return [
        _Filled(lab, store, size)
        for store in lab.stores
        for size in lab.sizes.backlogs
        if store != MARIADB or size <= MOST_IN_MARIADB
    ]


class _Filled(Subject):
    """A queue that is filled once and stays as full, round for round."""

    def __init__(self, lab: Lab, store: str, size: int) -> None:
        super().__init__(f"queuectl on {store}, {size:,} of each")
        self._lab = lab
        self._store = store
        self._size = size
        self._stack = ExitStack()
        self._queue: Queue | None = None

    def warm_up(self) -> None:
        """Fill it."""
        queue = self._stack.enter_context(self._lab.queue(self._store))
        fill(self._lab, self._store, queue, self._size)
        self._queue = queue
        self.measure()

    def measure(self) -> Iterable[Reading]:
        """Do everything once."""
        queue = self._queue
        assert queue is not None
        os.sync()
        calls: dict[str, Callable[[], object]] = {
            "status": queue.status,
            "list": lambda: queue.list(limit=20),
            "stats": queue.stats,
            "enqueue": lambda: queue.enqueue("true"),
        }
        return [
            *(self._reading(name, self._ms(call), "ms") for name, call in calls.items()),
            self._reading("drain", self._drain(queue), "jobs/s"),
        ]

    def close(self) -> None:
        """Drop it."""
        self._stack.close()

    def _reading(self, what: str, value: float, unit: str) -> Reading:
        return Reading(id=f"backlog/{self._store}/{self._size}/{what}", value=value, unit=unit)

    def _ms(self, call: Callable[[], object]) -> float:
        call()
        found = []
        for _ in range(self._lab.sizes.backlog_calls):
            began = time.perf_counter()
            call()
            found.append((time.perf_counter() - began) * 1000)
        return median(found)

    def _drain(self, queue: Queue) -> float:
        jobs = self._lab.sizes.backlog_jobs
        queue.enqueue_many(["true"] * jobs)
        before = completed(queue)
        seen = 0

        def done() -> int:
            nonlocal seen
            seen = completed(queue) - before
            return seen

        with self._lab.node(queue, WORKERS) as group:
            os.sync()
            queue.resume("default")
            seconds = watch(done, jobs, group.check)
            queue.pause("default")
        return seen / seconds


MEASURE = Measure(
    name="backlog",
    title="Cost against the backlog",
    about=__doc__ or "",
    subjects=subjects,
)
