"""Signing in and out as browsers do it: forms, cookies, and where one is sent."""

import http.client
import re
from urllib.parse import urlencode

import pytest

from queuectl.access import Kind, Role
from queuectl.web.gate import TRIES
from queuectl.web.pages import PAGES
from queuectl.web.pages.signing import FRESH, Signing
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import Client, Reply, Serve, Server


def origin(server: Server) -> dict[str, str]:
    """Return what a browser says that posts a form of our own."""
    return {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}


def post(server: Server, path: str, fields: dict[str, str], **headers: str) -> Reply:
    """Post a form."""
    said = {"Content-Type": "application/x-www-form-urlencoded", **origin(server), **headers}
    return Client(server.port, base=server.base).ask(
        "POST", path, urlencode(fields).encode(), headers=said
    )


def sign_in(server: Server, secret: str, **fields: str) -> Reply:
    """Sign in as the form does it."""
    return post(server, "/sign-in", {"secret": secret, **fields})


def cookie_of(reply: Reply) -> str:
    """Return the cookie that was set, as a browser sends it."""
    return reply.headers["set-cookie"].partition(";")[0]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve()


class TestIn:
    def test_the_printed_link_opens_a_session_once(self, lab: Lab, server: Server) -> None:
        secret = server.link.partition("#")[2]
        reply = sign_in(server, secret)
        assert (reply.status, reply.headers["location"]) == (303, "/")
        said = reply.headers["set-cookie"].lower()
        for word in ("httponly", "samesite=strict", "path=/", "max-age="):
            assert word in said
        assert "secure" not in said
        page = Client(server.port, {"Cookie": cookie_of(reply)}, base="").get("/")
        assert page.status == 200
        assert b"Overview" in page.body
        assert [one.kind for one in lab.queue.access.sessions()] == [Kind.SESSION]
        again = sign_in(server, secret)
        assert again.status == 403
        assert "set-cookie" not in again.headers

    def test_a_whole_link_or_a_token_may_be_pasted(self, lab: Lab, server: Server) -> None:
        assert sign_in(server, f"  {server.link}\n").status == 303
        _, token = lab.queue.access.add_token("bot", ["view"])
        reply = sign_in(server, token)
        assert reply.status == 303
        client = Client(server.port, {"Cookie": cookie_of(reply)}, base="")
        assert client.get("/").status == 200
        lab.queue.access.remove_token("bot")
        wait = 0
        while client.get("/").status == 200 and wait < 1000:
            wait += 1
        assert client.get("/").status == 303

    def test_https_and_a_base_path_are_in_the_cookie(self, serve: Serve) -> None:
        server = serve("--https", "--base-path", "/q")
        said = {"Origin": f"https://127.0.0.1:{server.port}"}
        form = {"secret": server.link.partition("#")[2], "to": "/jobs"}
        reply = post(server, "/sign-in", form, **said)
        assert (reply.status, reply.headers["location"]) == (303, "/q/jobs")
        assert "Path=/q;" in reply.headers["set-cookie"]
        assert "Secure" in reply.headers["set-cookie"]

    def test_a_form_of_another_site_is_refused(self, server: Server) -> None:
        secret = server.link.partition("#")[2]
        for headers in (
            {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
            {"Origin": "null"},
        ):
            assert post(server, "/sign-in", {"secret": secret}, **headers).status == 403
        assert sign_in(server, secret).status == 303

    def test_what_is_no_form_is_refused(self, server: Server) -> None:
        reply = post(server, "/sign-in", {}, **{"Content-Type": "text/plain"})
        assert reply.status == 400
        assert post(server, "/sign-in", {"secret": "x" * 20_000}).status == 413

    def test_the_page_says_what_is_wrong_with_a_link(self, lab: Lab, server: Server) -> None:
        used, over = (lab.queue.access.link("ann", "view", good_for=m) for m in ("1h", 0.001))
        assert sign_in(server, used).status == 303
        wait_for(lambda: lab.queue.access.refusal(over) == "expired")
        for secret, words in {
            used: "was used already",
            over: "The time of that link or token is over",
            "qtk_x": "doesn&#39;t exist here",
        }.items():
            reply = sign_in(server, secret)
            assert reply.status == 403
            assert words in reply.body.decode()
            assert "set-cookie" not in reply.headers

    def test_secrets_cannot_be_guessed_by_trying(self, server: Server) -> None:
        found = [sign_in(server, f"qtk_{number}").status for number in range(TRIES + 1)]
        assert found == [403] * TRIES + [429]
        assert sign_in(server, server.link.partition("#")[2]).status == 303


class TestWhere:
    @pytest.mark.parametrize(
        "to",
        [
            "https://evil.example/",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/sign-out",
            "/api/v1/jobs",
            "/jobs#x",
            "/jobs/a/../..//evil.example",
            "/jobs\r\nSet-Cookie: a=b",
            "javascript:alert(1)",
            "/static/x.js",
            "",
        ],
    )
    def test_one_is_sent_to_no_place_but_our_own_pages(self, server: Server, to: str) -> None:
        reply = sign_in(server, server.link.partition("#")[2], to=to)
        assert (reply.status, reply.headers["location"]) == (303, "/")
        assert "a=b" not in reply.headers["set-cookie"]

    def test_one_is_sent_back_to_the_page_that_was_asked_for(self, server: Server) -> None:
        stranger = Client(server.port, base="")
        reply = stranger.get("/jobs?state=dead")
        assert reply.status == 303
        assert reply.headers["location"] == "/sign-in?to=%2Fjobs%3Fstate%3Ddead"
        page = stranger.get(reply.headers["location"]).body.decode()
        found = re.search(r'name="to" value="([^"]*)"', page)
        assert found is not None
        assert found[1] == "/jobs?state=dead"
        back = sign_in(server, server.link.partition("#")[2], to=found[1])
        assert back.headers["location"] == "/jobs?state=dead"

    def test_who_comes_by_a_link_of_another_site_asks_again_with_the_cookie(
        self, server: Server
    ) -> None:
        reply = Client(server.port, base="").get("/jobs?text=%22%3E", Sec_Fetch_Site="cross-site")
        assert reply.status == 200
        assert 'content="0; url=/jobs?text=%22%3E"' in reply.body.decode()


class TestSession:
    def test_signing_out_ends_it(self, lab: Lab, server: Server) -> None:
        cookie = cookie_of(sign_in(server, server.link.partition("#")[2]))
        foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert post(server, "/sign-out", {}, Cookie=cookie, **foreign).status == 403
        assert len(lab.queue.access.sessions()) == 1
        reply = post(server, "/sign-out", {}, Cookie=cookie)
        assert (reply.status, reply.headers["location"]) == (303, "/sign-in")
        assert "Max-Age=0" in reply.headers["set-cookie"]
        assert lab.queue.access.sessions() == []
        assert Client(server.port, {"Cookie": cookie}, base="").get("/").status == 303

    def test_an_old_one_gets_another_secret(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from queuectl.web.gate import Gate, Rules

        queue = lab.queue
        made = queue.access.sign_in(queue.access.link("ann", ["view"]))
        assert made is not None
        session, secret = made
        signing = Signing(queue, Rules(), Gate(queue, Rules()))
        assert signing.fresh(session, secret) is None
        now = queue.now()
        monkeypatch.setattr(queue.store.clock, "now", lambda: now + FRESH)
        other = signing.fresh(session, secret)
        assert other is not None
        assert other[1] != secret
        assert queue.access.known(other[1], (Kind.SESSION,)) is not None
        # What was sent before is on its way: the old secret is good for a little while.
        former = queue.access.known(secret, (Kind.SESSION,))
        assert former is not None
        assert signing.fresh(former, secret) is None


EVERYBODY = set(Role)
SUBMIT, OPERATE, ADMIN = {Role.SUBMIT}, {Role.OPERATE, Role.ADMIN}, {Role.ADMIN}

TABLE = {
    "/": (EVERYBODY, True),
    "/jobs": (EVERYBODY, True),
    "/jobs/{id}": (EVERYBODY, True),
    "/jobs/{id}/output": (EVERYBODY, True),
    "/jobs/{id}/graph": (EVERYBODY, True),
    "/jobs/{id}/relatives": (EVERYBODY, True),
    "/groups/{name}/graph": (EVERYBODY, True),
    "/jobs/{id}/edit": (OPERATE, True),
    "/jobs/{id}/clone": (SUBMIT, True),
    "/dead": (EVERYBODY, True),
    "/queues": (EVERYBODY, True),
    "/queues/{name}": (EVERYBODY, True),
    "/queues/{name}/limits": (ADMIN, False),
    "/schedules": (EVERYBODY, False),
    "/schedules/{name}": (EVERYBODY, False),
    "/schedules/{name}/edit": (SUBMIT, False),
    "/groups": (EVERYBODY, False),
    "/groups/{name}": (EVERYBODY, False),
    "/groups/{name}/results": (EVERYBODY, False),
    "/nodes": (EVERYBODY, False),
    "/events": (EVERYBODY, False),
    "/settings": (ADMIN, False),
    "/access": (ADMIN, False),
    "/new/job": (SUBMIT, True),
    "/new/schedule": (SUBMIT, False),
    "/webhooks": (EVERYBODY, True),
    "/webhooks/{name}": (EVERYBODY, True),
}
"""Of each page: which roles may see it, and whether a token for some queues may."""


class TestPages:
    """Page by role, from the table of pages."""

    def test_the_table_has_each_page_and_no_other(self) -> None:
        assert [page.path for page in PAGES if page.path not in TABLE] == []
        assert len(PAGES) == len(TABLE)

    @pytest.fixture
    def server(self, serve: Serve) -> Server:
        return serve("--allow-submit", "--no-link")

    def test_nothing_is_asked_that_would_be_refused(self, lab: Lab, serve: Serve) -> None:
        lab.queue.enqueue("true", id="none")
        client = serve("--no-link").client(*Role)
        client.base = ""
        for path in ("/new/job", "/new/schedule", "/jobs/none/clone"):
            assert client.get(path).status == 403
        edit = client.get("/jobs/none/edit").body
        assert b'name="priority"' in edit
        assert b'name="command"' not in edit

    def test_each_role_sees_what_the_table_says(self, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("true", id="none", queue="none")
        for role in Role:
            client = server.client(role)
            client.base = ""
            for page in PAGES:
                reply = client.get(re.sub(r"{\w+}", "none", page.path))
                allowed = role in TABLE[page.path][0]
                assert (reply.status != 403) == allowed, (role, page.path)
                assert reply.status in (200, 403, 404), (role, page.path)

    def test_a_token_for_some_queues_sees_no_others(self, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("whisper-secret", id="none", queue="none")
        lab.queue.enqueue("true", id="mine", queue="mine")
        client = server.client(*Role, queues=("mine",))
        client.base = ""
        for page in PAGES:
            reply = client.get(re.sub(r"{\w+}", "none", page.path))
            assert b"whisper" not in reply.body, page.path
            allowed = TABLE[page.path][1]
            expected = (200,) if allowed and "{" not in page.path else (403, 404)
            assert reply.status in expected, page.path
        assert client.get("/jobs/mine").status == 200
        assert client.get("/queues/mine").status == 200
        assert client.get("/jobs?queue=none").status == 403
        assert b'href="/nodes"' not in client.get("/").body

    def test_nobody_sees_a_page_without_being_known(self, server: Server) -> None:
        stranger = Client(server.port, base="")
        for page in PAGES:
            reply = stranger.get(re.sub(r"{\w+}", "none", page.path))
            assert reply.status == 303, page.path
            assert reply.headers["location"].startswith("/sign-in")
            assert stranger.get(page.path, X_Part="main").status == 401

    def test_no_address_is_made_of_another_by_a_slash(self, server: Server) -> None:
        client = server.client(*Role)
        client.base = ""
        for path in (
            "/jobs/",
            "/dead/",
            "//evil.example/",
            "//evil.example/jobs",
            "/jobs/x/output/",
        ):
            assert client.get(path).status == 404, path

    def test_only_reading_methods_are_known(self, server: Server) -> None:
        client = server.client(*Role)
        client.base = ""
        for page in PAGES:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                assert client.ask(method, re.sub(r"{\w+}", "x", page.path)).status == 405

    def test_secrets_are_masked(self, lab: Lab, server: Server) -> None:
        lab.queue.push("d", "hush-hush", type="mail", env={"TOKEN_NAME": "v"})
        for role in Role:
            client = server.client(role)
            client.base = ""
            body = client.get("/jobs/d").body
            assert (b"hush-hush" in body) == (role is Role.ADMIN), role
            assert (b"TOKEN_NAME" in body) == (role is Role.ADMIN), role

    def test_files_are_found_and_nothing_beside_them(self, server: Server) -> None:
        stranger = Client(server.port, base="")
        found = stranger.get("/static/app.js")
        assert (found.status, found.headers["content-type"]) == (
            200,
            "text/javascript; charset=utf-8",
        )
        for path in ("/static/../page.py", "/static/%2e%2e%2fsite.py", "/static/", "/static/x"):
            assert stranger.get(path).status == 404, path

    def test_a_saved_output_is_never_shown_as_a_page(self, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("echo '<script>alert(1)</script>'", id="s")
        lab.node()
        lab.queue.wait("s", timeout=PATIENCE)
        client = server.client("view")
        client.base = ""
        reply = client.get("/jobs/s/output")
        assert reply.body == b"<script>alert(1)</script>\n"
        assert reply.headers["content-type"] == "application/octet-stream"
        assert reply.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in reply.headers["content-security-policy"]


def test_headers_of_pages(server: Server) -> None:
    reply = Client(server.port, base="").get("/sign-in")
    assert "script-src 'self'" in reply.headers["content-security-policy"]
    assert "unsafe" not in reply.headers["content-security-policy"]
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-frame-options"] == "DENY"
    text = reply.body.decode()
    assert " style=" not in text
    assert re.findall(r"<script(?! src=)", text) == []


def test_a_request_line_of_odd_bytes_is_no_page(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("GET", "/jobs/%ff", headers=server.client("view").headers)
    assert connection.getresponse().status == 400
    connection.close()
