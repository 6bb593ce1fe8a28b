"""Columns that give way, and text that is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.cli.widths import GAP, cut, cut_middle, fit, width

SIZES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(0, 9)), min_size=1)
TEXTS = st.text(st.sampled_from("abc 寬ä\u0301\u200d🦊"), max_size=60)


@given(SIZES, st.integers(1, 400))
def test_no_line_is_wider_than_the_room(sizes: list[tuple[int, int, int]], room: int) -> None:
    natural = [size for size, _, _ in sizes]
    least = [min(size, least) for size, least, _ in sizes]
    drop = [drop for _, _, drop in sizes]
    widths = fit(natural, least, drop, room)
    assert widths
    assert sum(widths.values()) + GAP * (len(widths) - 1) <= room
    assert all(0 < widths[i] <= natural[i] for i in widths)
    assert list(widths) == sorted(widths)


def test_there_is_room_for_all() -> None:
    assert fit([5, 9], [5, 3], [0, 1], 16) == {0: 5, 1: 9}


def test_those_that_need_more_share_what_is_free() -> None:
    assert fit([4, 100, 100], [4, 10, 10], [0, 0, 0], 50) == {0: 4, 1: 21, 2: 21}
    assert fit([4, 12, 100], [4, 10, 10], [0, 0, 0], 50) == {0: 4, 1: 12, 2: 30}


def test_columns_leave_in_their_order_and_no_more_than_need_be() -> None:
    sizes = [10, 10, 10, 10]
    assert list(fit(sizes, sizes, [0, 2, 1, 3], 46)) == [0, 1, 2, 3]
    assert list(fit(sizes, sizes, [0, 2, 1, 3], 45)) == [0, 1, 3]
    assert list(fit(sizes, sizes, [0, 2, 1, 3], 33)) == [0, 3]


def test_if_nothing_may_give_way_all_do() -> None:
    assert fit([20, 20, 20], [20, 20, 20], [0, 0, 0], 14) == {0: 3, 1: 3, 2: 4}
    assert fit([20, 20, 20], [20, 20, 20], [0, 0, 0], 9) == {0: 3, 1: 4}
    assert fit([20, 20], [20, 20], [0, 0], 1) == {0: 1}


def test_what_may_be_cut_gives_way_to_what_may_not() -> None:
    assert fit([19, 50, 40], [19, 20, 20], [0, 0, 0], 40) == {0: 19, 1: 9, 2: 8}
    assert fit([19, 50, 40], [19, 20, 20], [0, 0, 0], 29) == {0: 19, 1: 3, 2: 3}
    assert fit([19, 50, 40], [19, 20, 20], [0, 0, 0], 28) == {0: 8, 1: 8, 2: 8}


@given(TEXTS, st.integers(1, 70), st.sampled_from(["...", "…"]))
def test_what_is_cut_fits(text: str, limit: int, mark: str) -> None:
    for short in (cut_middle(text, limit, mark), cut(text, limit, mark)):
        assert width(short) <= limit
        if width(text) <= limit:
            assert short == text


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (30, "convert scans/2026/img_299.png"),
        (29, "convert scans/…26/img_299.png"),
        (12, "conver…9.png"),
        (4, "co…g"),
        (3, "c…g"),
        (2, "c…"),
        (1, "…"),
    ],
)
def test_the_middle_is_cut(limit: int, expected: str) -> None:
    assert cut_middle("convert scans/2026/img_299.png", limit, "…") == expected


def test_sentences_are_cut_at_their_end() -> None:
    assert cut("a sentence", 10) == "a sentence"
    assert cut("a sentence.", 10) == "a sente..."
    assert cut("寬寬寬寬", 6) == "寬..."
    assert cut("a sentence", 2) == ".."
