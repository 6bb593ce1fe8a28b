"""The drawing of a graph: boxes, lines and their words, measured for SVG.

How it looks in which colours is said by the style sheet, and by the template what is text.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from queuectl.folding import Box, Folded, Tie
from queuectl.layering import Layout, laid_out
from queuectl.lineage import Node
from queuectl.values import dataclass
from queuectl.web.pages.words import cut, part, query

WIDTH, HEIGHT = 208, 58
"""Of a box."""
ROW, STEP = 80, WIDTH + 84
"""From one box to the next, down and to the right."""
MARGIN = 14
COLUMNS = 26
"""Letters that a line in a box has room for."""
TIMES = "\N{MULTIPLICATION SIGN}"
MOST_LINES = 3_000
"""Lines that are drawn; of more it is said how many there are."""
MOST_TOLD = 300
"""Lines that say in words what they are; of more, the tree below does."""
CONDITIONS = ("ok", "fail", "any")
WANTED = {"ok": "complete", "fail": "fail", "any": "end, however"}
"""What the one that is waited for has to do."""

SIGNS = {
    "completed": "M2 7.5L5.5 11L12 3.5",
    "dead": "M3 3L11 11M11 3L3 11",
    "processing": "M4 2.5L11.5 7L4 11.5Z",
    "pending": "M7 2A5 5 0 1 1 7 12A5 5 0 1 1 7 2Z",
    "blocked": "M4.5 2.5V11.5M9.5 2.5V11.5",
    "failed": "M7 2V8.2M7 11V11.6",
    "cancelled": "M7 2A5 5 0 1 1 7 12A5 5 0 1 1 7 2ZM3.5 10.5L10.5 3.5",
    "open": "M3 7H3.1M7 7H7.1M11 7H11.1",
    "gone": "M2 7H4M6 7H8M10 7H12",
}
"""What is drawn for a state, in a square of 14."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A box of the drawing."""

    key: str
    x: int
    y: int
    path: str
    """The page that it leads to; nothing if there is none."""
    state: str
    heading: str
    """Its state, or how many of them there are."""
    title: str
    name: str
    about: str
    """All of it in words."""
    is_here: bool
    is_root: bool
    is_many: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line from one box to another."""

    key: str
    path: str
    kind: str
    about: str
    """What it says; nothing if there are very many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """Where lines of one condition come to a box."""

    key: str
    x: int
    y: float
    condition: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A whole drawing."""

    width: int
    height: int
    boxes: tuple[Drawn, ...]
    lines: tuple[Line, ...]
    ports: tuple[Port, ...]
    start: str
    """The box at which one looks first: that of the job, of a root cause, or the first."""
    start_said: str
    frame: str
    """What doesn't change as long as only states do."""
    left_out: int
    """Lines that aren't drawn."""


def sketch(folded: Folded, about: str, unfolded: str) -> Sketch:
    """Draw a graph that is about one of its jobs; what is folded leads to where it isn't."""
    # Ways to root causes are drawn whatever else isn't.
    ties = sorted(folded.ties, key=lambda tie: not tie.is_on_way)[:MOST_LINES]
    pairs = tuple(dict.fromkeys((tie.parent, tie.child) for tie in ties))
    layout = laid_out(len(folded.boxes), pairs)
    bends = dict(zip(pairs, layout.bends, strict=True))
    boxes = tuple(_box(at, box, layout, about, unfolded) for at, box in enumerate(folded.boxes))
    ports = tuple(_ports(ties, boxes))
    ends = {port.key: port for port in ports}
    lines = tuple(
        _line(
            tie,
            _way(tie, boxes, bends[tie.parent, tie.child], ends, layout),
            _tie_said(tie, boxes) if len(ties) <= MOST_TOLD else "",
        )
        for tie in ties
    )
    frame = [
        [(box.name, box.x, box.y) for box in boxes],
        [line.path for line in lines],
        [port.key for port in ports],
    ]
    start, start_said = _start(boxes)
    return Sketch(
        start=start,
        start_said=start_said,
        width=2 * MARGIN + max(layout.depth - 1, 0) * STEP + WIDTH,
        height=2 * MARGIN + round(layout.height * ROW),
        boxes=boxes,
        # What stands out is above the rest.
        lines=tuple(sorted(lines, key=lambda line: line.kind == "way")),
        ports=ports,
        frame=sha256(json.dumps(frame).encode()).hexdigest()[:16],
        left_out=len(folded.ties) - len(ties),
    )


def _start(boxes: Sequence[Drawn]) -> tuple[str, str]:
    """Return where one looks first, and what that is called."""
    for found, said in (
        ([box for box in boxes if box.is_here], "This job"),
        ([box for box in boxes if box.is_root], "Root cause"),
        (boxes, "Beginning"),
    ):
        if found:
            return found[0].key, said
    return "", ""


def state_of(node: Node) -> str:
    """Write the state of a node as all front ends do."""
    if node.state is None:
        return "open" if node.is_group else "gone"
    return str(node.state)


