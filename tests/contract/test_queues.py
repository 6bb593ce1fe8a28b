"""Queues that are called otherwise, or removed, with all that there is of them."""

from contextlib import suppress
from threading import Thread

import pytest

from queuectl.errors import QueuectlError, StateError
from queuectl.facts import Event, QueueUse
from queuectl.filter import Filter
from queuectl.job import Exited, State
from queuectl.limits import Limits, parse_rate
from queuectl.schedule import Schedule
from queuectl.store import Store, open_store
from queuectl.store.contract import Topic
from queuectl.values import replace
from tests.contract.tools import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    assert_counts_are_right,
    ended,
    finish,
    hear,
    ids,
    quieten,
    take,
    the,
)
from tests.support import wait_for

EVENT = Event(at=NOW + 7, kind="rename", job=None, node=None, who="who 8", detail="detail 9")


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store, "node-1")


def rename(store: Store, old: str = "old", new: str = "new") -> QueueUse:
    """Rename a queue, whatever there is of it, unless jobs of it run."""

    def check(use: QueueUse, other: QueueUse) -> None:
        if State.PROCESSING in use.states:
            raise StateError("some run")

    return store.settings.rename_queue(old, new, check=check, event=EVENT)


def a_schedule(store: Store, name: str, **request: str) -> None:
    """Store a schedule whose jobs are so."""
    schedule = Schedule(
        name=name,
        rule="every 1h",
        zone="UTC",
        anchor=NOW,
        request={"command": "true", **request},
        done_until=NOW,
        next_at=NOW + HOUR,
        created_at=NOW,
        updated_at=NOW,
    )
    store.schedules.change(name, lambda there, now: schedule)


def queues_of(store: Store) -> dict[str, str]:
    """Return the queues of all jobs."""
    jobs = store.jobs.select(Filter(), limit=None, oldest=True)
    return {job.id: job.queue for job in jobs}


