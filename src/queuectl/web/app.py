"""The application: takes requests in, lets them through the gate, and has handlers answer them."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from queuectl.access import Grant, Kind
from queuectl.errors import QueuectlError, UsageError, shown
from queuectl.metrics import QueueMetrics
from queuectl.web import openapi, problems
from queuectl.web.api import PREFIX, routes
from queuectl.web.call import Answer, Call, ForbiddenError, Later, Lines
from queuectl.web.following import follow
from queuectl.web.gate import Gate, Rules, unknown
from queuectl.web.http import GoneError, Receive, Request, Response, Send, encoded
from queuectl.web.live import Live
from queuectl.web.pages.site import Site
from queuectl.web.problems import Problem, RefusedError, problem_of, refused
from queuectl.web.query import read_query
from queuectl.web.route import JSON, LINES, STREAM, Handler, Route, Scope
from queuectl.web.routing import Answering, Routes
from queuectl.web.threads import Threads

if TYPE_CHECKING:
    from queuectl.queue import Queue

LONGEST_BODY = 24 << 20
"""Bytes of a request: stdin of 16 MiB in base64, and the rest of a job."""
BODY_WITHIN = 60.0
"""Seconds that may pass without a part of a body coming."""
ACTION = "queuectl-action"
"""The header that says which action a request was, if that can be undone."""
PART = 256
"""Lines that are made at a time of an answer of many."""
AT_ONCE = 32
"""Requests that are answered at once; others wait."""
SLOW_AT_ONCE = 64
"""Those that may take long: streams of lines, and of what jobs write."""
ALWAYS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""What every answer says, to browsers."""
TRANSPORT = {"strict-transport-security": "max-age=31536000"}
"""And where there is TLS."""

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
        self._quick = Threads("quick", AT_ONCE)
        self._slow = Threads("slow", SLOW_AT_ONCE)
        self._site = Site(queue, rules, self.gate, self._quick)
        self._at = self._routes()
        self._always = encoded(ALWAYS | (TRANSPORT if rules.secure else {}))

    def _routes(self) -> Routes:
        found = Routes()
        for route in routes():
            found.add(route.method, PREFIX + route.path, partial(self._answer, route))
        found.add("GET", f"{PREFIX}/openapi.json", self._document)
        found.add("GET", f"{PREFIX}/live", self._listen)
        found.add("GET", f"{PREFIX}/jobs/{{id}}/follow", self._follow)
        found.add("GET", "/health", self._health)
        found.add("GET", "/metrics", self._metrics)
        self._site.add_to(found)
        return found

    def start(self) -> None:
        """Get ready for whoever comes; called in the loop."""
        self._site.prepare()
        self.live.start()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request: what a server of ASGI calls."""
        request = Request(scope, receive)
        try:
            response = await self._found(request)(request)
        except RefusedError as error:
            response = problem_response(error.problem, error.headers)
        except QueuectlError as error:
            response = problem_response(problem_of(error))
        except GoneError:
            return
        except Exception as error:
            # Say no more than that; who serves us puts the rest into the log.
            await _bug(error).send(request, send, self._always)
            raise
        await response.send(request, send, self._always)

    def _found(self, request: Request) -> Answering:
        """Return who answers a request, if it calls us by our name and asks for what is here."""
        base = self.rules.base_path
        if base and request.path != base and not request.path.startswith(f"{base}/"):
            raise refused(404, "no-path", "Not found", f"Everything here is under {base}/.")
        self.gate.check_host(request.headers)
        request.path = request.path[len(base) :] or "/"
        found = self._at.find(request.path)
        if found is None:
            raise refused(404, "no-path", "Not found", f"There is no {request.path[:200]!r}.")
        methods, request.names = found
        answer = methods.get(request.method)
        if answer is None:
            told = f"{request.method} can't be used here."
            raise refused(405, "no-method", "Not so", told, Allow=", ".join(methods))
        return answer

    # -- one request ----------------------------------------------------------------------

    async def _answer(self, route: Route, request: Request) -> Response:
        grant = await self.admit(request, route)
        streams = LINES in (route.takes_as, route.answers_as)
        if streams and self._slow.is_full:
            raise busy()
        body = await self._body(route, request)
        call = Call(
            queue=self.queue,
            grant=grant,
            path=_names(request),
            query=read_query(route.query, request.params),
            headers=request.headers,
            body=body,
            base=f"{self.rules.base_path}{PREFIX}",
            may_submit=self.rules.may_submit,
        )
        threads = self._slow if streams else self._quick
        found = await threads.run(self._run, route.run, call)
        if isinstance(found, Later):
            if self.live.is_crowded:
                raise busy()
            await self.live.finished(found.job.id, found.seconds)
            found = await threads.run(found.then)
        if isinstance(found, Lines):
            response = self._send_lines(found, call)
        else:
            response = _respond(route, found, request)
        if call.action.can_be_undone:
            response.headers[ACTION] = call.action.id
        return response

    def _run(self, run: Handler, call: Call) -> Any:
        with call.acting():
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
        given = request.headers, request.cookies, request.address
        found: Grant | None = await self._quick.run(self.gate.who, *given)
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

    def _send_lines(self, found: Lines, call: Call) -> Response:
        values = iter(found.values)

        def part() -> bytes:
            with call.acting():
                try:
                    some = list(islice(values, PART))
                except QueuectlError as error:
                    # What was sent before can't be taken back; the last line says what is wrong.
                    return as_json({"problem": problem_of(error).as_dict()}) + b"\n"
            return b"".join(as_json(one) + b"\n" for one in some)

        async def send() -> AsyncGenerator[bytes]:
            made = None
            try:
                while True:
                    made = self._slow.run(part)
                    if not (text := await asyncio.shield(made)):
                        return
                    yield text
            finally:
                if made is not None:
                    # Who hung up doesn't see it, but it is still at it.
                    await asyncio.wait({made})
                if (close := getattr(values, "close", None)) is not None:
                    await self._slow.run(close)

        return Response(send(), kind=LINES)

    # -- streams ----------------------------------------------------------------------------

    async def _listen(self, request: Request) -> Response:
        grant = await self.admit(request)
        if grant.queues:
            raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")
        if self.live.is_full:
            raise busy()
        return _stream(self.live.listen(_place(_since(request))))

    async def _follow(self, request: Request) -> Response:
        grant = await self.admit(request)
        call = Call(queue=self.queue, grant=grant, path=_names(request))
        job = await self._quick.run(call.job)
        if self._slow.is_full:
            raise busy()
        return _stream(follow(self.queue, job, _since(request), self._slow, self.ends))

    # -- the rest -----------------------------------------------------------------------------

    async def _document(self, _: Request) -> Response:
        return Response(as_json(openapi.document()), kind=JSON)

    async def _metrics(self, request: Request) -> Response:
        grant = await self.admit(request)
        if grant.queues:
            raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")
        found = await self._quick.run(self.metrics.text, request.headers.get("accept", ""))
        return Response(found.body, kind=found.content_type)

    async def _health(self, _: Request) -> Response:
        await self._quick.run(self.queue.counts)
        return Response(b'{"ok":true}', kind=JSON)


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
        status=problem.status,
        kind=problems.CONTENT_TYPE,
        headers={**(headers or {}), **({"Retry-After": "2"} if problem.status == 503 else {})},
    )


def _respond(route: Route, found: Any, request: Request) -> Response:
    answer = found if isinstance(found, Answer) else Answer(value=found)
    status = answer.status or route.status
    if status == 204:
        return Response(status=204)
    body = as_json(answer.value)
    headers = dict(answer.headers)
    if route.method == "GET":
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        headers |= {"ETag": tag, "Cache-Control": "no-cache, private"}
        if tag in _tags(request.headers.get("if-none-match", "")):
            return Response(status=304, headers=headers)
    else:
        headers["Cache-Control"] = "no-store"
    return Response(body, status=status, kind=JSON, headers=headers)


def _tags(said: str) -> list[str]:
    return [tag.strip().removeprefix("W/") for tag in said.split(",")]


def _stream(pieces: AsyncGenerator[bytes]) -> Response:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(pieces, kind=STREAM, headers=headers)


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
    if not request.has_body:
        return b""
    parts, length = [], 0
    if (said := request.headers.get("content-length", "0")).isdecimal() and int(said) > most:
        raise _too_long(most)
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(BODY_WITHIN) as patience:
            async for part in request.parts():
                if not request.is_read:
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
    stream = request.parts()
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
        return _decode(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The body isn't JSON: {str(error)[:200]}.") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


def _lines(request: Request) -> Iterator[Any]:
    """Yield lines of JSON as they come; called in a thread. A line that is wrong is its error."""
    parts, loop = _parts(request), asyncio.get_running_loop()
    return _split(lambda: asyncio.run_coroutine_threadsafe(anext(parts, None), loop).result())


def _split(following: Callable[[], bytes | None]) -> Iterator[Any]:
    rest = b""
    number = 0
    while (part := following()) is not None:
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
        return {name: unquote(text, errors="strict") for name, text in request.names.items()}
    except UnicodeDecodeError:
        raise UsageError("A name in the path isn't UTF-8.") from None


def _since(request: Request) -> str | None:
    """Return from where on a stream is wanted: a browser says it when it comes back."""
    return request.headers.get("last-event-id") or request.param("since")


def _place(said: str | None) -> int | None:
    return int(said) if said is not None and said.isdecimal() and len(said) < 19 else None


def _bug(error: Exception) -> Response:
    detail = f"Something went wrong here ({type(error).__name__}); the log has more."
    return problem_response(Problem(status=500, kind="bug", title="A fault of ours", detail=detail))
