"""Metrics: what is told of a queue, in labels whose number is bounded, in text that others read."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any, get_args

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_text

import queuectl
from queuectl import Queue, State
from queuectl import metrics as module
from queuectl.admission import Serving
from queuectl.facts import Count, Node, QueueInfo, Stop, Total
from queuectl.figures import BOUNDS, Figures, NodeFigures
from queuectl.job import Exited, Outcome, TimedOut
from queuectl.metrics import (
    ENDS,
    KINDS,
    OTHER,
    STATES,
    Names,
    Points,
    QueueMetrics,
    Times,
    Told,
    as_text,
)
from queuectl.metrics.families import FAMILIES, Kind
from queuectl.schedule import Schedule
from tests.contract.tools import NOW, SECOND, a_node, ended, finish, take

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
ODD = [
    'quote"',
    "back\\slash",
    "two\nlines",
    "carriage\rreturn",
    "tab\t",
    "nul\0",
    "ä🦊\u2028\u0085",
    "\udcff",
    "\ud800",
    '{x="y"} 1',
    "#",
    "other",
    " ",
    "\\n",
    'a",queue="b',
]
"""Names that plain SQL lets a queue have, or almost."""


def read(text: module.Text) -> Series:
    """Return every value in a text, as Prometheus's own library reads it."""
    parse = read_openmetrics if "openmetrics" in text.content_type else read_text
    found: Series = {}
    for family in parse(text.body.decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def told(figures: Figures, by: Told | None = None, *, openmetrics: bool = False) -> Series:
    """Return all that is told of these figures."""
    families = (by or Told()).points(figures).families()
    return read(as_text(families, openmetrics=openmetrics))


def value(series: Series, name: str, **labels: str) -> float:
    """Return one value."""
    return series[name, frozenset(labels.items())]


def values(series: Series, name: str, label: str, **labels: str) -> dict[str, float]:
    """Return the values of a name by a label, where the others are these."""
    return {
        dict(found)[label]: value
        for (known, found), value in series.items()
        if known == name and labels.items() <= dict(found).items()
    }


def figures(**changes: Any) -> Figures:
    """Return figures of a queue in which nothing is, but for what is said."""
    nothing: dict[str, Any] = {
        "now": NOW,
        "counts": [],
        "queues": [],
        "oldest": {},
        "totals": {},
        "nodes": [],
        "schedules": [],
    }
    return Figures(**(nothing | changes))


def count(queue: str, state: State = State.PENDING, jobs: int = 1) -> Count:
    return Count(queue=queue, state=state, priority=0, jobs=jobs, timed=0)


def total(measure: str, ms: int, runs: int = 1) -> Total:
    within = next((bound for bound in BOUNDS if ms <= bound), None)
    return Total(measure=measure, within=within, count=runs, total_ms=runs * ms)


def a_member(id: str, *, alive: bool = True, busy: int = 0, **changes: Any) -> NodeFigures:
    fields: dict[str, Any] = {
        "id": id,
        "host": "host-2",
        "boot": "",
        "pid": 1,
        "pid_start": 1,
        "workers": 4,
        "queues": Serving(),
        "spool": "",
        "version": "1",
        "started_at": NOW,
        "seen_at": NOW,
        "lease_until": 0,
    }
    return NodeFigures(node=Node(**(fields | changes)), alive=alive, busy=busy)


def a_schedule(name: str, **changes: Any) -> Schedule:
    fields: dict[str, Any] = {
        "name": name,
        "rule": "0 3 * * *",
        "zone": "UTC",
        "anchor": 0,
        "request": {},
        "done_until": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Schedule(**(fields | changes))


# -- the table --------------------------------------------------------------------------------


def test_names_are_as_prometheus_wants_them() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES) > 20
    for family in FAMILIES:
        assert family.name.startswith("queuectl_")
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert family.help.endswith(".")
        if family.kind in (Kind.HISTOGRAM, Kind.SUMMARY):
            assert family.name.endswith("_seconds")


def test_all_kinds_of_ends_are_told_from_the_start() -> None:
    told_of = told(figures(counts=[count("mail")]))
    assert values(told_of, "queuectl_runs_total", "state") == dict.fromkeys(ENDS, 0)
    assert values(told_of, "queuectl_failures_total", "kind") == dict.fromkeys(KINDS, 0)
    assert value(told_of, "queuectl_run_duration_seconds_count", queue="mail") == 0
    kinds = {kind.name for kind in get_args(Outcome)}
    assert set(KINDS) == kinds - {"cancelled", "released", "snoozed"}


# -- queues ---------------------------------------------------------------------------------


@pytest.mark.parametrize("openmetrics", [False, True])
def test_jobs_are_told_by_queue_and_state(openmetrics: bool) -> None:
    found = told(
        figures(
            counts=[
                count("mail", State.PENDING, 7),
                count("mail", State.PENDING, 2),
                count("mail", State.DEAD, 3),
                count("video", State.PROCESSING, 1),
            ]
        ),
        openmetrics=openmetrics,
    )
    mail = values(found, "queuectl_jobs", "state", queue="mail")
    assert mail == dict.fromkeys(STATES, 0) | {"pending": 9, "dead": 3}
    assert value(found, "queuectl_jobs", queue="video", state="processing") == 1


def test_the_age_of_the_oldest_is_in_seconds_and_never_negative() -> None:
    oldest = {"mail": NOW - 1_500, "video": NOW + 9}
    found = told(figures(counts=[count("mail"), count("video"), count("idle")], oldest=oldest))
    ages = values(found, "queuectl_oldest_ready_age_seconds", "queue")
    assert ages == {"mail": 1.5, "video": 0, "idle": 0}


def test_what_nobody_serves_and_what_is_paused_is_told() -> None:
    found = told(
        figures(
            counts=[count("mail", jobs=2), count("video", jobs=5)],
            queues=[
                QueueInfo(name="mail", paused_at=NOW, paused_by="me"),
                QueueInfo(name="empty", paused_at=None, paused_by=None),
            ],
            nodes=[
                a_member("a", queues=Serving(("mail",))),
                a_member("b", stop=Stop.DRAIN),
                a_member("c", alive=False),
            ],
        )
    )
    unserved = values(found, "queuectl_jobs_unserved", "queue")
    assert unserved == {"mail": 0, "video": 5, "empty": 0}
    paused = values(found, "queuectl_queue_paused", "queue")
    assert paused == {"mail": 1, "video": 0, "empty": 0}


def test_runs_waits_and_failures_come_from_the_totals() -> None:
    totals = {
        "mail": [
            total("completed", 40, 6),
            total("dead", 2_000),
            total("wait", 0, 7),
            total("failure timed out", 0, 1),
        ]
    }
    found = told(figures(totals=totals))
    runs = values(found, "queuectl_runs_total", "state")
    assert runs == dict.fromkeys(ENDS, 0) | {"completed": 6, "dead": 1}
    assert value(found, "queuectl_failures_total", queue="mail", kind="timed out") == 1
    took = values(found, "queuectl_run_duration_seconds_bucket", "le")
    assert took["0.025"] == 0
    assert took["0.05"] == took["1.0"] == 6
    assert took["2.5"] == took["+Inf"] == 7
    assert value(found, "queuectl_run_duration_seconds_count", queue="mail") == 7
    assert value(found, "queuectl_run_duration_seconds_sum", queue="mail") == 2.24
    assert value(found, "queuectl_wait_duration_seconds_count", queue="mail") == 7


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=50))
def test_the_buckets_of_a_histogram_add_up(durations: Sequence[int]) -> None:
    times = Times()
    for ms in durations:
        times.add(total("completed", ms))
    told_of = dict(times.buckets())
    assert told_of["+Inf"] == len(durations)
    assert times.total_ms == sum(durations)
    for bound in BOUNDS:
        assert told_of[str(bound / 1000)] == sum(ms <= bound for ms in durations)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_odd_names_come_out_right(openmetrics: bool) -> None:
    counts = [count(name, jobs=n) for n, name in enumerate(ODD, 1)]
    totals = {name: [total("completed", n, n)] for n, name in enumerate(ODD, 1)}
    nodes = [a_member(name, host=name) for name in ODD]
    schedules = [a_schedule(name, failures=1) for name in ODD]
    found = told(
        figures(counts=counts, totals=totals, nodes=nodes, schedules=schedules),
        openmetrics=openmetrics,
    )
    jobs = values(found, "queuectl_jobs", "queue", state="pending")
    wanted = {name.encode("utf-8", "backslashreplace").decode(): n for n, name in enumerate(ODD, 1)}
    wanted["nul\ufffd"] = wanted.pop("nul\0")
    assert jobs == wanted
    assert len(values(found, "queuectl_workers", "node")) == len(ODD)
    assert len(values(found, "queuectl_schedule_failures", "schedule")) == len(ODD)


