"""Adds up what a group of ended runs contributes to the rollups, before it is written."""

from collections.abc import Iterator
from typing import Any

from queuectl.job import State
from queuectl.lifecycle import has_failed
from queuectl.store.contract import Ended
from queuectl.store.histogram import bucket_of

MINUTE = 60_000
WAIT = "wait"
"""The measure of the time between due and started; all others are states jobs came to."""

FAILURE = "failure "
"""What the measure of failed runs begins with; the kind follows. They are counted, not timed."""

EVER = 0
"""The time of a rollup of all time."""

_Key = tuple[int, str, str, str, int]
_Time = tuple[int, str, str, str, int]
"""A minute, queue, node and measure, and milliseconds."""
_Sums = tuple[int, int, int, int]


class Tally:
    """Durations by minute, or of all time, and by queue, node, measure and bucket."""

    def __init__(self) -> None:
        self._cells: dict[_Key, _Sums] = {}
        self._times: dict[_Time, int] = {}
        """How many runs took, or waited, a time that isn't in the cells yet. Of the runs that end
        together many took the same, so that there is less to add up."""

    def add(self, end: Ended) -> None:
        """Count one run: how long it took, and how long its job waited for it."""
        job, times, settled_at = end.job, self._times, end.settled_at
        minute, queue, node = settled_at - settled_at % MINUTE, job.queue, job.node or ""
        state = end.transition.state
        took = minute, queue, node, str(state), end.duration_ms
        waited = minute, queue, node, WAIT, max(0, end.started_at - job.run_at)
        times[took] = times.get(took, 0) + 1
        times[waited] = times.get(waited, 0) + 1
        if state is not State.COMPLETED and has_failed(end.outcome, state):
            failed = minute, job.queue, node, FAILURE + end.outcome.name, 0
            times[failed] = times.get(failed, 0) + 1

    def _add_up(self) -> None:
        for (minute, queue, node, measure, ms), count in self._times.items():
            key = minute, queue, node, measure, bucket_of(ms)
            self.merge(key, (count, count * ms, ms, ms))
        self._times.clear()

    def merge(self, key: _Key, sums: _Sums) -> None:
        """Add a count, a total, the least and the most to what is there."""
        known = self._cells.get(key)
        self._cells[key] = sums if known is None else _together(known, sums)

    def count_for_ever(self) -> None:
        """Add what there is by the minute to the rollups of all time."""
        self._add_up()
        for key, sums in list(self._cells.items()):
            self.merge((EVER, *key[1:]), sums)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the sums, in the names of the statement that adds them."""
        self._add_up()
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
