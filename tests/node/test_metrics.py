"""A node that serves metrics: what it tells, and that no request does it any harm."""

import http.client
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from queuectl import State
from queuectl.node.scraping import LONGEST_HEAD, MOST
from tests.servers.install import program
from tests.servers.proxy import Proxy
from tests.support import PATIENCE, Lab, lab_in, wait_for

GOES_ON = "goes on"
Told = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A lab on each kind of store."""
    store = request.param
    url = None if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def address(lab: Lab, number: int = 0, which: int = -1) -> tuple[str, int]:
    """Return where a node serves its metrics, as its log says it."""
    pattern = r"Metrics are at http://(\S+):(\d+)/metrics"
    found = wait_for(lambda: re.findall(pattern, lab.log(number)), "the address in the log")
    host, port = found[which]
    return host.strip("[]"), int(port)


def ask(
    at: tuple[str, int], path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[int, str, bytes]:
    """Ask as any client does; return status, content type and body."""
    connection = http.client.HTTPConnection(*at, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type") or "", response.read()
    finally:
        connection.close()


def read(body: bytes) -> Told:
    """Return the values in a text."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def told(at: tuple[str, int], path: str = "/metrics") -> Told:
    """Return what is told at a path."""
    status, _, body = ask(at, path)
    assert status == 200
    return read(body)


def value(told: Told, name: str, **labels: str) -> float:
    """Return one value, 0 if it isn't told."""
    return told.get((name, frozenset(labels.items())), 0)


def _runs(at: tuple[str, int], outcome: str) -> float:
    return value(told(at), "queuectl_node_runs_total", outcome=outcome)


def raw(at: tuple[str, int], data: bytes) -> bytes:
    """Send bytes, and return all that comes back until the other side is done."""
    with socket.create_connection(at, timeout=PATIENCE) as connection:
        connection.sendall(data)
        heard = b""
        while chunk := connection.recv(65_536):
            heard += chunk
        return heard


# -- what is told -----------------------------------------------------------------------------


def test_a_node_tells_of_itself_and_its_queue(any_lab: Lab) -> None:
    lab = any_lab
    good = [lab.queue.enqueue("true", queue="mail").id for _ in range(3)]
    bad = lab.queue.enqueue("exit 3", max_retries=0).id
    late = lab.queue.enqueue("sleep 60", timeout="200ms", max_retries=0).id
    lab.queue.schedules.add("nightly", "0 3 * * *", "true")
    gate = lab.folder / "gate"
    running = lab.queue.enqueue(f"while [ ! -e {gate} ]; do sleep 0.02; done").id
    lab.node("--metrics", "0", count=2)
    for id in good:
        lab.wait_state(id, State.COMPLETED)
    for id in (bad, late):
        lab.wait_state(id, State.DEAD)
    lab.wait_state(running, State.PROCESSING)
    at = address(lab)
    for outcome, many in (("success", 3), ("exited", 1), ("timed out", 1)):
        runs = partial(_runs, at, outcome)
        wait_for(lambda runs=runs, many=many: runs() == many, "the ends")  # type: ignore[misc]
    found = told(at)
    assert value(found, "queuectl_jobs", queue="mail", state="completed") == 3
    assert value(found, "queuectl_jobs", queue="default", state="processing") == 1
    assert value(found, "queuectl_runs_total", queue="default", state="dead") == 2
    assert value(found, "queuectl_failures_total", queue="default", kind="timed out") == 1
    assert value(found, "queuectl_failures_total", queue="default", kind="exited") == 1
    assert value(found, "queuectl_run_duration_seconds_count", queue="mail") == 3
    assert value(found, "queuectl_schedules", state="active") == 1
    assert value(found, "queuectl_nodes", state="alive") == 1
    (node,) = lab.queue.nodes()
    mine = {"node": node["id"], "host": node["host"]}
    assert value(found, "queuectl_workers", **mine) == 2
    assert value(found, "queuectl_workers_busy", **mine) == 1
    assert value(found, "queuectl_node_info", **mine) == 1
    assert value(found, "queuectl_node_workers") == 2
    assert value(found, "queuectl_node_workers_busy") == 1
    assert value(found, "queuectl_node_runs_total", outcome="success") == 3
    assert value(found, "queuectl_node_runs_total", outcome="exited") == 1
    # One that was claimed ahead, behind a long one, was released and claimed again.
    assert value(found, "queuectl_node_claims_total") >= 6
    assert value(found, "queuectl_node_commit_duration_seconds_count") > 0
    assert value(found, "queuectl_node_commit_duration_seconds_sum") > 0
    assert value(found, "queuectl_node_guards") >= 1
    lease = value(found, "queuectl_node_lease_seconds")
    assert 0 <= value(found, "queuectl_node_lease_age_seconds") < lease
    gate.touch()
    lab.wait_state(running, State.COMPLETED)


