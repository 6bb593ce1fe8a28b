"""Jobs and attempts: what a row says is what the value says; and outcomes in words."""

import json
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from queuectl.job import (
    ATTEMPT_COLUMNS,
    FINISHED,
    JOB_COLUMNS,
    WAITING,
    Attempt,
    Cancelled,
    Exited,
    Job,
    Lost,
    NewJob,
    NotStarted,
    Outcome,
    Output,
    Released,
    Signalled,
    State,
    Strategy,
    TimedOut,
    signal_name,
)
from tests.unit.samples import SAMPLE, a_job


def row_of(job: Job) -> list[object]:
    """Write a job the way a store keeps it."""
    texts: dict[str, object] = {
        "state": job.state.value,
        "argv": None if job.argv is None else json.dumps(job.argv),
        "env": json.dumps(job.env) if job.env else None,
        "tags": json.dumps(job.tags) if job.tags else None,
        "keys": json.dumps(job.keys) if job.keys else None,
        "after": json.dumps(job.after) if job.after else None,
        "requires": json.dumps(job.requires) if job.requires else None,
        "devices": json.dumps(job.devices) if job.devices else None,
        "bounds": json.dumps(job.bounds) if job.bounds else None,
        "after_group": json.dumps(job.after_group) if job.after_group else None,
        "parameters": json.dumps(job.parameters) if job.parameters else None,
        "backoff": None if job.backoff is None else job.backoff.value,
    }
    return [texts.get(name, getattr(job, name)) for name in JOB_COLUMNS]


class TestJob:
    def test_the_sample_has_no_two_fields_alike(self) -> None:
        values = [getattr(SAMPLE, f.name) for f in fields(SAMPLE)]
        told = [str(value) for value in values if value not in (None, ())]
        assert len(told) == len(set(told))

    @pytest.mark.parametrize(
        "job",
        [
            pytest.param(SAMPLE, id="a command"),
            pytest.param(a_job(command=None, argv=("ls", "-l", "a b", "ä")), id="an argv"),
            pytest.param(a_job(command=None, task="import", data=b"\xff\0"), id="a task"),
            pytest.param(a_job(tags=(), env={}), id="without tags and variables"),
            *(pytest.param(a_job(state=state), id=state.value) for state in State),
            *(pytest.param(a_job(backoff=strategy), id=strategy.value) for strategy in Strategy),
            pytest.param(
                a_job(
                    backoff=None,
                    backoff_base=None,
                    retry_delay=None,
                    max_backoff=None,
                    max_retries=None,
                    timeout=None,
                    node=None,
                    worker=None,
                    started_at=None,
                    finished_at=None,
                    duration_ms=None,
                    exit_code=None,
                    error=None,
                    reason=None,
                    expires_at=None,
                    unique_key=None,
                    cwd=None,
                ),
                id="nothing but the needful",
            ),
        ],
    )
    def test_comes_back_from_its_row(self, job: Job) -> None:
        assert Job.from_row(row_of(job)) == job

    def test_secrets_are_not_in_its_words(self) -> None:
        job = a_job(env={"NAME": "secret"}, data=b"secret")
        new = NewJob(command="x", env={"NAME": "secret"}, stdin=b"secret")
        assert "secret" not in f"{job!r} {job} {new!r} {new}"

    def test_the_columns_are_its_fields(self) -> None:
        names = [f.name for f in fields(Job)]
        assert names == list(JOB_COLUMNS)

    @pytest.mark.parametrize("change", [-1, 1])
    def test_a_row_of_another_length_is_an_error(self, change: int) -> None:
        row = row_of(SAMPLE)
        with pytest.raises(ValueError, match="arguments in order"):
            Job.from_row(row[:-1] if change < 0 else [*row, None])

    def test_an_unknown_state_is_an_error(self) -> None:
        row = row_of(SAMPLE)
        row[JOB_COLUMNS.index("state")] = "sleeping"
        with pytest.raises(ValueError, match="sleeping"):
            Job.from_row(row)

    @pytest.mark.parametrize(
        ("job", "title"),
        [
            (a_job(command="echo 'a b'"), "echo 'a b'"),
            (a_job(command=None, argv=("echo", "a b", "")), "echo 'a b' ''"),
            (a_job(command=None, task="import"), "import"),
            (a_job(command=None), ""),
        ],
    )
    def test_has_a_title(self, job: Job, title: str) -> None:
        assert job.title == title

    @pytest.mark.parametrize(
        ("state", "attempts", "failures"),
        [
            (State.PENDING, 0, 0),
            (State.PROCESSING, 1, 0),
            (State.FAILED, 1, 1),
            (State.PROCESSING, 2, 1),
            (State.FAILED, 2, 2),
            (State.PROCESSING, 3, 2),
            (State.DEAD, 3, 3),
        ],
    )
    def test_knows_all_along_how_many_runs_it_may_take(
        self, state: State, attempts: int, failures: int
    ) -> None:
        job = a_job(state=state, attempts=attempts, failures=failures, max_retries=2)
        assert job.max_attempts == 3

    @pytest.mark.parametrize(
        ("fields", "runs"),
        [
            ({"state": State.PENDING, "attempts": 0, "max_retries": 0}, 1),
            ({"state": State.PROCESSING, "attempts": 1, "max_retries": 0}, 1),
            ({"state": State.PROCESSING, "attempts": 1, "max_retries": None}, None),
            ({"state": State.PENDING, "attempts": 1, "crashes": 1, "max_retries": 2}, 4),
            ({"state": State.DEAD, "attempts": 0, "max_retries": 2}, 3),
            ({"state": State.CANCELLED, "attempts": 0, "max_retries": 2}, 3),
            ({"state": State.CANCELLED, "attempts": 1, "max_retries": 2}, 3),
            ({"state": State.FAILED, "attempts": 5, "failures": 5, "max_retries": 2}, 6),
        ],
    )
    def test_runs_that_crashed_count_on_top(self, fields: dict[str, Any], runs: int | None) -> None:
        assert a_job(**{"failures": 0, **fields}).max_attempts == runs

    def test_cannot_be_changed(self) -> None:
        with pytest.raises(FrozenInstanceError):
            SAMPLE.id = "other"  # type: ignore[misc]
        with pytest.raises((AttributeError, TypeError)):
            SAMPLE.other = 1  # type: ignore[attr-defined]


