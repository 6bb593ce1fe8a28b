"""Which queues a node is given jobs of, and in which order: all but some, shares, strict order."""

from collections import Counter
from collections.abc import Sequence

import pytest

from queuectl.admission import Offer, Order, Serving, Suspects
from queuectl.job import Exited, Job
from queuectl.limits import Limits
from queuectl.precedence import order_of
from queuectl.store import Store
from tests.contract.tools import (
    HOUR,
    NOW,
    SECOND,
    a_node,
    add,
    ended,
    finish,
    ids,
    take,
    waiting,
)

ALL_BUT_A = Serving(excluded=("a", "nobody's"))
THREE_TO_ONE = Serving(("a", "b"), weights=(3, 1))
B_FIRST = Serving(("b", "a"), in_order=True)


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1")
    a_node(store, "node-2")


def fill(store: Store, queue: str, count: int, **fields: int) -> None:
    """Enqueue jobs whose ids are the queue's name and a number."""
    for n in range(count):
        add(store, f"{queue}{n}", queue=queue, **fields)


def claim(
    store: Store,
    count: int,
    serving: Serving,
    order: Order | None = None,
    suspects: Suspects | None = None,
) -> Sequence[Job]:
    """Claim, and tell the order what that came to, as a node does."""
    order = order or order_of(serving)
    offer = Offer(range(count), serving, suspects, order=order)
    jobs = store.runs.turn("node-1", None, offer, now=NOW).jobs
    if order is not None:
        order.took(job.queue for job in jobs)
    return jobs


class TestExcluded:
    def test_all_others_are_served(self, store: Store) -> None:
        fill(store, "a", 2, priority=9)
        fill(store, "b", 1)
        fill(store, "c", 1)
        assert ids(take(store, 9, queues=ALL_BUT_A)) == ["b0", "c0"]
        assert take(store, 9, queues=ALL_BUT_A) == []

    def test_so_are_those_that_come_up_later(self, store: Store) -> None:
        assert take(store, 9, queues=ALL_BUT_A) == []
        fill(store, "new", 1)
        assert ids(take(store, 9, queues=ALL_BUT_A)) == ["new0"]

    def test_what_is_excluded_is_no_work(self, store: Store) -> None:
        fill(store, "a", 2)
        assert not store.runs.outlook(ALL_BUT_A).ready
        assert (waiting(store, ALL_BUT_A), waiting(store)) == (0, 2)
        add(store, "later", queue="a", run_at=NOW + HOUR)
        fill(store, "b", 1)
        assert store.runs.outlook(ALL_BUT_A).ready
        assert (waiting(store, ALL_BUT_A), waiting(store)) == (1, 4)

    @pytest.mark.parametrize("of", ["a", "b"])
    def test_limits_of_either_make_no_difference(self, store: Store, of: str) -> None:
        store.settings.set_limits(of, lambda _: Limits(limit=1))
        fill(store, "a", 2)
        fill(store, "b", 2)
        expected = ["b0"] if of == "b" else ["b0", "b1"]
        assert ids(take(store, 9, queues=ALL_BUT_A)) == expected
        assert [job.queue for job in take(store, 1, node="node-2")] == ["a"]


class TestShares:
    @pytest.mark.parametrize("at_once", [1, 3, 8])
    def test_claims_go_by_them(self, store: Store, at_once: int) -> None:
        fill(store, "b", 24, priority=5)
        fill(store, "a", 24)
        order, taken = order_of(THREE_TO_ONE), Counter[str]()
        while taken.total() < 24:
            jobs = claim(store, at_once, THREE_TO_ONE, order)
            assert len(jobs) == at_once
            taken += Counter(job.queue for job in jobs)
        assert taken == {"a": 18, "b": 6}

    def test_within_a_queue_the_line_is_kept(self, store: Store) -> None:
        for id, queue, priority in [("1", "b", 0), ("2", "a", 0), ("3", "a", 9), ("4", "b", 1)]:
            add(store, id, queue=queue, priority=priority)
        assert ids(claim(store, 4, THREE_TO_ONE)) == ["3", "4", "2", "1"]

    def test_no_worker_is_idle_for_the_sake_of_a_share(self, store: Store) -> None:
        fill(store, "b", 5)
        assert ids(claim(store, 3, THREE_TO_ONE)) == ["b0", "b1", "b2"]
        fill(store, "a", 1)
        assert ids(claim(store, 9, THREE_TO_ONE)) == ["a0", "b3", "b4"]

    def test_others_are_not_served(self, store: Store) -> None:
        fill(store, "c", 1, priority=9)
        fill(store, "b", 1)
        assert ids(claim(store, 9, THREE_TO_ONE)) == ["b0"]

    def test_a_limit_holds_and_the_rest_goes_to_the_other(self, store: Store) -> None:
        store.settings.set_limits("a", lambda _: Limits(limit=2))
        fill(store, "a", 9)
        fill(store, "b", 9)
        order = order_of(THREE_TO_ONE)
        first = claim(store, 8, THREE_TO_ONE, order)
        assert Counter(job.queue for job in first) == {"a": 2, "b": 6}
        finish(store, [ended(job, Exited(0), now=NOW + SECOND) for job in first])
        assert Counter(job.queue for job in claim(store, 2, THREE_TO_ONE, order)) == {"a": 2}

    def test_a_suspect_is_alone_all_the_same(self, store: Store) -> None:
        fill(store, "a", 1)
        suspects = Suspects(0, patience=HOUR, idle=True)
        fill(store, "b", 1)
        assert ids(claim(store, 9, THREE_TO_ONE, suspects=suspects)) == ["a0"]


class TestInOrder:
    def test_all_of_one_queue_before_any_of_the_next(self, store: Store) -> None:
        fill(store, "a", 3, priority=9)
        fill(store, "b", 3)
        assert ids(claim(store, 2, B_FIRST)) == ["b0", "b1"]
        assert ids(claim(store, 2, B_FIRST)) == ["b2", "a0"]
        add(store, "b9", queue="b", priority=-9)
        assert ids(claim(store, 1, B_FIRST)) == ["b9"]
        assert ids(claim(store, 9, B_FIRST)) == ["a1", "a2"]

    def test_what_can_not_start_holds_up_nobody(self, store: Store) -> None:
        store.settings.set_limits("b", lambda _: Limits(limit=1))
        fill(store, "b", 3)
        fill(store, "a", 3)
        assert ids(claim(store, 3, B_FIRST)) == ["b0", "a0", "a1"]
        store.settings.set_paused("b", paused=True, who="me", now=NOW)
        assert ids(claim(store, 3, B_FIRST)) == ["a2"]
