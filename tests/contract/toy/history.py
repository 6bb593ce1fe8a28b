"""The verbs about what was: attempts, outputs, events, rollups."""

from collections.abc import Sequence
from dataclasses import replace

from queuectl.facts import Event, Rollup, Total
from queuectl.filter import ANY_EVENT, EventFilter
from queuectl.job import Attempt, Job, Output
from queuectl.store.contract import History
from queuectl.store.histogram import bucket_of
from tests.contract.toy.memory import Cell, Memory, RollupKey
from tests.contract.toy.selecting import event_fits


class ToyHistory(History):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def attempts(self, job: Job) -> list[Attempt]:
        return self._memory.attempts.get(job.seq, [])

    def output(self, job: Job, number: int) -> Output | None:
        if job.seq not in self._memory.attempts:
            return None
        return self._memory.outputs.get((job.seq, number))

    def record(self, *events: Event) -> None:
        self._memory.events += events

    def events(
        self,
        job: str | None = None,
        *,
        action: str | None = None,
        which: EventFilter = ANY_EVENT,
        limit: int = 100,
        before: int | None = None,
        after: int | None = None,
        oldest: bool = False,
    ) -> list[Event]:
        between = self._between(job, action, before, after, oldest=oldest)
        return [event for event in between if event_fits(event, which)][:limit]

    def horizon(
        self,
        job: str | None = None,
        *,
        action: str | None = None,
        looks: int,
        before: int | None = None,
        after: int | None = None,
        oldest: bool = False,
    ) -> Event | None:
        between = self._between(job, action, before, after, oldest=oldest)
        return between[looks - 1] if len(between) >= looks else None

    def _between(
        self,
        job: str | None,
        action: str | None,
        before: int | None,
        after: int | None,
        *,
        oldest: bool,
    ) -> list[Event]:
        return [
            event
            for event in self._numbered()[:: 1 if oldest else -1]
            if (job is None or event.job == job)
            and (action is None or event.action == action)
            and (before is None or event.seq < before)
            and (after is None or event.seq > after)
        ]

    def _numbered(self) -> list[Event]:
        return [replace(event, seq=n) for n, event in enumerate(self._memory.events, 1)]

    def last_of(self, jobs: Sequence[str]) -> dict[str, int]:
        known = [event for event in self._numbered() if event.action is not None]
        return {str(event.job): event.seq for event in known if event.job in jobs}

    def rollups(self, *, since: int | None = None, queue: str | None = None) -> list[Rollup]:
        sums = Memory()
        for (at, of, _, measure, bucket), cell in self._memory.cells.items():
            timed = not measure.startswith("failure ")
            if timed and at >= (since or 0) and queue in (None, of):
                sums.merge((0, "", "", measure, bucket), cell)
        return [_rollup(key, cell) for key, cell in sums.cells.items()]

    def series(
        self, *, since: int, span: int, until: int | None = None, queue: str | None = None
    ) -> dict[int, list[Rollup]]:
        cells = {
            key: cell
            for key, cell in self._memory.cells.items()
            if key[0] and key[0] >= since and (until is None or key[0] < until)
        }
        parts = {at - at % span for at, *_ in cells}
        found = {}
        for part in parts:
            within = {key: cell for key, cell in cells.items() if key[0] - key[0] % span == part}
            memory = Memory()
            memory.cells = within
            if rollups := ToyHistory(memory).rollups(queue=queue):
                found[part] = rollups
        return found

    def series_by_queue(self, *, since: int, span: int) -> dict[str, dict[int, list[Rollup]]]:
        queues = {queue for at, queue, *_ in self._memory.cells if at and at >= since}
        found = {queue: self.series(since=since, span=span, queue=queue) for queue in queues}
        return {queue: parts for queue, parts in found.items() if parts}

    def totals(self, bounds: Sequence[int]) -> dict[str, list[Total]]:
        sums: dict[tuple[str, str, int | None], tuple[int, int]] = {}
        for (_, of, _, measure, bucket), (n, ms, *_) in self._memory.cells.items():
            within = next((end for end in bounds if bucket <= bucket_of(end)), None)
            count, total = sums.get((of, measure, within), (0, 0))
            sums[of, measure, within] = count + n, total + ms
        found: dict[str, list[Total]] = {}
        for (of, measure, within), (count, total) in sums.items():
            one = Total(measure=measure, within=within, count=count, total_ms=total)
            found.setdefault(of, []).append(one)
        return found


def _rollup(key: RollupKey, cell: Cell) -> Rollup:
    n, total, low, high = cell
    return Rollup(
        measure=key[3], bucket=key[4], count=n, total_ms=total, least_ms=low, most_ms=high
    )
