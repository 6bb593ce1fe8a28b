"""Metrics for Prometheus: how figures become the text of `/metrics`. `families` has the table.

Whoever serves that makes one `QueueMetrics` of its queue and asks it for a `Text`, as often as it
likes. A node serves its own besides: see `node/metrics.py`. The package prometheus-client, of the
extra `web`, is imported when the first of them is made.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from queuectl import __version__
from queuectl.errors import StoreError, UsageError, how_to_install
from queuectl.facts import Total, count_unserved
from queuectl.figures import BOUNDS, Figures
from queuectl.job import State
from queuectl.metrics.families import (
    BUILD,
    BUSY,
    DATABASE,
    DIED,
    FAILURES,
    FAMILIES,
    JOBS,
    LAG,
    LAST_TICK,
    NEXT_TICK,
    NODES,
    OLDEST,
    PAUSED,
    RUN_TIME,
    RUNS,
    SCHEDULES,
    SIZE,
    UNSERVED,
    UP,
    WAIT_TIME,
    WORKERS,
    Family,
    Kind,
)
from queuectl.queue import Queue
from queuectl.store.rollups import FAILURE, WAIT

if TYPE_CHECKING:
    from prometheus_client import Metric

FRESH = 1.0
"""Seconds for which figures are told again without another look at the queue."""
SIZE_EVERY = 60.0
"""Seconds between two looks at how large the database is: some have to add that up."""
MOST_QUEUES = 50
"""Queues that have labels of their own; the rest share one. The same for nodes and schedules."""
MOST_NODES = 200
MOST_SCHEDULES = 100
OTHER = "other"
"""The label of what shares one."""
STATES = tuple(state.value for state in State if state is not State.BLOCKED)
ENDS = ("completed", "failed", "dead", "cancelled", "pending")
"""The states to which runs bring their jobs."""
KINDS = (
    *("exited", "signalled", "timed out", "out of memory", "out of CPU time"),
    *("not started", "lost", "raised", "expired"),
)
"""How runs fail. These are told from the start: what comes up with a 1 has never increased."""

OPENMETRICS = "application/openmetrics-text"
_AS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_AS_OPENMETRICS = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"


# -- what is to be told ------------------------------------------------------------------


@dataclass(slots=True)
class Times:
    """A histogram: how many times are in each bucket, and all of them together."""

    counts: dict[int | None, int] = field(default_factory=lambda: dict.fromkeys((*BOUNDS, None), 0))
    """By the bound that they are within; None for those above all."""
    total_ms: int = 0

    def add(self, total: Total) -> None:
        """Count times that are within the same bound."""
        self.counts[total.within] += total.count
        self.total_ms += total.total_ms

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many times are no longer than each bound, in seconds."""
        ends = [*(str(bound / 1000) for bound in BOUNDS), "+Inf"]
        return list(zip(ends, accumulate(self.counts.values()), strict=True))


class Points:
    """The values of families, by what their labels say."""

    def __init__(self) -> None:
        self._found: dict[Family, dict[tuple[str, ...], Any]] = {}

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add to the value with these labels, which begins with 0."""
        there = self._found.setdefault(family, {})
        there[labels] = there.get(labels, 0) + value

    def raise_to(self, family: Family, value: float, *labels: str) -> None:
        """Have the value with these labels be no less than this one."""
        there = self._found.setdefault(family, {})
        there[labels] = max(there.get(labels, value), value)

    def times(self, family: Family, *labels: str) -> Times:
        """Return the histogram with these labels, to be added to."""
        times: Times = self._found.setdefault(family, {}).setdefault(labels, Times())
        return times

    def sum_up(self, family: Family, count: int, seconds: float) -> None:
        """Say how many times there were, and how long all of them took together."""
        self._found[family] = {(): (count, seconds)}

    def families(self) -> "list[Metric]":
        """Return them as prometheus-client has them, in the order of the table."""
        return [_made(one, self._found[one]) for one in FAMILIES if one in self._found]


def _made(family: Family, values: Mapping[tuple[str, ...], Any]) -> "Metric":
    from prometheus_client import core

    of = family.name, family.help
    match family.kind:
        case Kind.GAUGE:
            gauge = core.GaugeMetricFamily(*of, labels=family.labels)
            for labels, value in values.items():
                gauge.add_metric(labels, value)
            return gauge
        case Kind.COUNTER:
            counter = core.CounterMetricFamily(*of, labels=family.labels)
            for labels, value in values.items():
                counter.add_metric(labels, value)
            return counter
        case Kind.HISTOGRAM:
            histogram = core.HistogramMetricFamily(*of, labels=family.labels)
            for labels, times in values.items():
                histogram.add_metric(labels, times.buckets(), sum_value=times.total_ms / 1000)
            return histogram
        case Kind.SUMMARY:
            summary = core.SummaryMetricFamily(*of, labels=family.labels)
            for labels, (count, seconds) in values.items():
                summary.add_metric(labels, count_value=count, sum_value=seconds)
            return summary


class Names:
    """Which of the names that there are have a label of their own.

    At most so many, and a name keeps what it has as long as there is something of it: so the sum of
    the others doesn't fall because one of them is told apart, which would look as if it had begun
    anew. The room of names that are gone goes to new ones.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._own: set[str] = set()
        self._others: set[str] = set()

    def settle(self, names: Iterable[str]) -> list[str]:
        """Take in which names there are, the most important first; return the labels in use."""
        names = list(dict.fromkeys(names))
        self._own.intersection_update(names)
        self._others.intersection_update(names)
        for name in names:
            if name not in self._own and name not in self._others:
                (self._own if len(self._own) < self._most else self._others).add(name)
        return list(dict.fromkeys(self.label(name) for name in names))

    def has_own(self, name: str) -> bool:
        """Tell whether a name has a label of its own."""
        return name in self._own

    def label(self, name: str) -> str:
        """Return the label of a name."""
        return label(name) if name in self._own else OTHER


