"""A node that is restarted in place: same pid, same name, same runs; nothing lost, none twice."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import queuectl
from queuectl import Queue, State
from queuectl.errors import StoreFullError
from queuectl.facts import Event
from queuectl.guard.wire import DIALECT
from queuectl.node.handover import Again
from queuectl.node.restart import Installed, answer
from tests.contract.tools import transaction
from tests.support import Lab, is_gone, lab_in, wait_for

GOES_ON = f"queuectl {queuectl.__version__} goes on"


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A lab on each kind of store."""
    store = request.param
    url = None if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def gated(lab: Lab, name: str = "gate") -> str:
    """A job that writes down that it ran, and goes on until the test creates a file."""
    return (
        f"echo $QUEUECTL_ATTEMPT >> {lab.folder}/{name}.ran; echo $$ > {lab.folder}/{name}.pid;"
        f" echo before; while [ ! -e {lab.folder}/{name}.open ]; do sleep 0.02; done; echo after"
    )


def open_gate(lab: Lab, name: str = "gate") -> None:
    (lab.folder / f"{name}.open").touch()


def restarts(lab: Lab) -> int:
    """How often the node has gone on with what it had."""
    return lab.log().count(GOES_ON)


def restart(lab: Lab, node: "subprocess.Popen[bytes]") -> None:
    """Restart a node, and return when it goes on."""
    before = restarts(lab)
    node.send_signal(signal.SIGUSR1)
    wait_for_restart(lab, node, before)


def wait_for_restart(lab: Lab, node: "subprocess.Popen[bytes]", before: int = 0) -> None:
    wait_for(lambda: restarts(lab) > before or node.poll() is not None, "the node to go on")
    assert node.poll() is None, lab.log()


def name_of(lab: Lab) -> str:
    nodes = lab.queue.nodes()
    assert len(nodes) == 1, "a node that is restarted in place is one node"
    return str(nodes[0]["id"])


# -- with its runs --------------------------------------------------------------------------


def test_runs_go_on_under_the_same_pid_and_name(any_lab: Lab) -> None:
    lab = any_lab
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node(count=2)
    pid, name = lab.pid_in("gate.pid"), name_of(lab)
    restart(lab, node)
    assert f"{GOES_ON} with {id};" in lab.log()
    assert name_of(lab) == name
    # Its free worker takes new jobs, while the long one goes on.
    other = lab.queue.enqueue("echo short").id
    lab.wait_state(other, State.COMPLETED)
    assert not is_gone(pid)
    open_gate(lab)
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.attempts, job.crashes, job.node) == (1, 0, name)
    assert lab.lines("gate.ran") == ["1"]
    assert lab.queue.output(id).stdout == b"before\nafter\n"
    assert [run.outcome for run in lab.queue.attempts(id)] == ["exited"]
    node.terminate()
    assert node.wait(60) == 0
    assert lab.queue.nodes() == []


def test_one_worker_never_has_two_runs(lab: Lab) -> None:
    first, second = lab.queue.enqueue(gated(lab)).id, lab.queue.enqueue("echo second").id
    node = lab.node(count=1)
    lab.pid_in("gate.pid")
    restart(lab, node)
    restart(lab, node)
    assert lab.queue.get(second).state == State.PENDING
    open_gate(lab)
    done, after = lab.wait_state(first, State.COMPLETED), lab.wait_state(second, State.COMPLETED)
    assert done.finished_at is not None and after.started_at is not None
    assert after.started_at >= done.finished_at


def test_jobs_and_guards_see_nothing_of_it(lab: Lab) -> None:
    node = lab.node()
    restart(lab, node)
    (guard,) = psutil.Process(node.pid).children()
    id = lab.queue.enqueue("env; ls -l /proc/self/fd /proc/$PPID/fd").id
    lab.wait_state(id, State.COMPLETED)
    seen = lab.queue.output(id).stdout.decode()
    assert "HANDOVER" not in seen
    assert "memfd" not in seen
    files = [os.readlink(fd) for fd in Path(f"/proc/{node.pid}/fd").iterdir()]
    assert not any("memfd" in file for file in files)
    # Killed later, the guard is replaced, though this program never started it.
    guard.kill()
    wait_for(lambda: "A guard process is gone" in lab.log(), "the node to notice")
    id = lab.queue.enqueue("true").id
    lab.wait_state(id, State.COMPLETED)


