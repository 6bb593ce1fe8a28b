"""Jobs that wait for others: who is let go by which end, who is cancelled, and who waits on."""

import json
from contextlib import closing
from random import Random
from threading import Thread
from typing import Any

import pytest

from queuectl.action import one_action
from queuectl.dependencies import parent_in, read_parent
from queuectl.errors import BadJobError, NotFoundError
from queuectl.facts import Edge
from queuectl.job import Exited, Job, Lost, NewJob, Outcome, State
from queuectl.lifecycle import Policy, cancelled, finished, in_line, retried
from queuectl.scope import keeping_to
from queuectl.store import Store
from queuectl.store import edges as module
from queuectl.store.contract import Decision, Edit, Restore, Topic
from queuectl.values import replace
from tests.contract.ends import LATER, at_once, end, finish_each
from tests.contract.tools import (
    NOW,
    SECOND,
    Client,
    add,
    apply,
    ask_cancel,
    assert_counts_are_right,
    ended,
    finish,
    hear,
    ids,
    quieten,
    remove,
    states,
    take,
    take_one,
    the,
)

pytestmark = pytest.mark.usefixtures("two_nodes")


def retry(store: Store, id: str, *, now: int = LATER) -> Job:
    """Put a job back in line by hand."""
    job = the(store, id)
    assert apply(store, job, retried(now, in_line(job)), now=now)
    return the(store, id)


def restore(store: Store, id: str, was: str) -> None:
    """Have a job be what it was."""
    back = Decision(Restore(was=was))
    store.jobs.change([the(store, id)], lambda held, now: dict.fromkeys(held, back), now=LATER)


def parents(store: Store, id: str) -> list[tuple[str, str, str | None, bool]]:
    """Return for whom a job waits, and what came of that."""
    found = store.jobs.parents([the(store, id)])
    return [(edge.parent_id, edge.wanted, edge.came_to, edge.is_met) for edge in found]


class TestWaiting:
    def test_a_job_waits_until_its_parents_have_completed(self, store: Store) -> None:
        add(store, "a", priority=1)
        add(store, "b")
        child = add(store, "c", after=("a", "b"), priority=5)
        assert (child.state, child.open_parents, child.after) == (State.BLOCKED, 2, ("a", "b"))
        assert [the(store, id).has_children for id in "abc"] == [True, True, False]
        end(store, "a")
        assert the(store, "c").open_parents == 1
        assert take(store, 2, now=LATER)[0].id == "b"
        assert take(store, now=LATER) == []
        [b] = store.runs.held("node-1")
        finish(store, [ended(b, now=LATER)])
        let_go = the(store, "c")
        assert (let_go.state, let_go.open_parents, let_go.updated_at) == (State.PENDING, 0, LATER)
        end(store, "c")
        assert [met for *_, met in parents(store, "c")] == [True, True]

    def test_edges_are_known_both_ways(self, store: Store) -> None:
        a, b = add(store, "a"), add(store, "b", after=("a:any",))
        edge = Edge(
            child=b.seq, parent=a.seq, parent_id="a", wanted="any", came_to=None, is_met=False
        )
        assert store.jobs.parents([a, b]) == [edge]
        assert store.jobs.children([a, b], limit=9) == [edge]
        assert store.jobs.children([b], limit=9) == store.jobs.parents([a]) == []
        assert store.jobs.children([], limit=9) == store.jobs.parents([]) == []

    def test_of_many_children_some_are_told(self, store: Store) -> None:
        a = add(store, "a")
        children = [add(store, f"c{n}", after=("a",)) for n in range(4)]
        told = [edge.child for edge in store.jobs.children([a], limit=3)]
        assert len(told) == 3
        assert told == sorted({job.seq for job in children}.intersection(told))

    @pytest.mark.needs("notifications")
    def test_nodes_hear_that_a_child_may_run(self, store: Store) -> None:
        add(store, "a")
        add(store, "c", after=("a",))
        with closing(store.listen()) as listener:
            job = take_one(store)
            quieten(listener)
            finish(store, [ended(job)])
            assert hear(listener, Topic.WORK)

    def test_a_time_counts_as_well(self, store: Store) -> None:
        add(store, "a")
        add(store, "c", after=("a",), run_at=LATER + SECOND)
        end(store, "a")
        assert the(store, "c").state == State.PENDING
        assert take(store, now=LATER) == []
        assert ids(take(store, now=LATER + SECOND)) == ["c"]

    def test_what_is_blocked_expires_only_when_it_is_let_go(self, store: Store) -> None:
        add(store, "a")
        add(store, "c", after=("a",), expires_at=NOW + 5)
        assert store.runs.outlook().expires is None
        end(store, "a")
        assert take(store, now=LATER) == []
        assert the(store, "c").state == State.DEAD

    def test_in_one_request_parents_come_first(self, store: Store) -> None:
        jobs = [
            NewJob(id="a", command="x"),
            NewJob(id="b", command="x", after=("a",)),
            NewJob(id="c", command="x", after=("b:any", "a:fail")),
        ]
        store.jobs.enqueue(jobs, now=NOW)
        assert [the(store, id).open_parents for id in "abc"] == [0, 1, 2]
        assert states(store) == {"a": "pending", "b": "blocked", "c": "blocked"}

    @pytest.mark.parametrize("id", ["a:b", "x:ok", "é ü"])
    def test_odd_ids_of_parents(self, store: Store, id: str) -> None:
        add(store, id)
        after = f"{id}:ok" if id == "x:ok" else id
        add(store, "c", after=(after,))
        end(store, id)
        assert the(store, "c").state == State.PENDING

    def test_counters_count_them(self, store: Store, client: Client) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        add(store, "c", after=("a:fail",))
        assert_counts_are_right(store, client)
        end(store, "a")
        assert_counts_are_right(store, client)


