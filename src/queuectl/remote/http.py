"""Sending requests to a server, and what can go wrong on the way, as errors of ours.

What may be asked again is, if a connection breaks: a server that is started anew is waited for a
moment, or for as long as somebody who waits has patience. Nobody is followed who sends us
elsewhere: a token goes to the server that it is for, and to no other.
"""

import json
import socket
import ssl
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from random import uniform
from threading import Lock, local
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeVar

from queuectl import __version__
from queuectl.address import Remote
from queuectl.errors import (
    QueuectlError,
    StoreBusyError,
    StoreDeniedError,
    StoreError,
    StoreTooOldError,
    StoreUnreachableError,
    StoreUnsettledError,
)
from queuectl.remote.wire import error_of

API = "/api/v1"
WITHIN = 60.0
"""Seconds that a server may be silent for."""
FOR_LONG = 3_600.0
"""The same of what may take long, and says nothing meanwhile."""
CONNECT_WITHIN = 10.0
PATIENCE = 10.0
"""Seconds for which a connection that broke is made again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two tries, as long as nobody answers: each takes twice as long as the last."""
STALE = 3.0
"""Seconds after which a connection isn't used again: servers close those that rest."""
OF_PROXIES = (502, 503, 504)
"""What proxies answer while the server behind them is away."""

Connection = HTTPConnection
T = TypeVar("T")


class LostError(Exception):
    """Nobody answers, or a connection broke; `heard` if the request may have come through."""

    def __init__(self, why: str, *, heard: bool, told: QueuectlError | None = None) -> None:
        """`told` is what is to be said of it, if that is known."""
        super().__init__(why)
        self.heard = heard
        self.told = told


class Request(NamedTuple):
    """What a server is asked for."""

    path: str
    body: bytes | Callable[[], Iterable[bytes]] | None = None
    """What comes bit by bit is given as what yields it, anew for each try."""
    headers: Mapping[str, str] = {}
    method: str = "POST"
    within: float = WITHIN
    """Seconds that the server may be silent for."""
    changes: bool = False
    again: bool = True
    """Whether it can be asked again if nobody knows whether it was heard."""


class Message(NamedTuple):
    """An event of a stream."""

    name: str
    id: str | None
    data: Any