def test_the_page_of_the_node_has_nothing_of_the_queue(lab: Lab) -> None:
    lab.node("--metrics", "0")
    at = address(lab)
    names = {name for name, _ in told(at, "/metrics/node")}
    assert names
    assert all(name.startswith("queuectl_node_") for name in names)
    assert names < {name for name, _ in told(at)}


def test_a_name_of_somebody_else_is_refused(lab: Lab) -> None:
    """A page could have its own name point to us, and read what a browser is answered."""
    lab.node("--metrics", "0")
    at = address(lab)
    for name in (
        f"127.0.0.1:{at[1]}",
        "localhost",
        "[::1]:9464",
        "10.1.2.3",
        "node7:9464",
        socket.gethostname(),
    ):
        assert ask(at, Host=name)[0] == 200, name
    for name in (
        "evil.example",
        f"evil.example:{at[1]}",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example/localhost",
        "evil.example:x",
    ):
        assert ask(at, Host=name)[0] == 421, name


def test_warm_programs_are_counted(lab: Lab) -> None:
    (lab.folder / "run.py").write_text(
        "class Run:\n    def __init__(self, task): pass\n    def run(self): pass\n"
    )
    lab.node("--metrics", "0", "--run", str(lab.folder / "run.py"))
    at = address(lab)
    wait_for(
        lambda: value(told(at, "/metrics/node"), "queuectl_node_warm_programs") == 1,
        "the program",
    )
    id = lab.queue.push("one", "data").id
    lab.wait_state(id, State.COMPLETED)
    wait_for(
        lambda: (
            value(told(at, "/metrics/node"), "queuectl_node_runs_total", outcome="success") == 1
        ),
        "the end",
    )


