"""Limits of queues: how many jobs run at once or begin in a time, over all nodes, and shares."""

from collections import Counter
from collections.abc import Sequence
from threading import Thread
from typing import Any

import pytest

from queuectl.admission import Offer
from queuectl.errors import QueueFullError
from queuectl.job import Exited, Job, NewJob, State
from queuectl.lifecycle import cancelled
from queuectl.limits import Limits, WhenFull, parse_rate
from queuectl.schedule import Schedule
from queuectl.store import Store
from queuectl.store.contract import Ticked
from queuectl.values import replace
from tests.contract.tools import (
    MINUTE,
    NOW,
    SECOND,
    Client,
    Engine,
    a_node,
    add,
    apply,
    ended,
    finish,
    ids,
    release,
    take,
    the,
)


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1")
    a_node(store, "node-2")


def limit(store: Store, queue: str = "default", **limits: Any) -> None:
    """Set the limits of a queue."""
    for name in ("rates", "key_rates"):
        if name in limits:
            limits[name] = tuple(map(parse_rate, limits[name]))
    store.settings.set_limits(queue, lambda _: Limits(**limits))


def fill(store: Store, names: str, **fields: Any) -> None:
    """Enqueue jobs whose ids are letters."""
    for id in names.split():
        add(store, id, **fields)


def end(store: Store, jobs: Sequence[Job], now: int = NOW + SECOND) -> None:
    """End runs well."""
    assert finish(store, [ended(job, Exited(0), now=now) for job in jobs]) == []


