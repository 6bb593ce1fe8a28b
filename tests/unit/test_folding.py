"""Jobs that are alike as one box: nobody is lost, nothing is told that isn't so."""

from hypothesis import given
from hypothesis import strategies as st

from queuectl.folding import FEWEST, Folded, folded
from queuectl.job import State
from queuectl.lineage import Graph, Link, Node, blockage

STATES = (State.COMPLETED, State.DEAD, State.BLOCKED)


def a_graph(states: dict[str, State], *links: str, id: str = "") -> Graph:
    """Make a graph of links such as `a b` or `a b any`, whose jobs are in these states."""
    nodes = tuple(Node(id=name, state=state, title=name) for name, state in states.items())
    made = []
    for text in links:
        parent, child, *more = text.split()
        met = states[parent] == State.COMPLETED
        wanted = more[0] if more else "ok"
        made.append(Link(parent=parent, child=child, wanted=wanted, came_to=None, is_met=met))
    return Graph(id=id, nodes=nodes, links=tuple(made))


def fold(graph: Graph, *, apart: bool = False) -> Folded:
    return folded(graph, blockage(graph), apart=apart)


def boxes(found: Folded) -> list[str]:
    """Write boxes as their ids, or how many there are and the first of them."""
    return [
        box.first.id
        if len(box.nodes) == 1
        else f"{len(box.nodes)} {'in a row' if box.is_row else 'like'} {box.first.id}"
        for box in found.boxes
    ]


def ties(found: Folded) -> list[tuple[str, str, int]]:
    names = boxes(found)
    return [(names[tie.parent], names[tie.child], tie.many) for tie in found.ties]


def a_fan(many: int, state: State = State.COMPLETED) -> Graph:
    names = [f"k{at}" for at in range(many)]
    return a_graph(
        {"a": State.COMPLETED, **dict.fromkeys(names, state), "z": State.BLOCKED},
        *(f"a {name}" for name in names),
        *(f"{name} z" for name in names),
    )


def test_a_fan_of_alike_jobs_is_one_box() -> None:
    found = fold(a_fan(500))
    assert boxes(found) == ["a", "500 like k0", "z"]
    assert ties(found) == [("a", "500 like k0", 500), ("500 like k0", "z", 500)]


def test_few_stay_apart_and_all_do_if_asked() -> None:
    assert len(fold(a_fan(FEWEST - 1)).boxes) == FEWEST + 1
    assert len(fold(a_fan(FEWEST)).boxes) == 3
    assert len(fold(a_fan(50), apart=True).boxes) == 52


def test_those_in_another_state_stand_by_themselves() -> None:
    graph = a_fan(100)
    nodes = list(graph.nodes)
    nodes[7] = Node(id="k6", state=State.PROCESSING)
    found = fold(Graph(id="a", nodes=tuple(nodes), links=graph.links))
    assert sorted(boxes(found)) == ["99 like k0", "a", "k6", "z"]


def test_the_job_that_it_is_about_is_never_one_of_many() -> None:
    graph = a_fan(100)
    found = fold(Graph(id="k50", nodes=graph.nodes, links=graph.links))
    assert sorted(boxes(found)) == ["99 like k0", "a", "k50", "z"]


def test_chains_side_by_side_are_one() -> None:
    states = dict.fromkeys(["r", *(f"{x}{at}" for at in range(20) for x in "ab")], State.COMPLETED)
    links = [f"r a{at}" for at in range(20)] + [f"a{at} b{at}" for at in range(20)]
    found = fold(a_graph(states, *links))
    assert boxes(found) == ["r", "20 like a0", "20 like b0"]


def test_another_condition_is_another_kind() -> None:
    states = {"a": State.BLOCKED, **dict.fromkeys([f"k{at}" for at in range(12)], State.BLOCKED)}
    links = [f"a k{at}{' any' if at % 2 else ''}" for at in range(12)]
    assert boxes(fold(a_graph(states, *links))) == ["a", "6 like k0", "6 like k1"]


def test_a_chain_of_a_thousand_is_a_row() -> None:
    states = {f"n{at}": State.BLOCKED if at else State.DEAD for at in range(1_000)}
    graph = a_graph(states, *(f"n{at} n{at + 1}" for at in range(999)), id="n999")
    found = fold(graph)
    assert boxes(found) == ["n0", "998 in a row n1", "n999"]
    assert [box.is_root for box in found.boxes] == [True, False, False]
    assert all(tie.is_on_way for tie in found.ties)


def test_jobs_of_a_group_without_links_are_one_box() -> None:
    assert boxes(fold(a_graph(dict.fromkeys(map(str, range(1_000)), State.COMPLETED)))) == [
        "1000 like 0"
    ]


@given(
    st.lists(st.sampled_from(STATES), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), unique=True, max_size=80),
    st.integers(-1, 39),
)
def test_nobody_is_lost_and_links_lead_where_they_did(
    states: list[State], pairs: list[tuple[int, int]], about: int
) -> None:
    names = {f"n{at}": state for at, state in enumerate(states)}
    links = {f"n{a} n{b}" for a, b in pairs if a < b < len(states)}
    graph = a_graph(names, *sorted(links), id=f"n{about}")
    found = fold(graph)
    inside = [node.id for box in found.boxes for node in box.nodes]
    assert sorted(inside) == sorted(names)
    of = {node.id: at for at, box in enumerate(found.boxes) for node in box.nodes}
    told = {(tie.parent, tie.child) for tie in found.ties}
    meant = {(of[link.parent], of[link.child]) for link in graph.links}
    assert told == {(one, other) for one, other in meant if one != other}
    assert all(tie.parent < tie.child for tie in found.ties)
    inner = sum(of[link.parent] == of[link.child] for link in graph.links)
    assert sum(tie.many for tie in found.ties) == len(graph.links) - inner
    for box in found.boxes:
        assert len({node.state for node in box.nodes}) == 1
        assert len(box.nodes) == 1 or (len(box.nodes) >= FEWEST and f"n{about}" != box.first.id)
