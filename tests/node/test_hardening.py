"""What bad luck may do to a node: it goes on, and touches nothing that isn't its own."""

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from queuectl import Queue, State
from queuectl.admission import ALL_QUEUES
from queuectl.errors import StateError
from queuectl.facts import Node
from queuectl.host import host_identity, host_name
from queuectl.node import upkeep
from queuectl.node.config import Config
from queuectl.node.daemon import pidfile
from queuectl.node.log import Log, RotatingFile
from queuectl.place import find_place
from queuectl.spool import files_of
from tests.contract.actors import Actor
from tests.contract.tools import a_node, claim, forget
from tests.support import Lab, is_gone, lab_in, wait_for


def test_a_copy_of_the_database_leaves_the_jobs_of_the_original_alone(
    lab: Lab, tmp_path: Path
) -> None:
    original = lab.queue.enqueue(f"echo $$ > {lab.folder}/pid; sleep 1000").id
    lab.node()
    pid = lab.pid_in("pid")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    lab.queue.backup(str(elsewhere / "queue.db"))
    # Nobody renews the lease in the copy: so it is over one day, which is today.
    with closing(apsw.Connection(str(elsewhere / "queue.db"))) as db:
        db.execute("UPDATE nodes SET lease_until = 0")
    with lab_in(elsewhere) as copy:
        assert copy.queue.get(original).state == State.PROCESSING
        copy.node("--queue", "nothing")
        wait_for(lambda: copy.queue.get(original).crashes == 1, "the copy's own rescue")
        assert not is_gone(pid)
    [node] = lab.queue.store.nodes.all()
    assert all(Path(path).exists() for path in files_of(node.spool, lab.queue.get(original)))
    assert lab.queue.get(original).state == State.PROCESSING


def test_settings_that_contradict_a_nodes_own_do_not_end_it(lab: Lab) -> None:
    lab.extra_env = {"QUEUECTL_HEARTBEAT": "5s"}
    node = lab.node()
    lab.queue.set_setting("heartbeat", "1s")
    lab.queue.set_setting("lease", "5s")
    wait_for(lambda: "The settings stay as they were" in lab.log(), "the node to say so")
    id = lab.queue.enqueue("true").id
    lab.wait_state(id, State.COMPLETED)
    assert node.poll() is None


def test_a_spool_that_was_removed_is_made_again(lab: Lab) -> None:
    lab.node()
    # It is known before it has made its folder, which must not come while it is being removed.
    boards = Path(f"{lab.db}.d")
    wait_for(lambda: lab.log() and list(boards.glob("spool/*/board.*")), "the node to be up")
    shutil.rmtree(boards)
    id = lab.queue.enqueue("echo still here", max_retries=0).id
    lab.wait_state(id, State.COMPLETED)
    assert lab.queue.output(id).stdout == b"still here\n"


def test_a_task_without_a_handler_does_not_pass_for_done(lab: Lab) -> None:
    program = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1])\n"
        "with db: db.execute(\"INSERT INTO jobs (id, task, max_retries) VALUES ('t', 'mail', 0)\")"
    )
    subprocess.run([sys.executable, "-c", program, str(lab.db)], check=True)
    lab.node()
    job = lab.wait_state("t", State.DEAD)
    assert "no handler for task 'mail'" in (job.error or "")


