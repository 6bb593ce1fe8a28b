"""Adds up what a group of ended runs contributes to the rollups, before it is written."""

from collections.abc import Iterator
from typing import Any

from queuectl.store.contract import Ended
from queuectl.store.histogram import bucket_of

MINUTE = 60_000
WAIT = "wait"
"""The measure of the time between due and started; all others are states jobs came to."""

_Key = tuple[int, str, str, str, int]


class Tally:
    """Durations by minute, queue, node, measure and bucket."""

    def __init__(self) -> None:
        self._cells: dict[_Key, list[int]] = {}

    def add(self, end: Ended) -> None:
        """Count one run: how long it took, and how long its job waited for it."""
        waited = max(0, end.started_at - end.job.run_at)
        self._count(end, end.transition.state.value, end.duration_ms)
        self._count(end, WAIT, waited)

    def _count(self, end: Ended, measure: str, ms: int) -> None:
        at = end.finished_at - end.finished_at % MINUTE
        key = (at, end.job.queue, end.job.node or "", measure, bucket_of(ms))
        cell = self._cells.get(key)
        if cell is None:
            self._cells[key] = [1, ms, ms, ms]
            return
        cell[0] += 1
        cell[1] += ms
        cell[2] = min(cell[2], ms)
        cell[3] = max(cell[3], ms)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the sums, in the names of the statement that adds them."""
        for (at, queue, node, measure, bucket), (count, total, least, most) in self._cells.items():
            yield {
                "at": at,
                "queue": queue,
                "node": node,
                "measure": measure,
                "bucket": bucket,
                "count": count,
                "total_ms": total,
                "least_ms": least,
                "most_ms": most,
            }
