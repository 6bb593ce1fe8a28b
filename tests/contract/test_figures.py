"""What monitoring reads: who waits for longest, who is busy, and sums that only ever grow."""

import os
from typing import Any

import pytest

from queuectl.facts import Total
from queuectl.figures import BOUNDS, figures
from queuectl.filter import Filter
from queuectl.host import host_identity, process_start
from queuectl.job import (
    Cancelled,
    Exited,
    Job,
    Lost,
    Outcome,
    Released,
    Signalled,
    State,
    TimedOut,
)
from queuectl.lifecycle import Policy, retried
from queuectl.queues import rename
from queuectl.store import Store
from tests.contract.tools import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_node,
    add,
    apply,
    claim,
    ended,
    finish,
    forget,
    remove,
    run,
    take,
    take_one,
)

FIRST = 100


def oldest(
    store: Store, queue: str = "default", *priorities: int, limit: int = FIRST
) -> int | None:
    return store.runs.oldest(queue, priorities or (0,), limit=limit)


class TestOldest:
    def test_is_the_ready_job_that_has_been_due_for_longest(self, store: Store) -> None:
        assert oldest(store) is None
        add(store, "b", now=NOW + 5, run_at=NOW + 5)
        add(store, "a", now=NOW + 9, run_at=NOW + 3)
        add(store, "c", now=NOW + 9, run_at=NOW + 7)
        assert oldest(store) == NOW + 3

    def test_what_waits_for_its_time_is_not_ready(self, store: Store) -> None:
        add(store, "later", now=NOW, run_at=NOW + HOUR)
        assert oldest(store) is None

    def test_of_each_queue_by_itself(self, store: Store) -> None:
        add(store, "a", queue="one", now=NOW + 1, run_at=NOW + 1)
        add(store, "b", queue="two", now=NOW + 2, run_at=NOW + 2)
        assert (oldest(store, "one"), oldest(store, "two")) == (NOW + 1, NOW + 2)
        assert oldest(store, "three") is None

    def test_those_that_starve_behind_others_count(self, store: Store) -> None:
        add(store, "starves", priority=-5, now=NOW + 1, run_at=NOW + 1)
        for n in range(5):
            add(store, f"x{n}", priority=3, now=NOW + 100 + n, run_at=NOW + 100 + n)
        assert oldest(store, "default", 3, -5) == NOW + 1
        assert oldest(store, "default", 3, -5, limit=1) == NOW + 1
        assert oldest(store, "default", 3) == NOW + 100

    def test_those_of_handlers_count(self, store: Store) -> None:
        add(store, "command", now=NOW + 9, run_at=NOW + 9)
        add(store, "mail", data=b"x", type="mail", now=NOW + 5, run_at=NOW + 5)
        add(store, "photo", data=b"x", type="photo", now=NOW + 7, run_at=NOW + 7)
        assert oldest(store) == NOW + 5

    def test_so_many_are_looked_at(self, store: Store) -> None:
        for n in range(6):
            add(store, f"x{n}", now=NOW + 10 - n, run_at=NOW + 10 - n)
        assert oldest(store, limit=1) == NOW + 10
        assert oldest(store, limit=4) == NOW + 7
        assert oldest(store, limit=6) == NOW + 5

    def test_those_of_paused_queues_count(self, store: Store) -> None:
        add(store, "a", now=NOW + 1, run_at=NOW + 1)
        store.settings.set_paused("default", paused=True, who="me", now=NOW)
        assert oldest(store) == NOW + 1

    def test_what_runs_waits_no_more(self, store: Store) -> None:
        a_node(store)
        add(store, "a", now=NOW, run_at=NOW)
        take_one(store)
        assert oldest(store) is None