def test_a_device_is_neither_rotated_nor_locked_up(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        device = tmp_path / "pipe"
        os.mkfifo(device, 0o666)
        keep = os.open(device, os.O_RDWR | os.O_NONBLOCK)
        assert keep >= 0
    os.chmod(device, 0o666)
    log = RotatingFile(str(device), size=10, keep=2)
    log.write("more than ten bytes\n")
    log.write("and again\n")
    assert stat.S_IMODE(device.stat().st_mode) == 0o666
    assert os.listdir(tmp_path) == [device.name]
    with pytest.raises(StateError, match="isn't a plain file"), pidfile(str(device)):
        pass
    assert not stat.S_ISREG(device.stat().st_mode)


def test_a_log_whose_folder_is_gone_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = RotatingFile(str(folder / "node.log"), size=100, keep=1)
    log.write("one\n")
    shutil.rmtree(folder)
    log.write("lost\n")
    folder.mkdir()
    log.write("two\n")
    assert (folder / "node.log").read_text() == "two\n"


def test_the_last_words_of_a_daemon_are_in_the_log_after_it_was_rotated(tmp_path: Path) -> None:
    program = (
        "import os, sys; from queuectl.node.log import RotatingFile\n"
        "os.dup2(os.open('node.log', os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)\n"
        "log = RotatingFile('node.log', size=40, keep=1)\n"
        "for n in range(9): log.write(f'line {n} of the log\\n')\n"
        "sys.exit('last words')"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert (tmp_path / "node.log").read_text().endswith("line 8 of the log\nlast words\n")


def test_json_logs_hold_no_control_characters(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Queue(place=find_place(str(tmp_path / "q.db"), environ={})) as queue:
        job = queue.enqueue("true #\x9b31m\u202e\x7f")
    log = Log(node="n", as_json=True)
    log.job(0, "started", job)
    log.flush()
    assert capfd.readouterr().err.strip().isascii()


BAD = "CAST(x'ff' AS TEXT)"


def in_another_process(lab: Lab, statement: str) -> None:
    """Change the database as a program would that knows nothing of queuectl."""
    program = (
        "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as db: db.execute(sys.argv[2])"
    )
    subprocess.run([sys.executable, "-c", program, str(lab.db), statement], check=True)


def test_a_row_that_is_not_utf_8_is_put_aside_and_the_others_run(lab: Lab) -> None:
    in_another_process(
        lab,
        "INSERT INTO jobs (id, command, priority) VALUES ('odd', CAST(x'ff6162' AS TEXT), 9)",
    )
    good = lab.queue.enqueue("true").id
    node = lab.node()
    lab.wait_state(good, State.COMPLETED)
    (odd,) = lab.queue.list(state="dead")
    assert odd.reason == "it holds text that is not valid UTF-8"
    assert odd.data == b"id: odd\nqueue: default\ncommand: \xffab"
    assert odd.id == "odd"
    assert node.poll() is None
    assert lab.queue.verify() == []


def test_a_program_whose_name_no_database_takes_stops_nobody(lab: Lab) -> None:
    argv = json.dumps(["./na\udcffme"])
    row = f"'odd', '{argv}', 9, 0"
    in_another_process(lab, f"INSERT INTO jobs (id, argv, priority, max_retries) VALUES ({row})")
    good = lab.queue.enqueue("true").id
    node = lab.node()
    lab.wait_state(good, State.COMPLETED)
    dead = lab.wait_state("odd", State.DEAD)
    assert dead.error == "could not start: command not found: ./na\\udcffme"
    assert node.poll() is None


@pytest.mark.parametrize(
    ("columns", "values", "id", "queue"),
    [
        ("id, command, queue", f"'odd', 'true', {BAD}", "odd", "default"),
        ("id, command, queue", f"{BAD}, 'true', 'mail'", "unreadable-2", "mail"),
        ("id, command, cwd, queue", f"'odd', 'true', {BAD}, 'mail'", "odd", "mail"),
        ("id, command, unique_key", f"'odd', 'true', {BAD}", "odd", "default"),
        ("id, command, expires_at", f"'odd', {BAD}, 1", "odd", "default"),
        ("id, command, error", f"'odd', 'true', {BAD}", "odd", "default"),
        ("id, command, shell", f"'odd', 'true', {BAD}", "odd", "default"),
    ],
)
def test_whatever_is_not_text_stops_nobody_and_is_kept(
    lab: Lab, columns: str, values: str, id: str, queue: str
) -> None:
    good = lab.queue.enqueue("true").id
    insert = f"INSERT INTO jobs ({columns}, ready) VALUES ({values}, 1)"
    in_another_process(lab, insert)
    (finding,) = lab.queue.verify()
    assert "1 waiting jobs hold text that isn't valid UTF-8" in finding
    node = lab.node()
    lab.wait_state(good, State.COMPLETED)
    wait_for(lambda: lab.queue.verify() == [], "the odd job to be put aside")
    (odd,) = lab.queue.list(state="dead")
    assert (odd.id, odd.queue) == (id, queue)
    assert b"\xff" in (odd.data or b"")
    assert [event.kind for event in lab.queue.events(id)] == ["dead"]
    assert set(lab.queue.status().queues) == {"default", queue}
    assert node.poll() is None


def test_a_node_for_one_queue_starts_whatever_the_others_are_called(lab: Lab) -> None:
    good = lab.queue.enqueue("true", queue="mail").id
    in_another_process(lab, f"INSERT INTO jobs (id, command, queue) VALUES ('x', 'true', {BAD})")
    lab.node("--queue", "mail")
    lab.wait_state(good, State.COMPLETED)


def test_what_is_put_aside_finds_a_free_id(lab: Lab) -> None:
    lab.queue.enqueue("true", id="unreadable-2", delay="1h")
    insert = f"INSERT INTO jobs (id, command) VALUES ({BAD}, 'true')"
    in_another_process(lab, insert)
    lab.node()
    wait_for(lambda: lab.queue.verify() == [], "the odd job to be put aside")
    (odd,) = lab.queue.list(state="dead")
    assert odd.id.startswith("unreadable-2-")


def test_a_half_made_row_does_not_stop_the_rescue_of_others(lab: Lab) -> None:
    in_another_process(
        lab,
        "INSERT INTO jobs (id, command, state, ready, node)"
        " VALUES ('half', 'true', 'processing', NULL, 'nobody')",
    )
    lab.node()
    assert lab.wait_state("half", State.COMPLETED).crashes == 1


def test_a_node_from_before_a_reboot_is_dead(lab: Lab) -> None:
    """The steady clock starts anew with the machine, so its lease seems to last for ever."""
    id = lab.queue.enqueue("[ $QUEUECTL_ATTEMPT -gt 1 ] || sleep 1000", max_retries=0).id
    store = lab.queue.store
    old = Node(
        id="before",
        host=host_name(),
        boot="another-boot/" + host_identity().partition("/")[2],
        pid=os.getpid(),
        pid_start=1,
        workers=1,
        queues=ALL_QUEUES,
        spool=f"{store.folder.spool}/before",
        version="0",
        started_at=1,
        seen_at=2,
        lease_until=store.clock.steady() + 10**9,
    )
    store.nodes.register(old)
    assert [job.id for job in claim(store, "before", [1], (), now=store.clock.now()).jobs] == [id]
    lab.node()
    job = lab.wait_state(id, State.COMPLETED)
    assert (job.attempts, job.crashes, job.failures) == (2, 1, 0)


def test_a_node_that_was_held_up_lays_no_hands_on_the_living(lab: Lab) -> None:
    """It may sleep, with its whole host or alone, between looking at others and rescuing."""
    lab.extra_env = {"QUEUECTL_LEASE": "1s", "QUEUECTL_HEARTBEAT": "200ms"}
    script = f"echo $$ > {lab.folder}/pid; until [ -e {lab.folder}/gate ]; do sleep 0.02; done"
    id = lab.queue.enqueue(script, max_retries=0).id
    lab.node()
    pid = lab.pid_in("pid")
    store = lab.queue.store
    others = store.nodes.all()
    rescuer = upkeep.Rescuer(
        queue=lab.queue,
        config=Config(lab.queue.settings),
        heard=lambda _job, _end, _why: None,
    )
    wait_for(
        lambda: store.clock.steady() > others[0].lease_until + 100, "what it saw to be outdated"
    )
    rescuer.rescue(others)
    assert not is_gone(pid)
    assert Path(others[0].spool).is_dir()
    (lab.folder / "gate").touch()
    assert lab.wait_state(id, State.COMPLETED).attempts == 1


def test_a_node_that_was_struck_out_does_not_rescue_its_own_jobs(lab: Lab) -> None:
    """It starts over, and knows which of them have begun; whoever rescues them doesn't."""
    store = lab.queue.store
    me = a_node(store, "me").id
    a_node(store, "gone", pid=2**22 + 1)
    mine, other = (lab.queue.enqueue("true").id for _ in range(2))
    for node in (me, "gone"):
        claim(store, node, [1], (), now=store.clock.now())
    rescuer = upkeep.Rescuer(
        queue=lab.queue,
        config=Config(lab.queue.settings),
        heard=lambda _job, _end, _why: None,
    )
    for node in (me, "gone"):
        assert forget(store, node)
    assert rescuer.look(me) is None
    rescuer.rescue(rescuer.others)
    assert [lab.queue.get(id).crashes for id in (mine, other)] == [0, 1]
    assert lab.queue.get(mine).state == State.PROCESSING


def test_a_run_that_cleared_its_environment_dies_before_it_runs_again(lab: Lab) -> None:
    """Even when node and guard were killed together, so that nobody was left to end it."""
    script = f"echo $$ >> {lab.folder}/pids; [ $QUEUECTL_ATTEMPT -gt 1 ] || exec env -i sleep 1000"
    id = lab.queue.enqueue(script, max_retries=0).id
    node = lab.node()
    pid = lab.pid_in("pids")
    wait_for(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "the sleep")
    guard = int(Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()[0])
    os.kill(guard, signal.SIGSTOP)
    os.kill(node.pid, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)
    node.wait()
    wait_for(lambda: is_gone(guard), "the guard to be gone")
    assert not is_gone(pid)
    lab.node()
    lab.wait_state(id, State.COMPLETED)
    assert is_gone(pid)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_node_whose_database_is_taken_away_ends_and_says_why(lab: Lab, replaced: bool) -> None:
    lab.queue.enqueue(f"echo $$ > {lab.folder}/pid; sleep 1000")
    node = lab.node()
    pid = lab.pid_in("pid")
    if replaced:
        # In one step: a node that looks between two would rightly say that it was deleted.
        Queue(f"{lab.db}.new").close()
        os.replace(f"{lab.db}.new", lab.db)
    for end in ("-wal", "-shm") if replaced else ("", "-wal", "-shm"):
        Path(f"{lab.db}{end}").unlink(missing_ok=True)
    assert node.wait(60) == 5
    assert f"{lab.db} was {'replaced' if replaced else 'deleted'} while it was in use." in lab.log()
    assert is_gone(pid)


def test_a_node_under_which_the_schema_was_upgraded_finishes_and_leaves(lab: Lab) -> None:
    gate = lab.folder / "gate"
    id = lab.queue.enqueue(f"until [ -e {gate} ]; do sleep 0.02; done").id
    node = lab.node()
    lab.wait_state(id, State.PROCESSING)
    later = lab.queue.enqueue("true").id
    Actor("future", str(lab.db)).finish()
    wait_for(lambda: "A newer queuectl has upgraded" in lab.log(), "the node to notice")
    gate.touch()
    assert node.wait(60) == 5
    assert lab.queue.get(id).state == State.COMPLETED
    assert lab.queue.get(later).state == State.PENDING


def test_a_host_that_can_start_nothing_harms_no_job(lab: Lab) -> None:
    node = lab.node(count=2)
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    # All of them: else the worker of another guard may run the jobs, one after the other.
    before = {int(pid): resource.prlimit(int(pid), resource.RLIMIT_NOFILE) for pid in children}
    for pid, (_, most) in before.items():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, most))
    ids = [lab.queue.enqueue("echo fine", max_retries=0).id for _ in range(3)]
    wait_for(lambda: "No job can be started here: can't write" in lab.log(), "a complaint")
    for pid, limits in before.items():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    for id in ids:
        job = lab.wait_state(id, State.COMPLETED)
        assert (job.failures, job.crashes) == (0, 0)
    assert lab.log().count("No job can be started here") < 20
