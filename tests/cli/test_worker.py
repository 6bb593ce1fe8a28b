"""`worker`: nodes that start, detach, are listed and stop, from any terminal."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl import State
from queuectl.host import process_start
from queuectl.values import replace
from tests.cli.conftest import Cli
from tests.contract.tools import forget
from tests.support import is_gone, wait_for

UNTIL_GO = "until test -e go; do sleep 0.02; done"
"""A job that runs until the test makes the file `go`."""


@pytest.fixture
def daemons(cli: Cli) -> Iterator[Cli]:
    """The command and a queue; nodes in the background are stopped with the test."""
    cli.ok("db", "init")
    yield cli
    cli.ok("worker", "stop", "--force")


def wait_state(cli: Cli, id: str, state: State) -> None:
    wait_for(lambda: cli.queue.get(id).state == state, f"{id} to be {state}")


def pid_of(started: str) -> int:
    found = re.fullmatch(r"Started a node in the background \(PID: (\d+)\)\.\n", started)
    assert found, started
    return int(found[1])


# -- start ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", ["0", "-1", "10001", "two"])
def test_a_count_that_makes_no_sense_is_refused(cli: Cli, count: str) -> None:
    assert "--count" in cli.refused("worker", "start", "--count", count, code=2)
    assert not cli.db.exists()


@pytest.mark.parametrize("base", ["0.5", "nan", "-2"])
def test_a_base_that_makes_no_sense_is_refused(cli: Cli, base: str) -> None:
    assert "backoff_base" in cli.refused("worker", "start", "--backoff-base", base, code=2)
    assert not cli.db.exists()


def test_a_queue_name_that_makes_no_sense_is_refused(cli: Cli) -> None:
    assert "queue" in cli.refused("worker", "start", "--queue", " ", code=2)


def test_drain_runs_what_there_is_and_exits(cli: Cli) -> None:
    one, two = cli.add("echo one"), cli.add("echo two", "--delay", "300ms")
    result = cli.ok("worker", "start", "--drain", "--count", "2")
    assert result.stdout == ""
    assert "starting 2 workers" in result.stderr
    assert f"job {one} completed in" in result.stderr
    assert cli.queue.get(two).state == State.COMPLETED


def test_whatever_signals_were_ignored_ends_of_runs_are_heard_of(cli: Cli) -> None:
    bad, good = cli.add("exit 3", "--max-retries", "0"), cli.add("grep SigIgn /proc/self/status")

    def ignore() -> None:
        for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(signum, signal.SIG_IGN)

    node = cli.start("worker", "start", "--drain", preexec_fn=ignore)
    assert node.wait(60) == 0
    assert (cli.queue.get(bad).state, cli.queue.get(bad).exit_code) == (State.DEAD, 3)
    # But for two that the C library has for itself, jobs get them all as they are by default.
    assert int(cli.queue.output(good).stdout.split()[1], 16) & ~0x180000000 == 0


def test_drain_of_an_empty_queue_exits_at_once(cli: Cli) -> None:
    assert cli.run("worker", "start", "--drain").code == 0


def test_only_the_named_queues_are_served(cli: Cli) -> None:
    mail, other = cli.add("true", "--queue", "mail"), cli.add("true", "--queue", "other")
    cli.ok("worker", "start", "--drain", "--queue", "mail", "--queue", "print")
    assert cli.queue.get(mail).state == State.COMPLETED
    assert cli.queue.get(other).state == State.PENDING


def test_all_queues_but_some_are_served(cli: Cli) -> None:
    cli.node("--exclude", "video", "--exclude", "print")
    (node,) = cli.ok("worker", "list", "--json").json
    assert (node["queues"], node["excluded"]) == ([], ["video", "print"])
    assert "all but video, print" in cli.ok("worker", "list").stdout
    assert "all but video, print" in cli.ok("status").stdout
    waits = cli.run("enqueue", "true", "--queue", "video")
    assert "No worker serves video; start one with: " in waits.stderr
    told = cli.ok("explain", cli.add("true", "--queue", "video")).stdout
    assert told.startswith("No worker serves video; ")
    assert "waiting in queues that no worker serves: video" in cli.run("doctor").stdout
    cli.ok("enqueue", "true", "--queue", "mail", "--wait")


@pytest.mark.parametrize(
    ("typed", "told", "text"),
    [
        ("--queue a:3 --queue b", {"weights": {"a": 3, "b": 1}, "in_order": False}, "a:3, b:1"),
        ("--queue a --queue b --in-order", {"weights": {}, "in_order": True}, "a, then b"),
        ("--queue a:7:2 --queue b:x", {"weights": {"a:7": 2, "b:x": 1}}, "a:7:2, b:x:1"),
        ("--queue a --queue a", {"queues": ["a"], "weights": {}, "excluded": []}, "a"),
    ],
)
def test_queues_may_have_shares_or_an_order(
    cli: Cli, typed: str, told: dict[str, object], text: str
) -> None:
    cli.node(*typed.split())
    (node,) = cli.ok("worker", "list", "--json").json
    assert {name: node[name] for name in told} == told
    assert cli.ok("worker", "list").lines[1].endswith(f" {text}")


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("--queue a --exclude b", "Give either --queue, or --exclude, not both"),
        ("--in-order", "--in-order is about several --queue; name them in their order"),
        ("--in-order --queue a:2 --queue b", "With --in-order no queue has a share"),
        ("--queue a:0", "A share is a whole number from 1 to 1,000, not 0; if that belongs to"),
        ("--queue a:1001", "if that belongs to the name, write a:1001:1"),
        ("--queue :3", "A queue's name is empty"),
        ("--queue a:2 --queue a:3", "--queue 'a' is given twice, with different shares"),
        ("--queue a --queue a:3", "--queue 'a' is given twice, with different shares"),
        ("--exclude \x1b", "A queue's name must be printable"),
    ],
)
def test_what_can_not_be_served_is_refused(cli: Cli, typed: str, sentence: str) -> None:
    assert sentence in cli.refused("worker", "start", *typed.split(), code=2)
    assert not cli.db.exists()


def test_backoff_base_overrides_job_and_setting(cli: Cli) -> None:
    cli.ok("config", "set", "backoff_base", "1000")
    id = cli.add("exit 1", "--max-retries", "1")
    cli.ok("worker", "start", "--drain", "--backoff-base", "1")
    job = cli.queue.get(id)
    assert (job.state, job.attempts) == (State.DEAD, 2)


def test_the_log_goes_to_a_private_file_as_json(cli: Cli) -> None:
    id = cli.add("true")
    cli.ok("worker", "start", "--drain", "--log", "my.log", "--log-json")
    log = cli.folder / "my.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["event"] for line in lines if line.get("job") == id} >= {"started", "completed"}


# -- list -------------------------------------------------------------------------------


def test_without_workers_list_and_stop_say_so(cli: Cli) -> None:
    cli.ok("pause", "x")
    for args in (["worker", "list"], ["worker", "stop"]):
        result = cli.ok(*args)
        assert (result.stdout, result.stderr) == ("", "No workers are running.\n")
    assert cli.ok("worker", "list", "--json").json == []


def test_without_a_database_nothing_runs_and_none_is_made(cli: Cli) -> None:
    assert "no queue" in cli.refused("worker", "list", code=5)
    assert "no queue" in cli.refused("worker", "stop", code=5)
    assert not cli.db.exists()


def test_several_nodes_are_listed_with_their_facts(cli: Cli) -> None:
    cli.variables["TZ"] = "Europe/Berlin"
    first = cli.node("--queue", "mail", "--queue", "print", count=3)
    second = cli.node(count=1)
    nodes = {node["pid"]: node for node in cli.ok("worker", "list", "--json").json}
    assert set(nodes) == {first.pid, second.pid}
    node = nodes[first.pid]
    assert (node["workers"], node["running"], node["state"]) == (3, 0, "alive")
    assert node["queues"] == ["mail", "print"]
    assert node["host"] == os.uname().nodename
    header, *rows = cli.ok("worker", "list").lines
    assert header.split() == "NODE STATE HOST PID WORKERS RUNNING SINCE QUEUES".split()
    assert rows[0].startswith(node["id"])
    assert re.search(r"  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0[12]:00  ", rows[0])
    assert rows[0].endswith("mail, print")
    assert rows[1].endswith("all")
    assert node["log"] is None
    assert cli.ok("worker", "list", "-q").lines == [n["id"] for n in nodes.values()]


def test_a_killed_node_is_listed_as_gone_and_needs_no_stop(cli: Cli) -> None:
    node = cli.node()
    node.kill()
    node.wait()
    assert cli.ok("worker", "list", "--json").json[0]["state"] == "gone"
    assert cli.ok("worker", "stop").stderr == "No workers are running.\n"
    assert cli.ok("config", "get", "worker_pids", "--json").json["value"] == []


# -- stop -------------------------------------------------------------------------------


def test_stop_waits_for_running_jobs_and_shows_them(working: Cli) -> None:
    id = working.add(UNTIL_GO)
    waiting = working.add("true", "--delay", "1h")
    wait_state(working, id, State.PROCESSING)
    (node,) = working.ok("worker", "list", "--json").json
    stop = working.start("worker", "stop")
    assert stop.stderr is not None
    asked = stop.stderr.readline().decode()
    facts = f"node {node['id']} (PID: {node['pid']}, host: {node['host']})"
    assert asked == f"Asked {facts} to stop.\n"
    assert stop.stderr.readline().decode() == (
        f"Waiting for node {node['id']} with 1 job ({id}).\n"
    )
    assert working.ok("worker", "list", "--json").json[0]["state"] == "stopping"
    (working.folder / "go").touch()
    out, _ = stop.communicate()
    assert (stop.returncode, out.decode()) == (0, f"Stopped {facts}.\n")
    assert is_gone(node["pid"])
    assert working.queue.get(id).state == State.COMPLETED
    assert working.queue.get(waiting).state == State.PENDING


def test_a_node_that_stops_by_a_signal_is_shown_to_stop(cli: Cli) -> None:
    node = cli.node()
    id = cli.add(UNTIL_GO)
    wait_state(cli, id, State.PROCESSING)
    node.terminate()
    wait_for(
        lambda: cli.ok("worker", "list", "--json").json[0]["state"] == "stopping",
        "the node to be shown as stopping",
    )
    (cli.folder / "go").touch()
    assert node.wait() == 0
    assert cli.queue.get(id).state == State.COMPLETED


def test_stop_gives_up_waiting_after_its_timeout(working: Cli) -> None:
    id = working.add(UNTIL_GO)
    wait_state(working, id, State.PROCESSING)
    result = working.run("worker", "stop", "--timeout", "200ms")
    assert result.code == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("queuectl: Still there after 200ms: node ")
    assert id in last
    assert "--force" in last
    assert working.queue.get(id).state == State.PROCESSING


def test_force_gives_running_jobs_back_unharmed(working: Cli) -> None:
    id = working.add(UNTIL_GO)
    wait_state(working, id, State.PROCESSING)
    assert "Stopped node" in working.ok("worker", "stop", "--force").stdout
    job = working.queue.get(id)
    assert (job.state, job.attempts, job.failures, job.crashes) == (State.PENDING, 1, 0, 0)


def test_only_the_named_node_is_stopped(cli: Cli) -> None:
    first, second = cli.node(), cli.node()
    ids = {node["pid"]: node["id"] for node in cli.queue.nodes()}
    assert ids[first.pid] in cli.ok("worker", "stop", "--node", ids[first.pid][:6]).stdout
    assert first.wait() == 0
    assert second.poll() is None
    assert "no node 'nosuch'" in cli.refused("worker", "stop", "--node", "nosuch", code=3)


def test_interrupting_stop_leaves_the_node_draining(working: Cli) -> None:
    id = working.add(UNTIL_GO)
    wait_state(working, id, State.PROCESSING)
    stop = working.start("worker", "stop")
    stderr = stop.stderr
    assert stderr is not None
    wait_for(lambda: b"Waiting" in stderr.readline(), "it to wait")
    stop.send_signal(signal.SIGINT)
    _, err = stop.communicate()
    assert stop.returncode == 130
    assert b"Traceback" not in err
    (working.folder / "go").touch()
    wait_for(lambda: not working.queue.nodes(), "the node to stop by itself")
    assert working.queue.get(id).state == State.COMPLETED


# -- daemon -----------------------------------------------------------------------------


def test_a_daemon_is_up_when_the_command_returns_and_has_let_go(daemons: Cli) -> None:
    # That run() comes back at all shows that nobody holds on to its pipes.
    started = daemons.ok("worker", "start", "--daemon", "-c", "2")
    pid = pid_of(started.stdout)
    (node,) = daemons.queue.nodes()
    log = daemons.folder / "queue.db.d" / "logs" / f"{node['id']}.log"
    assert daemons.ok("worker", "list", "--json").json[0]["log"] == str(log)
    assert daemons.ok("worker", "list").stderr == f"The log is {log}\n"
    assert started.stderr == f"Its log is {log}\n"
    assert (node["pid"], node["alive"], node["workers"]) == (pid, True, 2)
    assert os.getsid(pid) != os.getsid(0)
    assert os.getsid(pid) != pid, "a session leader could get a terminal"
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
    assert os.readlink(f"/proc/{pid}/fd/1") == os.devnull
    id = daemons.add("echo hello")
    wait_state(daemons, id, State.COMPLETED)
    wait_for(lambda: f"job {id} completed" in log.read_text(), "the log to tell")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    daemons.ok("worker", "stop")
    assert is_gone(pid)


def test_a_daemon_leaves_inherited_files_alone(daemons: Cli) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as end:
        started = daemons.start("worker", "start", "--daemon", pass_fds=[writer])
        assert started.wait() == 0
        os.close(writer)
        assert end.read() == b"", "the daemon would keep a pipe or a lock of its starter for ever"


def test_the_pidfile_is_private_and_goes_with_the_node(daemons: Cli) -> None:
    started = daemons.ok("worker", "start", "--daemon", "node.pid", "--log", "n.log")
    assert started.stderr == f"Its log is {daemons.folder}/n.log\n"
    pid = pid_of(started.stdout)
    file = daemons.folder / "node.pid"
    assert file.read_text() == f"{pid}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refusal = daemons.refused("worker", "start", "--daemon", "node.pid", code=4)
    assert f"running process {pid}" in refusal
    assert file.read_text() == f"{pid}\n"
    daemons.ok("worker", "stop")
    assert not file.exists()
    assert "starting 1 worker" in (daemons.folder / "n.log").read_text()
    assert not (daemons.folder / "queue.db.d" / "logs").exists(), "a start that failed left a log"


def test_a_second_daemon_is_allowed(daemons: Cli) -> None:
    first = pid_of(daemons.ok("worker", "start", "--daemon", "a.pid").stdout)
    second = pid_of(daemons.ok("worker", "start", "--daemon", "b.pid").stdout)
    pids = daemons.ok("config", "get", "worker_pids", "-q").stdout.strip()
    assert pids == f"{first}, {second}"
    assert len(daemons.ok("worker", "stop").lines) == 2


def logs_of(cli: Cli) -> dict[str, str]:
    """Return what the logs in the folder beside the queue say, by the name of their node."""
    folder = cli.folder / "queue.db.d" / "logs"
    return {path.stem: path.read_text() for path in folder.glob("*.log")}


def test_each_daemon_has_a_log_of_its_own(daemons: Cli) -> None:
    for _ in range(2):
        daemons.ok("worker", "start", "--daemon")
    nodes = {node["id"] for node in daemons.queue.nodes()}
    daemons.ok("worker", "stop")
    assert logs_of(daemons).keys() == nodes
    for node, text in logs_of(daemons).items():
        assert {line.split(" ")[1] for line in text.splitlines()} == {node}
        assert text.endswith(" Stopped; nothing was left running.\n")


def test_a_daemon_that_loses_its_lease_keeps_its_log(daemons: Cli) -> None:
    daemons.ok("worker", "start", "--daemon")
    (before,) = daemons.queue.nodes()
    forget(daemons.queue.store, before["id"])
    (after,) = wait_for(daemons.queue.nodes, "the node to start over")
    log = wait_for(lambda: [t for t in logs_of(daemons).values() if "Goes on" in t], "its word")[0]
    assert list(logs_of(daemons)) == [before["id"]]
    assert f" {after['id']} Goes on as node {after['id']} (was {before['id']}).\n" in log


def test_logs_of_daemons_that_are_gone_are_tidied(daemons: Cli) -> None:
    daemons.ok("config", "set", "log_retention", "1h")
    daemons.ok("worker", "start", "--daemon")
    (living,) = logs_of(daemons)
    folder = daemons.folder / "queue.db.d" / "logs"
    (folder / "gone.log").write_text("bye\n")
    for name in (living, "gone"):
        os.utime(folder / f"{name}.log", (0, 0))
    # What is tidied once a minute is tidied at the start, too.
    daemons.ok("worker", "start", "--daemon")
    wait_for(lambda: not (folder / "gone.log").exists(), "the old log to be gone")
    assert living in logs_of(daemons)


def test_a_pidfile_of_a_dead_process_is_replaced(daemons: Cli) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    file = daemons.folder / "node.pid"
    file.write_text(f"{ended.pid}\n")
    pid = pid_of(daemons.ok("worker", "start", "--daemon", "node.pid").stdout)
    assert file.read_text() == f"{pid}\n"


def test_a_pidfile_older_than_the_process_it_names_is_replaced(daemons: Cli) -> None:
    file = daemons.folder / "node.pid"
    file.write_text(f"{os.getpid()}\n")
    assert "running process" in daemons.refused("worker", "start", "--daemon", "node.pid", code=4)
    os.utime(file, (0, 0))  # from before this process started, so its pid was recycled
    pid = pid_of(daemons.ok("worker", "start", "--daemon", "node.pid").stdout)
    assert file.read_text() == f"{pid}\n"


def test_a_file_that_is_no_pidfile_is_left_alone(daemons: Cli) -> None:
    file = daemons.folder / "notes.txt"
    file.write_text("do not lose\n")
    assert "notes.txt" in daemons.refused("worker", "start", "--daemon", "notes.txt", code=4)
    assert file.read_text() == "do not lose\n"
    assert daemons.queue.nodes() == []


def test_a_daemon_that_cannot_start_says_why(daemons: Cli, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing" / "x")
    assert "No such file" in daemons.refused(
        "worker", "start", "--daemon", "--log", missing, code=1
    )
    refusal = daemons.refused("worker", "start", "--daemon", "p.pid", "--db", missing, code=5)
    assert "doesn't exist" in refusal
    assert not (daemons.folder / "p.pid").exists()
    assert daemons.queue.nodes() == []


def test_a_daemon_drains_on_sigterm(daemons: Cli) -> None:
    pid = pid_of(daemons.ok("worker", "start", "--daemon", "node.pid").stdout)
    id = daemons.add(UNTIL_GO)
    wait_state(daemons, id, State.PROCESSING)
    os.kill(pid, signal.SIGTERM)
    (daemons.folder / "go").touch()
    wait_for(lambda: is_gone(pid), "the daemon to end")
    assert daemons.queue.get(id).state == State.COMPLETED
    assert not (daemons.folder / "node.pid").exists()


# -- restart ----------------------------------------------------------------------------


def test_restart_keeps_daemon_pidfile_and_log(daemons: Cli) -> None:
    pid = pid_of(daemons.ok("worker", "start", "--daemon", "node.pid", "--log", "n.log").stdout)
    id = daemons.add(UNTIL_GO)
    wait_state(daemons, id, State.PROCESSING)
    (node,) = daemons.queue.nodes()
    name = f"node {node['id']} (PID: {pid}, host: {node['host']})"
    asked = daemons.ok("worker", "restart")
    assert (asked.stdout, asked.stderr) == (f"Asked {name} to restart.\n", "")
    log = daemons.folder / "n.log"
    wait_for(lambda: f"goes on with {id}" in log.read_text(), "the daemon to go on")
    assert (daemons.folder / "node.pid").read_text() == f"{pid}\n"
    assert [(n["id"], n["pid"]) for n in daemons.queue.nodes()] == [(node["id"], pid)]
    assert os.readlink(f"/proc/{pid}/fd/2") == str(log)
    assert Path(f"/proc/{pid}/comm").read_text() == "queuectl\n"
    (daemons.folder / "go").touch()
    wait_state(daemons, id, State.COMPLETED)
    assert daemons.queue.get(id).attempts == 1
    wait_for(lambda: f"job {id} completed" in log.read_text(), "the log to tell")
    assert log.read_text().count(f"job {id} started") == 1
    event = daemons.ok("events", "--json").json[0]
    assert (event["kind"], event["node"], event["detail"]) == ("restart", node["id"], "hand over")
    daemons.ok("worker", "stop")
    assert is_gone(pid)
    assert not (daemons.folder / "node.pid").exists()


def test_restart_now_gives_running_jobs_back_first(daemons: Cli) -> None:
    pid = pid_of(daemons.ok("worker", "start", "--daemon", "node.pid").stdout)
    id = daemons.add(UNTIL_GO)
    wait_state(daemons, id, State.PROCESSING)
    (node,) = daemons.queue.nodes()
    (told,) = daemons.ok("worker", "restart", "--now", "--node", node["id"][:5], "--json").json
    expected = {"id": node["id"], "pid": pid, "host": node["host"]}
    assert told == expected | {"asked": True, "reason": None}
    wait_for(lambda: daemons.queue.get(id).attempts == 2, "it to run again")
    (daemons.folder / "go").touch()
    wait_state(daemons, id, State.COMPLETED)
    (after,) = daemons.queue.nodes()
    assert (after["pid"], after["id"] != node["id"]) == (pid, True)
    assert (daemons.folder / "node.pid").read_text() == f"{pid}\n"
    job = daemons.queue.get(id)
    assert (job.failures, job.crashes) == (0, 0)
    wait_for(lambda: f"{after['id']} worker 1: job {id} completed" in logs_of(daemons)[node["id"]])
    assert list(logs_of(daemons)) == [node["id"]], "it goes on with its log, under another name"


def test_without_workers_there_is_nothing_to_restart(cli: Cli) -> None:
    assert "There is no queue" in cli.refused("worker", "restart", code=5)
    assert not cli.db.exists()
    cli.ok("pause", "x")
    assert cli.ok("worker", "restart").stderr == "No workers are running.\n"
    assert cli.ok("worker", "restart", "--json").json == []
    assert "no node 'nosuch'" in cli.refused("worker", "restart", "--node", "nosuch", code=3)


def test_a_node_that_would_die_of_the_signal_is_not_sent_one(cli: Cli) -> None:
    cli.node().kill()  # whose row stays, as nobody is there to strike it out
    (node,) = cli.queue.store.nodes.all()
    asleep = cli.start("logs", start_new_session=True)
    start = process_start(asleep.pid) or 0
    cli.queue.store.nodes.register(replace(node, id="stranger", pid=asleep.pid, pid_start=start))
    far = replace(node, id="farnode1", host="elsewhere", boot="another")
    cli.queue.store.nodes.register(far)
    result = cli.run("worker", "restart", "--node", "stranger", "--node", "farnode1")
    assert (result.code, result.stdout) == (1, "")
    first, second = result.stderr.splitlines()
    assert first.endswith("it doesn't listen to SIGUSR1; stop it and start it anew.")
    assert second.endswith("it can only be asked on its own host, elsewhere.")
    assert asleep.poll() is None


# -- on a terminal ------------------------------------------------------------------------


def test_on_a_terminal_the_line_is_refreshed_and_wiped(working: Cli) -> None:
    id = working.add(UNTIL_GO)
    wait_state(working, id, State.PROCESSING)
    shown = working.on_terminal("worker", "stop", "--timeout", "300ms")
    assert shown.code == 1
    assert "\r\x1b[KWaiting for node" in shown.stdout
    assert "Still there after 300ms" in shown.stdout
