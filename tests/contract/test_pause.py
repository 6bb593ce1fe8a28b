"""Runs that are paused by hand: which, by whom, since when, and how long that means something."""

from collections.abc import Mapping
from contextlib import closing

import pytest

from queuectl.errors import StateError
from queuectl.facts import Event, Pause
from queuectl.job import Exited, Job
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
    pause,
    quieten,
    release,
    remove,
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


def test_a_run_is_paused_and_goes_on(store: Store) -> None:
    for id in "abc":
        add(store, id)
    _, job, other = take(store, 3)
    before = the(store, job.id)
    assert pause(store, job, who="who-1", now=NOW + 2)
    [found] = store.runs.pauses()
    assert found == Pause(seq=job.seq, number=1, at=NOW + 2, who="who-1")
    assert the(store, job.id) == before
    assert pause(store, other, who="who-3", now=NOW + 4)
    assert [one.seq for one in store.runs.pauses()] == [job.seq, other.seq]
    assert pause(store, job, paused=False, who="who-5", now=NOW + 6)
    assert [one.who for one in store.runs.pauses()] == ["who-3"]
    assert pause(store, job, who="who-7", now=NOW + 8)
    assert [(one.at, one.who) for one in store.runs.pauses()] == [
        (NOW + 8, "who-7"),
        (NOW + 4, "who-3"),
    ]


def test_each_is_an_event(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    pause(store, job, who="who-1", now=NOW + 2)
    pause(store, job, paused=False, who="who-3", now=NOW + 4)
    told = [(e.at, e.kind, e.node, e.who) for e in store.history.events("a")]
    assert told == [
        (NOW + 4, "resume", "node-1", "who-3"),
        (NOW + 2, "pause", "node-1", "who-1"),
    ]


def test_what_is_so_already_stays_and_is_no_event(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    assert not pause(store, job, paused=False, now=NOW + 1)
    assert pause(store, job, who="first", now=NOW + 2)
    assert not pause(store, job, who="second", now=NOW + 3)
    assert [(one.at, one.who) for one in store.runs.pauses()] == [(NOW + 2, "first")]
    assert len(store.history.events("a")) == 1


def test_it_is_decided_when_nobody_else_can_change_the_jobs(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    seen: list[tuple[Mapping[int, Job], Mapping[int, Pause], int]] = []

    def decide(held: Mapping[int, Job], pauses: Mapping[int, Pause], now: int) -> dict[int, Event]:
        seen.append((held, pauses, now))
        return {}

    assert store.runs.set_paused([job], decide, now=LATER) == set()
    assert pause(store, job, now=NOW + 2)
    remove_me = add(store, "b")
    remove(store, remove_me)
    assert store.runs.set_paused([job, remove_me], decide, now=LATER) == set()
    expected = Pause(seq=job.seq, number=1, at=NOW + 2, who="me")
    assert seen == [({job.seq: job}, {}, LATER), ({job.seq: job}, {job.seq: expected}, LATER)]


def test_one_that_cannot_be_paused_spares_the_others(store: Store) -> None:
    add(store, "a")
    add(store, "b")
    jobs = take(store, 2)

    def decide(held: Mapping[int, Job], pauses: Mapping[int, Pause], now: int) -> dict[int, Event]:
        raise StateError("not this one")

    with pytest.raises(StateError, match="not this one"):
        store.runs.set_paused(jobs, decide, now=NOW)
    assert store.runs.pauses() == []
    assert store.history.events("a") == []


def test_the_end_of_the_run_is_that_of_the_pause(store: Store) -> None:
    add(store, "a", max_retries=3)
    job = take_one(store)
    pause(store, job, now=NOW + 2)
    finish(store, [ended(job, Exited(1), now=LATER)])
    assert store.runs.pauses() == []
    assert not pause(store, job, paused=False, now=LATER)
    again = take_one(store, now=NOW + 1000 * SECOND)
    assert (again.id, again.attempts) == ("a", 2)
    assert store.runs.pauses() == []
    assert pause(store, again, now=NOW + 1000 * SECOND)
    assert [one.number for one in store.runs.pauses()] == [2]


def test_one_that_was_put_back_is_not_paused_when_it_is_claimed_again(store: Store) -> None:
    """It never began, and its number is given to the next run."""
    add(store, "a")
    job = take_one(store, now=NOW)
    pause(store, job, now=NOW + 2)
    release(store, [job], now=NOW + 3)
    assert store.runs.pauses() == []
    again = take_one(store, node="node-2", now=LATER)
    assert again.attempts == job.attempts
    assert store.runs.pauses() == []
    assert pause(store, again, who="who-9", now=LATER + 1)
    assert [(one.at, one.who) for one in store.runs.pauses()] == [(LATER + 1, "who-9")]


def test_a_clock_that_goes_back_loses_no_pause(store: Store) -> None:
    add(store, "a")
    job = take_one(store, now=LATER)
    assert pause(store, job, now=NOW)
    assert [one.at for one in store.runs.pauses()] == [LATER]


def test_a_paused_run_can_be_cancelled(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    pause(store, job, now=NOW + 2)
    assert ask_cancel(store, job, "enough", now=NOW + 3)
    assert [one.id for one in store.runs.held("node-1", to_cancel=True)] == ["a"]
    assert [one.seq for one in store.runs.pauses()] == [job.seq]


def test_upkeep_forgets_the_pauses_of_runs_that_are_over(store: Store) -> None:
    for id in "abc":
        add(store, id)
    over, going, gone = take(store, 3)
    for job in (over, going, gone):
        pause(store, job, now=NOW + 2)
    finish(store, [ended(job, Exited(0), now=LATER) for job in (over, gone)])
    remove(store, the(store, gone.id))
    store.tidy(now=LATER)
    assert [one.seq for one in store.runs.pauses()] == [going.seq]


@pytest.mark.needs("notifications")
def test_the_node_is_told(store: Store) -> None:
    add(store, "a")
    job = take_one(store)
    with closing(store.listen()) as listener:
        quieten(listener)
        assert pause(store, job, now=NOW + 2)
        assert hear(listener, Topic.CONTROL)
