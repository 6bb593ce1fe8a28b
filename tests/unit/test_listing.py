"""Reading jobs and events page by page."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from queuectl import Filter, Queue, State
from queuectl.errors import UsageError
from queuectl.facts import Event
from queuectl.filter import ANY_EVENT, EventFilter, Sort
from queuectl.listing import FIRST, OUT_OF_ORDER, PAGE, PAGE_BYTES, SearchedEvents, read_sort

MANY = 2 * PAGE + PAGE // 2


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(str(tmp_path / "queue.db"))


@pytest.fixture
def full(queue: Queue) -> Queue:
    """More jobs than two pages have, with ids that say in which order they came."""
    queue.enqueue_many(
        {"command": "true", "id": f"{n:05}", "priority": n % 7, "tags": ["odd"] if n % 2 else []}
        for n in range(MANY)
    )
    return queue


@pytest.mark.parametrize("limit", [None, 0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, MANY, 10**9])
def test_pages_join_into_the_whole(full: Queue, limit: int | None) -> None:
    for oldest in (False, True):
        whole = [f"{n:05}" for n in range(MANY)][:: 1 if oldest else -1]
        assert [job.id for job in full.iterate(limit=limit, oldest=oldest)] == whole[:limit]


def test_of_long_jobs_few_are_held_at_once(queue: Queue) -> None:
    length = 1 << 16
    queue.enqueue_many({"command": "true # " + "x" * length} for _ in range(PAGE))
    tracemalloc.start()
    try:
        assert sum(1 for _ in queue.iterate()) == PAGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * max(FIRST * length, PAGE_BYTES) < PAGE * length / 2


def test_it_takes_what_list_takes(full: Queue) -> None:
    odd = [f"{n:05}" for n in range(MANY) if n % 2][::-1]
    assert [job.id for job in full.iterate(tag="odd")] == odd
    assert [job.id for job in full.iterate(Filter(tags=("odd",)))] == odd
    assert [job.id for job in full.iterate(tag="odd", after=odd[PAGE])] == odd[PAGE + 1 :]
    assert list(full.iterate(state="dead")) == []
    assert list(full.iterate(queue="nobody's")) == []
    with pytest.raises(UsageError, match="no state 'ded'"):
        full.iterate(state="ded")


def test_a_job_that_leaves_meanwhile_moves_no_other(full: Queue) -> None:
    seen = []
    for job in full.iterate(state="pending", oldest=True):
        full.cancel(job.id)
        seen.append(job.id)
        if len(seen) == PAGE + 10:
            break
    rest = [job.id for job in full.iterate(state="pending", oldest=True)]
    assert seen + rest == [f"{n:05}" for n in range(MANY)]


def test_a_long_list_takes_no_more_memory_than_a_page(queue: Queue) -> None:
    queue.enqueue_many(f"true {n:0500}" for n in range(6 * PAGE))

    def peak(limit: int) -> int:
        tracemalloc.reset_peak()
        assert sum(1 for _ in queue.iterate(limit=limit)) == limit
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        peak(PAGE)  # what is made once is there from now on
        assert peak(6 * PAGE) < 3 * peak(PAGE)
    finally:
        tracemalloc.stop()


def test_sorting(full: Queue) -> None:
    by_priority = sorted(range(MANY), key=lambda n: (-(n % 7), -n))
    assert [int(job.id) for job in full.iterate(sort="-priority")] == by_priority
    assert [int(job.id) for job in full.list(sort="-priority", limit=9)] == by_priority[:9]
    assert [int(job.id) for job in full.list(sort="priority,id", tag="odd", limit=3)] == [7, 21, 35]
    with pytest.raises(UsageError, match="no after and no oldest"):
        full.iterate(sort="id", oldest=True)


def test_what_to_sort_by_is_read() -> None:
    assert read_sort("Duration") == (Sort("duration_ms"),)
    assert read_sort("queue, -created_at") == (
        Sort("queue"),
        Sort("created_at", descending=True),
    )
    with pytest.raises(UsageError, match="by 'duratoin'; did you mean 'duration'"):
        read_sort("-duratoin")
    for twice in ("id,id", "created,-created_at", ",".join(["-id"] * 5_000)):
        with pytest.raises(UsageError, match="already; name it once"):
            read_sort(twice)
    with pytest.raises(UsageError, match="by 'env'; use one of id, queue, state, "):
        read_sort("env")


def test_counting(full: Queue) -> None:
    full.cancel("00001")
    full.enqueue("true", queue="other", tags=("odd",))
    assert full.count() == MANY + 1
    assert full.count(Filter(states=(State.CANCELLED,))) == 1
    assert full.count(Filter(queues=("other", "nobody's"))) == 1
    assert full.count(Filter(tags=("odd",), states=(State.PENDING,))) == MANY // 2


def test_events_come_page_by_page(queue: Queue) -> None:
    queue.store.history.record(
        *[
            Event(at=n, kind="k", job=f"{n % 2}", node=None, who="w", detail=None)
            for n in range(MANY)
        ]
    )
    assert [event.at for event in queue.iterate_events()] == [*range(MANY)][::-1]
    assert [event.at for event in queue.iterate_events(limit=PAGE + 1)][-1] == MANY - PAGE - 1
    assert list(queue.iterate_events(limit=0)) == []
    assert len(queue.events()) == 100


class TestSearch:
    """A search that looks at so many jobs, and says how far that was."""

    def test_it_goes_on_where_it_stopped(self, tmp_path: Path) -> None:
        with Queue(tmp_path / "queue.db") as queue:
            queue.enqueue_many({"command": f"echo {n}", "id": f"j{n}"} for n in range(10))
            which = Filter(text="echo 2")
            first = queue.search(which, looks=4)
            assert (first.jobs, first.stopped) == ([], True)
            assert first.next is not None
            assert first.next.id == "j6"
            second = queue.search(which, looks=4, after=first.next)
            assert [job.id for job in second.jobs] == ["j2"]
            assert second.next is not None
            assert second.next.id == "j2"
            third = queue.search(which, looks=4, after=second.next)
            assert (third.jobs, third.next, third.stopped) == ([], None, False)

    def test_what_an_index_finds_is_only_limited_by_the_page(self, tmp_path: Path) -> None:
        with Queue(tmp_path / "queue.db") as queue:
            queue.enqueue_many({"command": "true", "id": f"j{n}", "tags": ["a"]} for n in range(10))
            for which in (Filter(), Filter(states=(State.PENDING,)), Filter(tags=("a",))):
                found = queue.search(which, limit=6, looks=2)
                assert [job.id for job in found.jobs] == ["j9", "j8", "j7", "j6", "j5", "j4"]
                assert found.next is not None
                assert (found.next.id, found.stopped) == ("j4", False)
                rest = queue.search(which, limit=6, looks=2, after=found.next)
                assert (len(rest.jobs), rest.next) == (4, None)


def record(queue: Queue, *, gap: int = OUT_OF_ORDER) -> None:
    """Keep twenty events, each so long after the one before; every fifth is by Ann."""
    queue.store.history.record(
        *(
            Event(
                at=gap * (n + 1),
                kind="hold",
                job=f"j{n % 2}",
                node=None,
                who="ann via me" if n % 5 == 0 else "bob via me",
                detail=f"number {n}",
            )
            for n in range(20)
        )
    )


def numbers(found: SearchedEvents) -> list[int]:
    return [int((event.detail or "").split()[1]) for event in found.events]


@pytest.mark.parametrize("which", [ANY_EVENT, EventFilter(who="BOB"), EventFilter(who="ann")])
@pytest.mark.parametrize("id", [None, "j1"])
def test_pages_of_events_lead_to_each_other_both_ways(
    queue: Queue, which: EventFilter, id: str | None
) -> None:
    record(queue)
    page = queue.search_events(which, id=id, limit=3)
    assert page.newer is None
    down = [page]
    while page.older is not None:
        down.append(page := queue.search_events(which, id=id, limit=3, before=page.older))
    assert page.reached is None
    told = [n for page in down for n in numbers(page)]
    assert told == [
        n
        for n in range(19, -1, -1)
        if (id is None or n % 2 == 1)
        and (which.who != "ann" or n % 5 == 0)
        and (which.who != "BOB" or n % 5)
    ]
    up = []
    while page.newer is not None:
        up.append(page := queue.search_events(which, id=id, limit=3, after=page.newer))
    assert [numbers(page) for page in up] == [numbers(page) for page in down[-2::-1]]


def test_a_search_for_events_stops_and_goes_on(queue: Queue) -> None:
    record(queue)
    which = EventFilter(who="ann")
    first = queue.search_events(which, looks=4)
    assert numbers(first) == []
    assert first.reached is not None
    assert first.reached.detail == "number 16"
    second = queue.search_events(which, looks=4, before=first.older)
    assert numbers(second) == [15]
    back = queue.search_events(which, looks=5, after=second.newer)
    assert (numbers(back), back.newer) == ([], None)
    assert queue.search_events(which, looks=21, limit=4).reached is None


def test_times_of_events_are_found_without_looking_at_all(queue: Queue) -> None:
    record(queue)
    minute = OUT_OF_ORDER
    for since, until in ((8, 12), (1, 3), (19, 40), (30, 40), (0, 1), (12, 8)):
        which = EventFilter(since=since * minute, until=until * minute)
        fit = [n for n in range(19, -1, -1) if since <= n + 1 < until]
        # A minute to each side may be out of order.
        found = queue.search_events(which, looks=max(len(fit), 1) + 4)
        assert (numbers(found), found.older) == (fit, None)
        assert [event.at // minute - 1 for event in queue.iterate_events(which=which)] == fit


def test_events_out_of_order_are_found_by_time(queue: Queue) -> None:
    record(queue, gap=OUT_OF_ORDER // 20)
    history = queue.store.history
    history.record(*(replace(event, seq=0) for event in history.events(limit=9)))
    for since in range(0, OUT_OF_ORDER, OUT_OF_ORDER // 40):
        which = EventFilter(since=since)
        found = queue.search_events(which)
        assert len(found.events) == sum(event.at >= since for event in history.events())


def test_of_no_events_there_is_no_page(queue: Queue) -> None:
    found = queue.search_events(EventFilter(since=1, until=2))
    assert (found.events, found.newer, found.older, found.reached) == ([], None, None, None)
    with pytest.raises(UsageError, match="either before or after"):
        queue.search_events(before=1, after=1)