class TestAtOnce:
    def test_no_more_run_than_the_queue_allows(self, store: Store) -> None:
        limit(store, limit=2)
        fill(store, "a b c d")
        jobs = take(store, 3)
        assert ids(jobs) == ["a", "b"]
        assert take(store, 3, node="node-2") == []
        end(store, jobs[:1])
        assert ids(take(store, 3, node="node-2", now=NOW + SECOND)) == ["c"]
        assert take(store, 3, now=NOW + SECOND) == []

    def test_other_queues_go_on(self, store: Store) -> None:
        limit(store, limit=1)
        fill(store, "a b")
        fill(store, "x y z", queue="other")
        assert sorted(ids(take(store, 9))) == ["a", "x", "y", "z"]
        fill(store, "v w", queue="other")
        assert ids(take(store, 9, node="node-2")) == ["v", "w"]

    def test_no_more_run_than_a_key_allows(self, store: Store) -> None:
        limit(store, key_limit=1)
        fill(store, "a b c", keys=("k",))
        fill(store, "x y", keys=("l",))
        fill(store, "o p")
        first = take(store, 9)
        assert sorted(ids(first)) == ["a", "o", "p", "x"]
        assert take(store, 9, node="node-2") == []
        end(store, [job for job in first if job.id == "a"])
        assert ids(take(store, 9, now=NOW + SECOND)) == ["b"]
        end(store, [job for job in first if job.id == "x"])
        assert ids(take(store, 9, now=NOW + SECOND)) == ["y"]

    def test_a_key_may_have_a_limit_of_its_own(self, store: Store) -> None:
        limit(store, key_limit=1, key_limits={"gpu": 2, "tenant=b": 3})
        fill(store, "a b c", keys=("gpu",))
        fill(store, "m n", keys=("tenant=a",))
        fill(store, "w x y z", keys=("tenant=b",))
        assert sorted(ids(take(store, 20))) == ["a", "b", "m", "w", "x", "y"]

    def test_of_several_keys_each_needs_room(self, store: Store) -> None:
        limit(store, key_limit=1)
        add(store, "a", keys=("k",))
        add(store, "b", keys=("k", "l"))
        add(store, "c", keys=("l",))
        first = take(store, 9)
        assert sorted(ids(first)) == ["a", "c"]
        end(store, [job for job in first if job.id == "a"])
        assert take(store, 9, now=NOW + SECOND) == []
        end(store, [job for job in first if job.id == "c"])
        assert ids(take(store, 9, now=NOW + SECOND)) == ["b"]

    def test_room_that_one_can_not_use_is_for_the_next(self, store: Store) -> None:
        limit(store, key_limit=1)
        add(store, "a", keys=("k",))
        add(store, "z", keys=("l",))
        running = take(store, 2)
        add(store, "b", keys=("k", "l"))
        add(store, "c", keys=("k",))
        assert take(store, 9) == []
        end(store, [job for job in running if job.id == "a"])
        # The first that waited for k can't run, as l is taken; k is free for the next.
        assert ids(take(store, 9, now=NOW + SECOND)) == ["c"]

    def test_a_failed_run_leaves_room_too(self, store: Store) -> None:
        limit(store, limit=1, key_limit=1)
        fill(store, "a b", keys=("k",), max_retries=3, retry_delay=MINUTE)
        jobs = take(store, 2)
        finish(store, [ended(job, Exited(1), now=NOW + SECOND) for job in jobs])
        assert the(store, "a").state == State.FAILED
        assert ids(take(store, 2, now=NOW + SECOND)) == ["b"]

    def test_so_does_one_that_was_released(self, store: Store) -> None:
        limit(store, key_limit=1)
        fill(store, "a b", keys=("k",))
        jobs = take(store, 2)
        assert release(store, jobs, now=NOW + SECOND) == []
        assert ids(take(store, 2, node="node-2", now=NOW + SECOND)) == ["a"]

    def test_waiting_costs_no_retry(self, store: Store) -> None:
        limit(store, key_limit=1)
        fill(store, "a b", keys=("k",))
        take(store, 2)
        job = the(store, "b")
        assert (job.state, job.attempts, job.failures) == (State.PENDING, 0, 0)

    def test_priority_goes_before_age_for_the_next_slot(self, store: Store) -> None:
        limit(store, key_limit=1)
        fill(store, "a b", keys=("k",))
        first = take(store, 2)
        add(store, "c", keys=("k",), priority=5)
        take(store, 2)
        end(store, first)
        assert ids(take(store, 2, now=NOW + SECOND)) == ["c"]

    def test_one_that_is_called_off_before_it_began_leaves_its_room(self, store: Store) -> None:
        limit(store, key_limit=1)
        fill(store, "a b c", keys=("k",))
        first = take(store, 2)
        end(store, first)
        apply(store, the(store, "b"), cancelled(the(store, "b"), "by hand"), now=NOW)
        assert ids(take(store, 2, now=NOW + SECOND)) == ["c"]

    def test_the_slots_of_a_dead_node_are_free_again(self, store: Store) -> None:
        limit(store, limit=1, key_limit=1)
        fill(store, "a b", keys=("k",))
        take(store, 2)

        def plan(held: Sequence[Job], now: int) -> Any:
            from queuectl.store.contract import Over

            return Over(judge=lambda *_: [ended(one, Exited(0), now=now) for one in held])

        assert store.runs.rescue("node-1", plan) is not None
        assert ids(take(store, 2, node="node-2", now=NOW + 1)) == ["b"]

    def test_of_two_who_claim_at_once_one_waits(
        self, store: Store, other: Store, engine: Engine
    ) -> None:
        limit(store, limit=1)
        # Those that it looks at are locked by themselves; there are more.
        fill(store, "a b c d e f")
        found: list[list[str]] = []
        thread = Thread(target=lambda: found.append(ids(take(other, 2, node="node-2"))))
        # It has a connection, so that all that it may wait for is us.
        assert len(other.settings.queues()) == 1

        # There a claim first tries whether one statement is enough.
        commits = 2 if engine.name == "postgresql" else 1

        def wait() -> None:
            nonlocal commits
            commits -= 1
            if not commits:
                thread.start()
                thread.join(0.3)

        store.before_commit = wait
        assert ids(take(store, 2)) == ["a"]
        store.before_commit = None
        thread.join(30)
        assert found == [[]]

    def test_a_run_that_ends_while_others_find_it_full_makes_room(
        self, store: Store, other: Store, engine: Engine
    ) -> None:
        limit(store, limit=1)
        fill(store, "a b")
        running = take(store, 1)
        thread = Thread(target=lambda: end(other, running))
        # It has a connection, so that all that it may wait for is us.
        assert len(other.settings.queues()) == 1

        def wait() -> None:
            thread.start()
            thread.join(0.3)

        store.before_commit = wait
        assert take(store, 1, node="node-2") == []
        store.before_commit = None
        thread.join(30)
        assert ids(take(store, 1, node="node-2")) == ["b"]