def path_of(node: Node) -> str:
    """Return the page that a node leads to; nothing if it has none."""
    if node.is_group:
        return path_of_group(node.id.removeprefix("group "))
    return "" if node.state is None else f"/jobs/{part(node.id)}"


def path_of_group(name: str) -> str:
    """Return where the graph of a group is, or its jobs if no path could name it."""
    return (
        f"/jobs{query({'group': name})}" if name in (".", "..") else f"/groups/{part(name)}/graph"
    )


def _box(at: int, box: Box, layout: Layout, about: str, unfolded: str) -> Drawn:
    node, state = box.first, state_of(box.first)
    many = len(box.nodes)
    name = node.id if many == 1 else f"{node.id} … {box.nodes[-1].id}"
    title = _title(box.nodes)
    return Drawn(
        key=f"b{at}",
        x=MARGIN + layout.layers[at] * STEP,
        y=MARGIN + round(layout.heights[at] * ROW - HEIGHT / 2),
        path=path_of(node) if many == 1 else unfolded,
        state=state,
        heading=state if many == 1 else f"{TIMES} {many:,} {state}",
        title=cut(node.titled(COLUMNS) if many == 1 else title, COLUMNS),
        name=cut(name, COLUMNS),
        about=_said(box, state),
        is_here=many == 1 and node.id == about,
        is_root=box.is_root,
        is_many=many > 1,
    )


def _title(nodes: Sequence[Node]) -> str:
    """Return what a node runs, or with what the first of several begins."""
    title = nodes[0].title
    return title if all(node.title == title for node in nodes) else f"{title}, and others"


def _said(box: Box, state: str) -> str:
    """Say in words what a box shows, and what it has no room for."""
    many, node = len(box.nodes), box.first
    root = (
        " Root cause: others wait for it in vain, or were cancelled for it." if box.is_root else ""
    )
    if many == 1:
        why = f" ({cut(node.reason, 200)})" if node.reason else ""
        return f"{cut(node.id, 200)}: {state}{why}. {cut(node.titled(200), 200)}{root}"
    how = ", each behind the one before it," if box.is_row else " that are alike"
    ends = f"{cut(node.id, 100)} to {cut(box.nodes[-1].id, 100)}"
    return f"{many:,} jobs{how} {state}: {ends}.{root}"


def _ports(ties: Sequence[Tie], boxes: Sequence[Drawn]) -> Iterable[Port]:
    """Yield the places where lines come to boxes, one for each condition."""
    coming: dict[int, dict[str, list[Tie]]] = defaultdict(lambda: defaultdict(list))
    for tie in ties:
        coming[tie.child][tie.wanted].append(tie)
    for child, by_condition in coming.items():
        known = [one for one in CONDITIONS if one in by_condition]
        for number, condition in enumerate(known, 1):
            yield Port(
                key=_port(child, condition),
                x=boxes[child].x,
                y=round(boxes[child].y + HEIGHT * number / (len(known) + 1), 1),
                condition=condition,
                kind=_kind(by_condition[condition]),
            )


def _port(child: int, condition: str) -> str:
    return f"p{child}-{condition}"


def _kind(ties: Sequence[Tie]) -> str:
    if any(tie.is_on_way for tie in ties):
        return "way"
    return "met" if all(tie.is_met for tie in ties) else "waits"


def _line(tie: Tie, path: str, about: str) -> Line:
    key = f"t{tie.parent}-{tie.child}-{tie.wanted}-{tie.is_met:d}{tie.is_on_way:d}"
    return Line(key=key, path=path, kind=_kind([tie]), about=about)


def _way(
    tie: Tie,
    boxes: Sequence[Drawn],
    bends: Sequence[float],
    ends: Mapping[str, Port],
    layout: Layout,
) -> str:
    """Return the way from one box to another, past those between them."""
    one, port = boxes[tie.parent], ends[_port(tie.child, tie.wanted)]
    x, y = float(one.x + WIDTH), one.y + HEIGHT / 2
    path = [f"M{x:g} {y:g}"]
    for layer, bend in enumerate(bends, layout.layers[tie.parent] + 1):
        left, down = MARGIN + layer * STEP, round(MARGIN + bend * ROW, 1)
        path += [_curve(x, y, left, down), f"H{left + WIDTH}"]
        x, y = left + WIDTH, down
    path += [_curve(x, y, port.x - 28, port.y), f"H{port.x - 2}"]
    return "".join(path)


def _curve(x: float, y: float, to_x: int, to_y: float) -> str:
    if y == to_y:
        return f"H{to_x}"
    middle = x + (to_x - x) / 2
    return f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x} {to_y:g}"


def _tie_said(tie: Tie, boxes: Sequence[Drawn]) -> str:
    one, other = boxes[tie.parent], boxes[tie.child]
    many = f" ({tie.many:,} links)" if tie.many > 1 else ""
    how = "it may run" if tie.is_met else "in vain" if tie.is_on_way else "not yet"
    return f"{other.name} waits for {one.name} to {WANTED[tie.wanted]}: {how}{many}"
