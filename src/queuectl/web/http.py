"""Requests and answers as a server of ASGI hands them over, and what of HTTP is used here."""

import asyncio
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    MutableMapping,
)
from contextlib import aclosing, suppress
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote

from queuectl.web.problems import RefusedError, refused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_WITHIN = 30.0
"""Seconds that a body may let us wait, and more the longer it is."""
SLOWEST = 4 << 10
"""Bytes a second at which a long body has to come at least."""
HTML = "text/html; charset=utf-8"
SEE_OTHER = 303
UNIX = "unix"
"""Where somebody is who comes by a socket in the file system."""


class GoneError(Exception):
    """Who asked has hung up."""


class Request:
    """What somebody asks. Of headers with one name the first counts."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path = scope["raw_path"].decode("ascii", "replace")
        """As it was sent: a name with a slash in it is one part of the path."""
        self.query: str = scope["query_string"].decode("latin-1")
        self.headers: dict[str, str] = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(scope["headers"])
        }
        self.repeated: frozenset[str] = frozenset()
        """Headers that there are several of."""
        if len(self.headers) < len(scope["headers"]):
            names = Counter(name.decode("latin-1") for name, _ in scope["headers"])
            self.repeated = frozenset(name for name, times in names.items() if times > 1)
        self.address: str = scope["client"][0] if scope["client"] else UNIX
        self.names: dict[str, str] = {}
        """What stands in the path where its route has names."""
        self.length = 0
        """Bytes of its body that were read so far."""
        self._receive = receive
        self._whole = asyncio.Event()
        if not self.has_body:
            self._whole.set()

    @property
    def has_body(self) -> bool:
        """Whether a body comes, which may be empty."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    @property
    def is_read(self) -> bool:
        """Whether all of the body has come."""
        return self._whole.is_set()

    @property
    def target(self) -> str:
        """The path and the query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @cached_property
    def params(self) -> list[tuple[str, str]]:
        """What the query says, in its order."""
        return parse_qsl(self.query, keep_blank_values=True)

    def param(self, name: str) -> str | None:
        """Return what the query says last under a name."""
        return dict(self.params).get(name)

    @cached_property
    def cookies(self) -> dict[str, str]:
        """The cookies by their names."""
        pairs = (pair.partition("=") for pair in self.headers.get("cookie", "").split(";"))
        return {name.strip(): value.strip() for name, _, value in pairs}

    async def parts(self, most: int, *, each_within: float | None = None) -> AsyncIterator[bytes]:
        """Yield the body as it comes, once; one that is too long, or too slow, is refused.

        It may take its time for `each` part only if who reads it takes time for them as well.
        """
        clock = asyncio.get_running_loop().time
        if (said := self.headers.get("content-length", "0")).isdecimal() and int(said) > most:
            raise _too_long(most)
        waited = 0.0
        while not self._whole.is_set():
            began = clock()
            left = BODY_WITHIN + self.length / SLOWEST - waited
            try:
                async with asyncio.timeout(left if each_within is None else each_within):
                    message = await self._receive()
            except TimeoutError:
                raise _too_slow() from None
            waited += clock() - began
            if message["type"] == "http.disconnect":
                raise GoneError
            if not message.get("more_body", False):
                self._whole.set()
            if body := message.get("body"):
                self.length += len(body)
                if self.length > most and each_within is None:
                    raise _too_long(most)
                yield body

    async def read(self, most: int) -> bytes:
        """Return the body, if it isn't longer than that."""
        if not self.has_body:
            return b""
        return b"".join([part async for part in self.parts(most)])

    async def gone(self) -> None:
        """Return when who asked has hung up. While the body is read, its reader hears of that."""
        await self._whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Response:
    """An answer: whole, or as it comes."""

    def __init__(
        self,
        body: bytes | AsyncGenerator[bytes] = b"",
        *,
        status: int = 200,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        until: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self._until = until
        """Returns when it is to be ended, if it comes as it does."""
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        if kind is not None:
            self.headers["content-type"] = kind

    def set_cookie(
        self, name: str, value: str, *, lasting: int | None, path: str, secure: bool
    ) -> None:
        """Have a browser keep something that no script and no other site gets to see."""
        said = [f"{name}={value}", f"Path={path}", "HttpOnly", "SameSite=strict"]
        if lasting is not None:
            said.append(f"Max-Age={lasting}")
        if secure:
            said.append("Secure")
        self.headers["set-cookie"] = "; ".join(said)

    async def send(self, request: Request, send: Send, always: Mapping[bytes, bytes]) -> None:
        """Send it, with headers that hold for every answer unless it has its own."""
        if isinstance(self.body, bytes) and self.status not in (204, 304):
            self.headers["content-length"] = str(len(self.body))
        headers = {**always, **encoded(self.headers)}
        told = list(headers.items())
        await send({"type": "http.response.start", "status": self.status, "headers": told})
        if isinstance(self.body, bytes):
            await send({"type": "http.response.body", "body": self.body})
        elif request.method == "HEAD":
            await self.body.aclose()
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._send_parts(self.body, request, send)

    async def _send_parts(self, parts: AsyncGenerator[bytes], request: Request, send: Send) -> None:
        async def pour() -> None:
            # Who has hung up while a body was read that this comes from is told nothing more.
            with suppress(GoneError):
                async with aclosing(parts):
                    async for part in parts:
                        body = {"type": "http.response.body", "body": part, "more_body": True}
                        await send(body)

        def end(_: object) -> None:
            for one in going:
                one.cancel()

        async with asyncio.TaskGroup() as tasks:
            going = [tasks.create_task(pour()), tasks.create_task(request.gone())]
            if self._until is not None:
                going.append(tasks.create_task(self._until()))
            for one in going:
                # Each is the end of the others.
                one.add_done_callback(end)
        await send({"type": "http.response.body", "body": b""})


def _too_slow() -> RefusedError:
    return refused(408, "slow", "Too slow", "The body didn't come in time.")


def _too_long(most: int) -> RefusedError:
    return refused(413, "too-long", "Too long", f"The body has more than {most:,} bytes.")


def encoded(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return headers as they are sent."""
    return {n.encode("latin-1"): v.encode("latin-1") for n, v in headers.items()}


def go(path: str) -> Response:
    """Send a browser to a path of ours."""
    return Response(status=SEE_OTHER, headers={"Location": quote(path, safe=":/%#?=@[]!$&'()*+,;")})
