"""Jobs that need something of their node: who gets them, and for whom room is kept."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from queuectl import changes, editing
from queuectl.admission import Offer, Serving
from queuectl.changes import Change
from queuectl.filter import Filter
from queuectl.job import Job, NewJob, State
from queuectl.precedence import order_of
from queuectl.resources import Holding, Stock, needs_of, read_resources
from queuectl.store import Store
from queuectl.store.contract import Over, Turned
from tests.contract.ends import at_once
from tests.contract.tools import (
    HOUR,
    NOW,
    SECOND,
    a_node,
    add,
    ended,
    finish,
    forget,
    ids,
    release,
    states,
    take,
    the,
)

CHANGES: dict[str, Callable[[], Change]] = {
    "cancelled": changes.cancelling,
    "held": lambda: editing.HOLD,
    "edited": lambda: editing.editing({"needs": "cpu=99"}),
}
LARGE, SMALL = "cpu=8,gpu=[0-3],mem=32G", "cpu=4"


class Node:
    """A node as it claims: it offers what its runs have left."""

    def __init__(
        self,
        store: Store,
        id: str,
        resources: str = LARGE,
        *,
        labels: Sequence[str] = (),
        workers: int = 8,
        **serving: Any,
    ) -> None:
        self.store = store
        self.id = id
        self.workers = workers
        has = read_resources(resources) if resources else ""
        self.serving = Serving(resources=has, labels=tuple(labels), **serving)
        a_node(store, id, queues=self.serving, workers=workers)

    def turn(self, *, now: int = NOW, most: int | None = None) -> Turned:
        """Claim for all workers that have no run, or some of them."""
        held = self.store.runs.held(self.id)
        busy = {job.worker for job in held}
        idle = [number for number in range(1, self.workers + 1) if number not in busy][:most]
        holdings = [
            Holding(job.started_at or 0, needs, job.devices)
            for job in held
            if (needs := needs_of(job.handler))
        ]
        stock = Stock(self.serving.resources, holdings)
        offer = Offer(idle, self.serving, idle=len(idle), order=order_of(self.serving), stock=stock)
        return self.store.runs.turn(self.id, None, offer, now=now)

    def take(self, *, now: int = NOW, most: int | None = None) -> list[str]:
        return ids(self.turn(now=now, most=most).jobs)


def do(store: Store, change: Change, *names: str) -> None:
    changes.make(store, [the(store, name) for name in names], change)


def end(store: Store, *names: str, now: int = NOW + SECOND) -> None:
    assert finish(store, [ended(the(store, name), now=now) for name in names]) == []


def kept(store: Store) -> dict[str, str]:
    """Return for which job each node keeps room."""
    jobs = store.jobs.select(Filter(), limit=None)
    by_seq = {job.seq: job.id for job in jobs}
    return {one.node: by_seq[one.seq] for one in store.runs.reservations()}


class TestClasses:
    def test_the_class_is_a_part_of_the_handler(self, store: Store) -> None:
        job = add(store, "x", needs="cpu=2,gpu=0.5", requires=("nvme", "ssd"))
        assert job.handler == "needs:cpu=2,gpu=0.5;nvme,ssd"
        assert (job.needs, job.requires, job.type) == ("cpu=2,gpu=0.5", ("nvme", "ssd"), None)
        data = add(store, "y", data=b"z", type="mail", needs="cpu=1")
        assert (data.handler, data.type) == ("needs:cpu=1 type:mail", "mail")
        assert add(store, "plain").handler == ""

    def test_a_type_is_found_whatever_its_jobs_need(self, store: Store) -> None:
        add(store, "a", data=b"", type="mail", needs="cpu=1")
        add(store, "b", data=b"", type="mail")
        add(store, "c", data=b"", type="post", needs="cpu=1")
        add(store, "d", needs="cpu=1")
        found = store.jobs.select(Filter(types=("mail",)), limit=None)
        assert sorted(ids(found)) == ["a", "b"]

    def test_a_node_without_resources_takes_none_that_need_any(self, store: Store) -> None:
        add(store, "needy", needs="cpu=1")
        add(store, "picky", requires=("ssd",))
        add(store, "plain")
        a_node(store, "node-1")
        assert ids(take(store, 3)) == ["plain"]
        assert not store.runs.outlook(Serving()).ready
        assert store.runs.lines(10) == {
            ("default", "needs:cpu=1"): 1,
            ("default", "needs:;ssd"): 1,
        }

    def test_labels_must_all_be_there(self, store: Store) -> None:
        add(store, "ssd", requires=("ssd",))
        add(store, "both", requires=("eu", "ssd"))
        add(store, "plain")
        assert Node(store, "a", "", labels=["ssd"]).take() == ["ssd", "plain"]
        assert not store.runs.outlook(Serving(labels=("ssd",))).ready
        assert store.runs.outlook(Serving(labels=("eu", "ssd"))).ready
        assert Node(store, "b", "", labels=["eu", "ssd", "x"]).take() == ["both"]

    def test_data_needs_its_program_as_well(self, store: Store) -> None:
        add(store, "mail", data=b"", type="mail", needs="cpu=1")
        add(store, "post", data=b"", type="post", needs="cpu=1")
        add(store, "big", data=b"", type="mail", needs="cpu=100")
        add(store, "plain")
        assert Node(store, "a").take() == ["plain"]
        assert Node(store, "b", handlers=("type:mail",)).take() == ["mail"]
        assert Node(store, "c", handlers=("type:*",)).take() == ["post"]
        assert states(store)["big"] == State.PENDING

    def test_what_a_node_never_has_is_passed_over(self, store: Store) -> None:
        add(store, "cpus", needs="cpu=9")
        add(store, "fpga", needs="fpga=1")
        add(store, "fits", needs="cpu=8")
        node = Node(store, "a")
        assert node.take() == ["fits"]
        assert kept(store) == {}
        assert not store.runs.outlook(node.serving).ready

    def test_what_nobody_can_read_is_given_to_nobody(self, store: Store) -> None:
        add(store, "fits", needs="cpu=1")
        assert needs_of("needs:cpu=x") is None
        assert needs_of("needs:mem=1,cpu=2") is None
        assert not Serving(resources="cpu=8").handles("needs:cpu=x")
        assert Node(store, "a").take() == ["fits"]


class TestRoom:
    def test_as_many_begin_as_there_is_room_for(self, store: Store) -> None:
        for n in range(5):
            add(store, f"j{n}", needs="cpu=3")
        node = Node(store, "a")
        turned = node.turn()
        assert ids(turned.jobs) == ["j0", "j1"]
        assert turned.waits
        assert node.take() == []
        end(store, "j0")
        assert node.take() == ["j2"]

    def test_plain_jobs_pass_those_that_wait(self, store: Store) -> None:
        add(store, "one", needs="cpu=8")
        add(store, "two", needs="cpu=8")
        add(store, "plain")
        assert Node(store, "a").take() == ["one", "plain"]

    def test_priority_decides_who_gets_the_room(self, store: Store) -> None:
        add(store, "low", needs="cpu=8")
        add(store, "high", needs="cpu=7", priority=5)
        add(store, "plain", priority=9)
        node = Node(store, "a", workers=2)
        assert node.take() == ["plain", "high"]

    def test_devices_are_given_out_and_come_back(self, store: Store) -> None:
        add(store, "pair", needs="gpu=2")
        add(store, "half", needs="gpu=0.5")
        add(store, "other", needs="gpu=0.5")
        add(store, "one", needs="gpu=1")
        add(store, "late", needs="gpu=1")
        node = Node(store, "a")
        jobs = {job.id: job.devices for job in node.turn().jobs}
        assert jobs == {
            "pair": {"gpu": (0, 1)},
            "half": {"gpu": (2,)},
            "other": {"gpu": (2,)},
            "one": {"gpu": (3,)},
        }
        assert the(store, "half").devices == {"gpu": (2,)}
        end(store, "half")
        assert node.take() == []
        end(store, "other")
        (late,) = node.turn().jobs
        assert late.devices == {"gpu": (2,)}
        used = {(use.node, use.handler, use.devices["gpu"]) for use in store.runs.using()}
        assert used == {
            ("a", "needs:gpu=2", (0, 1)),
            ("a", "needs:gpu=1", (3,)),
            ("a", "needs:gpu=1", (2,)),
        }

    def test_a_job_forgets_the_devices_of_its_run_before(self, store: Store) -> None:
        add(store, "x", needs="gpu=1")
        (job,) = Node(store, "a").turn().jobs
        assert job.devices == {"gpu": (0,)}
        assert release(store, [job], now=NOW) == []
        (again,) = Node(store, "b", "gpu=[7]").turn().jobs
        assert again.devices == {"gpu": (7,)}
        assert the(store, "x").devices == {"gpu": (7,)}

    def test_an_edited_job_is_of_another_class(self, store: Store) -> None:
        add(store, "x", needs="cpu=2", requires=("ssd",))
        add(store, "y", data=b"", type="mail", needs="cpu=2")

        do(store, editing.editing({"needs": "gpu=1", "requires": []}), "x")
        do(store, editing.editing({"needs": "gpu=1"}), "y")
        assert the(store, "x").handler == "needs:gpu=1"
        assert the(store, "y").handler == "needs:gpu=1 type:mail"
        assert the(store, "x").requires == ()

    def test_limits_hold_as_well(self, store: Store) -> None:
        from queuectl.limits import Limits

        store.settings.set_limits("default", lambda _: Limits(limit=2))
        for n in range(4):
            add(store, f"j{n}", needs="cpu=1")
        add(store, "other", queue="other", needs="cpu=6")
        add(store, "beside", queue="other", needs="cpu=7")
        turned = Node(store, "a").turn()
        assert ids(turned.jobs) == ["j0", "j1", "other"]
        assert turned.limited
        assert turned.waits

    def test_shares_of_queues_hold_as_well(self, store: Store) -> None:
        for n in range(6):
            add(store, f"a{n}", queue="a", needs="cpu=1")
            add(store, f"b{n}", queue="b", needs="cpu=1")
        node = Node(store, "n", "cpu=4", names=("a", "b"), weights=(3, 1))
        assert sorted(node.take()) == ["a0", "a1", "a2", "b0"]


class TestReservations:
    def test_the_first_that_fits_nowhere_has_room_kept(self, store: Store) -> None:
        add(store, "small-0", needs="cpu=2")
        add(store, "small-1", needs="cpu=2")
        add(store, "large", needs="cpu=8")
        add(store, "small-2", needs="cpu=2")
        add(store, "plain")
        node = Node(store, "a")
        assert node.take() == ["small-0", "small-1", "plain"]
        assert kept(store) == {"a": "large"}
        end(store, "small-0")
        assert node.take(now=NOW + 2 * SECOND) == []
        end(store, "small-1")
        assert node.take(now=NOW + 3 * SECOND) == ["large"]
        assert kept(store) == {"a": "small-2"}
        end(store, "large", now=NOW + 4 * SECOND)
        assert node.take(now=NOW + 5 * SECOND) == ["small-2"]

    def test_what_leaves_room_for_it_goes_first(self, store: Store) -> None:
        add(store, "there", needs="cpu=6")
        node = Node(store, "a")
        assert node.take() == ["there"]
        add(store, "large", needs="cpu=5,gpu=1")
        add(store, "beside", needs="cpu=2,gpu=3")
        add(store, "too-many", needs="cpu=1,gpu=1")
        assert node.take(now=NOW + 1) == ["beside"]
        assert kept(store) == {"a": "large"}
        end(store, "there")
        assert node.take(now=NOW + SECOND) == ["large"]

    def test_small_ones_that_keep_coming_dont_starve_it(self, store: Store) -> None:
        node = Node(store, "a", SMALL)
        for n in range(4):
            add(store, f"s{n}", needs="cpu=1")
        assert len(node.take()) == 4
        add(store, "large", needs="cpu=4")
        runs = [f"s{n}" for n in range(4)]
        for n in range(4):
            add(store, f"t{n}", needs="cpu=1")
            now = NOW + (n + 1) * SECOND
            end(store, runs[n], now=now)
            begun = node.take(now=now)
            assert begun == (["large"] if n == 3 else [])

    def test_a_higher_priority_takes_the_room_over(self, store: Store) -> None:
        add(store, "there", needs="cpu=8")
        node = Node(store, "a")
        assert node.take() == ["there"]
        add(store, "first", needs="cpu=7")
        assert node.take(now=NOW + 1) == []
        assert kept(store) == {"a": "first"}
        add(store, "urgent", needs="cpu=5", priority=1)
        assert node.take(now=NOW + 2) == []
        assert kept(store) == {"a": "urgent"}
        add(store, "sudden", needs="cpu=8", priority=2)
        end(store, "there")
        assert node.take(now=NOW + SECOND) == ["sudden"]
        end(store, "sudden", now=NOW + 2 * SECOND)
        assert node.take(now=NOW + 2 * SECOND) == ["urgent"]
        assert kept(store) == {"a": "first"}

    def test_of_each_node_one_and_of_each_job_one(self, store: Store) -> None:
        a, b = Node(store, "a", SMALL), Node(store, "b", SMALL)
        for n in range(4):
            add(store, f"s{n}", needs="cpu=2")
        assert a.take() == ["s0", "s1"]
        assert b.take() == ["s2", "s3"]
        for n in range(3):
            add(store, f"large-{n}", needs="cpu=4")
        for now in range(NOW + 1, NOW + 4):
            assert a.take(now=now) == b.take(now=now) == []
        assert sorted(kept(store).values()) == ["large-0", "large-1"]
        assert len(kept(store)) == 2

    def test_it_is_kept_where_fewest_runs_have_to_end(self, store: Store) -> None:
        a, b = Node(store, "a", SMALL), Node(store, "b", SMALL)
        for n in range(4):
            add(store, f"s{n}", needs="cpu=1")
        assert len(a.take()) == 4
        add(store, "one", needs="cpu=3")
        assert b.take() == ["one"]
        add(store, "large", needs="cpu=4")
        assert a.take(now=NOW + 1) == []
        assert kept(store) == {}
        assert b.take(now=NOW + 1) == []
        assert kept(store) == {"b": "large"}

    def test_none_is_kept_while_it_fits_on_another(self, store: Store) -> None:
        a = Node(store, "a", SMALL)
        b = Node(store, "b", SMALL)
        add(store, "s", needs="cpu=1")
        add(store, "large", needs="cpu=4")
        assert a.take() == ["s"]
        assert kept(store) == {}
        assert b.take() == ["large"]

    def test_another_node_may_have_room_before(self, store: Store) -> None:
        a, b = Node(store, "a", SMALL), Node(store, "b", SMALL)
        add(store, "s", needs="cpu=1")
        add(store, "t", needs="cpu=2")
        assert a.take(most=1) == ["s"]
        assert b.take() == ["t"]
        add(store, "large", needs="cpu=4")
        assert a.take(now=NOW + 1) == b.take(now=NOW + 1) == []
        (keeper,) = kept(store)
        other = {"a": b, "b": a}[keeper]
        end(store, {"a": "t", "b": "s"}[keeper])
        assert other.take(now=NOW + SECOND) == ["large"]
        assert kept(store) == {}

    @pytest.mark.parametrize("how", ["cancelled", "held", "edited", "paused"])
    def test_it_is_given_up_with_its_job(self, store: Store, how: str) -> None:
        node = Node(store, "a", SMALL)
        add(store, "s", needs="cpu=2")
        add(store, "large", needs="cpu=4", queue="q")
        assert node.take() == ["s"]
        assert kept(store) == {"a": "large"}
        if how == "paused":
            store.settings.set_paused("q", paused=True, who="me", now=NOW)
        else:
            do(store, CHANGES[how](), "large")
        add(store, "small", needs="cpu=2")
        assert node.take(now=NOW + 1) == ["small"]
        assert kept(store) == {}

    def test_it_goes_with_its_node(self, store: Store) -> None:
        a, b = Node(store, "a", SMALL), Node(store, "b", SMALL)
        add(store, "s", needs="cpu=1")
        add(store, "t", needs="cpu=2")
        assert a.take(most=1) == ["s"]
        assert b.take() == ["t"]
        add(store, "large", needs="cpu=4")
        assert a.take(now=NOW + 1) == b.take(now=NOW + 1) == []
        assert kept(store) == {"a": "large"}
        assert forget(store, "a")
        assert kept(store) == {}
        assert b.take(now=NOW + 2) == []
        assert kept(store) == {"b": "large"}

    def test_a_node_that_is_to_stop_keeps_nothing(self, store: Store) -> None:
        from queuectl.facts import Stop

        a, b = Node(store, "a", SMALL), Node(store, "b", SMALL)
        add(store, "s", needs="cpu=1")
        add(store, "t", needs="cpu=2")
        assert a.take(most=1) == ["s"]
        assert b.take() == ["t"]
        add(store, "large", needs="cpu=4")
        assert a.take(now=NOW + 1) == b.take(now=NOW + 1) == []
        assert kept(store) == {"a": "large"}
        assert store.nodes.ask_stop("a", Stop.DRAIN)
        assert kept(store) == {}
        assert b.take(now=NOW + 2) == []
        assert kept(store) == {"b": "large"}

    def test_a_rescue_frees_what_was_used(self, store: Store) -> None:
        a = Node(store, "a", SMALL)
        add(store, "x", needs="cpu=4")
        assert a.take() == ["x"]
        assert len(store.runs.using()) == 1
        turned = store.runs.rescue("a", lambda jobs, now: Over(unstarted=jobs))
        assert turned is not None
        assert store.runs.using() == []


@pytest.mark.needs("sql")
class TestSideBySide:
    def test_nothing_is_given_to_two(self, store: Store, other: Store) -> None:
        """Nodes that claim at the same time get different jobs, and each no more than it has."""
        for n in range(60):
            add(store, f"j{n:02}", needs=f"cpu={1 + n % 3},gpu=0.5", now=NOW - HOUR)
        nodes = [Node(store, "a"), Node(other, "b")]
        got: dict[str, list[Job]] = {"a": [], "b": []}

        def work(node: Node) -> None:
            for n in range(200):
                jobs = node.turn(now=NOW + n).jobs
                got[node.id] += jobs
                used = sum(int(use.handler[10]) for use in mine(node))
                assert used <= 8
                if jobs:
                    ends = [ended(job, now=NOW + n) for job in jobs]
                    assert finish(node.store, ends) == []

        def mine(node: Node) -> list[Any]:
            return [use for use in node.store.runs.using() if use.node == node.id]

        at_once(*(partial(work, node) for node in nodes))
        names = [job.id for jobs in got.values() for job in jobs]
        assert sorted(names) == [f"j{n:02}" for n in range(60)]
        assert kept(store) == {}


def test_many_classes_are_many_lines(store: Store) -> None:
    new = [
        NewJob(id=f"j{n:03}", command="true", needs=f"cpu={n % 50 + 1},mem={1048576 + n}")
        for n in range(200)
    ]
    store.jobs.enqueue(new, now=NOW)
    node = Node(store, "a", "cpu=100,mem=1G", workers=4)
    assert node.take() == ["j000", "j001", "j002", "j003"]
    assert len(store.runs.lines(10)) == 196
