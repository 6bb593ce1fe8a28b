"""Graphs as text: every job once, every link, and nothing that an id or command can break."""

import re

from hypothesis import given
from hypothesis import strategies as st

from queuectl.drawing import DEEPEST, dot, mermaid, tree
from queuectl.job import State
from queuectl.lineage import Graph, Link, Node, blockage
from queuectl.values import replace


def a_graph(*links: str, **titles: str) -> Graph:
    """Make a graph of links such as `a b` or `a b any`, in the order of their jobs."""
    pairs = [text.split() for text in links]
    names = dict.fromkeys(name for pair in pairs for name in pair[:2])
    nodes = [Node(id=name, state=State.PENDING, title=titles.get(name, name)) for name in names]
    made = [
        Link(parent=a, child=b, wanted=more[0] if more else "ok", came_to=None, is_met=False)
        for a, b, *more in pairs
    ]
    return Graph(id=nodes[0].id, nodes=tuple(nodes), links=tuple(made))


def in_states(graph: Graph, **states: State) -> Graph:
    """Return a graph in which some jobs are in other states, and the others are blocked."""
    nodes = [replace(node, state=states.get(node.id, State.BLOCKED)) for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def lines(graph: Graph) -> list[str]:
    return [
        f"{line.branch}{line.node.id}{' ' + line.wanted if line.wanted else ''}"
        f"{' again' if line.is_again else ''}"
        for line in tree(graph)
    ]


class TestTree:
    def test_jobs_stand_below_those_that_they_wait_for(self) -> None:
        assert lines(a_graph("a b", "a c any", "b d", "c d", "d e", "x d")) == [
            "a",
            "├─ b",
            "│  └─ d",
            "│     └─ e",
            "└─ c any",
            "   └─ d again",
            "x",
            "└─ d again",
        ]

    def test_one_job_alone_is_a_line(self) -> None:
        assert lines(Graph(id="a", nodes=(Node(id="a", state=None),), links=())) == ["a"]

    def test_a_deep_chain_needs_no_deep_stack(self) -> None:
        graph = a_graph(*(f"n{at} n{at + 1}" for at in range(3_000)))
        found = list(tree(graph))
        assert [line.level for line in found] == list(range(3_001))
        assert max(len(line.branch) for line in found) == 3 * DEEPEST + len("(3000) ")

    def test_what_stands_too_deep_has_its_level_in_place_of_more_indentation(self) -> None:
        deep = [f"n{at:02} n{at + 1:02}" for at in range(DEEPEST + 1)]
        found = lines(a_graph(*deep, f"n{DEEPEST - 1} x", f"n{DEEPEST} y any"))
        room = "   " * (DEEPEST - 1)
        assert found[DEEPEST - 1 :] == [
            f"{room[3:]}└─ n19",
            f"{room}├─ n20",
            f"{room}│  (21) n21",
            f"{room}│  (21) y any",
            f"{room}└─ x",
        ]

    def test_what_waits_in_vain_stands_below_the_root_cause(self) -> None:
        graph = a_graph("r a", "r b", "a c", "b c", "c d", "a e", "b e", "x d")
        graph = in_states(graph, r=State.COMPLETED, a=State.PENDING, b=State.DEAD)
        found = blockage(graph)
        assert found.roots == {"b"}
        assert [f"{line.branch}{line.node.id} {line.where}" for line in tree(graph, found)] == [
            "r ",
            "├─ a ",
            "│  ├─ c (see below)",
            "│  └─ e (see below)",
            "└─ b ",
            "   ├─ c ",
            "   │  └─ d ",
            "   └─ e ",
            "x ",
            "└─ d (see above)",
        ]

    @given(
        st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), unique=True),
        st.lists(st.sampled_from([State.DEAD, State.BLOCKED]), min_size=8, max_size=8),
        st.none() | st.integers(0, 7),
    )
    def test_every_job_stands_there_once_whatever_waits_in_vain(
        self, pairs: list[tuple[int, int]], states: list[State], of: int | None
    ) -> None:
        links = sorted({(a, b) for a, b in pairs if a < b})
        if not links:
            return
        graph = a_graph(*(f"j{a} j{b}" for a, b in links))
        # Each stands after those that it waits for.
        nodes = sorted(graph.nodes, key=lambda node: node.id)
        graph = in_states(
            replace(graph, nodes=tuple(nodes)), **{f"j{n}": one for n, one in enumerate(states)}
        )
        found = list(tree(graph, blockage(graph, None if of is None else f"j{of}")))
        whole = [line.node.id for line in found if not line.is_again]
        assert sorted(whole) == [node.id for node in nodes]
        assert sum(1 for line in found if line.branch) == len(links)
        # What is said to be above or below is.
        for at, line in enumerate(found):
            place = next(
                n
                for n, other in enumerate(found)
                if other.node.id == line.node.id and not other.is_again
            )
            assert line.where == (
                "" if place == at else f"(see {'above' if place < at else 'below'})"
            )

    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), unique=True))
    def test_every_job_stands_there_once_and_every_link(self, pairs: list[tuple[int, int]]) -> None:
        links = sorted({(a, b) for a, b in pairs if a < b})
        if not links:
            return
        graph = a_graph(*(f"j{a} j{b}" for a, b in links))
        found = list(tree(graph))
        whole = [line.node.id for line in found if not line.is_again]
        assert sorted(whole) == sorted(node.id for node in graph.nodes)
        assert sum(1 for line in found if line.branch) == len(links)


