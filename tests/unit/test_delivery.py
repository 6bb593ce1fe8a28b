"""Messages of webhooks: their signatures, where they may go, and what may come back."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from time import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from queuectl import delivery
from queuectl.delivery import (
    GONE,
    LONGEST_ANSWER,
    PROGRAM,
    Answer,
    UndeliveredError,
    check_secret,
    check_url,
    is_public,
    new_secret,
    send,
    sign,
)
from queuectl.errors import UsageError
from tests.receiver import Receiver, serving
from tests.support import PATIENCE

SECRET = new_secret()
DRIPS = 200


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving(Receiver()) as server:
        yield server


def deliver(url: str, body: bytes = b"{}", **more: Any) -> Answer:
    asked: dict[str, Any] = {"id": "abc", "secret": SECRET, "timestamp": int(time())}
    return send(url, body, **asked | {"private": True} | more)


class TestSignature:
    def test_the_example_of_the_verifier(self) -> None:
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        body = b'{"test": 2432232314}'
        signature = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
        assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    @given(
        key=st.binary(min_size=24, max_size=64),
        id=st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=1, max_size=12),
        value=st.dictionaries(st.text(), st.text() | st.integers(), max_size=3),
    )
    def test_the_standard_verifier_takes_it(
        self, key: bytes, id: str, value: dict[str, Any]
    ) -> None:
        secret = "whsec_" + b64encode(key).decode()
        assert check_secret(secret) == secret
        body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        timestamp = int(time())
        headers = {
            "webhook-id": id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(secret, id, timestamp, body),
        }
        verifier = Verifier(secret)
        assert verifier.verify(body, headers) == json.loads(body)
        at = datetime.fromtimestamp(timestamp, UTC)
        assert verifier.sign(id, at, body.decode()) == headers["webhook-signature"]
        other = new_secret()
        for wrong in (
            {"webhook-id": id + "0"},
            {"webhook-timestamp": str(timestamp + 1)},
            {"webhook-signature": sign(other, id, timestamp, body)},
        ):
            with pytest.raises(WebhookVerificationError):
                verifier.verify(body, headers | wrong)

    def test_secrets(self) -> None:
        assert check_secret(SECRET) == SECRET
        assert new_secret() != SECRET
        for wrong in ("", "whsec_", "x" * 40, "whsec_short", "whsec_" + "A" * 31, "whsec_!" * 9):
            with pytest.raises(UsageError, match="A secret is whsec_"):
                check_secret(wrong)
        for length, fits in ((23, False), (24, True), (64, True), (65, False)):
            secret = "whsec_" + b64encode(b"x" * length).decode()
            if fits:
                assert check_secret(secret) == secret
            else:
                with pytest.raises(UsageError):
                    check_secret(secret)


class TestUrls:
    @pytest.mark.parametrize(
        "url",
        [
            "https://example.com",
            "http://example.com:8080/a/b?c=d&e=%20",
            "https://[2001:db8::1]/x",
            "http://2130706433/",
        ],
    )
    def test_good_ones(self, url: str) -> None:
        assert check_url(url) == url

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("", "needs a URL"),
            ("example.com/hook", "needs a URL"),
            ("ftp://example.com/", "needs a URL"),
            ("file:///etc/passwd", "needs a URL"),
            ("https://", "needs a URL"),
            ("https:///path", "needs a URL"),
            ("https://user:word@example.com/", "user or password"),
            ("https://token@example.com/", "user or password"),
            ("https://example.com/#part", "behind #"),
            ("https://example.com/a b", "neither spaces"),
            ("https://example.com/a\r\nHost: x", "neither spaces"),
            ("https://münchen.example/", "neither spaces"),
            ("https://example.com:port/", "is no URL"),
            ("https://example.com:99999/", "is no URL"),
            ("https://[::1/", "is no URL"),
            ("https://example.com/" + "x" * 2_048, "characters at most"),
        ],
    )
    def test_bad_ones(self, url: str, why: str) -> None:
        with pytest.raises(UsageError, match=why):
            check_url(url)


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "1.1.1.1",
            "93.184.216.34",
            "2606:4700:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ],
    )
    def test_public_ones(self, address: str) -> None:
        assert is_public(address)

    @pytest.mark.parametrize(
        "address",
        [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "192.0.2.1",
            "192.0.0.8",
            "192.0.0.9",
            "192.88.99.1",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            "198.18.0.1",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2001:0:7f00:1::1",
            "2001:db8::1",
            "2001:20::1",
            "3fff::1",
            "5f00::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fe80::1%lo",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ],
    )
    def test_others(self, address: str) -> None:
        assert not is_public(address)


class TestSending:
    def test_what_arrives(self, receiver: Receiver) -> None:
        body = '{"ü": "🎈"}'.encode()
        answer = deliver(receiver.url, body)
        assert (answer.status, answer.is_good, answer.describe()) == (
            204,
            True,
            "HTTP 204 No Content",
        )
        ((path, headers, arrived),) = receiver.seen
        assert (path, arrived) == ("/hook?a=1", body)
        assert headers["host"] == f"127.0.0.1:{receiver.server_port}"
        assert headers["content-type"] == "application/json"
        assert headers["user-agent"].startswith("queuectl/")
        assert headers["webhook-id"] == "abc"
        assert Verifier(SECRET).verify(arrived, headers) == {"ü": "🎈"}

    @pytest.mark.parametrize(
        ("status", "good", "gone"),
        [
            (200, True, False),
            (299, True, False),
            (300, False, False),
            (400, False, False),
            (404, False, False),
            (410, False, True),
            (429, False, False),
            (500, False, False),
            (503, False, False),
        ],
    )
    def test_what_counts(self, receiver: Receiver, status: int, good: bool, gone: bool) -> None:
        receiver.status, receiver.body = status, b"so it is"
        answer = deliver(receiver.url)
        assert (answer.status, answer.is_good, answer.is_gone) == (status, good, gone)
        assert answer.text == "so it is"

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirects_are_not_followed(self, receiver: Receiver, status: int) -> None:
        with serving(Receiver()) as other:
            receiver.status, receiver.headers = status, {"location": other.url}
            answer = deliver(receiver.url)
            assert not answer.is_good
            assert answer.describe().endswith("(redirects aren't followed)")
            assert other.seen == []
        assert len(receiver.seen) == 1

    def test_of_a_long_answer_the_beginning_is_read(self, receiver: Receiver) -> None:
        receiver.status, receiver.body = 500, b"x" * 10_000_000
        assert deliver(receiver.url).text == "x" * LONGEST_ANSWER

    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1",
            "localhost",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "0.0.0.0",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
        ],
    )
    def test_loopback_is_refused_however_it_is_written(self, receiver: Receiver, host: str) -> None:
        with pytest.raises(UndeliveredError, match=r"is no public address|can't be found"):
            deliver(f"http://{host}:{receiver.server_port}/", private=False)
        assert receiver.seen == []

    def test_a_name_that_means_loopback(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _name(monkeypatch, [["127.0.0.1"]])
        with pytest.raises(UndeliveredError, match=r"example.com, which is 127.0.0.1, is no pub"):
            deliver(f"http://example.com:{receiver.server_port}/", private=False)
        assert receiver.seen == []

    def test_a_name_that_means_something_else_a_moment_later(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection is made to the address that was checked, whatever the name means then."""
        asked = _name(monkeypatch, [["192.0.2.1"], ["127.0.0.1"], ["127.0.0.1"]])
        monkeypatch.setattr(delivery, "is_public", lambda address: address == "192.0.2.1")
        connected = _connecting(monkeypatch)
        with pytest.raises(UndeliveredError):
            deliver(f"http://example.com:{receiver.server_port}/", private=False, patience=0.2)
        assert (len(asked), [where[0] for where in connected]) == (1, ["192.0.2.1"])
        assert receiver.seen == []

    def test_of_several_addresses_only_those_that_may_be(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _name(monkeypatch, [["10.0.0.1", "192.0.2.1", "192.0.2.2", "::1"]])
        monkeypatch.setattr(delivery, "is_public", lambda address: address.startswith("192"))
        connected = _connecting(monkeypatch)
        with pytest.raises(UndeliveredError):
            deliver("http://example.com/", private=False, patience=0.4)
        assert [where[0] for where in connected] == ["192.0.2.1", "192.0.2.2"]

    def test_the_next_address_if_one_does_not_answer(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _name(monkeypatch, [["127.0.0.2", "127.0.0.1"]])
        answer = deliver(f"http://example.com:{receiver.server_port}/x")
        assert answer.is_good
        assert receiver.seen[0][1]["host"] == f"example.com:{receiver.server_port}"

    def test_a_name_that_there_is_not(self) -> None:
        with pytest.raises(UndeliveredError, match="can't be found"):
            deliver("http://nowhere.invalid/")

    def test_nobody_who_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        with pytest.raises(UndeliveredError, match=r"127.0.0.1 can't be reached: Connection ref"):
            deliver(f"http://127.0.0.1:{port}/")

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            (b"", "didn't answer within 0.5 s"),
            (b"HTTP/1.1 200 OK\r\n", "didn't answer within 0.5 s"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", "didn't answer within 0.5 s"),
            (b"what?\r\n\r\n", "doesn't speak HTTP"),
            (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, "doesn't speak HTTP"),
            (b"HTTP/1.1 100 Continue\r\n\r\n" * 9, "didn't answer within 0.5 s"),
        ],
    )
    def test_answers_that_are_none(self, said: bytes, why: str) -> None:
        with _mute(said) as url, pytest.raises(UndeliveredError, match=why):
            deliver(url, patience=0.5)

    def test_one_who_says_a_byte_now_and_then(self) -> None:
        """It is the whole that must come in time, and not each byte."""
        left = Event()
        slow = _mute(b"HTTP/1.1 200 OK\r\na: ", drip=b"x", left=left)
        with slow as url, pytest.raises(UndeliveredError, match=r"didn't answer within 0.5 s"):
            deliver(url, patience=0.5)
        assert left.is_set()

    def test_one_who_hangs_up(self) -> None:
        hasty = _mute(b"HTTP/1.", hang_up=True)
        with hasty as url, pytest.raises(UndeliveredError, match="doesn't speak HTTP"):
            deliver(url)


class TestTls:
    @pytest.fixture
    def secure(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
        """A server whose certificate is for `localhost`, and by nobody whom we trust."""
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"),
                *("-addext", "subjectAltName=DNS:localhost"),
            ],
            check=True,
            capture_output=True,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server = Receiver()
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.certificate = certificate
        with serving(server):
            yield server

    def test_a_certificate_that_is_trusted(
        self, secure: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(self.certificate))
        assert deliver(f"https://localhost:{secure.server_port}/x").is_good
        assert secure.seen[0][1]["host"] == f"localhost:{secure.server_port}"

    def test_one_that_is_not(self, secure: Receiver) -> None:
        with pytest.raises(UndeliveredError, match="localhost has no valid certificate"):
            deliver(f"https://localhost:{secure.server_port}/")
        assert secure.seen == []

    def test_one_for_another_name(self, secure: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(self.certificate))
        with pytest.raises(UndeliveredError, match=r"127.0.0.1 has no valid certificate"):
            deliver(f"https://127.0.0.1:{secure.server_port}/")
        assert secure.seen == []

    def test_no_tls_at_all(self, receiver: Receiver) -> None:
        with pytest.raises(UndeliveredError, match="can't be reached"):
            deliver(f"https://127.0.0.1:{receiver.server_port}/")

    def test_one_that_says_nothing(self) -> None:
        with _mute(b"") as url, pytest.raises(UndeliveredError, match="didn't answer within"):
            deliver(url.replace("http:", "https:"), patience=0.5)


class TestTheProgram:
    def run(self, url: str, **changes: Any) -> "subprocess.CompletedProcess[str]":
        order = {"url": url, "secret": SECRET, "private": True, "id": "a", "body": '{"ü": 1}'}
        return subprocess.run(
            PROGRAM,
            input=json.dumps(order | changes),
            text=True,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def test_delivered(self, receiver: Receiver) -> None:
        done = self.run(receiver.url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "HTTP 204 No Content\n", "")
        ((_, headers, body),) = receiver.seen
        assert Verifier(SECRET).verify(body, headers) == {"ü": 1}

    def test_a_failure_ends_with_what_it_is(self, receiver: Receiver) -> None:
        receiver.status, receiver.body = 500, b"because\nof"
        done = self.run(receiver.url)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == ["because", "of", "HTTP 500 Internal Server Error"]

    def test_gone(self, receiver: Receiver) -> None:
        receiver.status = 410
        done = self.run(receiver.url)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (GONE, "HTTP 410 Gone")

    def test_refused(self, receiver: Receiver) -> None:
        done = self.run(receiver.url, private=False)
        assert done.returncode == 1
        assert "is no public address" in done.stderr
        assert receiver.seen == []
        assert SECRET not in done.stderr


# -- what stands in for the world -------------------------------------------------------------


def _name(monkeypatch: pytest.MonkeyPatch, answers: list[list[str]]) -> list[str]:
    """Have a resolver say this of any name, one answer after the other; returns what is asked."""
    asked: list[str] = []
    find = socket.getaddrinfo

    def answer(host: str, port: int, *args: Any, **more: Any) -> Any:
        addresses = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [one for name in addresses for one in find(name, port, *args, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def _connecting(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Have nobody answer, wherever one connects to; returns where that is."""
    connected: list[Any] = []

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            connected.append(address)
            raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "socket", Socket)
    return connected


@contextmanager
def _mute(
    said: bytes, *, drip: bytes = b"", hang_up: bool = False, left: Event | None = None
) -> Iterator[str]:
    """Serve one connection with just these bytes; returns its URL.

    Notes if it is left while there is more to say: that may take ten seconds.
    """
    over = Event()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(said)
            if hang_up:
                connection.shutdown(socket.SHUT_WR)
                # To hang up with something unread would be to refuse what was said, too.
                while connection.recv(1 << 16):
                    pass
                return
            for _ in range(DRIPS):
                if over.wait(0.05) and left is None:
                    return
                try:
                    connection.sendall(drip)
                except OSError:
                    if left is not None:
                        left.set()
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            over.set()
            thread.join(PATIENCE)


def test_nothing_is_imported_before_it_is_needed() -> None:
    """A node imports this module, and most nodes never deliver anything."""
    assert http.client is not None
    script = "import sys; import queuectl.delivery; print([*sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert not {"http.client", "ssl", "hmac", "ipaddress", "json"} & set(eval(found))
