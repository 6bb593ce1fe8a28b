"""Where boxes stand: each behind what it follows, apart from the others, with few crossings."""

from collections import defaultdict
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.layering import BENDS, THIN, Layout, Links, in_layers, laid_out

LITTLE = 1e-6


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Links]:
    count = draw(st.integers(1, 14))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    drawn = draw(st.lists(pairs, unique=True, max_size=40))
    return count, tuple(dict.fromkeys((min(it), max(it)) for it in drawn if it[0] != it[1]))


def crossings(layout: Layout, links: Links) -> int:
    """Count how often links cross, from nothing but where they are."""
    between: dict[int, set[tuple[float, float]]] = defaultdict(set)
    for (one, other), bends in zip(links, layout.bends, strict=True):
        if layout.layers[other] - layout.layers[one] > 1 and not bends:
            continue
        way = [layout.heights[one], *bends, layout.heights[other]]
        for at, (left, right) in enumerate(pairwise(way), layout.layers[one]):
            between[at].add((left, right))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < -LITTLE
        for some in between.values()
        for a, b in combinations(some, 2)
    )


@given(graphs())
def test_every_box_is_behind_what_it_follows(graph: tuple[int, Links]) -> None:
    layout = laid_out(*graph)
    count, links = graph
    assert len(layout.layers) == len(layout.heights) == count
    assert len(layout.bends) == len(links)
    for (one, other), bends in zip(links, layout.bends, strict=True):
        assert layout.layers[one] < layout.layers[other]
        assert len(bends) == layout.layers[other] - layout.layers[one] - 1
    assert layout.depth == max(layout.layers) + 1


@given(graphs())
def test_nothing_is_on_top_of_another(graph: tuple[int, Links]) -> None:
    layout = laid_out(*graph)
    columns: dict[int, list[float]] = defaultdict(list)
    for layer, at in zip(layout.layers, layout.heights, strict=True):
        assert 0.5 - LITTLE <= at <= layout.height - 0.5 + LITTLE
        columns[layer].append(at)
    for column in columns.values():
        for upper, lower in pairwise(sorted(column)):
            assert lower - upper >= 1 - LITTLE
    for (one, _), bends in zip(graph[1], layout.bends, strict=True):
        for at, layer in zip(bends, range(layout.layers[one] + 1, layout.depth), strict=False):
            assert all(abs(at - box) >= (1 + THIN) / 2 - LITTLE for box in columns[layer])


@given(graphs())
def test_it_is_the_same_each_time(graph: tuple[int, Links]) -> None:
    laid_out.cache_clear()
    first = laid_out(*graph)
    laid_out.cache_clear()
    assert laid_out(*graph) == first


def test_a_chain_is_a_line() -> None:
    layout = laid_out(4, ((0, 1), (1, 2), (2, 3)))
    assert layout.layers == (0, 1, 2, 3)
    assert layout.heights == (0.5, 0.5, 0.5, 0.5)
    assert (layout.depth, layout.height) == (4, 1)


def test_one_box_stands_in_the_middle_of_those_that_follow_it() -> None:
    layout = laid_out(4, ((0, 1), (0, 2), (0, 3)))
    assert layout.layers == (0, 1, 1, 1)
    assert layout.heights == pytest.approx((1.5, 0.5, 1.5, 2.5))


def test_what_follows_nothing_stands_right_before_what_follows_it() -> None:
    assert in_layers(5, [(0, 1), (1, 2), (2, 4), (3, 4)]) == [0, 1, 2, 2, 3]


def test_of_nothing_nothing_is_laid_out() -> None:
    assert laid_out(0, ()) == Layout(layers=(), heights=(), bends=(), depth=0, height=0)


@pytest.mark.parametrize(
    ("links", "most"),
    [
        # As they come, all of them cross: each follows the one at the other end.
        (tuple((at, 19 - at) for at in range(10)), 0),
        (((0, 5), (0, 7), (1, 6), (1, 8), (2, 5), (2, 7), (3, 6), (3, 8)), 2),
    ],
)
def test_crossings_are_few(links: Links, most: int) -> None:
    count = 1 + max(other for _, other in links)
    assert crossings(laid_out(count, links), links) <= most


@pytest.mark.parametrize("shape", ["chain", "fan", "all to all", "each to the last", "ladder"])
def test_a_thousand_boxes_of_any_shape_are_bounded(shape: str) -> None:
    many = 1_000
    links: Links = {
        "chain": tuple((at, at + 1) for at in range(many - 1)),
        "fan": tuple((0, at) for at in range(1, many)),
        "all to all": tuple((a, b) for a in range(70) for b in range(70, 140)),
        "each to the last": tuple(
            (at, end) for at in range(many - 1) for end in {at + 1, many - 1}
        ),
        "ladder": tuple((at, at + step) for at in range(many - 50) for step in (1, 7, 50)),
    }[shape]
    layout = laid_out(many, links)
    assert all(layout.layers[one] < layout.layers[other] for one, other in links)
    # Links of one box go together; those that go too far past others are drawn straight.
    places = {
        (one, at)
        for (one, _), bends in zip(links, layout.bends, strict=True)
        for at in range(len(bends))
    }
    assert len(places) <= BENDS