class Reply:
    """An answer that has begun to come."""

    def __init__(self, client: "Client", connection: Connection, response: HTTPResponse) -> None:
        self._client = client
        self._connection = connection
        self.response = response
        self.status = response.status

    @property
    def kind(self) -> str:
        """The media type of the answer."""
        return str(self.response.headers.get_content_type())

    def whole(self) -> bytes:
        """Return all of it."""
        with self._client.guarded(self._connection, heard=True):
            body = self.response.read()
        self._client.keep(self._connection, self.response)
        return body

    def lines(self) -> Generator[bytes]:
        """Yield it line by line, as it comes."""
        try:
            while True:
                with self._client.guarded(self._connection, heard=True):
                    line = self.response.readline()
                    # What ends amid a line, or before its time, is no end.
                    if line and not line.endswith(b"\n"):
                        raise ConnectionResetError("it ended amid a line")
                if not line:
                    return
                yield line
        finally:
            self._connection.close()

    def events(self) -> Generator[Message]:
        """Yield the events of a stream, as they come."""
        name, id, data = "message", None, ""
        for line in self.lines():
            word, _, said = line.decode(errors="replace").rstrip("\n").partition(": ")
            if word == "event":
                name = said
            elif word == "id":
                id = said
            elif word == "data":
                data = said
            elif not word and data:
                yield Message(name, id, self._client.parsed(data))
                name, id, data = "message", None, ""

    def hang_up(self) -> None:
        """End it for whoever reads it, in another thread."""
        if (sock := self._connection.sock) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Read nothing more of it."""
        self._connection.close()


class Client:
    """Asks one server, from any number of threads."""

    def __init__(self, remote: Remote, token: Callable[[], str]) -> None:
        self.remote = remote
        self._token = token
        self._idle: list[tuple[float, Connection]] = []
        self._lock = Lock()
        self._context: ssl.SSLContext | None = None
        self._was_there = False
        """Whether it has ever answered."""
        self._mood = local()
        """Until when a thread has patience, if that isn't as usual."""

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    @contextmanager
    def patient(self, seconds: float | None) -> Iterator[None]:
        """Wait inside the block for a server that is away; for so long, or for ever."""
        before = self._patience
        self._mood.until = monotonic() + (float("inf") if seconds is None else seconds)
        try:
            yield
        finally:
            self._mood.until = before

    @property
    def _patience(self) -> float | None:
        until: float | None = getattr(self._mood, "until", None)
        return until

    def ask(self, request: Request) -> Reply:
        """Send a request and return the answer; a refusal is the error that the server names."""
        return self._tried(request, lambda reply: reply)

    def fetch(self, request: Request) -> bytes:
        """Send a request and return all of the answer: one that breaks off is asked for again."""
        return self._tried(request, Reply.whole)

    def _tried(self, request: Request, take: Callable[[Reply], T]) -> T:
        pause = FIRST_PAUSE
        patience = monotonic() + PATIENCE
        heard = False
        while True:
            try:
                return take(self._once(request))
            except LostError as error:
                error.heard = heard = heard or error.heard
                until = max(patience, self._patience or 0)
                may_wait = self._was_there or heard or self._patience is not None
                if (heard and not request.again) or not may_wait or monotonic() >= until:
                    raise self.lost(error, changes=request.changes) from None
                # A crowd that was cut off together doesn't come back together.
                sleep(min(pause * uniform(0.5, 1.0), max(until - monotonic(), 0)))
                pause = min(pause * 2, LONGEST_PAUSE)

    def stream(self, path: str, last: str | None) -> Reply:
        """Begin to hear a stream of events, behind the one that was heard last."""
        headers = {"Accept": "text/event-stream"} | (
            {} if last is None else {"Last-Event-ID": last}
        )
        return self.ask(Request(path, headers=headers, method="GET"))

    def lost(self, error: LostError, *, changes: bool) -> QueuectlError:
        """Return what is to be said of a request that came to nothing, as far as one can tell."""
        if changes and error.heard:
            why = f"The connection to {self.remote.url} was lost ({error})"
            return _unsettled(why)
        return error.told or self._unreachable(error)

    def parsed(self, text: str | bytes, *, changes: bool = False) -> Any:
        """Return what JSON says that the server has sent."""
        try:
            return json.loads(text)
        except ValueError:
            raise self.odd("that is no JSON", changes=changes) from None
        except RecursionError:
            raise self.odd("that is too deep", changes=changes) from None

    def odd(self, why: object, *, changes: bool = False) -> StoreError:
        """Return what is to be said of an answer that no server of ours gives."""
        said = f"{self.remote.url} answers in a way that isn't understood: {why}"
        return _unsettled(said) if changes else StoreError(f"{said}.")

    # -- one try ------------------------------------------------------------------------

    def _once(self, request: Request) -> Reply:
        body: Any = request.body() if callable(request.body) else request.body
        said = {
            "Authorization": f"Bearer {self._token()}",
            "User-Agent": f"queuectl/{__version__}",
            "Accept": "application/json",
            **request.headers,
        }
        connection = self._connection(request.within)
        with self.guarded(connection, heard=True):
            # Who refuses a long body may say so before all of it was sent, and hang up.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(
                    request.method,
                    f"{self.remote.base}{API}{request.path}",
                    body=body,
                    headers=said,
                    encode_chunked=callable(request.body),
                )
            response = connection.getresponse()
        reply = Reply(self, connection, response)
        if response.status in (200, 201, 204):
            self._was_there = True
            return reply
        raise self._refusal(reply)

    def _connection(self, within: float) -> Connection:
        """Return a connection that is open."""
        now = monotonic()
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if now - since < STALE and connection.sock is not None:
                    connection.sock.settimeout(within)
                    return connection
                connection.close()
        connection = self._new()
        with self.guarded(connection, heard=False):
            connection.connect()
        assert connection.sock is not None
        connection.sock.settimeout(within)
        return connection

    def _new(self) -> Connection:
        remote = self.remote
        if not remote.is_secure:
            return HTTPConnection(remote.host, remote.port, timeout=CONNECT_WITHIN)
        if self._context is None:
            # It knows SSL_CERT_FILE and SSL_CERT_DIR.
            self._context = ssl.create_default_context()
        return HTTPSConnection(
            remote.host, remote.port, timeout=CONNECT_WITHIN, context=self._context
        )

    def keep(self, connection: Connection, response: HTTPResponse) -> None:
        """Use a connection again whose answer was read."""
        if response.will_close or connection.sock is None:
            connection.close()
            return
        with self._lock:
            self._idle.append((monotonic(), connection))

    @contextmanager
    def guarded(self, connection: Connection, *, heard: bool) -> Iterator[None]:
        """Make of what goes wrong with a connection an error of ours, and close it."""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise StoreDeniedError(
                f"The certificate of {self.remote.host} isn't to be trusted:"
                f" {error.verify_message}.",
                advice="SSL_CERT_FILE may name the certificate of another authority.",
            ) from None
        except (OSError, HTTPException) as error:
            connection.close()
            raise LostError(_why(error), heard=heard) from None
        except BaseException:
            connection.close()
            raise

    # -- what is said of it -----------------------------------------------------------------

    def _unreachable(self, error: LostError) -> StoreUnreachableError:
        return StoreUnreachableError(
            f"Nobody answers at {self.remote.url}: {error}.",
            advice="is `queuectl web` running there?",
        )

    def _refusal(self, reply: Reply) -> Exception:
        """Return what is to be raised for an answer that is none."""
        response = reply.response
        if 300 <= response.status < 400:
            reply.close()
            where = response.headers.get("Location", "elsewhere")
            return StoreError(
                f"{self.remote.url} sends us to {where[:200]}; a token isn't taken elsewhere, so"
                " give the URL that is meant."
            )
        said = _problem(reply)
        if said is None and response.status in OF_PROXIES:
            return LostError(f"it answered {response.status}", heard=True)
        if said is None:
            return StoreError(
                f"There is no queue at {self.remote.url}: it answered {response.status}."
            )
        return self._error(response.status, said)

    def _error(self, status: int, said: Mapping[str, Any]) -> Exception:
        self._was_there = True
        kind, detail = str(said["type"]).rpartition(":")[2], str(said.get("detail", ""))
        if status == 401:
            return StoreDeniedError(
                f"{self.remote.url} doesn't know the token: it is wrong, over, or was removed.",
                advice=f"queuectl login {self.remote.url} takes another.",
            )
        if status == 403:
            return StoreDeniedError(detail)
        if kind in ("too-many", "busy"):
            return LostError(detail, heard=False, told=StoreBusyError(detail))
        if kind == "no-path":
            return StoreError(
                f"There is no queue at {self.remote.url}: {detail.rstrip('.')}.",
                advice="the URL is that of the dashboard: with its base path, and nothing behind.",
            )
        if kind == "no-call":
            return StoreTooOldError(
                f"The server at {self.remote.url} is an older one, which can't do that."
            )
        if "error" in said:
            return error_of({"text": said.get("text", detail), **said})
        return StoreError(detail)


def _problem(reply: Reply) -> dict[str, Any] | None:
    """Return what a server of ours says is wrong; None if that is none."""
    if reply.kind != "application/problem+json":
        reply.close()
        return None
    with suppress(ValueError, RecursionError):
        said = json.loads(reply.whole())
        if isinstance(said, dict) and str(said.get("type", "")).startswith("urn:queuectl:"):
            return said
    return None


def _unsettled(why: str) -> StoreUnsettledError:
    error = StoreUnsettledError(f"{why}: what was asked for may or may not have been done.")
    error.advice = "queuectl events says what was done, and queuectl list what is there."
    return error


def _why(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no host of that name"
    if isinstance(error, TimeoutError):
        return "it is silent for too long"
    if isinstance(error, IncompleteRead):
        return "the answer breaks off"
    if isinstance(error, HTTPException) and not isinstance(error, OSError):
        return "what comes is no answer of HTTP"
    if isinstance(error, ssl.SSLError):
        return f"no TLS ({error.reason or error})"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:].rstrip(".") if not text[:2].isupper() else text
