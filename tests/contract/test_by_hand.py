"""What people do to jobs: apply, ask to cancel, remove, prune. Never to a job that has changed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Thread

import pytest

from queuectl.errors import StateError
from queuectl.facts import Event
from queuectl.filter import Filter
from queuectl.job import Cancelled, Exited, Job, Released, State, Transition
from queuectl.lifecycle import cancelled, expired, retried
from queuectl.store import Store
from queuectl.store.contract import Decision, EndRun
from tests.contract.tools import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    apply,
    apply_all,
    ask_cancel,
    ask_cancel_all,
    assert_counts_are_right,
    ended,
    everything,
    finish,
    ids,
    remove,
    remove_all,
    run,
    states,
    take,
    take_one,
    the,
    transaction,
)

LATER = NOW + MINUTE


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store, "node-1")


Change = Callable[[Store, Job], bool]
APPLY: dict[str, Change] = {
    "cancel": lambda store, job: apply(store, job, cancelled(job, "by hand"), now=LATER),
    "retry": lambda store, job: apply(store, job, retried(LATER), now=LATER),
}
ASK: dict[str, Change] = {
    "ask to cancel": lambda store, job: ask_cancel(store, job, "by hand", now=LATER),
}
REMOVE: dict[str, Change] = {"remove": lambda store, job: remove(store, job)}


def changes(*groups: dict[str, Change]) -> pytest.MarkDecorator:
    """Run a test with each of these changes."""
    together = {name: change for group in groups for name, change in group.items()}
    return pytest.mark.parametrize("change", together.values(), ids=together)


class TestApply:
    def test_a_waiting_job_can_be_cancelled(self, store: Store) -> None:
        job = add(store, "x", priority=3, tags=("red",))
        assert apply(store, job, cancelled(job, "not wanted"), now=LATER)
        assert the(store, "x") == replace(
            job,
            state=State.CANCELLED,
            reason="not wanted",
            finished_at=LATER,
            updated_at=LATER,
        )
        assert take(store, now=LATER) == []

    def test_a_delayed_job_can_be_cancelled(self, store: Store) -> None:
        job = add(store, "x", run_at=NOW + HOUR)
        assert apply(store, job, cancelled(job, "not wanted"), now=LATER)
        assert store.runs.outlook().due is None
        assert take(store, now=NOW + HOUR) == []

    @pytest.mark.parametrize("outcome", [Exited(1), Exited(0), Cancelled("why")])
    def test_a_finished_job_can_be_retried_from_zero(
        self, store: Store, outcome: Exited | Cancelled
    ) -> None:
        add(store, "x", max_retries=0)
        done = run(store, "x", outcome)
        assert apply(store, done, retried(LATER), now=LATER)
        assert the(store, "x") == replace(
            done,
            state=State.PENDING,
            failures=0,
            crashes=0,
            reason=None,
            run_at=LATER,
            finished_at=None,
            updated_at=LATER,
        )
        assert take_one(store, now=LATER).attempts == 2
        assert len(store.history.attempts(done)) == 1

    def test_a_job_that_waits_for_its_retry_can_be_made_due(self, store: Store) -> None:
        add(store, "x")
        failed = run(store, "x", Exited(1))
        assert failed.run_at > NOW + 6 * SECOND
        now = NOW + 6 * SECOND
        assert apply(store, failed, retried(now), now=now)
        assert ids(take(store, now=now)) == ["x"]

    def test_one_whose_time_to_start_is_over_may_start_all_the_same(self, store: Store) -> None:
        add(store, "x", expires_at=NOW + SECOND)
        assert take(store, now=LATER) == []
        assert apply(store, the(store, "x"), retried(LATER), now=LATER)
        assert the(store, "x").expires_at is None
        assert ids(take(store, now=LATER)) == ["x"]

    def test_a_time_to_start_that_is_not_over_holds_on(self, store: Store) -> None:
        job = add(store, "x", expires_at=LATER + SECOND)
        apply(store, job, cancelled(job, "no"), now=NOW)
        assert apply(store, the(store, "x"), retried(LATER), now=LATER)
        assert the(store, "x").expires_at == LATER + SECOND

    def test_a_transition_into_the_future_waits(self, store: Store) -> None:
        job = add(store, "x")
        transition = Transition(state=State.FAILED, failures=4, crashes=5, run_at=LATER)
        assert apply(store, job, transition, now=NOW)
        assert take(store, now=LATER - 1) == []
        assert store.runs.outlook().due == LATER
        taken = take_one(store, now=LATER)
        assert (taken.failures, taken.crashes) == (4, 5)

    def test_without_a_time_the_job_keeps_its_own(self, store: Store) -> None:
        job = add(store, "x", run_at=NOW - 7)
        apply(store, job, expired(job), now=LATER)
        assert the(store, "x").run_at == NOW - 7

    def test_a_running_job_is_left_alone(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        assert not apply(store, job, cancelled(job, "no"), now=LATER)
        assert not apply(store, replace(job, state=State.PENDING), retried(LATER), now=LATER)
        assert the(store, "x") == job


class TestAskCancel:
    def test_marks_the_run(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        assert ask_cancel(store, job, "enough", now=LATER)
        assert the(store, "x") == replace(job, cancel_reason="enough", updated_at=LATER)

    def test_only_a_running_job_can_be_asked(self, store: Store) -> None:
        waiting = add(store, "waiting", run_at=NOW + DAY)
        add(store, "done")
        done = run(store, "done")
        for job in (waiting, done):
            assert not ask_cancel(store, job, "x", now=LATER)
            assert the(store, job.id) == job

    def test_the_next_run_is_not_meant(self, store: Store) -> None:
        add(store, "x")
        first = take_one(store)
        finish(store, [ended(first, Released())])
        second = take_one(store, now=LATER)
        assert not ask_cancel(store, first, "too late", now=LATER)
        assert the(store, "x") == second


class TestRemove:
    def test_takes_everything_along(self, store: Store, client: Client) -> None:
        empty = everything(client)
        add(store, "x", tags=("red", "big"), stdin=b"read me")
        job = run(store, "x")
        assert remove(store, job)
        assert store.jobs.get("x") is None
        assert store.jobs.stdin(job) == b""
        assert store.history.attempts(job) == []
        assert store.history.output(job, 1) is None
        left = everything(client)
        for table in ("jobs", "attempts", "outputs", "inputs", "tags"):
            assert left[table] == empty[table]

    def test_leaves_others_alone(self, store: Store) -> None:
        add(store, "x", tags=("red",))
        add(store, "y", tags=("red",))
        run(store, "x")
        y = run(store, "y")
        remove(store, the(store, "x"))
        assert the(store, "y") == y
        assert len(store.history.attempts(y)) == 1
        assert store.history.output(y, 1) is not None

    def test_keeps_the_statistics(self, store: Store) -> None:
        add(store, "x")
        job = run(store, "x")
        before = store.history.rollups()
        remove(store, job)
        assert store.history.rollups() == before != []

    def test_a_running_job_is_left_alone(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        assert not remove(store, job)
        assert the(store, "x") == job

    @pytest.mark.needs("transactions")
    def test_one_that_is_being_claimed_is_waited_for(self, store: Store, other: Store) -> None:
        job = add(store, "x")
        done: list[bool] = []
        thread = Thread(target=lambda: done.append(remove(store, job)))
        with transaction(other):
            claimed = take_one(other)
            thread.start()
            thread.join(0.2)
            assert done == []
        thread.join(30)
        assert done == [False]
        assert the(store, "x") == claimed

    def test_a_new_job_with_the_same_id_has_no_past(self, store: Store) -> None:
        add(store, "x", tags=("old",))
        remove(store, run(store, "x"))
        job = add(store, "x", now=LATER)
        assert (job.attempts, job.tags, job.created_at) == (0, (), LATER)
        assert store.history.attempts(job) == []
        assert store.history.output(job, 1) is None


class TestChangedSince:
    """A job read earlier is a picture: what has changed since is not touched by it."""

    @changes(APPLY, ASK, REMOVE)
    def test_taken_meanwhile(self, store: Store, client: Client, change: Change) -> None:
        old = add(store, "x")
        take_one(store)
        self.check_refused(store, client, change, old)

    @changes(APPLY, ASK, REMOVE)
    def test_ran_meanwhile(self, store: Store, client: Client, change: Change) -> None:
        old = add(store, "x")
        run(store, "x", Released())
        self.check_refused(store, client, change, old)

    @changes(APPLY, ASK, REMOVE)
    def test_ended_meanwhile(self, store: Store, client: Client, change: Change) -> None:
        add(store, "x")
        old = take_one(store)
        finish(store, [ended(old)])
        self.check_refused(store, client, change, old)

    @changes(APPLY, ASK, REMOVE)
    def test_removed_meanwhile(self, store: Store, client: Client, change: Change) -> None:
        old = add(store, "x")
        remove(store, old)
        self.check_refused(store, client, change, old)

    @changes(APPLY, ASK, REMOVE)
    def test_removed_and_made_anew_meanwhile(
        self, store: Store, client: Client, change: Change
    ) -> None:
        old = add(store, "x")
        remove(store, old)
        add(store, "x", command="another", now=NOW + SECOND)
        self.check_refused(store, client, change, old)

    @changes(APPLY, ASK, REMOVE)
    def test_cancelled_meanwhile(self, store: Store, client: Client, change: Change) -> None:
        old = add(store, "x")
        apply(store, old, cancelled(old, "first"), now=NOW + 1)
        self.check_refused(store, client, change, old)

    def check_refused(self, store: Store, client: Client, change: Change, old: Job) -> None:
        """Check that a change is refused and leaves every table as it is."""
        before = everything(client)
        assert not change(store, old)
        assert everything(client) == before


class TestMany:
    """Several jobs in one statement: each is changed, or not, as it would be by itself."""

    @pytest.fixture
    def seen(self, store: Store) -> list[Job]:
        """A hundred jobs as they were before some of them changed."""
        return [add(store, f"job {n}") for n in range(100)]

    def changed(self, store: Store, seen: list[Job]) -> set[int]:
        """Change some of them; return their places."""
        for job in seen[::10]:
            assert apply(store, job, cancelled(job, "before"), now=NOW)
        taken = take(store, 7)
        return {job.seq for job in seen[::10]} | {job.seq for job in taken}

    def test_those_that_changed_are_left_alone(self, store: Store, seen: list[Job]) -> None:
        others = self.changed(store, seen)
        rest = {job.seq for job in seen} - others
        reasons = {job.seq: f'it\'s no. {n} \N{SNOWMAN} "x"' for n, job in enumerate(seen)}
        done = apply_all(
            store, [(job, cancelled(job, reasons[job.seq])) for job in seen], now=LATER
        )
        assert done == rest
        for job in seen:
            now = the(store, job.id)
            assert (now.reason == reasons[job.seq]) == (job.seq in rest)
            assert (now.finished_at == LATER) == (job.seq in rest)

    def test_only_runs_are_asked_to_end(self, store: Store, seen: list[Job]) -> None:
        taken = take(store, 5)
        assert ask_cancel_all(store, [*seen, *taken], "stop", now=LATER) == {
            job.seq for job in taken
        }
        assert [job.cancel_reason for job in store.runs.held("node-1", to_cancel=True)] == [
            "stop"
        ] * 5

    def test_what_changed_is_not_removed(
        self, store: Store, client: Client, seen: list[Job]
    ) -> None:
        others = self.changed(store, seen)
        gone = remove_all(store, seen)
        assert gone == {job.seq for job in seen} - others
        assert {job.seq for job in store.jobs.select(Filter(), limit=None)} == others
        assert_counts_are_right(store, client)

    def test_none_is_no_trouble(self, store: Store, client: Client) -> None:
        before = everything(client)
        assert apply_all(store, [], now=NOW) == set()
        assert ask_cancel_all(store, [], "x", now=NOW) == set()
        assert remove_all(store, []) == set()
        store.history.record()
        assert everything(client) == before
        assert store.history.events() == []

    def test_an_error_undoes_all_of_it(self, store: Store, client: Client, seen: list[Job]) -> None:
        before = everything(client)
        with pytest.raises(ValueError, match="no"), transaction(store):
            apply_all(store, [(job, cancelled(job, "x")) for job in seen[:50]], now=LATER)
            remove_all(store, seen[50:])
            raise ValueError("no")
        assert everything(client) == before


class TestPrune:
    @pytest.fixture(autouse=True)
    def jobs(self, store: Store, node: None) -> None:
        """Ten completed, three dead, one cancelled job, an hour apart; one waits, one runs."""
        for n in range(10):
            add(store, f"done {n}", tags=("red",), now=NOW + n * HOUR)
            run(store, f"done {n}", now=NOW + n * HOUR + 5 * SECOND)
        for n in range(3):
            add(store, f"dead {n}", max_retries=0, now=NOW + n * HOUR)
            run(store, f"dead {n}", Exited(1), now=NOW + n * HOUR + 5 * SECOND)
        add(store, "off")
        run(store, "off", Cancelled("why"))
        add(store, "running")
        take_one(store)
        add(store, "waiting")

    def test_takes_one_state_older_than_a_time(self, store: Store) -> None:
        before = NOW + 4 * HOUR + 5 * SECOND
        assert store.jobs.prune(State.COMPLETED, before, limit=None) == 4
        assert store.jobs.prune(State.COMPLETED, before, limit=100) == 4
        assert [id for id in states(store) if id.startswith("done")] == [
            f"done {n}" for n in range(4, 10)
        ]
        assert len(states(store)) == 12
        assert store.jobs.prune(State.COMPLETED, before, limit=None) == 0
        assert store.jobs.prune(State.COMPLETED, before + 1, limit=None) == 1

    def test_takes_the_oldest_first_up_to_the_limit(self, store: Store) -> None:
        assert store.jobs.prune(State.COMPLETED, NOW + DAY, limit=None) == 10
        assert store.jobs.prune(State.COMPLETED, NOW + DAY, limit=3) == 3
        assert "done 2" not in states(store)
        assert "done 3" in states(store)
        assert [store.jobs.prune(State.COMPLETED, NOW + DAY, limit=4) for _ in range(3)] == [
            4,
            3,
            0,
        ]

    @pytest.mark.parametrize(("state", "count"), [(State.DEAD, 3), (State.CANCELLED, 1)])
    def test_every_final_state_can_be_pruned(self, store: Store, state: State, count: int) -> None:
        assert store.jobs.prune(state, NOW + DAY, limit=100) == count
        assert state not in states(store).values()

    @pytest.mark.parametrize(
        "state", [State.PENDING, State.PROCESSING, State.FAILED, State.BLOCKED]
    )
    def test_no_other_state_ever_is(self, store: Store, state: State) -> None:
        before = states(store)
        assert store.jobs.prune(state, NOW + 1000 * DAY, limit=None) == 0
        assert store.jobs.prune(state, NOW + 1000 * DAY, limit=100) == 0
        assert states(store) == before

    def test_takes_attempts_output_and_tags_along(self, store: Store, client: Client) -> None:
        store.jobs.prune(State.COMPLETED, NOW + DAY, limit=100)
        left = everything(client)
        assert len(left["attempts"]) == len(left["outputs"]) == 4
        assert left["tags"] == []

    def test_keeps_the_statistics(self, store: Store) -> None:
        before = store.history.rollups()
        for state in (State.COMPLETED, State.DEAD, State.CANCELLED):
            store.jobs.prune(state, NOW + DAY, limit=100)
        assert store.history.rollups() == before

    def test_a_pruned_id_is_free_again(self, store: Store) -> None:
        store.jobs.prune(State.COMPLETED, NOW + DAY, limit=100)
        assert add(store, "done 0").attempts == 0

    def test_a_job_that_was_retried_is_not_finished_any_more(self, store: Store) -> None:
        job = the(store, "dead 0")
        apply(store, job, retried(NOW + DAY), now=NOW + DAY)
        assert store.jobs.prune(State.DEAD, NOW + DAY, limit=100) == 2
        assert the(store, "dead 0").state == State.PENDING

    @pytest.mark.needs("transactions")
    def test_nor_is_one_that_somebody_is_retrying(self, store: Store, other: Store) -> None:
        job = the(store, "dead 0")
        done: list[int] = []
        thread = Thread(
            target=lambda: done.append(store.jobs.prune(State.DEAD, NOW + DAY, limit=100))
        )
        with transaction(other):
            assert apply(other, job, retried(NOW + DAY), now=NOW + DAY)
            thread.start()
            thread.join(0.2)
        thread.join(30)
        assert done == [2]
        assert the(store, "dead 0").state == State.PENDING


class TestDeciding:
    def test_jobs_are_as_they_are_now(self, store: Store, other: Store) -> None:
        stale = [add(store, "x"), add(store, "y"), add(store, "z")]
        remove(other, stale[1])
        assert apply(other, stale[2], cancelled(stale[2], "no"), now=NOW)
        seen: dict[str, State] = {}

        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            seen.update((job.id, job.state) for job in held.values())
            assert now == LATER
            return {}

        assert store.jobs.change(stale[::-1], decide, now=LATER) == {}
        assert seen == {"x": State.PENDING, "z": State.CANCELLED}

    def test_of_none_is_none(self, store: Store) -> None:
        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            raise AssertionError("there is nothing to decide")

        assert store.jobs.change([], decide) == {}

    def test_what_raises_changes_nothing(self, store: Store) -> None:
        jobs = [add(store, "x"), add(store, "y")]

        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            raise KeyError("no")

        with pytest.raises(KeyError):
            store.jobs.change(jobs, decide)
        assert states(store) == {"x": State.PENDING, "y": State.PENDING}

    def test_what_was_made_of_each_is_returned_and_its_event_kept(self, store: Store) -> None:
        jobs = {id: add(store, id) for id in ("runs", "off", "left")}
        running = take_one(store)
        event = Event(at=NOW, kind="test", job="off", node=None, who="me", detail="why")

        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            made = {
                jobs["off"].seq: Decision(cancelled(jobs["off"], "no"), event),
                running.seq: Decision(EndRun("enough")),
            }
            return {seq: decision for seq, decision in made.items() if seq in held}

        made = store.jobs.change(list(jobs.values()), decide, now=LATER)
        assert running.id == "runs"
        assert made == {job.seq: the(store, job.id) for job in (jobs["off"], running)}
        assert the(store, "off").state == State.CANCELLED
        assert the(store, "runs").cancel_reason == "enough"
        assert store.history.events() == [event]

    @pytest.mark.needs("transactions")
    def test_one_that_runs_is_never_deleted(self, store: Store) -> None:
        add(store, "runs")
        job = take_one(store)
        other = add(store, "other")

        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            return dict.fromkeys(held, Decision(None))

        with pytest.raises(StateError, match="Job runs is processing"):
            store.jobs.change([other, job], decide)
        assert states(store) == {"runs": State.PROCESSING, "other": State.PENDING}

    @pytest.mark.needs("transactions")
    def test_others_wait_until_it_is_done(self, store: Store, other: Store) -> None:
        job = add(store, "x")
        done: list[bool] = []
        thread = Thread(
            target=lambda: done.append(apply(other, job, cancelled(job, "no"), now=NOW))
        )

        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            thread.start()
            thread.join(0.2)
            assert done == []
            return {job.seq: Decision(cancelled(job, "first"))}

        store.jobs.change([job], decide)
        thread.join(30)
        assert done == [False]
        assert the(store, "x").reason == "first"
