"""What of a graph waits in vain: the same as is found in the store."""

from queuectl import relatives
from queuectl.job import State
from queuectl.lineage import Graph, Link, Node, blockage
from tests.support import Lab


def a_graph(states: dict[str, State | None], *links: tuple[str, str, State | None, bool]) -> Graph:
    return Graph(
        id="",
        nodes=tuple(Node(id=name, state=state) for name, state in states.items()),
        links=tuple(
            Link(parent=one, child=other, wanted="ok", came_to=came_to, is_met=met)
            for one, other, came_to, met in links
        ),
    )


STUCK = a_graph(
    {
        "dead": State.DEAD,
        "slow": State.PROCESSING,
        "next": State.BLOCKED,
        "last": State.BLOCKED,
        "other": State.BLOCKED,
        "done": State.COMPLETED,
    },
    ("dead", "next", State.DEAD, False),
    ("slow", "next", None, False),
    ("next", "last", None, False),
    ("slow", "other", None, False),
    ("dead", "done", State.DEAD, True),
)


def test_ways_lead_from_what_is_blocked_to_what_is_dead() -> None:
    found = blockage(STUCK)
    assert found.roots == {"dead"}
    assert found.links == {("dead", "next"), ("next", "last")}


def test_of_one_job_it_is_its_own_way() -> None:
    assert blockage(STUCK, "next").links == {("dead", "next")}
    assert blockage(STUCK, "next").roots == {"dead"}
    # One that doesn't wait in vain is no reason to say less.
    assert blockage(STUCK, "dead").links == blockage(STUCK).links


def test_what_took_others_along_is_a_root_cause_too() -> None:
    jobs = {
        "dead": (State.DEAD, None),
        "child": (State.CANCELLED, "its parent dead is dead"),
        "next": (State.CANCELLED, "its parent child was cancelled"),
        "off": (State.CANCELLED, "cancelled by somebody"),
        "behind": (State.CANCELLED, "its parent off was cancelled"),
    }
    pairs = [("dead", "child"), ("child", "next"), ("dead", "off"), ("off", "behind")]
    graph = Graph(
        id="",
        nodes=tuple(Node(id=id, state=state, reason=why) for id, (state, why) in jobs.items()),
        links=tuple(
            Link(parent=one, child=other, wanted="ok", came_to=jobs[one][0], is_met=False)
            for one, other in pairs
        ),
    )
    found = blockage(graph)
    assert found.roots == {"dead"}
    assert found.links == {("dead", "child"), ("child", "next")}


def test_what_is_gone_counts_as_what_it_was() -> None:
    gone = a_graph({"x": None, "y": State.BLOCKED}, ("x", "y", State.DEAD, False))
    assert blockage(gone).roots == {"x"}
    unseen = a_graph({"x": None, "y": State.BLOCKED}, ("x", "y", None, False))
    assert blockage(unseen).roots == frozenset()


def test_it_is_what_the_store_says(lab: Lab) -> None:
    lab.queue.enqueue_many(
        [
            {"id": "a", "command": "exit 3", "max_retries": 0},
            {"id": "b", "command": "true", "after": "a"},
            {"id": "c", "command": "true", "delay": "1d"},
            {"id": "d", "command": "true", "after": ["b", "c"]},
            {"id": "e", "command": "true", "after": "a:fail"},
        ]
    )
    lab.node()
    lab.wait_state("e", State.COMPLETED)
    graph = lab.queue.graph_of("d")
    found = relatives.roots(lab.queue.store, [lab.queue.get("d")])
    assert {root.id for root in found.stuck} == blockage(graph, "d").roots == {"a"}
    assert blockage(graph, "d").links == {("a", "b"), ("b", "d")}
    lab.queue.retry("a", changed={"command": "true"})
    assert blockage(lab.queue.graph_of("d"), "d").roots == frozenset()
