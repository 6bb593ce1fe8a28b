"""How far groups are, and the request for what follows one."""

from typing import Any

import pytest

from queuectl import changes
from queuectl.errors import BadJobError, UsageError
from queuectl.facts import Batch, Group
from queuectl.groups import Standing, following, new_name, without_following
from queuectl.job import State
from queuectl.report import group_dict
from tests.contract.tools import bury_first
from tests.support import Lab


def group(**counts: Any) -> Group:
    return Group(name="g", made_at=1_000, **counts)


@pytest.mark.parametrize(
    ("counts", "now", "left"),
    [
        ({"jobs": 4, "open": 4}, 9_000, None),
        ({"jobs": 4, "open": 3}, 1_000, None),
        ({"jobs": 4, "open": 3}, 3_000, 6_000),
        ({"jobs": 4, "open": 1}, 4_000, 1_000),
        ({"jobs": 4, "open": 0}, 4_000, None),
        ({"jobs": 0, "open": 0}, 4_000, None),
    ],
)
def test_the_time_left_goes_by_what_was_done(
    counts: dict[str, int], now: int, left: int | None
) -> None:
    assert group(**counts).left(now) == left
    told = group_dict(group(**counts), now)["left"]
    assert told == (None if left is None else left / 1000)


def test_what_has_failed() -> None:
    found = group(jobs=9, open=1, completed=2, dead=1, cancelled=5, unneeded=3)
    standing = Standing(group=found, at=2_000)
    assert (standing.done, standing.total, standing.failed) == (8, 9, 3)


@pytest.mark.parametrize(
    ("counts", "came_to"),
    [
        ({"completed": 1, "cancelled": 2, "unneeded": 2}, State.COMPLETED),
        ({"completed": 1, "cancelled": 2, "unneeded": 1}, State.CANCELLED),
        ({"dead": 1, "cancelled": 2}, State.DEAD),
    ],
)
def test_in_one_word(counts: dict[str, int], came_to: State) -> None:
    over = group(over_at=2_000, jobs=3, **counts)
    assert (over.came_to, group_dict(over)["state"]) == (came_to, came_to.value)
    assert group_dict(group(jobs=3, open=1, **counts))["state"] == "open"


class TestFollowing:
    def test_it_waits_for_the_group_however_it_ends(self) -> None:
        asked = following("a:ok", "notify.sh", {"queue": "q"})
        assert (asked["command"], asked["queue"]) == ("notify.sh", "q")
        assert (asked["after_group"], asked["unique"]) == (["a:ok:any"], "on-done of a:ok")
        assert asked["on_duplicate"] == "return"
        assert following("g", ["a", "b c"], {})["argv"] == ["a", "b c"]

    @pytest.mark.parametrize("name", ["group", "after_group", "unique", "max_fails"])
    def test_what_it_cannot_say(self, name: str) -> None:
        with pytest.raises(UsageError, match=f"can't say {name}"):
            following("g", "x", {name: "y"})

    def test_a_name_that_cannot_be(self) -> None:
        with pytest.raises(BadJobError, match="group"):
            following(" g", "x", {})

    def test_it_is_taken_out_of_a_batch(self) -> None:
        batch = Batch(ids=("a", "b", "h"), existing=("a", "h"), dropped=("b",))
        assert without_following(batch) == Batch(ids=("a", "b"), existing=("a",), dropped=("b",))


def test_names_that_are_made_are_short() -> None:
    name = new_name("sweep")
    assert name.startswith("sweep-")
    assert len(name) == len("sweep-") + 4


@pytest.mark.parametrize("page", [2, 3, 500])
def test_a_dry_run_of_a_retry_counts_what_the_retry_does(
    lab: Lab, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those that come after others which were looked at before."""
    monkeypatch.setattr(changes, "PAGE", page)
    queue = lab.queue
    queue.enqueue("true", id="j0", group="g", max_retries=0)
    for n in range(1, 8):
        queue.enqueue("true", id=f"j{n}", after=f"j{n - 1}", group="g", if_parent_fails="cancel")
    queue.enqueue("true", id="called-off", group="g")
    queue.cancel("called-off")
    bury_first(queue.store, "j0")
    assert queue.groups.retry("g", dry_run=True) == 8
    assert queue.groups.retry("g") == 8