def test_two_names_that_look_the_same_as_labels_are_one_series() -> None:
    found = told(figures(counts=[count("x\0", jobs=2), count("x\ufffd", jobs=3)]))
    assert values(found, "queuectl_jobs", "queue", state="pending") == {"x\ufffd": 5}


# -- bounds ----------------------------------------------------------------------------------


def test_of_many_queues_the_rest_is_summed_up() -> None:
    many = module.MOST_QUEUES + 50
    counts = [count(f"queue {n}", jobs=n) for n in range(1, many + 1)]
    oldest = {f"queue {n}": NOW - n * SECOND for n in range(1, many + 1)}
    found = told(figures(counts=counts, oldest=oldest))
    jobs = values(found, "queuectl_jobs", "queue", state="pending")
    assert len(jobs) == module.MOST_QUEUES + 1
    assert jobs[OTHER] == sum(range(1, 51))
    assert values(found, "queuectl_oldest_ready_age_seconds", "queue")[OTHER] == 50
    assert len(values(found, "queuectl_run_duration_seconds_count", "queue")) == len(jobs)


def test_of_many_nodes_and_schedules_too() -> None:
    nodes = [a_member(f"n{n:03}", busy=1) for n in range(module.MOST_NODES + 3)]
    schedules = [
        a_schedule(f"s{n:03}", next_at=NOW - n, last_tick=NOW)
        for n in range(module.MOST_SCHEDULES + 3)
    ]
    found = told(figures(nodes=nodes, schedules=schedules))
    workers = values(found, "queuectl_workers", "node")
    assert len(workers) == module.MOST_NODES + 1
    assert workers[OTHER] == 12
    assert value(found, "queuectl_workers_busy", node=OTHER, host=OTHER) == 3
    ticks = values(found, "queuectl_schedule_last_tick_timestamp_seconds", "schedule")
    assert len(ticks) == module.MOST_SCHEDULES
    assert values(found, "queuectl_schedules", "state")["active"] == len(schedules)
    # The most overdue one is among those that aren't listed.
    assert value(found, "queuectl_schedule_lag_seconds") == (len(schedules) - 1) / 1000


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=12))
def test_names_keep_their_labels_and_the_rest_never_shrinks(rounds: list[list[str]]) -> None:
    names, had, there = Names(3), dict[str, bool](), set[str]()
    for known in rounds:
        labels = names.settle(known)
        own = {name for name in known if names.has_own(name)}
        assert len(own) <= 3
        assert len(labels) <= 4
        assert {names.label(name) for name in known} == set(labels)
        for name in there.intersection(known):
            assert names.has_own(name) == had[name]
        had, there = {name: names.has_own(name) for name in known}, set(known)