class TestBusy:
    def test_workers_are_counted_not_jobs(self, store: Store) -> None:
        assert store.runs.busy() == {}
        for node in ("node-1", "node-2", "idle"):
            a_node(store, node)
        for n in range(6):
            add(store, f"x{n}")
        claim(store, "node-1", [1, 2, 2, 2], now=NOW)
        claim(store, "node-2", [7], now=NOW)
        assert store.runs.busy() == {"node-1": 2, "node-2": 1}


class TestTotals:
    @pytest.fixture(autouse=True)
    def node(self, store: Store) -> None:
        """A node that may claim."""
        a_node(store, "node-1")

    def runs(self, store: Store, queue: str = "default") -> dict[str, int]:
        """Return how many there are of each measure of a queue."""
        counts: dict[str, int] = {}
        for row in store.history.totals(BOUNDS).get(queue, []):
            counts[row.measure] = counts.get(row.measure, 0) + row.count
        return counts

    def fail(
        self, store: Store, id: str, outcome: Outcome, *, retries: int = 0, **fields: Any
    ) -> None:
        """Run a job that comes to this outcome."""
        add(store, id, max_retries=retries, **fields)
        run(store, id, outcome, policy=Policy(max_crashes=3))

    def test_are_by_queue_with_their_times(self, store: Store) -> None:
        for n, queue in enumerate(("one", "two", "one")):
            add(store, f"x{n}", queue=queue)
            run(store, f"x{n}", duration_ms=7 + n, started_at=NOW)
        found = store.history.totals(BOUNDS)
        assert found.keys() == {"one", "two"}
        two = [row for row in found["two"] if row.measure == "completed"]
        assert two == [Total(measure="completed", within=10, count=1, total_ms=8)]
        assert self.runs(store, "one") == {"completed": 2, "wait": 2}

    def test_are_within_1_percent_of_the_bounds(self, store: Store) -> None:
        durations = [0, 5, 6, 127, 128, 250, 253, 999, 1_000, 1_010, 3_600_000, 5_000_000]
        for n, ms in enumerate(durations):
            add(store, f"x{n}")
            run(store, f"x{n}", duration_ms=ms)
        for bounds in ([5], [5, 250, 1_000], BOUNDS):
            found = store.history.totals(bounds)["default"]
            runs = [row for row in found if row.measure == "completed"]
            assert sum(row.total_ms for row in runs) == sum(durations)
            assert len({row.within for row in runs}) == len(runs)
            for bound in bounds:
                within = sum(row.count for row in runs if row.within and row.within <= bound)
                assert sum(ms <= bound for ms in durations) <= within
                assert within <= sum(ms * 0.99 <= bound for ms in durations)

    def test_of_an_empty_store_there_are_none(self, store: Store) -> None:
        assert store.history.totals(BOUNDS) == {}

    def test_failures_are_counted_by_their_kind(self, store: Store) -> None:
        self.fail(store, "a", Exited(7), retries=1)
        self.fail(store, "b", Exited(0))
        self.fail(store, "c", TimedOut(5_000))
        self.fail(store, "d", Signalled(11))
        self.fail(store, "e", TimedOut(5_000))
        counts = self.runs(store)
        assert counts == {
            "failed": 1,
            "completed": 1,
            "dead": 3,
            "wait": 5,
            "failure exited": 1,
            "failure timed out": 2,
            "failure signalled": 1,
        }

    def test_a_crash_is_a_failure_and_a_release_is_none(self, store: Store) -> None:
        self.fail(store, "a", Lost("its node died"))
        assert self.runs(store) == {"pending": 1, "wait": 1, "failure lost": 1}
        job = take_one(store)
        finish(store, [ended(job, Released(), now=NOW + MINUTE)])
        assert self.runs(store) == {"pending": 2, "wait": 2, "failure lost": 1}

    def test_what_was_cancelled_has_not_failed(self, store: Store) -> None:
        self.fail(store, "a", Cancelled("by somebody"))
        assert self.runs(store) == {"cancelled": 1, "wait": 1}

    def test_failures_are_not_among_the_times(self, store: Store) -> None:
        self.fail(store, "a", Exited(7))
        assert {row.measure for row in store.history.rollups()} == {"dead", "wait"}
        assert {row.measure for row in store.history.rollups(since=1)} == {"dead", "wait"}

    def test_of_a_run_that_was_lost_meanwhile_nothing_counts(self, store: Store) -> None:
        add(store, "a", max_retries=0)
        job = take_one(store)
        end = ended(job, Exited(1))
        assert finish(store, [end]) == []
        assert finish(store, [end]) == [end]
        assert self.runs(store) == {"dead": 1, "wait": 1, "failure exited": 1}

    def test_pruning_merging_and_nodes_that_leave_change_nothing(self, store: Store) -> None:
        for n in range(12):
            at = NOW + n * 19 * HOUR
            add(store, f"x{n}", queue=f"queue {n % 2}", now=at - MINUTE, max_retries=0)
            run(store, f"x{n}", Exited(n % 3), now=at, duration_ms=n * 40, started_at=at - MINUTE)
        before = plain(store)
        assert store.jobs.prune(State.COMPLETED, NOW + 100 * DAY, limit=100) == 4
        remove(store, store.jobs.at([job.seq for job in dead(store)])[0])
        store.tidy(now=NOW + 100 * DAY)
        forget(store, "node-1")
        store.tidy(now=NOW + 101 * DAY)
        assert plain(store) == before

    def test_a_retry_by_hand_takes_nothing_back(self, store: Store) -> None:
        self.fail(store, "a", Exited(1))
        before = plain(store)
        (job,) = dead(store)
        assert apply(store, job, retried(NOW + HOUR), now=NOW + HOUR)
        assert plain(store) == before

    def test_a_queue_that_is_renamed_takes_them_along(self, store: Store) -> None:
        self.fail(store, "a", Exited(1), queue="old")
        self.fail(store, "b", Exited(1), queue="new")
        for job in dead(store):
            if job.queue == "new":
                remove(store, job)
        assert self.runs(store, "new") == {"dead": 1, "wait": 1, "failure exited": 1}
        rename(store, "old", "new")
        assert self.runs(store, "new") == {"dead": 2, "wait": 2, "failure exited": 2}
        assert store.history.totals(BOUNDS).keys() == {"new"}