def label(text: str) -> str:
    """Return a text as labels can have it: in UTF-8, and without NUL, at which some readers end."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\ufffd")


# -- the queue ----------------------------------------------------------------------------


class Told:
    """What is told of a queue, and in which labels: the same ones each time."""

    def __init__(self) -> None:
        self._queues = Names(MOST_QUEUES)
        self._nodes = Names(MOST_NODES)
        self._schedules = Names(MOST_SCHEDULES)

    def points(self, figures: Figures) -> Points:
        """Return what these figures come to."""
        points = Points()
        self._tell_queues(points, figures)
        self._tell_totals(points, figures.totals)
        self._tell_nodes(points, figures)
        self._tell_schedules(points, figures)
        return points

    def _tell_queues(self, points: Points, figures: Figures) -> None:
        for one in self._queues.settle(_largest(figures)):
            for family in (OLDEST, UNSERVED, PAUSED):
                points.add(family, 0, one)
            for family, values in ((JOBS, STATES), (RUNS, ENDS), (FAILURES, KINDS)):
                for value in values:
                    points.add(family, 0, one, value)
            points.times(RUN_TIME, one)
            points.times(WAIT_TIME, one)
        called = self._queues.label
        for count in figures.counts:
            points.add(JOBS, count.jobs, called(count.queue), count.state.value)
        for queue, since in figures.oldest.items():
            points.raise_to(OLDEST, max(0, figures.now - since) / 1000, called(queue))
        serving = [one.node.queues for one in figures.nodes if one.alive and one.node.stop is None]
        for queue, jobs in count_unserved(figures.counts, serving).items():
            points.add(UNSERVED, jobs, called(queue))
        for info in figures.queues:
            points.raise_to(PAUSED, info.paused_at is not None, called(info.name))

    def _tell_totals(self, points: Points, totals: Mapping[str, Sequence[Total]]) -> None:
        for queue, some in totals.items():
            called = self._queues.label(queue)
            for total in some:
                if total.measure == WAIT:
                    points.times(WAIT_TIME, called).add(total)
                elif total.measure.startswith(FAILURE):
                    kind = total.measure.removeprefix(FAILURE)
                    points.add(FAILURES, total.count, called, kind)
                else:
                    points.times(RUN_TIME, called).add(total)
                    points.add(RUNS, total.count, called, total.measure)

    def _tell_nodes(self, points: Points, figures: Figures) -> None:
        for state in ("alive", "stopping", "gone"):
            points.add(NODES, 0, state)
        living = [one for one in figures.nodes if one.alive]
        points.add(NODES, len(figures.nodes) - len(living), "gone")
        self._nodes.settle(one.node.id for one in living)
        for one in living:
            node = one.node
            points.add(NODES, 1, "alive" if node.stop is None else "stopping")
            host = label(node.host) if self._nodes.has_own(node.id) else OTHER
            points.add(WORKERS, node.workers, self._nodes.label(node.id), host)
            points.add(BUSY, one.busy, self._nodes.label(node.id), host)

    def _tell_schedules(self, points: Points, figures: Figures) -> None:
        paused = sum(one.paused_at is not None for one in figures.schedules)
        points.add(SCHEDULES, len(figures.schedules) - paused, "active")
        points.add(SCHEDULES, paused, "paused")
        comes = [one.next_at for one in figures.schedules if one.next_at is not None]
        points.add(LAG, max(0, figures.now - min(comes, default=figures.now)) / 1000)
        self._schedules.settle(one.name for one in figures.schedules)
        for one in figures.schedules:
            # Of several, times have no sum: the rest is left out.
            if self._schedules.has_own(one.name):
                name = label(one.name)
                points.raise_to(DIED, one.failures, name)
                if one.last_tick is not None:
                    points.raise_to(LAST_TICK, one.last_tick / 1000, name)
                if one.next_at is not None:
                    points.raise_to(NEXT_TICK, one.next_at / 1000, name)


def _largest(figures: Figures) -> list[str]:
    """Return all queues of which there is something, the one with the most runs and jobs first."""
    sizes: dict[str, int] = {info.name: 0 for info in figures.queues}
    for queue, totals in figures.totals.items():
        runs = sum(total.count for total in totals if total.measure == WAIT)
        sizes[queue] = sizes.get(queue, 0) + runs
    for count in figures.counts:
        sizes[count.queue] = sizes.get(count.queue, 0) + count.jobs
    return sorted(sizes, key=lambda queue: (-sizes[queue], queue))


def unreachable() -> "list[Metric]":
    """Return what is told of a queue whose database can't be read."""
    points = Points()
    points.add(UP, 0)
    points.add(BUILD, 1, __version__)
    return points.families()


