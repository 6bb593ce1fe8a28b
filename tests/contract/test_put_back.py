"""Claims that are taken back before the run was started: as if nothing had happened."""

from dataclasses import replace

import pytest

from queuectl.job import Exited, State
from queuectl.store import Store
from queuectl.store.contract import Topic
from tests.contract.tools import (
    NOW,
    SECOND,
    a_node,
    add,
    ask_cancel,
    ended,
    finish,
    hear,
    ids,
    quieten,
    release,
    take,
    take_one,
    the,
)

LATER = NOW + 5 * SECOND


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1")
    a_node(store, "node-2")


def test_the_job_is_as_it_was(store: Store) -> None:
    before = add(store, "a", priority=3)
    job = take_one(store)
    assert release(store, [job], now=LATER) == []
    assert the(store, "a") == replace(before, updated_at=LATER)
    assert store.history.attempts(job) == []
    assert store.runs.held("node-1") == []


def test_it_keeps_its_place_in_the_line(store: Store) -> None:
    for id in "abcd":
        add(store, id)
    jobs = take(store, 3)
    release(store, jobs[1:], now=LATER)
    assert ids(take(store, 3)) == ["b", "c", "d"]


def test_its_number_is_given_to_the_next_run(store: Store) -> None:
    add(store, "a")
    release(store, [take_one(store)], now=LATER)
    again = take_one(store, node="node-2")
    assert (again.attempts, again.node) == (1, "node-2")
    assert finish(store, [ended(again, Exited(0), now=LATER)]) == []
    assert [run.number for run in store.history.attempts(again)] == [1]


def test_a_late_end_of_what_was_put_back_is_refused(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    release(store, [job], now=LATER)
    end = ended(job, Exited(0), now=LATER)
    assert finish(store, [end]) == [end]
    take_one(store, node="node-2")
    assert finish(store, [end]) == [end]
    assert the(store, "a").state == State.PROCESSING


def test_what_another_node_has_by_now_stays_there(store: Store) -> None:
    for id in "ab":
        add(store, id)
    mine = take(store, 2)
    release(store, mine[:1], now=LATER)
    theirs = take_one(store, node="node-2")
    assert release(store, mine, now=LATER) == mine[:1]
    assert the(store, "a") == theirs
    assert the(store, "b").state == State.PENDING


def test_what_is_to_be_cancelled_is_not_put_back(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    ask_cancel(store, job, "not needed", now=NOW)
    assert release(store, [job], now=LATER) == [job]
    assert the(store, "a").state == State.PROCESSING


def test_a_retry_stays_one(store: Store) -> None:
    add(store, "a", max_retries=3)
    finish(store, [ended(take_one(store), Exited(1), now=NOW)])
    second = take_one(store, now=NOW + 3600 * SECOND)
    release(store, [second], now=LATER)
    job = the(store, "a")
    assert (job.state, job.attempts, job.failures) == (State.PENDING, 1, 1)
    assert take_one(store, now=NOW + 3600 * SECOND).attempts == 2


@pytest.mark.needs("notifications")
def test_it_wakes_those_who_wait_for_work(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    listener = store.listen()
    quieten(listener)
    release(store, [job], now=LATER)
    assert hear(listener, Topic.WORK)
    listener.close()


def test_counters_follow(store: Store) -> None:
    for id in "abc":
        add(store, id)
    release(store, take(store, 3)[:2], now=LATER)
    counted = {count.state: count.jobs for count in store.jobs.counts() if count.jobs}
    assert counted == {State.PENDING: 2, State.PROCESSING: 1}
    assert store.verify() == []


def test_nothing_is_nothing(store: Store) -> None:
    assert release(store, [], now=LATER) == []
