"""A real server over a queue of its own, and clients that ask it."""

import http.client
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from queuectl.access import Role
from queuectl.web.app import App
from tests.support import PATIENCE, Lab

ALL = tuple(Role)
API = "/api/v1"


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def problem(self) -> str:
        """The word that says what is wrong."""
        assert self.headers["content-type"] == "application/problem+json", self
        assert self.json["status"] == self.status
        return str(self.json["type"]).rpartition(":")[2]


@dataclass
class Client:
    """Somebody who asks a server, with a token or whatever else is in the headers."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)
    base: str = API

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request; a body that isn't bytes is sent as JSON."""
        sent = {**self.headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, self.base + path, body=body, headers=sent)
            reply = connection.getresponse()
            named = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, named, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        return self.ask("POST", path, body, headers=named)

    def put(self, path: str, body: Any = None) -> Reply:
        return self.ask("PUT", path, body)

    def patch(self, path: str, body: Any = None) -> Reply:
        return self.ask("PATCH", path, body)

    def delete(self, path: str) -> Reply:
        return self.ask("DELETE", path)


class Server:
    """`queuectl web`, in a process of its own."""

    def __init__(self, lab: Lab, *options: str) -> None:
        self.lab = lab
        self.base = options[options.index("--base-path") + 1] if "--base-path" in options else ""
        self.process = subprocess.Popen(
            lab.command("web", *options),
            env=lab.env,
            cwd=lab.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()
        found = re.search(r"https?://[^:]+:(\d+)", self.said)
        assert found is not None, self.said + self.process.stderr.read()
        self.port = int(found[1])
        self.link = ""
        if "--no-link" not in options:
            assert self.process.stdout is not None
            self.link = self.process.stdout.readline().strip()

    @property
    def url(self) -> str:
        """Where it is to be found."""
        return f"http://127.0.0.1:{self.port}{self.base}"

    def client(self, *roles: Role | str, queues: tuple[str, ...] = (), name: str = "") -> Client:
        """Return somebody with a token that has these roles; without any, nobody who is known."""
        if not roles:
            return Client(self.port)
        known = len(self.lab.queue.access.tokens())
        _, secret = self.lab.queue.access.add_token(
            name or f"t{known}", [str(role) for role in roles], queues=queues
        )
        return Client(self.port, {"Authorization": f"Bearer {secret}"})

    def stop(self, *, by: int = signal.SIGTERM) -> int:
        """Ask it to stop, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


async def asked(app: App, target: str, **headers: str) -> Reply:
    """Ask an application in this process for a page, as a server does."""
    told: dict[str, Any] = {"body": b""}

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        told.update(message)

    path, _, query = target.partition("?")
    given = {"host": "localhost", **headers}
    scope = {
        "method": "GET",
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), it.encode()) for name, it in given.items()],
        "client": None,
    }
    await app(scope, receive, send)
    named = {name.decode(): it.decode() for name, it in told["headers"]}
    return Reply(told["status"], named, told["body"])


Serve = Callable[..., Server]


@pytest.fixture
def serve(lab: Lab) -> Iterator[Serve]:
    """Start servers that are ended after the test."""
    with ExitStack() as stack:

        def start(*options: str) -> Server:
            server = Server(lab, *options)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def server(serve: Serve) -> Server:
    """A server through which things may be made to run."""
    return serve("--allow-submit", "--no-link")


@pytest.fixture
def anyone(server: Server) -> Client:
    """Somebody who may do everything."""
    return server.client(*ALL)
