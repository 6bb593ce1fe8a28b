"""A host whose clock is an hour off: it is the clock of the server that counts."""

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from time import time

import pytest

from queuectl import State
from tests.faults.places import Place, stop_nodes
from tests.servers.install import program
from tests.support import Lab, lab_in, wait_for

HOUR = 3_600
SETTINGS = {"QUEUECTL_LEASE": "2s", "QUEUECTL_HEARTBEAT": "500ms"}
NEAR = 60
"""Seconds: much less than an hour, and much more than a slow machine needs."""


def faked(offset: str, folder: Path) -> dict[str, str]:
    """Return the environment of a process whose wall clock is off; its steady clocks aren't."""
    program("faketime")
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    # The library refuses to sleep until a time of a clock that it leaves alone, as Python does.
    (folder / "sitecustomize.py").write_text(
        "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds)\n"
    )
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": offset,
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
    }


@pytest.fixture(params=["+1h", "-1h"])
def wrong(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose nodes and commands live an hour off; the test itself doesn't."""
    with lab_in(tmp_path, place.url) as lab:
        lab.extra_env = {
            **faked(str(request.param), tmp_path),
            **SETTINGS,
        }
        off = HOUR if request.param == "+1h" else -HOUR
        told = subprocess.check_output(["date", "+%s"], env=lab.env)
        assert abs(int(told) - time() - off) < NEAR
        yield lab


def shown(lab: Lab, id: str) -> dict[str, float]:
    """Return the times that the command shows, in seconds from now by our own clock."""
    done = lab.run("show", id, "--json")
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    return {
        name: datetime.fromisoformat(fields[name]).timestamp() - time()
        for name in ("created_at", "run_at", "updated_at", "started_at", "finished_at")
        if fields[name] is not None
    }


def test_a_node_whose_clock_is_off_does_everything_in_time(wrong: Lab) -> None:
    lab = wrong
    lab.node("--queue", "wrong", count=4)
    faked_env = lab.extra_env
    lab.extra_env = SETTINGS
    lab.node("--queue", "right")
    lab.extra_env = faked_env
    for queue in ("wrong", "right"):
        lab.queue.enqueue(
            f"echo $QUEUECTL_ATTEMPT >> {lab.folder}/ledger;"
            f" while [ ! -e {lab.folder}/over ]; do sleep 0.05; done",
            queue=queue,
            id=f"on-{queue}",
        )
    wait_for(lambda: len(lab.lines("ledger")) == 2, "both jobs to start")
    beats = {node.id: node.beat for node in lab.queue.store.nodes.all()}

    late, again = one_that_times_out_and_one_that_is_tried_again(lab)
    due_times_and_times_shown_are_the_servers(lab)
    assert str(lab.wait_state(late, State.DEAD).reason).startswith("timed out after")
    assert lab.wait_state(again, State.COMPLETED).attempts == 2

    # Longer than a lease, in which each of them could take the other for dead.
    wait_for(
        lambda: all(node.beat > beats.get(node.id, 0) + 3 for node in lab.queue.store.nodes.all()),
        "renewals",
    )
    told = json.loads(lab.run("worker", "list", "--json").stdout)
    assert [node["alive"] for node in told] == [True, True]
    (lab.folder / "over").touch()
    for queue in ("wrong", "right"):
        assert lab.wait_state(f"on-{queue}", State.COMPLETED).attempts == 1
    assert lab.lines("ledger") == ["1", "1"]
    assert " rescued" not in stop_nodes(lab)


def due_times_and_times_shown_are_the_servers(lab: Lab) -> None:
    """A delayed job runs at its time, and all times that are shown are near ours."""
    done = lab.run("enqueue", "-q", "-Q", "wrong", "--delay", "1s", "--expire", "1h", "sleep 0.2")
    assert done.returncode == 0, done.stderr
    (lab.folder / "lines").write_text("true\ntrue\n")
    lines = lab.run("enqueue", "-q", "-Q", "wrong", "--run-at", "+1s", "--lines", "lines")
    job = lab.wait_state(done.stdout.strip(), State.COMPLETED)
    assert job.run_at - job.created_at == 1_000
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.started_at >= job.run_at
    assert 200 <= job.finished_at - job.started_at < NEAR * 1000
    for id in lines.stdout.split():
        line = lab.wait_state(id, State.COMPLETED)
        assert 0 <= line.run_at - line.created_at <= 1_000
    times = shown(lab, job.id)
    assert len(times) == 5
    assert all(-NEAR < seconds < 5 for seconds in times.values())


def one_that_times_out_and_one_that_is_tried_again(lab: Lab) -> tuple[str, str]:
    """Enqueue a job that takes longer than it may, and one that fails once; return their ids."""
    late = lab.run(
        *("enqueue", "-q", "-Q", "wrong", "-t", "500ms", "--max-retries", "0", "sleep 100")
    ).stdout.strip()
    again = lab.run(
        *("enqueue", "-q", "-Q", "wrong", "--retry-delay", "500ms", "--max-retries", "1"),
        f"echo x >> {lab.folder}/tries; [ $(wc -l < {lab.folder}/tries) = 2 ]",
    ).stdout.strip()
    return late, again
