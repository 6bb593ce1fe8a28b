"""What was done by hand and is taken back: jobs are again what they were, or stay as they are."""

from collections.abc import Callable, Sequence

import pytest

from queuectl import changes, editing, undoing
from queuectl.action import one_action
from queuectl.changes import Changed, Refused
from queuectl.errors import NotFoundError, StateError
from queuectl.facts import UNDO_FOR, Event
from queuectl.filter import Filter
from queuectl.history import event_of
from queuectl.host import acting_as
from queuectl.job import Cancelled, Exited, Job, NewJob, Outcome, State
from queuectl.lifecycle import cancelled
from queuectl.limits import Limits
from queuectl.scope import keeping_to
from queuectl.store import Store
from queuectl.store.contract import Decision
from queuectl.values import replace
from tests.contract.tools import (
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    assert_counts_are_right,
    ended,
    finish,
    remove,
    run,
    states,
    take_one,
    the,
)

together = pytest.mark.needs("transactions")


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store, "node-1")


def do(store: Store, change: changes.Change, *ids: str) -> str:
    """Do something to jobs, and return the action that it was."""
    with one_action() as action:
        changes.make(store, [the(store, id) for id in ids], change)
    return action.id


def undo(store: Store, action: str | None, *, may_change_work: bool = True) -> dict[str, str]:
    """Undo an action; returns what became of each job: nothing, or why it stays as it is."""
    found: dict[str, str] = {}

    def told(some: Sequence[Changed | Refused]) -> None:
        for one in some:
            name = one.before.id if isinstance(one, Changed) else one.name
            found[name] = "" if isinstance(one, Changed) else str(one.error)

    done = undoing.undo(store, action, told, may_change_work=may_change_work)
    assert (done.jobs, done.jobs + done.refused) == (list(found.values()).count(""), len(found))
    return found


def same(job: Job) -> Job:
    """Return a job but for when it was changed."""
    return replace(job, updated_at=0)


DEEDS: dict[str, Callable[[], changes.Change]] = {
    "cancel": lambda: changes.cancelling("not wanted"),
    "hold": lambda: editing.HOLD,
    "move": lambda: editing.moving("elsewhere"),
    "retry": lambda: changes.RETRY,
    "top": lambda: editing.TOP,
    "edit": lambda: editing.editing(
        {"command": "other", "priority": 9, "tags": ["new"], "keys": ["k2"], "timeout": "9s"}
    ),
    "retry with": lambda: editing.retrying({"argv": ["ls", "-l"], "backoff": "fixed"}),
}


class TestComesBack:
    @pytest.mark.parametrize("deed", DEEDS)
    def test_a_job_is_again_what_it_was(self, store: Store, client: Client, deed: str) -> None:
        far = store.clock.now() + 10**9
        add(store, "x", queue="one", tags=("red", "big"), keys=("k",), priority=3, run_at=far)
        before = the(store, "x")
        action = do(store, DEEDS[deed](), "x")
        assert same(the(store, "x")) != same(before) or deed == "retry"
        assert undo(store, action) == {"x": ""}
        assert same(the(store, "x")) == same(before)
        assert_counts_are_right(store, client)
        [last, *_] = store.history.events("x")
        assert (last.kind, last.action == action) == ("undo", False)
        assert undo(store, action) == {"x": "Job x has changed since; it is pending."}

    def test_one_that_was_dead_is_dead_again(self, store: Store, client: Client) -> None:
        add(store, "x", max_retries=0)
        run(store, "x", Exited(3), now=NOW + SECOND, error="it broke")
        before = the(store, "x")
        action = do(store, changes.RETRY, "x")
        assert the(store, "x").state == State.PENDING
        assert undo(store, action) == {"x": ""}
        assert same(the(store, "x")) == same(before)
        assert_counts_are_right(store, client)

    def test_one_that_was_cancelled_runs_after_all(self, store: Store) -> None:
        add(store, "x")
        undo(store, do(store, changes.cancelling(), "x"))
        assert take_one(store, now=store.clock.now()).id == "x"

    def test_one_that_was_held_stays_so_and_one_that_was_released_is_held(
        self, store: Store
    ) -> None:
        add(store, "x")
        do(store, editing.HOLD, "x")
        assert undo(store, do(store, editing.RELEASE, "x")) == {"x": ""}
        assert the(store, "x").is_held
        assert undo(store, do(store, changes.cancelling(), "x")) == {"x": ""}
        assert the(store, "x").is_held

    def test_one_that_waited_for_a_key_is_looked_at_anew(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(key_limit=1))
        add(store, "first", keys=("k",))
        add(store, "second", keys=("k",))
        now = store.clock.now()
        assert take_one(store, now=now).id == "first"
        action = do(store, changes.cancelling(), "second")
        assert undo(store, action) == {"second": ""}
        assert the(store, "second").state == State.PENDING


