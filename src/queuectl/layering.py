"""Where the boxes of a drawn graph stand: in layers from left to right, behind what they follow.

Pure, and bounded: how long it takes grows with boxes and links, whatever they look like. Boxes are
known by their numbers, and links lead from lower to higher ones.
"""

import itertools
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from functools import lru_cache

from queuectl.values import dataclass

SWEEPS = 8
"""How many times layers are put in order by their neighbours."""
PASSES = 6
"""How many times boxes are moved towards their neighbours."""
BENDS = 4_000
"""Places in layers that links are led through, past the boxes there; others are drawn straight."""
THIN = 0.35
"""The room that a link takes in a layer, where a box takes 1."""

Links = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything stands."""

    layers: tuple[int, ...]
    """In which layer each box is."""
    heights: tuple[float, ...]
    """How far down its middle is, if a box takes 1."""
    bends: tuple[tuple[float, ...], ...]
    """How far down each link is in the layers between its ends; nothing if it is drawn straight."""
    depth: int
    """How many layers there are."""
    height: float
    """How much room the highest layer takes."""


@lru_cache(maxsize=32)
def laid_out(count: int, links: Links) -> Layout:
    """Put boxes into layers with few crossings of links.

    A graph of which only states have changed looks as it did before.
    """
    layers = in_layers(count, links)
    made = _Columns(layers, links)
    made.sweep()
    made.place()
    tops = [at - made.room(one) / 2 for one, at in enumerate(made.heights)]
    least = min(tops, default=0.0)
    heights = [at - least for at in made.heights]
    ends = [at + made.room(one) / 2 for one, at in enumerate(heights)]
    return Layout(
        layers=tuple(layers),
        heights=tuple(heights[:count]),
        bends=tuple(tuple(heights[one] for one in way) for way in made.ways),
        depth=max(layers, default=-1) + 1,
        height=max(ends, default=0.0),
    )


def in_layers(count: int, links: Iterable[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: one behind the last of those that it follows.

    What follows nothing stands before the first that follows it.
    """
    layers = [0] * count
    followed = [False] * count
    nearest = [-1] * count
    ordered = sorted(links)
    for before, behind in ordered:
        layers[behind] = max(layers[behind], layers[before] + 1)
        followed[behind] = True
    for before, behind in ordered:
        at = layers[behind] - 1
        nearest[before] = at if nearest[before] < 0 else min(nearest[before], at)
    return [
        near if not is_behind and near >= 0 else layer
        for layer, is_behind, near in zip(layers, followed, nearest, strict=True)
    ]


