"""What readers see: the names of the public interface, ISO times, nulls, totals and times."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.admission import Serving
from queuectl.facts import Count, Event, Node, Pause, QueueInfo, Rollup, Stop
from queuectl.job import Attempt, State, Strategy
from queuectl.report import (
    Durations,
    attempt_dict,
    build_stats,
    build_stats_of,
    build_status,
    durations,
    event_dict,
    job_dict,
    moment,
    node_dict,
    seconds,
    why_ended,
)
from queuectl.store.histogram import bucket_of
from tests.unit.samples import NOW, SAMPLE, a_job

PROMISED = (
    "id queue state command argv task data priority attempts failures crashes max_retries timeout "
    "run_at created_at updated_at started_at finished_at duration_ms exit_code error reason node "
    "worker cwd tags after unique_key expires_at"
).split()
"""The promised names, in their order. Only ever extend what follows them."""
ADDED = (
    "backoff backoff_base retry_delay max_backoff env env_all shell bounds keys after_group group"
    " if_parent_fails parameters needs requires unique_until unique_for on_success on_failure"
    " on_dead traceparent tracestate stdin_bytes open_parents devices schedule scheduled_for"
    " paused_at paused_by held hook hook_of type data_base64 trace_id at_once"
).split()


@pytest.mark.parametrize(
    ("reason", "error", "told"),
    [
        (
            "exit code 3; no retries allowed",
            "exit code 3: oh",
            "exit code 3: oh; no retries allowed",
        ),
        ("no start: a; b; given up", "no start: a; b", "no start: a; b; given up"),
        ("no start: a; b; given up", "no start: a; b: oh", "no start: a; b: oh; given up"),
        ("no start: a; b; given up", "no sta", "no start: a; b; given up"),
        ("its parent x is dead", None, "its parent x is dead"),
        ("its parent x is dead", "exit code 1", "its parent x is dead: exit code 1"),
        (None, "exit code 1", "exit code 1"),
    ],
)
def test_why_it_ended_is_told_once(reason: str | None, error: str | None, told: str) -> None:
    assert why_ended(a_job(reason=reason, error=error)) == told


def a_count(**changes: Any) -> Count:
    """Return a counter with some fields changed."""
    fields: dict[str, Any] = {
        "queue": "default",
        "state": State.PENDING,
        "priority": 0,
        "jobs": 1,
        "timed": 0,
    }
    return Count(**fields | changes)


def rollup_of(measure: str, *values: int) -> list[Rollup]:
    """Return the rows that durations of one kind make, one each."""
    return [
        Rollup(
            measure=measure,
            bucket=bucket_of(ms),
            count=1,
            total_ms=ms,
            least_ms=ms,
            most_ms=ms,
        )
        for ms in values
    ]


class TestJobDict:
    def test_has_the_promised_names_in_their_order_then_what_was_added(self) -> None:
        assert list(job_dict(SAMPLE)) == PROMISED + ADDED

    def test_every_value_is_in_its_place(self) -> None:
        pause = Pause(seq=SAMPLE.seq, number=SAMPLE.attempts, at=1_762_606_800_007, who="who-8")
        assert job_dict(SAMPLE, pause) == {
            "id": "job-102",
            "queue": "queue-103",
            "state": "processing",
            "command": "echo 105",
            "argv": None,
            "task": None,
            "data": None,
            "priority": 104,
            "attempts": 118,
            "failures": 0,
            "crashes": 1,
            "max_retries": 2,
            "timeout": 11.4,
            "run_at": "2025-11-08T12:59:50.888Z",
            "created_at": "2025-11-08T12:59:39.879Z",
            "updated_at": "2025-11-08T12:59:51.878Z",
            "started_at": "2025-11-08T12:59:52.877Z",
            "finished_at": "2025-11-08T12:59:53.876Z",
            "duration_ms": 125,
            "exit_code": 126,
            "error": "error 127",
            "reason": "reason 128",
            "node": "node-119",
            "worker": 120,
            "cwd": "/folder/106",
            "tags": ["tag-109", "tag-110"],
            "after": ["parent-140", "parent-141:any"],
            "bounds": {
                "memory": 143 * 2**20,
                "cpu_time": 144,
                "user": "user-145",
                "no_network": True,
            },
            "after_group": ["group-143"],
            "group": "group-144",
            "parameters": {"index": 140, "line": "line 141"},
            "at_once": None,
            "if_parent_fails": "cancel",
            "needs": {"cpu": 142, "gpu": 0.143},
            "requires": ["label-144", "label-145"],
            "devices": {"gpu": [146]},
            "open_parents": 142,
            "unique_key": "key-111",
            "expires_at": "2025-11-08T13:00:09.113Z",
            "backoff": "exponential",
            "backoff_base": 3.0,
            "retry_delay": 11.6,
            "max_backoff": 300,
            "env": ["NAME_107"],
            "env_all": True,
            "shell": "shell-129",
            "keys": ["key-133", "key-134"],
            "unique_until": "start",
            "unique_for": 13.7,
            "stdin_bytes": 130,
            "schedule": "schedule-132",
            "scheduled_for": "2025-11-08T11:06:40.131Z",
            "paused_at": "2025-11-08T13:00:00.007Z",
            "paused_by": "who-8",
            "held": False,
            "on_success": "rm -r tmp",
            "on_failure": "log failure",
            "on_dead": "mail root",
            "traceparent": "00-0000000000000000000000000000137a-000000000000138b-01",
            "tracestate": "vendor=139",
            "trace_id": "0000000000000000000000000000137a",
            "hook": "dead",
            "hook_of": "other job",
            "type": None,
            "data_base64": None,
        }

    def test_absent_values_are_null(self) -> None:
        absent = dict.fromkeys(
            "command node worker started_at finished_at duration_ms exit_code error reason cwd "
            "unique_key expires_at timeout max_retries backoff backoff_base retry_delay "
            "max_backoff".split()
        )
        told = job_dict(a_job(**absent))
        assert {name: told[name] for name in absent} == absent

    def test_lists_are_lists_also_when_empty(self) -> None:
        told = job_dict(a_job(tags=(), after=(), env={}, argv=("ls", "-l")))
        assert (told["tags"], told["after"], told["env"]) == ([], [], [])
        assert told["argv"] == ["ls", "-l"]

    def test_no_timeout_is_null(self) -> None:
        assert job_dict(a_job(timeout=0))["timeout"] is None

    def test_values_of_variables_stay_private(self) -> None:
        told = job_dict(a_job(env={"TOKEN": "secret", "A": "also secret"}))
        assert told["env"] == ["A", "TOKEN"]
        assert "secret" not in json.dumps(told)

    def test_data_is_text_or_base64(self) -> None:
        told = job_dict(a_job(task="t", handler="type:t", data="dätä".encode()))
        assert (told["type"], told["data"], told["data_base64"]) == ("t", "dätä", None)
        told = job_dict(a_job(task="t", handler="type:t", data=b"a\xff"))
        assert (told["data"], told["data_base64"]) == (None, "Yf8=")

    def test_what_was_kept_of_an_unreadable_job_is_not_shown(self) -> None:
        assert job_dict(a_job(data=b"env: secret"))["data"] is None

    def test_a_shell_is_for_commands(self) -> None:
        assert job_dict(a_job(shell=None))["shell"] == "/bin/sh"
        assert job_dict(a_job(command=None, argv=("x",), shell="bash"))["shell"] is None

    @pytest.mark.parametrize("state", State)
    @pytest.mark.parametrize("strategy", Strategy)
    def test_is_plain_json(self, state: State, strategy: Strategy) -> None:
        told = job_dict(a_job(state=state, backoff=strategy))
        assert json.loads(json.dumps(told)) == told
        assert type(told["state"]) is str
        assert type(told["backoff"]) is str


class TestOtherDicts:
    def test_an_attempt(self) -> None:
        attempt = Attempt(
            job="job-1",
            number=2,
            node="node-3",
            host="host-4",
            worker=5,
            started_at=NOW + 6,
            finished_at=NOW + 7,
            duration_ms=8,
            outcome="exited",
            exit_code=9,
            signal=10,
            error="error 11",
            stdout_bytes=12,
            stderr_bytes=13,
            peak_memory=14,
            cpu_ms=15,
            read_bytes=16,
            written_bytes=17,
            noted="noted 18",
        )
        assert attempt_dict(attempt) == {
            "number": 2,
            "node": "node-3",
            "host": "host-4",
            "worker": 5,
            "started_at": "2025-11-08T13:00:00.006Z",
            "finished_at": "2025-11-08T13:00:00.007Z",
            "duration_ms": 8,
            "outcome": "exited",
            "exit_code": 9,
            "signal": 10,
            "error": "error 11",
            "stdout_bytes": 12,
            "stderr_bytes": 13,
            "peak_memory": 14,
            "cpu_ms": 15,
            "read_bytes": 16,
            "written_bytes": 17,
            "noted": "noted 18",
        }

    def test_an_event(self) -> None:
        event = Event(
            at=NOW + 1,
            kind="cancel",
            job="job-2",
            node="node-3",
            who="who-4",
            detail="detail 5",
            action="action 6",
            was="{}",
            seq=7,
        )
        assert event_dict(event) == {
            "seq": 7,
            "at": "2025-11-08T13:00:00.001Z",
            "kind": "cancel",
            "job": "job-2",
            "node": "node-3",
            "who": "who-4",
            "detail": "detail 5",
            "action": "action 6",
            "undo_until": "2025-11-08T13:10:00.001Z",
        }

    @pytest.mark.parametrize(("stop", "told"), [(None, None), (Stop.DRAIN, "drain")])
    def test_a_node(self, stop: Stop | None, told: str | None) -> None:
        node = Node(
            id="node-1",
            host="host-2",
            boot="boot-3",
            pid=4,
            pid_start=5,
            workers=6,
            queues=Serving(("q7", "q8")),
            spool="/spool/9",
            version="1.0",
            started_at=NOW + 11,
            seen_at=NOW + 12,
            lease_until=13,
            stop=stop,
        )
        assert node_dict(node, alive=True, running=14) == {
            "id": "node-1",
            "host": "host-2",
            "pid": 4,
            "workers": 6,
            "running": 14,
            "queues": ["q7", "q8"],
            "excluded": [],
            "weights": {},
            "in_order": False,
            "handlers": [],
            "labels": [],
            "resources": {},
            "alive": True,
            "stopping": told,
            "version": "1.0",
            "started_at": "2025-11-08T13:00:00.011Z",
            "seen_at": "2025-11-08T13:00:00.012Z",
        }

    def test_times_and_durations(self) -> None:
        assert moment(None) is None
        assert moment(0) == "1970-01-01T00:00:00.000Z"
        assert seconds(None) is None
        assert seconds(0) == 0
        assert seconds(2_000) == 2
        assert type(seconds(2_000)) is int
        assert seconds(1_250) == 1.25


PLAIN: dict[str, Any] = {"excluded": [], "weights": {}, "in_order": False, "handlers": []}


class TestStatus:
    NODES = (
        {"id": "n1", "alive": True, "workers": 3, "stopping": None, "queues": ["a"], **PLAIN},
        {"id": "n2", "alive": False, "workers": 5, "stopping": None, "queues": [], **PLAIN},
    )

    def test_adds_up_by_state_and_by_queue(self) -> None:
        counts = [
            a_count(queue="b", priority=0, jobs=1),
            a_count(queue="b", priority=9, jobs=2),
            a_count(queue="a", priority=0, jobs=4),
            a_count(queue="a", state=State.DEAD, jobs=8),
        ]
        status = build_status("sqlite:x", counts, [], self.NODES, NOW)
        assert status.total == 15
        assert status.states == dict.fromkeys(State, 0) | {State.PENDING: 7, State.DEAD: 8}
        assert list(status.queues) == ["a", "b"]
        assert status.queues["a"][State.PENDING] == 4
        assert status.queues["b"][State.PENDING] == 3
        assert status.queues["b"][State.DEAD] == 0

    def test_an_empty_store_has_all_states_at_zero(self) -> None:
        status = build_status("sqlite:x", [], [], [], None)
        assert status.as_dict() == {
            "database": "sqlite:x",
            "total": 0,
            "states": {state.value: 0 for state in State},
            "queues": [],
            "nodes": [],
            "workers": 0,
            "next_due": None,
            "unserved": {},
            "paused_jobs": [],
            "held": {},
            "unhandled": {},
        }

    def test_jobs_that_wait_where_no_node_serves_are_counted(self) -> None:
        counts = [
            a_count(queue="a", jobs=1),
            a_count(queue="b", priority=0, jobs=2),
            a_count(queue="b", priority=9, state=State.FAILED, jobs=3),
            a_count(queue="b", state=State.DEAD, jobs=4),
            a_count(queue="c", jobs=0),
        ]
        assert build_status("x", counts, [], self.NODES, None).unserved == {"b": 5}
        stopping = [self.NODES[0] | {"stopping": "drain"}]
        assert build_status("x", counts, [], stopping, None).unserved == {"a": 1, "b": 5}
        all_of_them = [self.NODES[0] | {"queues": []}]
        assert build_status("x", counts, [], all_of_them, None).unserved == {}
        all_but_b = [self.NODES[0] | {"queues": [], "excluded": ["b"]}]
        assert build_status("x", counts, [], all_but_b, None).unserved == {"b": 5}

    def test_a_paused_queue_is_there_without_jobs(self) -> None:
        queues = [
            QueueInfo(name="paused", paused_at=NOW, paused_by="me"),
            QueueInfo(name="resumed", paused_at=None, paused_by=None),
        ]
        status = build_status("x", [a_count(queue="other", jobs=1)], queues, [], None)
        assert status.paused == ("paused",)
        told = {queue["name"]: queue["paused"] for queue in status.as_dict()["queues"]}
        assert told == {"other": False, "paused": True}

    def test_queues_whose_jobs_are_gone_are_gone(self) -> None:
        status = build_status("x", [a_count(queue="empty", jobs=0)], [], [], None)
        assert status.queues == {}

    def test_only_living_workers_count(self) -> None:
        told = build_status("x", [], [], self.NODES, NOW).as_dict()
        assert told["workers"] == 3
        assert told["nodes"] == list(self.NODES)
        assert told["next_due"] == "2025-11-08T13:00:00.000Z"
        assert json.loads(json.dumps(told)) == told


class TestDurations:
    def test_of_nothing_there_are_none(self) -> None:
        nothing = durations([])
        assert nothing == Durations(
            count=0, average=None, median=None, p95=None, p99=None, least=None, most=None
        )
        told = nothing.as_dict()
        assert told.pop("count") == 0
        assert set(told.values()) == {None}

    def test_sums_up(self) -> None:
        found = durations(rollup_of("completed", 10, 20, 60))
        assert found.as_dict() == {
            "count": 3,
            "average_ms": 30.0,
            "median_ms": 20,
            "p95_ms": 56,
            "p99_ms": 59.2,
            "min_ms": 10,
            "max_ms": 60,
        }

    def test_the_median_of_an_even_count_is_the_mean_of_two(self) -> None:
        assert durations(rollup_of("completed", 10, 20, 31, 99)).median == 25.5

    def test_rows_with_many_counts_weigh_more(self) -> None:
        rows = [
            Rollup(measure="wait", bucket=10, count=99, total_ms=990, least_ms=10, most_ms=10),
            *rollup_of("wait", 100),
        ]
        found = durations(rows)
        assert (found.count, found.median, found.most) == (100, 10, 100)
        assert found.average == pytest.approx(10.9)

    @given(st.lists(st.integers(0, 10**9), min_size=1, max_size=30))
    def test_no_quantile_lies_outside_what_was_measured(self, values: list[int]) -> None:
        found = durations(rollup_of("completed", *values))
        assert (found.least, found.most) == (min(values), max(values))
        for ms in (found.median, found.p95, found.p99):
            assert ms is not None
            assert min(values) <= ms <= max(values)


class TestStats:
    COUNTS = (
        a_count(state=State.COMPLETED, priority=5, jobs=3, timed=1),
        a_count(state=State.DEAD, priority=0, jobs=1, timed=1),
        a_count(state=State.PENDING, priority=0, jobs=4, timed=0),
        a_count(state=State.PENDING, priority=-7, jobs=0, timed=0),
    )

    def test_adds_up(self) -> None:
        rollups = [
            *rollup_of("completed", 10, 20, 30),
            *rollup_of("wait", 1, 2, 3, 4),
            *rollup_of("failed", 500),
        ]
        slow = a_job(id="slow", command="sleep 1", duration_ms=30)
        stats = build_stats(self.COUNTS, rollups, [slow])
        assert stats.total == 8
        assert stats.success_rate == 75.0
        assert stats.run.median == 20
        assert stats.wait.median == 2.5
        assert stats.runs == {"completed": 3, "failed": 1}
        assert stats.priorities == {5: 3, 0: 5}
        assert list(stats.priorities) == [5, 0]
        assert stats.timed == 2

    def test_as_json(self) -> None:
        slow = a_job(id="slow", command="sleep 1", duration_ms=30)
        told = build_stats(self.COUNTS, rollup_of("completed", 30), [slow]).as_dict()
        assert told["slowest"] == [{"id": "slow", "command": "sleep 1", "duration_ms": 30}]
        assert told["success_rate"] == 75.0
        assert told["priorities"] == [{"priority": 5, "jobs": 3}, {"priority": 0, "jobs": 5}]
        assert told["with_timeout"] == 2
        assert told["run_time"]["median_ms"] == 30
        assert told["wait_time"]["median_ms"] is None
        assert json.loads(json.dumps(told)) == told

    def test_of_jobs_one_by_one(self) -> None:
        start = {"run_at": 1_000, "started_at": 1_010, "finished_at": 2_000}
        jobs = [
            a_job(state=State.COMPLETED, priority=1, timeout=5, duration_ms=30 + n, seq=n, **start)
            for n in range(4)
        ]
        jobs += [
            a_job(state=State.DEAD, priority=1, timeout=None, duration_ms=7, **start),
            # Cancelled while it waited for its retry: its last run has been counted as failed.
            a_job(
                state=State.CANCELLED,
                priority=0,
                duration_ms=9,
                timeout=0,
                **start | {"run_at": 1_500},
            ),
            a_job(state=State.FAILED, priority=0, duration_ms=9, timeout=0, **start),
        ]
        stats = build_stats_of(iter(jobs), since=None, slowest=3)
        assert (stats.total, stats.success_rate, stats.timed) == (7, 80.0, 4)
        assert [job.duration_ms for job in stats.slowest] == [33, 32, 31]
        assert (stats.run.least, stats.run.median, stats.run.most) == (30, 31.5, 33)
        assert (stats.wait.count, stats.wait.median) == (5, 10)
        assert stats.runs == {"completed": 4, "dead": 1}
        assert stats.priorities == {1: 5, 0: 2}
        late = build_stats_of(iter(jobs), since=2_001, slowest=3)
        assert (late.total, late.run.count, late.runs) == (7, 0, {})

    def test_an_empty_store_has_no_success_rate(self) -> None:
        stats = build_stats([], [], [])
        assert stats.success_rate is None
        assert stats.as_dict()["success_rate"] is None
        assert stats.total == 0
