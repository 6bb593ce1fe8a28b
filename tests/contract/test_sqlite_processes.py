"""Threads, processes, forks and kills: each job once, each acknowledged job kept."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from queuectl.job import NewJob, State
from queuectl.store import Store, open_store
from tests.contract.actors import Actor
from tests.contract.tools import (
    NOW,
    a_node,
    add,
    claim,
    ended,
    finish,
    states,
    take_one,
    transaction,
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the file is."""
    return str(tmp_path / "queue.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    """An empty store."""
    with closing(open_store(path, create=True)) as store:
        yield store
        assert store.verify() == []


class TestThreads:
    def test_eight_that_enqueue_claim_and_finish_get_each_job_once(self, store: Store) -> None:
        threads, each = 8, 40
        a_node(store)
        taken: list[str] = []
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for n in range(each):
                    add(store, f"{number} {n}", queue=f"queue {n % 3}", priority=n % 5)
                    (job,) = claim(store, "node-1", [number], [], now=NOW).jobs
                    taken.append(job.id)
                    assert finish(store, [ended(job)]) == []
            except BaseException as error:
                errors.append(error)
                raise

        crew = [Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join(60)
        assert errors == []
        assert len(taken) == len(set(taken)) == threads * each
        assert Counter(states(store).values()) == {State.COMPLETED: threads * each}

    def test_readers_and_a_writer_do_not_disturb_each_other(self, store: Store) -> None:
        add(store, "first")
        errors: list[BaseException] = []
        done = False

        def read() -> None:
            try:
                while not done:
                    found = states(store)
                    total = sum(count.jobs for count in store.jobs.counts())
                    assert "first" in found
                    assert len(found) <= total <= 201
            except BaseException as error:
                errors.append(error)
                raise

        readers = [Thread(target=read) for _ in range(3)]
        for thread in readers:
            thread.start()
        try:
            for n in range(100):
                with transaction(store):
                    add(store, f"a{n}")
                    add(store, f"b{n}")
        finally:
            done = True
        for thread in readers:
            thread.join(60)
        assert errors == []


class TestProcesses:
    def test_four_that_claim_from_a_thousand_jobs_get_each_job_once(
        self, store: Store, path: str
    ) -> None:
        made = store.jobs.enqueue(
            [NewJob(command="x", priority=n % 3) for n in range(1_000)], now=store.clock.now()
        ).ids
        crew = [Actor("drain", path, f"node {n}") for n in range(4)]
        for actor in crew:
            assert actor.hear() == "ready"
        for actor in crew:
            actor.say("go")
        done = [json.loads(actor.hear()) for actor in crew]
        for actor in crew:
            actor.finish()
        together = [id for part in done for id in part]
        assert sorted(together) == sorted(made)
        assert Counter(states(store).values()) == {State.COMPLETED: 1_000}
        ((measure, runs),) = {
            (row.measure, sum(r.count for r in store.history.rollups() if r.measure == row.measure))
            for row in store.history.rollups()
            if row.measure != "wait"
        }
        assert (measure, runs) == ("completed", 1_000)

    def test_a_fork_cannot_use_what_was_opened_before_it(self, store: Store, path: str) -> None:
        said = Actor("fork", path).finish().splitlines()
        assert len(said) == 5
        assert all(line.startswith("StoreError: This queue was opened before") for line in said[:4])
        assert said[4] == "parent goes on"
        assert list(states(store)) == ["before", "after"]


class TestKill:
    def test_nothing_is_left_of_a_transaction_that_was_killed(
        self, store: Store, path: str
    ) -> None:
        add(store, "x")
        actor = Actor("begin", path)
        assert actor.hear() == "inside"
        assert list(states(store)) == ["x"]
        actor.kill()
        assert list(states(store)) == ["x"]
        assert store.settings.config() == {}
        add(store, "y")
        a_node(store)
        assert take_one(store).id == "x"

    def test_nothing_is_left_of_it_for_whoever_opens_the_store_next(self, path: str) -> None:
        open_store(path, create=True).close()
        actor = Actor("begin", path)
        assert actor.hear() == "inside"
        actor.kill()
        with closing(open_store(path)) as store:
            assert states(store) == {}
            assert store.settings.config() == {}
            assert store.verify() == []
            add(store, "y")

    def test_what_was_acknowledged_survives_the_kill(self, path: str) -> None:
        open_store(path, create=True).close()
        actor = Actor("acknowledge", path)
        said = [actor.hear() for _ in range(50)]
        said += actor.kill().split()
        with closing(open_store(path)) as store:
            kept = list(states(store))
        # The last one may have been stored without a chance to say so.
        assert kept[: len(said)] == said
        assert len(kept) <= len(said) + 1
