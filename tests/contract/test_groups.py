"""Jobs that are waited for together: how they are counted, and when a group is over, once."""

from collections.abc import Mapping
from typing import Any

import pytest

from queuectl.errors import BadJobError, NotFoundError, StateError
from queuectl.facts import Edge, Event, Group
from queuectl.filter import Filter
from queuectl.job import Exited, Job, NewJob, Outcome, State
from queuectl.lifecycle import Policy, cancelled, finished, in_line, retried
from queuectl.store import Store
from queuectl.store import counting as module
from queuectl.store.contract import Decision, Edit, Restore
from tests.contract.ends import GIVE_UP, LATER, at_once, end, finish_each
from tests.contract.tools import (
    DAY,
    NOW,
    add,
    apply,
    ended,
    finish,
    ids,
    release,
    remove,
    states,
    take,
    take_one,
    the,
)

pytestmark = pytest.mark.usefixtures("two_nodes")


def by_hand(store: Store, id: str, to: Any) -> None:
    """Have a job come into a state by hand."""
    assert apply(store, the(store, id), to, now=LATER)


def group(store: Store, name: str = "g") -> Group:
    """Return a group that must be there."""
    [found] = store.groups.named([name])
    return found


def children(store: Store, name: str = "g") -> list[Edge]:
    """Return who waits for a group, or did."""
    return store.groups.children(name, limit=10)


def counts(store: Store, name: str = "g") -> dict[str, int]:
    """Return how many jobs of a group are open, or have ended how."""
    found = group(store, name)
    names = ("jobs", "open", "completed", "dead", "cancelled", "unneeded")
    return {name: count for name in names if (count := getattr(found, name))}


class TestCounting:
    def test_jobs_are_counted_as_they_come_and_end(self, store: Store) -> None:
        for id in "abcd":
            add(store, id, group="g")
        add(store, "x")
        assert group(store) == Group(name="g", made_at=NOW, jobs=4, open=4)
        end(store, "a")
        end(store, "b", Exited(3))
        by_hand(store, "c", cancelled(the(store, "c"), "stop"))
        assert counts(store) == {"jobs": 4, "open": 1, "completed": 1, "dead": 1, "cancelled": 1}
        assert group(store).over_at is None
        by_hand(store, "d", finished(the(store, "d"), "so"))
        assert counts(store) == {"jobs": 4, "completed": 2, "dead": 1, "cancelled": 1}
        assert (group(store).over_at, group(store).rounds) == (LATER, 1)

    def test_one_that_is_put_first_still_counts(self, store: Store) -> None:
        add(store, "a", group="g")

        def first(held: Mapping[int, Job], _: int) -> dict[int, Decision]:
            return {seq: Decision(Edit(job, first=True)) for seq, job in held.items()}

        store.jobs.change([the(store, "a")], first, now=LATER)
        assert group(store) == Group(name="g", made_at=NOW, jobs=1, open=1)

    def test_many_at_once(self, store: Store) -> None:
        models = [NewJob(group="g"), NewJob(group="h"), NewJob()]
        jobs = [(f"j{n}", "x", None, None, models[n % 3]) for n in range(300)]
        store.jobs.enqueue(jobs, now=NOW)
        assert (counts(store), counts(store, "h")) == ({"jobs": 100, "open": 100},) * 2
        jobs.append(("new", "x", None, None, models[0]))
        store.jobs.enqueue(jobs, now=NOW, skip_duplicates=True)
        assert counts(store) == {"jobs": 101, "open": 101}

    def test_a_retry_by_itself_changes_nothing(self, store: Store) -> None:
        add(store, "a", group="g")
        job = take_one(store)
        finish(store, [ended(job, Exited(1), now=NOW, policy=Policy(max_retries=3))])
        assert counts(store) == {"jobs": 1, "open": 1}
        assert release(store, take(store, now=LATER), now=LATER) == []
        assert counts(store) == {"jobs": 1, "open": 1}

    def test_one_that_runs_again_opens_it(self, store: Store) -> None:
        add(store, "a", group="g")
        end(store, "a", Exited(1))
        assert (group(store).over_at, counts(store)) == (LATER, {"jobs": 1, "dead": 1})
        by_hand(store, "a", retried(LATER))
        assert (group(store).over_at, counts(store)) == (None, {"jobs": 1, "open": 1})
        end(store, "a")
        assert (group(store).rounds, counts(store)) == (2, {"jobs": 1, "completed": 1})

    def test_so_does_one_that_comes(self, store: Store) -> None:
        add(store, "a", group="g")
        end(store, "a")
        add(store, "b", group="g")
        assert (group(store).over_at, counts(store)) == (
            None,
            {"jobs": 2, "open": 1, "completed": 1},
        )

    def test_those_that_are_pruned_count_as_what_they_were(self, store: Store) -> None:
        add(store, "a", group="g")
        end(store, "a")
        assert store.jobs.prune(State.COMPLETED, LATER + 1, limit=9) == 1
        assert counts(store) == {"jobs": 1, "completed": 1}

    def test_those_that_are_removed_do_not(self, store: Store) -> None:
        add(store, "a", group="g", priority=1)
        add(store, "b", group="g")
        end(store, "a", Exited(1))
        assert remove(store, the(store, "a"))
        assert counts(store) == {"jobs": 1, "open": 1}
        assert remove(store, the(store, "b"))
        assert (counts(store), group(store).over_at is not None) == ({}, True)

    def test_what_wasnt_needed_is_counted_for_itself(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "b", group="g", after=("a:fail",))
        add(store, "c", group="g", after=("b",))
        end(store, "a")
        assert counts(store) == {"jobs": 3, "completed": 1, "cancelled": 2, "unneeded": 2}
        assert group(store).rounds == 1
        by_hand(store, "c", retried(LATER, in_line(the(store, "c"))))
        assert counts(store) == {
            "jobs": 3,
            "open": 1,
            "completed": 1,
            "cancelled": 1,
            "unneeded": 1,
        }

    @pytest.mark.needs("transactions")
    def test_what_is_undone(self, store: Store) -> None:
        job = add(store, "a", group="g")
        event = Event(
            at=LATER, kind="cancel", job="a", node=None, who="me", detail=None, action="x"
        )
        to = Decision(cancelled(job, "stop"), event, keeps=True)
        store.jobs.change([job], lambda held, now: dict.fromkeys(held, to), now=LATER)
        assert group(store).over_at == LATER
        [kept] = store.history.events("a")
        back = Decision(Restore(was=str(kept.was)))
        store.jobs.change([job], lambda held, now: dict.fromkeys(held, back), now=LATER)
        assert (group(store).over_at, counts(store)) == (None, {"jobs": 1, "open": 1})

    def test_an_expired_job_is_dead(self, store: Store) -> None:
        add(store, "a", group="g", expires_at=NOW + 5)
        assert take(store, now=LATER) == []
        assert (counts(store), group(store).rounds) == ({"jobs": 1, "dead": 1}, 1)

    @pytest.mark.needs("transactions")
    def test_the_last_two_end_at_the_same_time(self, store: Store, other: Store) -> None:
        for n in range(20):
            add(store, f"a{n}", group=f"g{n}", priority=1)
            add(store, f"b{n}", group=f"g{n}")
            add(store, f"c{n}", after_group=(f"g{n}",), priority=-1)
        first, second = take(store, 20), take(store, 20, node="node-2")
        at_once(lambda: finish_each(store, first), lambda: finish_each(other, second))
        found = store.groups.named([f"g{n}" for n in range(20)])
        assert {(one.open, one.completed, one.rounds) for one in found} == {(0, 2, 1)}
        assert {state for id, state in states(store).items() if id[0] == "c"} == {State.PENDING}


