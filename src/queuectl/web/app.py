"""The application: takes requests in, lets them through the gate, and has handlers answer them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as At
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from queuectl.access import Grant, Kind
from queuectl.errors import QueuectlError, UsageError, shown
from queuectl.host import acting_as
from queuectl.metrics import QueueMetrics
from queuectl.web import openapi, problems
from queuectl.web.api import PREFIX, routes
from queuectl.web.call import Answer, Call, ForbiddenError, Later, Lines
from queuectl.web.following import follow
from queuectl.web.gate import Gate, Rules, unknown
from queuectl.web.live import Live
from queuectl.web.pages.site import Site
from queuectl.web.problems import Problem, RefusedError, problem_of, refused
from queuectl.web.query import read_query
from queuectl.web.route import JSON, LINES, STREAM, Handler, Route, Scope

if TYPE_CHECKING:
    from queuectl.queue import Queue

LONGEST_BODY = 24 << 20
"""Bytes of a request: stdin of 16 MiB in base64, and the rest of a job."""
BODY_WITHIN = 60.0
"""Seconds that may pass without a part of a body coming."""
PART = 256
"""Lines that are made at a time of an answer of many."""
AT_ONCE = 32
"""Requests that are answered at once; others wait."""
SLOW_AT_ONCE = 64
"""Those that may take long: streams of lines, and of what jobs write."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""What every answer says, to browsers."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def as_json(value: Any) -> bytes:
    """Write a value. Lone surrogates can't be written, and are escaped, as JSON may have them."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False).encode()


class App:
    """All that is served, for one queue."""

    def __init__(self, queue: "Queue", rules: Rules) -> None:
        self.queue = queue
        self.rules = rules
        self.gate = Gate(queue, rules)
        self.live = Live(queue)
        self.metrics = QueueMetrics(queue)
        self.ends = Event()
        """Set when the server is about to stop: streams end then."""
        self._quick = CapacityLimiter(AT_ONCE)
        self._slow = CapacityLimiter(SLOW_AT_ONCE)
        self.site = Site(queue, rules, self.gate, self._quick)

    def asgi(self) -> ASGIApp:
        """Return what a server calls."""
        found = [
            At(PREFIX + route.path, partial(self._answer, route), methods=[route.method])
            for route in routes()
        ]
        found += [
            At(f"{PREFIX}/openapi.json", self._document, methods=["GET"]),
            At(f"{PREFIX}/live", self._listen, methods=["GET"]),
            At(f"{PREFIX}/jobs/{{id}}/follow", self._follow, methods=["GET"]),
            At("/health", self._health, methods=["GET"]),
            At("/metrics", self._metrics, methods=["GET"]),
        ]
        found += self.site.routes()
        handlers: dict[Any, Any] = {404: _no_such_path, 405: _no_such_method, Exception: _bug}
        starlette = Starlette(routes=found, exception_handlers=handlers, lifespan=self._lifespan)
        # Else it sends whoever adds a slash to an address without the base path.
        starlette.router.redirect_slashes = False
        return _Outer(starlette, self.gate, self.rules)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.site.prepare()
        async with self.live.running():
            yield

    # -- one request ----------------------------------------------------------------------

    async def _answer(self, route: Route, request: Request) -> Response:
        try:
            return await self._answered(route, request)
        except RefusedError as error:
            return problem_response(error.problem, error.headers)
        except QueuectlError as error:
            return problem_response(problem_of(error))
        except ClientDisconnect:
            return Response(status_code=400)

    async def _answered(self, route: Route, request: Request) -> Response:
        grant = await self.admit(request, route)
        streams = LINES in (route.takes_as, route.answers_as)
        if streams and self._slow.available_tokens <= 0:
            raise busy()
        body = await self._body(route, request)
        call = Call(
            queue=self.queue,
            grant=grant,
            path=_names(request),
            query=read_query(route.query, request.query_params.multi_items()),
            headers=request.headers,
            body=body,
            base=f"{self.rules.base_path}{PREFIX}",
            may_submit=self.rules.may_submit,
        )
        limiter = self._slow if streams else self._quick
        run = partial(self._run, route.run, call)
        found = await to_thread.run_sync(run, limiter=limiter, abandon_on_cancel=streams)
        if isinstance(found, Later):
            if self.live.is_crowded:
                raise busy()
            await self.live.finished(found.job.id, found.seconds)
            found = await to_thread.run_sync(found.then, limiter=limiter)
        if isinstance(found, Lines):
            return await self._send_lines(found, call, limiter)
        return _respond(route, found, request)

    def _run(self, run: Handler, call: Call) -> Any:
        with acting_as(f"{call.grant.name} (web)"):
            found = run(call)
            if isinstance(found, Lines):
                # What is wrong with the request is found with the first of them.
                rest = iter(found.values)
                first = list(islice(rest, PART))
                return Lines(values=_joined(first, rest))
            return found

    async def admit(self, request: Request, route: Route | None = None) -> Grant:
        """Return who asks, if that may have what is asked for."""
        grant = await self.who(request)
        if grant is None:
            raise unknown("Say who asks: with a token, or by signing in.")
        if grant.kind is Kind.SESSION:
            self.gate.check_same_site(request.method, request.headers)
        if route is not None:
            self._check(route, grant)
        return grant

    async def who(self, request: Request) -> Grant | None:
        """Return who asks; None if nobody says so."""
        if (known := self.gate.remembered(request.headers)) is not None:
            return known
        address = request.client.host if request.client else "local"
        ask = partial(self.gate.who, request.headers, request.cookies, address)
        found: Grant | None = await to_thread.run_sync(ask, limiter=self._quick)
        return found

    def _check(self, route: Route, grant: Grant) -> None:
        needs = route.needs
        if route.changes and self.rules.read_only:
            raise ForbiddenError("This server only reads: it changes nothing for anybody.")
        if needs is not None and not grant.may(needs):
            raise ForbiddenError(f"That needs the right to {needs}, which {grant.name} hasn't.")
        if needs == "submit" and not self.rules.may_submit:
            raise ForbiddenError(
                "Nothing can be made to run through this server.",
                advice="queuectl web --allow-submit starts one that lets.",
            )
        if route.scope is Scope.ALL and grant.queues:
            raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")

    # -- bodies -----------------------------------------------------------------------------

    async def _body(self, route: Route, request: Request) -> Any:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise refused(415, "encoding", "Encoded", "Bodies come as they are, not compressed.")
        if route.takes is None:
            await _read(request, LONGEST_BODY)
            return None
        if route.takes_as == LINES:
            if given not in (LINES, "application/x-ndjson"):
                raise _wrong_type(LINES, given)
            return _lines(request)
        body = await _read(request, LONGEST_BODY)
        if not body and route.optional:
            return None
        if given != JSON:
            raise _wrong_type(JSON, given)
        return parsed(body)

    async def _send_lines(
        self, found: Lines, call: Call, limiter: CapacityLimiter
    ) -> StreamingResponse:
        values = iter(found.values)

        def part() -> bytes:
            with acting_as(f"{call.grant.name} (web)"):
                try:
                    some = list(islice(values, PART))
                except QueuectlError as error:
                    # What was sent before can't be taken back; the last line says what is wrong.
                    return as_json({"problem": problem_of(error).as_dict()}) + b"\n"
            return b"".join(as_json(one) + b"\n" for one in some)

        async def send() -> AsyncIterator[bytes]:
            try:
                while text := await to_thread.run_sync(part, limiter=limiter):
                    yield text
            finally:
                close = getattr(values, "close", None)
                if close is not None:
                    with anyio.CancelScope(shield=True):
                        await to_thread.run_sync(close, limiter=limiter)

        return StreamingResponse(send(), media_type=LINES)

    # -- streams ----------------------------------------------------------------------------

    async def _listen(self, request: Request) -> Response:
        try:
            grant = await self.admit(request)
            if grant.queues:
                raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")
            if self.live.is_full:
                raise busy()
            since = _place(_since(request))
        except RefusedError as error:
            return problem_response(error.problem, error.headers)
        except QueuectlError as error:
            return problem_response(problem_of(error))
        return _stream(self.live.listen(since))

    async def _follow(self, request: Request) -> Response:
        try:
            grant = await self.admit(request)
            call = Call(queue=self.queue, grant=grant, path=_names(request))
            job = await to_thread.run_sync(call.job, limiter=self._quick)
            if self._slow.available_tokens <= 0:
                raise busy()
            pieces = follow(self.queue, job, _since(request), self._slow, self.ends)
        except RefusedError as error:
            return problem_response(error.problem, error.headers)
        except QueuectlError as error:
            return problem_response(problem_of(error))
        return _stream(pieces)

    # -- the rest -----------------------------------------------------------------------------

    async def _document(self, _: Request) -> Response:
        return Response(as_json(openapi.document()), media_type=JSON)

    async def _metrics(self, request: Request) -> Response:
        try:
            grant = await self.admit(request)
            if grant.queues:
                raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")
            tell = partial(self.metrics.text, request.headers.get("accept", ""))
            found = await to_thread.run_sync(tell, limiter=self._quick)
        except RefusedError as error:
            return problem_response(error.problem, error.headers)
        except QueuectlError as error:
            return problem_response(problem_of(error))
        return Response(found.body, headers={"Content-Type": found.content_type})

    async def _health(self, _: Request) -> Response:
        try:
            await to_thread.run_sync(self.queue.counts, limiter=self._quick)
        except QueuectlError as error:
            return problem_response(problem_of(error))
        return Response(b'{"ok":true}', media_type=JSON)


def busy() -> RefusedError:
    """Refuse a request as there are too many of its kind."""
    return refused(
        503,
        "too-many",
        "Too many at once",
        "Too many such requests go on; try again.",
        Retry_After="2",
    )


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a problem."""
    return Response(
        as_json(problem.as_dict()),
        status_code=problem.status,
        media_type=problems.CONTENT_TYPE,
        headers={**(headers or {}), **({"Retry-After": "2"} if problem.status == 503 else {})},
    )


