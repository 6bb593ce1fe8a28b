"""Drain, release, exit: by signal, by `worker stop`, at any moment; nothing is lost."""

import os
import pty
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest

from queuectl import State
from tests.support import Lab, is_gone, wait_for


def gated(lab: Lab, name: str = "gate") -> str:
    """A job that runs until the test creates a file."""
    return (
        f"echo $$ > {lab.folder}/{name}.pid;"
        f" while [ ! -e {lab.folder}/{name}.open ]; do sleep 0.02; done; echo through"
    )


def open_gate(lab: Lab, name: str = "gate") -> None:
    (lab.folder / f"{name}.open").touch()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_drains(lab: Lab, stop: signal.Signals) -> None:
    running = lab.queue.enqueue(gated(lab)).id
    waiting = lab.queue.enqueue("echo later").id
    node = lab.node()
    lab.pid_in("gate.pid")
    node.send_signal(stop)
    wait_for(lambda: f"finishing {running}" in lab.log(), "the node to say what it waits for")
    open_gate(lab)
    assert node.wait(60) == 0
    done = lab.queue.get(running)
    assert (done.state, done.attempts) == (State.COMPLETED, 1)
    assert lab.queue.get(waiting).state == State.PENDING
    assert lab.queue.get(waiting).attempts == 0
    assert lab.queue.nodes() == []


def test_a_terminal_that_closes_drains(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    command = lab.command("worker", "start", "--log", str(lab.folder / "node0.log"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, lab.env)
    lab.pid_in("gate.pid")
    # The kernel sends SIGHUP to the leader of the session.
    os.close(terminal)
    wait_for(lambda: f"finishing {id}" in lab.log(), "the node to say what it waits for")
    open_gate(lab)
    assert os.waitpid(pid, 0)[1] == 0
    assert (lab.queue.get(id).state, lab.queue.get(id).attempts) == (State.COMPLETED, 1)


def test_under_nohup_a_hangup_changes_nothing(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        node = lab.node()
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    lab.pid_in("gate.pid")
    node.send_signal(signal.SIGHUP)
    open_gate(lab)
    assert lab.wait_state(id, State.COMPLETED).attempts == 1
    assert "SIGHUP" not in lab.log()


def test_quit_releases_at_once(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab), max_retries=0).id
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    node.send_signal(signal.SIGQUIT)
    node.send_signal(signal.SIGQUIT)
    assert node.wait(60) == 0
    assert is_gone(pid)
    job = lab.queue.get(id)
    assert (job.state, job.attempts, job.failures, job.crashes) == (State.PENDING, 1, 0, 0)
    assert [attempt.outcome for attempt in lab.queue.attempts(id)] == ["released"]


FATAL = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE),
    *(signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP),
}
ORDERS = {
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
}


def test_what_means_nothing_harms_neither_the_node_nor_its_guards_nor_a_job(lab: Lab) -> None:
    wrote = "kill -USR1 $$ & trap 'echo heard' USR1; wait; trap - USR1;"
    id = lab.queue.enqueue(f"{wrote} grep -E 'Sig(Ign|Blk)' /proc/self/status; {gated(lab)}").id
    node = lab.node(count=2)
    lab.pid_in("gate.pid")
    guards = psutil.Process(node.pid).children()
    assert len(guards) == min(2, len(os.sched_getaffinity(0)))
    for number in sorted(signal.valid_signals() - FATAL - ORDERS):
        os.kill(node.pid, number)
    for guard in guards:
        for number in sorted(signal.valid_signals() - FATAL):
            os.kill(guard.pid, number)
    wait_for(lambda: "SIGTSTP: ignored" in lab.log(), "the node to say that it goes on")
    assert not any(is_gone(guard.pid) for guard in guards)
    open_gate(lab)
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.attempts, job.crashes) == (1, 0)
    after = lab.queue.enqueue("echo still here").id
    lab.wait_state(after, State.COMPLETED)
    heard, *masks = lab.queue.output(id).stdout.decode().splitlines()
    assert heard == "heard"
    # But for two that the C library has for itself, jobs get them all as they are by default.
    assert [int(mask.split()[1], 16) & ~0x180000000 for mask in masks[:2]] == [0, 0]


def test_usr2_opens_the_log_anew(lab: Lab) -> None:
    node = lab.node("--log", "my.log")
    log, moved = lab.folder / "my.log", lab.folder / "my.log.old"
    log.rename(moved)
    node.send_signal(signal.SIGUSR2)
    wait_for(lambda: log.exists() and "SIGUSR2" in log.read_text(), "the log to be there again")
    id = lab.queue.enqueue("true").id
    lab.wait_state(id, State.COMPLETED)
    wait_for(lambda: f"{id} completed" in log.read_text(), "the new log to tell")
    assert id not in moved.read_text()


