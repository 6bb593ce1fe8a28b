"""A small HTTP server for metrics, in a thread of its own: bounded in all that it takes.

It knows GET and nothing else, reads a head of some kilobytes and no body, and has few connections,
each for some seconds and one answer. If there are too many, who has been there for longest goes:
whoever keeps connections open keeps nobody out who asks at once. What goes wrong with a connection
ends that connection.
"""

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from threading import Event, Thread
from time import monotonic

from queuectl.errors import StateError, UsageError
from queuectl.guard.signals import harmless, hold
from queuectl.metrics import Text
from queuectl.node.log import Say

Answer = Callable[[str, str], Text | None]
"""Says what there is at a path, for who sends this Accept header; None for nothing."""

LONGEST_HEAD = 8 << 10
"""Bytes of a request that are read."""
MOST = 16
"""Connections at a time."""
WITHIN = 5.0
"""Seconds that one may take, from its beginning to its end."""
AGAIN = 1.0
"""Seconds until it is tried again to listen, or to accept a connection."""
_CHUNK = 1 << 16
_END = b"\r\n\r\n"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}
_PLAIN = "text/plain; charset=utf-8"


@dataclass(eq=False, slots=True)
class _Client:
    """A connection: it is heard, then answered, then read out until the other side is done."""

    socket: socket.socket
    until: float
    heard: bytearray = field(default_factory=bytearray)
    unsent: memoryview | None = None
    """What is left of the answer; None as long as there is none."""