class TestAhead:
    def test_jobs_of_one_worker_take_one_slot(self, store: Store) -> None:
        limit(store, limit=2, key_limit=1)
        fill(store, "a b c d", keys=("k",))
        fill(store, "e f g", keys=("l",))
        offer = Offer([1, 2, 3, 1, 1], idle=3)
        jobs = store.runs.turn("node-1", None, offer, now=NOW).jobs
        assert [(job.id, job.worker) for job in jobs] == [("a", 1), ("e", 2), ("b", 1), ("c", 1)]
        assert take(store, 9, node="node-2") == []
        # The slot is free when the last of its jobs is over.
        end(store, [job for job in jobs if job.id in ("a", "b")])
        assert take(store, 9, node="node-2", now=NOW + SECOND) == []
        end(store, [job for job in jobs if job.id == "c"])
        assert ids(take(store, 9, node="node-2", now=NOW + SECOND)) == ["d"]

    def test_jobs_of_other_keys_leave_others_half_of_the_room(self, store: Store) -> None:
        limit(store, key_limit=4)
        fill(store, "a", keys=("j",))
        fill(store, "b c", keys=("k",))
        taken = take(store, 3, node="node-2")
        assert ids(taken) == ["a", "b", "c"]
        fill(store, "d", keys=("j",))
        fill(store, "e f", keys=("k",))
        assert ids(take(store, 1)) == ["d"]
        # Of key k, half of the room is taken: what would wait for its turn leaves the rest.
        ahead = Offer([1, 1, 1], idle=0)
        assert store.runs.turn("node-1", None, ahead, now=NOW).jobs == []
        assert ids(take(store, 9, node="node-2")) == ["e", "f"]


class TestChanging:
    def test_a_higher_limit_holds_at_once(self, store: Store) -> None:
        limit(store, limit=1, key_limit=1)
        fill(store, "a b c", keys=("k",))
        assert len(take(store, 9)) == 1
        assert take(store, 9) == []
        limit(store, limit=3, key_limit=2)
        assert ids(take(store, 9)) == ["b"]

    def test_one_that_somebody_else_sets_holds_at_once(
        self, store: Store, other: Store, engine: Engine
    ) -> None:
        limit(store, limit=1)
        fill(store, "a b c d")
        end(store, take(store, 9))
        limit(other, limit=2)
        assert ids(take(store, 9, now=NOW + SECOND)) == ["b", "c"]

    def test_a_lower_one_lets_runs_go_on(self, store: Store) -> None:
        limit(store, limit=3)
        fill(store, "a b c d")
        running = take(store, 9)
        limit(store, limit=1)
        end(store, running[:2])
        assert take(store, 9, now=NOW + SECOND) == []
        end(store, running[2:])
        assert len(take(store, 9, now=NOW + SECOND)) == 1

    def test_none_is_none(self, store: Store) -> None:
        limit(store, limit=1, key_limit=1)
        fill(store, "a b c", keys=("k",))
        take(store, 9)
        take(store, 9)
        limit(store)
        assert ids(take(store, 9)) == ["b", "c"]

    def test_they_are_told(self, store: Store) -> None:
        limit(store, limit=3, rates=["5/s"], key_limits={"a": 2})
        [info] = store.settings.queues()
        assert info.limits == Limits(limit=3, rates=(parse_rate("5/1s"),), key_limits={"a": 2})

    def test_pausing_leaves_them(self, store: Store) -> None:
        limit(store, limit=1)
        store.settings.set_paused("default", paused=True, who="me", now=NOW)
        store.settings.set_paused("default", paused=False, who="me", now=NOW)
        fill(store, "a b")
        assert ids(take(store, 9)) == ["a"]


