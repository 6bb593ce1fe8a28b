"""How things went, by when: for charts, which show the same past again and again.

What is over for some minutes doesn't change any more. It is read once, and kept for whoever looks
next; so a chart of a month costs a reader what one of the last minutes does.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from queuectl.errors import UsageError, shown
from queuectl.facts import Rollup
from queuectl.report import Part, build_part
from queuectl.request import check_sought
from queuectl.store.contract import Store
from queuectl.values import replace
from queuectl.when import milliseconds

if TYPE_CHECKING:
    from datetime import datetime

MINUTE = 60_000
"""Milliseconds of the shortest part."""
MOST_PARTS = 1_000
SETTLED = 5 * MINUTE
"""Milliseconds after which nobody adds to a minute any more. A run is counted in the minute of its
end, and stored a moment later; a node that takes as long as this has lost its lease."""
MOST_KEPT = 200
"""Charts whose past is kept."""
CHECK_EVERY = 10.0
"""Seconds after which it is asked again whether what we know has been taken away meanwhile."""

Recent = Mapping[str, Mapping[int, Sequence[Rollup]]]
"""Rollups of the last minutes: by queue and minute."""


class Trends:
    """The past of a queue, part by part. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._kept: dict[tuple[int, tuple[str, ...]], _Past] = {}
        self._ever: dict[str, int] = {}
        """How many runs and waits each queue ever had, when we asked last."""
        self._check_at = 0.0

    def series(
        self,
        now: int,
        *,
        since: "int | datetime",
        span: int,
        choices: Sequence[Collection[str]],
    ) -> list[list[Part]]:
        """Return all parts since then, for each choice of queues; for an empty one, of all."""
        begin = _begin(now, since, span)
        named = [
            tuple(sorted({check_sought("queue", name) for name in queues})) for queues in choices
        ]
        self._check()
        recent = self._store.history.series_by_queue(since=_settled(now), span=MINUTE)
        return [self._past(begin, span, queues).parts(begin, now, recent) for queues in named]

    def _check(self) -> None:
        """Forget all if a queue has fewer than it had: it was emptied, or renamed."""
        with self._lock:
            if monotonic() < self._check_at:
                return
            self._check_at = monotonic() + CHECK_EVERY
        totals = self._store.history.totals([0])
        ever = {queue: sum(one.count for one in found) for queue, found in totals.items()}
        with self._lock:
            if any(ever.get(queue, 0) < count for queue, count in self._ever.items()):
                self._kept.clear()
            self._ever = ever

    def _past(self, begin: int, span: int, queues: tuple[str, ...]) -> "_Past":
        with self._lock:
            past = self._kept.get((span, queues))
            if past is None or past.begin > begin:
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                past = self._kept[span, queues] = _Past(self._store, queues, begin, span)
            return past


class _Past:
    """What one chart is made of, up to a time; that moves on."""

    def __init__(self, store: Store, queues: tuple[str, ...], begin: int, span: int) -> None:
        self.begin = begin
        self._store = store
        self._queues = queues
        self._span = span
        self._lock = Lock()
        self._upto = begin
        """Before that time, all is known that there is to know."""
        self._over: dict[int, Part] = {}
        self._open: dict[int, list[Rollup]] = {}
        """What is known of parts that go on."""

    def parts(self, begin: int, now: int, recent: Recent) -> list[Part]:
        """Return all parts from a time on, the last of them with what is `recent`."""
        with self._lock:
            # One reads; others who want the same meanwhile are given it.
            self._move_on(_settled(now))
            news = {at: list(rows) for at, rows in self._open.items()}
            for rows in self._of_ours(recent):
                for at, some in rows.items():
                    if at >= self._upto:
                        news.setdefault(at - at % self._span, []).extend(some)
            return [
                self._over.get(at) or build_part(at, news.get(at, ()))
                for at in range(begin, now + 1, self._span)
            ]

    def _of_ours(self, recent: Recent) -> Iterable[Mapping[int, Sequence[Rollup]]]:
        if not self._queues:
            return recent.values()
        return [recent[queue] for queue in self._queues if queue in recent]

    def _move_on(self, upto: int) -> None:
        """Take in what is over by now."""
        if upto <= self._upto:
            return
        for queue in self._queues or [None]:
            found = self._store.history.series(
                since=self._upto, until=upto, span=self._span, queue=queue
            )
            for at, rows in found.items():
                self._open[at] = _summed([*self._open.get(at, ()), *rows])
        for at in range(self._upto - self._upto % self._span, upto, self._span):
            if at + self._span <= upto:
                self._over[at] = build_part(at, self._open.pop(at, ()))
        while len(self._over) > MOST_PARTS:
            del self._over[self.begin]
            self.begin += self._span
        self._upto = upto


def _begin(now: int, since: "int | datetime", span: int) -> int:
    """Return the beginning of the first part, if that can be asked for."""
    if span < MINUTE or span % MINUTE:
        raise UsageError(f"A part is one minute long, or several, not {shown(span)} ms.")
    begin = milliseconds(since)
    begin -= begin % span
    if now - begin > MOST_PARTS * span:
        raise UsageError(f"There are {MOST_PARTS:,} parts at most; take longer ones.")
    return begin


def _settled(now: int) -> int:
    return now - now % MINUTE - SETTLED


def _summed(rollups: Iterable[Rollup]) -> list[Rollup]:
    """Add up those of the same measure and bucket."""
    found: dict[tuple[str, int], Rollup] = {}
    for row in rollups:
        key = row.measure, row.bucket
        known = found.get(key)
        found[key] = row if known is None else _together(known, row)
    return list(found.values())


def _together(one: Rollup, other: Rollup) -> Rollup:
    return replace(
        one,
        count=one.count + other.count,
        total_ms=one.total_ms + other.total_ms,
        least_ms=min(one.least_ms, other.least_ms),
        most_ms=max(one.most_ms, other.most_ms),
    )