def test_the_room_of_names_that_are_gone_goes_to_new_ones() -> None:
    names = Names(2)
    assert names.settle(["a", "b", "c"]) == ["a", "b", OTHER]
    assert names.settle(["b", "c"]) == ["b", OTHER]
    assert names.settle(["d", "c", "b"]) == ["d", OTHER, "b"]
    assert names.settle(["e", "d", "c", "b"]) == [OTHER, "d", "b"]


# -- nodes and schedules ------------------------------------------------------------------------


def test_nodes_that_are_gone_leave() -> None:
    nodes = [
        a_member("a", busy=2),
        a_member("b", stop=Stop.DRAIN, workers=1),
        a_member("c", alive=False, busy=3),
    ]
    found = told(figures(nodes=nodes))
    assert values(found, "queuectl_nodes", "state") == {"alive": 1, "stopping": 1, "gone": 1}
    assert values(found, "queuectl_workers", "node") == {"a": 4, "b": 1}
    assert values(found, "queuectl_workers_busy", "node") == {"a": 2, "b": 0}


def test_schedules_are_told_with_their_lag() -> None:
    schedules = [
        a_schedule("late", next_at=NOW - 2_500, last_tick=NOW - 90_000, failures=2),
        a_schedule("next", next_at=NOW + 5_000),
        a_schedule("paused", paused_at=NOW, next_at=None),
    ]
    found = told(figures(schedules=schedules))
    assert value(found, "queuectl_schedule_lag_seconds") == 2.5
    assert values(found, "queuectl_schedules", "state") == {"active": 2, "paused": 1}
    next_ticks = values(found, "queuectl_schedule_next_tick_timestamp_seconds", "schedule")
    assert next_ticks == {"late": NOW / 1000 - 2.5, "next": NOW / 1000 + 5}
    last_ticks = values(found, "queuectl_schedule_last_tick_timestamp_seconds", "schedule")
    assert last_ticks == {"late": NOW / 1000 - 90}
    failures = values(found, "queuectl_schedule_failures", "schedule")
    assert failures == {"late": 2, "next": 0, "paused": 0}
    assert value(told(figures()), "queuectl_schedule_lag_seconds") == 0


# -- a real queue -------------------------------------------------------------------------------


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with Queue(tmp_path / "queue.db") as queue:
        a_node(queue.store)
        yield queue


def all_told(queue: Queue) -> Series:
    return read(QueueMetrics(queue).text())