class TestReading:
    def test_groups_by_name_by_age_and_by_prefix(self, store: Store) -> None:
        for n, name in enumerate(("b ü", "a", "c 🎈", "ab")):
            add(store, f"j{n}", group=name, now=NOW + n)
        assert [one.name for one in store.groups.named(["c 🎈", "no", "a\0", "a"])] == ["a", "c 🎈"]
        newest = store.groups.newest(3)
        assert [(one.name, one.made_at) for one in newest] == [
            ("ab", NOW + 3),
            ("c 🎈", NOW + 2),
            ("a", NOW + 1),
        ]
        assert [one.name for one in store.groups.newest(3, before="a")] == ["b ü"]
        assert store.groups.newest(3, before="no") == []
        assert store.groups.like("a") == ["a", "ab"]
        assert store.groups.like("", limit=1) == ["a"]

    def test_how_many_of_them_run(self, store: Store) -> None:
        for n, name in enumerate(("g", "g", "h", None, "g")):
            add(store, f"j{n}", group=name)
        assert store.groups.running() == {}
        for n in range(4):
            assert take_one(store, now=LATER).id == f"j{n}"
        assert store.groups.running() == {"g": 2, "h": 1}

    def test_who_waits_for_one(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "b", group="h")
        add(store, "c", after=("b",), after_group=("g:any",))
        add(store, "d", after_group=("g", "h"))
        found = [(edge.child, edge.parent_id, edge.wanted) for edge in children(store)]
        assert found == [(the(store, "c").seq, "g", "any"), (the(store, "d").seq, "g", "ok")]
        assert [edge.child for edge in children(store, "h")] == [the(store, "d").seq]
        end(store, "a")
        told = [(edge.came_to, edge.is_met, edge.is_group) for edge in children(store)]
        assert told == [(State.COMPLETED, True, True)] * 2
        assert len(store.groups.children("g", limit=1)) == 1
        assert children(store, "no") == children(store, "a\0") == []

    def test_its_jobs(self, store: Store) -> None:
        for n in range(6):
            add(store, f"j{n}", group=("g", "h", None)[n % 3], queue=f"q{n % 2}")
        in_g = store.jobs.select(Filter(groups=("g",)), limit=None)
        assert ids(in_g) == ["j3", "j0"]
        both = Filter(groups=("g", "h"))
        assert ids(store.jobs.select(both, limit=None, oldest=True)) == ["j0", "j1", "j3", "j4"]
        assert ids(store.jobs.select(both, limit=1, after=in_g[0].seq)) == ["j1"]
        some = Filter(groups=("g", "h"), queues=("q0",), states=(State.PENDING,))
        assert ids(store.jobs.select(some, limit=None)) == ["j4", "j0"]
        horizon = store.jobs.horizon(both, looks=2)
        assert horizon is not None
        assert horizon.id == "j3"


