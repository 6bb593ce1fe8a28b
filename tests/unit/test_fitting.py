"""Which jobs with needs begin on a node, for whom room is kept, and how well nodes are used."""

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from queuectl.admission import Candidate, Offer, Serving, Suspects, admit_limited
from queuectl.fitting import Neighbour, NodeKeeper, best_node, lined_up
from queuectl.resources import (
    Holding,
    Needs,
    Stock,
    could_hold,
    needs_of,
    read_needs,
    read_resources,
    room_of,
    with_needs,
)

NOW = 1_000_000
MOST_WEIGHED = 32


def job(seq: int, needs: str = "", *, crashes: int = 0, priority: int = 0) -> Candidate:
    handler = with_needs("", Needs(read_needs(needs))) if needs else ""
    return Candidate(priority, seq, crashes, NOW, 0, handler=handler)


def held(text: str, *, at: int = NOW - 1, **devices: tuple[int, ...]) -> Holding:
    return Holding(at, Needs(read_needs(text)), devices)


def keeper(
    resources: str, *holdings: Holding, may: bool = True, reserved: tuple[int, int] | None = None
) -> NodeKeeper:
    stock = Stock(read_resources(resources), holdings)
    return NodeKeeper(stock, NOW, may_keep=lambda job, stock: may, reserved=reserved)


def admit(
    line: Sequence[Candidate],
    keeper: NodeKeeper,
    workers: int = 8,
    *,
    idle: int | None = None,
    suspects: Suspects | None = None,
) -> list[int]:
    offer = Offer(range(1, workers + 1), suspects=suspects, idle=idle)
    return [one.seq for one in admit_limited(line, offer, NOW, {}, "a", keeper).taken]


class TestWhoBegins:
    def test_what_fits_in_the_order_of_the_line(self) -> None:
        room = keeper("cpu=8", may=False)
        line = [job(1, "cpu=3"), job(2, "cpu=6"), job(3), job(4, "cpu=5"), job(5, "cpu=1")]
        assert admit(line, room) == [1, 3, 4]
        assert room.waits
        assert room.kept is None

    def test_as_many_as_there_are_workers(self) -> None:
        room = keeper("cpu=8")
        assert admit([job(n, "cpu=1") for n in range(5)], room, workers=3) == [0, 1, 2]
        assert not room.waits

    def test_nobody_takes_room_ahead_of_its_time(self) -> None:
        room = keeper("cpu=8")
        line = [job(1, "cpu=1"), job(2, "cpu=1"), job(3), job(4)]
        assert admit(line, room, workers=3, idle=1) == [1, 3, 4]
        assert room.waits

    def test_a_suspect_waits_for_an_idle_node(self) -> None:
        idle = Suspects(2, patience=1, idle=True)
        busy = Suspects(2, patience=1, idle=False)
        line = [job(1, "cpu=1", crashes=2), job(2, "cpu=1")]
        assert admit(line, keeper("cpu=8"), suspects=idle) == [1]
        assert admit(line, keeper("cpu=8"), suspects=busy) == []
        # Of one that has room kept, the others needn't wait for that.
        reserved = keeper("cpu=8", reserved=(1, NOW - 1))
        assert admit(line, reserved, suspects=busy) == [2]
        assert reserved.kept is not None

    def test_devices_are_said(self) -> None:
        room = keeper("gpu=3", held("gpu=1", gpu=(1,)))
        assert admit([job(1, "gpu=1"), job(2, "gpu=0.5"), job(3, "gpu=0.5")], room) == [1, 2, 3]
        assert room.devices == {1: {"gpu": (0,)}, 2: {"gpu": (2,)}, 3: {"gpu": (2,)}}

    def test_what_cant_be_read_never_begins(self) -> None:
        odd = Candidate(0, 1, 0, NOW, 0, handler="needs:cpu=x")
        assert admit([odd], keeper("cpu=8")) == []


