"""Adds up what a group of ended runs contributes to the rollups, before it is written."""

from collections.abc import Iterator
from typing import Any

from queuectl.store.contract import Ended
from queuectl.store.histogram import bucket_of

MINUTE = 60_000
WAIT = "wait"
"""The measure of the time between due and started; all others are states jobs came to."""

EVER = 0
"""The time of a rollup of all time."""

_Key = tuple[int, str, str, str, int]
_Sums = tuple[int, int, int, int]


class Tally:
    """Durations by minute, or of all time, and by queue, node, measure and bucket."""

    def __init__(self) -> None:
        self._cells: dict[_Key, _Sums] = {}

    def add(self, end: Ended) -> None:
        """Count one run: how long it took, and how long its job waited for it."""
        waited = max(0, end.started_at - end.job.run_at)
        self._count(end, end.transition.state.value, end.duration_ms)
        self._count(end, WAIT, waited)

    def _count(self, end: Ended, measure: str, ms: int) -> None:
        minute = end.finished_at - end.finished_at % MINUTE
        key = minute, end.job.queue, end.job.node or "", measure, bucket_of(ms)
        self.merge(key, (1, ms, ms, ms))

    def merge(self, key: _Key, sums: _Sums) -> None:
        """Add a count, a total, the least and the most to what is there."""
        known = self._cells.get(key)
        self._cells[key] = sums if known is None else _together(known, sums)

    def count_for_ever(self) -> None:
        """Add what there is by the minute to the rollups of all time."""
        for key, sums in list(self._cells.items()):
            self.merge((EVER, *key[1:]), sums)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the sums, in the names of the statement that adds them."""
        for key, (count, total, least, most) in sorted(self._cells.items()):
            at, queue, node, measure, bucket = key
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


def _together(one: _Sums, other: _Sums) -> _Sums:
    return (
        one[0] + other[0],
        one[1] + other[1],
        one[2] if one[2] < other[2] else other[2],
        one[3] if one[3] > other[3] else other[3],
    )