class TestRates:
    def test_no_more_begin_than_a_rate_allows(self, store: Store) -> None:
        limit(store, rates=["2/10s"])
        fill(store, "a b c d e")
        assert ids(take(store, 9)) == ["a", "b"]
        assert take(store, 9, now=NOW + 4 * SECOND) == []
        assert ids(take(store, 9, now=NOW + 5 * SECOND)) == ["c"]
        assert ids(take(store, 9, now=NOW + 60 * SECOND)) == ["d", "e"]

    def test_each_of_several_must_allow_it(self, store: Store) -> None:
        limit(store, rates=["1/1s", "3/60s"])
        fill(store, "a b c d e")
        begun = [(second, *ids(take(store, 9, now=NOW + second * SECOND))) for second in range(50)]
        assert [one for one in begun if len(one) > 1] == [
            (0, "a"),
            (1, "b"),
            (2, "c"),
            (20, "d"),
            (40, "e"),
        ]

    def test_a_key_has_a_rate_of_its_own(self, store: Store) -> None:
        limit(store, key_rates=["1/10s"])
        fill(store, "a b c", keys=("k",))
        fill(store, "x y", keys=("l",))
        assert sorted(ids(take(store, 9))) == ["a", "x"]
        assert take(store, 9, now=NOW + 9 * SECOND) == []
        assert sorted(ids(take(store, 9, now=NOW + 10 * SECOND))) == ["b", "y"]
        assert ids(take(store, 9, now=NOW + 20 * SECOND)) == ["c"]

    def test_a_run_that_never_began_is_given_back(self, store: Store) -> None:
        limit(store, rates=["1/10s"], key_rates=["1/10s"])
        fill(store, "a b", keys=("k",))
        jobs = take(store, 1)
        release(store, jobs, now=NOW + SECOND)
        assert ids(take(store, 9, now=NOW + 2 * SECOND)) == ["a"]
        assert take(store, 9, now=NOW + 3 * SECOND) == []

    def test_a_clock_that_is_put_back_closes_nothing_for_long(self, store: Store) -> None:
        limit(store, rates=["2/10s"], key_rates=["1/10s"])
        fill(store, "a b c", keys=("k",))
        later = NOW + 60 * MINUTE
        assert ids(take(store, 9, now=later)) == ["a"]
        store.tidy(now=NOW)
        assert take(store, 9, now=NOW) == []
        assert ids(take(store, 9, now=NOW + 10 * SECOND)) == ["b"]


class TestShares:
    def test_keys_take_turns(self, store: Store) -> None:
        fill(store, "a1 a2 a3 a4", keys=("a",))
        fill(store, "b1 b2", keys=("b",))
        fill(store, "c1")
        add(store, "u1", is_limited=True)
        order = [take(store, 1)[0].id for _ in range(8)]
        assert order[:3] == ["a1", "b1", "c1"]
        assert order[3:] == ["u1", "a2", "b2", "a3", "a4"]

    def test_priority_goes_first(self, store: Store) -> None:
        fill(store, "a1 a2 a3", keys=("a",))
        add(store, "b1", keys=("b",))
        add(store, "a4", keys=("a",), priority=1)
        assert ids(take(store, 3)) == ["a4", "a1", "b1"]

    def test_who_was_away_has_not_saved_up(self, store: Store) -> None:
        fill(store, "a1 a2 a3 a4 a5 a6", keys=("a",))
        assert len(take(store, 3)) == 3
        fill(store, "b1 b2 b3", keys=("b",))
        assert ids(take(store, 6)) == ["b1", "a4", "b2", "a5", "b3", "a6"]

    def test_weights(self, store: Store) -> None:
        limit(store, weights={"a": 3})
        store.jobs.enqueue(
            [
                NewJob(id=f"{key}{n}", command="true", keys=(key,))
                for key in "ab"
                for n in range(40)
            ],
            now=NOW,
        )
        assert Counter(job.id[0] for job in take(store, 40)) == {"a": 30, "b": 10}

    def test_one_with_ten_thousand_does_not_hold_up_fifty(self, store: Store) -> None:
        many = [NewJob(id=f"big{n}", command="true", keys=("big",)) for n in range(1_000)]
        store.jobs.enqueue(many, now=NOW)
        few = [
            NewJob(id=f"k{key}-{n}", command="true", keys=(f"k{key}",))
            for key in range(50)
            for n in range(5)
        ]
        store.jobs.enqueue(few, now=NOW)
        begun = [job.id for _ in range(10) for job in take(store, 27)]
        assert sum(id.startswith("k") for id in begun[:256]) == 250