def test_a_run_that_is_over_meanwhile_is_written_down(lab: Lab) -> None:
    ids = [lab.queue.enqueue(f"sleep 0.{n:02}; echo {n}").id for n in range(1, 40)]
    node = lab.node(count=8)
    wait_for(lambda: lab.queue.get(ids[0]).state != State.PENDING, "the first to start")
    restart(lab, node)
    for n, id in enumerate(ids, 1):
        assert lab.wait_state(id, State.COMPLETED).attempts == 1
        assert lab.queue.output(id).stdout == f"{n}\n".encode()


def test_a_cancel_that_comes_meanwhile_is_heard(lab: Lab) -> None:
    id = lab.queue.enqueue(f"trap '' TERM; {gated(lab)}").id
    lab.extra_env["QUEUECTL_KILL_GRACE"] = "100ms"
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    node.send_signal(signal.SIGUSR1)
    lab.queue.cancel(id)
    lab.wait_state(id, State.CANCELLED)
    assert is_gone(pid)
    wait_for_restart(lab, node)


def test_a_command_in_a_file_is_removed_after_the_run(lab: Lab) -> None:
    id = lab.queue.enqueue(f"{gated(lab)} # {'x' * 200_000}").id
    node = lab.node()
    lab.pid_in("gate.pid")
    restart(lab, node)
    open_gate(lab)
    lab.wait_state(id, State.COMPLETED)
    spool = Path(lab.queue.store.folder.spool)
    wait_for(lambda: not list(spool.glob("*/*.sh")), "the file to be gone")


def test_timeouts_go_on(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab), timeout="3s", max_retries=0).id
    node = lab.node()
    lab.pid_in("gate.pid")
    restart(lab, node)
    assert lab.wait_state(id, State.DEAD).reason is not None
    (run,) = lab.queue.attempts(id)
    assert run.outcome == "timed out"
    assert run.duration_ms >= 3_000


def test_thousands_of_short_jobs_and_many_restarts(any_lab: Lab) -> None:
    lab = any_lab
    count = 2_000
    witness = lab.folder / "witness"
    lab.queue.enqueue_many(
        [f"echo {n} $QUEUECTL_ATTEMPT >> {witness}; echo out {n}" for n in range(count)]
    )
    node = lab.node(count=4)
    signals = 0
    while lab.queue.status().states[State.COMPLETED] < count:
        if signals < 20:
            node.send_signal(signal.SIGUSR1)
            signals += 1
        time.sleep(0.15)
        assert node.poll() is None, lab.log()
    assert sorted(lab.lines("witness")) == sorted(f"{n} 1" for n in range(count))
    jobs = lab.queue.list(limit=None)
    assert {(job.state, job.attempts, job.crashes) for job in jobs} == {(State.COMPLETED, 1, 0)}
    assert {job.node for job in jobs} == {name_of(lab)}
    assert restarts(lab) >= 1
    for job in jobs[::97]:
        assert job.command is not None
        written = job.command.rpartition(" ")[2]
        assert lab.queue.output(job.id).stdout == f"out {written}\n".encode()


