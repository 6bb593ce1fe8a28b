"""What jobs want of those that they wait for, and what the ends of these mean for them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.dependencies import (
    IfParentFails,
    Verdict,
    Wanted,
    follows_failures,
    parent_in,
    parent_text,
    read_parent,
    verdict,
    why_cancelled,
    why_stopped,
)
from queuectl.job import FINISHED, State

MET, BARRED, OVER = Verdict.MET, Verdict.BARRED, Verdict.OVER
TABLE = {
    (Wanted.OK, State.COMPLETED): (MET, MET, MET),
    (Wanted.OK, State.DEAD): (BARRED, OVER, MET),
    (Wanted.OK, State.CANCELLED): (OVER, OVER, OVER),
    (Wanted.FAIL, State.COMPLETED): (OVER, OVER, OVER),
    (Wanted.FAIL, State.DEAD): (MET, MET, MET),
    (Wanted.FAIL, State.CANCELLED): (OVER, OVER, OVER),
    (Wanted.ANY, State.COMPLETED): (MET, MET, MET),
    (Wanted.ANY, State.DEAD): (MET, MET, MET),
    (Wanted.ANY, State.CANCELLED): (MET, MET, MET),
}
"""For children that are to block, to be cancelled, or to run if it fails."""


@pytest.mark.parametrize(("wanted", "came_to"), list(product(Wanted, FINISHED)))
def test_every_end_means_something_to_every_child(wanted: Wanted, came_to: State) -> None:
    said = tuple(verdict(wanted, came_to, how) for how in IfParentFails)
    assert said == TABLE[wanted, came_to]


@given(st.text(min_size=1), st.sampled_from(Wanted))
def test_a_parent_is_read_as_it_was_written(id: str, wanted: Wanted) -> None:
    assert read_parent(parent_text(id, wanted)) == (id, wanted)


@pytest.mark.parametrize(
    ("text", "parent"),
    [
        ("a", ("a", Wanted.OK)),
        ("a:ok", ("a", Wanted.OK)),
        ("a:fail", ("a", Wanted.FAIL)),
        ("a:any", ("a", Wanted.ANY)),
        ("a:b", ("a:b", Wanted.OK)),
        ("a:fail:ok", ("a:fail", Wanted.OK)),
        (":any", (":any", Wanted.OK)),
        ("a:ANY", ("a:ANY", Wanted.OK)),
    ],
)
def test_how_a_parent_is_named(text: str, parent: tuple[str, Wanted]) -> None:
    assert read_parent(text) == parent


class TestFallout:
    @pytest.mark.parametrize("came_to", [State.DEAD, State.CANCELLED])
    @pytest.mark.parametrize("parent", ["a", "group night shift", "a is dead", "its parent b"])
    def test_the_parent_is_found_in_what_is_said(self, parent: str, came_to: State) -> None:
        said = why_cancelled(parent, Wanted.OK, came_to)
        assert parent_in(said) == parent

    @pytest.mark.parametrize(
        "reason",
        [
            None,
            "",
            "cancelled by me: its parent a is dead",
            why_cancelled("a", Wanted.OK, State.CANCELLED, was_removed=True),
            why_cancelled("a", Wanted.FAIL, State.COMPLETED),
            why_cancelled("a", Wanted.OK, State.CANCELLED, was_unneeded=True),
            why_stopped("g"),
        ],
    )
    def test_other_reasons_name_none(self, reason: str | None) -> None:
        assert parent_in(reason) is None

    def test_a_group_that_was_stopped(self) -> None:
        assert follows_failures(why_stopped("g"), "g")
        assert not follows_failures(why_stopped("g"), "h")
        assert not follows_failures(why_stopped("g"), None)
        assert not follows_failures(None, "g")