class _Columns:
    """Layers with all that stands in them: boxes, and links on their way past these.

    Links of one box go together as far as they can: there is one place for them in each layer.
    """

    def __init__(self, layers: Sequence[int], links: Links) -> None:
        self._boxes = len(layers)
        self._layer = list(layers)
        self.ways: list[list[int]] = [[] for _ in links]
        """The places that each link is led through."""
        self._before: list[list[int]] = [[] for _ in layers]
        self._behind: list[list[int]] = [[] for _ in layers]
        self._lead(links)
        self.columns: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
        for one, layer in enumerate(self._layer):
            self.columns[layer].append(one)
        self.heights = [0.0] * len(self._layer)

    def room(self, one: int) -> float:
        """Return how much room something takes."""
        return 1.0 if one < self._boxes else THIN

    def _lead(self, links: Links) -> None:
        """Lead links through the layers between their ends, the shortest first."""
        left = BENDS
        layers = self._layer
        length = {at: layers[behind] - layers[before] for at, (before, behind) in enumerate(links)}
        led: dict[tuple[int, int], int] = {}
        joined: set[tuple[int, int]] = set()
        for at in sorted(length, key=lambda at: (length[at], at)):
            before, behind = links[at]
            between = range(layers[before] + 1, layers[behind])
            fresh = sum((before, layer) not in led for layer in between)
            if fresh > left:
                continue
            left -= fresh
            last = before
            for layer in between:
                place = led.get((before, layer))
                if place is None:
                    place = led[before, layer] = len(layers)
                    layers.append(layer)
                    self._before.append([])
                    self._behind.append([])
                self.ways[at].append(place)
                self._join(last, place, joined)
                last = place
            self._join(last, behind, joined)

    def _join(self, one: int, other: int, joined: set[tuple[int, int]]) -> None:
        if (one, other) not in joined:
            joined.add((one, other))
            self._behind[one].append(other)
            self._before[other].append(one)

    # -- the order in each layer --------------------------------------------------------

    def sweep(self) -> None:
        """Put each layer in the order of its neighbours, to and fro; the best order stays."""
        best, fewest = [list(column) for column in self.columns], self.crossings()
        for sweep in range(SWEEPS):
            if not fewest:
                break
            is_there = sweep % 2 == 0
            columns = self.columns if is_there else self.columns[::-1]
            neighbours = self._before if is_there else self._behind
            for one, other in itertools.pairwise(columns):
                self._sort(other, neighbours, one)
            if (many := self.crossings()) < fewest:
                best, fewest = [list(column) for column in self.columns], many
        for column, ordered in zip(self.columns, best, strict=True):
            column[:] = ordered

    def _sort(
        self, column: list[int], neighbours: Sequence[Sequence[int]], fixed: Sequence[int]
    ) -> None:
        places = {one: at for at, one in enumerate(fixed)}
        stands = {one: at for at, one in enumerate(column)}

        def middle(one: int) -> tuple[float, int]:
            found = [places[other] for other in neighbours[one]]
            # What has no neighbours stays about where it is.
            return (sum(found) / len(found) if found else float(stands[one])), stands[one]

        column.sort(key=middle)

    def crossings(self) -> int:
        """Return how often links cross between layers."""
        many = 0
        for column, following in zip(self.columns, self.columns[1:], strict=False):
            places = {one: at for at, one in enumerate(following)}
            ends: list[int] = []
            for one in column:
                found = sorted(places[other] for other in self._behind[one])
                many += sum(len(ends) - bisect_right(ends, end) for end in found)
                for end in found:
                    insort(ends, end)
        return many

    # -- how far down -------------------------------------------------------------------

    def place(self) -> None:
        """Move everything towards the middle of its neighbours, as far as there is room."""
        for column in self.columns:
            for one, at in zip(column, self._offsets(column), strict=True):
                self.heights[one] = at
        for turn in range(PASSES):
            columns = self.columns if turn % 2 == 0 else self.columns[::-1]
            neighbours = self._before if turn % 2 == 0 else self._behind
            for column in columns:
                wanted = [self._middle(one, neighbours[one]) for one in column]
                for one, at in zip(column, self._apart(column, wanted), strict=True):
                    self.heights[one] = at

    def _middle(self, one: int, neighbours: Sequence[int]) -> float:
        if not neighbours:
            return self.heights[one]
        return sum(self.heights[other] for other in neighbours) / len(neighbours)

    def _offsets(self, column: Sequence[int]) -> list[float]:
        found, at = [], 0.0
        for one in column:
            found.append(at + self.room(one) / 2)
            at += self.room(one)
        return [place - at / 2 for place in found]

    def _apart(self, column: Sequence[int], wanted: Sequence[float]) -> list[float]:
        """Return the places nearest to those wanted, in their order, with room for each."""
        offsets = self._offsets(column)
        # Each block is where its members are wanted on average; blocks that overlap are joined.
        blocks: list[tuple[float, int]] = []
        for at, offset in zip(wanted, offsets, strict=True):
            total, many = at - offset, 1
            while blocks and blocks[-1][0] / blocks[-1][1] >= total / many:
                more, others = blocks.pop()
                total, many = total + more, many + others
            blocks.append((total, many))
        shifts = [total / many for total, many in blocks for _ in range(many)]
        return [offset + shift for offset, shift in zip(offsets, shifts, strict=True)]