class TestKeptRoom:
    def test_the_first_that_waits_has_room_kept(self) -> None:
        room = keeper("cpu=8", held("cpu=4"))
        line = [job(1, "cpu=6"), job(2, "cpu=7"), job(3, "cpu=2"), job(4, "cpu=1")]
        assert admit(line, room) == [3]
        assert room.kept is not None
        assert room.kept.seq == 1

    def test_not_if_another_node_is_better(self) -> None:
        room = keeper("cpu=8", held("cpu=4"), may=False)
        assert admit([job(1, "cpu=6"), job(2, "cpu=3")], room) == [2]
        assert room.kept is None

    def test_what_began_before_isnt_counted_and_what_began_since_is(self) -> None:
        since = NOW - 100
        line = [job(1, "cpu=6"), job(2, "cpu=2")]
        before = keeper("cpu=8", held("cpu=4", at=since), reserved=(1, since))
        assert admit(line, before) == [2]
        after = keeper("cpu=8", held("cpu=4", at=since + 1), reserved=(1, since))
        assert admit(line, after) == []

    def test_it_goes_to_its_job_when_that_fits(self) -> None:
        room = keeper("cpu=8", held("cpu=2"), reserved=(1, NOW - 5))
        assert admit([job(1, "cpu=6"), job(2, "cpu=1")], room) == [1]
        assert room.kept is not None
        assert room.kept.seq == 2

    def test_a_higher_priority_has_it_kept_instead(self) -> None:
        room = keeper("cpu=8", held("cpu=4"), reserved=(1, NOW - 5))
        line = [job(3, "cpu=7", priority=1), job(1, "cpu=6"), job(2, "cpu=1")]
        assert admit(line, room) == [2]
        assert room.kept is not None
        assert room.kept.seq == 3
        nobody = keeper("cpu=8", held("cpu=4"), reserved=(1, NOW - 1), may=False)
        assert admit(line, nobody) == [2]
        assert nobody.kept is not None
        assert nobody.kept.seq == 1

    def test_only_a_higher_priority_goes_before_it(self) -> None:
        kept = job(5, priority=1)._replace(queue="b")
        line = [job(1, priority=2), job(2, priority=1), kept, job(6)]
        assert [one.seq for one in lined_up(line, kept, has_order=False)] == [1, 5, 2, 6]
        assert [one.seq for one in lined_up(line, kept, has_order=True)] == [5, 1, 2, 6]
        assert [one.seq for one in lined_up(line[:1], kept, has_order=False)] == [1, 5]
        assert [one.seq for one in lined_up(line, None, has_order=False)] == [1, 2, 5, 6]

    def test_other_resources_are_free_for_all(self) -> None:
        room = keeper("cpu=8,gpu=2", held("gpu=2", gpu=(0, 1)), reserved=(1, NOW - 5))
        assert admit([job(1, "gpu=2"), job(2, "cpu=8"), job(3, "gpu=0.5")], room) == [2]

    def test_without_a_free_worker_its_room_stays(self) -> None:
        room = keeper("cpu=8", reserved=(1, NOW - 5))
        assert admit([job(1, "cpu=8"), job(2), job(3)], room, workers=2, idle=0) == [2, 3]
        assert room.kept is not None


class TestBestNode:
    def node(self, id: str, resources: str, *holdings: Holding, idle: bool = True) -> Neighbour:
        stock = Stock(read_resources(resources), holdings)
        return Neighbour(id, Serving(resources=stock.resources), stock, idle)

    def best(self, needs: str, *nodes: Neighbour, reserved: Sequence[str] = ()) -> str | None:
        return best_node("q", job(1, needs).handler, nodes, reserved)

    def test_none_while_it_fits_somewhere(self) -> None:
        full = self.node("a", "cpu=4", held("cpu=4"))
        assert self.best("cpu=4", full, self.node("b", "cpu=4")) is None
        assert self.best("cpu=4", full, self.node("b", "cpu=4", idle=False)) == "b"

    def test_none_if_it_fits_nowhere_ever(self) -> None:
        assert self.best("cpu=9", self.node("a", "cpu=4"), self.node("b", "mem=9G")) is None

    def test_where_fewest_have_to_end(self) -> None:
        a = self.node("a", "cpu=4", held("cpu=1", at=1), held("cpu=3", at=2))
        b = self.node("b", "cpu=4", held("cpu=4", at=9))
        assert self.best("cpu=4", a, b) == "b"
        assert self.best("cpu=1", a, b) == "a"

    def test_of_several_the_one_that_is_left_with_least(self) -> None:
        small, large = (
            self.node("b", "cpu=4", held("cpu=4")),
            self.node("a", "cpu=9", held("cpu=9")),
        )
        assert self.best("cpu=4", large, small) == "b"

    def test_one_that_keeps_room_for_another_doesnt_count(self) -> None:
        a, b = self.node("a", "cpu=4"), self.node("b", "cpu=4", held("cpu=4"))
        assert self.best("cpu=4", a, b, reserved=["a"]) == "b"


# -- many jobs on several nodes, with a clock of our own ------------------------------------------

NODES = {
    "a": "cpu=4,mem=8G,license=1",
    "b": "cpu=8,mem=16G,gpu=2",
    "c": "cpu=16,mem=64G,gpu=4,license=2",
    "d": "cpu=12,mem=32G",
}


@dataclass(frozen=True)
class Work:
    needs: Needs
    lasts: int


