"""The server itself: where it listens, how it starts and ends, and beside whom."""

import http.client
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from queuectl.access import Role
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import Client, Serve

BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from queuectl.__main__ import main
sys.argv = ["queuectl", "web"]
main()
"""


PASSED_ON = """
import os, sys

os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Starts a program as systemd does that has opened a socket for it."""


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_it_is_asked_to(serve: Serve, by: int) -> None:
    server = serve("--no-link")
    assert Client(server.port, base="").get("/health").json == {"ok": True}
    assert server.stop(by=by) == 0


def test_the_link_signs_in_once(lab: Lab, serve: Serve) -> None:
    server = serve()
    url, _, secret = server.link.partition("#")
    assert url == f"http://127.0.0.1:{server.port}/sign-in"
    session, _ = lab.queue.access.sign_in(secret) or (None, "")
    assert session is not None
    assert {Role.OPERATE, Role.ADMIN} == set(session.roles)
    assert lab.queue.access.sign_in(secret) is None


def test_a_port_that_is_taken_is_said_in_a_sentence(lab: Lab, serve: Serve) -> None:
    server = serve("--no-link")
    done = lab.run("web", "--port", str(server.port))
    assert done.returncode == 2
    assert done.stderr.strip().endswith(
        f"127.0.0.1:{server.port} can't be listened on: Address already in use; stop what listens"
        " there, or choose another --port; 0 is any that is free."
    )


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--host", "no.such.host.invalid"), "is no address here"),
        (("--base-path", "queue"), "--base-path"),
        (("--tls-cert", "x"), "go together"),
        (("--tls-cert", "/x.pem", "--tls-key", "y"), "/x.pem can't be read: No such file"),
        (("--read-only", "--allow-submit"), "With --read-only nothing is submitted"),
        (("--proxy-header", "X-User"), "go together"),
        (("--proxy-header", "X", "--trust-proxy", "here"), "--trust-proxy"),
        (("--link-role", "king"), "There is no role 'king'"),
        (("--systemd",), "systemd has passed no sockets on"),
        (("--socket", "/proc/x"), "can't be listened on"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    lab: Lab, options: tuple[str, ...], word: str
) -> None:
    done = lab.run("web", *options)
    assert done.returncode == 2, done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_a_link_to_submit_where_nothing_can_be_is_told_of(serve: Serve) -> None:
    server = serve("--link-role", "submit")
    assert server.process.stderr is not None
    assert "without --allow-submit" in server.process.stderr.readline()


@pytest.mark.parametrize("package", ["httptools", "uvicorn", "jinja2", "prometheus_client"])
def test_without_the_extra_it_says_what_to_install(lab: Lab, package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(name=package)],
        env=lab.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith("; in a clone of queuectl: pip install '.[web]'.\n")


class UnixConnection(http.client.HTTPConnection):
    """A connection by a socket in the file system."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def test_a_socket_in_the_file_system(lab: Lab) -> None:
    path = lab.folder / "web.sock"
    command = lab.command("web", "--socket", str(path), "--no-link")
    for _ in range(2):
        # The second finds what the first has left when it was killed.
        server = subprocess.Popen(command, env=lab.env, stderr=subprocess.PIPE)
        try:
            assert server.stderr is not None
            assert b"unix:" in server.stderr.readline()
            assert path.stat().st_mode & 0o777 == 0o660
            with closing(UnixConnection(path)) as wire:
                wire.request("GET", "/health")
                assert wire.getresponse().status == 200
            taken = lab.run("web", "--socket", str(path))
            assert "is listened on already" in taken.stderr
        finally:
            server.kill()
            server.communicate()
    path.unlink()
    path.write_text("mine")
    assert "is no socket" in lab.run("web", "--socket", str(path)).stderr
    assert path.read_text() == "mine"


def test_a_socket_that_systemd_has_opened(lab: Lab) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        port = opened.getsockname()[1]
        server = subprocess.Popen(
            [
                *(sys.executable, "-c", PASSED_ON, str(opened.fileno())),
                *lab.command("web", "--systemd", "--no-link"),
            ],
            env=lab.env,
            pass_fds=[opened.fileno()],
            stderr=subprocess.PIPE,
        )
        try:
            # Who comes before it is there is answered, too.
            assert Client(port, base="").get("/health").status == 200
            server.terminate()
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
            server.communicate()


def test_tls(lab: Lab) -> None:
    cert, key = lab.folder / "cert.pem", lab.folder / "key.pem"
    subprocess.run(
        [
            *"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split(),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    command = lab.command("web", "--tls-cert", str(cert), "--tls-key", str(key), "--no-link")
    server = subprocess.Popen(command, env=lab.env, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        said = server.stderr.readline()
        port = int(said.partition("https://127.0.0.1:")[2].split(" ")[0])
        context = ssl.create_default_context(cafile=str(cert))
        with closing(
            http.client.HTTPSConnection("localhost", port, context=context, timeout=PATIENCE)
        ) as wire:
            wire.request("GET", "/health")
            reply = wire.getresponse()
            assert reply.status == 200
            assert reply.getheader("Strict-Transport-Security")
    finally:
        server.kill()
        server.communicate()


def test_many_serve_one_queue_beside_a_node(lab: Lab, serve: Serve) -> None:
    servers = [serve("--allow-submit", "--no-link") for _ in range(3)]
    lab.node()
    clients = [server.client(*Role) for server in servers]
    for number, client in enumerate(clients):
        client.put(f"/jobs/j{number}", {"command": "true"})
    for client in clients:
        for number in range(3):
            assert client.get(f"/jobs/j{number}/wait").json["state"] == "completed"
    _, secret = lab.queue.access.add_token("gone", ["view"])
    seen = [Client(server.port, {"Authorization": f"Bearer {secret}"}) for server in servers]
    assert [client.get("/me").status for client in seen] == [200] * 3
    lab.queue.access.remove_token("gone")
    wait_for(lambda: {client.get("/me").status for client in seen} == {401}, "its end everywhere")


@pytest.mark.parametrize("store", ["postgres", "mariadb"])
def test_on_a_server(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    from tests.support import lab_in
    from tests.web.conftest import Server

    with lab_in(tmp_path, request.getfixturevalue(f"{store}_url")) as lab:
        server = Server(lab, "--allow-submit", "--no-link")
        try:
            client = server.client(*Role)
            body = {"command": "echo hi"}
            first = client.post("/jobs", body, Idempotency_Key="k")
            again = client.post("/jobs", body, Idempotency_Key="k")
            assert (first.status, again.status) == (201, 200)
            lab.node()
            id = first.json["id"]
            assert client.get(f"/jobs/{id}/wait").json["state"] == "completed"
            assert client.get(f"/jobs/{id}/output").json["stdout"] == "hi\n"
            assert client.get("/status").json["total"] == 1
        finally:
            server.close()
