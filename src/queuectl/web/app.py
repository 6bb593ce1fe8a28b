"""The application: takes requests in, lets them through the gate, and has handlers answer them."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any

from queuectl.access import Grant, Kind
from queuectl.errors import QueuectlError, UsageError, shown
from queuectl.jsontext import read_json
from queuectl.metrics import QueueMetrics
from queuectl.values import replace
from queuectl.web import openapi, problems
from queuectl.web.adding import LONGEST_TOGETHER, Adder
from queuectl.web.api import PREFIX, routes
from queuectl.web.call import Adding, Answer, Call, ForbiddenError, Later, Lines, lacking
from queuectl.web.following import follow
from queuectl.web.gate import KNOWN_FOR, Gate, Rules, unknown
from queuectl.web.http import GoneError, Receive, Request, Response, Send, encoded
from queuectl.web.live import Live
from queuectl.web.pages.site import Site
from queuectl.web.problems import Problem, RefusedError, outline_of, problem_of, refused
from queuectl.web.query import read_names, read_query
from queuectl.web.route import JSON, LINES, LONGEST, LONGEST_JOB, STREAM, Route, Scope
from queuectl.web.routing import Answering, Routes
from queuectl.web.standing import Standing
from queuectl.web.threads import Threads

if TYPE_CHECKING:
    from queuectl.queue import Queue

ACTION = "queuectl-action"
"""The header that says which action a request was, if that can be undone."""
LONGEST_NOTHING = 1 << 10
"""Bytes of a body that says nothing, as of a form without fields."""
LINE_WITHIN = 60.0
"""Seconds that may pass without a part of a body of lines coming."""
PART = 256
"""Lines that are made at a time of an answer of many."""
PART_BYTES = 1 << 18
"""What these come to, but for the last of them."""
AT_ONCE = 32
"""Requests that are answered at once; others wait."""
SLOW_AT_ONCE = 64
"""Those that may take long: streams of lines, and of what jobs write."""
NOTE_EVERY = 1.0
"""Seconds between two times that it is noted who has come."""
MOST_OF_ONE = 1_000
"""Streams that go on for one token, with all that was derived from it."""
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
_ENDED = "That token isn't good any more."
NO_STORE = {"Cache-Control": "no-store"}
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
        self.standing = Standing(queue)
        self.metrics = QueueMetrics(queue)
        self.ends = Event()
        """Set when the server is about to stop: streams end then."""
        self._quick = Threads("quick", AT_ONCE)
        self._slow = Threads("slow", SLOW_AT_ONCE)
        self._adder = Adder(queue)
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
        self.standing.start()
        self._noting = asyncio.get_running_loop().create_task(self._note_use())

    async def _note_use(self) -> None:
        """Note aside who has come: that writes, and may have to wait for that."""
        aside = Threads("noting", 1)
        while True:
            await asyncio.sleep(NOTE_EVERY)
            await aside.run(self.gate.note_use)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request: what a server of ASGI calls."""
        request = Request(scope, receive)
        try:
            response = await self._found(request)(request)
        except RefusedError as error:
            response = self._problem(request, error.problem, error.headers)
        except QueuectlError as error:
            response = self._problem(request, problem_of(error))
        except GoneError:
            return
        except Exception as error:
            # Say no more than that; who serves us puts the rest into the log.
            await self._problem(request, _bug(error)).send(request, send, self._always)
            raise
        await response.send(request, send, self._always)

    def _problem(
        self, request: Request, problem: Problem, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Answer with a problem: to a browser that wants a page as one."""
        response = problem_response(problem, headers)
        if _wants_page(request):
            page = self._site.wrong(request, problem)
            response.body = page.body
            response.headers |= page.headers
        return response

    def _found(self, request: Request) -> Answering:
        """Return who answers a request, if it calls us by our name and asks for what is here."""
        base = self.rules.base_path
        if base and request.path != base and not request.path.startswith(f"{base}/"):
            raise refused(404, "no-path", "Not found", f"Everything here is under {base}/.")
        self.gate.check_host(request.headers)
        if request.repeated:
            self.gate.check_once(request.repeated)
        request.path = request.path[len(base) :] or "/"
        found = self._at.find(request.path)
        if found is None:
            told = f"There is no {request.path[:200]!r}; {base}{PREFIX}/openapi.json says what is."
            kind = "no-call" if request.path.startswith(f"{PREFIX}/calls/") else "no-path"
            raise refused(404, kind, "Not found", told)
        methods, request.names = found
        answer = methods.get(request.method)
        if answer is None:
            told = f"{request.method} can't be used here."
            raise refused(405, "no-method", "Not so", told, Allow=", ".join(methods))
        return answer

    # -- one request ----------------------------------------------------------------------

    async def _answer(self, route: Route, request: Request) -> Response:
        clock = asyncio.get_running_loop().time
        began = clock()
        grant = await self.admit(request, route)
        is_slow = route.slow or LINES in (route.takes_as, route.answers_as)
        if is_slow and self._slow.is_full(grant.root):
            raise busy()
        body = await self._body(route, request, grant)
        if clock() - began >= KNOWN_FOR:
            # While it came, a token may have ended.
            await self.admit(request, route)
        call = Call(
            queue=self.queue,
            grant=grant,
            path=read_names(request.names),
            query=read_query(route.query, request.params),
            headers=request.headers,
            body=body,
            base=f"{self.rules.base_path}{PREFIX}",
            may_submit=self.rules.may_submit,
        )
        threads = self._slow if is_slow else self._quick
        run = partial(self._run, route, request, call)
        if route.adds and request.length <= LONGEST_TOGETHER:
            found = await self._adder.run(run)
        else:
            found = await threads.run(run, whose=grant.root)
        if isinstance(found, Adding):
            found = await threads.run(self._add, found, call, whose=grant.root)
        if isinstance(found, Later):
            if self.live.is_crowded:
                raise busy()
            await self.live.finished(found.job.id, found.seconds)
            await self.admit(request, route)
            then = found.then
            found = await threads.run(lambda: _respond(route, then(), request), whose=grant.root)
        if isinstance(found, Lines):
            response = self._send_lines(found, call)
        else:
            assert isinstance(found, Response)
            response = found
        if call.action.can_be_undone:
            response.headers[ACTION] = call.action.id
        return response

    def _run(self, route: Route, request: Request, call: Call) -> Response | Lines | Later | Adding:
        with call.acting():
            found = route.run(call)
            if isinstance(found, Lines):
                # What is wrong with the request is found with the first of them.
                rest = iter(found.values)
                lined = _line_of if found.kind == LINES else bytes
                first: list[bytes] = []
                try:
                    first.extend(_within(PART_BYTES, map(lined, islice(rest, PART))))
                except (QueuectlError, RefusedError) as error:
                    if not first:
                        raise
                    return replace(found, values=_ended(first, error))
                return replace(found, values=_joined(first, rest, lined))
            if isinstance(found, Later):
                return found
            if isinstance(found, Adding):
                return found.told_as(lambda answer: _respond(route, answer, request))
            # What is long is written here, while others are answered.
            return _respond(route, found, request)

    def _add(self, found: Adding, call: Call) -> Response:
        with call.acting():
            (outcome,) = self.queue.together.add([found.prepared])
            response: Response = found.answer(outcome)
        return response

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
        self.gate.check_database()
        if (known := self.gate.remembered(request.headers)) is not None:
            return known
        given = request.headers, request.cookies, request.address
        at = f"at {request.address}"
        try:
            found: Grant | None = await self._quick.run(self.gate.who, *given, whose=at)
        except QueuectlError as error:
            raise RefusedError(outline_of(error)) from None
        return found

    def _check(self, route: Route, grant: Grant) -> None:
        needs = route.needs
        if route.changes and self.rules.read_only:
            raise ForbiddenError("This server only reads: it changes nothing for anybody.")
        if needs is not None and not grant.may(needs):
            raise lacking(needs, grant.name)
        if needs == "submit" and not self.rules.may_submit:
            raise ForbiddenError(
                "Nothing can be made to run through this server.",
                advice="queuectl web --allow-submit starts one that lets.",
            )
        if route.scope is Scope.ALL and grant.queues:
            raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")

    # -- bodies -----------------------------------------------------------------------------

    async def _body(self, route: Route, request: Request, grant: Grant) -> Any:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise refused(415, "encoding", "Encoded", "Bodies come as they are, not compressed.")
        if route.takes is None:
            await request.read(LONGEST_NOTHING)
            return None
        if route.takes_as == LINES:
            if given not in (LINES, "application/x-ndjson"):
                raise _wrong_type(LINES, given)
            return self._lines(route, request)
        body = await request.read(route.longest)
        if not body and route.optional:
            return None
        if given != JSON:
            raise _wrong_type(JSON, given)
        if len(body) <= LONGEST:
            return parsed(body)
        return await self._quick.run(parsed, body, whose=grant.root)

    def _lines(self, route: Route, request: Request) -> Iterator[tuple[Any, int]]:
        """Yield lines of JSON and their bytes as they come; called in a thread.

        A line that is wrong is its error. None is yielded any more when a token has ended.
        """
        parts = request.parts(sys.maxsize, each_within=LINE_WITHIN)
        loop = asyncio.get_running_loop()

        async def following() -> bytes | None:
            part = await anext(parts, None)
            await self.admit(request, route)
            return part

        return _split(lambda: asyncio.run_coroutine_threadsafe(following(), loop).result())

    def _send_lines(self, found: Lines, call: Call) -> Response:
        values = iter(found.values)

        is_over = False

        def part() -> bytes:
            nonlocal is_over
            some: list[bytes] = []
            with call.acting():
                try:
                    some.extend(_within(PART_BYTES, islice(values, PART)))
                    is_over = not some
                except (QueuectlError, RefusedError) as error:
                    # What was told before can't be taken back; the last line says what is wrong.
                    some.append(_last_line(error))
                    is_over = True
            return b"".join(some)

        async def send() -> AsyncGenerator[bytes]:
            made = None
            try:
                with self.standing.watched(call.grant) as over:
                    while not over.is_set():
                        made = self._slow.run(part, whose=call.grant.root)
                        yield await asyncio.shield(made)
                        if is_over:
                            return
                # As with what goes wrong, what has come isn't taken for the whole.
                yield _last_line(unknown(_ENDED))
            finally:
                if made is not None:
                    # Who hung up doesn't see it, but it is still at it.
                    await asyncio.wait({made})
                if (close := getattr(values, "close", None)) is not None:
                    await self._slow.run(close)

        return Response(send(), kind=found.kind, headers={**NO_STORE, **found.headers})

    # -- streams ----------------------------------------------------------------------------

    async def _listen(self, request: Request) -> Response:
        grant = await self.admit(request)
        await request.read(LONGEST_NOTHING)
        if grant.queues:
            raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")
        if self.live.is_full or self.standing.count(grant) >= MOST_OF_ONE:
            raise busy()
        return self._stream(grant, self.live.listen(_place(_since(request))))

    async def _follow(self, request: Request) -> Response:
        grant = await self.admit(request)
        await request.read(LONGEST_NOTHING)
        call = Call(queue=self.queue, grant=grant, path=read_names(request.names))
        job = await self._quick.run(call.job, whose=grant.root)
        if self._slow.is_full(grant.root) or self.standing.count(grant) >= MOST_OF_ONE:
            raise busy()
        pieces = follow(self.queue, job, _since(request), self._slow, self.ends, grant.root)
        return self._stream(grant, pieces)

    def _stream(self, grant: Grant, pieces: AsyncGenerator[bytes]) -> Response:
        headers = {**NO_STORE, "X-Accel-Buffering": "no"}
        until = partial(self.standing.end_of, grant)
        return Response(pieces, kind=STREAM, headers=headers, until=until)

    # -- the rest -----------------------------------------------------------------------------

    async def _document(self, _: Request) -> Response:
        return Response(_document(), kind=JSON, headers=NO_STORE)

    async def _metrics(self, request: Request) -> Response:
        grant = await self.admit(request)
        if grant.queues:
            raise ForbiddenError(f"{grant.name} is let in for some queues only, not for that.")
        accept = request.headers.get("accept", "")
        found = await self._quick.run(self.metrics.text, accept, whose=grant.root)
        return Response(found.body, kind=found.content_type, headers=NO_STORE)

    async def _health(self, _: Request) -> Response:
        try:
            self.gate.check_database()
            await self._quick.run(self.queue.counts)
        except QueuectlError as error:
            raise RefusedError(outline_of(error)) from None
        return Response(b'{"ok":true}', kind=JSON)


@cache
def _document() -> bytes:
    return as_json(openapi.document())


def busy() -> RefusedError:
    """Refuse a request as there are too many of its kind."""
    return refused(
        503,
        "too-many",
        "Too many at once",
        "Too many such requests go on; try again.",
    )


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a problem."""
    return Response(
        as_json(problem.as_dict()),
        status=problem.status,
        kind=problems.CONTENT_TYPE,
        headers={**problem.headers, **(headers or {})},
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
        headers |= NO_STORE
    return Response(body, status=status, kind=JSON, headers=headers)


def _tags(said: str) -> list[str]:
    return [tag.strip().removeprefix("W/") for tag in said.split(",")]


def _ended(first: list[bytes], error: Exception) -> Iterator[bytes]:
    yield from first
    raise error


def _line_of(value: Any) -> bytes:
    return as_json(value) + b"\n"


def _within(most: int, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines until they come to so many bytes."""
    for line in lines:
        yield line
        most -= len(line)
        if most <= 0:
            return


def _joined(
    first: list[bytes], rest: Iterator[Any], lined: Callable[[Any], bytes]
) -> Iterator[bytes]:
    try:
        yield from first
        yield from map(lined, rest)
    finally:
        close = getattr(rest, "close", None)
        if close is not None:
            close()


# -- bodies -----------------------------------------------------------------------------------


def _wrong_type(wanted: str, given: str) -> RefusedError:
    told = f"not {shown(given)}" if given else "and nothing says what it is"
    return refused(415, "content-type", "Wrong content type", f"The body must be {wanted}, {told}.")


def parsed(text: bytes) -> Any:
    """Return what JSON says, or raise; numbers that aren't any are no JSON."""
    try:
        return read_json(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The body isn't JSON: {str(error)[:200]}.") from None


def _split(following: Callable[[], bytes | None]) -> Iterator[tuple[Any, int]]:
    rest = b""
    number = 0
    while (part := following()) is not None:
        *whole, rest = (rest + part).split(b"\n")
        if len(rest) > LONGEST_JOB:
            raise UsageError(f"A line has more than {LONGEST_JOB:,} bytes.")
        for line in whole:
            number += 1
            yield _line(line, number), len(line)
    if rest.strip():
        yield _line(rest, number + 1), len(rest)


def _line(line: bytes, number: int) -> Any:
    try:
        return parsed(line)
    except UsageError:
        return UsageError(f"Line {number} isn't JSON.")


def _since(request: Request) -> str | None:
    """Return from where on a stream is wanted: a browser says it when it comes back."""
    return request.headers.get("last-event-id") or request.param("since")


def _place(said: str | None) -> int | None:
    return int(said) if said is not None and said.isdecimal() and len(said) < 19 else None


def _wants_page(request: Request) -> bool:
    """Tell whether somebody looks for a page, not for what programs are answered."""
    for_programs = request.path.startswith((f"{PREFIX}/", "/static/", "/health", "/metrics"))
    return not for_programs and "text/html" in request.headers.get("accept", "")


def _last_line(error: QueuectlError | RefusedError) -> bytes:
    problem = error.problem if isinstance(error, RefusedError) else problem_of(error)
    return as_json({"problem": problem.as_dict()}) + b"\n"


def _bug(error: Exception) -> Problem:
    detail = f"Something went wrong here ({type(error).__name__}); the log has more."
    return Problem(status=500, kind="bug", title="A fault of ours", detail=detail)