def some_work(chance: random.Random, count: int) -> list[Work]:
    """Make jobs of random needs, and one that needs all of the largest node."""
    made = []
    for _ in range(count):
        needs: dict[str, object] = {"cpu": chance.choice([0.5, 1, 1, 1, 2, 2, 3, 4, 6, 8])}
        if chance.random() < 0.7:
            needs["mem"] = chance.choice(["512M", "1G", "2G", "4G", "8G"])
        if chance.random() < 0.2:
            needs["gpu"] = chance.choice([0.25, 0.5, 0.5, 1, 1, 2])
        if chance.random() < 0.05:
            needs["license"] = 1
        made.append(Work(Needs(read_needs(needs)), chance.randint(200, 1000)))
    made[count // 3] = Work(Needs(read_needs("cpu=16,mem=60G,gpu=4")), 800)
    return [
        one for one in made if any(could_hold(read_resources(r), one.needs) for r in NODES.values())
    ]


@dataclass
class Simulation:
    """Nodes that claim by the policy, or that always take the largest that fits."""

    work: Sequence[Work]
    best_fit: bool = False
    now: int = 0
    began: dict[int, int] = field(default_factory=dict)
    over: int = 0

    def run(self) -> "Simulation":
        self.resources = {id: read_resources(text) for id, text in NODES.items()}
        self.held: dict[str, list[tuple[int, Holding]]] = {id: [] for id in NODES}
        self.kept: dict[str, tuple[int, int]] = {}
        self.waiting = list(range(len(self.work)))
        due = [(0, 0, id) for id in NODES]
        while due:
            self.now, _, id = heapq.heappop(due)
            self.held[id] = [(end, one) for end, one in self.held[id] if end > self.now]
            for seq in self.turn(id):
                end = self.now + self.work[seq].lasts
                self.over = max(self.over, end)
                heapq.heappush(due, (end, seq, id))
        assert not self.waiting
        return self

    def stock(self, id: str) -> Stock:
        return Stock(self.resources[id], [one for end, one in self.held[id] if end > self.now])

    def turn(self, id: str) -> list[int]:
        line = [
            Candidate(0, seq, 0, 0, 0, handler=with_needs("", self.work[seq].needs))
            for seq in self.waiting
            if could_hold(self.resources[id], self.work[seq].needs)
        ]
        if self.best_fit:
            most = room_of(self.resources[id]).totals()
            line.sort(key=lambda one: -self.largest_share(one, most))
        mine = self.kept.get(id)
        if mine is not None and mine[0] not in self.waiting:
            mine = None
        line.sort(key=lambda one: mine is None or one.seq != mine[0]) if mine else None
        keeper = NodeKeeper(self.stock(id), self.now, may_keep=self.may_keep(id), reserved=mine)
        chosen = admit_limited(line, Offer(range(64)), self.now, {}, id, keeper).taken
        for one in chosen:
            needs = self.work[one.seq].needs
            held = Holding(self.now, needs, keeper.devices.get(one.seq, {}))
            self.held[id].append((self.now + self.work[one.seq].lasts, held))
            self.waiting.remove(one.seq)
            self.began[one.seq] = self.now
        room = self.stock(id).room()
        assert all(many >= 0 for many in room.amounts.values())
        assert all(left >= 0 for pool in room.devices.values() for left in pool.values())
        self.kept = {n: one for n, one in self.kept.items() if one[0] in self.waiting and n != id}
        if keeper.kept is not None:
            seq = keeper.kept.seq
            self.kept[id] = mine if mine and mine[0] == seq else (seq, self.now)
        return [one.seq for one in chosen]

    def largest_share(self, one: Candidate, most: dict[str, int]) -> float:
        needs = needs_of(one.handler)
        assert needs is not None
        return max(many / most[name] for name, many in needs.amounts)

    def may_keep(self, id: str):  # type: ignore[no-untyped-def]
        weighed = 0

        def may(one: Candidate, stock: Stock) -> bool:
            nonlocal weighed
            weighed += 1
            if weighed > MOST_WEIGHED:
                return False
            if self.best_fit or one.seq in {seq for seq, _ in self.kept.values()}:
                return False
            nodes = [
                Neighbour(
                    other,
                    Serving(resources=self.resources[other]),
                    stock if other == id else self.stock(other),
                    idle=True,
                )
                for other in NODES
            ]
            return best_node("q", one.handler, nodes, self.kept) == id

        return may


class TestSimulation:
    @settings(max_examples=5, deadline=None)
    @given(st.integers(0, 10**6))
    def test_nodes_are_used_well_and_nobody_starves(self, seed: int) -> None:
        work = some_work(random.Random(seed), 150)
        ours, best = Simulation(work).run(), Simulation(work, best_fit=True).run()
        assert best.over / ours.over >= 0.85
        largest = max(range(len(work)), key=lambda n: dict(work[n].needs.amounts)["cpu"])
        first = max((ours.began[n] for n in range(largest)), default=0)
        longest = max(one.lasts for one in work)
        assert ours.began[largest] - first <= 2 * longest

    def test_over_many_jobs_it_comes_near_to_best_fit(self) -> None:
        work = some_work(random.Random(1), 400)
        ours, best = Simulation(work).run(), Simulation(work, best_fit=True).run()
        assert best.over / ours.over >= 0.9
