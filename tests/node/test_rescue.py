"""What is said and kept of the runs that a dead node leaves behind."""

import os
from pathlib import Path

import pytest

from queuectl import State
from queuectl.admission import ALL_QUEUES
from queuectl.facts import Node
from queuectl.host import host_identity, host_name
from queuectl.spool import own_files
from tests.contract.tools import claim
from tests.support import Lab

HOUR = 3_600_000


def gone_node(lab: Lab, *, seen_at: int) -> str:
    """Register a node that was last heard of at a time, and died; return its spool."""
    store = lab.queue.store
    spool = Path(store.folder.spool) / "gone"
    spool.mkdir(parents=True)
    store.nodes.register(
        Node(
            id="gone",
            host=host_name(),
            boot=host_identity(),
            pid=2**22 + 1,
            pid_start=1,
            workers=1,
            queues=ALL_QUEUES,
            spool=str(spool),
            version="0",
            started_at=seen_at,
            seen_at=seen_at,
            lease_until=store.clock.steady() + HOUR,
        )
    )
    return str(spool)


@pytest.mark.parametrize(
    ("seen", "took"), [(3_000, 3_000), (-5_000, 0), (9 * HOUR, HOUR)], ids=["later", "before", "0"]
)
def test_a_lost_run_ends_when_its_node_was_last_heard_of(lab: Lab, seen: int, took: int) -> None:
    """Not before it began, and not after somebody noticed."""
    id = lab.queue.enqueue("[ $QUEUECTL_ATTEMPT -gt 1 ] || sleep 1000").id
    store = lab.queue.store
    began = store.clock.now() - HOUR
    gone_node(lab, seen_at=began + seen)
    claim(store, "gone", [1], (), now=began)
    lab.node()
    lab.wait_state(id, State.COMPLETED)
    lost, _ = lab.queue.attempts(id)
    assert (lost.outcome, lost.started_at) == ("lost", began)
    assert lost.finished_at == began + lost.duration_ms
    # To the hour there is added the time that it took to notice.
    assert took <= lost.duration_ms <= took + (60_000 if seen > HOUR else 0)


def test_a_lost_run_ends_when_it_last_wrote_something(lab: Lab) -> None:
    id = lab.queue.enqueue("[ $QUEUECTL_ATTEMPT -gt 1 ] || sleep 1000").id
    store = lab.queue.store
    began = store.clock.now() - HOUR
    spool = gone_node(lab, seen_at=began)
    (job,) = claim(store, "gone", [1], (), now=began).jobs
    out, err = own_files(spool, job)
    for path, minutes in ((out, 20), (err, 50)):
        Path(path).write_text("words")
        os.utime(path, ((began + minutes * 60_000) / 1000,) * 2)
    lab.node()
    lab.wait_state(id, State.COMPLETED)
    lost, _ = lab.queue.attempts(id)
    assert abs(lost.duration_ms - 50 * 60_000) < 1_000


def test_a_job_that_died_with_its_node_is_dead_from_when_that_was_noticed(lab: Lab) -> None:
    """Or retention might take it away before anybody has seen it."""
    lab.queue.set_setting("max_crashes", "1")
    lab.queue.set_setting("dlq_retention", "30m")
    id = lab.queue.enqueue("true").id
    store = lab.queue.store
    began = store.clock.now() - HOUR
    gone_node(lab, seen_at=began + 2_000)
    claim(store, "gone", [1], (), now=began)
    before = store.clock.now()
    lab.node()
    job = lab.wait_state(id, State.DEAD)
    assert before <= (job.finished_at or 0) <= store.clock.now()
    assert (job.started_at, job.duration_ms) == (began, 2_000)
