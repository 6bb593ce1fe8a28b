"""Jobs that are claimed ahead: run once and in order, and released when they can't run soon."""

import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from queuectl import State
from queuectl.job import Job
from tests.contract.tools import forget
from tests.support import Eager, Lab, children_of, wait_for


class EagerLab(Eager, Lab):
    """A lab whose nodes claim ahead as soon as one run is over."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[EagerLab]:
    with_lab = EagerLab(tmp_path)
    yield with_lab
    with_lab.close()


def begin_long(lab: Lab, behind: int) -> list[str]:
    """Start a node, and enqueue a long job for its only worker and so many more; returns their ids.

    The long one goes on until there is a file `go`.
    """
    lab.node()
    lab.queue.wait(lab.queue.enqueue("true").id)
    # In one transaction, so that they are claimed together.
    long = f"touch {lab.folder}/begun; until [ -e {lab.folder}/go ]; do sleep 0.01; done"
    short = f"echo $QUEUECTL_JOB_ID $QUEUECTL_ATTEMPT >> {lab.folder}/ran"
    batch = lab.queue.enqueue_many([long, *[short] * behind])
    wait_for((lab.folder / "begun").exists, "the long job")
    return list(batch.ids)


def hold_up(lab: Lab, behind: int) -> list[str]:
    """The same, and return once they are in line behind it."""
    ids = begin_long(lab, behind)
    wait_for(lambda: len(lab.queue.list(state=State.PROCESSING)) == 1 + behind, "a line")
    return ids


def started(lab: Lab, ids: list[str], node: int = 0) -> list[str]:
    """Return which of these jobs a node says it has started, in this order."""
    words = [line.split() for line in lab.log(node).splitlines()]
    told = [line[line.index("started") - 1] for line in words if "started" in line]
    return [id for id in told if id in ids]


def wait_started(lab: Lab, ids: list[str], expected: list[str], node: int = 0) -> None:
    """Wait until a node has said that it has started these, and no others.

    It writes its log after what has happened is stored.
    """
    wait_for(lambda: len(started(lab, ids, node)) >= len(expected), "the log to tell")
    assert started(lab, ids, node) == expected


def jobs(lab: Lab, ids: list[str]) -> list[Job]:
    return [lab.queue.get(id) for id in ids]


def test_all_are_run_once_and_in_order(lab: Lab) -> None:
    ids = hold_up(lab, behind=12)
    assert [node["running"] for node in lab.queue.nodes()] == [1]
    (lab.folder / "go").touch()
    lab.queue.wait(*ids)
    assert lab.lines("ran") == [f"{id} 1" for id in ids[1:]]
    assert all(job.attempts == 1 for job in jobs(lab, ids))
    wait_started(lab, ids, ids)


def test_the_log_tells_of_each_run_from_its_start_to_its_end(lab: Lab) -> None:
    """However many are begun before it is stored how the first of them ended."""
    ids = hold_up(lab, behind=12)
    (lab.folder / "go").touch()
    lab.queue.wait(*ids)
    wait_for(lambda: f"job {ids[-1]} completed" in lab.log(), "the log to tell")
    told = re.findall(r" worker 1: job (\w+) (started|completed)", lab.log())
    assert [line for line in told if line[0] in ids] == [
        (id, event) for id in ids for event in ("started", "completed")
    ]


def test_those_behind_a_long_job_are_released_for_others(lab: EagerLab) -> None:
    lab.behind_for = "0.2"
    ids = begin_long(lab, behind=6)
    # That they were in line is over too soon to be seen for sure, but it is said.
    wait_for(lambda: lab.log().count("released") == 6, "all to be released")
    assert [(job.attempts, job.node) for job in jobs(lab, ids[1:])] == [(0, None)] * 6
    lab.node()
    lab.queue.wait(*ids[1:])
    assert sorted(lab.lines("ran")) == sorted(f"{id} 1" for id in ids[1:])
    (lab.folder / "go").touch()
    lab.queue.wait(ids[0])
    wait_started(lab, ids, ids[:1])
    wait_started(lab, ids, ids[1:], node=1)
    assert lab.log().count("released") == 6


def test_a_node_that_drains_releases_them(lab: Lab) -> None:
    ids = hold_up(lab, behind=3)
    lab.nodes[0].send_signal(signal.SIGTERM)
    wait_for(lambda: all(job.state == State.PENDING for job in jobs(lab, ids[1:])), "all released")
    assert lab.queue.get(ids[0]).state == State.PROCESSING
    (lab.folder / "go").touch()
    assert lab.nodes[0].wait(60) == 0
    assert [job.state for job in jobs(lab, ids)] == [State.COMPLETED] + [State.PENDING] * 3
    assert lab.lines("ran") == []


def test_one_in_line_can_be_cancelled(lab: Lab) -> None:
    ids = hold_up(lab, behind=2)
    lab.queue.cancel(ids[1])
    cancelled = lab.wait_state(ids[1], State.CANCELLED)
    assert cancelled.finished_at is not None
    (lab.folder / "go").touch()
    lab.queue.wait(ids[2])
    assert lab.lines("ran") == [f"{ids[2]} 1"]


def test_only_what_was_begun_counts_a_crash_when_the_node_is_killed(lab: Lab) -> None:
    ids = hold_up(lab, behind=3)
    lab.nodes[0].kill()
    lab.nodes[0].wait(60)
    (lab.folder / "go").touch()
    lab.node()
    lab.queue.wait(*ids)
    assert [job.crashes for job in jobs(lab, ids)] == [1, 0, 0, 0]
    assert [job.attempts for job in jobs(lab, ids)] == [2, 1, 1, 1]
    assert sorted(lab.lines("ran")) == sorted(f"{id} 1" for id in ids[1:])


def test_only_what_was_begun_counts_a_crash_when_the_guard_is_killed(lab: Lab) -> None:
    ids = hold_up(lab, behind=3)
    [guard] = children_of(lab.nodes[0].pid)
    os.kill(guard, signal.SIGKILL)
    (lab.folder / "go").touch()
    lab.queue.wait(*ids)
    assert [job.crashes for job in jobs(lab, ids)] == [1, 0, 0, 0]
    assert [job.attempts for job in jobs(lab, ids)] == [2, 1, 1, 1]
    wait_for(lambda: len(started(lab, ids)) == 5, "the log to tell")
    assert sorted(started(lab, ids)) == sorted([ids[0], *ids])


def test_what_was_begun_under_a_guard_that_is_gone_is_not_forgotten(lab: Lab) -> None:
    """It was killed, and then the node, too, before it could write that down."""
    ids = hold_up(lab, behind=3)
    node = lab.nodes[0].pid
    [before] = children_of(node)

    def kill_both() -> None:
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: has_board(children_of(node), before), "another guard with a board")
        lab.nodes[0].kill()
        lab.nodes[0].wait(60)

    # Nobody else can write meanwhile.
    lab.queue.store.transact(kill_both)
    (lab.folder / "go").touch()
    lab.node()
    lab.queue.wait(*ids)
    assert [job.crashes for job in jobs(lab, ids)] == [1, 0, 0, 0]
    assert [job.attempts for job in jobs(lab, ids)] == [2, 1, 1, 1]


def has_board(guards: Sequence[int], before: int) -> bool:
    """Tell whether the only guard is another one than before, and keeps a board."""
    if len(guards) != 1 or guards[0] == before:
        return False
    with suppress(OSError):
        folder = f"/proc/{guards[0]}/fd"
        return any("board.1" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
    return False


def test_only_what_was_begun_counts_a_crash_when_the_lease_is_lost(lab: Lab) -> None:
    ids = hold_up(lab, behind=3)
    [node] = lab.queue.store.nodes.all()
    forget(lab.queue.store, node.id)
    wait_for(lambda: "Goes on as node" in lab.log(), "the node to start over")
    (lab.folder / "go").touch()
    lab.queue.wait(*ids)
    assert [job.crashes for job in jobs(lab, ids)] == [1, 0, 0, 0]
