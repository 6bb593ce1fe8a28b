"""The server: its sockets, its end, and what protects it from slow and silent clients."""

import asyncio
import logging
import os
import resource
import socket
import ssl
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from errno import EACCES, EADDRINUSE, EMFILE, ENFILE
from ipaddress import ip_address
from math import inf
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from queuectl.errors import UsageError
from queuectl.values import dataclass
from queuectl.web.access_log import AccessLog
from queuectl.web.app import App
from queuectl.web.http import UNIX

if TYPE_CHECKING:
    from queuectl.queue import Queue
    from queuectl.web.gate import Rules

HEADERS_WITHIN = 15.0
"""Seconds in which a client has to say what it wants."""
IDLE = 30
"""Seconds that a connection may stay open between two requests."""
MOST_CONNECTIONS = 8_192
"""Some for each browser that has a dashboard open: a stream, and what it asks for meanwhile."""
FILES_BESIDES = 256
"""Descriptors that aren't connections: files, and what goes to the database."""
LEAST_READ = 4 << 10
"""Bytes of an answer that a client has to take, while one waits once for that."""
TOLD_EVERY = 60.0
"""Seconds between two lines that say that there are too many connections."""
LONGEST_HEAD = 32 << 10
"""Bytes of the line and headers of a request."""
ENDS_WITHIN = 10
"""Seconds that requests have to come to their end."""
FIRST_PASSED = 3
"""The number of the first descriptor that systemd passes on."""


_log = logging.getLogger("queuectl.web")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the server is to be found."""

    host: str = "127.0.0.1"
    port: int = 0
    socket: str | None = None
    """The path of a socket instead."""
    systemd: bool = False
    """Whether systemd has opened the sockets for us."""
    cert: str | None = None
    key: str | None = None
    https: bool = False
    """Whether a proxy serves https for us."""
    names: tuple[str, ...] = ()
    """By which it is called besides."""
    log: str | None = None
    """The file in which each request is noted; `-` is stderr."""


class _Taken(socket.socket):
    """A connection that tells when it is closed."""

    def __init__(self, taken: socket.socket, over: Callable[[], None]) -> None:
        super().__init__(taken.family, taken.type, taken.proto, fileno=taken.detach())
        self._over = over

    def close(self) -> None:
        """Close it."""
        if self.fileno() >= 0:
            self._over()
        super().close()


class Listening(socket.socket):
    """A socket that takes so many connections at a time; others are hung up on at once.

    A server that had no descriptor left for one would be told of it again and again.
    """

    def __init__(self, opened: socket.socket, most: int) -> None:
        super().__init__(fileno=opened.detach())
        self._most = most
        self._taken = 0
        self._told = -inf
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection; if there are too many, it is a `ConnectionAbortedError`."""
        try:
            taken, address = super().accept()
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE):
                raise
            self._turn_away()
            raise ConnectionAbortedError from None
        if self._taken >= self._most:
            taken.close()
            self._tell()
            raise ConnectionAbortedError
        self._taken += 1
        return _Taken(taken, self._let_go), address

    def _let_go(self) -> None:
        self._taken -= 1

    def _turn_away(self) -> None:
        """Hang up on who comes next, with the descriptor that is kept for that."""
        self._give_up_spare()
        with suppress(OSError):
            super().accept()[0].close()
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)
        self._tell()

    def _give_up_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _tell(self) -> None:
        if monotonic() - self._told >= TOLD_EVERY:
            self._told = monotonic()
            told = "There are %d connections; others are turned away for now."
            _log.warning(told, self._taken)

    def close(self) -> None:
        """Close it."""
        self._give_up_spare()
        super().close()


