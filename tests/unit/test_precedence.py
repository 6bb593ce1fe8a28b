"""Whose turn it is among the queues of a node: exact shares, nothing idle, strict order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from random import Random

import pytest

from queuectl.admission import Order, Serving
from queuectl.precedence import ByShare, InOrder, order_of


def take(order: Order, lines: Mapping[str, Sequence[str]], count: int) -> str:
    """Take so many jobs, which are named like their queues; returns their queues."""
    found = list(islice(order.arrange(lines), count))
    order.took(found)
    return "".join(found)


def full(*names: str, jobs: int = 50) -> dict[str, str]:
    """Return queues with more jobs than anybody takes."""
    return {name: name * jobs for name in names}


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 16])
def test_shares_are_exact_however_many_are_taken_at_once(at_once: int) -> None:
    order = ByShare({"a": 5, "b": 3, "c": 1})
    taken = "".join(take(order, full("c", "b", "a"), at_once) for _ in range(9 * 40))
    for start in range(0, len(taken), 9):
        assert Counter(taken[start : start + 9]) == {"a": 5, "b": 3, "c": 1}


def test_they_are_spread_out() -> None:
    assert take(ByShare({"a": 3, "b": 1}), full("a", "b"), 8) == "abaaabaa"
    assert take(ByShare({"a": 1, "b": 1}), full("a", "b"), 5) == "ababa"
    assert take(ByShare({"a": 1_000, "b": 999}), full("a", "b"), 4) in ("abab", "abaa")


def test_equals_take_turns_in_the_order_they_are_named_in() -> None:
    assert take(ByShare({"b": 2, "a": 2}), full("a", "b"), 4) == "baba"


def test_what_one_can_not_use_goes_to_the_others() -> None:
    order = ByShare({"a": 9, "b": 1})
    assert take(order, {"b": "bbbb"}, 4) == "bbbb"
    assert take(order, {"a": "a", "b": "bbb"}, 4) == "abbb"
    assert take(order, {"a": "", "b": ""}, 4) == ""
    assert take(order, {}, 4) == ""


def test_nothing_is_saved_up_and_nothing_is_owed() -> None:
    order = ByShare({"a": 1, "b": 1})
    take(order, full("a"), 40)
    assert take(order, full("a", "b"), 6) == "bababa"
    take(order, full("b"), 40)
    # Whoever was away is at most one job ahead then.
    assert take(order, full("a", "b"), 6) == "aababa"


def test_to_ask_changes_nothing() -> None:
    order = ByShare({"a": 2, "b": 1})
    lines = full("a", "b")
    first = [list(islice(order.arrange(lines), 12)) for _ in range(3)]
    assert first[0] == first[1] == first[2]
    take(order, lines, 2)
    assert list(islice(order.arrange(lines), 10)) == first[0][2:]


def test_whoever_comes_and_goes_shares_hold_among_those_who_are_there() -> None:
    random, order, taken = Random(7), ByShare({"a": 4, "b": 2, "c": 1}), Counter[str]()
    for _ in range(3_000):
        lines = full("a", "b", "c") if random.random() < 0.5 else full("b", "c")
        some = take(order, lines, random.randint(1, 9))
        if "a" not in lines:
            taken += Counter(some)
    assert taken["b"] / taken["c"] == pytest.approx(2, rel=0.05)


def test_each_keeps_its_own_line() -> None:
    lines = {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}
    assert list(ByShare({"a": 1, "b": 1}).arrange(lines)) == ["a1", "b1", "a2", "b2", "a3"]
    assert list(InOrder(("b", "a")).arrange(lines)) == ["b1", "b2", "a1", "a2", "a3"]


def test_in_order_the_first_comes_first_always() -> None:
    order = InOrder(("b", "a", "c"))
    assert take(order, full("a", "b", "c", jobs=3), 8) == "bbbaaacc"
    assert take(order, {"a": "a", "c": "cc"}, 8) == "acc"


def test_most_nodes_have_no_order() -> None:
    for serving in (
        Serving(),
        Serving(("a", "b")),
        Serving(excluded=("a", "b")),
        Serving(("a",), weights=(3,)),
        Serving(("a",), in_order=True),
    ):
        assert order_of(serving) is None
    assert isinstance(order_of(Serving(("a", "b"), in_order=True)), InOrder)
    assert isinstance(order_of(Serving(("a", "b"), weights=(1, 1))), ByShare)


@pytest.mark.parametrize(
    ("serving", "text", "has", "has_not"),
    [
        (Serving(), "all", ("a", "", "ü"), ()),
        (Serving(("a", "b")), "a, b", ("a", "b"), ("c", "A", "")),
        (Serving(excluded=("a", "b")), "all but a, b", ("c", "A"), ("a", "b")),
        (Serving(("a", "b:7"), weights=(3, 1)), "a:3, b:7:1", ("a", "b:7"), ("b",)),
        (Serving(("b", "a"), in_order=True), "b, then a", ("a", "b"), ("c",)),
    ],
)
def test_which_queues_are_served(
    serving: Serving, text: str, has: Sequence[str], has_not: Sequence[str]
) -> None:
    assert str(serving) == text
    assert all(queue in serving for queue in has)
    assert not any(queue in serving for queue in has_not)
