"""Nodes that serve all queues but some, or some by shares or in strict order."""

from collections import Counter

from queuectl import State
from tests.support import Lab, wait_for


def enqueue(lab: Lab, queue: str, jobs: int, **fields: int) -> None:
    """Enqueue jobs that write down the name of their queue, in the order in which they run."""
    lab.queue.enqueue_many(
        {"command": f"echo {queue} >> {lab.folder}/order", "queue": queue, **fields}
        for _ in range(jobs)
    )


def test_shares_hold_while_all_have_jobs(lab: Lab) -> None:
    enqueue(lab, "b", 60, priority=9)
    enqueue(lab, "a", 60)
    lab.node("--drain", "--queue", "a:3", "--queue", "b").wait(60)
    order = lab.lines("order")
    assert Counter(order) == {"a": 60, "b": 60}
    # The first sixty of a take twenty of b along, whatever was claimed at once. One that was
    # claimed and is released, as the machine is slow, has had its turn.
    for first in (40, 80):
        assert abs(order[:first].count("b") - first / 4) <= 3


def test_in_order_the_first_queue_comes_first(lab: Lab) -> None:
    enqueue(lab, "a", 15, priority=9)
    enqueue(lab, "b", 15)
    lab.node("--drain", "--in-order", "--queue", "b", "--queue", "a").wait(60)
    assert lab.lines("order") == ["b"] * 15 + ["a"] * 15


def test_what_is_excluded_is_left_to_others(lab: Lab) -> None:
    enqueue(lab, "video", 2)
    enqueue(lab, "mail", 2)
    # It is done when nothing is left but that.
    lab.node("--drain", "--exclude", "video").wait(60)
    assert lab.lines("order") == ["mail"] * 2
    assert lab.queue.status().queues["video"][State.PENDING] == 2


def test_queues_that_come_up_later_are_served(lab: Lab) -> None:
    lab.node("--exclude", "video")
    wait_for(lab.queue.living_nodes, "the node")
    enqueue(lab, "video", 1)
    enqueue(lab, "new", 1)
    wait_for(lambda: lab.lines("order"), "the job of the new queue")
    assert lab.lines("order") == ["new"]
    assert lab.queue.status().unserved == {"video": 1}