class TestRefusals:
    def test_a_parent_that_isnt_there(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="no job 'x' for c to wait for"):
            add(store, "c", after=("x",))
        assert states(store) == {}

    def test_itself(self, store: Store) -> None:
        with pytest.raises(BadJobError, match="wait"):
            add(store, "c", after=("c",))

    def test_one_that_comes_later(self, store: Store) -> None:
        jobs = [NewJob(id="b", command="x", after=("c",)), NewJob(id="c", command="x")]
        with pytest.raises(BadJobError, match="Job b waits for c, which comes after it"):
            store.jobs.enqueue(jobs, now=NOW)
        assert states(store) == {}

    @pytest.mark.needs("transactions")
    def test_one_out_of_reach(self, store: Store) -> None:
        add(store, "a", queue="secret")
        with keeping_to(("open",)), pytest.raises(NotFoundError, match="no job 'a'"):
            add(store, "c", after=("a",), queue="open")


class TestConditions:
    @pytest.mark.parametrize(
        ("wanted", "outcome", "state"),
        [
            ("ok", Exited(0), State.PENDING),
            ("ok", Exited(1), State.BLOCKED),
            ("fail", Exited(0), State.CANCELLED),
            ("fail", Exited(1), State.PENDING),
            ("any", Exited(0), State.PENDING),
            ("any", Exited(1), State.PENDING),
            ("any", Lost("gone"), State.PENDING),
            ("fail", Lost("gone"), State.PENDING),
        ],
    )
    @pytest.mark.parametrize("late", [False, True])
    def test_what_an_end_means(
        self, store: Store, wanted: str, outcome: Outcome, state: State, late: bool
    ) -> None:
        """It means the same to a child that comes when it is over."""
        add(store, "a")
        if not late:
            add(store, "c", after=(f"a:{wanted}",))
        end(store, "a", outcome)
        if late:
            add(store, "c", after=(f"a:{wanted}",), now=LATER)
        assert the(store, "c").state == state

    @pytest.mark.parametrize(
        ("how", "state"),
        [
            (None, State.BLOCKED),
            ("block", State.BLOCKED),
            ("cancel", State.CANCELLED),
            ("run", State.PENDING),
        ],
    )
    def test_if_a_parent_fails(self, store: Store, how: str | None, state: State) -> None:
        add(store, "a")
        add(store, "c", after=("a",), if_parent_fails=how)
        end(store, "a", Exited(3))
        assert the(store, "c").state == state

    def test_a_retry_is_no_end(self, store: Store) -> None:
        add(store, "a")
        add(store, "c", after=("a:any",))
        job = take_one(store)
        finish(store, [ended(job, Exited(1), now=LATER, policy=Policy(max_retries=1))])
        assert (the(store, "a").state, the(store, "c").state) == (State.FAILED, State.BLOCKED)

    def test_why_one_was_cancelled(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a:fail",))
        add(store, "c", after=("b",))
        add(store, "d")
        add(store, "e", after=("d",), if_parent_fails="cancel")
        end(store, "a")
        end(store, "d", Exited(1))
        assert {id: the(store, id).reason for id in "bce"} == {
            "b": "not needed: a, whose failure it waits for, has completed",
            "c": "not needed: nor is its parent b",
            "e": "its parent d is dead",
        }
        [event] = store.history.events("c")
        assert (event.kind, event.detail) == ("cancel", "not needed: nor is its parent b")


class TestByHand:
    def test_cancelling_flows_down_and_never_up(self, store: Store) -> None:
        for id, after in (("a", ()), ("b", ("a",)), ("c", ("b",)), ("d", ("c:any",))):
            add(store, id, after=after)
        assert apply(store, the(store, "b"), cancelled(the(store, "b"), "stop"), now=LATER)
        assert states(store) == {
            "a": "pending",
            "b": "cancelled",
            "c": "cancelled",
            "d": "pending",
        }
        assert the(store, "c").finished_at == LATER

    def test_so_does_the_end_of_a_run_that_is_cancelled(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        job = take_one(store)
        assert ask_cancel(store, job, "stop", now=LATER)
        assert the(store, "b").state == State.BLOCKED
        [job] = store.runs.held("node-1", to_cancel=True)
        finish(store, [ended(job, Exited(9), now=LATER)])
        assert the(store, "b").state == State.CANCELLED

    def test_a_parent_that_is_completed_by_hand(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        assert apply(store, the(store, "a"), finished(the(store, "a"), "so"), now=LATER)
        assert the(store, "b").state == State.PENDING

    def test_a_parent_that_is_removed(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        add(store, "c", after=("a:any",))
        assert remove(store, the(store, "a"))
        assert (the(store, "b").state, the(store, "c").state) == (State.CANCELLED, State.PENDING)
        assert the(store, "b").reason == "its parent a was removed"
        assert parents(store, "b") == [("a", "ok", "cancelled", False)]

    def test_a_parent_that_is_pruned_is_what_it_was(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        add(store, "z", priority=-1)
        add(store, "c", after=("a", "z"))
        end(store, "a")
        assert store.jobs.prune(State.COMPLETED, LATER + 1, limit=9) == 1
        assert parents(store, "c")[0] == ("a", "ok", "completed", True)
        end(store, "b")
        end(store, "z")
        assert the(store, "c").state == State.PENDING

    def test_a_later_job_of_that_id_is_another(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        end(store, "a", Exited(1))
        assert remove(store, the(store, "a"))
        add(store, "a", now=LATER)
        end(store, "a")
        assert the(store, "b").state == State.BLOCKED

    def test_with_a_child_its_edges_go(self, store: Store, client: Client) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        assert remove(store, the(store, "b"))
        assert client.run("SELECT count(*) FROM {edges}") == [(0,)]
        end(store, "a")

    def test_edits_and_holds(self, store: Store) -> None:
        add(store, "a")
        blocked = add(store, "b", after=("a",))
        held = Decision(Edit(replace(blocked, parked="", priority=9)))
        store.jobs.change([blocked], lambda jobs, now: dict.fromkeys(jobs, held), now=NOW + 1)
        job = the(store, "b")
        assert (job.state, job.priority, job.is_held) == (State.BLOCKED, 9, True)
        end(store, "a")
        job = the(store, "b")
        assert (job.state, job.is_held) == (State.PENDING, True)
        assert take(store, now=LATER) == []
        free = Decision(Edit(replace(job, parked=None)))
        store.jobs.change([job], lambda jobs, now: dict.fromkeys(jobs, free), now=LATER)
        assert ids(take(store, now=LATER)) == ["b"]

    @pytest.mark.parametrize("which", ["ab", "bd", "ad"])
    def test_swaps(self, store: Store, which: str) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        add(store, "c", after=("b",))
        add(store, "d")
        one, other = (the(store, id) for id in which)
        store.jobs.swap(one, other, lambda one, other, now: [], now=NOW + 1)
        before = {id: parents(store, id) for id in "abcd"}
        assert before["b"] == [("a", "ok", None, False)]
        assert before["c"] == [("b", "ok", None, False)]
        for job in take(store, 2, now=LATER):
            finish(store, [ended(job, now=LATER)])
        assert (the(store, "b").state, the(store, "c").state) == (State.PENDING, State.BLOCKED)
        end(store, "b")
        end(store, "c")


class TestRepair:
    def test_with_its_parent_a_blocked_job_goes_on(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        end(store, "a", Exited(1))
        assert parents(store, "b") == [("a", "ok", "dead", False)]
        retry(store, "a")
        assert parents(store, "b") == [("a", "ok", None, False)]
        end(store, "a")
        end(store, "b")

    def test_what_was_met_stays_met(self, store: Store) -> None:
        add(store, "a")
        add(store, "z", priority=-1)
        add(store, "b", after=("a:fail", "z"))
        end(store, "a", Exited(1))
        retry(store, "a")
        end(store, "a")
        assert parents(store, "b") == [("a", "fail", "dead", True), ("z", "ok", None, False)]
        end(store, "z")
        end(store, "b")

    def test_a_cancelled_child_waits_again_for_whom_it_waited(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        apply(store, the(store, "a"), cancelled(the(store, "a"), "stop"), now=LATER)
        assert retry(store, "b").state == State.BLOCKED
        retry(store, "a")
        end(store, "a")
        end(store, "b")

    def test_a_child_that_was_cancelled_is_told_nevertheless(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        apply(store, the(store, "b"), cancelled(the(store, "b"), "stop"), now=LATER)
        end(store, "a")
        assert the(store, "b").state == State.CANCELLED
        assert retry(store, "b").state == State.PENDING

    @pytest.mark.needs("transactions")
    def test_a_cancellation_is_taken_back_with_what_it_took_along(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        add(store, "c", after=("b",))
        job = the(store, "a")
        with one_action() as action:
            event = _event("cancel", "a", action.id)
            to = Decision(cancelled(job, "stop"), event, keeps=True)
            store.jobs.change([job], lambda held, now: dict.fromkeys(held, to), now=LATER)
        events = store.history.events(action=action.id, oldest=True)
        assert [event.job for event in events] == ["a", "b", "c"]
        for event in events[::-1]:
            restore(store, str(event.job), str(event.was))
        assert states(store) == {"a": "pending", "b": "blocked", "c": "blocked"}
        for id in "abc":
            end(store, id)

    def test_a_retry_is_taken_back(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", after=("a",))
        end(store, "a", Exited(1))
        job = the(store, "a")
        to = Decision(retried(LATER), _event("retry", "a", "x"), keeps=True)
        store.jobs.change([job], lambda held, now: dict.fromkeys(held, to), now=LATER)
        [kept, *_] = store.history.events("a", limit=1)
        restore(store, "a", str(kept.was))
        assert parents(store, "b") == [("a", "ok", "dead", False)]
        assert (the(store, "a").state, the(store, "b").state) == (State.DEAD, State.BLOCKED)


class TestRaces:
    def test_a_child_that_comes_while_its_parent_runs(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        assert not job.has_children
        add(store, "b", after=("a",))
        end = ended(job, now=LATER)
        assert finish(store, [end]) == []
        assert the(store, "b").state == State.PENDING
        assert finish(store, [end]) == [end]
        [run] = store.history.attempts(the(store, "a"))
        assert run.number == 1

    def test_among_other_ends(self, store: Store) -> None:
        for id in "abc":
            add(store, id)
        jobs = take(store, 3)
        add(store, "d", after=("b",))
        stale = ended(replace(jobs[2], attempts=7), now=LATER)
        ends = [ended(jobs[0], now=LATER), ended(jobs[1], now=LATER), stale]
        assert finish(store, ends) == [stale]
        assert states(store) == {
            "a": "completed",
            "b": "completed",
            "c": "processing",
            "d": "pending",
        }

    @pytest.mark.needs("transactions")
    def test_two_parents_that_end_at_the_same_time(self, store: Store, other: Store) -> None:
        """Of two who tell one child, one waits for the other."""
        for n in range(20):
            add(store, f"a{n}", priority=1)
            add(store, f"b{n}")
            add(store, f"c{n}", after=(f"a{n}", f"b{n}"), priority=-1)
        first = take(store, 20)
        second = take(store, 20, node="node-2")
        at_once(lambda: finish_each(store, first), lambda: finish_each(other, second))
        found = states(store)
        assert [id for id in found if id[0] == "c" and found[id] != State.PENDING] == []


class TestVeryMany:
    @pytest.fixture(autouse=True)
    def few_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have a transaction tell only a few children."""
        monkeypatch.setattr(module, "TOLD_AT_ONCE", 4)
        monkeypatch.setattr(module, "ROUNDS_AT_ONCE", 3)
        monkeypatch.setattr(module, "PARENTS_AT_ONCE", 2)
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)

    def test_the_others_are_told_later(self, store: Store) -> None:
        add(store, "a")
        for n in range(11):
            add(store, f"c{n}", after=("a",), priority=-n)
        end(store, "a")
        settle(store)
        assert {states(store)[f"c{n}"] for n in range(11)} == {State.PENDING}
        assert store.jobs.settle() is False

    def test_a_long_chain(self, store: Store) -> None:
        add(store, "j0")
        for n in range(1, 12):
            add(store, f"j{n}", after=(f"j{n - 1}",))
        apply(store, the(store, "j0"), cancelled(the(store, "j0"), "stop"), now=LATER)
        settle(store)
        assert set(states(store).values()) == {State.CANCELLED}

    def test_who_isnt_told_yet_of_a_job_that_runs_again(self, store: Store) -> None:
        add(store, "a", priority=9)
        for n in range(9):
            add(store, f"c{n:02}", after=("a",))
        end(store, "a", Exited(1))
        retry(store, "a")
        settle(store)
        end(store, "a")
        settle(store)
        assert {states(store)[f"c{n:02}"] for n in range(9)} == {State.PENDING}

    def test_who_comes_meanwhile(self, store: Store) -> None:
        add(store, "a", priority=9)
        for n in range(9):
            add(store, f"c{n:02}", after=("a",))
        end(store, "a")
        add(store, "late", after=("a",))
        assert the(store, "late").state == State.PENDING
        settle(store)
        edges = store.jobs.children([the(store, "a")], limit=20)
        jobs = store.jobs.at([edge.child for edge in edges])
        assert {(job.state, job.open_parents) for job in jobs} == {(State.PENDING, 0)}

    def test_undo_reaches_those_that_were_told_later(self, store: Store) -> None:
        add(store, "a")
        for n in range(9):
            add(store, f"c{n:02}", after=("a",))
        action = _cancel_by_hand(store, "a")
        settle(store)
        told = store.history.events(action=action)
        assert len(told) == 10
        assert all(event.was for event in told)


class TestReadingAhead:
    """What is cancelled with others is found many levels at a time, and comes to the same."""

    def test_a_chain_takes_few_rounds(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "ROUNDS_AT_ONCE", 12)
        monkeypatch.setattr(module, "READ_AHEAD", 64)
        chain = [NewJob(command="true", id="j0")]
        chain += [NewJob(command="true", id=f"j{n}", after=(f"j{n - 1}",)) for n in range(1, 300)]
        store.jobs.enqueue(chain, now=NOW)
        apply(store, the(store, "j0"), cancelled(the(store, "j0"), "stop"), now=LATER)
        assert not store.jobs.unsettled
        assert set(states(store).values()) == {State.CANCELLED}
        assert the(store, "j299").reason == "its parent j298 was cancelled"

    @pytest.mark.parametrize("seed", range(12))
    def test_it_comes_to_the_same(
        self, store: Store, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As level by level: states, reasons, what each was told, and what is kept of it."""
        found = []
        for name, reach, told in (("x", 0, 10_000), ("y", 1_000, 10_000), ("z", 50, 17)):
            monkeypatch.setattr(module, "READ_AHEAD", reach)
            monkeypatch.setattr(module, "TOLD_AT_ONCE", told)
            store.jobs.enqueue(_some_graph(name, Random(seed)), now=NOW)
            action = _cancel_by_hand(store, f"{name}0")
            settle(store)
            found.append(_told_of(store, name, action))
        assert found[0] == found[1] == found[2]
        assert State.CANCELLED in {state for _, state, _ in found[0][0][1:]}

    @pytest.mark.needs("transactions")
    def test_children_that_come_meanwhile(self, store: Store, other: Store) -> None:
        """Whoever adds a child to one of them sees it cancelled, or has the child told."""
        for n in range(5):
            chain = [NewJob(command="true", id=f"{n}-0")]
            chain += [
                NewJob(command="true", id=f"{n}-{k}", after=(f"{n}-{k - 1}",))
                for k in range(1, 200)
            ]
            store.jobs.enqueue(chain, now=NOW)
            thread = Thread(target=_add_children, args=(other, n))
            thread.start()
            head = the(store, f"{n}-0")
            apply(store, head, cancelled(head, "stop"), now=LATER)
            thread.join()
            settle(store)
            settle(other)
        assert set(states(store).values()) == {State.CANCELLED}

    def test_children_of_one_that_is_dead_are_each_asked(self, store: Store) -> None:
        add(store, "a")
        add(store, "waits", after=("a",))
        add(store, "runs", after=("a",), if_parent_fails="run")
        end(store, "a", Exited(1))
        assert parents(store, "waits") == [("a", "ok", "dead", False)]
        assert parents(store, "runs") == [("a", "ok", "dead", True)]


def _some_graph(name: str, random: Random) -> list[NewJob]:
    """Make a graph of many levels whose jobs want all kinds of things of others."""
    made = [NewJob(command="true", id=f"{name}0")]
    for n in range(1, 70):
        near = range(max(0, n - random.choice([1, 1, 4, 30])), n)
        after = {}
        for parent in random.sample(near, min(len(near), random.choice([1, 1, 1, 2, 3]))):
            after[f"{name}{parent}"] = random.choice(["", "", "", "", ":any", ":fail"])
        fails = random.choice([None, None, "cancel", "run"])
        both = tuple(f"{id}{wanted}" for id, wanted in after.items())
        made.append(NewJob(command="true", id=f"{name}{n}", after=both, if_parent_fails=fails))
    return made


def _told_of(store: Store, name: str, action: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Return how the jobs of a graph stand, what they were told, and what is kept of that.

    Of several parents because of which one is cancelled, any may be named.
    """
    jobs = [the(store, f"{name}{n}") for n in range(70)]
    by_id = {job.id: job for job in jobs}
    for job in jobs[1:]:
        if (parent := parent_in(job.reason)) is not None:
            assert parent in {read_parent(text)[0] for text in job.after}
            assert by_id[parent].state == State.CANCELLED
    seq = jobs[0].seq
    stands = [(job.seq - seq, job.state, job.open_parents) for job in jobs]
    edges = [
        (edge.child - seq, edge.parent - seq, edge.came_to, edge.is_met)
        for edge in store.jobs.parents(jobs)
    ]
    events = [
        (str(event.job)[1:], event.kind, sorted(json.loads(event.was or "{}")))
        for event in store.history.events(action=action)
    ]
    return stands, edges, sorted(events)


def _add_children(store: Store, n: int) -> None:
    for k in range(199, 0, -11):
        add(store, f"{n}-{k}-late", after=(f"{n}-{k}",))


def settle(store: Store) -> None:
    """Go on until all children are told."""
    while store.jobs.settle():
        continue


def _cancel_by_hand(store: Store, id: str) -> str:
    """Cancel a job, so that it can be undone; returns the action that this was."""
    job = the(store, id)
    with one_action() as action:
        event = _event("cancel", id, action.id)
        to = Decision(cancelled(job, "stop"), event, keeps=True)
        store.jobs.change([job], lambda held, now: dict.fromkeys(held, to), now=LATER)
    return action.id


def _event(kind: str, job: str, action: str) -> Any:
    from queuectl.facts import Event

    return Event(at=LATER, kind=kind, job=job, node=None, who="me", detail=None, action=action)


def test_many_that_wait_for_the_same_are_stored_alike(store: Store) -> None:
    """Those that share all that they don't have to themselves are written together."""
    store.jobs.enqueue([NewJob(command="true", id="first")], now=1_000)
    jobs = [NewJob(command=f"echo {n}", after=("first",)) for n in range(250)]
    ids = store.jobs.enqueue(jobs, now=2_000).ids
    assert set(store.jobs.states(ids).values()) == {State.BLOCKED}


class TestWaitingForLess:
    """A job that is edited can wait for less than it did, and so begin."""

    def edit(self, store: Store, id: str, *after: str) -> Job:
        job = the(store, id)
        edit = Decision(Edit(replace(job, after=after)))
        return (
            store.jobs.change([job], lambda held, now: {job.seq: edit}, now=LATER)[job.seq] or job
        )

    def test_of_nothing_any_more_it_is_ready(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        add(store, "child", after=("a", "b:any"), run_at=NOW)
        self.edit(store, "child")
        child = the(store, "child")
        assert (child.state, child.open_parents, child.after) == (State.PENDING, 0, ())
        assert parents(store, "child") == []
        assert set(ids(take(store, 3, now=LATER))) == {"a", "b", "child"}

    def test_of_less_it_waits_on(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        add(store, "child", after=("a", "b:any"))
        self.edit(store, "child", "b:any")
        assert (the(store, "child").state, the(store, "child").open_parents) == (State.BLOCKED, 1)
        assert parents(store, "child") == [("b", "any", None, False)]
        end(store, "a")
        assert the(store, "child").state == State.BLOCKED
        end(store, "b")
        assert the(store, "child").state == State.PENDING

    def test_what_has_let_it_go_counts_no_more(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        add(store, "child", after=("a", "b"))
        end(store, "a")
        self.edit(store, "child", "b")
        assert the(store, "child").open_parents == 1
        self.edit(store, "child")
        assert the(store, "child").state == State.PENDING

    def test_one_whose_dead_parent_is_gone_is_repaired_so(self, store: Store) -> None:
        add(store, "a", max_retries=0)
        add(store, "child", after=("a",))
        end(store, "a", Exited(1))
        remove(store, the(store, "a"))
        assert the(store, "child").state == State.BLOCKED
        self.edit(store, "child")
        assert the(store, "child").state == State.PENDING
