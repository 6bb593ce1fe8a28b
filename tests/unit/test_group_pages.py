"""What pages about groups are made of: bars, columns, and the order of results."""

from typing import Any

import pytest

from queuectl.web.pages.groups import LEAST, drawn
from queuectl.web.pages.results import in_order


def described(**counts: int) -> dict[str, Any]:
    names = ("open", "running", "completed", "dead", "cancelled", "not_needed")
    return dict.fromkeys(names, 0) | counts


class TestBars:
    def test_all_parts_come_to_the_whole(self) -> None:
        group = described(open=40, running=10, completed=30, dead=20, cancelled=10, not_needed=4)
        parts = drawn(group, blocked=5)
        assert [(part.kind, part.count) for part in parts] == [
            ("completed", 30),
            ("dead", 20),
            ("cancelled", 6),
            ("unneeded", 4),
            ("running", 10),
            ("waiting", 25),
            ("blocked", 5),
        ]
        assert [round(part.width) for part in parts] == [30, 20, 6, 4, 10, 25, 5]
        ends = [part.x + part.width for part in parts]
        assert [part.x for part in parts[1:]] == pytest.approx(ends[:-1], abs=0.01)
        assert ends[-1] == pytest.approx(100, abs=0.01)

    def test_one_dead_job_of_a_million_is_seen(self) -> None:
        parts = drawn(described(completed=999_999, dead=1))
        assert [part.kind for part in parts] == ["completed", "dead"]
        assert parts[1].width > LEAST * 0.9
        assert parts[0].width + parts[1].width == pytest.approx(100, abs=0.01)

    def test_one_without_jobs_has_none(self) -> None:
        assert drawn(described()) == []


class TestOrder:
    @pytest.mark.parametrize(
        ("backwards", "order"), [(False, "e a c d b f g"), (True, "b d c a e f g")]
    )
    def test_numbers_then_texts_then_what_has_none(self, backwards: bool, order: str) -> None:
        pairs = [
            ("0.1", "a"),
            ("x", "b"),
            (3, "c"),
            ("1e3", "d"),
            (-2.5, "e"),
            (None, "f"),
            (None, "g"),
        ]
        assert in_order(pairs, backwards=backwards) == order.split()

    def test_those_alike_stay_in_their_order(self) -> None:
        pairs = [(1, "a"), (2, "b"), (1, "c"), (2, "d")]
        assert in_order(pairs, backwards=False) == ["a", "c", "b", "d"]
        assert in_order(pairs, backwards=True) == ["b", "d", "a", "c"]

    def test_whatever_a_result_is_it_has_a_place(self) -> None:
        odd = ["nan", "inf", 10**400, True, [1], {"a": None}, "", float("nan")]
        found = in_order([(value, str(at)) for at, value in enumerate(odd)], backwards=False)
        assert sorted(found) == [str(at) for at in range(len(odd))]
