"""The transition function, by example and by what always holds; and how long retries wait."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queuectl.job import (
    FINISHED,
    Cancelled,
    Exited,
    Job,
    Lost,
    NotStarted,
    Outcome,
    Released,
    Signalled,
    State,
    Strategy,
    TimedOut,
    Transition,
)
from queuectl.lifecycle import (
    LONGEST_WAIT,
    Policy,
    backoff,
    cancelled,
    decide,
    expired,
    in_line,
    retried,
)
from tests.unit.samples import NOW, a_job

POLICY = Policy()

FAILURES: list[tuple[Outcome, str]] = [
    (Exited(1), "exit code 1"),
    (Exited(255), "exit code 255"),
    (Exited(126), "exit code 126 (found, but can't be executed)"),
    (Exited(127), "exit code 127 (command not found)"),
    (Exited(137), "exit code 137 (a child was killed by SIGKILL)"),
    (Signalled(11), "killed by SIGSEGV"),
    (Signalled(250), "killed by signal 250"),
    (TimedOut(1_000), "timed out after 1s"),
    (TimedOut(90_500), "timed out after 1m30.5s"),
    (NotStarted("no such folder"), "could not start: no such folder"),
]

int64 = st.integers(-(2**63), 2**63 - 1)
counters = st.integers(0, 2**63 - 2)
small = st.integers(0, 6)
reasons = st.text(max_size=20)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Exited, st.integers(0, 2) | int64),
    st.builds(Signalled, st.integers(1, 64) | int64),
    st.builds(TimedOut, int64),
    st.builds(Cancelled, reasons),
    st.builds(NotStarted, reasons),
    st.builds(Lost, reasons),
    st.builds(Released, reasons),
)
bases = st.floats(1, 10) | st.floats(1, allow_nan=False)
waits = st.integers(0, 600_000) | st.integers(0, 2**63 - 1)
jobs: st.SearchStrategy[Job] = st.builds(
    a_job,
    id=st.text(min_size=1, max_size=12),
    state=st.sampled_from(State),
    failures=small | counters,
    crashes=small | counters,
    max_retries=st.none() | small | counters,
    backoff=st.none() | st.sampled_from(Strategy),
    backoff_base=st.none() | bases,
    retry_delay=st.none() | waits,
    max_backoff=st.none() | waits,
    cancel_reason=st.none() | reasons,
)
policies = st.builds(
    Policy,
    max_retries=small | counters,
    max_crashes=st.integers(1, 5),
    backoff=st.sampled_from(Strategy),
    backoff_base=bases,
    retry_delay=waits,
    max_backoff=waits,
    jitter=st.just(0.0) | st.floats(0, 1),
    forced_base=st.none() | bases,
)
nows = st.integers(0, 253_402_300_799_999)


class TestDecide:
    """Every outcome, for each situation of the job that makes a difference."""

    @pytest.mark.parametrize(
        "job",
        [
            pytest.param(a_job(failures=0), id="first run"),
            pytest.param(a_job(failures=2, max_retries=2), id="last retry"),
            pytest.param(a_job(max_retries=0), id="no retries"),
            pytest.param(a_job(crashes=2), id="crashed before"),
            pytest.param(a_job(cancel_reason="too late"), id="cancel asked too late"),
        ],
    )
    def test_exit_0_completes(self, job: Job) -> None:
        assert decide(job, Exited(0), NOW, POLICY) == Transition(
            state=State.COMPLETED, failures=job.failures, crashes=job.crashes
        )

    @pytest.mark.parametrize(("outcome", "_words"), FAILURES)
    def test_a_failure_with_retries_left_waits(self, outcome: Outcome, _words: str) -> None:
        job = a_job(failures=1, max_retries=2, backoff_base=3.0)
        assert decide(job, outcome, NOW, POLICY) == Transition(
            state=State.FAILED, failures=2, crashes=job.crashes, run_at=NOW + 9_000
        )

    @pytest.mark.parametrize(("outcome", "words"), FAILURES)
    def test_a_failure_after_the_last_retry_is_dead(self, outcome: Outcome, words: str) -> None:
        job = a_job(failures=2, max_retries=2)
        assert decide(job, outcome, NOW, POLICY) == Transition(
            state=State.DEAD,
            failures=3,
            crashes=job.crashes,
            reason=f"{words}; given up after 2 retries",
        )

    @pytest.mark.parametrize(
        ("failures", "max_retries", "words"),
        [
            (0, 0, "no retries allowed"),
            (1, 1, "given up after 1 retry"),
            (5, 5, "given up after 5 retries"),
        ],
    )
    def test_the_reason_says_how_many_retries_there_were(
        self, failures: int, max_retries: int, words: str
    ) -> None:
        job = a_job(failures=failures, max_retries=max_retries)
        assert decide(job, Exited(4), NOW, POLICY).reason == f"exit code 4; {words}"

    def test_max_retries_lowered_below_the_failures_is_dead(self) -> None:
        job = a_job(failures=4, max_retries=1)
        assert decide(job, Exited(1), NOW, POLICY).state == State.DEAD

    def test_a_job_without_max_retries_takes_the_policys(self) -> None:
        job = a_job(failures=1, max_retries=None)
        assert decide(job, Exited(1), NOW, Policy(max_retries=2)).state == State.FAILED
        assert decide(job, Exited(1), NOW, Policy(max_retries=1)).state == State.DEAD

    def test_its_own_max_retries_outrank_the_policys(self) -> None:
        job = a_job(failures=0, max_retries=0)
        assert decide(job, Exited(1), NOW, Policy(max_retries=9)).state == State.DEAD

    @pytest.mark.parametrize("cancel_reason", [None, "asked before"])
    def test_cancelled_is_cancelled(self, cancel_reason: str | None) -> None:
        job = a_job(failures=1, cancel_reason=cancel_reason)
        assert decide(job, Cancelled("by hand"), NOW, POLICY) == Transition(
            state=State.CANCELLED, failures=1, crashes=job.crashes, reason="by hand"
        )

    @pytest.mark.parametrize(
        "outcome", [Released(), Lost("power cut"), *(outcome for outcome, _ in FAILURES)]
    )
    def test_any_other_end_of_a_run_that_is_being_cancelled_cancels(self, outcome: Outcome) -> None:
        job = a_job(cancel_reason="called off", crashes=2)
        assert decide(job, outcome, NOW, POLICY) == Transition(
            state=State.CANCELLED, failures=0, crashes=2, reason="called off"
        )

    @pytest.mark.parametrize("forced", ["", "[1]"])
    @pytest.mark.parametrize(
        "outcome",
        [Exited(0), Cancelled("x"), Released(), Lost("y"), *(outcome for outcome, _ in FAILURES)],
    )
    def test_any_end_of_a_run_whose_job_is_finished_by_hand_completes(
        self, outcome: Outcome, forced: str
    ) -> None:
        job = a_job(cancel_reason="finished by me", forced=forced, failures=1, crashes=2)
        assert decide(job, outcome, NOW, POLICY) == Transition(
            state=State.COMPLETED, failures=1, crashes=2, reason="finished by me"
        )

    @pytest.mark.parametrize("max_retries", [0, 2])
    def test_released_is_pending_at_once_and_unharmed(self, max_retries: int) -> None:
        job = a_job(failures=2, max_retries=max_retries, crashes=2)
        assert decide(job, Released(), NOW, POLICY) == Transition(
            state=State.PENDING, failures=2, crashes=2, run_at=NOW
        )

    def test_lost_is_pending_at_once_and_counts_a_crash(self) -> None:
        job = a_job(failures=2, max_retries=2, crashes=1)
        assert decide(job, Lost("node died"), NOW, POLICY) == Transition(
            state=State.PENDING, failures=2, crashes=2, run_at=NOW
        )

    def test_crashed_too_often_is_dead_though_retries_are_left(self) -> None:
        job = a_job(failures=0, max_retries=9, crashes=2)
        assert decide(job, Lost("node died"), NOW, Policy(max_crashes=3)) == Transition(
            state=State.DEAD,
            failures=0,
            crashes=3,
            reason="3 runs were lost with their workers (last: node died)",
        )

    @pytest.mark.parametrize(("max_crashes", "suspicious"), [(1, 1), (2, 1), (3, 2), (10, 9)])
    def test_a_suspect_is_one_whose_next_crash_is_its_last(
        self, max_crashes: int, suspicious: int
    ) -> None:
        assert Policy(max_crashes=max_crashes).suspicious == suspicious

    def test_one_crash_may_be_too_often(self) -> None:
        job = a_job(crashes=0)
        transition = decide(job, Lost("oom"), NOW, Policy(max_crashes=1))
        assert transition.state == State.DEAD
        assert transition.reason == "its run was lost with its worker (oom)"

    def test_crashes_do_not_hasten_the_end_of_a_failing_job(self) -> None:
        job = a_job(failures=0, max_retries=1, crashes=2)
        assert decide(job, Exited(1), NOW, POLICY).state == State.FAILED

    @pytest.mark.parametrize(
        ("attempts", "reason"),
        [(0, "expired before it could start"), (2, "expired before it could start again")],
    )
    def test_an_expired_job_is_dead_with_its_reason(self, attempts: int, reason: str) -> None:
        job = a_job(state=State.PENDING, failures=1, attempts=attempts)
        assert expired(job) == Transition(
            state=State.DEAD, failures=1, crashes=job.crashes, reason=reason
        )

    def test_a_waiting_job_that_is_cancelled_keeps_its_counts(self) -> None:
        job = a_job(state=State.FAILED, failures=1)
        assert cancelled(job, "not wanted") == Transition(
            state=State.CANCELLED, failures=1, crashes=job.crashes, reason="not wanted"
        )

    def test_a_retry_by_hand_counts_from_zero_and_is_due_now(self) -> None:
        assert retried(NOW) == Transition(state=State.PENDING, failures=0, crashes=0, run_at=NOW)

    def test_one_that_others_keep_from_running_is_blocked_then(self) -> None:
        assert in_line(a_job(state=State.DEAD, open_parents=1)) == State.BLOCKED
        assert in_line(a_job(state=State.DEAD, open_parents=0)) == State.PENDING


class TestBackoff:
    @pytest.mark.parametrize(
        ("changes", "seconds"),
        [
            pytest.param(
                {"backoff_base": 2.0}, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300], id="base 2"
            ),
            pytest.param({"backoff_base": 3.0}, [3, 9, 27, 81, 243, 300], id="base 3"),
            pytest.param({"backoff_base": 1.5}, [1.5, 2.25, 3.375, 5.062], id="base 1.5"),
            pytest.param({"backoff_base": 1.0}, [1, 1, 1], id="base 1"),
            pytest.param({"backoff_base": None}, [5, 25, 125, 300], id="the policy's base"),
            pytest.param({"backoff_base": 10.0, "max_backoff": 40_000}, [10, 40, 40], id="own cap"),
            pytest.param(
                {"backoff_base": 10.0, "max_backoff": 500}, [0.5, 0.5], id="cap below 1 s"
            ),
            pytest.param({"backoff_base": 10.0, "max_backoff": 0}, [0, 0], id="no wait at all"),
            pytest.param({"max_backoff": None}, [3, 9, 27, 77, 77], id="the policy's cap"),
            pytest.param(
                {"backoff": Strategy.LINEAR, "retry_delay": 1_500}, [1.5, 3, 4.5, 6], id="linear"
            ),
            pytest.param(
                {"backoff": Strategy.LINEAR, "retry_delay": 200_000},
                [200, 300, 300],
                id="linear, capped",
            ),
            pytest.param(
                {"backoff": Strategy.LINEAR, "retry_delay": None}, [7, 14, 21], id="linear, policy"
            ),
            pytest.param(
                {"backoff": Strategy.FIXED, "retry_delay": 1_500}, [1.5, 1.5, 1.5], id="fixed"
            ),
            pytest.param({"backoff": Strategy.FIXED, "retry_delay": 0}, [0, 0], id="fixed 0"),
            pytest.param(
                {"backoff": Strategy.FIXED, "retry_delay": 400_000}, [300, 300], id="fixed, capped"
            ),
            pytest.param(
                {"backoff": Strategy.FIXED, "retry_delay": None}, [7, 7], id="fixed, policy"
            ),
        ],
    )
    def test_waits(self, changes: dict[str, object], seconds: list[float]) -> None:
        policy = Policy(backoff_base=5.0, retry_delay=7_000, max_backoff=77_000)
        job = a_job(**{"max_backoff": 300_000, **changes})
        waits = [backoff(job, failure, policy) for failure in range(1, len(seconds) + 1)]
        assert waits == [int(s * 1000) for s in seconds]

    def test_by_default_2_4_8_up_to_5_minutes(self) -> None:
        job = a_job(backoff=None, backoff_base=None, retry_delay=None, max_backoff=None)
        waits = [backoff(job, failure, POLICY) // 1000 for failure in range(1, 11)]
        assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]

    def test_a_job_without_a_strategy_takes_the_policys(self) -> None:
        job = a_job(backoff=None, backoff_base=3.0, retry_delay=1_000)
        waits = [backoff(job, 4, Policy(backoff=strategy)) for strategy in Strategy]
        assert waits == [81_000, 4_000, 1_000]

    def test_a_nodes_forced_base_outranks_the_jobs(self) -> None:
        policy = Policy(backoff_base=5.0, forced_base=4.0)
        assert [backoff(a_job(backoff_base=3.0), k, policy) for k in (1, 2, 3)] == [
            4_000,
            16_000,
            64_000,
        ]

    def test_a_forced_base_leaves_other_strategies_alone(self) -> None:
        job = a_job(backoff=Strategy.FIXED, retry_delay=1_234)
        assert backoff(job, 3, Policy(forced_base=9.0)) == 1_234

    @pytest.mark.parametrize("strategy", Strategy)
    def test_the_first_wait_of_every_strategy_comes_after_the_first_failure(
        self, strategy: Strategy
    ) -> None:
        job = a_job(backoff=strategy, backoff_base=2.0, retry_delay=2_000, failures=0)
        assert decide(job, Exited(1), NOW, POLICY).run_at == NOW + 2_000

    @pytest.mark.parametrize("failures", [1, 2, 1_000, 2**31, 2**63 - 1])
    @pytest.mark.parametrize("base", [1e9, 1.7e308, float("inf")])
    def test_huge_numbers_end_at_the_cap(self, base: float, failures: int) -> None:
        job = a_job(backoff_base=base, max_backoff=300_000)
        assert backoff(job, failures, POLICY) == 300_000

    def test_a_base_of_almost_1_still_gets_to_the_cap(self) -> None:
        job = a_job(backoff_base=1.000001, max_backoff=300_000)
        assert backoff(job, 1, POLICY) == 1_000
        assert backoff(job, 2**62, POLICY) == 300_000

    @pytest.mark.parametrize("strategy", Strategy)
    def test_nothing_waits_longer_than_a_year(self, strategy: Strategy) -> None:
        job = a_job(
            backoff=strategy, backoff_base=1e9, retry_delay=2**63 - 1, max_backoff=2**63 - 1
        )
        assert backoff(job, 50, POLICY) == LONGEST_WAIT

    def test_jitter_spreads_both_ways_within_its_share(self) -> None:
        policy = Policy(jitter=0.25)
        waits = [backoff(a_job(id=f"job {n}", backoff_base=10.0), 2, policy) for n in range(1_000)]
        assert all(75_000 <= wait <= 125_000 for wait in waits)
        assert min(waits) < 76_000
        assert max(waits) > 124_000
        assert 98_000 < sum(waits) / len(waits) < 102_000

    def test_jitter_is_the_same_for_the_same_failure_of_the_same_job(self) -> None:
        policy = Policy(jitter=0.5)
        assert backoff(a_job(id="one"), 1, policy) == backoff(a_job(id="one"), 1, policy)
        assert backoff(a_job(id="one"), 1, policy) != backoff(a_job(id="two"), 1, policy)
        fixed = a_job(backoff=Strategy.FIXED)
        assert backoff(fixed, 1, policy) != backoff(fixed, 2, policy)

    def test_jitter_reads_ids_that_no_encoding_can(self) -> None:
        assert backoff(a_job(id="\udc80"), 1, Policy(jitter=1.0)) >= 0

    @given(jobs, policies, small | counters)
    @example(a_job(id="c", backoff=Strategy.FIXED, retry_delay=300_000), Policy(jitter=0.5), 1)
    def test_no_wait_is_longer_than_max_backoff(
        self, job: Job, policy: Policy, failures: int
    ) -> None:
        longest = policy.max_backoff if job.max_backoff is None else job.max_backoff
        assert 0 <= backoff(job, failures, policy) <= min(longest, LONGEST_WAIT)

    @given(jobs, policies, st.integers(1, 200) | st.integers(1, 2**62))
    def test_waits_never_get_shorter(self, job: Job, policy: Policy, failures: int) -> None:
        steady = Policy(
            backoff=policy.backoff,
            backoff_base=policy.backoff_base,
            retry_delay=policy.retry_delay,
            max_backoff=policy.max_backoff,
            forced_base=policy.forced_base,
        )
        assert backoff(job, failures, steady) <= backoff(job, failures + 1, steady)

    @given(st.floats(1, 100), st.integers(1, 12), st.integers(0, 10**9))
    def test_exponential_is_the_power_or_the_cap(self, base: float, k: int, longest: int) -> None:
        job = a_job(backoff_base=base, max_backoff=longest)
        assert backoff(job, k, POLICY) == min(int(base**k * 1000), longest)


class TestAlways:
    """What holds for any job and any outcome."""

    @given(jobs, outcomes, nows, policies)
    def test_there_is_always_an_answer(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        assert isinstance(decide(job, outcome, now, policy), Transition)

    @given(jobs, outcomes, nows, policies)
    def test_it_is_the_same_each_time(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        assert decide(job, outcome, now, policy) == decide(job, outcome, now, policy)

    @given(jobs, outcomes, nows, policies)
    def test_a_run_counts_as_a_failure_or_a_crash_or_neither(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        transition = decide(job, outcome, now, policy)
        failed, crashed = transition.failures - job.failures, transition.crashes - job.crashes
        assert (failed, crashed) in [(0, 0), (1, 0), (0, 1)]
        assert not crashed or isinstance(outcome, Lost)
        assert not failed or isinstance(outcome, Exited | Signalled | TimedOut | NotStarted)

    @given(jobs, outcomes, nows, policies)
    def test_completed_means_exit_0_and_exit_0_means_completed(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        completed = decide(job, outcome, now, policy).state == State.COMPLETED
        assert completed == (outcome == Exited(0))

    @given(jobs, outcomes, nows, policies)
    def test_a_run_never_leaves_its_job_running_or_blocked(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        state = decide(job, outcome, now, policy).state
        assert state not in (State.PROCESSING, State.BLOCKED)

    @given(jobs, outcomes, nows, policies)
    def test_a_job_that_runs_again_has_a_time_for_it_and_no_other_has(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        transition = decide(job, outcome, now, policy)
        assert (transition.run_at is None) == (transition.state in FINISHED)
        assert transition.run_at is None or transition.run_at >= now

    @given(jobs, outcomes, nows, policies)
    def test_dead_and_cancelled_have_a_reason_and_nothing_else_has(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        transition = decide(job, outcome, now, policy)
        given_up = transition.state in (State.DEAD, State.CANCELLED)
        assert (transition.reason is not None) == given_up
        assert transition.state != State.DEAD or transition.reason

    @given(jobs, outcomes, nows, policies)
    def test_a_cancelled_job_runs_no_more(
        self, job: Job, outcome: Outcome, now: int, policy: Policy
    ) -> None:
        if job.cancel_reason is not None or isinstance(outcome, Cancelled):
            state = decide(job, outcome, now, policy).state
            assert state in (State.CANCELLED, State.COMPLETED)

    @given(st.integers(0, 40), st.none() | st.integers(0, 40), policies)
    def test_an_always_failing_job_runs_max_retries_plus_1_times(
        self, policys: int, own: int | None, policy: Policy
    ) -> None:
        policy = Policy(max_retries=policys, jitter=policy.jitter, backoff=policy.backoff)
        job = a_job(failures=0, crashes=0, max_retries=own)
        assert runs_until_dead(job, Exited(1), policy) == (policys if own is None else own) + 1

    @given(st.integers(1, 40), st.integers(0, 3))
    def test_an_always_crashing_job_runs_max_crashes_times(self, most: int, retries: int) -> None:
        job = a_job(failures=0, crashes=0, max_retries=retries)
        assert runs_until_dead(job, Lost("gone"), Policy(max_crashes=most)) == most

    @given(st.lists(st.booleans(), max_size=30))
    def test_a_crash_never_uses_a_retry(self, crashes: list[bool]) -> None:
        policy = Policy(max_crashes=1_000)
        job = a_job(failures=0, crashes=0, max_retries=1_000)
        for crash in crashes:
            transition = decide(job, Lost("gone") if crash else Exited(1), NOW, policy)
            job = a_job(failures=transition.failures, crashes=transition.crashes, max_retries=1_000)
        assert job.failures == crashes.count(False)
        assert job.crashes == crashes.count(True)


def runs_until_dead(job: Job, outcome: Outcome, policy: Policy) -> int:
    """Run a job to the same end again and again until it is dead; say how often that was."""
    for run in range(1, 100):
        transition = decide(job, outcome, NOW, policy)
        if transition.state == State.DEAD:
            return run
        job = a_job(
            failures=transition.failures, crashes=transition.crashes, max_retries=job.max_retries
        )
    raise AssertionError("it never died")
