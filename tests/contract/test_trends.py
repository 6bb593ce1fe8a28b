"""How things went by when: the past is read once, and still all of it is told."""

from threading import Thread

import pytest

from queuectl import trends
from queuectl.errors import UsageError
from queuectl.facts import Event
from queuectl.report import Part
from queuectl.store import Store
from queuectl.trends import MOST_PARTS, SETTLED, Trends
from tests.contract.tools import HOUR, MINUTE, NOW, SECOND, a_node, add, run

START = NOW - NOW % (24 * HOUR)
EVENT = Event(at=NOW, kind="rename", job=None, node=None, who="somebody", detail=None)
SPANS = (MINUTE, 15 * MINUTE, 2 * HOUR)
CHOICES: tuple[tuple[str, ...], ...] = ((), ("one",), ("one", "two"), ("three",))


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store, "node-1")


def run_at(store: Store, at: int, *, queue: str = "one", ms: int = 50) -> None:
    """Run a job that ends at a time and takes a while."""
    id = f"job {at} {queue} {ms}"
    add(store, id, queue=queue, now=at - 5 * SECOND)
    run(store, id, now=at, duration_ms=ms, started_at=at - 5 * SECOND)


def told(past: Trends, now: int, span: int = MINUTE) -> list[list[Part]]:
    """Return what is told of an hour or more, for each choice of queues."""
    since = now - max(HOUR, 10 * span)
    return past.series(now, since=since, span=span, choices=CHOICES)


def completed(past: Trends, now: int) -> dict[int, int]:
    """Return how many runs of all queues ended in each minute of the last hour."""
    parts = told(past, now)[0]
    return {(part.at - START) // MINUTE: part.run.count for part in parts if part.run.count}


def test_it_tells_as_time_goes_on_what_who_reads_all_anew_tells(store: Store) -> None:
    past = Trends(store)
    now = START
    for step in range(60):
        now += (7 * SECOND, 50 * SECOND, 4 * MINUTE, 31 * MINUTE)[step % 4]
        run_at(store, now, queue=("one", "two")[step % 3 == 0], ms=10 + step)
        if step % 5 == 0:
            span = SPANS[step // 5 % 3]
            assert told(past, now, span) == told(Trends(store), now, span)
    for span in SPANS:
        assert told(past, now, span) == told(Trends(store), now, span)
    assert sum(completed(past, now).values()) > 0


def test_what_is_over_is_read_once(store: Store) -> None:
    past = Trends(store)
    run_at(store, START + 20 * MINUTE)
    now = START + 30 * MINUTE
    assert completed(past, now) == {20: 1}
    # Nobody does that; but so it is seen who looks.
    run_at(store, START + 21 * MINUTE)
    run_at(store, now - SETTLED)
    assert completed(past, now) == {20: 1, 25: 1}
    assert completed(Trends(store), now) == {20: 1, 21: 1, 25: 1}


def test_who_asks_for_more_gets_it(store: Store) -> None:
    past = Trends(store)
    run_at(store, START + MINUTE)
    run_at(store, START + 50 * MINUTE)
    now = START + HOUR
    for ago, counts in ((20, [1]), (60, [1, 1]), (30, [1])):
        (parts,) = past.series(now, since=now - ago * MINUTE, span=MINUTE, choices=[["one"]])
        assert [part.run.count for part in parts if part.run.count] == counts
        assert parts[0].at == now - ago * MINUTE
        assert parts[-1].at == now


def test_of_a_queue_that_is_called_otherwise_nothing_is_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trends, "CHECK_EVERY", 0.0)
    past = Trends(store)
    run_at(store, START)
    now = START + 20 * MINUTE
    assert [sum(part.run.count for part in parts) for parts in told(past, now)] == [1, 1, 1, 0]
    store.settings.rename_queue("one", "three", check=lambda *_: None, event=EVENT)
    assert [sum(part.run.count for part in parts) for parts in told(past, now)] == [1, 0, 0, 1]


def test_many_who_ask_at_once_are_told_the_same(store: Store) -> None:
    past = Trends(store)
    for minute in range(30):
        run_at(store, START + minute * MINUTE, queue=("one", "two")[minute % 2])
    now = START + 31 * MINUTE
    heard: list[list[list[Part]]] = []
    threads = [
        Thread(target=lambda step=step: heard.append(told(past, now + step % 3 * MINUTE)))
        for step in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for parts in heard:
        assert [sum(part.run.count for part in each) for each in parts] == [30, 15, 30, 0]


def test_no_more_is_kept_than_can_be_asked_for(store: Store) -> None:
    past = Trends(store)
    now = START
    for _ in range(3):
        run_at(store, now)
        since = now - MOST_PARTS * MINUTE
        (parts,) = past.series(now, since=since, span=MINUTE, choices=[()])
        assert len(parts) == MOST_PARTS + 1
        assert parts[-1].run.count == 1
        now += MOST_PARTS * MINUTE


@pytest.mark.parametrize(
    ("span", "ago", "text"),
    [
        (30 * SECOND, 0, "one minute"),
        (90 * SECOND, 0, "one minute"),
        (MINUTE, (MOST_PARTS + 2) * MINUTE, "1,000 parts"),
    ],
)
def test_what_cannot_be_told_is_said(store: Store, span: int, ago: int, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Trends(store).series(NOW, since=NOW - ago, span=span, choices=[()])