@together
class TestMany:
    def test_all_come_back_in_parts(self, store: Store, client: Client) -> None:
        many = undoing.PAGE * 2 + 10
        store.jobs.enqueue([NewJob(id=f"j{n}", command="true") for n in range(many)], now=NOW)
        changes.make_matching(store, Filter(), changes.cancelling(), lambda _: None, dry_run=False)
        [last] = store.history.events(limit=1)
        do(store, changes.RETRY, "j7")
        found = undo(store, last.action)
        assert found.pop("j7") == "Job j7 has changed since; it is pending."
        assert set(found.values()) == {""}
        assert len(found) == many - 1
        assert states(store) == dict.fromkeys([f"j{n}" for n in range(many)], State.PENDING)
        assert_counts_are_right(store, client)

    def test_one_whose_unique_key_was_taken_keeps_none_of_the_others(self, store: Store) -> None:
        add(store, "a", unique="u")
        add(store, "b", unique="v")
        action = do(store, changes.cancelling(), "a", "b")
        add(store, "c", unique="u")
        found = undo(store, action)
        assert found["b"] == ""
        assert "c has the unique key" in found["a"]
        assert states(store) == {"a": "cancelled", "b": "pending", "c": "pending"}
        again = store.jobs.enqueue([NewJob(id="d", command="true", unique="v")], now=NOW)
        assert again.existing == ("b",)


class TestStays:
    def test_a_job_that_has_run_since(self, store: Store) -> None:
        add(store, "x")
        do(store, editing.HOLD, "x")
        action = do(store, editing.RELEASE, "x")
        now = store.clock.now()
        take_one(store, now=now)
        assert undo(store, action) == {"x": "Job x runs by now."}
        assert the(store, "x").state == State.PROCESSING

    def test_a_job_that_was_changed_or_deleted_since(self, store: Store) -> None:
        add(store, "x")
        add(store, "y")
        first, other = do(store, editing.HOLD, "x"), do(store, editing.HOLD, "y")
        do(store, editing.RELEASE, "x")
        remove(store, the(store, "y"))
        assert undo(store, first) == {"x": "Job x has changed since; it is pending."}
        assert undo(store, other) == {"y": "Job y isn't here any more, or has another place."}

    def test_what_is_deleted_stays_deleted(self, store: Store) -> None:
        add(store, "x")
        action = do(store, changes.REMOVE, "x")
        assert undo(store, action) == {"x": "Job x: rm can't be undone; it is deleted."}

    def test_variables_are_not_kept(self, store: Store) -> None:
        add(store, "x", env={"A": "secret-1"})
        action = do(store, editing.editing({"env": {"A": "secret-2"}, "priority": 3}), "x")
        [event] = store.history.events("x")
        assert event.was is None
        assert "what they were isn't kept" in undo(store, action)["x"]
        assert the(store, "x").priority == 3

    def test_what_runs_is_not_changed_by_who_may_not(self, store: Store) -> None:
        add(store, "x", command="old")
        action = do(store, editing.editing({"command": "new"}), "x")
        assert "run something else" in undo(store, action, may_change_work=False)["x"]
        assert the(store, "x").command == "new"

    def test_jobs_of_queues_that_are_out_of_reach(self, store: Store) -> None:
        add(store, "x", queue="theirs")
        action = do(store, editing.moving("ours"), "x")
        with keeping_to(("ours",)):
            assert "isn't here" in undo(store, action)["x"]
        assert the(store, "x").queue == "ours"

    @together
    def test_those_that_are_not_for_who_asks_are_not_spoken_of(self, store: Store) -> None:
        for id, queue in (("x", "ours"), ("y", "theirs"), ("z", "ours")):
            add(store, id, queue=queue)
        mixed = do(store, editing.HOLD, "x", "y")
        other = do(store, editing.HOLD, "z")
        the_move = do(store, editing.moving("theirs"), "z")
        with keeping_to(("ours",)):
            assert undo(store, mixed) == {"x": ""}
            for action in (mixed, other, the_move):
                with keeping_to(("elsewhere",)), pytest.raises(NotFoundError, match="no action"):
                    undo(store, action)
            remove(store, the(store, "x"))
            for action in (mixed, other, the_move):
                with pytest.raises(NotFoundError, match="There is no action"):
                    undo(store, action)
        assert the(store, "y").is_held

    def test_what_was_done_too_long_ago(self, store: Store) -> None:
        job = add(store, "x")
        at = store.clock.now() - UNDO_FOR - SECOND
        event = Event(at=at, kind="cancel", job="x", node=None, who="me", detail=None, action="old")
        decision = Decision(cancelled(job, "why"), event, keeps=True)
        store.jobs.change([job], lambda held, _: dict.fromkeys(held, decision), now=at)
        with pytest.raises(StateError, match="more than 10 minutes ago"):
            undo(store, "old")
        with pytest.raises(NotFoundError, match="nothing in the last 10 minutes"):
            undo(store, None)
        with pytest.raises(NotFoundError, match="no action 'none'"):
            undo(store, "none")
        assert the(store, "x").state == State.CANCELLED

    def test_a_job_that_would_expire_at_once(self, store: Store) -> None:
        add(store, "x", expires_at=NOW + SECOND)
        action = do(store, changes.cancelling(), "x")
        assert undo(store, action) == {"x": "Job x would be brought back to expire at once."}