class TestWaitingForGroups:
    @pytest.mark.parametrize(
        ("wanted", "outcome", "state"),
        [
            ("", Exited(0), State.PENDING),
            ("", Exited(1), State.BLOCKED),
            (":any", Exited(1), State.PENDING),
        ],
    )
    @pytest.mark.parametrize("late", [False, True])
    def test_what_its_end_means(
        self, store: Store, wanted: str, outcome: Outcome, state: State, late: bool
    ) -> None:
        add(store, "a", group="g")
        if not late:
            assert add(store, "c", after_group=(f"g{wanted}",)).open_parents == 1
        end(store, "a", outcome)
        if late:
            add(store, "c", after_group=(f"g{wanted}",))
        assert the(store, "c").state == state

    def test_jobs_and_groups(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "b", priority=-1)
        child = add(store, "c", after=("b",), after_group=("g",))
        assert (child.open_parents, child.after_group) == (2, ("g",))
        end(store, "a")
        end(store, "b")
        end(store, "c")

    def test_one_that_is_repaired(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "c", after_group=("g",))
        assert end(store, "a", Exited(1)).state == State.DEAD
        assert the(store, "c").state == State.BLOCKED
        by_hand(store, "a", retried(LATER))
        assert end(store, "a").state == State.COMPLETED
        assert end(store, "c").state == State.COMPLETED

    def test_one_that_isnt_there(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="no group 'g' for c to wait for"):
            add(store, "c", after_group=("g",))

    def test_one_that_comes_in_the_same_request(self, store: Store) -> None:
        jobs = [
            NewJob(id="a", command="x", group="g"),
            NewJob(id="c", command="x", after_group=("g",)),
        ]
        store.jobs.enqueue(jobs, now=NOW)
        end(store, "a")
        store.jobs.enqueue(
            [
                NewJob(id="d", command="x", after_group=("g",), priority=-1),
                NewJob(id="b", command="x", group="g"),
            ],
            now=LATER,
        )
        assert the(store, "d").state == State.BLOCKED
        end(store, "c")
        end(store, "b")
        end(store, "d")

    def test_why_one_was_cancelled(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "c", after_group=("g",))
        by_hand(store, "a", cancelled(the(store, "a"), "stop"))
        assert the(store, "c").reason == "its parent group g was cancelled"

    def test_a_chain_of_groups(self, store: Store) -> None:
        add(store, "a0", group="g0")
        for n in range(1, 30):
            add(store, f"a{n}", group=f"g{n}", after_group=(f"g{n - 1}",))
        by_hand(store, "a0", cancelled(the(store, "a0"), "stop"))
        assert set(states(store).values()) == {State.CANCELLED}
        found = store.groups.named([f"g{n}" for n in range(30)])
        assert {(one.cancelled, one.rounds) for one in found} == {(1, 1)}

    def test_its_own_group(self, store: Store) -> None:
        with pytest.raises(BadJobError, match="the group that it is in"):
            add(store, "c", group="g", after_group=("g",))
        assert store.groups.newest(9) == []

    def test_circles_by_way_of_groups(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "b", group="h", after_group=("g",))
        add(store, "c", after=("b",))
        circles: list[dict[str, Any]] = [{"after": ("c",)}, {"after_group": ("h",)}]
        for circle in circles:
            with pytest.raises(BadJobError, match="Group g would wait for itself"):
                add(store, "d", group="g", **circle)
        assert counts(store) == {"jobs": 1, "open": 1}
        add(store, "d", group="g", after=("a",))

    def test_a_running_job_adds_children_to_its_group(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "last", after_group=("g",), priority=9)
        job = take_one(store)
        add(store, "b", group="g", after=("a",))
        assert finish(store, [ended(job, now=LATER)]) == []
        assert states(store) == {"a": "completed", "b": "pending", "last": "blocked"}
        end(store, "b")
        assert end(store, "last").state == State.COMPLETED
        assert counts(store) == {"jobs": 2, "completed": 2}