class TestAttempt:
    def test_comes_back_from_its_row(self) -> None:
        attempt = Attempt(
            job="job-1",
            number=2,
            node="node-3",
            host="host-4",
            worker=5,
            started_at=6_000,
            finished_at=7_000,
            duration_ms=800,
            outcome="exited",
            exit_code=9,
            signal=10,
            error="error 11",
            stdout_bytes=12,
            stderr_bytes=13,
        )
        assert Attempt.from_row([getattr(attempt, name) for name in ATTEMPT_COLUMNS]) == attempt


class TestStates:
    def test_a_job_waits_or_runs_or_is_finished(self) -> None:
        assert {*WAITING, State.PROCESSING, *FINISHED} == set(State)
        assert len(WAITING) + 1 + len(FINISHED) == len(State)

    def test_are_their_names(self) -> None:
        assert [str(state) for state in State] == (
            "blocked pending processing completed failed dead cancelled".split()
        )


class TestDefaults:
    def test_a_request_leaves_policy_to_the_settings(self) -> None:
        new = NewJob(command="true")
        assert (new.queue, new.priority, new.tags, new.env) == ("default", 0, (), {})
        policy = (new.timeout, new.max_retries, new.backoff, new.backoff_base, new.retry_delay)
        assert policy == (None,) * 5

    def test_a_run_that_wrote_nothing_has_empty_output(self) -> None:
        assert Output() == Output(stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("outcome", "name", "words"),
        [
            (Exited(0), "exited", "exit code 0"),
            (Exited(1), "exited", "exit code 1"),
            (Exited(126), "exited", "exit code 126 (found, but can't be executed)"),
            (Exited(127), "exited", "exit code 127 (command not found)"),
            (Exited(128), "exited", "exit code 128"),
            (Exited(129), "exited", "exit code 129 (a child was killed by SIGHUP)"),
            (Exited(143), "exited", "exit code 143 (a child was killed by SIGTERM)"),
            (Exited(193), "exited", "exit code 193"),
            (Exited(255), "exited", "exit code 255"),
            (Signalled(9), "signalled", "killed by SIGKILL"),
            (Signalled(0), "signalled", "killed by signal 0"),
            (TimedOut(1_000), "timed out", "timed out after 1s"),
            (TimedOut(1_500), "timed out", "timed out after 1.5s"),
            (TimedOut(60_000), "timed out", "timed out after 1m"),
            (Cancelled("by me"), "cancelled", "by me"),
            (NotStarted("no folder"), "not started", "could not start: no folder"),
            (Lost("node died"), "lost", "lost: node died"),
            (Released(), "released", "released: its node was stopped"),
        ],
    )
    def test_have_a_name_and_words(self, outcome: Outcome, name: str, words: str) -> None:
        assert outcome.name == name
        assert outcome.describe() == words

    def test_all_names_differ(self) -> None:
        kinds = (Exited, Signalled, TimedOut, Cancelled, NotStarted, Lost, Released)
        assert len({kind.name for kind in kinds}) == len(kinds)

    @pytest.mark.parametrize(
        ("number", "name"), [(1, "SIGHUP"), (15, "SIGTERM"), (99, "signal 99"), (-1, "signal -1")]
    )
    def test_signals_have_names(self, number: int, name: str) -> None:
        assert signal_name(number) == name
