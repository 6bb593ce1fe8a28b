"""Chains, what goes side by side, and graphs, as Python puts them together."""

from typing import Any

import pytest

from queuectl import (
    BadJobError,
    DuplicateError,
    NotFoundError,
    Queue,
    State,
    StateError,
    UsageError,
    chain,
    parallel,
)
from tests.support import Lab


@pytest.fixture
def queue(lab: Lab) -> Queue:
    return lab.queue


def waits(queue: Queue) -> dict[str, set[str]]:
    """Return for whom jobs wait, by their commands."""
    jobs = queue.list(limit=None)
    named = {job.id: job.title for job in jobs}
    return {
        job.title: {named.get(text.partition(":")[0], text.partition(":")[0]) for text in job.after}
        for job in jobs
    }


class TestChains:
    def test_each_waits_for_the_one_before_it(self, queue: Queue) -> None:
        batch = queue.chain(["a", ["b", "1"], {"command": "c", "priority": 3}], queue="etl")
        assert waits(queue) == {"a": set(), "b 1": {"a"}, "c": {"b 1"}}
        jobs = [queue.get(id) for id in batch.ids]
        assert [(job.queue, job.priority) for job in jobs] == [("etl", 0), ("etl", 0), ("etl", 3)]
        assert [job.state for job in jobs] == [State.PENDING, State.BLOCKED, State.BLOCKED]

    def test_side_by_side(self, queue: Queue) -> None:
        first = queue.enqueue("first")
        queue.parallel(["a", "b"], after=first)
        assert waits(queue) == {"first": set(), "a": {"first"}, "b": {"first"}}

    def test_they_can_be_put_into_each_other(self, queue: Queue) -> None:
        queue.chain(["a", parallel(["b", chain(["c", "d"]), "e"]), chain([]), "f"])
        assert waits(queue) == {
            "a": set(),
            **{title: {"a"} for title in "bce"},
            "d": {"c"},
            "f": {"b", "d", "e"},
        }

    def test_what_an_item_waits_for_itself_comes_on_top(self, queue: Queue) -> None:
        other = queue.enqueue("other")
        queue.chain(["a", {"command": "b", "after": [other]}])
        assert waits(queue)["b"] == {"a", "other"}

    @pytest.mark.parametrize("items", ["a b", {"command": "a"}, 5])
    def test_one_job_alone_is_an_error(self, queue: Queue, items: Any) -> None:
        with pytest.raises(UsageError, match="takes several jobs"):
            queue.chain(items)
        with pytest.raises(UsageError, match="takes several jobs"):
            parallel(items)

    def test_many_at_once(self, queue: Queue) -> None:
        batch = queue.chain([f"echo {n}" for n in range(2_000)])
        assert queue.get(batch.ids[-1]).after == (batch.ids[-2],)


class TestGraphs:
    def test_it_is_stored_when_the_block_ends(self, queue: Queue) -> None:
        with queue.graph(queue="etl", tags=["nightly"]) as graph:
            fetch = graph.add("fetch", priority=2)
            parts = graph.parallel(["one", chain(["two", "three"])], after=fetch)
            merge = graph.add("merge", after=[*parts, f"{fetch.id}:any"])
            graph.add(command="clean", id="clean", after=[f"{merge.id}:any"])
            assert queue.count() == 0
            assert graph.batch is None
        assert waits(queue) == {
            "fetch": set(),
            "one": {"fetch"},
            "two": {"fetch"},
            "three": {"two"},
            "merge": {"one", "three", "fetch"},
            "clean": {"merge"},
        }
        assert graph.batch is not None
        assert queue.get(fetch.id).priority == 2
        assert {(job.queue, job.tags) for job in queue.list()} == {("etl", ("nightly",))}
        assert queue.get("clean").after == (f"{merge.id}:any",)

    def test_nothing_is_stored_if_the_block_raises(self, queue: Queue) -> None:
        with pytest.raises(ZeroDivisionError), queue.graph() as graph:
            graph.add("a")
            _ = 1 / 0
        assert queue.count() == 0
        with pytest.raises(StateError, match="stored already"):
            graph.add("b")

    def test_nothing_is_stored_if_one_of_them_cannot_be(self, queue: Queue) -> None:
        queue.enqueue("true", id="taken")
        with pytest.raises(DuplicateError), queue.graph() as graph:
            graph.add("b", after=graph.add("a"), id="taken")
        with pytest.raises(NotFoundError, match="'nobody'"), queue.graph() as graph:
            graph.add("b", after=[graph.add("a"), "nobody"])
        assert queue.count() == 1

    def test_a_job_stands_for_its_id_however_that_ends(self, queue: Queue) -> None:
        job = queue.enqueue("true", id="a:fail")
        assert queue.enqueue("true", after=job).after == ("a:fail:ok",)
        with queue.graph() as graph:
            planned = graph.add("true", id="b:any")
            other = graph.add("false", after=planned)
        assert queue.get(other.id).after == ("b:any:ok",)
        with pytest.raises(UsageError, match="after takes ids"), queue.graph() as graph:
            graph.parallel(["a"], after=[5])  # type: ignore[list-item]