ODD = 'a"b\\c<d>|{e}[f]#g;`$&\u2028\N{SNOWMAN}%%--> end'


class TestLanguages:
    def test_dot(self) -> None:
        graph = a_graph("a b any", "b c", a=ODD)
        told = "\n".join(dot(graph))
        assert told.startswith("digraph jobs {\n")
        assert told.endswith("\n}")
        assert 'n0 -> n1 [label="any", style=dashed];' in told
        # Every label is one string: outside of them nothing of the job is left.
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", told)
        assert "SNOWMAN" not in outside
        assert "\N{SNOWMAN}" in told
        assert "\N{SNOWMAN}" not in outside
        assert '"' not in outside

    def test_mermaid(self) -> None:
        graph = a_graph("a b any", "b c", a=ODD)
        told = list(mermaid(graph))
        assert told[0] == "flowchart TD"
        assert "  n0 -.->|any| n1" in told
        (label,) = (line for line in told if line.startswith("  n0["))
        text = re.fullmatch(r'  n0\["(.*)"\]:::pending', label)
        assert text is not None
        for harmful in '"\\<>|{}[]`$&':
            assert harmful not in text[1].replace("<br/>", "")

    def test_root_causes_are_marked(self) -> None:
        graph = in_states(a_graph("a b", "b c", a="run"), a=State.DEAD)
        assert sum("root cause" in line for line in dot(graph)) == 1
        assert 'label="a\\nrun\\ndead\\nroot cause"' in "\n".join(dot(graph))
        assert '  n0["a<br/>run<br/>dead<br/>root cause"]:::dead' in list(mermaid(graph))

    def test_what_a_job_has_to_itself_stays_in_a_box(self) -> None:
        node = Node(id="a", state=None, title="x" * 99, own="seed=3")
        told = list(mermaid(Graph(id="", nodes=(node,), links=())))
        assert f'["a<br/>{"x" * 48}... #91;seed=3#93;<br/>gone"]' in told[1]

    @given(st.text(max_size=80))
    def test_whatever_a_command_is_each_job_has_one_line(self, title: str) -> None:
        graph = a_graph("a b", a=title)
        for told in (list(dot(graph)), list(mermaid(graph))):
            assert all("\n" not in line and "\r" not in line for line in told)
            assert sum(line.startswith(("  n0 [", "  n0[")) for line in told) == 1
