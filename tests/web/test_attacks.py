"""Attacks: what somebody tries who doesn't belong here, each as it is done in the wild."""

import http.client
import json
import re
import socket
from contextlib import ExitStack, closing, suppress

import pytest

from queuectl.access import Role
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import API, Client, Serve, Server


@pytest.fixture
def session(lab: Lab, server: Server) -> Client:
    """A browser that is signed in, as its requests look from our own pages."""
    made = lab.queue.access.sign_in(lab.queue.access.link("ann", list(Role)))
    assert made is not None
    name = cookie_name(server)
    origin = f"http://127.0.0.1:{server.port}"
    own = {"Sec-Fetch-Site": "same-origin", "Origin": origin}
    return Client(server.port, {"Cookie": f"{name}={made[1]}", **own})


def cookie_name(server: Server) -> str:
    """Return how the cookie of a server is called."""
    from queuectl.web.gate import Gate, Rules

    return Gate(server.lab.queue, Rules()).cookie


class TestCrossSite:
    def test_our_own_pages_may(self, lab: Lab, session: Client) -> None:
        lab.queue.enqueue("true", id="j")
        assert session.post("/jobs/j/hold").status == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "same-site", "Origin": "http://evil.localhost"},
            {"Sec-Fetch-Site": "none"},
            {"Sec-Fetch-Site": "", "Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {},
        ],
    )
    def test_others_may_not(self, lab: Lab, session: Client, headers: dict[str, str]) -> None:
        lab.queue.enqueue("true", id="j")
        theirs = Client(session.port, {"Cookie": session.headers["Cookie"], **headers})
        assert theirs.post("/jobs/j/hold").problem == "cross-site"
        assert theirs.delete("/jobs/j").status == 403
        assert not lab.queue.get("j").is_held

    def test_a_form_of_another_site(self, lab: Lab, session: Client) -> None:
        for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
            reply = session.ask(
                "POST", "/jobs", b'{"command":"true"}', headers={"Content-Type": kind}
            )
            assert reply.problem == "content-type"
        assert lab.queue.count() == 0

    def test_an_image_changes_nothing(self, lab: Lab, session: Client) -> None:
        lab.queue.enqueue("true", id="j")
        assert session.get("/jobs/j/cancel").status == 405
        assert lab.queue.get("j").state == "pending"

    def test_no_page_of_others_may_read(self, session: Client) -> None:
        reply = session.get("/jobs", Origin="https://evil.example")
        assert "access-control-allow-origin" not in reply.headers
        assert session.ask("OPTIONS", "/jobs").status == 405
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"


class TestNames:
    @pytest.mark.parametrize(
        "host",
        ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "localhost.", "[::2]", "a b"],
    )
    def test_a_name_that_points_here_is_not_ours(self, server: Server, host: str) -> None:
        client = server.client("view")
        assert client.get("/jobs", Host=host).problem == "unknown-host"

    def test_ours_are(self, serve: Serve) -> None:
        server = serve("--allow-host", "jobs.example.com", "--no-link")
        client = server.client("view")
        for host in ("localhost", f"localhost:{server.port}", "[::1]:80", "JOBS.example.com:443"):
            assert client.get("/me", Host=host).status == 200, host


