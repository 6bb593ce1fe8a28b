"""What browsers see that ask for what isn't there; programs are told in JSON."""

import pytest

from tests.web.conftest import Client, Serve, Server

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