class TestOrder:
    def test_those_that_name_each_other_can_come_in_any_order(self, queue: Queue) -> None:
        batch = queue.enqueue_many(
            [
                {"id": "c", "command": "c", "after": ["b", "a:any"]},
                {"id": "b", "command": "b", "after": "a"},
                {"id": "a", "command": "a"},
                "alone",
            ]
        )
        assert batch.ids[:3] == ("c", "b", "a")
        assert [job.title for job in queue.list(oldest=True)] == ["a", "b", "c", "alone"]

    @pytest.mark.parametrize(
        ("jobs", "why"),
        [
            (["a b", "b c", "c a"], "a -> c -> b -> a; nothing was enqueued"),
            (["a a"], "Job a can't wait for itself"),
            (["a nobody"], "'nobody'"),
        ],
    )
    def test_what_can_never_run_is_refused(self, queue: Queue, jobs: list[str], why: str) -> None:
        asked = [{"id": job[0], "command": "x", "after": job.split()[1:]} for job in jobs]
        with pytest.raises((BadJobError, NotFoundError), match=why):
            queue.enqueue_many(asked)
        assert queue.count() == 0


def test_jobs_that_have_names(queue: Queue) -> None:
    jobs = [
        {"name": "b", "command": "b", "after": "a"},
        {"name": "a", "command": "a"},
    ]
    once, again = queue.enqueue_graph(jobs), queue.enqueue_graph(jobs, queue="q")
    assert set(once.names) == set(again.names) == {"a", "b"}
    assert set(once.names.values()).isdisjoint(again.names.values())
    assert queue.get(again.names["b"]).after == (again.names["a"],)
    assert queue.get(again.names["b"]).queue == "q"
    with pytest.raises(BadJobError, match="Job number 1: there is no job 'nobody'"):
        queue.enqueue_graph([{"command": "x", "after": "nobody"}])


def test_names_are_kept_besides_what_all_have(queue: Queue) -> None:
    stored = queue.enqueue_graph(
        [
            {"name": "a", "command": "a"},
            {"name": "b", "command": "b", "after": "a", "parameters": {"lr": "1"}},
            {"name": "c", "command": "c", "env": {"X": "y"}},
        ],
        parameters={"seed": "3"},
    )
    own = {name: dict(queue.get(id).parameters) for name, id in stored.names.items()}
    assert own == {
        "a": {"name": "a", "seed": "3"},
        "b": {"name": "b", "lr": "1"},
        "c": {"name": "c", "seed": "3"},
    }
    stored = queue.enqueue_graph([{"name": "a", "command": "a"}], env={"name": "set"})
    assert queue.get(stored.names["a"]).parameters == {}