class TestRenamed:
    def test_its_jobs_go_over_as_they_are(self, store: Store) -> None:
        add(store, "done", queue="old", tags=("t",))
        finish(store, [ended(take(store)[0], now=NOW + SECOND)])
        add(store, "ready", queue="old", priority=3, timeout=SECOND)
        add(store, "later", queue="old", run_at=NOW + HOUR)
        add(store, "other", queue="older")
        before = {id: the(store, id) for id in ("done", "ready", "later", "other")}
        use = rename(store)
        assert use.states == {State.COMPLETED: 1, State.PENDING: 2}
        assert use.jobs == 3
        for id, job in before.items():
            assert the(store, id) == replace(job, queue="new" if id != "other" else "older")
        counts = {(c.queue, c.state, c.priority): (c.jobs, c.timed) for c in store.jobs.counts()}
        assert counts == {
            ("new", State.COMPLETED, 0): (1, 0),
            ("new", State.PENDING, 3): (1, 1),
            ("new", State.PENDING, 0): (1, 0),
            ("older", State.PENDING, 0): (1, 0),
        }
        assert ids(store.jobs.select(Filter(queues=("new",), tags=("t",)), limit=9)) == ["done"]
        assert take(store, 9, queues=["old"]) == []
        assert ids(take(store, 9, queues=["new"])) == ["ready"]
        assert ids(take(store, 9, now=NOW + HOUR)) == ["later", "other"]
        assert store.verify() == []

    def test_all_columns_of_counters_are_right(self, store: Store, client: Client) -> None:
        for n in range(9):
            add(store, f"a{n}", queue="old", priority=n % 2, timeout=(n % 3) * SECOND or None)
        take(store, 2, queues=["older"])
        rename(store)
        assert_counts_are_right(store, client)

    def test_so_does_what_is_set_on_it(self, store: Store) -> None:
        limits = Limits(limit=2, weights={"k": 3})
        store.settings.set_limits("old", lambda _: limits)
        store.settings.set_paused("old", paused=True, who="who 5", now=NOW)
        use = rename(store)
        assert use.info is not None
        assert use.is_set
        (info,) = store.settings.queues()
        assert (info.name, info.paused_at, info.paused_by) == ("new", NOW, "who 5")
        assert info.limits == limits

    def test_limits_hold_where_they_held(self, store: Store) -> None:
        store.settings.set_limits("old", lambda _: Limits(key_limit=1))
        for id in "abc":
            add(store, id, queue="old", keys=("k",))
        (first,) = take(store, 9)
        finish(store, [ended(first, Exited(0), now=NOW + SECOND)])
        rename(store)
        (second,) = take(store, 9, now=NOW + SECOND)
        assert (second.id, second.queue) == ("b", "new")
        assert take(store, 9, now=NOW + SECOND) == []
        finish(store, [ended(second, Exited(0), now=NOW + 2 * SECOND)])
        assert ids(take(store, 9, now=NOW + 2 * SECOND)) == ["c"]

    def test_a_rate_goes_on_where_it_was(self, store: Store) -> None:
        store.settings.set_limits("old", lambda _: Limits(rates=(parse_rate("1/1m"),)))
        for id in "ab":
            add(store, id, queue="old")
        (first,) = take(store, 9)
        finish(store, [ended(first, Exited(0), now=NOW + SECOND)])
        rename(store)
        assert take(store, 9, now=NOW + SECOND) == []
        assert ids(take(store, 9, now=NOW + MINUTE)) == ["b"]

    def test_what_waits_for_a_key_waits_no_longer(self, store: Store) -> None:
        store.settings.set_limits("old", lambda _: Limits(key_rates=(parse_rate("1/1m"),)))
        for id in "ab":
            add(store, id, queue="old", keys=("k",))
        (first,) = take(store, 9)
        finish(store, [ended(first, Exited(0), now=NOW + SECOND)])
        rename(store)
        assert take(store, 9, now=NOW + SECOND) == []
        assert ids(take(store, 9, now=NOW + MINUTE)) == ["b"]

    def test_its_times_come_to_those_that_are_there(self, store: Store) -> None:
        for queue in ("new", "old", "old"):
            add(store, f"{queue}{len(queues_of(store))}", queue=queue)
        jobs = take(store, 9)
        ends = [
            ended(job, Exited(0), now=NOW + SECOND, duration_ms=10_000 + n, started_at=NOW)
            for n, job in enumerate(jobs)
        ]
        finish(store, ends)
        rename(store)
        rollups = store.history.rollups(queue="new")
        of_runs = [r for r in rollups if r.measure == "completed"]
        assert [(r.count, r.total_ms, r.least_ms, r.most_ms) for r in of_runs] == [
            (3, 30_003, 10_000, 10_002)
        ]
        assert store.history.rollups(queue="old") == []

    def test_schedules_that_name_it_name_the_new_one(self, store: Store) -> None:
        a_schedule(store, "mine", queue="old", cwd="/")
        a_schedule(store, "another", queue="older")
        a_schedule(store, "nobody's")
        assert rename(store).schedules == ("mine",)
        assert {one.name: dict(one.request) for one in store.schedules.all()} == {
            "mine": {"command": "true", "queue": "new", "cwd": "/"},
            "another": {"command": "true", "queue": "older"},
            "nobody's": {"command": "true"},
        }

    def test_what_is_left_of_the_other_name_goes(self, store: Store) -> None:
        store.settings.set_paused("new", paused=True, who="me", now=NOW)
        store.settings.set_paused("new", paused=False, who="me", now=NOW)
        add(store, "n", queue="new", keys=("k",))
        add(store, "o", queue="old", keys=("k",))
        rename(store)
        assert [info.name for info in store.settings.queues()] == ["new"]
        assert queues_of(store) == {"n": "new", "o": "new"}

    def test_it_is_an_event(self, store: Store) -> None:
        add(store, "a", queue="old")
        rename(store)
        assert store.history.events(limit=1) == [EVENT]

    def test_what_is_refused_changes_nothing(self, store: Store) -> None:
        store.settings.set_limits("old", lambda _: Limits(limit=5))
        a_schedule(store, "mine", queue="old")
        for id in "ab":
            add(store, id, queue="old")
        (running,) = take(store, 1)
        with pytest.raises(StateError):
            rename(store)
        assert set(queues_of(store).values()) == {"old"}
        assert [info.name for info in store.settings.queues()] == ["old"]
        assert [one.request["queue"] for one in store.schedules.all()] == ["old"]
        finish(store, [ended(running, now=NOW + SECOND)])
        assert rename(store).jobs == 2

    def test_both_are_told(self, store: Store) -> None:
        add(store, "a", queue="new")
        told: list[QueueUse] = []
        store.settings.rename_queue("old", "new", check=lambda *uses: told.extend(uses))
        assert [(use.name, use.jobs, use.info, use.schedules) for use in told] == [
            ("old", 0, None, ()),
            ("new", 1, None, ()),
        ]

    @pytest.mark.needs("notifications")
    def test_nodes_look_again(self, store: Store) -> None:
        add(store, "a", queue="old")
        listener = store.listen()
        try:
            quieten(listener)
            rename(store)
            assert hear(listener, Topic.WORK)
        finally:
            listener.close()

    def test_no_run_comes_in_between(self, url: str, store: Store) -> None:
        """While others claim and finish, each job is where its queue is, and is run once."""
        a_node(store, "node-2")
        for n in range(60):
            add(store, f"j{n}", queue="old")
        ran: list[str] = []
        wrong: list[object] = []

        def work() -> None:
            mine = open_store(url)
            try:
                while len(ran) < 60:
                    jobs = take(mine, 3, node="node-2")
                    wrong.extend(finish(mine, [ended(job, now=NOW + SECOND) for job in jobs]))
                    ran.extend(ids(jobs))
            except QueuectlError as error:
                wrong.append(error)
            finally:
                mine.close()

        worker = Thread(target=work)
        worker.start()
        names = ["old", "new"]
        while worker.is_alive():
            done = len(ran)
            with suppress(StateError):
                rename(store, *names)
                names.reverse()
                assert set(queues_of(store).values()) == {names[0]}
            wait_for(lambda: len(ran) > done or not worker.is_alive(), "another job")  # noqa: B023
        assert wrong == []
        assert sorted(ran) == sorted(queues_of(store))
        assert store.verify() == []