class Server:
    """Serves what `answer` says, at one address."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        answer: Answer,
        done: Callable[[], None],
        say: Say,
    ) -> None:
        """Port 0 is any that is free. `done` is called when `answer` won't be any more."""
        self.host, self.port = address
        self._answer = answer
        self._done = done
        self._say = say
        self._listener: socket.socket | None = None
        self._clients: dict[_Client, None] = {}
        """Those who are here, in the order in which they came."""
        self._stopped = Event()
        self._thread = Thread(target=self._serve, name="metrics", daemon=True)
        # What is written here ends its sleep.
        self._in, self._out = socket.socketpair()
        self._failed = False
        """Whether it has been said already that something is wrong with the answers."""

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    # -- by the loop --------------------------------------------------------------------

    def listen(self) -> None:
        """Take the address; one that can't be had is a `StateError`."""
        try:
            found = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except (OSError, UnicodeError):
            raise UsageError(
                f"{self.host!r} is no address of this host; check --metrics."
            ) from None
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            # What is left of connections that are over must not keep us from it.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(MOST)
        except OSError as error:
            listener.close()
            raise StateError(
                f"Metrics can't be served at {self.url}: {error.strerror or error}.",
                advice="give another [HOST:]PORT with --metrics.",
            ) from None
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._listener = listener

    def start(self) -> None:
        """Begin to answer. If it doesn't listen yet, it does so as soon as that can be."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._stopped.set()
        self._in.send(b"\0")
        if self._thread.ident is not None:
            # It may wait for the database, for which nobody waits here.
            self._thread.join(timeout=AGAIN)
        if self._listener is not None:
            self._listener.close()

    # -- by the thread ------------------------------------------------------------------

    def _serve(self) -> None:
        # They are for the loop, also when it holds them back for the next program.
        hold(harmless())
        try:
            while self._listener is None and not self._stopped.wait(AGAIN):
                with suppress(StateError, UsageError):
                    self.listen()
            if self._listener is not None:
                self._answer_all(self._listener)
        finally:
            self._done()

    def _answer_all(self, listener: socket.socket) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._out, selectors.EVENT_READ)
            waiting.register(listener, selectors.EVENT_READ)
            while not self._stopped.is_set():
                for key, _ in waiting.select(self._patience()):
                    if key.fileobj is listener:
                        self._accept(listener, waiting)
                    # It may have had to make room for another one a moment ago.
                    elif key.data in self._clients:
                        self._go_on(key.data, waiting)
                for client in [one for one in self._clients if one.until <= monotonic()]:
                    self._leave(client, waiting)
            for client in [*self._clients]:
                self._leave(client, waiting)

    def _patience(self) -> float | None:
        # They come in the order in which their time is over.
        first = next(iter(self._clients), None)
        return None if first is None else max(0.0, first.until - monotonic())

    def _accept(self, listener: socket.socket, waiting: selectors.BaseSelector) -> None:
        try:
            accepted, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # There may be no descriptor left. Not to come back at once.
            self._stopped.wait(AGAIN)
            return
        if len(self._clients) >= MOST:
            self._leave(next(iter(self._clients)), waiting)
        accepted.setblocking(False)
        client = _Client(accepted, monotonic() + WITHIN)
        self._clients[client] = None
        waiting.register(accepted, selectors.EVENT_READ, client)

    def _leave(self, client: _Client, waiting: selectors.BaseSelector) -> None:
        waiting.unregister(client.socket)
        del self._clients[client]
        client.socket.close()

    def _go_on(self, client: _Client, waiting: selectors.BaseSelector) -> None:
        try:
            goes_on = bool(client.unsent) or self._hear(client)
            if client.unsent:
                self._send(client)
        except OSError:
            goes_on = False
        if goes_on:
            event = selectors.EVENT_WRITE if client.unsent else selectors.EVENT_READ
            waiting.modify(client.socket, event, client)
        else:
            self._leave(client, waiting)

    def _hear(self, client: _Client) -> bool:
        """Take in what a client says, and answer a request that is whole; False when it is done."""
        try:
            chunk = client.socket.recv(_CHUNK)
        except BlockingIOError:
            return True
        if client.unsent is not None:
            # It has its answer, and what it still says is of no interest. But to close before all
            # of that has come could take the answer back.
            return bool(chunk)
        client.heard += chunk
        head, end, _ = client.heard.partition(_END)
        if len(head) > LONGEST_HEAD:
            client.unsent = memoryview(_response(431, "The head of the request is too long.\n"))
        elif end:
            client.unsent = memoryview(self._respond(bytes(head)))
        return bool(chunk)

    def _send(self, client: _Client) -> None:
        assert client.unsent is not None
        with suppress(BlockingIOError):
            client.unsent = client.unsent[client.socket.send(client.unsent) :]
        if not client.unsent:
            client.socket.shutdown(socket.SHUT_WR)

    def _respond(self, head: bytes) -> bytes:
        line, *fields = head.decode("latin-1").split("\r\n")
        words = line.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _response(400, "That isn't HTTP.\n")
        method, target, _ = words
        if method != "GET":
            return _response(405, "Only GET is answered.\n", "Allow: GET\r\n")
        named = [field.partition(":") for field in fields]
        called = [value.strip() for name, _, value in named if name.strip().lower() == "host"]
        if not all(map(self._is_ours, called)):
            return _response(421, "This node isn't known by that name; ask by its address.\n")
        accept = ",".join(value for name, _, value in named if name.strip().lower() == "accept")
        try:
            text = self._answer(target.partition("?")[0], accept)
        except Exception as error:  # noqa: BLE001 - what is wrong here must end no runs
            if not self._failed:
                self._failed = True
                self._say(f"The metrics can't be told: {error!r}", level="error")
            return _response(500, "The log of the node says what is wrong.\n")
        if text is None:
            return _response(404, "There are /metrics, and /metrics/node.\n")
        return _answer(200, text.body, text.content_type)

    def _is_ours(self, called: str) -> bool:
        """Tell whether a name can be meant for us.

        A page of somebody else could have a name of its own point here, and a browser ask by it.
        That can't be an address, nor a name without a dot, which nobody has on the internet.
        """
        name = _name_of(called)
        return name is not None and (
            "." not in name or _is_address(name) or name in (self.host.lower(), *_own_names())
        )


def _name_of(called: str) -> str | None:
    """Return the name in a Host header, without its port; None for what can't be one."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(f"//{called}")
        parts.port  # noqa: B018 - it raises
    except ValueError:
        return None
    is_bare = parts.netloc == called and "@" not in called
    return (parts.hostname or "").rstrip(".") if is_bare else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@cache
def _own_names() -> tuple[str, ...]:
    """Return what this host calls itself."""
    return socket.gethostname().lower(), socket.getfqdn().lower()


def _response(status: int, why: str, more: str = "") -> bytes:
    return _answer(status, why.encode(), _PLAIN, more)


def _answer(status: int, body: bytes, content_type: str, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"X-Content-Type-Options: nosniff\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