def dead(store: Store) -> list[Job]:
    """Return the dead jobs."""
    return store.jobs.select(Filter(states=(State.DEAD,)), limit=None)


def plain(store: Store) -> dict[str, list[Total]]:
    """Return the totals in an order."""
    return {queue: sorted(rows, key=repr) for queue, rows in store.history.totals(BOUNDS).items()}


@pytest.mark.needs("sql")
class TestFigures:
    def test_are_what_the_store_says(self, store: Store) -> None:
        us = os.getpid()
        here: dict[str, Any] = {"boot": host_identity(), "pid": us, "pid_start": process_start(us)}
        a_node(store, "node-1", workers=3, spool=f"{store.folder.spool}/node-1", **here)
        a_node(store, "dead", lease=-HOUR, workers=5)
        add(store, "a", queue="one", now=NOW, run_at=NOW)
        add(store, "b", queue="one", now=NOW, run_at=NOW + 1, priority=4)
        add(store, "c", queue="two", now=NOW, run_at=NOW + 2)
        (job,) = take(store, 1, queues=["two"], now=NOW + SECOND)
        store.settings.set_paused("one", paused=True, who="me", now=NOW)
        found = figures(store)
        assert found.oldest == {"one": NOW}
        assert {(one.node.id, one.busy, one.alive) for one in found.nodes} == {
            ("node-1", 1, True),
            ("dead", 0, False),
        }
        assert [info.name for info in found.queues] == ["one"]
        assert sum(count.jobs for count in found.counts) == 3
        assert found.totals == {}
        finish(store, [ended(job)])
        assert found.totals != figures(store).totals
        assert found.now <= figures(store).now
