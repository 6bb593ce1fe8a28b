"""Clients that are slow: to say what they want, to read what they are answered, or just many."""

import asyncio
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest
import uvicorn

from queuectl.web import http, server
from queuectl.web.http import Request
from queuectl.web.problems import RefusedError
from queuectl.web.server import Listening
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import Client

LONG = 16 << 20
"""More than what the kernel keeps for a client that doesn't read."""


def request(receive: Callable[[], Any], **headers: str) -> Request:
    """Return a request whose body comes from `receive`."""
    named = [(name.replace("_", "-").encode(), it.encode()) for name, it in headers.items()]
    scope = {
        "method": "POST",
        "raw_path": b"/",
        "query_string": b"",
        "headers": named,
        "client": None,
    }
    return Request(scope, receive)


class TestBodies:
    def test_that_never_come(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http, "BODY_WITHIN", 0.01)

        async def receive() -> Any:
            await asyncio.Event().wait()

        with pytest.raises(RefusedError) as raised:
            asyncio.run(request(receive, content_length="5").read(10))
        assert raised.value.problem.status == 408

    def test_that_come_byte_by_byte(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http, "BODY_WITHIN", 0.2)
        came = 0

        async def receive() -> Any:
            nonlocal came
            came += 1
            assert came < 100, "it is waited for"
            await asyncio.sleep(0.05)
            return {"type": "http.request", "body": b"x", "more_body": True}

        with pytest.raises(RefusedError) as raised:
            asyncio.run(request(receive, transfer_encoding="chunked").read(1 << 30))
        assert raised.value.problem.status == 408

    def test_that_are_too_long(self) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b"x" * 100, "more_body": True}

        for headers in ({"content_length": "1001"}, {"transfer_encoding": "chunked"}):
            with pytest.raises(RefusedError) as raised:
                asyncio.run(request(receive, **headers).read(1_000))
            assert raised.value.problem.status == 413

    def test_of_a_form_to_sign_in(self, lab: Lab) -> None:
        """Who isn't known keeps no connection by it either: it is the same reading."""
        from queuectl.web.pages.signing import read_form

        async def receive() -> Any:
            return {"type": "http.request", "body": b"x" * 1_000, "more_body": True}

        form = {"content_type": "application/x-www-form-urlencoded", "content_length": "9000"}
        with pytest.raises(RefusedError):
            asyncio.run(read_form(request(receive, **form)))


def test_who_hangs_up_without_having_sent_a_body_is_noticed() -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    asyncio.run(asyncio.wait_for(request(receive).gone(), PATIENCE))


@contextmanager
def serving(app: Callable[..., Any]) -> Iterator[tuple[int, set[Any]]]:
    """Serve an application in a thread; yields the port, and the connections there are."""
    config = uvicorn.Config(
        app, http=server._Patient, ws="none", lifespan="off", log_config=None, access_log=False
    )
    one = uvicorn.Server(config)
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        port = opened.getsockname()[1]
        thread = threading.Thread(target=one.run, args=([opened],))
        thread.start()
        try:
            wait_for(lambda: one.started, "the server")
            yield port, one.server_state.connections
        finally:
            one.should_exit = one.force_exit = True
            thread.join(PATIENCE)


@pytest.mark.parametrize("keeps_on", [False, True], ids=["whole", "in parts"])
def test_an_answer_that_nobody_reads_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch, keeps_on: bool
) -> None:
    monkeypatch.setattr(server, "HEADERS_WITHIN", 0.2)
    monkeypatch.setattr(server, "IDLE", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000 if keeps_on else 1):
            await send({"type": "http.response.body", "body": b"x" * LONG, "more_body": keeps_on})

    with serving(app) as (port, connections), closing(socket.socket()) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.settimeout(PATIENCE)
        wire.connect(("127.0.0.1", port))
        wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.recv(12) == b"HTTP/1.1 200"
        wait_for(lambda: not connections, "the end of the connection")


class TestConnections:
    def test_more_than_there_may_be_are_hung_up_on(self) -> None:
        with ExitStack() as stack:
            there = Listening(socket.create_server(("127.0.0.1", 0)), 2)
            stack.callback(there.close)
            at = there.getsockname()
            wires = [
                stack.enter_context(closing(socket.create_connection(at, PATIENCE)))
                for _ in range(3)
            ]
            taken = [there.accept()[0] for _ in range(2)]
            with pytest.raises(ConnectionAbortedError):
                there.accept()
            assert wires[2].recv(1) == b""
            taken.pop().close()
            stack.enter_context(closing(socket.create_connection(at, PATIENCE)))
            taken.append(there.accept()[0])
            for one in taken:
                one.close()

    def test_a_thousand_where_there_are_few_descriptors(self, lab: Lab) -> None:
        command = lab.command("web", "--no-link")
        process = subprocess.Popen(
            ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh", *command],
            env=lab.env,
            cwd=lab.folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            found = re.search(r"http://[^:]+:(\d+)", process.stderr.readline())
            assert found is not None
            port = int(found[1])
            with ExitStack() as stack:
                for _ in range(1_000):
                    wire = socket.create_connection(("127.0.0.1", port), PATIENCE)
                    stack.callback(wire.close)
                # The last one is among those that are hung up on.
                wire.settimeout(PATIENCE)
                with suppress(ConnectionResetError):
                    assert wire.recv(1) == b""
            client = Client(port, base="")
            wait_for(lambda: _answers(client), "an answer after they have gone")
            process.terminate()
            said = process.communicate(timeout=PATIENCE)[1]
            assert "others are turned away for now" in said
            assert len(said.splitlines()) < 5
        finally:
            process.kill()
            process.communicate()


def _answers(client: Client) -> bool:
    try:
        return client.get("/health").status == 200
    except OSError:
        return False
