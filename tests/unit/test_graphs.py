"""Jobs that name each other before they are stored: their order, and circles among them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.errors import BadJobError
from queuectl.graphs import Entry, check_known, in_order, plan

MANY = 100_000


def entries(*fields: dict[str, Any]) -> list[Entry]:
    return [Entry(place=f"line {n}", fields=one) for n, one in enumerate(fields, 1)]


def ids(count: int) -> list[str]:
    return [f"made-{n}" for n in range(count)]


def refusal(*fields: dict[str, Any]) -> str:
    with pytest.raises(BadJobError) as caught:
        plan(entries(*fields), ids)
    return str(caught.value)


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Make things that name each other, without a circle, in any order."""
    count = draw(st.integers(0, 12))
    places = draw(st.permutations(range(count)))
    links: list[list[int]] = [[] for _ in range(count)]
    for at in range(count):
        before = draw(st.lists(st.integers(0, max(at - 1, 0)), unique=True)) if at else []
        links[places[at]] = [places[one] for one in before]
    return links


def naive(links: Sequence[Sequence[int]]) -> list[int]:
    """Take, again and again, the first that waits for none that is left."""
    order: list[int] = []
    while len(order) < len(links):
        order.append(
            next(
                at
                for at, some in enumerate(links)
                if at not in order and all(link in order for link in some)
            )
        )
    return order


class TestOrder:
    @given(graphs())
    def test_of_those_that_can_be_next_it_is_the_first(self, links: list[list[int]]) -> None:
        assert in_order(links, str) == naive(links)

    @given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=8, max_size=8))
    def test_a_circle_is_named_as_it_is(self, links: list[list[int]]) -> None:
        try:
            order = in_order(links, str)
        except BadJobError as error:
            told = str(error).partition(": ")[2].partition(";")[0]
            circle = [int(name) for name in told.split(" -> ")]
            assert circle[0] == circle[-1] == min(circle)
            assert len(set(circle)) == len(circle) - 1
            for before, after in pairwise(circle):
                assert before in links[after]
        else:
            places = {at: place for place, at in enumerate(order)}
            assert all(places[link] < places[at] for at in order for link in links[at])

    def test_a_long_circle_is_named_in_part(self) -> None:
        links = [[at - 1] if at else [MANY - 1] for at in range(MANY)]
        with pytest.raises(BadJobError) as caught:
            in_order(links, str)
        assert "0 -> 1 -> 2 -> 3 -> 4 -> 5 -> ... 99,988 more ... -> 99994" in str(caught.value)
        assert len(str(caught.value)) < 300

    def test_a_deep_chain_and_many_children_of_one_are_put_in_order(self) -> None:
        chain = [[at + 1] for at in range(MANY - 1)] + [[]]
        assert in_order(chain, str) == list(range(MANY))[::-1]
        wide = [[MANY - 1] for _ in range(MANY - 1)] + [[]]
        assert in_order(wide, str) == [MANY - 1, *range(MANY - 1)]


class TestPlan:
    def test_names_become_ids(self) -> None:
        found = plan(
            entries(
                {"name": "b", "command": "b", "after": ["a:any", "kept", "stored:fail"]},
                {"name": "a", "command": "a"},
                {"id": "kept", "name": "c", "command": "c", "depends_on": "a"},
            ),
            ids,
        )
        assert [one["command"] for one in found.requests] == ["a", "c", "b"]
        assert found.places == ["line 2", "line 3", "line 1"]
        assert found.names == {"b": "made-0", "a": "made-1", "c": "kept"}
        assert found.requests[2]["after"] == ["made-1:any", "kept", "stored:fail"]
        assert found.requests[0] == {
            "id": "made-1",
            "command": "a",
            "parameters": {"name": "a"},
        }
        assert found.requests[1] == {
            "id": "kept",
            "command": "c",
            "after": ["made-1"],
            "parameters": {"name": "c"},
        }
        assert found.outside == {"stored": "line 1"}

    def test_a_name_that_ends_like_a_condition_is_named_with_one(self) -> None:
        found = plan(
            entries({"name": "a:fail", "command": "a"}, {"command": "b", "after": "a:fail:ok"}), ids
        )
        assert found.requests[1]["after"] == ["made-0"]

    @pytest.mark.parametrize(
        ("jobs", "circle"),
        [
            ([{"name": "a", "group": "g", "after_group": "g"}], "a -> group g -> a"),
            (
                [
                    {"name": "a", "group": "g", "after_group": "h:any"},
                    {"name": "b", "group": "h", "after-group": ["other", "g"]},
                ],
                "a -> group g -> b -> group h -> a",
            ),
            (
                [
                    {"name": "a", "group": "g", "after": "b"},
                    {"name": "b", "after": "c"},
                    {"name": "c", "after_group": "g"},
                ],
                "a -> group g -> c -> b -> a",
            ),
        ],
    )
    def test_circles_by_way_of_groups_are_named(
        self, jobs: list[dict[str, Any]], circle: str
    ) -> None:
        assert f"in a circle, each after the one before it: {circle};" in refusal(*jobs)

    def test_jobs_may_wait_for_groups_that_others_of_them_are_in(self) -> None:
        jobs: list[dict[str, Any]] = [
            {"name": "c", "after_group": "g"},
            {"name": "b", "group": "g", "after": "a"},
            {"name": "a", "group": "g", "after_group": [5, "other"]},
            {"name": "d", "group": 7, "after_group": 7},
        ]
        found = plan(entries(*jobs), ids)
        assert list(found.places) == ["line 1", "line 3", "line 2", "line 4"]

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ([{"name": "a"}, {"name": "a"}], "line 2: the name 'a' is taken by line 1."),
            ([{"id": "a"}, {"id": "a"}], "line 2: the id 'a' is taken by line 1."),
            ([{"name": "a"}, {"id": "a"}], "line 2: the id 'a' is taken by line 1."),
            ([{"name": "a", "after": "a"}], "line 1: 'a' can't wait for itself."),
            ([{"name": "a", "after": 5}], "line 1: after must be a list of names or ids."),
            ([{"name": "a\nb"}], "line 1: name must be printable"),
            ([{"id": 7}], "line 1: id must be text"),
            ([{"after": "a", "depends_on": "b"}], "line 1: after and depends_on say the same"),
            ([{"name": "a"}, {"after": ["a", "a:any"]}], "line 2: after names 'a' twice"),
            (
                [{"name": "a", "after": "b"}, {"name": "b", "after": "a"}],
                "These jobs wait for each other in a circle, each after the one before it:"
                " a -> b -> a; nothing was enqueued.",
            ),
        ],
    )
    def test_what_cannot_be_is_refused_with_its_line(
        self, fields: list[dict[str, Any]], why: str
    ) -> None:
        assert refusal(*fields).startswith(why)

    def test_who_is_waited_for_must_be_known(self) -> None:
        found = plan(entries({"name": "fetch"}, {"after": ["fetsch", "there"]}), ids)
        check_known(found, ["fetsch", "there"])
        with pytest.raises(BadJobError) as caught:
            check_known(found, ["there"])
        assert str(caught.value) == (
            "line 2: there is no job 'fetsch' to wait for, neither here nor in the queue;"
            " did you mean 'fetch'?"
        )