def test_names_with_a_job_each(queue: Queue) -> None:
    stored = queue.enqueue_graph(
        {
            "x-nightly": {"max_retries": 0},
            ".part": {"command": "part"},
            "b": {"command": "b", "after": "a"},
            "a": "a",
            "c": ["c", "1"],
        },
        queue="etl",
    )
    assert set(stored.names) == {"a", "b", "c"}
    assert waits(queue) == {"a": set(), "b": {"a"}, "c 1": set()}
    job = queue.get(stored.names["b"])
    assert (job.queue, job.parameters) == ("etl", {"name": "b"})


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ({"a": {"command": "a", "name": "b"}}, "Job 'a': it has two names, 'a' and 'b'"),
        ({"a": 5}, "Job 'a': a job must be a command, a list, or fields, not '5'"),
        ({"a": {"command": "x", "after": "b"}}, "Job 'a': there is no job 'b'"),
        ([5], "Job number 1: a job must be a command, a list, or fields, not '5'"),
        ("true", "enqueue_graph takes several jobs"),
        (5, "enqueue_graph takes several jobs"),
    ],
)
def test_what_is_no_graph_is_told(queue: Queue, jobs: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        queue.enqueue_graph(jobs)
    assert queue.count() == 0


def test_a_batch_stands_for_all_of_its_jobs(queue: Queue) -> None:
    batch = queue.chain(["a", "b"])
    other = queue.enqueue("c", id="c:fail")
    queue.enqueue("d", after=batch)
    queue.enqueue_many(["e"], after=[batch, other])
    queue.chain(["f"], after=batch)
    queue.parallel(["g"], after=[batch, other.id + ":any"])
    with queue.graph() as graph:
        graph.add("h", after=[batch, graph.add("i")])
    after = {job.title: job.after for job in queue.list()}
    assert after["d"] == after["f"] == batch.ids
    assert after["e"] == (*batch.ids, "c:fail:ok")
    assert after["g"] == (*batch.ids, "c:fail:any")
    assert after["h"][:2] == batch.ids


def test_jobs_of_a_block_have_names_as_in_a_file(queue: Queue) -> None:
    with queue.graph(parameters={"seed": "3"}) as graph:
        graph.add("report", after=["parse", "fetch:any"])
        graph.add("parse", name="parse", after="fetch", parameters={"lr": "1"})
        fetch = graph.add({"command": "fetch", "name": "fetch"})
        graph.add("own", name="own", id="own")
        graph.add("env", name="env", env={"name": "set"})
    assert waits(queue)["report"] == {"parse", "fetch"}
    assert waits(queue)["parse"] == {"fetch"}
    own = {job.title: dict(job.parameters) for job in queue.list()}
    assert own["fetch"] == {"name": "fetch", "seed": "3"}
    assert own["parse"] == {"name": "parse", "lr": "1"}
    assert own["own"] == own["report"] == own["env"] == {"seed": "3"}
    assert queue.get(fetch).title == "fetch"
    for twice in ({"name": "a"}, {"id": "a"}):
        taken = pytest.raises(BadJobError, match="The name 'a' is taken by another job")
        with taken, queue.graph() as graph:
            graph.add("x", name="a")
            graph.add("y", **twice)  # type: ignore[arg-type]
    assert queue.count() == 5


def test_what_stands_for_a_job_names_it_everywhere(queue: Queue) -> None:
    with queue.graph() as graph:
        first = graph.add("first")
        second = graph.add("second", after=first)
        with pytest.raises(NotFoundError, match=f"Job {first.id} isn't here"):
            queue.get(first)
    assert queue.get(first).title == "first"
    assert [one.id for one in queue.parents(second)] == [first.id]
    assert [one.id for one in queue.children(first)] == [second.id]
    assert len(queue.graph_of(first).nodes) == 2
    assert [job.state for job in queue.cancel_all([first])] == [State.CANCELLED]
    assert [job.id for job in queue.wait(first, second)] == [first.id, second.id]


def test_calls_of_tasks(queue: Queue) -> None:
    @queue.task(name="shop.double", queue="sums")
    def double(n: int) -> int:
        return 2 * n

    batch = queue.chain([double.call(1), double.using(priority=3).call(n=2)])
    first, second = (queue.get(id) for id in batch.ids)
    assert (first.type, first.data, first.queue) == ("shop.double", b'{"n":1}', "sums")
    assert (second.data, second.priority, second.after) == (b'{"n":2}', 3, (first.id,))
    with pytest.raises(BadJobError, match="n"):
        double.call("two")  # type: ignore[arg-type]
