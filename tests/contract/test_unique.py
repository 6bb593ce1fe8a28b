"""Unique keys: one job at a time has one, and what becomes of requests for it then."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from queuectl.errors import BadJobError, DuplicateError, QueueFullError, StateError
from queuectl.facts import Batch
from queuectl.filter import Filter
from queuectl.job import Exited, Job, NewJob, State, handler_of
from queuectl.lifecycle import retried
from queuectl.limits import Limits, WhenFull
from queuectl.store import Store
from queuectl.store.contract import Decision
from queuectl.store.naming import Names
from queuectl.store.sqlstore import SqlStore
from queuectl.uniqueness import OnDuplicate, Until
from tests.contract.test_schedules import a_schedule, makes
from tests.contract.tools import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_node,
    add,
    ended,
    finish,
    ids,
    take,
    the,
)

RETURN, REJECT, REPLACE, DEBOUNCE = OnDuplicate


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store, "node-1")


def ask(store: Store, *ids: str, now: int = NOW, skip: bool = False, **fields: Any) -> Batch:
    """Ask for jobs with one and the same unique key."""
    news = [NewJob(**{"id": id, "command": f"echo {id}", "unique": "k", **fields}) for id in ids]
    return store.jobs.enqueue(news, now=now, skip_duplicates=skip)


def all_of(store: Store) -> list[str]:
    """Return the ids of all jobs, in line."""
    from queuectl.filter import Filter

    return ids(store.jobs.select(Filter(), limit=None, oldest=True))


def end(store: Store, job: Job, code: int = 0, now: int = NOW) -> None:
    """End a run."""
    finish(store, [ended(job, Exited(code))])


def retry(store: Store, *ids: str, now: int = NOW) -> None:
    """Put jobs back in line."""
    jobs = [the(store, id) for id in ids]
    store.jobs.change(
        jobs, lambda held, now: {seq: Decision(retried(now)) for seq in held}, now=now
    )


class TestWhoHasIt:
    def test_one_that_waits_is_the_answer(self, store: Store) -> None:
        assert ask(store, "a") == Batch(ids=("a",))
        assert ask(store, "b") == Batch(ids=("a",), existing=("a",))
        assert all_of(store) == ["a"]
        assert the(store, "a").unique_key == "k"

    def test_one_job_at_a_time_is_returned_as_it_is(self, store: Store) -> None:
        first = store.jobs.enqueue_one(NewJob(command="x", unique="k"), now=NOW)
        again = store.jobs.enqueue_one(NewJob(command="y", unique="k"), now=NOW + 1)
        assert again == first

    def test_other_keys_and_no_keys_are_free(self, store: Store) -> None:
        ask(store, "a")
        ask(store, "b", unique="K")
        add(store, "c")
        assert all_of(store) == ["a", "b", "c"]

    def test_it_is_had_while_it_runs_and_waits_for_a_retry(self, store: Store) -> None:
        ask(store, "a", max_retries=1, retry_delay=HOUR)
        (job,) = take(store, 1)
        assert ask(store, "b").existing == ("a",)
        end(store, job, 1)
        assert the(store, "a").state == State.FAILED
        assert ask(store, "b").existing == ("a",)

    @pytest.mark.parametrize("code", [0, 1])
    def test_its_end_frees_it(self, store: Store, code: int) -> None:
        ask(store, "a", max_retries=0)
        (job,) = take(store, 1)
        end(store, job, code)
        assert ask(store, "b") == Batch(ids=("b",))
        assert ask(store, "c").existing == ("b",)

    def test_until_its_start(self, store: Store) -> None:
        ask(store, "a", unique_until=Until.START)
        assert ask(store, "b", unique_until=Until.START).existing == ("a",)
        take(store, 1)
        assert ask(store, "b", unique_until=Until.START).existing == ()
        assert ask(store, "c", unique_until=Until.START).existing == ("b",)

    def test_for_a_time(self, store: Store) -> None:
        ask(store, "a", unique_for=HOUR)
        (job,) = take(store, 1)
        end(store, job)
        assert ask(store, "b", now=NOW + HOUR - 1).existing == ("a",)
        assert ask(store, "b", now=NOW + HOUR) == Batch(ids=("b",))

    def test_for_a_time_and_until_its_end(self, store: Store) -> None:
        ask(store, "a", unique_for=MINUTE)
        assert ask(store, "b", now=NOW + HOUR).existing == ("a",)

    def test_one_that_is_removed_has_nothing(self, store: Store) -> None:
        ask(store, "a", unique_for=HOUR)
        store.jobs.change([the(store, "a")], lambda held, _: {s: Decision(None) for s in held})
        assert ask(store, "b") == Batch(ids=("b",))

    def test_another_job_of_its_id_has_nothing(self, store: Store) -> None:
        ask(store, "a")
        store.jobs.change([the(store, "a")], lambda held, _: {s: Decision(None) for s in held})
        add(store, "a")
        assert ask(store, "b") == Batch(ids=("b",))

    def test_one_whose_id_is_taken_may_be_the_answer(self, store: Store) -> None:
        ask(store, "a")
        assert ask(store, "a").existing == ("a",)

    def test_what_is_taken_by_another_takes_no_key(self, store: Store) -> None:
        add(store, "a")
        assert ask(store, "a", skip=True).duplicates == ("a",)
        assert ask(store, "b") == Batch(ids=("b",))
        with pytest.raises(DuplicateError, match="'a'"):
            ask(store, "a", on_duplicate=REPLACE)
        assert the(store, "b").state == State.PENDING

    def test_several_at_once(self, store: Store) -> None:
        assert ask(store, "a", "b", "c") == Batch(ids=("a", "a", "a"), existing=("a", "a"))
        assert all_of(store) == ["a"]

    def test_keys_between_plain_ones_keep_the_order(self, store: Store) -> None:
        news = [
            NewJob(id=id, command=id, unique=key)
            for id, key in (("a", None), ("b", "k"), ("c", None), ("d", "k"), ("e", "l"))
        ]
        batch = store.jobs.enqueue(news, now=NOW)
        assert batch == Batch(ids=("a", "b", "c", "b", "e"), existing=("b",))
        assert ids(take(store, 5)) == ["a", "b", "c", "e"]


class TestReject:
    def test_it_names_who_has_it(self, store: Store) -> None:
        ask(store, "a")
        with pytest.raises(DuplicateError, match=r"Job a has the unique key 'k', and waits; "):
            ask(store, "b", on_duplicate=REJECT)
        assert all_of(store) == ["a"]

    def test_or_is_passed_over(self, store: Store) -> None:
        ask(store, "a")
        batch = ask(store, "b", on_duplicate=REJECT, skip=True)
        assert (batch.ids, len(batch.refused)) == ((), 1)

    def test_which_are_passed_over(self, store: Store) -> None:
        ask(store, "a", "b")
        ids: dict[str, Any] = {"c": {"unique": "l"}, "d": {}, "e": {"unique": "m"}, "f": {}}
        news = [
            NewJob(**{"id": id, "command": id, "unique": "k", "on_duplicate": REJECT, **one})
            for id, one in ids.items()
        ]
        batch = store.jobs.enqueue(news, now=NOW, skip_duplicates=True)
        assert (batch.ids, batch.refused_at) == (("c", "e"), (1, 3))
        assert batch.refused == ("Job a has the unique key 'k', and waits.",) * 2


class TestParents:
    def test_who_has_the_key_is_waited_for(self, store: Store) -> None:
        ask(store, "there")
        news = [
            NewJob(id="a", command="a", unique="k"),
            NewJob(id="b", command="b", after=("a:any", "c")),
        ]
        add(store, "c")
        batch = store.jobs.enqueue(news, now=NOW)
        assert batch == Batch(ids=("there", "b"), existing=("there",))
        job = the(store, "b")
        assert (job.state, job.after) == (State.BLOCKED, ("there:any", "c"))
        assert {edge.parent_id for edge in store.jobs.parents([job])} == {"there", "c"}
        for one in take(store, 2):
            end(store, one)
        assert the(store, "b").state == State.PENDING

    def test_once_though_several_name_it(self, store: Store) -> None:
        ask(store, "there")
        two = [NewJob(id=id, command=id, unique="k") for id in "ab"]
        child = NewJob(id="c", command="c", after=("a:any", "b"))
        store.jobs.enqueue([*two, child], now=NOW)
        assert the(store, "c").after == ("there",)
        child = NewJob(id="d", command="d", after=("a:fail", "b"))
        with pytest.raises(BadJobError, match="have the same unique key, which job there has"):
            store.jobs.enqueue([*two, child], now=NOW)

    def test_one_that_was_debounced(self, store: Store) -> None:
        ask(store, "there")
        news = [
            NewJob(id="a", command="a", unique="k", on_duplicate=DEBOUNCE),
            NewJob(id="b", command="b", after=("a",)),
        ]
        store.jobs.enqueue(news, now=NOW)
        assert the(store, "b").after == ("there",)


class TestReplace:
    def test_one_that_waits_is_cancelled(self, store: Store) -> None:
        ask(store, "a")
        assert ask(store, "b", on_duplicate=REPLACE) == Batch(ids=("b",))
        assert the(store, "a").state == State.CANCELLED
        assert the(store, "a").reason == "b took its place and its unique key 'k'"
        assert ask(store, "c").existing == ("b",)
        assert [e.job for e in store.history.events() if e.kind == "cancel"] == ["a"]

    def test_one_that_runs_is_to_end(self, store: Store) -> None:
        ask(store, "a")
        take(store, 1)
        ask(store, "b", on_duplicate=REPLACE)
        assert the(store, "a").cancel_reason is not None
        assert ask(store, "c").existing == ("b",)

    def test_one_of_the_same_request(self, store: Store) -> None:
        assert ask(store, "a", "b", on_duplicate=REPLACE).ids == ("a", "b")
        assert the(store, "a").state == State.CANCELLED
        assert ids(take(store, 3)) == ["b"]

    @pytest.mark.needs("transactions")
    def test_it_takes_the_room_of_the_other(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(max_waiting=1))
        ask(store, "a", is_limited=True)
        assert ask(store, "b", is_limited=True, on_duplicate=REPLACE).ids == ("b",)
        assert ids(take(store, 2)) == ["b"]

    @pytest.mark.needs("transactions")
    def test_one_that_its_queue_drops_replaces_nobody(self, store: Store) -> None:
        full = Limits(max_waiting=1, when_full=WhenFull.DROP_NEWEST)
        store.settings.set_limits("full", lambda _: full)
        add(store, "there", queue="full", is_limited=True)
        ask(store, "a")
        batch = ask(store, "b", queue="full", is_limited=True, on_duplicate=REPLACE)
        assert batch.dropped == ("b",)
        assert the(store, "a").state == State.PENDING
        assert ask(store, "c").existing == ("a",)

    @pytest.mark.needs("transactions")
    @pytest.mark.parametrize("how", [WhenFull.DROP_NEWEST, WhenFull.REJECT])
    def test_one_that_is_not_let_in_leaves_who_runs_alone(
        self, store: Store, how: WhenFull
    ) -> None:
        store.settings.set_limits("default", lambda _: Limits(limit=1, when_full=how))
        ask(store, "a", is_limited=True)
        (job,) = take(store, 1)
        if how == WhenFull.REJECT:
            with pytest.raises(QueueFullError):
                ask(store, "b", is_limited=True, on_duplicate=REPLACE)
        else:
            assert ask(store, "b", is_limited=True, on_duplicate=REPLACE).dropped == ("b",)
        assert the(store, "a").cancel_reason is None
        assert ask(store, "c", is_limited=True).existing == ("a",)
        end(store, job)
        assert the(store, "a").state == State.COMPLETED

    @pytest.mark.needs("transactions")
    def test_one_that_is_not_let_in_leaves_who_waits_alone(self, store: Store) -> None:
        add(store, "other", is_limited=True)
        add(store, "more", is_limited=True)
        ask(store, "a", is_limited=True)
        full = Limits(max_waiting=2, when_full=WhenFull.DROP_NEWEST)
        store.settings.set_limits("default", lambda _: full)
        # Of three that wait, two may: the place of one of them is none.
        assert ask(store, "b", is_limited=True, on_duplicate=REPLACE).dropped == ("b",)
        assert the(store, "a").state == State.PENDING
        assert ask(store, "c", is_limited=True).existing == ("a",)

    @pytest.mark.needs("transactions")
    def test_several_that_are_not_let_in_leave_it_alone(self, store: Store) -> None:
        full = Limits(limit=1, when_full=WhenFull.DROP_NEWEST)
        store.settings.set_limits("default", lambda _: full)
        ask(store, "a", is_limited=True)
        take(store, 1)
        batch = ask(store, "b", "c", is_limited=True, on_duplicate=REPLACE)
        assert batch.dropped == ("b", "c")
        assert the(store, "a").cancel_reason is None
        assert ask(store, "d", is_limited=True).existing == ("a",)

    @pytest.mark.needs("transactions")
    def test_one_takes_the_room_of_one_that_came_with_it(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(max_waiting=1))
        batch = ask(store, "a", "b", is_limited=True, on_duplicate=REPLACE)
        assert (batch.ids, batch.dropped) == (("a", "b"), ("a",))
        assert ids(take(store, 2)) == ["b"]

    @pytest.mark.needs("transactions")
    def test_one_that_is_let_in_replaces_who_was_there_before_one_that_was_not(
        self, store: Store
    ) -> None:
        full = Limits(max_waiting=1, when_full=WhenFull.DROP_NEWEST)
        store.settings.set_limits("full", lambda _: full)
        add(store, "there", queue="full", is_limited=True)
        ask(store, "a")
        how: dict[str, Any] = {"command": "x", "unique": "k", "on_duplicate": REPLACE}
        news = [NewJob(id="b", queue="full", is_limited=True, **how), NewJob(id="c", **how)]
        assert store.jobs.enqueue(news, now=NOW).dropped == ("b",)
        assert the(store, "a").reason == "c took its place and its unique key 'k'"
        assert ask(store, "d").existing == ("c",)


class TestDebounce:
    def test_many_large_ones_at_once(self, store: Store) -> None:
        """More than some servers take in one message."""
        for letter in "ab":
            large = letter * 300_000
            jobs = [
                NewJob(command=large, unique=f"k{n}", on_duplicate=DEBOUNCE, delay=MINUTE)
                for n in range(64)
            ]
            store.jobs.enqueue(jobs, now=NOW)
        found = store.jobs.select(Filter(), limit=None)
        assert [(len(job.command or ""), (job.command or "")[:1]) for job in found] == [
            (300_000, "b")
        ] * 64

    def test_the_later_request_takes_its_place(self, store: Store) -> None:
        add(store, "other")
        ask(store, "a", delay=MINUTE, stdin=b"old", tags=("red",), body_digest="old")
        batch = ask(
            store,
            "b",
            body_digest="newer",
            now=NOW + SECOND,
            on_duplicate=DEBOUNCE,
            delay=MINUTE,
            stdin=b"newer",
            tags=("blue",),
            priority=3,
        )
        assert batch == Batch(ids=("a",), existing=("a",))
        job = the(store, "a")
        assert (job.command, job.priority, job.tags) == ("echo b", 3, ("blue",))
        assert (job.created_at, job.run_at) == (NOW, NOW + SECOND + MINUTE)
        assert store.jobs.stdin(job) == b"newer"
        assert job.stdin_bytes == 5
        # It is the job of the request that made it, and has its id.
        assert job.body_digest == "old"
        assert [e.job for e in store.history.events() if e.kind == "debounce"] == ["a"]
        assert ids(take(store, 2, now=NOW + MINUTE)) == ["other"]
        assert ids(take(store, 2, now=NOW + MINUTE + SECOND)) == ["a"]

    def test_a_command_becomes_data_for_a_handler_and_the_other_way_round(
        self, store: Store
    ) -> None:
        for asked in (
            NewJob(id="a", command="true", unique="u"),
            NewJob(id="b", type="t", data=b"x", unique="u", on_duplicate=DEBOUNCE),
            NewJob(id="c", type="other", data=b"x", unique="u", on_duplicate=DEBOUNCE),
            NewJob(id="d", argv=("true",), unique="u", on_duplicate=DEBOUNCE),
        ):
            store.jobs.enqueue([asked], now=NOW)
            job = the(store, "a")
            assert (job.handler, job.type) == (handler_of(asked.type), asked.type)

    def test_the_first_waits_no_longer_than_it_can(self, store: Store) -> None:
        how: dict[str, Any] = {"on_duplicate": DEBOUNCE, "delay": MINUTE, "max_wait": 2 * MINUTE}
        for second in range(0, 110, 10):
            ask(store, "a", now=NOW + second * SECOND, **how)
        assert the(store, "a").run_at == NOW + 2 * MINUTE
        ask(store, "a", now=NOW + HOUR, **how)
        assert ids(take(store, 1, now=NOW + HOUR)) == ["a"]

    def test_one_that_runs_stays_what_it_is(self, store: Store) -> None:
        ask(store, "a")
        take(store, 1)
        with pytest.raises(DuplicateError, match="and runs; only a job that waits"):
            ask(store, "b", on_duplicate=DEBOUNCE)

    def test_one_that_has_started_frees_the_key(self, store: Store) -> None:
        how: dict[str, Any] = {"on_duplicate": DEBOUNCE, "unique_until": Until.START}
        ask(store, "a", **how)
        take(store, 1)
        assert ask(store, "b", **how) == Batch(ids=("b",))

    def test_one_of_the_same_request(self, store: Store) -> None:
        batch = ask(store, "a", "b", on_duplicate=DEBOUNCE, delay=MINUTE)
        assert batch == Batch(ids=("a", "a"), existing=("a",))
        assert the(store, "a").command == "echo b"

    def test_to_another_key_of_a_limit(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(key_limit=1))
        ask(store, "a", keys=("x",), unique="other")
        ask(store, "b", keys=("x",))
        assert ids(take(store, 2)) == ["a"]
        ask(store, "c", keys=("y",), on_duplicate=DEBOUNCE)
        assert ids(take(store, 2)) == ["b"]

    def test_the_first_request_is_bound_as_well(self, store: Store) -> None:
        ask(store, "a", on_duplicate=DEBOUNCE, delay=HOUR, max_wait=MINUTE)
        assert the(store, "a").run_at == NOW + MINUTE

    def test_it_has_the_key_as_the_later_request_says(self, store: Store) -> None:
        ask(store, "a")
        until: dict[str, Any] = {"on_duplicate": DEBOUNCE, "unique_until": Until.START}
        ask(store, "b", **until)
        take(store, 1)
        assert ask(store, "b", **until) == Batch(ids=("b",))
        ask(store, "c", on_duplicate=DEBOUNCE, unique_for=HOUR)
        (job,) = take(store, 1)
        end(store, job)
        assert ask(store, "d").existing == ("b",)

    def test_one_that_is_ready_waits_again(self, store: Store) -> None:
        ask(store, "a")
        ask(store, "b", on_duplicate=DEBOUNCE, delay=MINUTE)
        assert take(store, 1) == []


class TestRetry:
    def test_it_takes_its_key_again(self, store: Store) -> None:
        ask(store, "a")
        (job,) = take(store, 1)
        end(store, job)
        retry(store, "a")
        assert ask(store, "b").existing == ("a",)

    def test_who_has_it_is_named(self, store: Store) -> None:
        ask(store, "a")
        (job,) = take(store, 1)
        end(store, job)
        ask(store, "b")
        with pytest.raises(
            DuplicateError, match="Job b has the unique key 'k', and waits; a can't"
        ):
            retry(store, "a")
        assert the(store, "a").state == State.COMPLETED

    @pytest.mark.needs("transactions")
    def test_of_two_who_had_it_one(self, store: Store) -> None:
        for id in "ab":
            ask(store, id)
            (job,) = take(store, 1)
            end(store, job)
        with pytest.raises(DuplicateError):
            retry(store, "a", "b")
        assert {the(store, id).state for id in "ab"} == {State.COMPLETED}

    def test_until_it_starts_again(self, store: Store) -> None:
        ask(store, "a", unique_until=Until.START)
        (job,) = take(store, 1)
        end(store, job)
        retry(store, "a")
        assert ask(store, "b", unique_until=Until.START).existing == ("a",)
        take(store, 1)
        assert ask(store, "b", unique_until=Until.START).existing == ()

    def test_a_delay_that_is_cut_short_is_no_matter(self, store: Store) -> None:
        ask(store, "a", delay=HOUR)
        retry(store, "a")
        assert ids(take(store, 1)) == ["a"]


class TestTicks:
    def test_a_tick_that_would_be_a_duplicate_makes_no_job(self, store: Store) -> None:
        ask(store, "a")
        a_schedule(store)
        assert store.schedules.tick(makes(NOW + HOUR, unique="k"), now=NOW + HOUR) == []
        (event,) = [event for event in store.history.events() if event.kind == "schedule"]
        assert event.detail is not None
        assert "Job a has the unique key 'k', and waits" in event.detail
        assert all_of(store) == ["a"]

    def test_by_hand_it_is_an_error(self, store: Store) -> None:
        ask(store, "a")
        a_schedule(store)
        with pytest.raises(DuplicateError):
            store.schedules.tick(makes(NOW + 1, unique="k"), name="hourly", now=NOW + HOUR)

    def test_or_it_replaces_the_one_before(self, store: Store) -> None:
        a_schedule(store)
        how: dict[str, Any] = {"unique": "k", "on_duplicate": REPLACE}
        (first,) = store.schedules.tick(makes(NOW + HOUR, **how), now=NOW + HOUR)
        (second,) = store.schedules.tick(makes(NOW + 2 * HOUR, **how), now=NOW + 2 * HOUR)
        assert the(store, first.id).state == State.CANCELLED
        assert the(store, second.id).state == State.PENDING


def test_keys_of_jobs_that_are_gone_are_forgotten(store: Store) -> None:
    ask(store, "a")
    (job,) = take(store, 1)
    end(store, job)
    assert store.jobs.prune(State.COMPLETED, NOW + HOUR, limit=10) == 1
    db = getattr(store, "db", None)
    assert db is None or db.rows("SELECT count(*) FROM {uniques}") == [(0,)]
    assert ask(store, "b") == Batch(ids=("b",))


def test_nothing_is_left_of_a_request_that_fails(store: Store) -> None:
    ask(store, "a")
    with pytest.raises(StateError):
        ask(store, "b", "c", unique="k", on_duplicate=REJECT)
    with pytest.raises(DuplicateError):
        store.jobs.enqueue(
            [
                NewJob(id="b", command="x", unique="free"),
                NewJob(id="c", command="x", unique="k", on_duplicate=REJECT),
            ],
            now=NOW,
        )
    assert ask(store, "d", unique="free") == Batch(ids=("d",))


@pytest.mark.needs("transactions")
@pytest.mark.parametrize("how", [RETURN, REPLACE])
def test_of_many_who_ask_at_once_one_has_it(store: Store, how: OnDuplicate) -> None:
    many = 6
    at_once = Barrier(many, timeout=100)

    def ask_for(key: str) -> str:
        at_once.wait()
        new = NewJob(command="x", unique=key, on_duplicate=how)
        return store.jobs.enqueue_one(new, now=NOW).id

    with ThreadPoolExecutor(many) as pool:
        for key in ("k1", "k2", "k3", "k4", "k5"):
            told = list(pool.map(ask_for, [key] * many))
            jobs = [the(store, id) for id in all_of(store)]
            have = [job.id for job in jobs if job.unique_key == key and job.state == State.PENDING]
            assert len(have) == 1
            assert set(have) <= set(told)
            assert how == REPLACE or set(told) == set(have)


@pytest.mark.needs("transactions")
def test_who_has_it_is_known_though_it_has_another_place_meanwhile(store: Store) -> None:
    assert isinstance(store, SqlStore)
    if not store.db.driver.remote:
        return  # nobody else can write meanwhile
    ask(store, "a")
    add(store, "other")
    jobs = the(store, "a"), the(store, "other")

    def look() -> str | None:
        names = Names(store.db, ["k"], NOW)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(store.jobs.swap, *jobs, lambda one, other, now: ()).result(100)
        names.lock(["k"], store.jobs.lock)  # type: ignore[attr-defined]
        holder = names.holder("k")
        return None if holder is None else holder.id

    assert store.transact(look) == "a"
