"""What browsers see that ask for what isn't there; programs are told in JSON."""

import asyncio
from contextlib import closing

import apsw
import pytest

from queuectl.errors import StoreBusyError
from queuectl.web.app import App
from queuectl.web.gate import Rules
from tests.support import Lab
from tests.web.conftest import ALL, Client, Reply, Serve, Server, asked

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("base", ["", "/ops"])
def test_a_path_that_is_not_there_is_a_page_with_a_next_step(serve: Serve, base: str) -> None:
    server = serve("--no-link", *(("--base-path", base) if base else ()))
    stranger = Client(server.port, HTML, base=base)
    reply = stranger.get("/nothing/here")
    assert reply.status == 404
    assert reply.headers["content-type"].startswith("text/html")
    text = reply.body.decode()
    assert "<h1>Not found</h1>" in text
    assert f'<a href="{base}/jobs">search the jobs</a>' in text
    assert f'<a href="{base}/">To the overview</a>' in text
    assert str(server.lab.queue.url) not in text


def test_another_method_is_a_page_that_says_so(server: Server) -> None:
    reply = Client(server.port, HTML, base="").ask("POST", "/jobs", b"x=1")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")
    assert "<h1>Not so</h1>" in reply.body.decode()


def test_programs_are_told_in_json(server: Server) -> None:
    assert Client(server.port, HTML).get("/nothing").problem == "no-path"
    assert Client(server.port, base="").get("/nothing").problem == "no-path"


def alter(lab: Lab, statement: str) -> None:
    """Do something to the database that queuectl never does."""
    with closing(apsw.Connection(str(lab.db))) as db:
        db.set_busy_timeout(60_000)
        db.execute(statement)


def spoil(lab: Lab) -> str:
    """Add a token that can't be read, and return its secret."""
    _, secret = lab.queue.access.add_token("spoilt", ["view"])
    alter(lab, "UPDATE grants SET queues = '[' WHERE name = 'spoilt'")
    return secret


def check_page(reply: Reply, status: int, title: str, lab: Lab) -> str:
    """Check a page that says what went wrong, and return the middle of it."""
    assert reply.status == status
    assert reply.headers["content-type"].startswith("text/html")
    assert reply.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    middle = reply.body.decode().partition("<main")[2].partition("</main>")[0]
    assert f"<h1>{title}</h1>" in middle
    for inside in ("Traceback", lab.db.name, str(lab.folder), "queuectl/web", "no such table"):
        assert inside not in middle
    for word in ("SELECT", "UPDATE", "grants", "events "):
        assert word not in middle
    return middle


def test_a_fault_of_ours_says_nothing_of_the_inside(lab: Lab, server: Server) -> None:
    known = Client(server.port, {**server.client(*ALL).headers, **HTML}, base="")
    secret = spoil(lab)
    middle = check_page(known.get("/access"), 500, "A fault of ours", lab)
    assert "the log has more" in middle
    nobody = Client(server.port, {"Authorization": f"Bearer {secret}", **HTML}, base="")
    reply = nobody.get("/jobs")
    assert "the log has more" in check_page(reply, 500, "A fault of ours", lab)
    assert lab.db.name not in reply.body.decode()
    assert known.get("/jobs").status == 200
    assert server.stop() == 0
    assert server.process.stderr is not None
    assert "Traceback" in server.process.stderr.read()


def test_a_database_that_cannot_be_used_says_so_and_when_to_come_back(
    lab: Lab, server: Server
) -> None:
    known = Client(server.port, {**server.client(*ALL).headers, **HTML}, base="")
    title = "The database can&#39;t be used"
    alter(lab, "ALTER TABLE events RENAME TO elsewhere")
    for _ in range(2):
        reply = known.get("/events?kind=hold")
        assert reply.headers["retry-after"] == "2"
        middle = check_page(reply, 503, title, lab)
        assert '<a href="/events?kind=hold">try again</a>' in middle
    alter(lab, "ALTER TABLE elsewhere RENAME TO events")
    assert known.get("/events?kind=hold").status == 200
    nobody = Client(server.port, {**server.client("view").headers, **HTML}, base="")
    alter(lab, "ALTER TABLE grants RENAME TO elsewhere")
    reply = nobody.get("/jobs")
    check_page(reply, 503, title, lab)
    assert lab.db.name not in reply.body.decode()
    assert server.stop() == 0
    assert server.process.stderr is not None
    noted = server.process.stderr.read()
    assert noted.count("/events: ") == 1
    assert "no such table: events" in noted


@pytest.mark.parametrize("accept", [HTML["Accept"], "*/*"])
def test_a_busy_database_is_said_to_be_busy(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreBusyError(f"Other transactions at {lab.db} were in the way")

    _, secret = lab.queue.access.add_token("one", ["view"])
    monkeypatch.setattr(lab.queue.store.history, "events", fail)
    app = App(lab.queue, Rules())
    headers = {"authorization": f"Bearer {secret}", "accept": accept}
    reply = asyncio.run(asked(app, "/events", **headers))
    check_page(reply, 503, "The database is busy", lab)
    assert reply.headers["retry-after"] == "2"
    # A page that renews itself is told as much.
    part = asyncio.run(asked(app, "/events", **headers, x_part="1"))
    check_page(part, 503, "The database is busy", lab)
