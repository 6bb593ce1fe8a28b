"""Jobs of a graph that are alike as one box, so that a fan of 500 can be looked at.

Pure. Jobs are alike if they are in the same state and wait for the same, and if the same waits for
them, where jobs that are alike count as one; or if they stand in a row.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from queuectl.layering import in_layers
from queuectl.lineage import Blockage, Graph, Link, Node
from queuectl.values import dataclass

FEWEST = 5
"""So many that are alike become one box."""
ROUNDS = 20
"""How often jobs are told apart by those around them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A job of a graph, or several that are alike."""

    nodes: tuple[Node, ...]
    is_row: bool = False
    """Whether each of them waits for the one before it."""
    is_root: bool = False
    """Whether they are what others wait for in vain."""

    @property
    def first(self) -> Node:
        """The first of them."""
        return self.nodes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """That what is in one box waits for what is in another."""

    parent: int
    """The number of the box."""
    child: int
    wanted: str
    is_met: bool
    is_on_way: bool
    """Whether it leads from what is blocked to what keeps it."""
    many: int = 1
    """How many links it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A graph as boxes; ties lead from lower to higher numbers."""

    boxes: tuple[Box, ...]
    ties: tuple[Tie, ...]


def folded(graph: Graph, blockage: Blockage, *, apart: bool = False) -> Folded:
    """Put jobs that are alike into one box, unless each is to have its own."""
    return _Folding(graph, blockage).made(apart=apart)


class _Folding:
    def __init__(self, graph: Graph, blockage: Blockage) -> None:
        self._graph = graph
        self._blockage = blockage
        self._nodes = graph.nodes
        self._at = {node.id: at for at, node in enumerate(graph.nodes)}
        self._links = [(self._at[link.parent], self._at[link.child], link) for link in graph.links]

    def made(self, *, apart: bool) -> Folded:
        classes = list(range(len(self._nodes))) if apart else self._alike()
        folded = self._as_boxes(classes)
        return folded if apart else _rows_folded(folded, self._graph.id)

    def _kind(self, link: Link) -> tuple[str, bool, bool]:
        return link.wanted, link.is_met, (link.parent, link.child) in self._blockage.links

    def _alike(self) -> list[int]:
        """Return a class for each job: of those that aren't alike to enough others, its own."""
        layers = in_layers(len(self._nodes), [(one, other) for one, other, _ in self._links])
        kinds: list[Hashable] = [
            (layers[at], node.state, node.is_group, node.id in self._blockage.roots)
            if node.id != self._graph.id
            else at
            for at, node in enumerate(self._nodes)
        ]
        classes = _numbered(kinds)
        for _ in range(ROUNDS):
            # The few are known by themselves, and so are their neighbours by them.
            members = [0] * len(classes)
            for found in classes:
                members[found] += 1
            alone = [members[found] < FEWEST for found in classes]
            around: list[set[Hashable]] = [set() for _ in classes]
            for one, other, link in self._links:
                kind = self._kind(link)
                around[other].add((False, classes[one], one if alone[one] else -1, *kind))
                around[one].add((True, classes[other], other if alone[other] else -1, *kind))
            fresh = _numbered(
                [
                    (classes[at], at if alone[at] else -1, frozenset(around[at]))
                    for at in range(len(classes))
                ]
            )
            if max(fresh, default=0) == max(classes, default=0):
                break
            classes = fresh
        return _with_few_apart(classes)

    def _as_boxes(self, classes: Sequence[int]) -> Folded:
        members: dict[int, list[Node]] = defaultdict(list)
        for node, found in zip(self._nodes, classes, strict=True):
            members[found].append(node)
        layers = in_layers(len(self._nodes), [(one, other) for one, other, _ in self._links])
        # Those of a class are in one layer, and links lead to later layers.
        first: dict[int, int] = {}
        for at, found in enumerate(classes):
            first.setdefault(found, at)
        order = sorted(members, key=lambda found: (layers[first[found]], first[found]))
        numbers = {found: at for at, found in enumerate(order)}
        ties: dict[tuple[int, int, str, bool, bool], int] = defaultdict(int)
        for one, other, link in self._links:
            ties[numbers[classes[one]], numbers[classes[other]], *self._kind(link)] += 1
        return Folded(
            boxes=tuple(
                Box(
                    nodes=tuple(members[found]),
                    is_root=members[found][0].id in self._blockage.roots,
                )
                for found in order
            ),
            ties=tuple(
                Tie(parent=one, child=other, wanted=wanted, is_met=met, is_on_way=way, many=many)
                for (one, other, wanted, met, way), many in ties.items()
            ),
        )


def _numbered(kinds: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(kind, len(numbers)) for kind in kinds]


def _with_few_apart(classes: Sequence[int]) -> list[int]:
    members = [0] * len(classes)
    for found in classes:
        members[found] += 1
    kinds: list[Hashable] = [
        ("alone", at) if members[found] < FEWEST else ("alike", found)
        for at, found in enumerate(classes)
    ]
    return _numbered(kinds)


def _rows_folded(folded: Folded, id: str) -> Folded:
    """Put jobs in a row that are alike into one box."""
    into: dict[int, int] = {}
    for row in _rows(folded, id):
        into |= dict.fromkeys(row, row[0])
    if not into:
        return folded
    inside: dict[int, list[Node]] = defaultdict(list)
    for at, box in enumerate(folded.boxes):
        inside[into.get(at, at)] += box.nodes
    # The first of a row comes before all that follows any of it.
    numbers = {at: number for number, at in enumerate(inside)}

    def number(at: int) -> int:
        return numbers[into.get(at, at)]

    boxes = tuple(
        Box(nodes=tuple(nodes), is_row=at in into, is_root=folded.boxes[at].is_root)
        for at, nodes in inside.items()
    )
    ties = tuple(
        Tie(
            parent=number(tie.parent),
            child=number(tie.child),
            wanted=tie.wanted,
            is_met=tie.is_met,
            is_on_way=tie.is_on_way,
            many=tie.many,
        )
        for tie in folded.ties
        if number(tie.parent) != number(tie.child)
    )
    return Folded(boxes=boxes, ties=ties)


def _rows(folded: Folded, id: str) -> Iterator[list[int]]:
    """Yield rows of jobs that are alike, each with one that it waits for and one that waits."""
    before: list[list[Tie]] = [[] for _ in folded.boxes]
    behind: list[list[Tie]] = [[] for _ in folded.boxes]
    for tie in folded.ties:
        behind[tie.parent].append(tie)
        before[tie.child].append(tie)

    def kind(at: int) -> Hashable:
        box = folded.boxes[at]
        is_one = len(box.nodes) == len(before[at]) == len(behind[at]) == 1
        return (box.first.state, box.is_root) if is_one and box.first.id != id else None

    seen: set[int] = set()
    for at in range(len(folded.boxes)):
        if at in seen or kind(at) is None:
            continue
        row = [at]
        (tie,) = behind[at]
        inside = _like(tie)
        while kind(tie.child) == kind(at) and _like(tie) == inside:
            row.append(tie.child)
            (tie,) = behind[tie.child]
        seen.update(row)
        if len(row) >= FEWEST:
            yield row


def _like(tie: Tie) -> Hashable:
    return tie.wanted, tie.is_met, tie.is_on_way