class _Patient(HttpToolsProtocol):
    """A connection whose client has to say in time what it wants, and not at any length.

    And to read what it is answered: what isn't taken keeps the connection, and memory.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._left = 0
        """Bytes that weren't taken yet when they were last looked at."""
        self._unread = 0
        """Bytes that have come since there was last a request, or a part of its body."""
        self._in_head = True
        self._is_known = False
        """Whether a head is read that was read before."""
        self._framing = b""
        """The header that says how a body is sent that the parser would take for no body."""
        self._until = self.loop.time() + HEADERS_WITHIN
        self._look_at(self._until)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    # -- message by message -----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unread += len(data)
        self._unset_keepalive_if_required()
        try:
            self._read(data)
        except HttpParserError:
            self.send_400_response("That is no request.")
        if self._unread > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("That is too long.")

    def _read(self, data: bytes) -> None:
        """Read requests, whatever else they would have the connection become.

        Behind the head of one that asks for that, the parser expects another protocol, and no body.
        """
        rest = memoryview(data)
        while rest:
            try:
                self.parser.feed_data(rest)
                return
            except HttpParserUpgrade as error:
                rest = rest[error.args[0] :]
            if self._framing:
                self._expect_body()

    def _expect_body(self) -> None:
        """Go on with a parser that was told of the body, and of nothing else."""
        ends = b"" if self.cycle.keep_alive else b"connection: close\r\n"
        head = b"POST / HTTP/1.1\r\n%b%b\r\n" % (self._framing, ends)
        self._framing = b""
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._is_known = True
        self.parser.feed_data(head)
        self._is_known = False

    def on_message_begin(self) -> None:
        if not self._is_known:
            super().on_message_begin()
            self._in_head = True

    def on_url(self, url: bytes) -> None:
        if not self._is_known:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes behind a body could say of its sender what a proxy has kept it from saying.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_known:
            return
        self._in_head = False
        self._unread = 0
        if self.parser.get_method() == b"CONNECT":
            raise HttpParserError("There is nothing behind us.")
        super().on_headers_complete()
        self._framing = self._framing_of_body() if self.parser.should_upgrade() else b""

    def _framing_of_body(self) -> bytes:
        for name, value in self.headers:
            if name in (b"content-length", b"transfer-encoding"):
                return b"%b: %b\r\n" % (name, value)
        return b""

    def on_message_complete(self) -> None:
        if not self._framing:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    # -- in time ----------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._until = self.loop.time() + IDLE + HEADERS_WITHIN

    def resume_writing(self) -> None:
        super().resume_writing()
        self._left = 0

    def _look_at(self, at: float) -> None:
        """See at some time whether it is over: a timer for each request would cost more."""
        self._look = self.loop.call_at(at, self._check)

    def _check(self) -> None:
        now = self.loop.time()
        left = self.transport.get_write_buffer_size()
        if self._is_unread(left):
            self.transport.abort()
            return
        self._left = left
        is_busy = self.cycle is not None and not self.cycle.response_complete
        if left or is_busy:
            self._look_at(now + HEADERS_WITHIN)
        elif now < self._until:
            self._look_at(self._until)
        if now >= self._until and not is_busy:
            self.transport.close()

    def _is_unread(self, left: int) -> bool:
        """Tell whether a client has taken next to nothing since it was last looked at."""
        waits = self.flow.write_paused or self.transport.is_closing()
        return waits and 0 < self._left < left + LEAST_READ


