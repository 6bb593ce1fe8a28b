"""Graphs of jobs as text: a tree for people, DOT for Graphviz, Mermaid for pages.

Pure: what is in a graph goes in, lines come out. Ids and commands may hold anything.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from queuectl.job import State
from queuectl.lineage import Blockage, Graph, Link, Node, blockage

_COLOURS = {
    State.BLOCKED: ("#f3e8ff", "#7e22ce"),
    State.PENDING: ("#fef9c3", "#a16207"),
    State.PROCESSING: ("#cffafe", "#0e7490"),
    State.COMPLETED: ("#dcfce7", "#15803d"),
    State.FAILED: ("#fae8ff", "#a21caf"),
    State.DEAD: ("#fee2e2", "#b91c1c"),
    State.CANCELLED: ("#f1f5f9", "#475569"),
    None: ("#ffffff", "#94a3b8"),
}
"""The colours in which states are drawn: what is inside, and the border."""
LONGEST_LABEL = 60
ROOT_CAUSE = "root cause"
"""What is said of a job for which others wait in vain."""
DEEPEST = 20
"""Levels of a tree that are indented: a chain of thousands would be gigabytes of indentation."""


class Line(NamedTuple):
    """A line of a tree."""

    branch: str
    """The lines that lead to a job from those above it, or where that is too deep, its level."""
    level: int
    """Below how many others it stands."""
    node: Node
    wanted: str
    """How the job above it has to end, if that isn't `ok`."""
    is_again: bool
    """Whether it stands elsewhere with what waits for it, and is only named here."""
    is_below: bool = False
    """Whether that is further down."""

    @property
    def where(self) -> str:
        """Say where it stands with what waits for it, if that isn't here."""
        return "" if not self.is_again else "(see below)" if self.is_below else "(see above)"


def tree(graph: Graph, found: Blockage | None = None) -> Iterator[Line]:
    """Yield the lines of a tree: each job stands below one that it waits for.

    One that waits for several stands below the first of them, and is only named below the others;
    one that waits in vain stands below the first that is on the way to a root cause. Below the
    20th level they aren't indented further, but have their level before them.
    """
    ways = frozenset[tuple[str, str]]() if found is None else found.links
    in_vain = {child for _, child in ways}
    nodes = {node.id: node for node in graph.nodes}
    below: dict[str, list[Link]] = defaultdict(list)
    for link in graph.links:
        below[link.parent].append(link)
    waiting = {link.child for link in graph.links}
    # From the last to the first, as what is put there last is taken first.
    left = [("", "", 0, node, "", True) for node in reversed(graph.nodes) if node.id not in waiting]
    seen: set[str] = set()
    while left:
        branch, under, level, node, wanted, is_place = left.pop()
        is_below = not is_place and node.id not in seen
        is_again = is_below or node.id in seen
        yield Line(branch, level, node, wanted, is_again, is_below)
        if is_again:
            continue
        seen.add(node.id)
        links = below[node.id]
        level += 1
        is_deep = level > DEEPEST
        for link in reversed(links):
            is_last = link is links[-1]
            left.append(
                (
                    under + (f"({level}) " if is_deep else "└─ " if is_last else "├─ "),
                    under + ("" if is_deep else "   " if is_last else "│  "),
                    level,
                    nodes[link.child],
                    "" if link.wanted == "ok" else link.wanted,
                    link.child not in in_vain or (link.parent, link.child) in ways,
                )
            )


def dot(graph: Graph) -> Iterator[str]:
    """Yield the lines of a graph in the language of Graphviz."""
    names = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    roots = blockage(graph).roots
    yield "digraph jobs {"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif"];'
    for node in graph.nodes:
        fill, border = _COLOURS[node.state]
        label = "\\n".join(_dot_escaped(text) for text in _label(node, roots))
        width = ", penwidth=3" if node.id == graph.id else ""
        yield (
            f'  {names[node.id]} [label="{label}", fillcolor="{fill}", color="{border}"{width}];'
        )
    for link in graph.links:
        label = "" if link.wanted == "ok" else f'label="{link.wanted}", '
        style = "solid" if link.is_met else "dashed"
        yield f"  {names[link.parent]} -> {names[link.child]} [{label}style={style}];"
    yield "}"


def _dot_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def mermaid(graph: Graph) -> Iterator[str]:
    """Yield the lines of a graph in the language of Mermaid."""
    names = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    roots = blockage(graph).roots
    yield "flowchart TD"
    for node in graph.nodes:
        label = "<br/>".join(_mermaid_escaped(text) for text in _label(node, roots))
        yield f'  {names[node.id]}["{label}"]:::{_class(node)}'
    for link in graph.links:
        arrow = "-->" if link.is_met else "-.->"
        label = "" if link.wanted == "ok" else f"|{link.wanted}|"
        yield f"  {names[link.parent]} {arrow}{label} {names[link.child]}"
    for state in dict.fromkeys(node.state for node in graph.nodes):
        fill, border = _COLOURS[state]
        yield f"  classDef {state or 'gone'} fill:{fill},stroke:{border},color:#0f172a"
    if graph.id in names:
        yield f"  style {names[graph.id]} stroke-width:3px"


def _class(node: Node) -> str:
    return str(node.state or "gone")


def _mermaid_escaped(text: str) -> str:
    """Write text as entities, but for what can be nothing else than itself."""
    return re.sub(r"[^\w .,/=+*@-]", lambda found: f"#{ord(found[0])};", text)


def _label(node: Node, roots: Collection[str]) -> list[str]:
    """Return what is written into the box of a job."""
    title = " ".join(
        "".join(c if c.isprintable() else " " for c in node.titled(LONGEST_LABEL)).split()
    )
    if len(title) > LONGEST_LABEL:
        title = f"{title[: LONGEST_LABEL - 3]}..."
    state = "open" if node.is_group and node.state is None else str(node.state or "gone")
    mark = ROOT_CAUSE if node.id in roots else ""
    return [text for text in (node.id, title, state, mark) if text]