class TestHeaders:
    def test_each_answer_has_them(self, server: Server) -> None:
        client = server.client("view")
        for path in ("/jobs", "/nothing", "/jobs/none", "/openapi.json"):
            headers = client.get(path).headers
            assert "script-src 'self'" in headers["content-security-policy"], path
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert "server" not in headers

    def test_nothing_of_a_job_gets_into_a_header(self, lab: Lab, server: Server) -> None:
        client = server.client(*Role)
        odd = "a\r\nSet-Cookie: x=1"
        reply = client.post("/jobs", {"command": "true", "id": odd})
        assert "set-cookie" not in reply.headers
        if reply.status == 201:
            assert "\n" not in reply.headers["location"]

    def test_an_error_says_what_was_sent_as_json_and_nothing_else(self, server: Server) -> None:
        reply = server.client("view").get("/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
        assert reply.headers["content-type"] == "application/problem+json"


class TestPaths:
    def test_under_a_base_path(self, lab: Lab, serve: Serve) -> None:
        server = serve("--base-path", "/queue", "--no-link", "--allow-submit")
        client = server.client(*Role)
        assert client.get("/me").problem == "no-path"
        inside = Client(server.port, client.headers, base=f"/queue{API}")
        assert inside.get("/me").status == 200
        made = inside.post("/jobs", {"command": "true"})
        assert made.headers["location"].startswith("/queue/api/v1/jobs/")
        for path in ("/queue/..", "/queue/../api/v1/me", "/queuex/api/v1/me", "//api/v1/me"):
            outside = Client(server.port, client.headers, base="")
            assert outside.get(path).status == 404, path

    @pytest.mark.parametrize(
        "path",
        [
            "/../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/api/v1/../../etc/passwd",
            "/static/../",
        ],
    )
    def test_no_file_is_behind_dots(self, server: Server, path: str) -> None:
        reply = Client(server.port, server.client("view").headers, base="").get(path)
        assert reply.status == 404
        assert b"root:" not in reply.body


class TestMessages:
    """Requests that a proxy might take for something else than we do."""

    @pytest.mark.parametrize(
        "lines",
        [
            ["Content-Length: 2", "Transfer-Encoding: chunked"],
            ["Content-Length: 2", "Content-Length: 3"],
            ["Content-Length: +2"],
            ["Transfer-Encoding: chunked, identity"],
            ["Transfer-Encoding : chunked"],
            ["X: a", " folded: b"],
            ["X: a\nTransfer-Encoding: chunked"],
        ],
    )
    def test_two_ways_to_read_one_are_none(self, server: Server, lines: list[str]) -> None:
        told = "\r\n".join(["GET /health HTTP/1.1", "Host: localhost", *lines, "", ""])
        with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
            wire.sendall(told.encode() + b"{}")
            assert wire.recv(100).startswith(b"HTTP/1.1 400")

    def test_what_comes_behind_a_body_is_no_header(self, serve: Serve) -> None:
        proxy = ("--trust-proxy", "127.0.0.1", "--proxy-header", "X-User", "--proxy-role", "view")
        server = serve(*proxy, "--no-link")
        told = f"GET {API}/me HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        for header, status in (("", b"401"), ("X-User: bob\r\n", b"200")):
            with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
                wire.sendall(f"{told}{header}\r\n0\r\nX-User: ann\r\n\r\n".encode())
                reply = wire.recv(10_000)
                assert reply.startswith(b"HTTP/1.1 " + status)
                assert b"ann" not in reply


class TestUpgrades:
    """Requests that would have the connection become another one: they are answered as others."""

    ASKED = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        "Upgrade: anything\r\nConnection: keep-alive, upgrade\r\n",
    )

    @pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
    @pytest.mark.parametrize("pieces", ["one", "two", "bytes"])
    def test_a_body_is_a_body(self, lab: Lab, server: Server, chunked: bool, pieces: str) -> None:
        client = server.client(*Role)
        body = json.dumps({"command": "true", "id": "inside"}).encode()
        # Sent by somebody who may do nothing, and whose body is a request of somebody who may.
        inner = head(client, "POST", "/jobs", len(body)) + body
        stranger = Client(server.port)
        behind = head(client, "GET", "/me", closes=True)
        for asked in self.ASKED:
            length = None if chunked else len(inner)
            outer = head(stranger, "POST", "/me", length, asked=asked)
            sent = chunks(inner) if chunked else inner
            with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if pieces == "one":
                    wire.sendall(outer + sent + behind)
                elif pieces == "two":
                    wire.sendall(outer)
                    wire.sendall(sent + behind)
                else:
                    for byte in outer + sent:
                        wire.sendall(bytes([byte]))
                    wire.sendall(behind)
                assert statuses(wire) == [405, 200], asked
        assert lab.queue.count() == 0

    @pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
    def test_what_is_sent_is_taken(self, lab: Lab, server: Server, chunked: bool) -> None:
        client = server.client(*Role)
        for number, asked in enumerate(self.ASKED):
            with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
                for id in (f"a{number}", f"b{number}"):
                    body = json.dumps({"command": "true", "id": id}).encode()
                    length = None if chunked else len(body)
                    start = head(client, "POST", "/jobs", length, asked=asked)
                    wire.sendall(start + (chunks(body) if chunked else body))
                wire.sendall(head(client, "GET", "/me", asked=asked) * 2)
                wire.sendall(head(client, "GET", f"/jobs/a{number}", closes=True))
                assert statuses(wire) == [201, 201, 200, 200, 200], asked
        assert lab.queue.count() == 2 * len(self.ASKED)

    def test_nothing_is_read_behind_the_last(self, server: Server) -> None:
        client = server.client("view")
        last = "Connection: Upgrade, close\r\nUpgrade: x\r\nContent-Length: 2\r\n"
        told = f"POST /health HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode()
        with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
            wire.sendall(told + b"{}" + head(client, "GET", "/me", closes=True))
            assert statuses(wire) == [405]

    def test_a_tunnel_is_none(self, server: Server) -> None:
        behind = head(server.client("view"), "GET", "/me")
        for target in ("localhost:80", "/health", "http://localhost/health"):
            told = f"CONNECT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"
            with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
                wire.sendall(told.encode() + behind)
                assert statuses(wire) == [400], target


