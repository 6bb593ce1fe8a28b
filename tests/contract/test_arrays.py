"""Parameters that jobs have to themselves, and keys whose name is their limit."""

from queuectl.filter import Filter
from queuectl.job import Exited, Job, NewJob, OneOfMany, State
from queuectl.lifecycle import cancelled
from queuectl.limits import Limits
from queuectl.store import Store
from queuectl.store.contract import Decision
from queuectl.values import replace
from tests.contract.tools import (
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    ended,
    finish,
    ids,
    release,
    take,
    the,
)

ODD: dict[str, str | int] = {"index": 3, "line": "a 'b'\n\udcff\udc80é", "lr": "0.1"}


def array(store: Store, name: str, at_once: int, count: int, *keys: str) -> list[str]:
    """Enqueue an array of which so many may run at once."""
    model = NewJob(keys=(*keys, f"%{at_once} {name}"))
    jobs: list[OneOfMany] = [
        (f"{name}{n}", "x", None, f'{{"index": {n}}}', model) for n in range(1, count + 1)
    ]
    store.jobs.enqueue(jobs, now=NOW)
    return [f"{name}{n}" for n in range(1, count + 1)]


def end(store: Store, *jobs: Job, code: int = 0) -> None:
    """End runs."""
    assert finish(store, [ended(job, Exited(code), now=NOW + SECOND) for job in jobs]) == []


class TestParameters:
    def test_those_of_one_job_come_back(self, store: Store) -> None:
        made = store.jobs.enqueue_one(NewJob(id="a", command="x", parameters=ODD), now=NOW)
        assert made.parameters == the(store, "a").parameters == ODD
        assert add(store, "b").parameters == {}
        a_node(store)
        assert [job.parameters for job in take(store, 2)] == [ODD, {}]

    def test_each_of_many_has_its_own(self, store: Store) -> None:
        for start, count in ((0, 3), (100, 250)):
            model = NewJob(tags=("t",))
            store.jobs.enqueue(
                [
                    (f"j{n}", "x", None, f'{{"index": {n}}}' if n % 3 else None, model)
                    for n in range(start, start + count)
                ],
                now=NOW,
            )
        found = store.jobs.select(Filter(), limit=None, oldest=True)
        numbers = [*range(3), *range(100, 350)]
        assert [job.parameters for job in found] == [{"index": n} if n % 3 else {} for n in numbers]

    def test_debouncing_brings_others_along(self, store: Store) -> None:
        for line in ("one", "two"):
            new = NewJob(
                command=f"echo {line}",
                parameters={"line": line},
                unique="k",
                on_duplicate="debounce",
            )
            store.jobs.enqueue([new], now=NOW)
        (job,) = store.jobs.select(Filter(), limit=None)
        assert (job.command, job.parameters) == ("echo two", {"line": "two"})

    def test_another_program_may_give_some(self, store: Store, client: Client) -> None:
        client.run(
            "INSERT INTO {jobs} (id, command, parameters) VALUES (?, ?, ?)",
            "hand",
            "x",
            '{"index": 2, "odd": 1.5}',
        )
        assert the(store, "hand").parameters == {"index": 2, "odd": "1.5"}


class TestOwnLimits:
    def test_no_more_run_than_their_key_says(self, store: Store) -> None:
        for node in ("node-1", "node-2"):
            a_node(store, node)
        names = array(store, "a", 2, 5)
        add(store, "free")
        first = take(store, 9)
        assert sorted(ids(first)) == ["a1", "a2", "free"]
        assert take(store, 9, node="node-2") == []
        done = [job for job in first if job.id == "a1"]
        end(store, *done)
        (third,) = take(store, 9, node="node-2", now=NOW + SECOND)
        assert third.id == "a3"
        assert take(store, 9, now=NOW + SECOND) == []
        rest = [job for job in first if job.id == "a2"]
        end(store, third, *rest)
        last = take(store, 9, now=NOW + SECOND)
        assert sorted(ids(last)) == ["a4", "a5"]
        end(store, *last)
        assert [the(store, name).state for name in names] == [State.COMPLETED] * 5

    def test_two_arrays_count_by_themselves(self, store: Store) -> None:
        a_node(store)
        array(store, "a", 1, 3)
        array(store, "b", 2, 3)
        assert sorted(ids(take(store, 9))) == ["a1", "b1", "b2"]

    def test_the_same_name_counts_together_whenever_it_comes(self, store: Store) -> None:
        a_node(store)
        array(store, "a", 2, 1)
        first = take(store, 9)
        store.jobs.enqueue(
            [NewJob(id=f"c{n}", command="x", keys=("%2 a",)) for n in (1, 2)], now=NOW
        )
        assert ids(first + take(store, 9)) == ["a1", "c1"]

    def test_a_run_that_never_began_leaves_its_place(self, store: Store) -> None:
        a_node(store)
        array(store, "a", 1, 2)
        (first,) = take(store, 9)
        assert take(store, 9) == []
        assert release(store, [first], now=NOW + SECOND) == []
        assert ids(take(store, 9, now=NOW + SECOND)) == ["a1"]

    def test_so_does_one_that_failed_and_one_that_is_called_off(self, store: Store) -> None:
        a_node(store)
        names = array(store, "a", 1, 3)
        (first,) = take(store, 9)
        end(store, first, code=1)
        (second,) = take(store, 9, now=NOW + SECOND)
        assert second.id == "a2"
        third = the(store, names[2])
        assert take(store, 9, now=NOW + SECOND) == []
        store.jobs.change(
            [third], lambda held, now: {seq: Decision(cancelled(held[seq], "x")) for seq in held}
        )
        end(store, second)
        assert the(store, "a3").state == State.CANCELLED

    def test_they_come_in_their_order(self, store: Store) -> None:
        a_node(store)
        array(store, "a", 1, 4)
        seen = []
        while taken := take(store, 2, now=NOW + SECOND):
            seen += ids(taken)
            end(store, *taken)
        assert seen == ["a1", "a2", "a3", "a4"]

    def test_keys_that_were_given_count_besides(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(key_limit=1))
        a_node(store)
        array(store, "a", 3, 2, "gpu")
        array(store, "b", 3, 4)
        first = take(store, 9)
        # The limit of all keys isn't one of theirs.
        assert sorted(ids(first)) == ["a1", "b1", "b2", "b3"]
        end(store, *(job for job in first if job.id == "a1"))
        assert ids(take(store, 9, now=NOW + SECOND)) == ["a2"]

    def test_they_share_by_the_keys_that_were_given(self, store: Store) -> None:
        a_node(store)
        array(store, "a", 100, 6, "one")
        array(store, "b", 100, 6, "two")
        array(store, "c", 100, 6)
        array(store, "d", 100, 6)
        taken = ids(take(store, 12))
        # Those of nobody are one together.
        assert sorted(name[0] for name in taken) == [*"aaaabbbbcccc"]

    def test_a_queue_that_is_full_counts_no_arrays(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(max_waiting=50, limit=9))
        array(store, "a", 1, 20)
        assert len(store.jobs.select(Filter(states=(State.PENDING,)), limit=None)) == 20

    def test_what_is_edited_keeps_its_array(self, store: Store) -> None:
        from queuectl.editing import edited

        array(store, "a", 1, 1, "k")
        job = the(store, "a1")
        assert edited(job, {"keys": ["x", "y"]}, NOW).keys == ("x", "y", "%1 a")
        assert edited(job, {"keys": []}, NOW) == replace(job, keys=("%1 a",))