def where(store: Store, *names: str) -> str:
    """Return the first letters of the states of jobs."""
    return "".join(the(store, id).state[:2] + " " for id in names).strip()


@pytest.mark.needs("transactions")
class TestWhenFull:
    def test_rejected(self, store: Store) -> None:
        limit(store, max_waiting=2)
        fill(store, "a b", is_limited=True)
        with pytest.raises(QueueFullError, match="Queue default is full; nothing was enqueued"):
            add(store, "c", is_limited=True)
        take(store, 1)
        add(store, "c", is_limited=True)
        with pytest.raises(QueueFullError):
            add(store, "d", is_limited=True)
        assert store.jobs.get("d") is None

    def test_of_several_all_or_none(self, store: Store) -> None:
        limit(store, max_waiting=2)
        many = [NewJob(id=f"{n}", command="true", is_limited=True) for n in range(3)]
        with pytest.raises(QueueFullError):
            store.jobs.enqueue(many, now=NOW)
        assert store.jobs.counts() == []

    def test_slots_come_on_top(self, store: Store) -> None:
        limit(store, limit=1, max_waiting=1)
        fill(store, "a b", is_limited=True)
        with pytest.raises(QueueFullError):
            add(store, "c", is_limited=True)

    def test_the_newest_is_dropped(self, store: Store) -> None:
        limit(store, key_limit=1, when_full=WhenFull.DROP_NEWEST)
        fill(store, "a b", keys=("k",))
        fill(store, "x", keys=("l",))
        assert where(store, "a", "b", "x") == "pe ca pe"
        assert the(store, "b").reason == "Key k of queue default was full when it came"
        assert [event.kind for event in store.history.events("b")] == ["cancel"]

    def test_the_one_that_waits_is_replaced(self, store: Store) -> None:
        limit(store, key_limit=1, when_full=WhenFull.REPLACE_WAITING)
        add(store, "a", keys=("k",))
        take(store, 1)
        fill(store, "b c d", keys=("k",))
        assert where(store, "a", "b", "c", "d") == "pr ca ca pe"

    def test_also_by_one_that_comes_with_it(self, store: Store) -> None:
        limit(store, key_limit=1, when_full=WhenFull.REPLACE_WAITING)
        many = [NewJob(id=id, command="true", keys=("k",)) for id in "abc"]
        store.jobs.enqueue(many, now=NOW)
        assert where(store, "a", "b", "c") == "ca ca pe"

    def test_the_one_that_runs_is_ended(self, store: Store) -> None:
        limit(store, limit=1, when_full=WhenFull.CANCEL_RUNNING)
        add(store, "a", is_limited=True)
        take(store, 1)
        fill(store, "b c", is_limited=True)
        assert where(store, "a", "b", "c") == "pr ca pe"
        assert the(store, "a").cancel_reason == "Queue default was full, and b took its place"

    def test_all_that_wait_are_cancelled_however_many(self, store: Store) -> None:
        limit(store, max_waiting=1_200, when_full=WhenFull.CANCEL_RUNNING)
        many = [NewJob(id=f"{n}", command="true", is_limited=True) for n in range(1_200)]
        store.jobs.enqueue(many, now=NOW)
        add(store, "new", is_limited=True)
        assert {count.state: count.jobs for count in store.jobs.counts()} == {
            State.CANCELLED: 1_200,
            State.PENDING: 1,
        }

    def test_also_those_that_wait_for_a_retry(self, store: Store) -> None:
        limit(store, max_waiting=2, when_full=WhenFull.CANCEL_RUNNING)
        fill(store, "a b", is_limited=True, max_retries=1, retry_delay=MINUTE)
        [job] = take(store, 1)
        finish(store, [ended(job, Exited(1))])
        assert where(store, "a", "b") == "fa pe"
        add(store, "c", is_limited=True)
        assert where(store, "a", "b", "c") == "ca ca pe"

    def test_those_go_that_have_waited_longest_however_many_come(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("queuectl.store.crowding.AT_ONCE", 2)
        limit(store, max_waiting=5, when_full=WhenFull.REPLACE_WAITING)
        fill(store, "a b c d e", is_limited=True)
        come = [NewJob(id=id, command="true", is_limited=True) for id in "vwxyz"]
        assert store.jobs.enqueue(come[:4], now=NOW).dropped == ()
        assert where(store, *"abcde", *"vwxy") == "ca ca ca ca pe pe pe pe pe"
        assert store.jobs.enqueue(come[4:], now=NOW).dropped == ()
        more = [NewJob(id=f"{n}", command="true", is_limited=True) for n in range(7)]
        assert store.jobs.enqueue(more, now=NOW).dropped == ("0", "1")

    def test_more_of_a_key_than_are_looked_at_in_one_step(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("queuectl.store.crowding.AT_ONCE", 2)
        limit(store, key_limit=5, when_full=WhenFull.REPLACE_WAITING)
        fill(store, "a b c d e", keys=("k",))
        add(store, "other", keys=("l",))
        fill(store, "x y", keys=("k",))
        assert where(store, *"abcde", "other", *"xy") == "ca ca pe pe pe pe pe pe"

    def test_who_went_for_the_queue_is_not_counted_for_its_key(self, store: Store) -> None:
        limit(store, limit=3, key_limits={"k": 2}, when_full=WhenFull.REPLACE_WAITING)
        fill(store, "a b", keys=("k",))
        add(store, "c", is_limited=True)
        come = [("d", ()), ("e", ("k",)), ("f", ("k",))]
        news = [NewJob(id=id, command="true", keys=keys, is_limited=True) for id, keys in come]
        store.jobs.enqueue(news, now=NOW)
        # For d, a went; for e there is room by then; f takes the place of b.
        assert where(store, *"abcdef") == "ca ca pe pe pe pe"

    def test_a_tick_that_is_refused_is_skipped(self, store: Store) -> None:
        limit(store, key_limit=1, when_full=WhenFull.REJECT)
        add(store, "a", keys=("k",))

        def look(schedule: Schedule, newest: Job | None, now: int) -> Ticked:
            new = NewJob(command="true", keys=("k",) if schedule.name == "full" else ())
            return Ticked(replace(schedule, done_until=now, next_at=now + 1), [(now, new)])

        for name in ("full", "other"):
            store.schedules.change(name, lambda _, now: a_schedule(name))  # noqa: B023
        assert len(store.schedules.tick(look, now=NOW)) == 1
        done = {one.name: (one.done_until, one.last_job is None) for one in store.schedules.all()}
        assert done == {"full": (NOW, True), "other": (NOW, False)}
        events = [event.detail for event in store.history.events() if event.kind == "schedule"]
        assert events == ["full: skipped: Key k of queue default is full; nothing was enqueued."]
        with pytest.raises(QueueFullError):
            store.schedules.tick(look, name="full", now=NOW + 1)


def a_schedule(name: str) -> Schedule:
    """Return one that is due."""
    return Schedule(
        name=name,
        rule="every 1m",
        zone="UTC",
        anchor=NOW,
        request={"command": "true"},
        done_until=NOW - 1,
        next_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )


class TestUpkeep:
    def test_what_somebody_forgot_is_brought_back(self, store: Store, client: Client) -> None:
        limit(store, key_limit=1)
        fill(store, "a b c", keys=("k",))
        first = take(store, 3)
        assert ids(first) == ["a"]
        client.run("UPDATE {jobs} SET state = 'completed', node = NULL WHERE id = 'a'")
        assert take(store, 3, now=NOW + SECOND) == []
        store.tidy(now=NOW + SECOND)
        assert ids(take(store, 3, now=NOW + SECOND)) == ["b"]

    def test_idle_keys_are_forgotten(self, store: Store, client: Client) -> None:
        limit(store, key_rates=["1/10s"])
        for key in "abcd":
            add(store, key, keys=(key,))
        take(store, 4)
        add(store, "more", keys=("a",))
        store.tidy(now=NOW + SECOND)
        assert len(client.run("SELECT name FROM {keys}")) == 4
        assert ids(take(store, 3, now=NOW + MINUTE)) == ["more"]
        store.tidy(now=NOW + MINUTE + SECOND)
        # The others aren't ahead of the queue any more, and may go on at any time.
        assert client.run("SELECT name FROM {keys}") == [("a",)]
