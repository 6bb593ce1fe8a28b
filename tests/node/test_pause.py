"""Running jobs that are paused: they stand still, whatever becomes of their node."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from queuectl import State
from queuectl.errors import StateError
from tests.node.test_kill import escape
from tests.node.test_restart import gated, open_gate, restart
from tests.support import Lab, is_gone, lab_in, wait_for


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A lab on each kind of store."""
    store = request.param
    url = None if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def stands(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def wait_until_it_stands(pid: int) -> None:
    wait_for(lambda: stands(pid), "the job to stand still")


def paused(lab: Lab, *, name: str = "gate", **fields: object) -> tuple[str, int]:
    """Enqueue a job that waits for a gate, and pause it once it runs; return its id and pid."""
    id = lab.queue.enqueue({"command": gated(lab, name), **fields}).id
    pid = lab.pid_in(f"{name}.pid")
    assert lab.queue.pause_jobs([id]) == {id: True}
    wait_until_it_stands(pid)
    return id, pid


def test_it_stands_still_until_it_is_resumed(any_lab: Lab) -> None:
    lab = any_lab
    lab.node(count=2)
    id, pid = paused(lab)
    open_gate(lab)
    # Others come and go meanwhile.
    lab.wait_state(lab.queue.enqueue("true").id, State.COMPLETED)
    assert (stands(pid), lab.queue.get(id).state) == (True, State.PROCESSING)
    assert lab.queue.resume_jobs([id]) == {id: True}
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.attempts, lab.lines("gate.ran")) == (1, ["1"])
    assert lab.queue.output(id).stdout == b"before\nafter\n"
    kinds = [event.kind for event in lab.queue.events(id)]
    assert kinds == ["resume", "pause"]
    assert lab.queue.pauses() == {}
    with pytest.raises(StateError, match="is completed; only jobs that run can be resumed"):
        lab.queue.resume_jobs([id])


@pytest.mark.parametrize("kind", ["grandchild", "setsid", "daemon"])
def test_all_that_it_has_started_stands_still(lab: Lab, kind: str) -> None:
    id = lab.queue.enqueue(escape(lab, kind)).id
    lab.node()
    pid = lab.pid_in("escaped.pid")
    lab.queue.pause_jobs([id])
    wait_until_it_stands(pid)
    lab.queue.resume_jobs([id])
    wait_for(lambda: not stands(pid), "the job to go on")
    lab.queue.cancel(id)
    lab.wait_state(id, State.CANCELLED)
    assert is_gone(pid)


def test_its_timeout_stands_still(lab: Lab) -> None:
    lab.node(count=2)
    id, pid = paused(lab, timeout="3s", max_retries=0)
    witness = lab.queue.enqueue("sleep 1000", timeout="3500ms", max_retries=0).id
    lab.wait_state(witness, State.DEAD)
    assert stands(pid)
    open_gate(lab)
    lab.queue.resume_jobs([id])
    job = lab.wait_state(id, State.COMPLETED)
    # How long it took includes the time for which it stood still.
    assert (job.duration_ms or 0) >= 3500


def test_a_paused_one_can_be_cancelled(lab: Lab) -> None:
    command = f"trap 'echo bye; exit 1' TERM; {gated(lab)}"
    id = lab.queue.enqueue(command).id
    lab.node()
    pid = lab.pid_in("gate.pid")
    lab.queue.pause_jobs([id])
    wait_until_it_stands(pid)
    lab.queue.cancel(id)
    lab.wait_state(id, State.CANCELLED)
    assert is_gone(pid)
    assert lab.queue.output(id).stdout == b"before\nbye\n"


def test_its_node_is_killed(lab: Lab) -> None:
    node = lab.node()
    id, pid = paused(lab)
    node.send_signal(signal.SIGKILL)
    node.wait()
    wait_for(lambda: is_gone(pid), "the run to be killed")
    open_gate(lab)
    lab.node()
    job = lab.wait_state(id, State.COMPLETED)
    # What runs then is another run, which nobody has paused.
    assert (job.attempts, job.crashes) == (2, 1)


def test_its_node_starts_again_in_place(any_lab: Lab) -> None:
    lab = any_lab
    node = lab.node()
    id, pid = paused(lab)
    restart(lab, node)
    open_gate(lab)
    # The node has looked around since.
    lab.queue.set_setting("workers", 1)
    wait_for(lambda: f"Job {id} is paused" in lab.log(), "the node to know")
    assert (stands(pid), lab.queue.get(id).state) == (True, State.PROCESSING)
    lab.queue.resume_jobs([id])
    assert lab.wait_state(id, State.COMPLETED).attempts == 1


def test_it_is_resumed_while_its_node_starts_again(lab: Lab) -> None:
    """Whoever goes on with the run can't know whether it stands still, so it makes sure."""
    node = lab.node()
    id, _ = paused(lab)
    open_gate(lab)
    # Nobody is told: the row is gone by the time that the next program looks.
    node.send_signal(signal.SIGSTOP)
    lab.queue.resume_jobs([id])
    node.send_signal(signal.SIGUSR1)
    node.send_signal(signal.SIGCONT)
    assert lab.wait_state(id, State.COMPLETED).attempts == 1


def test_a_node_that_stops_waits_for_it_and_says_so(lab: Lab) -> None:
    node = lab.node()
    id, _ = paused(lab)
    lab.queue.stop_nodes()
    wait_for(lambda: f"Paused, so that this node can't stop: {id}." in lab.log(), "the word")
    assert node.poll() is None
    open_gate(lab)
    lab.queue.resume_jobs([id])
    assert node.wait(60) == 0
    assert lab.queue.get(id).state == State.COMPLETED


def test_a_forced_stop_ends_it(lab: Lab) -> None:
    node = lab.node()
    id, pid = paused(lab)
    lab.queue.stop_nodes(force=True)
    assert node.wait(60) == 0
    assert is_gone(pid)
    job = lab.queue.get(id)
    assert (job.state, job.failures, job.crashes) == (State.PENDING, 0, 0)
    assert lab.queue.pauses() == {}


def test_a_pause_that_nobody_told_the_node_of_is_found(lab: Lab) -> None:
    """The row is enough: the node looks for it now and then."""
    id = lab.queue.enqueue(gated(lab)).id
    lab.node()
    pid = lab.pid_in("gate.pid")
    job = lab.queue.get(id)
    with closing(sqlite3.connect(lab.db)) as db, db:
        db.execute("INSERT INTO pauses VALUES (?, 1, ?, 'me')", (job.seq, lab.queue.now()))
    wait_until_it_stands(pid)


def test_it_keeps_its_place_in_a_limit(lab: Lab) -> None:
    lab.queue.limits.set("default", limit=1)
    lab.node(count=2)
    id, _ = paused(lab)
    other = lab.queue.enqueue("true").id
    free = lab.queue.enqueue("true", queue="free").id
    lab.wait_state(free, State.COMPLETED)
    assert lab.queue.get(other).state == State.PENDING
    assert "limit 1 of 1 of queue default is held by" in lab.queue.explain(other)[0].text
    open_gate(lab)
    lab.queue.resume_jobs([id])
    lab.wait_state(other, State.COMPLETED)