class TestStopping:
    def test_what_waits_is_cancelled_when_too_many_are_dead(self, store: Store) -> None:
        for n in range(6):
            add(store, f"j{n}", group="g", max_fails=2 if n == 3 else None)
        add(store, "x", priority=-1)
        end(store, "j0", Exited(1))
        running = take(store, 2)
        finish(store, [ended(running[0], Exited(1), now=LATER, policy=GIVE_UP)])
        assert states(store) == {
            "j0": "dead",
            "j1": "dead",
            "j2": "processing",
            "j3": "cancelled",
            "j4": "cancelled",
            "j5": "cancelled",
            "x": "pending",
        }
        assert (group(store).stopped_at, group(store).max_fails) == (LATER, 2)
        reason = "its group g was stopped: too many of its jobs are dead"
        assert the(store, "j4").reason == reason
        with pytest.raises(StateError, match="Group g was stopped"):
            add(store, "late", group="g")
        finish(store, [ended(running[1], now=LATER)])
        assert (group(store).rounds, counts(store)["completed"]) == (1, 1)

    @pytest.mark.parametrize("outcome", [Exited(1), None])
    def test_so_is_what_comes_back(self, store: Store, outcome: Outcome | None) -> None:
        add(store, "a", group="g", max_fails=1)
        add(store, "b", group="g", max_retries=5)
        first, second = take(store, 2)
        finish(store, [ended(first, Exited(1), now=LATER, policy=GIVE_UP)])
        assert the(store, "b").state == State.PROCESSING
        if outcome is None:
            assert release(store, [second], now=LATER) == []
        else:
            finish(store, [ended(second, outcome, now=LATER, policy=Policy(max_retries=5))])
        assert the(store, "b").state == State.CANCELLED
        assert group(store).rounds == 1

    def test_what_comes_after_its_jobs_however_these_end_comes_still(self, store: Store) -> None:
        add(store, "prepare")
        add(store, "a", group="g", max_fails=1)
        add(store, "b", group="g")
        add(store, "clean", group="g", after=("a:any", "b:any"))
        add(store, "report", group="g", after=("clean",))
        # What waits for others only is one of those that are too many.
        add(store, "c", group="g", after=("prepare:any",))
        end(store, "prepare")
        end(store, "a", Exited(1))
        assert {id: states(store)[id] for id in ("b", "clean", "report", "c")} == {
            "b": "cancelled",
            "clean": "pending",
            "report": "cancelled",
            "c": "cancelled",
        }
        assert group(store).stopped_at == LATER and group(store).over_at is None
        assert end(store, "clean").state == State.COMPLETED
        assert group(store).rounds == 1

    def test_a_retry_starts_it_again(self, store: Store) -> None:
        add(store, "a", group="g", max_fails=1)
        add(store, "b", group="g")
        end(store, "a", Exited(1))
        assert the(store, "b").state == State.CANCELLED
        by_hand(store, "b", retried(LATER))
        assert group(store).stopped_at is None
        end(store, "b")

    def test_its_last_failure_stops_nothing(self, store: Store) -> None:
        add(store, "a", group="g", max_fails=1)
        end(store, "a", Exited(1))
        assert (group(store).stopped_at, group(store).over_at) == (None, LATER)

    def test_children_of_what_is_cancelled(self, store: Store) -> None:
        add(store, "a", group="g", max_fails=1)
        add(store, "b", group="g")
        add(store, "c", after=("b",))
        add(store, "d", after_group=("g:any",))
        end(store, "a", Exited(1))
        assert (the(store, "c").state, the(store, "d").state) == (State.CANCELLED, State.PENDING)

    def test_very_many(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "STOPPED_AT_ONCE", 3)
        for n in range(11):
            add(store, f"j{n:02}", group="g", max_fails=1)
        end(store, "j00", Exited(1))
        while store.jobs.settle():
            continue
        assert counts(store) == {"jobs": 11, "dead": 1, "cancelled": 10}
        assert group(store).rounds == 1


class TestTidying:
    def test_groups_without_jobs_go_after_a_day(self, store: Store) -> None:
        add(store, "a", group="g")
        add(store, "b", group="h")
        add(store, "w", after_group=("g",))
        for id in "ab":
            end(store, id)
        store.jobs.prune(State.COMPLETED, LATER + 1, limit=9)
        store.tidy(now=LATER + DAY - 1)
        assert len(store.groups.newest(9)) == 2
        store.tidy(now=LATER + DAY + 1)
        assert [one.name for one in store.groups.newest(9)] == ["g"]