def test_promtool_finds_nothing_wrong(any_lab: Lab) -> None:
    lab = any_lab
    name = """say "hi" \\o/ {a="b"}"""
    for id in [
        lab.queue.enqueue(command, queue=name, max_retries=0).id for command in ("true", "false")
    ]:
        assert id
    lab.queue.schedules.add("nightly", "* * * * *", "true")
    lab.node("--metrics", "0")
    wait_for(lambda: lab.queue.count(state=("completed", "dead")) >= 2, "the jobs to be over")
    for path in ("/metrics", "/metrics/node"):
        body = ask(address(lab), path)[2]
        done = subprocess.run(
            [program("promtool"), "check", "metrics"], input=body, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_openmetrics_for_who_asks_for_it(lab: Lab) -> None:
    lab.node("--metrics", "0")
    status, content_type, body = ask(
        address(lab), Accept="application/openmetrics-text; version=1.0.0"
    )
    assert (status, content_type) == (
        200,
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    )
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_database_that_is_away_is_told(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(f"{kind}_url")
    server = request.getfixturevalue(f"{kind}_server")
    with lab_in(tmp_path, url) as lab, Proxy("127.0.0.1", server.port) as proxy:
        lab.extra_env["QUEUECTL_DB"] = url.replace(f":{server.port}/", f":{proxy.port}/")
        lab.node("--metrics", "0")
        at = address(lab)
        assert value(told(at), "queuectl_database_up") == 1
        proxy.refuse()
        proxy.cut()
        wait_for(lambda: value(told(at), "queuectl_database_up") == 0, "the cut")
        away = told(at)
        assert value(away, "queuectl_node_workers") == 1
        assert "queuectl_jobs" not in {name for name, _ in away}
        proxy.refuse(False)
        wait_for(lambda: value(told(at), "queuectl_database_up") == 1, "the database")
        id = lab.queue.enqueue("true").id
        lab.wait_state(id, State.COMPLETED)


def test_nothing_is_left_when_the_node_stops(lab: Lab) -> None:
    node = lab.node("--metrics", "0")
    at = address(lab)
    assert told(at)
    node.send_signal(signal.SIGTERM)
    assert node.wait(PATIENCE) == 0
    with pytest.raises(OSError):
        ask(at)
    # Whoever closes an SQLite database last takes its log along.
    lab.queue.close()
    assert not (lab.folder / "queue.db-wal").exists()


# -- where ----------------------------------------------------------------------------------


def test_it_is_on_this_host_only_unless_said_otherwise(lab: Lab) -> None:
    lab.node("--metrics", "0")
    assert address(lab)[0] == "127.0.0.1"
    lab.node("--metrics", "[::1]:0")
    assert address(lab, 1)[0] == "::1"
    assert ask(address(lab, 1))[0] == 200


def test_a_port_that_is_taken_is_a_sentence(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for more in ((), ("--daemon",)):
            done = lab.run("worker", "start", "--metrics", port, *more)
            assert done.returncode == 4
            assert done.stderr.splitlines()[-1] == (
                f"queuectl: Metrics can't be served at http://127.0.0.1:{port}/metrics: Address"
                " already in use; give another [HOST:]PORT with --metrics."
            )
    assert lab.queue.nodes() == []


def test_it_goes_on_after_a_restart_in_place(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gate = lab.folder / "gate"
    id = lab.queue.enqueue(f"while [ ! -e {gate} ]; do sleep 0.02; done").id
    node = lab.node("--metrics", str(port))
    lab.wait_state(id, State.PROCESSING)
    at = "127.0.0.1", port
    assert value(told(at), "queuectl_node_claims_total") == 1
    for n in range(1, 4):
        # Who is connected meanwhile doesn't keep the next program from the port.
        with socket.create_connection(at, timeout=PATIENCE) as idle:
            idle.sendall(b"GET /metrics")
            node.send_signal(signal.SIGUSR1)
            wait_for(lambda n=n: lab.log().count(GOES_ON) == n, "the restart")  # type: ignore[misc]
        found = told(at)
        assert value(found, "queuectl_node_claims_total") == 0
        assert value(found, "queuectl_node_workers_busy") == 1
    gate.touch()
    assert lab.wait_state(id, State.COMPLETED).attempts == 1
    wait_for(lambda: value(told(at), "queuectl_node_runs_total", outcome="success") == 1, "the end")


def test_runs_outlive_a_restart_for_which_the_port_is_gone(lab: Lab) -> None:
    """Somebody takes the port while the program is replaced: runs go on, and it is tried again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gate = lab.folder / "gate"
    id = lab.queue.enqueue(f"while [ ! -e {gate} ]; do sleep 0.02; done").id
    # A job of the node takes the port as soon as it can be had.
    take = (
        "import socket, sys, time, os\n"
        "s = socket.socket()\n"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "while True:\n"
        f"    try: s.bind(('127.0.0.1', {port})); s.listen(); break\n"
        "    except OSError: pass\n"
        f"open('{lab.folder}/taken', 'w').close()\n"
        f"while not os.path.exists('{gate}'): time.sleep(0.02)\n"
    )
    node = lab.node("--metrics", str(port), count=2)
    thief = lab.queue.enqueue(["python3", "-c", take]).id
    for one in (id, thief):
        lab.wait_state(one, State.PROCESSING)
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: GOES_ON in lab.log(), "the restart")
    assert node.poll() is None
    wait_for((lab.folder / "taken").exists, "the port to be taken")
    assert "Trying again." in lab.log()
    gate.touch()
    for one in (id, thief):
        assert lab.wait_state(one, State.COMPLETED).attempts == 1
    wait_for(lambda: _answers(("127.0.0.1", port)), "the port to be had again")


def _answers(at: tuple[str, int]) -> bool:
    try:
        return ask(at)[0] == 200
    except OSError:
        return False


# -- odd requests -------------------------------------------------------------------------------


def test_odd_requests_are_refused_and_harm_nobody(lab: Lab) -> None:
    node = lab.node("--metrics", "0")
    at = address(lab)
    assert [
        ask(at, method=method)[0] for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS")
    ] == [405] * 5
    assert [ask(at, path)[0] for path in ("/", "/metrics/", "/metrics/../etc", "/favicon.ico")] == [
        404
    ] * 4
    assert ask(at, "/metrics?name[]=x")[0] == 200
    statuses = {
        b"\r\n\r\n": 400,
        b"\0\xff\xfe nonsense\r\n\r\n": 400,
        b"GET /metrics\r\n\r\n": 400,
        b"GET /metrics HTTP/2.0\r\n\r\n": 400,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 400,
        b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20_000: 431,
        b"GET /" + b"x" * 3 * LONGEST_HEAD: 431,
        b"GET /metrics HTTP/1.0\r\nAccept\r\n: \r\n\xff:\xff\r\n\r\n": 200,
        b"POST /metrics HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000: 405,
    }
    for request, status in statuses.items():
        assert raw(at, request).startswith(b"HTTP/1.1 %d " % status), request[:60]
    id = lab.queue.enqueue("true").id
    lab.wait_state(id, State.COMPLETED)
    assert node.poll() is None
    assert value(told(at), "queuectl_node_commit_failures_total") == 0
    assert "ERROR" not in lab.log()


def test_who_keeps_connections_open_keeps_nobody_out(lab: Lab) -> None:
    node = lab.node("--metrics", "0")
    at = address(lab)
    with ExitStack() as stack:
        for n in range(3 * MOST):
            slow = stack.enter_context(socket.create_connection(at, timeout=PATIENCE))
            # Some say nothing, some stop in the middle, some never read their answer.
            slow.sendall((b"", b"GET /metrics HTT", b"GET /metrics HTTP/1.1\r\n\r\n")[n % 3])
        assert told(at)
        id = lab.queue.enqueue("true").id
        lab.wait_state(id, State.COMPLETED)
        assert told(at)
        # None of them is borne with for ever.
        for _ in range(MOST):
            slow = stack.enter_context(socket.create_connection(at, timeout=PATIENCE))
            slow.sendall(b"G")
        assert slow.recv(1) == b""
    assert node.poll() is None
    files = [*Path(f"/proc/{node.pid}/fd").iterdir()]
    wait_for(lambda: len([*Path(f"/proc/{node.pid}/fd").iterdir()]) <= len(files), "no leak")


def test_jobs_do_not_inherit_the_port(lab: Lab) -> None:
    node = lab.node("--metrics", "0")
    at = address(lab)
    gate = lab.folder / "gate"
    id = lab.queue.enqueue(
        f"ls -l /proc/self/fd /proc/$PPID/fd; while [ ! -e {gate} ]; do sleep 0.02; done"
    ).id
    lab.wait_state(id, State.PROCESSING)
    node.kill()
    node.wait(PATIENCE)
    with pytest.raises(OSError):
        ask(at)
    gate.touch()