def head(
    client: Client,
    method: str,
    path: str,
    length: int | None = 0,
    *,
    asked: str = "",
    closes: bool = False,
) -> bytes:
    """Write the head of a request; without a length its body comes in chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"{method} {API}{path} HTTP/1.1", "Host: localhost", framing]
    lines += [f"{name}: {value}" for name, value in client.headers.items()]
    lines.append("Content-Type: application/json")
    if closes:
        lines.append("Connection: close")
    return "".join(f"{line}\r\n" for line in lines).encode() + asked.encode() + b"\r\n"


def chunks(body: bytes) -> bytes:
    """Write a body as a chunk, and the end."""
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def statuses(wire: socket.socket) -> list[int]:
    """Return what is answered to each request until the server hangs up."""
    came = b""
    with suppress(ConnectionResetError):
        while part := wire.recv(1 << 16):
            came += part
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", came)]


class TestTooMuch:
    def test_a_body_of_100_mb(self, lab: Lab, server: Server) -> None:
        client = server.client(*Role)
        with closing(
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        ) as wire:
            wire.putrequest("POST", f"{API}/jobs")
            for name, value in client.headers.items():
                wire.putheader(name, value)
            wire.putheader("Content-Type", "application/json")
            wire.putheader("Content-Length", str(100 << 20))
            wire.endheaders()
            assert wire.getresponse().status == 413
        assert lab.queue.count() == 0

    def test_a_body_that_does_not_say_how_long_it_is(self, server: Server) -> None:
        client = server.client(*Role)
        with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
            head = f"POST {API}/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in client.headers.items())
            wire.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode())
            chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            sent = 0
            try:
                for _ in range(100):
                    wire.sendall(chunk)
                    sent += 1
                reply = wire.recv(100)
            except (BrokenPipeError, ConnectionResetError):
                reply = b"HTTP/1.1 413"
            assert b" 413" in reply
        assert client.get("/me").status == 200

    def test_a_bomb_of_gzip(self, server: Server) -> None:
        import gzip

        body = gzip.compress(b'{"command":"' + b" " * 50_000_000 + b'"}')
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        reply = server.client(*Role).ask("POST", "/jobs", body, headers=headers)
        assert reply.problem == "encoding"

    def test_headers_without_end(self, server: Server) -> None:
        with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
            wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            try:
                for number in range(10_000):
                    wire.sendall(b"X-%d: %s\r\n" % (number, b"y" * 1000))
                reply = wire.recv(100)
            except (BrokenPipeError, ConnectionResetError):
                reply = b"HTTP/1.1 400"
            assert b" 400" in reply or b" 431" in reply or not reply

    def test_a_body_that_ends_in_headers_without_end(self, server: Server) -> None:
        client = server.client(*Role)
        with closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE)) as wire:
            head = f"POST {API}/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in client.headers.items())
            head += "Content-Type: application/json\r\n\r\n"
            wire.sendall(head.encode() + b"2\r\n{}\r\n0\r\nX: ")
            try:
                for _ in range(1_000):
                    wire.sendall(b"y" * 100_000)
                reply = wire.recv(100)
            except (BrokenPipeError, ConnectionResetError):
                reply = b""
            assert b" 400" in reply or not reply
        assert client.get("/me").status == 200

    def test_silent_clients_are_let_go_and_harm_nobody(self, server: Server) -> None:
        client = server.client("view")
        with ExitStack() as stack:
            silent = [
                stack.enter_context(
                    closing(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
                )
                for _ in range(300)
            ]
            for wire in silent[::2]:
                wire.sendall(b"GET /api/v1/me HTTP/1.1\r\nHost: lo")
            assert client.get("/me").status == 200
            for wire in silent[:2]:
                wire.settimeout(PATIENCE)
                assert wire.recv(100)[:12] in (b"", b"HTTP/1.1 408", b"HTTP/1.1 400")

    def test_500_streams_leave_room_for_others(self, lab: Lab, server: Server) -> None:
        client = server.client("view")
        with ExitStack() as stack:
            for _ in range(500):
                wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
                stack.callback(wire.close)
                wire.request("GET", f"{API}/live", headers=client.headers)
                assert wire.getresponse().status == 200
            assert client.get("/jobs").status == 200
            lab.queue.enqueue("true", id="j")
            assert client.get("/jobs/j").status == 200
        wait_for(lambda: client.get("/jobs").status == 200, "an answer after they have gone")

    def test_hundreds_that_wait_for_a_job_are_answered_when_it_is_over(
        self, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("true", id="j")
        client = server.client("view")
        with ExitStack() as stack:
            wires = []
            for _ in range(300):
                wire = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
                stack.callback(wire.close)
                wire.request("GET", f"{API}/jobs/j/wait?timeout=60", headers=client.headers)
                wires.append(wire)
            assert client.get("/jobs/j").status == 200
            lab.queue.cancel("j")
            for wire in wires:
                assert b'"state":"cancelled"' in wire.getresponse().read()

    def test_commands_of_a_megabyte_in_lists_of_pages(self, lab: Lab, server: Server) -> None:
        long = "true " + "x" * 1_000_000
        lab.queue.enqueue_many([{"command": long, "tags": ["long"]} for _ in range(10)])
        pages = Client(server.port, server.client("view").headers, base="")
        page = pages.get("/jobs")
        assert page.body.count(b"true xxx") == 10
        assert len(page.body) < 100_000

    def test_bodies_where_little_is_said(self, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("true", id="j")
        client = server.client(*Role)
        long = {"reason": "x" * 70_000}
        assert client.post("/jobs/j/cancel", long).problem == "too-long"
        assert client.ask("GET", "/jobs", b"x" * 2_000).problem == "too-long"
        assert client.ask("DELETE", "/jobs/j", b"x" * 2_000).problem == "too-long"
        command = {"command": "true " + "x" * 100_000}
        assert client.post("/jobs", command).json["command"] == command["command"]

    def test_texts_that_are_made_to_be_slow(self, lab: Lab, server: Server) -> None:
        client = server.client(*Role)
        lab.queue.enqueue_many([{"command": "a" * 5_000} for _ in range(200)])
        for text in ("%" * 500, "_" * 500, "a%" * 200, "\\" * 300, "(a+)+$"):
            assert client.get(f"/jobs?text={text.replace('%', '%25')}").status == 200
        for rule in ("*/1 " * 500, "0-59/1," * 500 + "1 * * * *", "0 0 30 2 *", "* * * * * * *"):
            reply = client.put("/schedules/s", {"rule": rule, "job": {"command": "true"}})
            assert reply.status in (201, 400)
            client.delete("/schedules/s")


def test_who_says_to_be_the_proxy_is_believed_only_where_it_is(serve: Serve) -> None:
    options = ("--proxy-header", "X-User", "--proxy-role", "view", "--no-link")
    here = serve("--trust-proxy", "127.0.0.1", *options)
    elsewhere = serve("--trust-proxy", "10.0.0.0/8", *options)
    twice = f"GET {API}/me HTTP/1.1\r\nHost: localhost\r\nX-User: bob\r\nX-User: ann\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", here.port), PATIENCE)) as wire:
        wire.sendall(twice.encode())
        assert wire.recv(10_000).startswith(b"HTTP/1.1 400")
    claims = {"X-User": "ann"}
    assert Client(here.port, claims).get("/me").json["name"] == "ann"
    assert Client(elsewhere.port, claims).get("/me").status == 403
