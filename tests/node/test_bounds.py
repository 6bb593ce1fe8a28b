"""Bounds of runs under a node: what a killed guard, or a killed node, leaves behind of them."""

import os

import psutil
import pytest

from queuectl import State
from queuectl.guard import cgroups
from tests.support import Lab, is_gone, wait_for

LONG = "echo $$ > {0}/j.pid; [ $QUEUECTL_ATTEMPT -gt 1 ] || sleep 1000"


def groups() -> set[str]:
    """Return the control groups of runs, where there can be any."""
    try:
        path = cgroups.find(os.getpid()).path
    except cgroups.NoGroupsError:
        return set()
    return {name for name in os.listdir(path) if name.startswith("queuectl.")}


@pytest.mark.parametrize("victim", ["guard", "node"])
def test_nothing_is_left_of_a_killed_one_and_the_job_runs_again(lab: Lab, victim: str) -> None:
    before = groups()
    id = lab.queue.enqueue(LONG.format(lab.folder), cpu_time="10m", nice=3, max_retries=0).id
    node = lab.node()
    pid = lab.pid_in("j.pid")
    assert psutil.Process(pid).nice() == 3
    if victim == "guard":
        (guard,) = psutil.Process(node.pid).children()
        guard.kill()
    else:
        node.kill()
    wait_for(lambda: is_gone(pid), "the run to be gone")
    if victim == "node":
        lab.node()
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.attempts, job.crashes) == (2, 1)
    wait_for(lambda: groups() <= before, "the control groups to be gone")


def test_who_has_used_up_its_time_is_dead_of_that(lab: Lab) -> None:
    id = lab.queue.enqueue("while :; do :; done", cpu_time="1s", max_retries=0).id
    lab.node()
    job = lab.wait_state(id, State.DEAD)
    (run,) = lab.queue.attempts(id)
    assert (run.outcome, job.reason) == (
        "out of CPU time",
        "out of CPU time: ended after 1s of it; no retries allowed",
    )
    assert run.cpu_ms is not None
    assert run.cpu_ms >= 1_000
