"""Which element of an array waits for which of another one."""

from typing import Any

import pytest

from queuectl import Queue, UsageError, expand
from queuectl.dependencies import Wanted
from queuectl.pairing import Element, pair
from tests.support import Lab


def asked(*parameters: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [{"command": "true", "parameters": own, **fields} for own in parameters]


def after(requests: list[dict[str, Any]], others: list[Element], **more: Any) -> list[list[str]]:
    return [one["after"] for one in pair(requests, others, "g", **more)]


def test_by_their_numbers() -> None:
    others = [Element("a", {"index": 7}), Element("b", {"index": 8})]
    assert after(asked({"index": 8}, {"index": 7}), others) == [["b"], ["a"]]


def test_by_all_parameters_that_all_of_them_have() -> None:
    others = [
        Element("a", {"index": 1, "lr": "0.1", "seed": "1", "host": "x"}),
        Element("b", {"index": 2, "lr": "0.1", "seed": "2", "host": "x"}),
    ]
    mine = asked({"index": 1, "seed": "2", "lr": "0.1"}, {"index": 2, "seed": "1", "lr": "0.1"})
    assert after(mine, others) == [["b"], ["a"]]


def test_with_what_each_waits_for_besides() -> None:
    others = [Element("a:ok", {"index": 1})]
    one = asked({"index": 1}, after="first")
    assert after(one, others, wanted=Wanted.ANY) == [["first", "a:ok:any"]]
    assert after(asked({"index": 1}, after=["x", "y"]), others) == [["x", "y", "a:ok:ok"]]
    assert one[0]["after"] == "first"


@pytest.mark.parametrize(
    ("mine", "others", "why"),
    [
        ([1, 2], [1, 2, 3], "Group g has 3 elements, and these are 2"),
        ([1, 2], [1, 3], "Group g has no element with index=2"),
        ([1, 1], [1, 2], "Group g has no element with index=1"),
        ([1, 2], [1, 1], "Group g has several elements with index=1"),
    ],
)
def test_each_has_exactly_one(mine: list[int], others: list[int], why: str) -> None:
    elements = [Element(f"j{at}", {"index": n}) for at, n in enumerate(others)]
    with pytest.raises(UsageError, match=why) as raised:
        pair(asked(*({"index": n} for n in mine)), elements, "g")
    assert "--after-group g" in str(raised.value.advice)


class TestStored:
    @pytest.fixture
    def queue(self, lab: Lab) -> Queue:
        lab.queue.enqueue_many(expand("render {}", array="5-7"), group="tiles")
        lab.queue.enqueue("true", group="tiles")
        return lab.queue

    def test_each_waits_for_its_own(self, queue: Queue) -> None:
        requests = queue.groups.after_each("tiles:any", expand("upload {}", array="7,6,5%2"))
        ids = queue.enqueue_many(requests, group="up").ids
        for id, n in zip(ids, (7, 6, 5), strict=True):
            (parent,) = queue.parents(id)
            assert (parent.wanted, parent.job and parent.job.command) == ("any", f"render {n}")
            assert queue.get(id).command == f"upload {n}"

    def test_nothing_is_stored_of_what_doesnt_match(self, queue: Queue) -> None:
        with pytest.raises(UsageError, match="has 3 elements, and these are 4"):
            queue.groups.after_each("tiles", expand("upload {}", array="5-8"))
        assert len(queue.list(limit=None)) == 4