class QueueMetrics:
    """What `/metrics` says of a queue. Any thread may ask; the queue is read once a second."""

    def __init__(self, queue: Queue) -> None:
        """Without prometheus-client it is a `UsageError`."""
        check_installed()
        self._queue = queue
        self._told = Told()
        self._lock = Lock()
        self._families: list[Metric] = []
        self._texts: dict[bool, Text] = {}
        """These as text: by whether it is OpenMetrics."""
        self._read_at = -FRESH
        self._info: Mapping[str, Any] = {}
        self._info_at = -SIZE_EVERY

    def families(self) -> "list[Metric]":
        """Return it as prometheus-client has it."""
        with self._lock:
            self._refresh()
            return self._families

    def text(self, accept: str = "") -> "Text":
        """Return it as text, in the format that fits this Accept header.

        Whatever is wrong with the database, there is an answer: `queuectl_database_up` is 0 then.
        """
        with self._lock:
            self._refresh()
            wants = wants_openmetrics(accept)
            if wants not in self._texts:
                self._texts[wants] = as_text(self._families, openmetrics=wants)
            return self._texts[wants]

    def _refresh(self) -> None:
        if monotonic() - self._read_at < FRESH:
            return
        try:
            self._families = self._read()
        except StoreError:
            self._families = unreachable()
        self._texts = {}
        # From when the answer came: it may have taken longer than it is good for.
        self._read_at = monotonic()

    def _read(self) -> "list[Metric]":
        points = self._told.points(self._queue.figures())
        if monotonic() - self._info_at >= SIZE_EVERY:
            self._info = self._queue.info()
            self._info_at = monotonic()
        points.add(UP, 1)
        points.add(BUILD, 1, __version__)
        points.add(SIZE, self._info["size_bytes"])
        points.add(DATABASE, 1, self._info["engine"], str(self._info["schema_version"]))
        return points.families()


# -- as text ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """What is answered to who asks for metrics."""

    body: bytes
    content_type: str


def wants_openmetrics(accept: str) -> bool:
    """Tell whether an Accept header names that format; else it is Prometheus's own."""
    return OPENMETRICS in accept.lower()


def as_text(families: "Sequence[Metric]", *, openmetrics: bool) -> Text:
    """Write families down."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.openmetrics import exposition

    registry = CollectorRegistry()
    registry.register(_Collected(families))
    if openmetrics:
        body: bytes = exposition.generate_latest(registry)  # type: ignore[no-untyped-call]
        return Text(body, _AS_OPENMETRICS)
    return Text(generate_latest(registry), _AS_TEXT)


class _Collected:
    """Families that are there already, as a registry asks for them."""

    def __init__(self, families: "Sequence[Metric]") -> None:
        self._families = families

    def collect(self) -> "Iterable[Metric]":
        return self._families


def check_installed() -> None:
    """Raise a `UsageError` that says what to install, if prometheus-client isn't."""
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise UsageError(
            "Metrics need the package prometheus-client, which isn't installed.",
            advice=how_to_install("web"),
        ) from None