@pytest.mark.parametrize("early", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_node_that_is_still_starting_outlives_it(lab: Lab, early: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # lets everybody in, and never answers
        port = server.getsockname()[1]
        lab.extra_env["QUEUECTL_DB"] = f"postgresql://nobody:x@127.0.0.1:{port}/nowhere"
        node = lab.start_node()
        with server.accept()[0]:
            node.send_signal(early)
            node.send_signal(signal.SIGTERM)
            assert node.wait(60) == -signal.SIGTERM


def test_the_second_signal_releases_unharmed(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab), max_retries=0).id
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    node.send_signal(signal.SIGTERM)
    wait_for(lambda: "finishing" in lab.log(), "the drain to begin")
    node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0
    assert is_gone(pid)
    job = lab.queue.get(id)
    assert (job.state, job.attempts, job.failures, job.crashes) == (State.PENDING, 1, 0, 0)
    assert [attempt.outcome for attempt in lab.queue.attempts(id)] == ["released"]
    open_gate(lab)
    lab.node("--drain").wait(60)
    assert lab.queue.get(id).state == State.COMPLETED


def test_the_third_signal_exits_and_nothing_is_lost(lab: Lab) -> None:
    stubborn = f"trap '' TERM; {gated(lab)}"
    id = lab.queue.enqueue(stubborn, max_retries=0).id
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    node.send_signal(signal.SIGINT)
    wait_for(lambda: "finishing" in lab.log(), "the drain to begin")
    node.send_signal(signal.SIGINT)
    wait_for(lambda: "releasing" in lab.log(), "the release to begin")
    node.send_signal(signal.SIGINT)
    assert node.wait(60) == 130
    wait_for(lambda: is_gone(pid), "the job to be gone")
    open_gate(lab)
    lab.node("--drain").wait(60)
    job = lab.queue.get(id)
    assert (job.state, job.attempts, job.failures, job.crashes) == (State.COMPLETED, 2, 0, 1)


def test_ctrl_c_reaches_the_node_and_not_its_jobs(lab: Lab) -> None:
    # The lab starts each node as the leader of a process group, as a terminal would.
    id = lab.queue.enqueue(f"trap 'echo interrupted' INT; {gated(lab)}").id
    node = lab.node()
    lab.pid_in("gate.pid")
    os.killpg(node.pid, signal.SIGINT)
    wait_for(lambda: "finishing" in lab.log(), "the drain to begin")
    open_gate(lab)
    assert node.wait(60) == 0
    assert lab.queue.output(id).stdout == b"through\n"
    assert lab.queue.get(id).state == State.COMPLETED


def test_ctrl_c_ends_a_node_that_is_still_starting(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # lets everybody in, and never answers
        port = server.getsockname()[1]
        lab.extra_env["QUEUECTL_DB"] = f"postgresql://nobody:x@127.0.0.1:{port}/nowhere"
        node = lab.start_node()
        with server.accept()[0]:
            node.send_signal(signal.SIGINT)
            assert node.wait(60) == 130
    assert lab.log() == ""


def test_worker_stop_waits_for_running_jobs(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    lab.pid_in("gate.pid")
    refused = lab.run("worker", "stop", "--timeout", "300ms")
    assert refused.returncode == 1
    assert id in refused.stderr
    open_gate(lab)
    stopped = lab.run("worker", "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert node.wait(60) == 0
    assert lab.queue.get(id).state == State.COMPLETED


def test_worker_stop_force_releases(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab), max_retries=0).id
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    assert lab.run("worker", "stop", "--force").returncode == 0
    assert node.wait(60) == 0
    assert is_gone(pid)
    assert lab.queue.get(id).state == State.PENDING


def test_worker_stop_with_nothing_running_says_so(lab: Lab) -> None:
    done = lab.run("worker", "stop")
    assert done.returncode == 0
    assert "No workers are running" in done.stdout + done.stderr


def test_an_idle_node_stops_at_once(lab: Lab) -> None:
    node = lab.node(count=3)
    node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0
    assert lab.queue.nodes() == []
    assert list(Path(lab.queue.store.folder.spool).iterdir()) == []


def test_signals_that_come_while_it_leaves_change_nothing(lab: Lab) -> None:
    node = lab.node()
    while node.poll() is None:
        node.send_signal(signal.SIGTERM)
        time.sleep(0.001)
    assert node.returncode == 0
    assert "nothing was left running" in lab.log()


def test_drain_waits_for_retries_and_delayed_jobs(lab: Lab) -> None:
    flaky = "[ $QUEUECTL_ATTEMPT -gt 1 ]"
    retried = lab.queue.enqueue(flaky, retry_delay="200ms").id
    delayed = lab.queue.enqueue("true", delay="500ms").id
    assert lab.node("--drain").wait(60) == 0
    assert lab.queue.get(retried).state == State.COMPLETED
    assert lab.queue.get(delayed).state == State.COMPLETED


def test_a_node_serves_only_its_queues(lab: Lab) -> None:
    mine = lab.queue.enqueue("true", queue="mine").id
    other = lab.queue.enqueue("true", queue="other", priority=9).id
    assert lab.node("--queue", "mine", "--drain").wait(60) == 0
    assert lab.queue.get(mine).state == State.COMPLETED
    assert lab.queue.get(other).state == State.PENDING
