"""A node that drains a queue alone: what dead hosts left there is a part of what is left to do."""

import pytest

from queuectl import Queue
from queuectl.admission import ALL_QUEUES
from queuectl.facts import Node
from tests.contract.tools import claim, forget
from tests.support import Lab, wait_for

LEASE = 1_500


@pytest.fixture
def lab(server_lab: Lab) -> Lab:
    server_lab.extra_env = {"QUEUECTL_LEASE": f"{LEASE}ms", "QUEUECTL_HEARTBEAT": "500ms"}
    return server_lab


def hold_elsewhere(queue: Queue, id: str) -> None:
    """Let a job be begun on a host that dies at once."""
    store = queue.store
    queue.enqueue("true", id=id)
    over = store.clock.steady() + LEASE
    store.nodes.register(
        Node(
            id="dead",
            host="elsewhere",
            boot="elsewhere",
            pid=1,
            pid_start=1,
            workers=1,
            queues=ALL_QUEUES,
            spool="/nowhere",
            version="1",
            started_at=store.clock.now(),
            seen_at=store.clock.now(),
            lease_until=over,
        )
    )
    assert [job.id for job in claim(store, "dead", [1], [], now=store.clock.now()).jobs] == [id]
    wait_for(lambda: store.clock.steady() > over, "the end of its lease")


def test_it_waits_until_it_is_certain_that_a_host_is_dead(lab: Lab) -> None:
    hold_elsewhere(lab.queue, "left")
    assert lab.start_node("--drain").wait(60) == 0
    assert [(run.number, run.outcome) for run in lab.queue.attempts("left")] == [
        (1, "lost"),
        (2, "exited"),
    ]


def test_it_waits_for_what_is_in_the_hands_of_nobody(lab: Lab) -> None:
    hold_elsewhere(lab.queue, "left")
    forget(lab.queue.store, "dead")
    assert lab.start_node("--drain").wait(60) == 0
    assert lab.queue.get("left").state == "completed"


def test_it_does_not_wait_for_what_it_would_not_run(lab: Lab) -> None:
    hold_elsewhere(lab.queue, "left")
    assert lab.start_node("--drain", "--queue", "other").wait(60) == 0
    assert lab.queue.get("left").state == "processing"
