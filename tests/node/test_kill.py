"""Killing means gone: timeouts and cancellations end everything a job has started."""

import os
import signal

import pytest

from queuectl import State
from tests.support import Lab, is_gone, wait_for

ESCAPES = {
    "grandchild": "sh -c 'echo $$ > {pid}; sleep 1000' & wait",
    "setsid": "setsid sh -c 'echo $$ > {pid}; sleep 1000' & sleep 1000",
    # Its parent is gone.
    "daemon": "setsid sh -c \"sh -c 'echo \\$\\$ > {pid}; sleep 1000' &\"; sleep 1000",
    "stubborn": "trap '' TERM INT HUP; echo $$ > {pid}; while :; do sleep 0.1; done",
}


def escape(lab: Lab, kind: str) -> str:
    return ESCAPES[kind].format(pid=lab.folder / "escaped.pid")


@pytest.mark.parametrize("kind", ESCAPES)
def test_a_timeout_ends_everything(lab: Lab, kind: str) -> None:
    lab.queue.set_setting("kill_grace", "300ms")
    id = lab.queue.enqueue(escape(lab, kind), timeout="1500ms", max_retries=0).id
    lab.node()
    pid = lab.pid_in("escaped.pid")
    job = lab.wait_state(id, State.DEAD)
    assert is_gone(pid)
    assert job.reason == "timed out after 1.5s; no retries allowed"
    assert lab.queue.attempts(id)[0].outcome == "timed out"


@pytest.mark.parametrize("kind", ESCAPES)
def test_cancelling_ends_everything(lab: Lab, kind: str) -> None:
    lab.queue.set_setting("kill_grace", "300ms")
    id = lab.queue.enqueue(escape(lab, kind)).id
    lab.node()
    pid = lab.pid_in("escaped.pid")
    asked = lab.run("cancel", id, "--reason", "not needed")
    assert asked.returncode == 0, asked.stderr
    job = lab.wait_state(id, State.CANCELLED)
    assert is_gone(pid)
    assert (job.reason or "").endswith(": not needed")
    assert job.failures == 0


def test_leftovers_go_when_the_job_ends(lab: Lab) -> None:
    pid_file = lab.folder / "left.pid"
    id = lab.queue.enqueue(f"sleep 1000 & echo $! > {pid_file}; echo hi").id
    lab.node()
    job = lab.wait_state(id, State.COMPLETED)
    assert lab.queue.output(id).stdout == b"hi\n"
    assert is_gone(lab.pid_in("left.pid"))
    assert (job.duration_ms or 0) < 100_000


def test_what_a_job_inherits(lab: Lab) -> None:
    command = (
        "ls /proc/self/fd | wc -l; cat; ps -o sid= -p $$ | tr -d ' '; echo $$;"
        " kill -l $(( 128 + 13 )) >/dev/null; pwd; echo $QUEUECTL_JOB_ID $QUEUECTL_ATTEMPT"
        " $QUEUECTL_QUEUE $QUEUECTL_DB $COLOUR"
    )
    job = lab.queue.enqueue(command, id="who", queue="q", cwd="/usr", env={"COLOUR": "red"})
    lab.node()
    lab.wait_state(job.id, State.COMPLETED)
    fds, session, pid, cwd, facts = lab.queue.output("who").stdout.decode().splitlines()
    assert fds == "4"  # stdin, stdout, stderr, and the folder that ls has open
    assert session == pid
    assert cwd == "/usr"
    assert facts == f"who 1 q sqlite:{lab.db} red"


def test_a_job_has_the_default_signals(lab: Lab) -> None:
    id = lab.queue.enqueue("grep SigIgn /proc/self/status; grep SigBlk /proc/self/status").id
    lab.node()
    lab.wait_state(id, State.COMPLETED)
    _, ignored, _, blocked = lab.queue.output(id).stdout.decode().split()
    # The C library itself ignores its two internal signals, 32 and 33, in all it spawns.
    assert (int(ignored, 16) & ~0x180000000, int(blocked, 16)) == (0, 0)


def test_a_foreign_signal_is_a_failure_with_its_name(lab: Lab) -> None:
    id = lab.queue.enqueue("kill -SEGV $$", max_retries=0).id
    lab.node()
    job = lab.wait_state(id, State.DEAD)
    assert (job.error or "").startswith("killed by SIGSEGV")
    assert lab.queue.attempts(id)[0].signal == signal.SIGSEGV
    assert job.exit_code is None


def test_no_zombies_and_no_descriptors_pile_up(lab: Lab) -> None:
    node = lab.node(count=4)
    for n in range(200):
        lab.queue.enqueue(f"echo {n}; (sleep 0.01 &) ; true")
    wait_for(lambda: lab.queue.status().states[State.COMPLETED] == 200, "200 jobs")

    def zombies() -> list[str]:
        stats = lab.run_shell(f"ps -o stat= --ppid {node.pid}").split()
        return [stat for stat in stats if stat.startswith("Z")]

    wait_for(lambda: not zombies(), "the dead to be buried")
    # The lease has a connection of its own, which is opened for the first renewal.
    wait_for(lambda: lab.queue.store.nodes.all()[0].beat > 0, "a renewal")

    def descriptors() -> int:
        return len(os.listdir(f"/proc/{node.pid}/fd"))

    before = descriptors()
    for n in range(200):
        lab.queue.enqueue(f"echo {n}")
    wait_for(lambda: lab.queue.status().states[State.COMPLETED] == 400, "400 jobs")
    wait_for(lambda: descriptors() <= before, "as many descriptors as before")