def test_a_drain_node_still_ends_when_nothing_is_left(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node("--drain")
    lab.pid_in("gate.pid")
    restart(lab, node)
    open_gate(lab)
    assert node.wait(60) == 0
    assert lab.queue.get(id).state == State.COMPLETED
    assert "Nothing left to do" in lab.log()


def test_it_serves_what_it_served(lab: Lab) -> None:
    node = lab.node("--exclude", "video", "--exclude", "a:7")
    restart(lab, node)
    assert lab.log().count(" for all queues but video, a:7, ") == 2
    lab.queue.enqueue("true", queue="video")
    id = lab.queue.enqueue("true", queue="mail").id
    wait_for(lambda: lab.queue.get(id).state == State.COMPLETED, "the job that it serves")
    assert lab.queue.status().unserved == {"video": 1}


def test_it_says_anew_what_it_handles(lab: Lab) -> None:
    options = lab.folder / "node.toml"
    options.write_text('exec = ["mail=true", "photo=true"]\n')
    node = lab.node("-f", str(options))
    options.write_text('exec = ["mail=true", "bill=true"]\n')
    restart(lab, node)
    assert sorted(lab.queue.nodes()[0]["handlers"]) == ["type:bill", "type:mail"]
    lab.queue.push("photo 1", b"", type="photo")
    lab.queue.push("bill 1", b"", type="bill")
    wait_for(lambda: lab.queue.get("bill 1").state == State.COMPLETED, "what it handles now")
    (reason,) = lab.queue.explain("photo 1")
    assert reason.cause == "no_handler"


def test_who_stops_it_calls_the_restart_off(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    lab.pid_in("gate.pid")
    node.send_signal(signal.SIGUSR1)
    node.send_signal(signal.SIGTERM)
    wait_for(lambda: f"finishing {id}" in lab.log(), "the node to drain")
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: "ignored, as this node is stopping" in lab.log(), "the node to say so")
    open_gate(lab)
    assert node.wait(60) == 0
    assert lab.queue.get(id).state == State.COMPLETED


def test_killed_on_the_way_its_runs_end_and_are_rescued(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    before = Path(f"/proc/{node.pid}/cmdline").read_bytes()
    node.send_signal(signal.SIGUSR1)
    # The program is another one, and has not come to look after its runs.
    wait_for(lambda: Path(f"/proc/{node.pid}/cmdline").read_bytes() != before, "the exec")
    node.kill()
    node.wait()
    wait_for(lambda: is_gone(pid), "the run to end with its node")
    open_gate(lab)
    lab.node("--drain").wait(60)
    job = lab.queue.get(id)
    assert (job.state, job.attempts, job.crashes) == (State.COMPLETED, 2, 1)
    assert lab.lines("gate.ran") == ["1", "2"]


def test_a_password_on_the_command_line_is_never_shown_again(
    postgres_url: str, tmp_path: Path
) -> None:
    secret = "s3cr3t-of-mine"
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}password={secret}"
    with lab_in(tmp_path, postgres_url) as lab:
        node = lab.node("--db", url)
        wait_for(lambda: secret not in shown(node.pid), "the password to be hidden")
        before = shown(node.pid)
        node.send_signal(signal.SIGUSR1)
        seen = set()
        while not restarts(lab) and node.poll() is None:
            for process in [node.pid, *(p.pid for p in psutil.Process(node.pid).children())]:
                seen.add(shown(process))
        assert node.poll() is None, lab.log()
        assert not any(secret in line for line in seen)
        assert shown(node.pid).endswith(before.partition("worker")[2])
        id = lab.queue.enqueue("true").id
        lab.wait_state(id, State.COMPLETED)


def shown(pid: int) -> str:
    """Return what the list of processes says of one."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


# -- of another package ---------------------------------------------------------------------


@pytest.fixture
def other(lab: Lab) -> Path:
    """A copy of the package that nodes find first; what is changed there is an upgrade."""
    home = lab.folder / "other"
    shutil.copytree(Path(queuectl.__file__).parent, home / "queuectl")
    lab.extra_env["PYTHONPATH"] = str(home)
    return home / "queuectl"


def speak_otherwise(other: Path) -> None:
    """Have another queuectl speak another dialect to its guards."""
    change(other / "guard" / "wire.py", f"DIALECT = ({DIALECT[0]}, ", "DIALECT = (0, ")


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_an_upgraded_package_goes_on_with_the_runs(lab: Lab, other: Path) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    lab.pid_in("gate.pid")
    change(other / "__init__.py", f'"{queuectl.__version__}"', '"99.1"')
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: f"queuectl 99.1 goes on with {id}" in lab.log(), "the other to go on")
    assert f"Handing {id} over to queuectl 99.1." in lab.log()
    assert lab.queue.nodes()[0]["version"] == "99.1"
    open_gate(lab)
    assert lab.wait_state(id, State.COMPLETED).attempts == 1


def test_one_that_speaks_otherwise_starts_anew_when_the_runs_are_over(
    lab: Lab, other: Path
) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    lab.pid_in("gate.pid")
    name = name_of(lab)
    speak_otherwise(other)
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: f"finishing {id} before it takes over" in lab.log(), "the node to say so")
    waiting = lab.queue.enqueue("echo later").id
    assert lab.queue.nodes()[0]["stopping"] is None
    open_gate(lab)
    assert lab.wait_state(id, State.COMPLETED).attempts == 1
    lab.wait_state(waiting, State.COMPLETED)
    assert name_of(lab) != name
    assert lab.queue.nodes()[0]["pid"] == node.pid
    assert node.poll() is None


@pytest.mark.parametrize("stop", [signal.SIGTERM, None])
def test_it_can_be_stopped_while_it_waits_for_that(
    lab: Lab, other: Path, stop: signal.Signals | None
) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    lab.pid_in("gate.pid")
    speak_otherwise(other)
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: "before it takes over" in lab.log(), "the node to drain")
    if stop is None:
        lab.queue.stop_nodes()
    else:
        node.send_signal(stop)
        wait_for(lambda: "not starting again" in lab.log(), "the node to say so")
    wait_for(lambda: lab.queue.nodes()[0]["stopping"], "the node to be shown to stop")
    open_gate(lab)
    assert node.wait(60) == 0
    assert lab.queue.get(id).state == State.COMPLETED


def test_a_broken_package_changes_nothing(lab: Lab, other: Path) -> None:
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    (other / "node" / "node.py").write_text("import no_such_module\n")
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: "goes on as it is" in lab.log(), "the node to say so")
    assert "no_such_module" in lab.log()
    assert not is_gone(pid)
    open_gate(lab)
    assert lab.wait_state(id, State.COMPLETED).attempts == 1
    lab.wait_state(lab.queue.enqueue("true").id, State.COMPLETED)
    assert node.poll() is None


def test_nor_does_a_file_of_settings_that_is_wrong(lab: Lab) -> None:
    node = lab.node()
    (lab.folder / "queuectl.toml").write_text("max_retries = -1\n")
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: "goes on as it is" in lab.log(), "the node to say so")
    assert "max_retries" in lab.log()
    lab.wait_state(lab.queue.enqueue("true").id, State.COMPLETED)
    assert node.poll() is None


# -- at once ----------------------------------------------------------------------------------


def test_a_hangup_releases_and_starts_anew(any_lab: Lab) -> None:
    lab = any_lab
    id = lab.queue.enqueue(gated(lab), max_retries=0).id
    node = lab.node()
    pid, name = lab.pid_in("gate.pid"), name_of(lab)
    (lab.folder / "gate.pid").unlink()
    node.send_signal(signal.SIGHUP)
    wait_for(lambda: is_gone(pid), "the run to be ended")
    # The new one begins with it.
    lab.pid_in("gate.pid")
    assert node.poll() is None
    assert name_of(lab) != name
    assert lab.queue.nodes()[0]["pid"] == node.pid
    open_gate(lab)
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.attempts, job.failures, job.crashes) == (2, 0, 0)
    assert [run.outcome for run in lab.queue.attempts(id)] == ["released", "exited"]


def test_hangups_in_a_row_do_no_harm(lab: Lab) -> None:
    id = lab.queue.enqueue(gated(lab), max_retries=0).id
    node = lab.node()
    lab.pid_in("gate.pid")
    for _ in range(30):
        node.send_signal(signal.SIGHUP)
        time.sleep(0.05)
        assert node.poll() is None, lab.log()
    open_gate(lab)
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.failures, job.crashes) == (0, 0)
    # Whoever takes another one has heard of the last hangup, and doesn't just start again.
    lab.wait_state(lab.queue.enqueue("true").id, State.COMPLETED)
    node.terminate()
    assert node.wait(60) == 0


def test_a_database_that_is_away_is_waited_for(lab: Lab) -> None:
    # Whoever has the lock of the file keeps everybody from writing, as a server that is away does.
    id = lab.queue.enqueue(gated(lab)).id
    node = lab.node()
    pid = lab.pid_in("gate.pid")
    with Queue(lab.url) as queue, transaction(queue.store):
        queue.store.settings.set_config("max_retries", "3", now=0)
        open_gate(lab)
        wait_for(lambda: is_gone(pid), "the run to be over, which can't be written down")
        node.send_signal(signal.SIGUSR1)
        # Longer than a restart takes; a slow machine only makes this less of a test.
        time.sleep(2.0)
        assert not restarts(lab)
    wait_for_restart(lab, node)
    assert lab.wait_state(id, State.COMPLETED).attempts == 1
    assert lab.queue.output(id).stdout == b"before\nafter\n"


def test_who_cannot_write_down_a_restart_does_not_ask_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.node()

    def full(event: Event) -> None:
        raise StoreFullError("There is no space left.")

    with monkeypatch.context() as patch:
        patch.setattr(lab.queue.store.history, "record", full)
        with pytest.raises(StoreFullError):
            lab.queue.restart_nodes()
    lab.wait_state(lab.queue.enqueue("true").id, State.COMPLETED)
    assert "SIGUSR1" not in lab.log()
    (told,) = lab.queue.restart_nodes()
    assert told["asked"]
    wait_for(lambda: "SIGUSR1" in lab.log(), "the restart")


def test_a_successor_that_is_killed_behind_its_answer_is_none() -> None:
    dying = ("sh", "-c", f"echo '{answer('9.9')}'; kill -9 $$")
    installed = Installed(Again(arguments=(), start=dying, ask=dying, daemon=False))
    wait_for(installed.has_answered, "an answer")
    assert (installed.fits, installed.trouble) == (False, "it was ended by SIGKILL")
    installed.close()


def test_a_variable_that_names_something_else_is_no_matter(lab: Lab) -> None:
    id = lab.queue.enqueue("true").id
    for named in ("0", "1", "2", "99", "9" * 30, "x"):
        lab.extra_env["_QUEUECTL_HANDOVER"] = named
        done = lab.run("list", "-q")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{id}\n", "")
