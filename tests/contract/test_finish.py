"""The end of a run: transitions, the fence, and what is kept of every attempt."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from queuectl.errors import StoreError
from queuectl.facts import Event
from queuectl.host import whoami
from queuectl.job import (
    Attempt,
    Cancelled,
    Exited,
    Job,
    Lost,
    NotStarted,
    Outcome,
    Output,
    Released,
    Signalled,
    State,
    Strategy,
    TimedOut,
)
from queuectl.lifecycle import Policy
from queuectl.store import Store
from queuectl.store.contract import Asked, Ended, Over, Topic
from tests.contract.tools import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    ask_cancel,
    claim,
    ended,
    everything,
    finish,
    forget,
    hear,
    ids,
    quieten,
    renew,
    run,
    states,
    strays,
    take,
    take_one,
    the,
)

END = NOW + 5 * SECOND


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1")
    a_node(store, "node-2")


class TestTransitions:
    @pytest.mark.parametrize(
        ("outcome", "fields", "changes"),
        [
            pytest.param(
                Exited(0),
                {},
                {"state": State.COMPLETED, "finished_at": END, "exit_code": 0, "error": None},
                id="completed",
            ),
            pytest.param(
                Exited(3),
                {"max_retries": 2},
                {
                    "state": State.FAILED,
                    "failures": 1,
                    "run_at": END + 2 * SECOND,
                    "exit_code": 3,
                    "error": "error 24",
                },
                id="failed",
            ),
            pytest.param(
                Exited(4),
                {"max_retries": 0},
                {
                    "state": State.DEAD,
                    "failures": 1,
                    "finished_at": END,
                    "exit_code": 4,
                    "error": "error 24",
                    "reason": "exit code 4; no retries allowed",
                },
                id="dead",
            ),
            pytest.param(
                Signalled(9),
                {"max_retries": 0},
                {
                    "state": State.DEAD,
                    "failures": 1,
                    "finished_at": END,
                    "error": "error 24",
                    "reason": "killed by SIGKILL; no retries allowed",
                },
                id="killed",
            ),
            pytest.param(
                Cancelled("called off"),
                {},
                {
                    "state": State.CANCELLED,
                    "finished_at": END,
                    "error": "error 24",
                    "reason": "called off",
                },
                id="cancelled",
            ),
            pytest.param(
                Released(),
                {},
                {"state": State.PENDING, "run_at": END, "error": "error 24"},
                id="released",
            ),
            pytest.param(
                Lost("power cut"),
                {},
                {"state": State.PENDING, "run_at": END, "crashes": 1, "error": "error 24"},
                id="lost",
            ),
        ],
    )
    def test_apply_to_the_job_and_to_nothing_else_of_it(
        self, store: Store, outcome: Outcome, fields: dict[str, Any], changes: dict[str, Any]
    ) -> None:
        add(store, "x", tags=("red",), timeout=9, cwd="/a", env={"B": "c"}, **fields)
        job = take_one(store)
        assert finish(store, [ended(job, outcome, now=END)]) == []
        always = {"updated_at": END, "started_at": NOW + 21, "duration_ms": 4_022}
        assert the(store, "x") == replace(job, **{**always, **changes})

    def test_a_retry_without_a_wait_is_pending_at_once(self, store: Store) -> None:
        add(store, "x", backoff=Strategy.FIXED, retry_delay=0)
        job = run(store, "x", Exited(1))
        assert (job.state, job.failures, job.run_at) == (State.PENDING, 1, END)
        assert take_one(store, now=END).attempts == 2

    def test_an_error_is_gone_once_the_job_completes(self, store: Store) -> None:
        add(store, "x")
        assert run(store, "x", Exited(1), error="bad").error == "bad"
        assert run(store, "x", Exited(0), now=NOW + HOUR, error="stray").error is None

    def test_a_job_that_always_fails_runs_max_retries_plus_1_times(self, store: Store) -> None:
        add(store, "x", max_retries=2, backoff_base=2.0)
        waits = []
        now = NOW
        while the(store, "x").state != State.DEAD:
            now = the(store, "x").run_at
            end = now + 100
            finish(store, [ended(take_one(store, now=now), Exited(1), now=end)])
            waits.append(the(store, "x").run_at - end)
        assert waits[:2] == [2_000, 4_000]
        assert len(waits) == 3
        job = the(store, "x")
        assert (job.attempts, job.failures) == (3, 3)
        assert job.reason == "exit code 1; given up after 2 retries"

    @pytest.mark.parametrize(
        ("outcome", "policy"),
        [(Exited(4), Policy(max_retries=0)), (Lost("died"), Policy(max_crashes=1))],
        ids=["by its failures", "by its crashes"],
    )
    def test_a_job_that_dies_leaves_an_event(
        self, store: Store, outcome: Outcome, policy: Policy
    ) -> None:
        add(store, "x")
        add(store, "y")
        job = run(store, "x", outcome, policy=policy)
        run(store, "y", Exited(0), policy=policy)
        (event,) = store.history.events()
        assert job.reason
        assert event == Event(
            at=END, kind="dead", job="x", node="node-1", who=whoami(), detail=job.reason
        )

    def test_one_that_has_lost_its_lease_leaves_none(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        assert finish(store, [ended(job, Released(), now=END)]) == []
        late = ended(job, Exited(1), policy=Policy(max_retries=0))
        assert finish(store, [late]) == [late]
        assert store.history.events() == []

    def test_a_finished_job_is_never_given_out_again(self, store: Store) -> None:
        outcomes: list[Outcome] = [Exited(0), Cancelled("x"), Exited(1)]
        for n, outcome in enumerate(outcomes):
            add(store, f"x{n}", max_retries=0)
            run(store, f"x{n}", outcome)
        assert take(store, 9, now=NOW + 1000 * HOUR) == []

    def test_many_at_once(self, store: Store) -> None:
        for n in range(100):
            add(store, f"job {n}", max_retries=n % 2)
        ends = [ended(job, Exited(n % 3)) for n, job in enumerate(take(store, 100))]
        assert finish(store, ends) == []
        for n, end in enumerate(ends):
            assert the(store, f"job {n}").state == end.transition.state

    def test_none_at_all(self, store: Store) -> None:
        assert finish(store, []) == []

    def test_a_write_that_fails_half_way_changes_nothing(
        self, store: Store, client: Client
    ) -> None:
        add(store, "a")
        add(store, "b")
        good, bad = take(store, 2)
        before = everything(client)
        with pytest.raises(StoreError):
            finish(store, [ended(good), ended(bad, host=cast(str, None))])
        assert everything(client) == before
        assert finish(store, [ended(good), ended(bad)]) == []


class TestFence:
    """A run that is no longer ours changes nothing, whatever it says."""

    @pytest.mark.parametrize("outcome", [Exited(0), Exited(1), Cancelled("x"), Lost("x")])
    @pytest.mark.parametrize(
        "changes",
        [
            {"attempts": 1},
            {"attempts": 3},
            {"node": "node-2"},
            {"node": None},
            {"id": "y"},
            {"seq": 999_999},
        ],
        ids=repr,
    )
    def test_another_run(
        self, store: Store, client: Client, outcome: Outcome, changes: dict[str, Any]
    ) -> None:
        add(store, "x")
        run(store, "x", Released())
        job = take_one(store, now=END)
        assert job.attempts == 2
        self.check_lost(store, client, ended(replace(job, **changes), outcome))

    def test_a_run_that_has_ended(self, store: Store, client: Client) -> None:
        outcomes: list[Outcome] = [Exited(0), Cancelled("x"), Exited(1), Released()]
        for n, outcome in enumerate(outcomes):
            add(store, f"x{n}", max_retries=0, priority=-n)
            job = take_one(store)
            finish(store, [ended(job, outcome)])
            self.check_lost(store, client, ended(job, Exited(0), now=END + 1))
            self.check_lost(store, client, ended(job, Exited(5), now=END + 1))

    def test_a_run_that_was_rescued(self, store: Store, client: Client) -> None:
        add(store, "x")
        job = take_one(store)
        finish(store, [ended(job, Lost("gone"))])
        self.check_lost(store, client, ended(job))

    def test_a_run_whose_job_another_node_has_now(self, store: Store, client: Client) -> None:
        add(store, "x")
        old = take_one(store, node="node-1")
        finish(store, [ended(old, Lost("gone"))])
        new = take_one(store, node="node-2", now=END)
        self.check_lost(store, client, ended(old))
        assert finish(store, [ended(new)]) == []

    def test_a_run_whose_job_the_same_node_has_again(self, store: Store, client: Client) -> None:
        add(store, "x")
        old = take_one(store)
        finish(store, [ended(old, Released())])
        new = take_one(store, now=END)
        self.check_lost(store, client, ended(old))
        assert finish(store, [ended(new)]) == []

    def test_a_job_that_never_ran(self, store: Store, client: Client) -> None:
        job = add(store, "x")
        self.check_lost(store, client, ended(replace(job, node="node-1", worker=1)))

    def test_a_job_that_is_gone(self, store: Store, client: Client) -> None:
        add(store, "x")
        job = take_one(store)
        client.run("DELETE FROM {jobs} WHERE id = 'x'")
        self.check_lost(store, client, ended(job))

    def test_a_job_that_was_deleted_and_made_anew(self, store: Store, client: Client) -> None:
        add(store, "x")
        job = take_one(store)
        client.run("DELETE FROM {jobs} WHERE id = 'x'")
        add(store, "x", command="another")
        new = take_one(store, now=NOW + SECOND)
        self.check_lost(store, client, ended(job))
        assert finish(store, [ended(new)]) == []

    def test_does_not_harm_the_others_of_a_group(self, store: Store) -> None:
        for id in ("a", "b", "c"):
            add(store, id)
        a, b, c = take(store, 3)
        finish(store, [ended(b, Released())])
        stale = ended(b)
        assert finish(store, [ended(a), stale, ended(c, Exited(1))]) == [stale]
        assert states(store) == {"a": State.COMPLETED, "b": State.PENDING, "c": State.FAILED}

    def test_holds_within_a_group(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        first, second = ended(job, Exited(0)), ended(job, Exited(1))
        assert finish(store, [first, second]) == [second]
        assert the(store, "x").state == State.COMPLETED
        assert len(store.history.attempts(job)) == 1

    def check_lost(self, store: Store, client: Client, end: Ended) -> None:
        """Check that an end is returned as lost and leaves every table as it is."""
        before = everything(client)
        assert finish(store, [end]) == [end]
        assert everything(client) == before


class TestRescue:
    """What a node does for another that is gone."""

    def plan(self, held: Sequence[Job], now: int) -> Over:
        """Take all runs for lost."""
        return Over(
            judge=lambda stuck, asked, now: [
                ended(job, Lost("died"), output=Output()) for job in held
            ]
        )

    def test_one_that_has_shown_life_since_is_left_alone(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        beat = next(node.beat for node in store.nodes.all() if node.id == "node-1")
        assert renew(store, "node-1", until=store.clock.steady() + HOUR)
        assert store.runs.rescue("node-1", self.plan, beat=beat) is None
        assert the(store, "x") == job
        assert store.runs.rescue("node-1", self.plan, beat=beat + 1) is not None
        assert the(store, "x").state == State.PENDING
        assert store.runs.rescue("node-1", self.plan, beat=beat + 1) is None

    def test_there_may_be_nothing_to_note(self, store: Store) -> None:
        add(store, "x")
        take_one(store)

        def plan(held: Sequence[Job], now: int) -> Over:
            return replace(self.plan(held, now), note=lambda job, end, now: None)

        assert store.runs.rescue("node-1", plan) is not None
        assert the(store, "x").state == State.PENDING
        assert store.history.events() == []

    def test_one_that_is_registered_is_no_stray(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        assert store.runs.rescue("node-1", self.plan, registered=False) is None
        assert the(store, "x") == job
        forget(store, "node-1")
        assert store.runs.rescue("node-1", self.plan, registered=False) is not None
        assert the(store, "x").state == State.PENDING

    def test_what_never_began_is_released_and_each_is_noted(self, store: Store) -> None:
        for id in ("began", "unstarted", "unwanted"):
            add(store, id)
        jobs = {job.id: job for job in take(store, 3)}
        assert ask_cancel(store, jobs["unwanted"], "no need", now=NOW)
        seen: list[list[str]] = []

        def plan(held: Sequence[Job], now: int) -> Over:
            def judge(stuck: Sequence[Job], asked: Asked, now: int) -> list[Ended]:
                seen.append(ids(stuck))
                wanted = {seq: job.cancel_reason for seq, job in asked().items()}
                assert wanted == {jobs["unwanted"].seq: "no need"}
                return [
                    ended(jobs["began"], Lost("died"), output=Output()),
                    ended(jobs["unwanted"], Cancelled("no need"), output=Output()),
                ]

            def note(job: Job, end: Ended | None, now: int) -> Event | None:
                if end is not None and end.transition.state == State.CANCELLED:
                    return None
                kind = "released" if end is None else "rescue"
                return Event(at=NOW, kind=kind, job=job.id, node=None, who="me", detail=None)

            return Over([jobs["unstarted"], jobs["unwanted"]], judge, note)

        assert store.runs.rescue("node-1", plan) is not None
        assert seen == [["unwanted"]]
        assert states(store) == {
            "began": State.PENDING,
            "unstarted": State.PENDING,
            "unwanted": State.CANCELLED,
        }
        assert (the(store, "began").attempts, the(store, "unstarted").attempts) == (1, 0)
        assert [(event.kind, event.job) for event in store.history.events()] == [
            ("rescue", "began"),
            ("released", "unstarted"),
        ]

    def test_gives_the_job_back_and_keeps_the_attempt(self, store: Store) -> None:
        add(store, "x", max_retries=0)
        lost = take_one(store, node="node-1")
        turned = store.runs.rescue("node-1", self.plan)
        assert turned is not None
        assert [end.job.id for end in turned.ends] == ["x"]
        assert [node.id for node in store.nodes.all()] == ["node-2"]
        job = the(store, "x")
        assert (job.state, job.crashes, job.failures, job.attempts) == (State.PENDING, 1, 0, 1)
        again = take_one(store, node="node-2", now=END)
        assert (again.attempts, again.node) == (2, "node-2")
        assert finish(store, [ended(lost)]) != []
        assert finish(store, [ended(again)]) == []
        assert [run.outcome for run in store.history.attempts(job)] == ["lost", "exited"]

    def test_a_run_that_was_lost_may_have_ended_long_before_somebody_noticed(
        self, store: Store
    ) -> None:
        add(store, "x")
        job = take_one(store)
        noticed = NOW + HOUR
        end = ended(job, Lost("died"), now=noticed, finished_at=END, noticed_at=noticed)
        assert finish(store, [end]) == []
        (lost,) = store.history.attempts(job)
        assert (lost.started_at, lost.finished_at) == (NOW + 21, END)
        given_back = the(store, "x")
        assert (given_back.state, given_back.run_at) == (State.PENDING, noticed)
        assert (given_back.updated_at, given_back.finished_at) == (noticed, None)
        again = take_one(store, now=noticed)
        later = noticed + HOUR
        end = ended(again, Cancelled("x"), now=later, finished_at=noticed + 5, noticed_at=later)
        assert finish(store, [end]) == []
        over = the(store, "x")
        assert (over.state, over.finished_at, over.updated_at) == (State.CANCELLED, later, later)
        # What became of the job counts where it became so; how long the run took is its own.
        cancelled = [
            r for r in store.history.rollups(since=later - MINUTE) if r.measure == "cancelled"
        ]
        assert [(rollup.count, rollup.total_ms) for rollup in cancelled] == [(1, 4_022)]

    def test_a_job_that_takes_its_nodes_down_is_dead_in_the_end(self, store: Store) -> None:
        add(store, "x", max_retries=9)
        for crash in (1, 2, 3):
            assert the(store, "x").state == State.PENDING
            job = run(store, "x", Lost("died"), now=NOW + crash * MINUTE)
            assert (job.crashes, job.failures) == (crash, 0)
        assert job.state == State.DEAD
        assert job.reason == "3 runs were lost with their workers (last: died)"


class TestAttempts:
    @pytest.mark.parametrize(
        ("outcome", "name", "exit_code", "signal"),
        [
            (Exited(0), "exited", 0, None),
            (Exited(77), "exited", 77, None),
            (Signalled(11), "signalled", None, 11),
            (TimedOut(9_000), "timed out", None, None),
            (Cancelled("why"), "cancelled", None, None),
            (NotStarted("why"), "not started", None, None),
            (Lost("why"), "lost", None, None),
            (Released("why"), "released", None, None),
        ],
    )
    def test_keep_every_field(
        self, store: Store, outcome: Outcome, name: str, exit_code: int | None, signal: int | None
    ) -> None:
        add(store, "x")
        (job,) = claim(store, "node-1", [31], [], now=NOW).jobs
        finish(store, [ended(job, outcome)])
        error = None if outcome == Exited(0) else "error 24"
        assert store.history.attempts(job) == [
            Attempt(
                job="x",
                number=1,
                node="node-1",
                host="host-23",
                worker=31,
                started_at=NOW + 21,
                finished_at=END,
                duration_ms=4_022,
                outcome=name,
                exit_code=exit_code,
                signal=signal,
                error=error,
                stdout_bytes=2_025,
                stderr_bytes=2_026,
                peak_memory=2_027,
                cpu_ms=2_028,
                read_bytes=2_029,
                written_bytes=2_030,
                noted="noted 31",
            )
        ]

    def test_come_oldest_first_and_belong_to_their_job(self, store: Store) -> None:
        add(store, "x")
        add(store, "y", priority=-1)
        for n in range(1, 13):
            run(store, "x", Released(), now=NOW + n * MINUTE, duration_ms=n)
        run(store, "x", now=NOW + HOUR, duration_ms=13)
        run(store, "y", now=NOW + HOUR, duration_ms=99)
        kept = store.history.attempts(the(store, "x"))
        assert [(a.number, a.duration_ms) for a in kept] == [(n, n) for n in range(1, 14)]
        assert [a.job for a in store.history.attempts(the(store, "y"))] == ["y"]

    def test_of_a_job_that_never_ran_there_are_none(self, store: Store) -> None:
        assert store.history.attempts(add(store, "x")) == []

    def test_the_running_one_is_not_among_them(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        assert store.history.attempts(job) == []
        assert store.history.output(job, 1) is None


class TestOutput:
    @pytest.mark.parametrize(
        "output",
        [
            Output(stdout=b"out", stderr=b"err", stdout_bytes=3, stderr_bytes=3),
            Output(stdout=b"out", stdout_bytes=9_999_999_999),
            Output(stderr=b"err", stderr_bytes=4),
            Output(stdout=bytes(range(256)), stderr=b"\0\0", stdout_bytes=256, stderr_bytes=2),
            Output(stdout=b"x" * 2**20, stdout_bytes=2**20),
            Output(),
            Output(stdout_bytes=7, stderr_bytes=8),
        ],
        ids=["both", "cut", "only stderr", "any bytes", "a mebibyte", "nothing", "nothing kept"],
    )
    def test_comes_back(self, store: Store, output: Output) -> None:
        add(store, "x")
        job = run(store, "x", output=output)
        assert store.history.output(job, 1) == output

    def test_is_kept_for_every_attempt(self, store: Store) -> None:
        add(store, "x")
        for n in (1, 2, 3):
            output = Output(stdout=b"%d" % n, stdout_bytes=n, stderr_bytes=10 + n)
            job = run(store, "x", Released(), now=NOW + n * MINUTE, output=output)
        for n in (1, 2, 3):
            assert store.history.output(job, n) == Output(
                stdout=b"%d" % n, stdout_bytes=n, stderr_bytes=10 + n
            )

    @pytest.mark.parametrize("number", [0, 2, -1, 2**31])
    def test_of_no_such_attempt_there_is_none(self, store: Store, number: int) -> None:
        add(store, "x")
        assert store.history.output(run(store, "x"), number) is None

    def test_other_jobs_have_their_own(self, store: Store) -> None:
        add(store, "x")
        add(store, "y")
        run(store, "x", output=Output(stdout=b"of x", stdout_bytes=4))
        run(store, "y", output=Output(stdout=b"of y", stdout_bytes=4))
        for id in ("x", "y"):
            output = store.history.output(the(store, id), 1)
            assert output is not None
            assert output.stdout == f"of {id}".encode()


class TestHeld:
    def test_is_what_a_node_has_in_processing(self, store: Store) -> None:
        for n in range(6):
            add(store, f"job {n}", priority=n)
        mine = take(store, 3, node="node-1")
        theirs = take(store, 2, node="node-2")
        finish(store, [ended(mine[0])])
        assert ids(store.runs.held("node-1")) == ["job 3", "job 4"]
        assert store.runs.held("node-1") == sorted(mine[1:], key=lambda job: job.seq)
        assert ids(store.runs.held("node-2")) == ids(sorted(theirs, key=lambda job: job.seq))
        assert store.runs.held("node-3") == []


class TestStrays:
    def test_are_what_runs_on_a_node_nobody_knows(self, store: Store) -> None:
        for n in range(4):
            add(store, f"job {n}")
        one, two = take(store, 2, node="node-1")
        take(store, 1, node="node-2")
        assert strays(store) == []
        forget(store, "node-1")
        assert strays(store) == ["node-1"]
        finish(store, [ended(one, Lost("gone"))])
        assert strays(store) == ["node-1"]
        finish(store, [ended(two, Lost("gone"))])
        assert strays(store) == []


class TestToCancel:
    def test_is_what_somebody_wants_cancelled(self, store: Store) -> None:
        for n in range(4):
            add(store, f"job {n}")
        one, two, three = take(store, 3, node="node-1")
        (four,) = take(store, node="node-2")
        for job in (two, four):
            assert ask_cancel(store, job, f"stop {job.id}", now=NOW + 7)
        assert store.runs.held("node-1", to_cancel=True) == [the(store, "job 1")]
        assert store.runs.held("node-1", to_cancel=True)[0].cancel_reason == "stop job 1"
        assert ids(store.runs.held("node-2", to_cancel=True)) == ["job 3"]
        finish(store, [ended(job) for job in (one, two, three, four)])
        assert store.runs.held("node-1", to_cancel=True) == []

    def test_a_run_that_is_being_cancelled_ends_cancelled(self, store: Store) -> None:
        add(store, "x")
        job = take_one(store)
        ask_cancel(store, job, "stop it", now=NOW + 7)
        (asked,) = store.runs.held("node-1", to_cancel=True)
        finish(store, [ended(asked, Cancelled(asked.cancel_reason or ""))])
        job = the(store, "x")
        assert (job.state, job.reason, job.cancel_reason) == (State.CANCELLED, "stop it", None)
        assert not ask_cancel(store, job, "again", now=END)
        assert take(store, now=NOW + HOUR) == []


@pytest.mark.needs("notifications")
class TestWakeUp:
    @pytest.mark.parametrize("outcome", [Released(), Lost("gone")])
    def test_a_job_that_goes_back_in_line_wakes_the_others(
        self, store: Store, other: Store, outcome: Outcome
    ) -> None:
        add(store, "x")
        job = take_one(store)
        listener = other.listen()
        try:
            quieten(listener)
            finish(store, [ended(job, outcome)])
            assert hear(listener, Topic.WORK)
        finally:
            listener.close()


class TestRollups:
    def test_count_runs_by_what_became_of_the_job_and_waits(self, store: Store) -> None:
        policy = Policy(max_retries=1, backoff_base=1)
        add(store, "x", queue="one", run_at=NOW - 300)
        run(store, "x", Exited(1), duration_ms=10, started_at=NOW + 100, policy=policy)
        job = the(store, "x")
        again = take_one(store, now=job.run_at)
        end = ended(
            again,
            now=job.run_at + 50,
            duration_ms=20,
            started_at=job.run_at + 7,
        )
        finish(store, [end])
        told = {
            (r.measure, r.count, r.total_ms, r.least_ms, r.most_ms) for r in store.history.rollups()
        }
        assert told == {
            ("failed", 1, 10, 10, 10),
            ("completed", 1, 20, 20, 20),
            ("wait", 1, 400, 400, 400),
            ("wait", 1, 7, 7, 7),
        }

    def test_a_clock_that_jumped_back_makes_no_negative_wait(self, store: Store) -> None:
        add(store, "x")
        run(store, "x", started_at=NOW - HOUR)
        (wait,) = [row for row in store.history.rollups() if row.measure == "wait"]
        assert (wait.total_ms, wait.least_ms) == (0, 0)

    def test_runs_of_one_bucket_add_up(self, store: Store) -> None:
        for n, ms in enumerate([50, 50, 50]):
            add(store, f"x{n}")
            run(store, f"x{n}", duration_ms=ms, node=f"node-{n % 2 + 1}")
        (row,) = [row for row in store.history.rollups() if row.measure == "completed"]
        assert (row.count, row.total_ms, row.bucket) == (3, 150, 50)

    def test_the_least_and_the_most_of_a_bucket_are_kept(self, store: Store) -> None:
        for n, ms in enumerate([1_003, 1_001, 1_006, 1_004]):
            add(store, f"x{n}")
            run(store, f"x{n}", duration_ms=ms)
        (row,) = [row for row in store.history.rollups() if row.measure == "completed"]
        assert (row.count, row.total_ms, row.least_ms, row.most_ms) == (4, 4_014, 1_001, 1_006)

    def test_in_one_group_they_add_up_too(self, store: Store) -> None:
        for n in range(10):
            add(store, f"x{n}")
        ends = [
            ended(job, duration_ms=1_000 + n, started_at=NOW)
            for n, job in enumerate(take(store, 10))
        ]
        finish(store, ends)
        rows = [row for row in store.history.rollups() if row.measure == "completed"]
        assert sum(row.count for row in rows) == 10
        assert sum(row.total_ms for row in rows) == 10 * 1_000 + 45
        assert min(row.least_ms for row in rows) == 1_000
        assert max(row.most_ms for row in rows) == 1_009

    def test_a_lost_run_counts_for_nothing(self, store: Store) -> None:
        add(store, "x")
        job: Job = take_one(store)
        finish(store, [ended(replace(job, attempts=9))])
        assert store.history.rollups() == []