def test_the_last_action_is_that_of_who_asks(store: Store) -> None:
    add(store, "x")
    do(store, editing.HOLD, "x")
    store.history.record(
        Event(at=NOW, kind="pause", job=None, node=None, who="other", detail=None, action="a")
    )
    assert undo(store, None) == {"x": ""}
    assert not the(store, "x").is_held


def end_run(store: Store, job: Job, outcome: Outcome) -> None:
    """Have the node of a running job, in a process of its own, tell how its run ended."""
    asked = the(store, job.id)
    assert finish(store, [ended(asked, outcome, now=store.clock.now())]) == []


class TestWhatRan:
    """Somebody cancels a job that runs: its run ends later, and takes along who waits for it."""

    def test_what_it_took_along_comes_back(self, store: Store, client: Client) -> None:
        add(store, "old", priority=-1)
        do(store, changes.cancelling(), "old")
        add(store, "runs")
        add(store, "child", after=("runs",))
        add(store, "grandchild", after=("child",))
        job = take_one(store, now=store.clock.now())
        action = do(store, changes.cancelling("not now"), "runs")
        end_run(store, job, Cancelled(str(the(store, "runs").cancel_reason)))
        assert states(store) == dict.fromkeys(states(store), State.CANCELLED)
        assert undoing.last_action(store) == action
        found = undo(store, None)
        why = "Job runs stays cancelled: it ran, so that can't be taken back."
        assert found == {"grandchild": "", "child": "", "runs": why}
        back = {"child": "blocked", "grandchild": "blocked"}
        assert states(store) == {"old": "cancelled", "runs": "cancelled"} | back
        assert_counts_are_right(store, client)
        do(store, changes.RETRY, "runs")
        run(store, "runs", now=store.clock.now() + SECOND)
        run(store, "child", now=store.clock.now() + SECOND)
        run(store, "grandchild", now=store.clock.now() + SECOND)

    def test_nothing_older_is_meant(self, store: Store) -> None:
        add(store, "old", priority=-1)
        do(store, changes.cancelling(), "old")
        add(store, "runs")
        job = take_one(store, now=store.clock.now())
        action = do(store, changes.cancelling(), "runs")
        found = undo(store, None)
        assert found == {"runs": "Job runs runs, and is being ended; that can't be taken back."}
        end_run(store, job, Exited(9))
        assert list(undo(store, action)) == ["runs"]
        do(store, changes.REMOVE, "runs")
        assert undo(store, None) == {"runs": "Job runs: rm can't be undone; it is deleted."}
        store.history.record(event_of(store.clock.now(), "pause", detail="default"))
        with pytest.raises(StateError, match="can't be undone: pause default"):
            undo(store, None)
        assert states(store) == {"old": "cancelled"}

    def test_an_undo_is_not_undone_nor_what_was_before_it(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        do(store, editing.HOLD, "a")
        do(store, editing.HOLD, "b")
        assert undo(store, None) == {"b": ""}
        with pytest.raises(StateError, match="took something back"):
            undo(store, None)
        assert the(store, "a").is_held

    def test_what_was_done_after_the_request_is_the_last(self, store: Store) -> None:
        add(store, "runs")
        add(store, "child", after=("runs",))
        add(store, "other", priority=-1)
        job = take_one(store, now=store.clock.now())
        do(store, changes.cancelling(), "runs")
        later = do(store, editing.HOLD, "other")
        end_run(store, job, Exited(9))
        assert the(store, "child").state == State.CANCELLED
        assert undoing.last_action(store) == later

    def test_it_is_the_action_of_who_asked_whoever_has_the_node(self, store: Store) -> None:
        add(store, "runs")
        add(store, "child", after=("runs",))
        job = take_one(store, now=store.clock.now())
        with acting_as("ann"):
            action = do(store, changes.cancelling(), "runs")
        end_run(store, job, Exited(9))
        with acting_as("ann"):
            assert undoing.last_action(store) == action
        with pytest.raises(NotFoundError, match="nothing in the last 10 minutes"):
            undoing.last_action(store)

    def test_an_earlier_request_is_not_that_of_this_run(self, store: Store) -> None:
        add(store, "runs")
        do(store, changes.cancelling(), "runs")
        do(store, changes.RETRY, "runs")
        add(store, "child", after=("runs",))
        job = take_one(store, now=store.clock.now())
        end_run(store, job, Cancelled("by itself"))
        [event] = store.history.events("child")
        assert (event.detail, event.action) == ("its parent runs was cancelled", None)

    def test_a_run_that_completed_all_the_same_took_nothing_along(self, store: Store) -> None:
        add(store, "runs")
        add(store, "child", after=("runs",))
        add(store, "unneeded", after=("runs:fail",))
        job = take_one(store, now=store.clock.now())
        action = do(store, changes.cancelling(), "runs")
        end_run(store, job, Exited(0))
        assert undo(store, action) == {
            "runs": "Job runs: it ran, so that can't be taken back; it is completed."
        }
        assert states(store) == {"runs": "completed", "child": "pending", "unneeded": "cancelled"}

    @pytest.mark.parametrize("last", [Exited(0), Exited(9)])
    def test_what_waits_for_a_group_comes_back(
        self, store: Store, client: Client, last: Outcome
    ) -> None:
        for id in ("g1", "g2", "g3"):
            add(store, id, group="g")
        add(store, "follow", after_group=("g",))
        add(store, "behind", after=("follow",))
        jobs = [take_one(store, now=store.clock.now()) for _ in range(2)]
        action = do(store, changes.cancelling(), "g1", "g2", "g3")
        assert the(store, "follow").state == State.BLOCKED
        for job, outcome in zip(jobs, (Exited(9), last), strict=True):
            end_run(store, job, outcome)
        assert the(store, "follow").state == the(store, "behind").state == State.CANCELLED
        found = undo(store, action)
        assert [id for id, why in found.items() if not why] == ["behind", "follow", "g3"]
        assert the(store, "follow").state == the(store, "behind").state == State.BLOCKED
        assert the(store, "g3").state == State.PENDING
        assert_counts_are_right(store, client)

    def test_the_end_of_a_group_belongs_to_what_ended_the_last_of_it(self, store: Store) -> None:
        for group, is_asked in (("one", True), ("two", False)):
            for id in (f"{group}-a", f"{group}-b"):
                add(store, id, group=group)
            add(store, f"{group}-follow", after_group=(group,))
            job = take_one(store, now=store.clock.now())
            with one_action() as action:
                for id in (f"{group}-b", *[job.id] * is_asked):
                    changes.make(store, [the(store, id)], changes.cancelling())
            # It completes all the same, but is the last of a group that is called off.
            end_run(store, job, Exited(0))
            [event] = store.history.events(f"{group}-follow")
            assert event.action == (action.id if is_asked else None)

    @together
    def test_what_waits_for_a_group_that_waited_itself_comes_back(self, store: Store) -> None:
        add(store, "g1", group="g")
        add(store, "follow", after_group=("g",))
        action = do(store, changes.cancelling(), "g1")
        assert the(store, "follow").state == State.CANCELLED
        assert undo(store, action) == {"follow": "", "g1": ""}
        assert states(store) == {"g1": "pending", "follow": "blocked"}
