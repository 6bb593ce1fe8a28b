"""The table of counters: what moves it and what does not, and how an older one is upgraded."""

from contextlib import suppress

import pytest

from queuectl.facts import Count
from queuectl.job import Exited, Outcome, Released, State
from queuectl.store import Store
from queuectl.store.driver import Row
from tests.contract.tools import (
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    assert_counts_are_right,
    ended,
    finish,
    release,
    take,
    take_one,
    the,
    waiting,
)

pytestmark = pytest.mark.needs("sql")

LATER = NOW + 5 * SECOND


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store)


def counters(client: Client) -> list[Row]:
    """Return what the table says, where it isn't zero."""
    rows = client.run(
        "SELECT queue, state, priority, sum(jobs), sum(timed) FROM {counts}"
        " GROUP BY queue, state, priority HAVING sum(jobs) <> 0"
    )
    return sorted((*row[:3], int(row[3]), int(row[4])) for row in rows)


class TestRunning:
    def test_a_claim_moves_no_counter(self, store: Store, client: Client) -> None:
        for n in range(4):
            add(store, f"job {n}", priority=n % 2, timeout=n)
        before = client.run("SELECT * FROM {counts}")
        jobs = take(store, 3)
        assert client.run("SELECT * FROM {counts}") == before
        release(store, jobs[:2], now=LATER)
        assert client.run("SELECT * FROM {counts}") == before
        assert finish(store, [ended(jobs[2], now=LATER)]) == []
        assert client.run("SELECT * FROM {counts}") != before

    def test_what_runs_is_counted_as_pending(self, store: Store, client: Client) -> None:
        add(store, "a", queue="one", timeout=5)
        add(store, "b", queue="one")
        take_one(store)
        assert counters(client) == [("one", "pending", 0, 2, 1)]
        told = sorted(store.jobs.counts(), key=lambda count: count.state)
        assert told == [
            Count(queue="one", state=State.PENDING, priority=0, jobs=1, timed=0),
            Count(queue="one", state=State.PROCESSING, priority=0, jobs=1, timed=1),
        ]
        assert waiting(store) == 1

    def test_all_that_end_together_are_counted(self, store: Store, client: Client) -> None:
        for n in range(12):
            add(store, f"job {n}", queue="ab"[n % 2], priority=n % 3, timeout=n // 6)
        ends: list[Outcome] = [Exited(0), Exited(1), Released()]
        jobs = take(store, 12)
        assert (
            finish(store, [ended(job, ends[n % 3], now=LATER) for n, job in enumerate(jobs)]) == []
        )
        assert_counts_are_right(store, client)
        assert {count.state for count in store.jobs.counts()} == {
            State.COMPLETED, State.FAILED, State.PENDING,
        }  # fmt: skip

    @pytest.mark.parametrize("change", ["priority = 7", "queue = 'other'", "timeout = NULL"])
    def test_what_was_moved_while_it_ran_is_counted_where_it_is(
        self, store: Store, client: Client, change: str
    ) -> None:
        for n in range(4):
            add(store, f"job {n}", timeout=5)
        jobs = take(store, 4)
        client.run(f"UPDATE {{jobs}} SET {change} WHERE id = 'job 1'")
        assert finish(store, [ended(job, now=LATER) for job in jobs]) == []
        assert_counts_are_right(store, client)
        assert {count.state for count in store.jobs.counts()} == {State.COMPLETED}

    def test_when_all_run_none_wait(self, store: Store) -> None:
        add(store, "a")
        take_one(store)
        assert [count.state for count in store.jobs.counts()] == [State.PROCESSING]
        assert waiting(store) == 0

    def test_a_failed_job_that_others_call_ready_is_refused_or_counted(
        self, store: Store, client: Client
    ) -> None:
        add(store, "a", max_retries=3)
        assert finish(store, [ended(take_one(store), Exited(1), now=LATER)]) == []
        assert the(store, "a").state == State.FAILED
        with suppress(Exception):
            client.run("UPDATE {jobs} SET ready = 1 WHERE state = 'failed'")
        take(store, 1)
        assert_counts_are_right(store, client)

    def test_other_programs_may_change_what_runs(self, store: Store, client: Client) -> None:
        for id in ("a", "b", "c"):
            add(store, id)
        take(store, 2)
        for change in (
            "INSERT INTO {jobs} (id, command, state, ready, node, timeout)"
            " VALUES ('raw', 'x', 'processing', NULL, 'node-1', 9)",
            "INSERT INTO {jobs} (id, command, state, ready, node)"
            " VALUES ('nameless', 'x', 'processing', NULL, '')",
            "UPDATE {jobs} SET queue = 'other', priority = 4 WHERE state = 'processing'",
            "UPDATE {jobs} SET timeout = 7 WHERE id = 'a'",
            "UPDATE {jobs} SET state = 'pending', ready = 1, queue = 'third' WHERE id = 'a'",
            "UPDATE {jobs} SET state = 'processing', ready = NULL, node = 'x', timeout = 0"
            " WHERE id IN ('a', 'c')",
            "UPDATE {jobs} SET state = 'dead', ready = NULL, priority = 1 WHERE id = 'b'",
            "UPDATE {jobs} SET state = 'processing', node = 'x' WHERE id = 'b'",
            "UPDATE {jobs} SET tags = '[\"red\"]'",
            "DELETE FROM {jobs} WHERE id IN ('raw', 'a')",
        ):
            client.run(change)
            assert_counts_are_right(store, client)
            assert not [text for text in store.verify() if "counter" in text]
        assert sum(count.jobs for count in store.jobs.counts()) == 3