def _respond(route: Route, found: Any, request: Request) -> Response:
    answer = found if isinstance(found, Answer) else Answer(value=found)
    status = answer.status or route.status
    if status == 204:
        return Response(status_code=204)
    body = as_json(answer.value)
    headers = dict(answer.headers)
    if route.method == "GET":
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        headers |= {"ETag": tag, "Cache-Control": "no-cache, private"}
        if tag in _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
    else:
        headers["Cache-Control"] = "no-store"
    return Response(body, status_code=status, media_type=JSON, headers=headers)


def _tags(said: str) -> list[str]:
    return [tag.strip().removeprefix("W/") for tag in said.split(",")]


def _stream(pieces: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(pieces, media_type=STREAM, headers=headers)


def _joined(first: list[Any], rest: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from first
        yield from rest
    finally:
        close = getattr(rest, "close", None)
        if close is not None:
            close()


# -- bodies -----------------------------------------------------------------------------------


async def _read(request: Request, most: int) -> bytes:
    """Return the body of a request; one that is too long, or too slow, is refused."""
    parts, length = [], 0
    if (said := request.headers.get("content-length", "0")).isdecimal() and int(said) > most:
        raise _too_long(most)
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(BODY_WITHIN) as patience:
            async for part in request.stream():
                patience.reschedule(clock() + BODY_WITHIN)
                length += len(part)
                if length > most:
                    raise _too_long(most)
                parts.append(part)
    except TimeoutError:
        raise _too_slow() from None
    return b"".join(parts)


async def _parts(request: Request) -> AsyncIterator[bytes]:
    """Yield a body as it comes, for whoever takes its time with each part."""
    stream = request.stream()
    while True:
        try:
            yield await asyncio.wait_for(anext(stream), BODY_WITHIN)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise _too_slow() from None


def _too_slow() -> RefusedError:
    return refused(408, "slow", "Too slow", "The body didn't come in time.")


def _too_long(most: int) -> RefusedError:
    return refused(413, "too-long", "Too long", f"The body has more than {most:,} bytes.")


def _wrong_type(wanted: str, given: str) -> RefusedError:
    told = f"not {shown(given)}" if given else "and nothing says what it is"
    return refused(415, "content-type", "Wrong content type", f"The body must be {wanted}, {told}.")


def parsed(text: bytes) -> Any:
    """Return what JSON says, or raise; numbers that aren't any are no JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The body isn't JSON: {str(error)[:200]}.") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _lines(request: Request) -> Iterator[Any]:
    """Yield lines of JSON as they come; called in a thread. A line that is wrong is its error."""
    parts = _parts(request)

    async def following() -> bytes | None:
        return await anext(parts, None)

    rest = b""
    number = 0
    while (part := from_thread.run(following)) is not None:
        *whole, rest = (rest + part).split(b"\n")
        if len(rest) > LONGEST_BODY:
            raise _too_long(LONGEST_BODY)
        for line in whole:
            number += 1
            yield _line(line, number)
    if rest.strip():
        yield _line(rest, number + 1)


def _line(line: bytes, number: int) -> Any:
    try:
        return parsed(line)
    except UsageError:
        return UsageError(f"Line {number} isn't JSON.")


def _names(request: Request) -> dict[str, str]:
    """Return the names in the path of a request."""
    try:
        return {name: unquote(text, errors="strict") for name, text in request.path_params.items()}
    except UnicodeDecodeError:
        raise UsageError("A name in the path isn't UTF-8.") from None


def _since(request: Request) -> str | None:
    """Return from where on a stream is wanted: a browser says it when it comes back."""
    return request.headers.get("last-event-id") or request.query_params.get("since")


def _place(said: str | None) -> int | None:
    return int(said) if said is not None and said.isdecimal() and len(said) < 19 else None


# -- around it ------------------------------------------------------------------------------


async def _no_such_path(request: Request, _: Exception) -> Response:
    path = request.url.path[:200]
    problem = Problem(
        status=404, kind="no-path", title="Not found", detail=f"There is no {path!r}."
    )
    return problem_response(problem)


async def _no_such_method(request: Request, error: Exception) -> Response:
    problem = Problem(
        status=405,
        kind="no-method",
        title="Not so",
        detail=f"{request.method} can't be used here.",
    )
    return problem_response(problem, getattr(error, "headers", None))


async def _bug(_: Request, error: Exception) -> Response:
    """Say no more than that; the log has it."""
    detail = f"Something went wrong here ({type(error).__name__}); the log has more."
    return problem_response(Problem(status=500, kind="bug", title="A fault of ours", detail=detail))


class _Outer:
    """What goes for every request: the name of the server, headers, the base path."""

    def __init__(self, app: ASGIApp, gate: Gate, rules: Rules) -> None:
        self._app = app
        self._gate = gate
        self._rules = rules

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in self._headers().items()
                        if name.lower().encode() not in named
                    ),
                ]
            await send(message)

        try:
            inner = self._within(scope)
            self._gate.check_host(Request(scope).headers)
            await self._app(inner, receive, send_more)
        except RefusedError as error:
            response = problem_response(error.problem, error.headers)
            await response(scope, receive, send_more)

    def _headers(self) -> dict[str, str]:
        if not self._rules.secure:
            return HEADERS
        return {**HEADERS, "Strict-Transport-Security": "max-age=31536000"}

    def _within(self, scope: AsgiScope) -> AsgiScope:
        """Return what is asked for without the base path; what isn't under it isn't here."""
        base = self._rules.base_path
        # As it was sent: a name with a slash in it is one part of the path.
        path = scope["raw_path"].decode("ascii", "replace")
        if base and path != base and not path.startswith(f"{base}/"):
            raise refused(404, "no-path", "Not found", f"Everything here is under {base}/.")
        return {**scope, "path": path[len(base) :] or "/", "root_path": ""}
