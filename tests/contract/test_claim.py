"""The claim: who gets which job, in which order, from when on; and who gets none."""

from collections import Counter
from dataclasses import replace
from threading import Thread
from time import clock_gettime
from typing import Any

import pytest

from queuectl.admission import Suspects
from queuectl.errors import LeaseLostError
from queuectl.filter import Filter
from queuectl.host import whoami
from queuectl.job import Exited, NewJob, Released, State, Transition
from queuectl.lifecycle import Policy, retried
from queuectl.store import Store
from queuectl.store.clock import ELAPSED
from queuectl.store.idiom import BURIED_AT_ONCE
from queuectl.store.sqlstore import SqlStore
from tests.contract.tools import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    apply,
    claim,
    ended,
    everything,
    finish,
    foresee,
    forget,
    ids,
    run,
    states,
    take,
    take_one,
    the,
    transaction,
)


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store, "node-1")


@pytest.mark.needs("sql")
class TestClockPutBack:
    def test_no_job_is_due_or_expired_by_a_clock_of_the_past(self, store: Store) -> None:
        assert isinstance(store, SqlStore)
        if store.one_host:
            return  # The clock of a file's host is read anew each time.
        now = store.clock.now()
        add(store, "delayed", now=now, run_at=now + HOUR // 2)
        add(store, "patient", now=now, expires_at=now + HOUR // 2, queue="other")
        # It is as if the server's clock had been an hour ahead, when it was read a moment ago.
        heard = clock_gettime(ELAPSED)
        assert store.db.driver.clock.learn(asked=heard, said=now + HOUR, heard=heard) == 0
        assert store.clock.now() >= now + HOUR
        assert claim(store, "node-1", [1, 2], ["default"], now=store.clock.now()).jobs == []
        assert states(store) == {"delayed": State.PENDING, "patient": State.PENDING}
        assert store.clock.now() < now + MINUTE
        # That it was put on by an hour is no reason to wait.
        assert ids(claim(store, "node-1", [1, 2], [], now=now + HOUR).jobs) == ["delayed"]


class TestOneJob:
    def test_is_given_out_once(self, store: Store, other: Store) -> None:
        add(store, "x")
        assert ids(take(store)) == ["x"]
        assert take(store) == []
        assert take(other, now=NOW + HOUR) == []

    def test_comes_back_as_it_is_now_stored(self, store: Store) -> None:
        before = add(store, "x", tags=("red",), env={"A": "b"}, priority=3, timeout=9)
        (job,) = claim(store, "node-1", [17], [], now=NOW + 41).jobs
        assert job == replace(
            before,
            state=State.PROCESSING,
            attempts=1,
            node="node-1",
            worker=17,
            started_at=NOW + 41,
            updated_at=NOW + 41,
        )
        assert the(store, "x") == job

    def test_comes_back_letter_by_letter(self, store: Store) -> None:
        odd = (
            """"double" 'single' \\ \t\n\x01\x7f %s %(a)s 100% [1, null] \u00fc \u2028 \U0001f680"""
        )
        before = add(
            store,
            "x",
            command=odd,
            argv=(odd, ""),
            cwd=odd,
            env={"A": odd},
            tags=("\u00fc",),
            queue="\U0001f680",
            priority=-2_147_483_648,
            backoff_base=1.1,
            max_backoff=3_159_999_999_999,
        )
        job = take_one(store, now=NOW + 41)
        assert job == replace(
            before,
            state=State.PROCESSING,
            attempts=1,
            node=job.node,
            worker=job.worker,
            started_at=NOW + 41,
            updated_at=NOW + 41,
        )
        assert the(store, "x") == job

    def test_each_claim_is_a_new_attempt(self, store: Store) -> None:
        add(store, "x")
        for attempt in (1, 2, 3):
            job = take_one(store, now=NOW + attempt)
            assert job.attempts == attempt
            finish(store, [ended(job, Released(), now=NOW + attempt)])

    def test_what_the_last_run_left_is_cleared_but_not_its_error(self, store: Store) -> None:
        add(store, "x", max_retries=0)
        run(store, "x", Exited(7), error="the last words")
        dead = the(store, "x")
        assert (dead.exit_code, dead.duration_ms, dead.finished_at) == (7, 4_022, NOW + 5 * SECOND)
        assert apply(store, dead, retried(NOW + MINUTE), now=NOW + MINUTE)
        job = take_one(store, now=NOW + MINUTE)
        assert (job.exit_code, job.duration_ms, job.finished_at, job.reason) == (None,) * 4
        assert job.cancel_reason is None
        assert job.error == "the last words"
        assert (job.attempts, job.failures) == (2, 0)

    @pytest.mark.needs("transactions")
    def test_two_who_claim_at_once_on_a_server_get_one_each(
        self, store: Store, other: Store
    ) -> None:
        if store.one_host:
            return  # There one waits for the other, which takes no time.
        a_node(store, "node-2")
        add(store, "x")
        add(store, "y")
        with transaction(store):
            assert take_one(store).id == "x"
            assert take_one(other, node="node-2").id == "y"


class Cut(BaseException):
    """What ends a claim half-way, like a kill."""


def cut_at(store: Store, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next verb end right before it asks the database for the so-manieth time."""
    left = iter(range(step))
    assert isinstance(store, SqlStore)
    driver = store.db.driver
    for name in ("rows", "change", "each", "update", "insert"):
        real = getattr(driver, name)

        def cut(*args: Any, real: Any = real) -> Any:
            if next(left, None) is None:
                raise Cut
            return real(*args)

        monkeypatch.setattr(driver, name, cut)


def test_one_that_is_cut_off_anywhere_has_done_nothing(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may bury, promote and take jobs: all of it or nothing, in however many statements."""
    add(store, "ready")
    add(store, "due", run_at=NOW + SECOND)
    add(store, "late", expires_at=NOW + SECOND)
    # What it knows of the database it has asked for by now.
    assert claim(store, "node-1", [1], ["nothing there"], now=NOW).jobs == []
    before = everything(client)
    for step in range(100):
        with monkeypatch.context() as patch:
            cut_at(store, step, patch)
            try:
                claimed = claim(store, "node-1", [1, 2, 3], [], now=NOW + MINUTE).jobs
            except Cut:
                claimed = []
        if claimed:
            break
        assert everything(client) == before
    assert ids(claimed) == ["ready", "due"]
    assert the(store, "late").state == State.DEAD
    assert step > 1


class TestWorkers:
    def test_each_gets_one_job(self, store: Store) -> None:
        for n in range(5):
            add(store, f"job {n}")
        jobs = claim(store, "node-1", [30, 10, 20], [], now=NOW).jobs
        assert [(job.id, job.worker) for job in jobs] == [
            ("job 0", 30),
            ("job 1", 10),
            ("job 2", 20),
        ]

    def test_two_of_three_then_one_then_none(self, store: Store) -> None:
        for id in ("a", "b", "c"):
            add(store, id)
        assert [ids(take(store, 2)) for _ in range(3)] == [["a", "b"], ["c"], []]

    def test_there_may_be_more_of_them_than_jobs(self, store: Store) -> None:
        for id in ("a", "b", "c"):
            add(store, id, queue=id)
        assert ids(take(store, 400)) == ["a", "b", "c"]

    def test_without_workers_there_is_nothing_to_claim(self, store: Store) -> None:
        add(store, "x", run_at=NOW - 1)
        assert take(store, 0) == []
        assert the(store, "x").state == State.PENDING

    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        assert take(store, 3) == []


class TestOrder:
    def test_higher_priority_first_then_first_come(self, store: Store) -> None:
        for id, priority in [("a", 0), ("b", 5), ("c", -5), ("d", 5), ("e", 0), ("f", 2**31 - 1)]:
            add(store, id, priority=priority)
        assert ids(take(store, 10)) == ["f", "b", "d", "a", "e", "c"]

    def test_one_by_one_it_is_the_same_order(self, store: Store) -> None:
        for n in range(30):
            add(store, f"job {n:02}", priority=n * 7 % 5, queue=f"queue {n * 11 % 3}", now=NOW - n)
        jobs = store.jobs.select(Filter(), limit=None, oldest=True)
        expected = ids(sorted(jobs, key=lambda job: (-job.priority, job.seq)))
        assert [take_one(store).id for _ in expected] == expected

    def test_it_goes_across_queues(self, store: Store) -> None:
        for id, queue, priority in [
            ("1", "b", 1),
            ("2", "a", 1),
            ("3", "c", 9),
            ("4", "a", 9),
            ("5", "b", 1),
        ]:
            add(store, id, queue=queue, priority=priority)
        assert ids(take(store, 2)) == ["3", "4"]
        assert ids(take(store, 2, queues=["b", "a"])) == ["1", "2"]
        assert ids(take(store, 2)) == ["5"]

    def test_a_clock_that_jumps_back_changes_nothing(self, store: Store) -> None:
        add(store, "first", now=NOW)
        add(store, "second", now=NOW - HOUR)
        assert ids(take(store, 2)) == ["first", "second"]

    def test_released_and_retried_jobs_keep_their_place(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        job = take_one(store)
        finish(store, [ended(job, Released(), now=NOW + SECOND)])
        assert ids(take(store, 2, now=NOW + SECOND)) == ["a", "b"]


class TestQueues:
    @pytest.fixture(autouse=True)
    def jobs(self, store: Store) -> None:
        for id, queue in [("1", "one"), ("2", "two"), ("3", "three"), ("4", "one")]:
            add(store, id, queue=queue)

    def test_none_named_means_all(self, store: Store) -> None:
        assert ids(take(store, 9)) == ["1", "2", "3", "4"]

    def test_only_the_named_are_served(self, store: Store) -> None:
        assert ids(take(store, 9, queues=["two"])) == ["2"]
        assert ids(take(store, 9, queues=["three", "two", "one"])) == ["1", "3", "4"]

    @pytest.mark.parametrize("queue", ["four", "on", "One", "%", ""])
    def test_a_name_is_exact(self, store: Store, queue: str) -> None:
        assert take(store, 9, queues=[queue]) == []

    def test_a_paused_one_gives_nothing_out_until_resumed(self, store: Store) -> None:
        store.settings.set_paused("one", paused=True, who="me", now=NOW)
        assert take(store, 9, queues=["one"]) == []
        assert ids(take(store, 9)) == ["2", "3"]
        store.settings.set_paused("one", paused=False, who="me", now=NOW)
        assert ids(take(store, 9)) == ["1", "4"]

    def test_a_paused_one_leaves_running_jobs_alone(self, store: Store) -> None:
        job = take_one(store)
        store.settings.set_paused("one", paused=True, who="me", now=NOW)
        assert finish(store, [ended(job)]) == []
        assert the(store, "1").state == State.COMPLETED

    def test_very_many_are_no_trouble(self, store: Store) -> None:
        store.jobs.enqueue(
            [NewJob(id=f"q{n}", command="x", queue=f"queue {n:03}") for n in range(300)], now=NOW
        )
        assert ids(take(store, 400)) == ["1", "2", "3", "4", *(f"q{n}" for n in range(300))]


class TestTime:
    def test_a_job_is_invisible_until_exactly_its_time(self, store: Store) -> None:
        add(store, "x", run_at=NOW + MINUTE)
        assert take(store, now=NOW + MINUTE - 1) == []
        assert the(store, "x").attempts == 0
        assert ids(take(store, now=NOW + MINUTE)) == ["x"]

    def test_a_time_in_the_past_is_due_at_once(self, store: Store) -> None:
        job = add(store, "x", run_at=NOW - HOUR)
        assert job.run_at == NOW - HOUR
        assert ids(take(store)) == ["x"]

    def test_a_due_job_goes_by_priority_and_age_not_by_its_time(self, store: Store) -> None:
        add(store, "late", run_at=NOW + 3 * MINUTE)
        add(store, "urgent", run_at=NOW + 2 * MINUTE, priority=1)
        add(store, "ready")
        add(store, "soon", run_at=NOW + MINUTE)
        assert ids(take(store, 9, now=NOW + 3 * MINUTE)) == ["urgent", "late", "ready", "soon"]

    def test_delayed_jobs_of_high_priority_do_not_stand_in_the_way(self, store: Store) -> None:
        store.jobs.enqueue(
            [NewJob(command="x", priority=9, run_at=NOW + HOUR) for _ in range(2_000)], now=NOW
        )
        add(store, "x")
        assert ids(take(store, 5)) == ["x"]

    def test_more_due_jobs_than_are_promoted_at_once_all_come_once(self, store: Store) -> None:
        made = store.jobs.enqueue(
            [NewJob(command="x", run_at=NOW + 1 + n % 3) for n in range(2_500)], now=NOW
        ).ids
        taken: list[str] = []
        while jobs := take(store, 400, now=NOW + 10):
            taken += ids(jobs)
        assert sorted(taken) == sorted(made)

    def test_a_failed_job_waits_for_its_retry(self, store: Store) -> None:
        add(store, "x")
        job = run(store, "x", Exited(1), policy=Policy(backoff_base=3))
        assert (job.state, job.run_at) == (State.FAILED, NOW + 8 * SECOND)
        assert take(store, now=job.run_at - 1) == []
        assert take_one(store, now=job.run_at).attempts == 2

    def test_a_failed_job_that_is_due_and_not_yet_taken_is_pending(self, store: Store) -> None:
        for id in ("a", "b"):
            add(store, id)
        for job in take(store, 2):
            finish(store, [ended(job, Exited(1))])
        assert states(store) == {"a": State.FAILED, "b": State.FAILED}
        take_one(store, now=NOW + HOUR)
        assert states(store) == {"a": State.PROCESSING, "b": State.PENDING}
        assert the(store, "b").failures == 1

    def test_a_released_job_is_there_at_once(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        finish(store, [ended(job, Released(), now=NOW + 1)])
        assert ids(take(store, now=NOW + 1)) == ["x"]


class TestExpiry:
    def test_a_job_may_start_until_its_time_is_over(self, store: Store) -> None:
        add(store, "x", expires_at=NOW + MINUTE)
        assert ids(take(store, now=NOW + MINUTE - 1)) == ["x"]

    def test_from_then_on_it_is_dead_with_its_reason(self, store: Store) -> None:
        before = add(store, "x", expires_at=NOW + MINUTE)
        assert take(store, now=NOW + MINUTE) == []
        assert the(store, "x") == replace(
            before,
            state=State.DEAD,
            reason="expired before it could start",
            finished_at=NOW + MINUTE,
            updated_at=NOW + MINUTE,
        )

    def test_it_has_not_run_and_says_so(self, store: Store) -> None:
        add(store, "x", expires_at=NOW)
        take(store)
        job = the(store, "x")
        assert (job.attempts, job.failures, job.crashes, job.started_at) == (0, 0, 0, None)
        assert store.history.attempts(job) == []

    @pytest.mark.parametrize("fields", [{"queue": "not served"}, {"run_at": NOW + HOUR}])
    def test_it_dies_wherever_it_waits(self, store: Store, fields: dict[str, Any]) -> None:
        add(store, "x", expires_at=NOW + 1, **fields)
        take(store, queues=["default"], now=NOW + 1)
        assert the(store, "x").state == State.DEAD

    def test_one_that_was_over_from_the_beginning_of_time_is_buried(self, store: Store) -> None:
        add(store, "x", expires_at=0)
        assert take(store, now=NOW) == []
        assert the(store, "x").state == State.DEAD

    def test_whoever_claims_is_told_and_so_is_everybody_else(self, store: Store) -> None:
        add(store, "good")
        add(store, "late", expires_at=NOW + 2, queue="other")
        add(store, "first", expires_at=NOW + 3)
        jobs, buried, *_ = claim(store, "node-1", [1, 2], [], now=NOW + 5)
        assert ids(jobs) == ["good"]
        assert buried == [the(store, "late"), the(store, "first")]
        said = [(e.kind, e.job, e.at, e.node, e.detail) for e in store.history.events()]
        reason = "expired before it could start"
        assert said == [("dead", id, NOW + 5, "node-1", reason) for id in ("first", "late")]
        assert {event.who for event in store.history.events()} == {whoami()}
        again = claim(store, "node-1", [1, 2], [], now=NOW + 6)
        assert (*again.jobs, *again.buried) == ()
        assert len(store.history.events()) == 2

    def test_very_many_are_told_a_thousand_at_a_time(self, store: Store) -> None:
        store.jobs.enqueue([NewJob(command="x", expires_at=NOW + 1) for _ in range(1_100)], now=NOW)
        told = [claim(store, "node-1", [1], [], now=NOW + 1) for _ in range(3)]
        assert [(len(jobs), len(buried)) for jobs, buried, *_ in told] == [
            (0, 1_000),
            (0, 100),
            (0, 0),
        ]
        events = store.history.events(limit=2_000)
        assert len(events) == len({event.job for event in events}) == 1_100

    def test_a_running_job_does_not_expire(self, store: Store) -> None:
        add(store, "x", expires_at=NOW + 1)
        job = take_one(store)
        take(store, now=NOW + HOUR)
        assert the(store, "x") == job

    def test_no_expired_job_ever_runs_however_many_there_are(self, store: Store) -> None:
        store.jobs.enqueue([NewJob(command="x", expires_at=NOW + 1) for _ in range(350)], now=NOW)
        add(store, "good", priority=-1)
        assert ids(take(store, 3, now=NOW + 1)) == ["good"]

    def test_nor_does_one_that_no_claim_has_buried_yet(self, store: Store) -> None:
        late = BURIED_AT_ONCE + 5
        store.jobs.enqueue([NewJob(command="x", expires_at=NOW + 1) for _ in range(late)], now=NOW)
        add(store, "good", priority=-1)
        assert ids(take(store, 3, now=NOW + 1)) == ["good"]
        counts = Counter(states(store).values())
        assert counts == {State.DEAD: BURIED_AT_ONCE, State.PENDING: 5, State.PROCESSING: 1}

    def test_all_of_them_are_buried_in_the_end(self, store: Store) -> None:
        store.jobs.enqueue([NewJob(command="x", expires_at=NOW + 1) for _ in range(350)], now=NOW)
        for _ in range(10):
            assert take(store, 2, now=NOW + 1) == []
        assert set(states(store).values()) == {State.DEAD}


class TestLease:
    @pytest.mark.needs("transactions")
    def test_whoever_strikes_a_node_out_sees_all_that_it_has_claimed(
        self, store: Store, other: Store
    ) -> None:
        add(store, "x")
        seen: list[str] = []

        def strike_out() -> None:
            forget(other, "node-1")
            seen.extend(ids(other.runs.held("node-1")))

        rescuer = Thread(target=other.transact, args=[strike_out])
        with transaction(store):
            take_one(store)
            rescuer.start()
            # It has to wait for us; one that doesn't would be through by then.
            rescuer.join(0.5)
        rescuer.join(30)
        assert seen == ["x"]

    def test_a_node_nobody_knows_gets_nothing(self, store: Store, client: Client) -> None:
        add(store, "x", expires_at=NOW)
        add(store, "y", run_at=NOW - 1)
        before = everything(client)
        with pytest.raises(LeaseLostError, match="node-9"):
            take(store, node="node-9")
        assert everything(client) == before

    def test_a_node_whose_lease_is_over_gets_nothing(self, store: Store, client: Client) -> None:
        add(store, "x")
        a_node(store, "late", lease=-1)
        before = everything(client)
        with pytest.raises(LeaseLostError, match="late"):
            take(store, node="late")
        assert everything(client) == before
        assert ids(take(store, node="node-1")) == ["x"]

    def test_a_forgotten_node_gets_nothing(self, store: Store) -> None:
        add(store, "x")
        forget(store, "node-1")
        with pytest.raises(LeaseLostError):
            take(store)

    def test_a_node_that_is_asked_to_stop_still_has_its_lease(self, store: Store) -> None:
        from queuectl.facts import Stop

        add(store, "x")
        store.nodes.ask_stop("node-1", Stop.DRAIN)
        assert ids(take(store)) == ["x"]


class TestSuspects:
    """Jobs that one more crash would bury: here, those that have crashed once."""

    @pytest.fixture(autouse=True)
    def line(self, store: Store) -> None:
        """A line of jobs with a suspect in its middle, and one at its end."""
        for id in ("first", "suspect", "last", "other-suspect"):
            add(store, id)
        for id in ("suspect", "other-suspect"):
            crashed = Transition(state=State.PENDING, failures=0, crashes=1, run_at=NOW)
            assert apply(store, the(store, id), crashed, now=NOW)

    def claim(self, store: Store, *, idle: bool, since: int = NOW) -> list[str]:
        """Claim what a node with four free workers gets."""
        suspects = Suspects(crashes=1, patience=NOW - since, idle=idle)
        return ids(claim(store, "node-1", [1, 2, 3, 4], [], now=NOW, suspects=suspects).jobs)

    @pytest.mark.parametrize("idle", [True, False])
    def test_the_line_ends_before_one(self, store: Store, idle: bool) -> None:
        assert self.claim(store, idle=idle) == ["first"]

    def test_a_busy_node_gets_nothing_until_it_is_idle(self, store: Store) -> None:
        assert self.claim(store, idle=True) == ["first"]
        assert self.claim(store, idle=False) == []
        assert foresee(store, [], now=NOW)[0]

    def test_an_idle_node_gets_it_alone(self, store: Store) -> None:
        got = [self.claim(store, idle=True) for _ in range(5)]
        assert got == [["first"], ["suspect"], ["last"], ["other-suspect"], []]

    def test_who_has_waited_for_long_takes_its_turn_like_all_others(self, store: Store) -> None:
        got = self.claim(store, idle=False, since=NOW + 1)
        assert got == ["first", "suspect", "last", "other-suspect"]

    def test_who_names_no_suspects_gets_all(self, store: Store) -> None:
        jobs = claim(store, "node-1", [1, 2, 3, 4], [], now=NOW).jobs
        assert ids(jobs) == ["first", "suspect", "last", "other-suspect"]


class TestOutlook:
    def test_an_empty_store_has_none(self, store: Store) -> None:
        assert foresee(store, [], now=NOW) == (False, None)

    def test_the_next_job_that_becomes_due(self, store: Store) -> None:
        add(store, "x", run_at=NOW + HOUR)
        add(store, "y", run_at=NOW + MINUTE, expires_at=NOW + 2 * MINUTE)
        assert foresee(store, [], now=NOW) == (False, NOW + MINUTE)

    def test_the_next_job_that_expires(self, store: Store) -> None:
        add(store, "x", run_at=NOW + HOUR, expires_at=NOW + MINUTE)
        assert foresee(store, [], now=NOW) == (False, NOW + MINUTE)
        assert foresee(store, [], now=NOW + MINUTE) == (True, NOW + MINUTE)

    def test_nothing_is_waited_for_when_something_is_ready(self, store: Store) -> None:
        add(store, "x", run_at=NOW + HOUR)
        add(store, "y", queue="one")
        assert foresee(store, [], now=NOW) == (True, None)
        assert foresee(store, ["two"], now=NOW) == (False, NOW + HOUR)


class TestClaimable:
    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        assert not foresee(store, [], now=NOW)[0]

    def test_a_ready_job_is_something(self, store: Store) -> None:
        add(store, "x", queue="one")
        assert foresee(store, [], now=NOW)[0]
        assert foresee(store, ["two", "one"], now=NOW)[0]
        assert not foresee(store, ["two"], now=NOW)[0]
        take_one(store)
        assert not foresee(store, [], now=NOW)[0]

    def test_a_paused_queue_has_nothing(self, store: Store) -> None:
        add(store, "x", queue="one")
        store.settings.set_paused("one", paused=True, who="me", now=NOW)
        assert not foresee(store, [], now=NOW)[0]
        assert not foresee(store, ["one"], now=NOW)[0]

    def test_a_job_is_something_from_exactly_its_time_on(self, store: Store) -> None:
        add(store, "x", run_at=NOW + MINUTE)
        assert not foresee(store, [], now=NOW + MINUTE - 1)[0]
        assert foresee(store, [], now=NOW + MINUTE)[0]

    def test_an_expired_job_needs_a_claim_to_be_buried(self, store: Store) -> None:
        add(store, "x", run_at=NOW + HOUR, expires_at=NOW + MINUTE)
        assert not foresee(store, [], now=NOW + MINUTE - 1)[0]
        assert foresee(store, [], now=NOW + MINUTE)[0]
        take(store, now=NOW + MINUTE)
        assert not foresee(store, [], now=NOW + MINUTE)[0]

    @pytest.mark.parametrize("paused", [True, False])
    def test_a_claim_in_vain_is_not_asked_for_again(self, store: Store, paused: bool) -> None:
        add(store, "x", run_at=NOW + 1, queue="one")
        if paused:
            store.settings.set_paused("one", paused=True, who="me", now=NOW)
        queues = [] if paused else ["two"]
        assert take(store, queues=queues, now=NOW + 1) == []
        assert not foresee(store, queues, now=NOW + 1)[0]

    @pytest.mark.needs("transactions")
    def test_looking_waits_for_nobody(self, store: Store, other: Store) -> None:
        with transaction(other):
            add(other, "x")
            assert not foresee(store, [], now=NOW)[0]
        assert foresee(store, [], now=NOW)[0]


def test_how_many_come_before_one(store: Store) -> None:
    for id in "abcd":
        add(store, id)
    add(store, "first", priority=1)
    add(store, "other", queue="other")
    add(store, "later", run_at=NOW + HOUR)
    assert [store.runs.before(the(store, id), 10) for id in ("first", "a", "d")] == [0, 1, 4]
    assert store.runs.before(the(store, "d"), 3) == 3
