"""Completing jobs by hand: those that wait at once, those that run when their runs have ended."""

import pytest

from queuectl.errors import StateError
from queuectl.facts import Event
from queuectl.job import Cancelled, Exited, Job, Lost, Outcome, Released, State
from queuectl.lifecycle import Policy, cancelled, finished, retried
from queuectl.limits import Limits
from queuectl.store import Store
from queuectl.store.contract import Decision, RunId
from queuectl.values import replace
from tests.contract.tools import (
    HOUR,
    NOW,
    SECOND,
    a_node,
    add,
    apply,
    ask_cancel,
    ended,
    finish,
    force_finish,
    ids,
    release,
    run,
    take,
    take_one,
    the,
)

LATER = NOW + HOUR


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """A node that may claim."""
    a_node(store)


def result(store: Store, id: str) -> str | None:
    """Return what a job came to."""
    job = the(store, id)
    return store.reports.results([job]).get(job.seq)


def ending(store: Store, job: Job, outcome: Outcome) -> Job:
    """End a run as a node does that has heard what is asked for, and return its job."""
    asked = {one.seq: one for one in store.runs.held("node-1", to_cancel=True)}[job.seq]
    seen = replace(job, cancel_reason=asked.cancel_reason, forced=asked.forced)
    end = ended(seen, outcome, now=LATER, policy=Policy(), result=seen.forced or None)
    assert finish(store, [end]) == []
    return the(store, job.id)


class TestWaiting:
    def test_is_completed_at_once_and_never_runs(self, store: Store) -> None:
        job = add(store, "a")
        assert force_finish(store, job, '{"by": "hand"}', now=LATER)
        done = the(store, "a")
        assert (done.state, done.reason, done.finished_at) == (State.COMPLETED, "by hand", LATER)
        assert (done.attempts, done.exit_code) == (0, None)
        assert result(store, "a") == '{"by": "hand"}'
        assert take(store, 9, now=LATER) == []
        assert [(c.state, c.jobs) for c in store.jobs.counts()] == [(State.COMPLETED, 1)]

    def test_one_that_waits_for_its_retry_or_its_time(self, store: Store) -> None:
        add(store, "a")
        run(store, "a", Exited(1))
        later = add(store, "later", run_at=NOW + HOUR)
        assert force_finish(store, the(store, "a"), now=NOW) and force_finish(store, later, now=NOW)
        assert {the(store, id).state for id in ("a", "later")} == {State.COMPLETED}
        assert store.runs.outlook().changes_at is None
        assert result(store, "a") is None

    def test_what_an_earlier_run_came_to_is_gone(self, store: Store) -> None:
        add(store, "a")
        run(store, "a", result="1")
        apply(store, the(store, "a"), retried(LATER), now=LATER)
        force_finish(store, the(store, "a"), now=LATER)
        assert (the(store, "a").state, result(store, "a")) == (State.COMPLETED, None)
        apply(store, the(store, "a"), retried(LATER), now=LATER)
        force_finish(store, the(store, "a"), "2", now=LATER)
        assert result(store, "a") == "2"

    def test_calls_its_hook_in_the_same_transaction(self, store: Store) -> None:
        job = add(store, "a", on_success="echo done", on_dead="echo dead")
        force_finish(store, job, now=NOW)
        assert ids(store.jobs.hooks(the(store, "a"))) == ["on-success.a.0"]
        assert b'"outcome": "finished"' in store.jobs.stdin(the(store, "on-success.a.0"))

    def test_its_event_is_kept(self, store: Store) -> None:
        job = add(store, "a")
        event = Event(at=NOW, kind="force-finish", job="a", node=None, who="me", detail="so")
        decision = Decision(finished(job, "so"), event)
        store.jobs.change([job], lambda held, now: {job.seq: decision}, now=NOW)
        assert [event.kind for event in store.history.events("a")] == ["force-finish"]

    def test_its_unique_key_is_free_again(self, store: Store) -> None:
        job = add(store, "a", unique="key")
        force_finish(store, job, now=NOW)
        assert add(store, "b", unique="key").id == "b"

    @pytest.mark.needs("sql")
    def test_its_place_before_a_limit_is_free_again(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(key_limit=1))
        for id in ("a", "b", "c"):
            add(store, id, keys=("k",))
        first = take_one(store)
        force_finish(store, the(store, "b"), now=NOW)
        finish(store, [ended(first)])
        assert ids(take(store, 9)) == ["c"]


class TestRunning:
    @pytest.mark.parametrize(
        "outcome", [Cancelled("x"), Exited(1), Lost("gone"), Released(), Exited(0)], ids=repr
    )
    def test_whatever_its_run_comes_to_it_is_completed(
        self, store: Store, outcome: Outcome
    ) -> None:
        add(store, "a", max_retries=5)
        job = take_one(store)
        assert force_finish(store, job, "[1]", now=NOW + SECOND)
        asked = the(store, "a")
        assert (asked.state, asked.is_forced, asked.updated_at) == (
            State.PROCESSING,
            True,
            NOW + SECOND,
        )
        done = ending(store, job, outcome)
        assert (done.state, done.reason, done.error) == (State.COMPLETED, "by hand", None)
        assert (done.failures, done.crashes, done.is_forced) == (0, 0, False)
        assert result(store, "a") == "[1]"
        [attempt] = store.history.attempts(done)
        assert attempt.outcome == outcome.name
        assert take(store, 9, now=LATER) == []

    def test_without_a_result_there_is_none(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        force_finish(store, job, now=NOW)
        ending(store, job, Cancelled("x"))
        assert result(store, "a") is None

    def test_what_never_began_is_not_put_back(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        force_finish(store, job, now=NOW)
        assert release(store, [job], now=NOW) == [job]
        assert ending(store, job, Released()).state == State.COMPLETED

    def test_what_its_run_reports_later_is_refused(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        force_finish(store, job, "1", now=NOW)
        ending(store, job, Cancelled("x"))
        late = ended(job, Exited(1), now=LATER)
        assert finish(store, [late]) == [late]
        assert the(store, "a").state == State.COMPLETED
        with pytest.raises(StateError):
            store.reports.running(RunId("a", 1, "node-1"))

    def test_calls_its_hook_with_its_end(self, store: Store) -> None:
        add(store, "a", on_success="echo done", on_failure="echo failed")
        job = take_one(store)
        force_finish(store, job, now=NOW)
        assert store.jobs.hooks(job) == []
        ending(store, job, Cancelled("x"))
        assert ids(store.jobs.hooks(job)) == ["on-success.a.1"]

    def test_its_slot_of_a_limit_is_free_when_its_run_has_ended(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(limit=1))
        add(store, "a")
        add(store, "b")
        job = take_one(store)
        force_finish(store, job, now=NOW)
        assert take(store, 9) == []
        ending(store, job, Cancelled("x"))
        assert ids(take(store, 9, now=LATER)) == ["b"]

    def test_a_later_cancel_is_not_taken_for_it(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        force_finish(store, job, now=NOW)
        ending(store, job, Cancelled("x"))
        apply(store, the(store, "a"), retried(LATER), now=LATER)
        (again,) = take(store, now=LATER)
        assert not again.is_forced
        ask_cancel(store, again, "enough", now=LATER)
        assert ending(store, again, Cancelled("enough")).state == State.CANCELLED


def test_a_cancelled_job_stays_cancelled(store: Store) -> None:
    job = add(store, "a")
    apply(store, job, cancelled(job, "so"), now=NOW)
    assert not force_finish(store, job, now=NOW)
    assert the(store, "a").state == State.CANCELLED
