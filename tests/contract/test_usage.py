"""What jobs say that their runs may use, and what these have used, on every store."""

from typing import Any

import pytest

from queuectl import editing
from queuectl.job import NewJob, OutOfMemory, OutOfTime, Released, Usage
from queuectl.store import Store
from queuectl.values import replace
from tests.contract.tools import MINUTE, NOW, a_node, add, claim, ended, finish, run, take_one, the

BOUNDS: dict[str, Any] = {
    "memory": 2**29,
    "cpus": 1.5,
    "cpu_time": 61_000,
    "nofile": 62,
    "nproc": 63,
    "nice": -4,
    "user": "user-65",
    "read_only_root": True,
    "no_network": True,
    "best_effort": True,
}


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    a_node(store)


class TestBounds:
    def test_come_back_as_they_were_given(self, store: Store) -> None:
        add(store, "x", bounds=BOUNDS)
        assert the(store, "x").bounds == BOUNDS
        (job,) = claim(store, "node-1", [31], [], now=NOW).jobs
        assert job.bounds == BOUNDS

    def test_those_that_were_taken_away_are_not_kept(self, store: Store) -> None:
        add(store, "x", bounds={"memory": None, "nice": 3, "user": None})
        add(store, "y", bounds={"memory": None})
        add(store, "z")
        kept = [the(store, id).bounds for id in ("x", "y", "z")]
        assert kept == [{"nice": 3}, {}, {}]

    def test_many_at_once(self, store: Store) -> None:
        some = [NewJob(id=f"j{n}", command="true", bounds={"nproc": n + 1}) for n in range(5)]
        store.jobs.enqueue(some, now=NOW)
        assert [the(store, f"j{n}").bounds for n in range(5)] == [{"nproc": n} for n in range(1, 6)]

    def test_are_edited_one_by_one(self, store: Store) -> None:
        job = add(store, "x", bounds=BOUNDS)
        to = editing.edited(job, {"memory": "1G", "user": "none", "cpus": 0}, NOW)
        expected = {**BOUNDS, "memory": 2**30}
        del expected["user"], expected["cpus"]
        assert to.bounds == expected
        assert editing.told(job, to).startswith("bounds memory 512MiB, cpus 1.5, ")


class TestUsage:
    def test_of_the_newest_run_that_is_over(self, store: Store) -> None:
        add(store, "x")
        add(store, "y", priority=-1)
        add(store, "z", priority=-2)
        run(store, "x", Released(), used=Usage(peak_memory=1, cpu_ms=2), now=NOW + MINUTE)
        second = Usage(peak_memory=11, cpu_ms=12, read_bytes=13, written_bytes=14)
        run(store, "x", used=second, now=NOW + 2 * MINUTE)
        run(store, "y", used=Usage(), now=NOW + 3 * MINUTE)
        jobs = [the(store, id) for id in ("x", "y", "z")]
        assert store.reports.usages(jobs) == {jobs[0].seq: second, jobs[1].seq: Usage()}
        assert store.reports.usages([]) == {}

    def test_the_one_that_goes_on_does_not_count_yet(self, store: Store) -> None:
        add(store, "x")
        first = Usage(peak_memory=1, cpu_ms=2, read_bytes=3, written_bytes=4)
        run(store, "x", Released(), used=first, now=NOW + MINUTE)
        job = take_one(store, now=NOW + 2 * MINUTE)
        assert store.reports.usages([job]) == {job.seq: first}

    def test_what_nobody_counted_is_unknown(self, store: Store) -> None:
        add(store, "x")
        job = run(store, "x", used=Usage(), noted=None)
        (kept,) = store.history.attempts(job)
        assert (kept.peak_memory, kept.cpu_ms) == (None, None)
        assert (kept.read_bytes, kept.written_bytes, kept.noted) == (None, None, None)

    @pytest.mark.parametrize(
        ("outcome", "name", "described"),
        [
            (OutOfMemory(2**29), "out of memory", "out of memory: killed, as it may have 512MiB"),
            (OutOfMemory(None), "out of memory", "out of memory: killed"),
            (OutOfTime(90_000), "out of CPU time", "out of CPU time: ended after 1m30s of it"),
        ],
    )
    def test_who_used_too_much_has_failed(
        self, store: Store, outcome: Any, name: str, described: str
    ) -> None:
        add(store, "x", max_retries=0)
        (job,) = claim(store, "node-1", [31], [], now=NOW).jobs
        finish(store, [replace(ended(job, outcome), error=described)])
        (kept,) = store.history.attempts(job)
        assert (kept.outcome, kept.exit_code, kept.signal) == (name, None, None)
        assert outcome.describe() == described
        now = the(store, "x")
        assert (now.state, now.reason) == ("dead", f"{described}; no retries allowed")
