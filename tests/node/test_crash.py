"""A crash is not a failure of the job, and nothing of it is left behind."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from queuectl import State
from queuectl.job import Transition
from tests.contract.tools import apply, forget
from tests.support import Lab, is_asleep, is_gone, wait_for


def long_job(lab: Lab, name: str) -> str:
    """A job that notes its pid and attempt, and then hangs the first time it runs."""
    ledger = lab.folder / "ledger"
    return (
        f"echo {name} $QUEUECTL_ATTEMPT >> {ledger}; echo started;"
        # Last, as whoever finds it may kill the job at once.
        f" echo $$ > {lab.folder}/{name}.pid; [ $QUEUECTL_ATTEMPT -gt 1 ] || sleep 1000"
    )


def test_a_killed_node_leaves_nothing_and_its_jobs_run_again_elsewhere(lab: Lab) -> None:
    ids = [lab.queue.enqueue(long_job(lab, f"j{n}"), max_retries=0).id for n in range(8)]
    victim = lab.node(count=8)
    pids = [lab.pid_in(f"j{n}.pid") for n in range(8)]
    lab.node(count=8)
    victim.kill()
    wait_for(lambda: all(is_gone(pid) for pid in pids), "the killed node's jobs to be gone")
    for id in ids:
        job = lab.wait_state(id, State.COMPLETED)
        assert (job.attempts, job.failures, job.crashes) == (2, 0, 1)
        first, second = lab.queue.attempts(id)
        assert first.outcome == "lost"
        assert "died" in (first.error or "")
        assert second.outcome == "exited"
        assert lab.queue.output(id, 1).stdout == b"started\n"
        assert [event.kind for event in lab.queue.events(id)] == ["rescue"]
    assert sorted(lab.lines("ledger")) == sorted(f"j{n} {a}" for n in range(8) for a in (1, 2))
    assert len(lab.queue.nodes()) == 1


def test_the_next_node_rescues_what_a_dead_one_held(lab: Lab) -> None:
    id = lab.queue.enqueue(long_job(lab, "j"), max_retries=0).id
    victim = lab.node()
    pid = lab.pid_in("j.pid")
    victim.kill()
    wait_for(lambda: is_gone(pid), "the orphan to be gone without any other node")
    victim.wait()
    assert lab.queue.get(id).state == State.PROCESSING
    lab.node()
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.attempts, job.failures, job.crashes) == (2, 0, 1)


def test_a_stopped_node_loses_its_jobs_and_changes_nothing_when_it_goes_on(lab: Lab) -> None:
    id = lab.queue.enqueue(long_job(lab, "j"), max_retries=0).id
    # Only this one's lease is short: a busy machine may hold up the other for longer.
    lab.extra_env = {"QUEUECTL_LEASE": "1s", "QUEUECTL_HEARTBEAT": "200ms"}
    sleeper = lab.node()
    pid = lab.pid_in("j.pid")
    old = lab.queue.nodes()[0]["id"]
    lab.extra_env = {}
    lab.node()
    sleeper.send_signal(signal.SIGSTOP)
    wait_for(lambda: is_gone(pid), "the stopped node's run to be killed by its guard")
    done = lab.wait_state(id, State.COMPLETED)
    assert (done.attempts, done.crashes, done.failures) == (2, 1, 0)
    sleeper.send_signal(signal.SIGCONT)
    wait_for(lambda: "Goes on as node" in lab.log(0), "the node to start over")
    assert lab.queue.get(id) == done
    assert old not in {node["id"] for node in lab.queue.nodes()}
    # And it works again, under its new name.
    others = {n["id"] for n in lab.queue.nodes()}
    wait_for(lambda: len({n["id"] for n in lab.queue.nodes()} | others) == 2, "two nodes")
    again = lab.queue.enqueue("true").id
    lab.wait_state(again, State.COMPLETED)


def test_a_node_that_waits_for_its_runs_to_be_gone_is_at_rest(lab: Lab) -> None:
    lab.queue.enqueue(long_job(lab, "j"))
    node = psutil.Process(lab.node().pid)
    lab.pid_in("j.pid")
    (guard,) = node.children()
    guard.suspend()
    forget(lab.queue.store, lab.queue.nodes()[0]["id"])
    wait_for(lambda: "The lease was lost" in lab.log(), "the node to notice")
    lab.queue.enqueue("true")
    wait_for(lambda: all(is_asleep(node.pid) for _ in range(300)), "the node to be at rest")
    assert "Goes on as node" not in lab.log()
    guard.resume()
    wait_for(lambda: "Goes on as node" in lab.log(), "the node to start over")


def test_a_job_that_kills_its_node_each_time_is_dead_after_max_crashes(lab: Lab) -> None:
    # The node is the parent of the job's parent.
    killer = "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 1000"
    poison = lab.queue.enqueue(killer, max_retries=5).id
    for _ in range(3):
        node = lab.node()
        node.wait(60)
        assert node.returncode == -signal.SIGKILL
    good = lab.queue.enqueue("true").id
    lab.node()
    lab.wait_state(good, State.COMPLETED)
    job = lab.wait_state(poison, State.DEAD)
    assert (job.attempts, job.failures, job.crashes) == (3, 0, 3)
    assert "3 runs were lost with their workers" in (job.reason or "")


def test_a_job_that_kills_its_guard_counts_as_a_crash_and_the_node_goes_on(lab: Lab) -> None:
    node = lab.node(count=2)
    said = "echo run $QUEUECTL_ATTEMPT; echo oh >&2"
    poison = lab.queue.enqueue(f"{said}; kill -9 $PPID; sleep 1000", max_retries=5).id
    job = lab.wait_state(poison, State.DEAD)
    assert (job.attempts, job.failures, job.crashes) == (3, 0, 3)
    outputs = [lab.queue.output(poison, attempt) for attempt in (1, 2, 3)]
    assert [output.stdout for output in outputs] == [b"run 1\n", b"run 2\n", b"run 3\n"]
    assert {output.stderr for output in outputs} == {b"oh\n"}
    good = lab.queue.enqueue("echo fine").id
    lab.wait_state(good, State.COMPLETED)
    assert node.poll() is None


def test_what_another_guard_looks_after_goes_on(lab: Lab) -> None:
    node = lab.node(count=2)
    pair = [
        lab.queue.enqueue(f"echo $PPID > {lab.folder}/$QUEUECTL_JOB_ID; exec sleep 1000").id
        for _ in "ab"
    ]
    files = [lab.folder / id for id in pair]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files), "both to run")
    parents = [int(file.read_text()) for file in files]
    assert len(set(parents)) == 2
    os.kill(parents[0], signal.SIGKILL)
    wait_for(lambda: lab.queue.get(pair[0]).attempts == 2, "the first to run again")
    assert [lab.queue.get(id).crashes for id in pair] == [1, 0]
    assert lab.queue.get(pair[1]).attempts == 1
    assert psutil.Process(parents[1]).children()
    assert node.poll() is None


def test_nobody_waits_for_a_guard_that_takes_nothing(lab: Lab) -> None:
    node = lab.node(count=8)
    wait_for(lambda: len(psutil.Process(node.pid).children()) == 2, "both guards to be alone")
    stopped, other = (child.pid for child in psutil.Process(node.pid).children())
    os.kill(stopped, signal.SIGSTOP)
    try:
        # One for each worker; the share of that guard is more than fits into a socket.
        lab.queue.pause("default")
        big = [lab.queue.enqueue(f": {'x' * 100_000}").id for _ in range(8)]
        lab.queue.resume("default")
        for _ in range(5):
            lab.wait_state(lab.queue.enqueue("true").id, State.COMPLETED)
        assert lab.queue.status().states[State.PROCESSING] >= 4
    finally:
        os.kill(stopped, signal.SIGCONT)
    for id in big:
        lab.wait_state(id, State.COMPLETED)
    assert {lab.queue.get(id).attempts for id in big} == {1}
    assert {child.pid for child in psutil.Process(node.pid).children()} == {stopped, other}


GOOD = """touch $QUEUECTL_JOB_ID.$QUEUECTL_ATTEMPT
case $QUEUECTL_ATTEMPT in
  1) until [ -e bad.2 ]; do sleep 0.02; done ;;
  2) until [ -e bad.3 ]; do sleep 0.02; done ;;