class TestRemoved:
    def remove(self, store: Store, name: str = "old") -> QueueUse:
        told: list[QueueUse] = []
        store.settings.remove_queue(name, check=told.append, event=EVENT)
        (use,) = told
        return use

    def test_what_is_set_on_it_goes(self, store: Store) -> None:
        for queue in ("old", "other"):
            store.settings.set_limits(queue, lambda _: Limits(limit=2))
        store.settings.set_paused("old", paused=True, who="me", now=NOW)
        use = self.remove(store)
        assert use.is_set
        assert (use.jobs, use.schedules) == (0, ())
        assert [info.name for info in store.settings.queues()] == ["other"]
        assert store.history.events(limit=1) == [EVENT]

    def test_so_does_what_its_keys_have_used(self, store: Store) -> None:
        for n in range(5):
            add(store, f"before{n}", queue="old", keys=("k",))
        finish(store, [ended(job, now=NOW + SECOND) for job in take(store, 9)])
        assert store.jobs.prune(State.COMPLETED, NOW + HOUR, limit=9) == 5
        self.remove(store)
        for id, key in [("k1", "k"), ("l1", "l"), ("l2", "l")]:
            add(store, id, queue="old", keys=(key,))
        assert ids(take(store, 9)) == ["k1", "l1", "l2"]

    def test_what_is_refused_stays(self, store: Store) -> None:
        store.settings.set_limits("old", lambda _: Limits(limit=2))
        add(store, "a", queue="old")
        a_schedule(store, "mine", queue="old")

        def check(use: QueueUse) -> None:
            assert (use.jobs, use.schedules) == (1, ("mine",))
            raise StateError("no")

        with pytest.raises(StateError):
            store.settings.remove_queue("old", check=check, event=EVENT)
        assert [info.name for info in store.settings.queues()] == ["old"]
        assert EVENT not in store.history.events()
