"""The site: takes what browsers ask for, and answers with pages.

A page that asks for itself again as something has changed (`X-Part`) gets its middle only, made of
what another was shown in the same second: a thousand open pages ask the store no more than one.
"""

import logging
import shlex
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from queuectl import __version__
from queuectl.access import Grant, Refusal, Right
from queuectl.errors import QueuectlError, StoreError, UsageError
from queuectl.job import DUE, State
from queuectl.web.api import PREFIX
from queuectl.web.call import Call, ForbiddenError, lacking
from queuectl.web.http import HTML, Request, Response, go
from queuectl.web.pages import PAGES, words
from queuectl.web.pages.overview import recall
from queuectl.web.pages.page import File, Page, Shown
from queuectl.web.pages.safe import page_of_ours
from queuectl.web.pages.signing import Signing, read_form
from queuectl.web.problems import Problem, RefusedError, outline_of, problem_of
from queuectl.web.query import read_names, read_query
from queuectl.web.route import Scope
from queuectl.web.routing import Routes
from queuectl.web.threads import Threads

if TYPE_CHECKING:
    from queuectl.queue import Queue
    from queuectl.web.gate import Gate, Rules

_log = logging.getLogger(__name__)
HERE = Path(__file__).parent
GOOD_FOR = 1.0
"""Seconds for which what was asked of the store is shown to others as well."""
MOST_KEPT = 200
"""Pages that are kept for that; of more at a time each asks for itself."""
HEADERS = {
    "Cache-Control": "no-store",
    # Without a referrer browsers don't say from where a form comes, and the gate wants to know.
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie, X-Part",
}
SIGN_IN = "/sign-in"
WHY_NOT = {
    Refusal.WRONG: "That isn't good: a link or token that doesn't exist here, or was removed."
    " See that all of it was copied.",
    Refusal.USED: "That link was used already, and each signs in once. Ask for another.",
    Refusal.EXPIRED: "The time of that link or token is over. Ask for another.",
}
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _Kept:
    """What was last shown to those who renew a page, and until when it will do."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.until = 0.0
        self.body = b""
        self.tag = ""


class Site:
    """All pages, for one queue."""

    def __init__(self, queue: "Queue", rules: "Rules", gate: "Gate", threads: Threads) -> None:
        self._queue = queue
        self._rules = rules
        self._gate = gate
        self._threads = threads
        self._signing = Signing(queue, rules, gate)
        self._templates = _templates()
        self._kept: dict[Any, _Kept] = {}
        self._lock = Lock()
        self._noted = ""
        """What the log has said of the database last, if it is still so."""
        self._pages = Routes()
        """Those that a browser may be sent to."""

    def add_to(self, routes: Routes) -> None:
        """Say what is answered where."""
        for page in PAGES:
            routes.add("GET", page.path, partial(self._page, page))
            if page.template:
                self._pages.add("GET", page.path, partial(self._page, page))
        routes.add("GET", SIGN_IN, self._sign_in_page)
        routes.add("POST", SIGN_IN, self._sign_in)
        routes.add("POST", "/sign-out", self._sign_out)
        routes.add("GET", "/static/{name}", self._static)

    def prepare(self) -> None:
        """Get ready, in a thread, what the first visitor would wait for."""

        def work() -> None:
            for name in self._templates.list_templates():
                self._templates.get_template(name)
            with suppress(QueuectlError):  # whoever asks is told
                recall(self._queue)

        Thread(target=work, name="prepare", daemon=True).start()

    # -- pages ------------------------------------------------------------------------------

    async def _page(self, page: Page, request: Request) -> Response:
        # Who it is, is found out there; a browser that is signed in says the same each time.
        whose = request.cookies.get(self._gate.cookie) or f"at {request.address}"
        return await self._threads.run(self._answer, page, request, whose=whose)

    def _answer(self, page: Page, request: Request) -> Response:
        grant = None
        secret = request.cookies.get(self._gate.cookie)
        try:
            self._gate.check_database()
            grant = self._gate.who(request.headers, request.cookies, request.address)
            if grant is None:
                return self._stranger(request)
            self._check(page, grant)
            response = self._shown(page, grant, request)
        except (RefusedError, QueuectlError) as error:
            return self._wrong(error, grant, request)
        self._noted = ""
        if (fresh := self._signing.fresh(grant, secret)) is not None:
            self._gate.forget(secret or "")
            self._signing.keep(response, *fresh)
        return response

    def _stranger(self, request: Request) -> Response:
        """Have somebody sign in whom we don't know."""
        if "x-part" in request.headers:
            return Response(status=401, headers=HEADERS)
        if request.headers.get("sec-fetch-site") == "cross-site":
            # Whoever follows a link on a page of somebody else has no cookie with him. Asked for
            # by a page of ours, it comes along.
            return self._html("again.html", request, None, {})
        to = "" if request.target == "/" else f"?to={quote(request.target, safe='')}"
        return self._go(f"{SIGN_IN}{to}")

    def _go(self, path: str) -> Response:
        return go(f"{self._rules.base_path}{path}")

    def _check(self, page: Page, grant: Grant) -> None:
        if not grant.may(page.needs):
            raise lacking(page.needs, grant.name)
        if page.scope is Scope.ALL and grant.queues:
            raise ForbiddenError("You are let in for some queues only, not for that.")

    def _call(self, page: Page, grant: Grant, request: Request) -> Call:
        # A form sends its empty fields as well.
        said = [pair for pair in request.params if pair[1]]
        return Call(
            queue=self._queue,
            grant=grant,
            path=read_names(request.names),
            query=read_query(page.query, said),
            headers=request.headers,
            base=self._rules.base_path,
            may_submit=self._rules.may_submit,
        )

    def _shown(self, page: Page, grant: Grant, request: Request) -> Response:
        """Show a page, also if what was asked of it can't be understood."""
        try:
            return self._show(page, self._call(page, grant, request), request)
        except UsageError as error:
            if page.if_wrong is None or isinstance(error, ForbiddenError):
                raise
            said: dict[str, list[str]] = {}
            for name, text in request.params:
                said.setdefault(name, []).append(text)
            call = Call(queue=self._queue, grant=grant, base=self._rules.base_path)
            shown = page.if_wrong(call, said, error)
            response = self._html(page.template, request, call, {"page": page, **shown})
            response.status = 400
            return response

    def _show(self, page: Page, call: Call, request: Request) -> Response:
        if "x-part" in request.headers and page.template:
            return self._renew(page, call, request)
        shown = self._run(page, call)
        if isinstance(shown, File):
            name = quote(shown.name, safe="")
            as_file = f"attachment; filename=\"output.txt\"; filename*=UTF-8''{name}"
            headers = {
                **HEADERS,
                "Content-Disposition": as_file,
                "Content-Security-Policy": "default-src 'none'; sandbox",
            }
            return Response(shown.data, kind="application/octet-stream", headers=headers)
        return self._html(page.template, request, call, {"page": page, **shown})

    def _renew(self, page: Page, call: Call, request: Request) -> Response:
        """Show the middle of a page; what another was shown a moment ago will do."""
        kept = self._kept_for(page, call)
        # Whoever has just changed something wants to see that.
        fresh = request.headers["x-part"] == "fresh"
        with kept.lock:
            # One asks; the others who came meanwhile are shown the same.
            if fresh or kept.until <= monotonic():
                shown = self._run(page, call)
                assert not isinstance(shown, File)
                made = self._html(page.template, request, call, {"page": page, **shown})
                assert isinstance(made.body, bytes)
                kept.body = made.body
                kept.tag = f'"{sha256(kept.body).hexdigest()[:32]}"'
                kept.until = monotonic() + GOOD_FOR
            body, headers = kept.body, {**HEADERS, "ETag": kept.tag}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status=304, headers=headers)
        return Response(body, kind=HTML, headers=headers)

    def _kept_for(self, page: Page, call: Call) -> _Kept:
        """Return what was last shown of a page: to whoever sees the same, and asks for the same."""
        grant = call.grant
        query = sorted((name, repr(value)) for name, value in call.query.items())
        key = page.path, *call.path.values(), *query, grant.rights, grant.queues
        with self._lock:
            if key not in self._kept and len(self._kept) >= MOST_KEPT:
                now = monotonic()
                self._kept = {key: one for key, one in self._kept.items() if one.until > now}
            if len(self._kept) >= MOST_KEPT:
                return _Kept()
            return self._kept.setdefault(key, _Kept())

    def _run(self, page: Page, call: Call) -> Shown | File:
        with call.acting():
            return page.run(call)

    def _wrong(
        self, error: RefusedError | QueuectlError, grant: Grant | None, request: Request
    ) -> Response:
        if isinstance(error, StoreError):
            self._note(request, error)
        told = outline_of if grant is None or isinstance(error, StoreError) else problem_of
        problem = error.problem if isinstance(error, RefusedError) else told(error)
        if problem.status == 401:
            return self._stranger(request)
        call = None if grant is None else Call(queue=self._queue, grant=grant)
        more = {**problem.headers, **(error.headers if isinstance(error, RefusedError) else {})}
        response = self._html("error.html", request, call, {"page": None, "problem": problem})
        response.status = problem.status
        response.headers |= {name.lower(): value for name, value in more.items()}
        return response

    def _note(self, request: Request, error: StoreError) -> None:
        """Have the log say of the database what no page does, once as long as it is the same."""
        if self._noted != error.advised:
            self._noted = error.advised
            _log.error("%s: %s", request.path, error.advised)

    def wrong(self, request: Request, problem: Problem) -> Response:
        """Show what is wrong to whoever it is, who may have asked for no page that there is."""
        return self._html("error.html", request, None, {"page": None, "problem": problem})

    def _html(
        self, template: str, request: Request, call: Call | None, shown: Mapping[str, Any]
    ) -> Response:
        part = "x-part" in request.headers
        text = self._templates.get_template(template).render(
            {
                "layout": "part.html" if part else "layout.html",
                "base": self._rules.base_path,
                "api": f"{self._rules.base_path}{PREFIX}",
                "here": f"{self._rules.base_path}{request.target}",
                "may": partial(self._may, call),
                "typed": partial(self._typed, call),
                "grant": None if call is None else call.grant,
                "has_session": self._gate.cookie in request.cookies,
                "pages": [] if call is None else self._reachable(call.grant),
                "read_only": self._rules.read_only,
                "database": None if call is None or call.grant.queues else self._queue.url,
                "version": None if call is None else __version__,
                **shown,
            }
        )
        return Response(text.encode(errors="replace"), kind=HTML, headers=HEADERS)

    def _may(self, call: Call | None, right: str) -> bool:
        """Tell whether a button for something is to be shown."""
        if call is None or self._rules.read_only:
            return False
        allowed = call.grant.may(Right(right))
        return allowed and (right != Right.SUBMIT or self._rules.may_submit)

    def _typed(self, call: Call | None, command: str) -> str:
        """Write a command of ours for this queue, to whoever may know where that is."""
        if call is None or call.grant.queues or self._queue.place.is_default:
            return command
        return command.replace("queuectl", f"queuectl --db {shlex.quote(self._queue.url)}", 1)

    def _reachable(self, grant: Grant) -> list[Page]:
        return [
            page
            for page in PAGES
            if page.title
            and grant.may(page.needs)
            and not (page.scope is Scope.ALL and grant.queues)
        ]

    # -- signing in and out -----------------------------------------------------------------

    async def _sign_in_page(self, request: Request) -> Response:
        try:
            self._gate.check_database()
        except (RefusedError, QueuectlError) as error:
            return self._wrong(error, None, request)
        to = page_of_ours(request.param("to"), self._pages)
        return self._html("sign-in.html", request, None, {"to": to, "wrong": None})

    async def _sign_in(self, request: Request) -> Response:
        try:
            self._gate.check_database()
            self._gate.check_same_site(request.method, request.headers)
            said = await read_form(request)
            to = page_of_ours(said.get("to"), self._pages)
            secret = said.get("secret", "")
            found = await self._threads.run(self._signing.sign_in, secret, request.address)
        except (RefusedError, QueuectlError) as error:
            return self._wrong(error, None, request)
        if isinstance(found, Refusal):
            shown = {"to": to, "wrong": WHY_NOT[found]}
            response = self._html("sign-in.html", request, None, shown)
            response.status = 403
            return response
        response = self._go(to)
        response.headers |= {name.lower(): value for name, value in HEADERS.items()}
        self._signing.keep(response, *found)
        return response

    async def _sign_out(self, request: Request) -> Response:
        secret = request.cookies.get(self._gate.cookie)

        def out() -> None:
            grant = self._gate.who({}, request.cookies, request.address)
            self._signing.sign_out(grant, secret)

        try:
            self._gate.check_same_site(request.method, request.headers)
            await self._threads.run(out)
        except (RefusedError, QueuectlError) as error:
            return self._wrong(error, None, request)
        response = self._go(SIGN_IN)
        self._signing.drop(response)
        return response

    # -- what pages are made of -------------------------------------------------------------

    async def _static(self, request: Request) -> Response:
        found = _statics().get(request.names["name"])
        if found is None:
            return Response(b"There is no such file.", status=404, kind="text/plain; charset=utf-8")
        data, kind = found
        # Pages name them with a digest of what is in them all.
        return Response(
            data,
            kind=kind,
            headers={"Cache-Control": "public, max-age=31536000, immutable"},
        )


@cache
def _statics() -> dict[str, tuple[bytes, str]]:
    return {
        file.name: (file.read_bytes(), KINDS[file.suffix])
        for file in sorted((HERE / "static").iterdir())
        if file.suffix in KINDS
    }


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        name: getattr(words, name)
        for name in (
            "duration",
            "span",
            "count",
            "short",
            "size",
            "used",
            "amount",
            "part",
            "query",
            "when",
            "plain",
            "sentence",
            "cut",
        )
    }
    digest = sha256(b"".join(data for data, _ in _statics().values())).hexdigest()[:12]
    made.globals |= {"digest": digest, "STATES": [state.value for state in State], "DUE": DUE}
    return made