esac"""
BAD = """begun() {{ ls | grep -c "^good.*[.]$1$"; }}
case $QUEUECTL_ATTEMPT in
  1) until [ $(begun 1) -ge 3 ]; do sleep 0.02; done ;;
  2) until [ $(begun 2) -ge {beside} ]; do sleep 0.02; done ;;
esac
touch bad.$QUEUECTL_ATTEMPT
{poison}; sleep 1000"""


@pytest.mark.parametrize(
    ("poison", "beside"),
    # Of those that run beside it, half have the same guard.
    [("kill -9 $PPID", 1), ("kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)", 3)],
    ids=["guard", "node"],
)
def test_nobody_dies_of_what_ran_beside_it(lab: Lab, poison: str, beside: int) -> None:
    here = str(lab.folder)
    good = [lab.queue.enqueue(GOOD, id=f"good-{n}", cwd=here).id for n in range(3)]
    # It waits until they run, so they go down with it, twice. Then they are done quickly, or alone.
    bad = lab.queue.enqueue(BAD.format(poison=poison, beside=beside), id="bad", cwd=here).id
    good += [lab.queue.enqueue("true").id for _ in range(10)]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    try:
        node = lab.node(count=4)
    finally:
        os.sched_setaffinity(0, cores)

    def over() -> bool:
        nonlocal node
        if node.poll() is not None:
            node = lab.node(count=4)
        states = lab.queue.status().states
        return not states[State.PENDING] and not states[State.PROCESSING]

    wait_for(over, "all jobs to be over")
    job = lab.queue.get(bad)
    assert (job.state, job.attempts, job.failures, job.crashes) == (State.DEAD, 3, 0, 3)
    assert [lab.queue.get(id).state for id in good] == [State.COMPLETED] * 13
    assert max(lab.queue.get(id).crashes for id in good) == 2


def test_a_job_of_a_node_nobody_knows_is_not_stuck(lab: Lab) -> None:
    id = lab.queue.enqueue(long_job(lab, "j"), max_retries=0).id
    node = lab.node()
    pid = lab.pid_in("j.pid")
    os.kill(node.pid, signal.SIGKILL)
    node.wait()
    wait_for(lambda: is_gone(pid), "the orphan to be gone")
    forget(lab.queue.store, lab.queue.nodes()[0]["id"])
    lab.node()
    assert lab.wait_state(id, State.COMPLETED).crashes == 1


def test_the_spool_is_empty_when_all_is_done(lab: Lab) -> None:
    id = lab.queue.enqueue(long_job(lab, "j"), max_retries=0).id
    lab.node()
    lab.pid_in("j.pid")
    lab.nodes[0].kill()
    lab.nodes[0].wait()
    last = lab.node("--drain")
    last.wait(60)
    assert lab.queue.get(id).state == State.COMPLETED
    assert list(Path(lab.queue.store.folder.spool).iterdir()) == []


def test_a_node_that_makes_room_still_sees_what_becomes_due(lab: Lab) -> None:
    gate = lab.folder / "gate"
    long = lab.queue.enqueue(f"while [ ! -e {gate} ]; do sleep 0.05; done").id
    # Nothing wakes the node by chance.
    lab.extra_env = {"QUEUECTL_LEASE": "200s", "QUEUECTL_HEARTBEAT": "100s"}
    lab.node(count=3)
    lab.wait_state(long, State.PROCESSING)
    suspect = lab.queue.enqueue("true", delay=3600)
    crashed = Transition(
        state=State.PENDING, failures=0, crashes=2, run_at=lab.queue.store.clock.now()
    )
    assert apply(lab.queue.store, suspect, crashed, now=lab.queue.store.clock.now())
    urgent = lab.queue.enqueue("true", priority=5, delay=1)
    lab.wait_state(urgent.id, State.COMPLETED)
    # And who may not be alone for long enough runs beside others.
    lab.wait_state(suspect.id, State.COMPLETED)
    assert lab.queue.get(long).state == State.PROCESSING
    gate.touch()
    lab.wait_state(long, State.COMPLETED)