class _Server(uvicorn.Server):
    """A server that tells its streams when it is about to end."""

    def __init__(self, config: uvicorn.Config, app: App, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._app.start()
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not by the one of the class: that has the signal end us once all is over.
        self.force_exit = self.should_exit
        self.should_exit = True
        self._app.live.stop()
        self._app.ends.set()


def open_sockets(place: Place) -> list[socket.socket]:
    """Open the sockets that the server is to listen on, or take those that systemd has opened."""
    if place.systemd:
        return _passed()
    if place.socket is not None:
        return [_unix(place.socket)]
    try:
        found = socket.getaddrinfo(
            place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise UsageError(f"{place.host!r} is no address here: {error.strerror}.") from None
    family, kind, proto, _, address = found[0]
    opened = socket.socket(family, kind, proto)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        opened.close()
        where = f"{_bracketed(place.host)}:{place.port}"
        raise UsageError(
            f"{where} can't be listened on: {os.strerror(error.errno or 0)}.",
            advice=_ANOTHER_PORT.get(error.errno or 0, "choose another --host or --port."),
        ) from None
    return [opened]


_ANOTHER_PORT = {
    EADDRINUSE: "stop what listens there, or choose another --port; 0 is any that is free.",
    EACCES: "choose a --port from 1024 on, or have a proxy or systemd listen there.",
}


def _passed() -> list[socket.socket]:
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        raise UsageError("systemd has passed no sockets on; start queuectl-web.socket.")
    count = int(os.environ.get("LISTEN_FDS", "0"))
    return [socket.socket(fileno=FIRST_PASSED + number) for number in range(count)]


def _unix(path: str) -> socket.socket:
    """Open a socket for its owner and group; an old one that nobody listens on is removed."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise UsageError(f"{path} is there, and is no socket; it was left alone.")
        with closing(socket.socket(socket.AF_UNIX)) as probe:
            if probe.connect_ex(path) == 0:
                raise UsageError(f"{path} is listened on already.")
        os.unlink(path)
    opened = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)
    try:
        opened.bind(path)
    except OSError as error:
        opened.close()
        raise UsageError(f"{path} can't be listened on: {error.strerror}.") from None
    finally:
        os.umask(before)
    return opened


def check_certificate(cert: str, key: str) -> None:
    """Raise a `UsageError` that names the file, if a certificate or its key can't be used."""
    for option, path, mark in (
        ("--tls-cert", cert, "-----BEGIN CERTIFICATE-----"),
        ("--tls-key", key, "PRIVATE KEY-----"),
    ):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                text = file.read()
        except OSError as error:
            raise UsageError(f"{option}: {path} can't be read: {error.strerror}.") from None
        if mark not in text:
            raise UsageError(f"{option}: {path} has no {mark.strip('-')} in it, as PEM files have.")
        if "ENCRYPTED" in text:
            raise UsageError(
                f"{option}: {path} is encrypted; `openssl pkey -in {path} -out FILE` decrypts it."
            )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(f"{key} isn't the key of the certificate in {cert}.") from None
        raise UsageError(
            f"{cert} and {key} can't be used as a certificate and its key: {error.reason}."
        ) from None


def check_closed(opened: Sequence[socket.socket]) -> None:
    """Raise a `UsageError` if everybody may open a socket by which who comes is believed."""
    paths = [one.getsockname() for one in opened if one.family == socket.AF_UNIX]
    if not paths:
        raise UsageError(
            "Nobody comes by a socket here, so none can be trusted as a proxy.",
            advice="--trust-proxy unix goes with --socket.",
        )
    for path in paths:
        # One that has no file is open to all on this host.
        if isinstance(path, bytes) or os.stat(path).st_mode & stat.S_IWOTH:
            raise UsageError(
                f"Everybody may open {os.fsdecode(path)!r}, and could say who they are.",
                advice="give it SocketMode=0660 in its unit, or take --trust-proxy unix away.",
            )


def make_room(connections: int) -> int:
    """Have the system let us open so many, or as many as we get; returns how many that are.

    A shell gives its programs a thousand descriptors, and lets them take more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES_BESIDES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        # Where there are few at all, half of them are for the rest.
        return max(soft - FILES_BESIDES, soft // 2)
    return connections


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Where a server is found that listens."""

    listens: str
    """The address that it listens on itself."""
    urls: tuple[str, ...]
    """Where browsers find it, also behind a proxy: one for each name that it has."""


def found_at(place: Place, opened: socket.socket, base_path: str) -> Found:
    """Return where a server is found, going by what it was told."""
    names = tuple(_bracketed(name) for name in place.names if name != "*")
    if opened.family == socket.AF_UNIX:
        listens = f"unix:{opened.getsockname()}"
        hosts = names or ("localhost",)
    else:
        address, port = opened.getsockname()[:2]
        at = f"{_bracketed(address)}:{port}"
        listens = f"{'https' if place.cert else 'http'}://{at}{base_path}"
        if place.https:
            # The proxy has a port of its own.
            hosts = names or (_bracketed(address),)
        elif ip_address(address).is_unspecified:
            hosts = tuple(f"{name}:{port}" for name in names or ("localhost",))
        elif ip_address(address).is_loopback:
            hosts = (at,)
        else:
            hosts = (at, *(f"{name}:{port}" for name in names))
    scheme = "https" if place.cert or place.https else "http"
    return Found(
        listens=listens,
        urls=tuple(f"{scheme}://{host}{base_path}" for host in dict.fromkeys(hosts)),
    )


def _bracketed(host: str) -> str:
    """Write a host as URLs have it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def serve(queue: "Queue", place: Place, rules: "Rules", ready: Callable[[Found], None]) -> int:
    """Serve until somebody says stop; `ready` hears where, once that goes."""
    if place.cert and place.key:
        check_certificate(place.cert, place.key)
    opened = open_sockets(place)
    try:
        if UNIX in rules.proxy.networks:
            check_closed(opened)
        most = make_room(MOST_CONNECTIONS)
        opened = [Listening(one, most) for one in opened]
        found = found_at(place, opened[0], rules.base_path)
        app = App(queue, rules)
        config = uvicorn.Config(
            app if place.log is None else AccessLog(app, place.log),
            http=_Patient,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_keep_alive=IDLE,
            timeout_graceful_shutdown=ENDS_WITHIN,
            ssl_certfile=place.cert,
            ssl_keyfile=place.key,
        )
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
        # What is wrong with a request is for its sender to know.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        config.load()
        server = _Server(config, app, lambda: ready(found))
        with suppress(KeyboardInterrupt):
            asyncio.run(server.serve(sockets=opened))
        app.live.stop()
        return 0
    finally:
        for one in opened:
            one.close()
        if place.socket is not None:
            with suppress(OSError):
                os.unlink(place.socket)