def run_some(queue: Queue, name: str, jobs: int, outcome: Outcome) -> None:
    """Run jobs in a queue, all of which come to this outcome."""
    # Some time ago: they can be pruned at once.
    now = queue.now() - 5 * SECOND
    queue.enqueue_many({"command": "x", "queue": name, "max_retries": 0} for _ in range(jobs))
    some = take(queue.store, jobs, queues=[name], now=now)
    ends = [ended(job, outcome, now=now + SECOND, started_at=now) for job in some]
    assert finish(queue.store, ends) == []


def counters(series: Series) -> Series:
    """Return those values that must never fall."""
    falling = ("_total", "_count", "_sum", "_bucket")
    return {key: value for key, value in series.items() if key[0].endswith(falling)}


def test_counters_never_fall_whatever_becomes_of_the_jobs(queue: Queue) -> None:
    before: Series = {}

    def look() -> None:
        nonlocal before
        now = counters(read(QueueMetrics(queue).text()))
        assert not [key for key, value in before.items() if now[key] < value]
        before = now

    look()
    run_some(queue, "mail", 5, Exited(0))
    look()
    run_some(queue, "mail", 3, TimedOut(9))
    look()
    assert queue.prune([State.COMPLETED], 0) == {State.COMPLETED: 5}
    look()
    queue.retry_all(queue.list(state="dead"))
    look()
    queue.store.tidy(now=queue.now() + 100 * 24 * 3_600_000)
    look()
    queue.remove_all(queue.list(limit=None))
    look()
    assert value(before, "queuectl_runs_total", queue="mail", state="completed") == 5
    assert value(before, "queuectl_failures_total", queue="mail", kind="timed out") == 3


def test_a_renamed_queue_takes_its_counters_along(queue: Queue) -> None:
    run_some(queue, "old", 4, Exited(1))
    queue.rename_queue("old", "new")
    found = all_told(queue)
    assert value(found, "queuectl_runs_total", queue="new", state="dead") == 4
    assert "old" not in values(found, "queuectl_jobs", "queue", state="pending")


def test_a_reset_begins_anew(queue: Queue) -> None:
    run_some(queue, "mail", 4, Exited(1))
    queue.reset()
    assert "mail" not in values(all_told(queue), "queuectl_runs_total", "queue")


def test_it_says_what_tells_and_what_of(queue: Queue) -> None:
    found = all_told(queue)
    assert value(found, "queuectl_database_up") == 1
    assert value(found, "queuectl_build_info", version=queuectl.__version__) == 1
    assert value(found, "queuectl_database_size_bytes") >= 4_096
    (engine,) = values(found, "queuectl_database_info", "engine")
    assert engine == "sqlite"


def test_a_queue_is_read_once_a_second_however_many_ask(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRESH", 3_600.0)
    told_by = QueueMetrics(queue)
    texts: list[module.Text] = []
    threads = [Thread(target=lambda: texts.append(told_by.text())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.enqueue("true")
    assert {id(text) for text in texts} == {id(told_by.text())}
    assert told_by.text("application/openmetrics-text").body.endswith(b"# EOF\n")
    monkeypatch.setattr(module, "FRESH", 0.0)
    jobs = values(read(told_by.text()), "queuectl_jobs", "queue", state="pending")
    assert jobs == {"default": 1}


def test_a_database_that_cannot_be_read_is_told(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRESH", 0.0)
    told_by = QueueMetrics(queue)
    assert value(read(told_by.text()), "queuectl_database_up") == 1
    with closing(apsw.Connection(str(tmp_path / "queue.db"))) as other:
        other.execute("DROP TABLE rollups")
    found = read(told_by.text())
    assert value(found, "queuectl_database_up") == 0
    assert {name for name, _ in found} == {"queuectl_database_up", "queuectl_build_info"}


@pytest.mark.parametrize(
    ("accept", "is_openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
        ("Application/OpenMetrics-Text; version=9.9.9\x00", True),
        ("x" * 100_000, False),
    ],
)
def test_the_format_is_that_of_the_accept_header(
    queue: Queue, accept: str, is_openmetrics: bool
) -> None:
    text = QueueMetrics(queue).text(accept)
    wanted = "application/openmetrics-text; version=1.0.0" if is_openmetrics else "text/plain"
    assert text.content_type.startswith(wanted)
    assert read(text)


def test_points_of_a_name_are_told_in_the_order_of_the_table() -> None:
    points = Points()
    for family in FAMILIES[::-1]:
        if family.kind in (Kind.GAUGE, Kind.COUNTER):
            points.add(family, 1, *("x" for _ in family.labels))
    names = [family.name.removesuffix("_total") for family in FAMILIES]
    told_of = [family.name for family in points.families()]
    assert told_of == [name for name in names if name in told_of]
