"""The drawing of a graph: where lines end, what is left out, and what boxes have room for."""

import re
from itertools import combinations
from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.folding import folded
from queuectl.job import State
from queuectl.lineage import Graph, Link, Node, blockage
from queuectl.web.pages import sketch as drawing
from queuectl.web.pages.sketch import HEIGHT, SIGNS, WIDTH, Sketch, path_of, sketch, state_of
from queuectl.web.pages.words import cut


def drawn(graph: Graph) -> Sketch:
    return sketch(folded(graph, blockage(graph), apart=True), graph.id, "/apart")


def a_graph(count: int, links: list[tuple[int, int, str]], id: str = "n0") -> Graph:
    return Graph(
        id=id,
        nodes=tuple(Node(id=f"n{at}", state=State.PENDING) for at in range(count)),
        links=tuple(
            Link(parent=f"n{a}", child=f"n{b}", wanted=wanted, came_to=None, is_met=False)
            for a, b, wanted in links
        ),
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(1, 9), st.sampled_from(["ok", "fail", "any"])),
        unique_by=lambda it: it[:2],
        max_size=25,
    )
)
def test_lines_lead_from_box_to_box_and_boxes_stand_apart(
    pairs: list[tuple[int, int, str]],
) -> None:
    links = [it for it in pairs if it[0] < it[1]]
    found = drawn(a_graph(10, links))
    assert len(found.lines) == len(links)
    begins = {(box.x + WIDTH, box.y + HEIGHT / 2) for box in found.boxes}
    ends = {(port.x - 2, port.y) for port in found.ports}
    for line in found.lines:
        numbers = [float(one) for one in re.findall(r"-?[\d.]+", line.path)]
        assert (numbers[0], numbers[1]) in begins
        assert line.path.endswith(tuple(f"H{x}" for x, _ in ends))
    for port in found.ports:
        assert any(box.x == port.x and box.y < port.y < box.y + HEIGHT for box in found.boxes), port
    assert len({(port.x, port.y) for port in found.ports}) == len(found.ports)
    for one, other in combinations(found.boxes, 2):
        assert abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT
    for box in found.boxes:
        assert 0 <= box.x <= found.width - WIDTH
        assert 0 <= box.y <= found.height - HEIGHT


def test_of_too_many_lines_it_is_said_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MOST_LINES", 2)
    found = drawn(a_graph(4, [(0, 1, "ok"), (0, 2, "ok"), (0, 3, "ok")]))
    assert (len(found.lines), found.left_out) == (2, 1)


def test_a_change_of_state_changes_no_frame_and_another_job_does() -> None:
    links = [(0, 1, "ok"), (1, 2, "any")]
    graph = a_graph(3, links)
    nodes = (Node(id="n0", state=State.COMPLETED), *graph.nodes[1:])
    later = Graph(id="n0", nodes=nodes, links=graph.links)
    assert drawn(graph).frame == drawn(later).frame
    assert drawn(graph).frame != drawn(a_graph(4, links)).frame
    assert drawn(graph).frame != drawn(a_graph(3, [(0, 1, "ok"), (1, 2, "ok")])).frame


def test_each_state_has_a_sign_of_its_own() -> None:
    states = {*(str(state) for state in State), "open", "gone"}
    assert states == SIGNS.keys()
    assert len(set(SIGNS.values())) == len(SIGNS)


def test_where_boxes_lead() -> None:
    assert path_of(Node(id="a/b", state=State.DEAD)) == "/jobs/a%2Fb"
    assert path_of(Node(id="gone", state=None)) == ""
    group = Node(id="group a b", state=None, is_group=True)
    assert (path_of(group), state_of(group)) == ("/groups/a%20b/graph", "open")
    assert path_of(Node(id="group ..", state=None, is_group=True)) == "/jobs?group=.."


@given(st.text(max_size=60), st.integers(2, 20))
def test_what_is_cut_fits_on_one_line(text: str, columns: int) -> None:
    found = cut(text, columns)
    assert found == "" or found.isprintable()
    wide = sum(2 if east_asian_width(one) in "WF" else 1 for one in found)
    assert wide <= columns


def test_what_fits_is_not_cut() -> None:
    assert cut("python  train.py\n", 15) == "python train.py"
    assert cut("python train.py", 14) == "python train.…"
    assert cut("日本語", 6) == "日本語"
    assert cut("日本語", 5) == "日本…"
    assert cut("x" + " " * 500 + "y", 10) == "x…"
