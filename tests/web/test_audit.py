"""The audit log: filters, and pages that have addresses."""

import re
from html import unescape

from tests.support import Lab
from tests.web.conftest import ALL, Client, Server


def link(page: str, rel: str) -> str:
    """Return where a page says that one goes on."""
    found = re.search(f'rel="{rel}" href="([^"]+)"', page)
    return unescape(found[1]) if found else ""


def jobs(page: str) -> list[str]:
    return re.findall(r'<code class="id">([^<]+)</code>', page)


def test_pages_have_addresses_both_ways_and_keep_the_filter(lab: Lab, server: Server) -> None:
    for number in range(7):
        lab.queue.enqueue("true", id=f"j{number}")
        lab.queue.hold(f"j{number}")
    lab.queue.cancel("j0")
    page = Client(server.port, server.client("view").headers, "")
    first = page.get("/events?kind=hold&limit=3").body.decode()
    assert jobs(first) == ["j6", "j5", "j4"]
    assert link(first, "prev") == ""
    second = page.get(link(first, "next")).body.decode()
    assert jobs(second) == ["j3", "j2", "j1"]
    third = page.get(link(second, "next")).body.decode()
    assert (jobs(third), link(third, "next")) == (["j0"], "")
    back = page.get(link(third, "prev")).body.decode()
    assert jobs(back) == jobs(second)
    top = page.get(link(back, "prev")).body.decode()
    assert (jobs(top), link(top, "prev")) == (jobs(first), "")
    assert jobs(page.get(link(top, "next")).body.decode()) == jobs(second)


def test_each_filter_and_what_is_wrong_with_one(lab: Lab, server: Server) -> None:
    anyone = server.client(*ALL, name="the-ci-of-ann")
    lab.queue.enqueue("true", id="a")
    lab.queue.enqueue("true", id="b")
    lab.queue.hold("a")
    anyone.post("/jobs/b/hold")
    anyone.post("/jobs/b/cancel", {"reason": "Out of date"})
    for query, found in (
        ("who=CI-of", ["b", "b"]),
        ("kind=hold", ["b", "a"]),
        ("kind=hold&who=the-ci-of-ann", ["b"]),
        ("text=out+OF", ["b"]),
        ("job=a", ["a"]),
        ("since=1h&kind=hold", ["b", "a"]),
        ("since=yesterday&until=2001-01-01", []),
    ):
        told = anyone.get(f"/events?{query}").json["items"]
        assert [event["job"] for event in told if event["job"]] == found, query
    page = Client(server.port, anyone.headers, "").get("/events?since=soonish&who=x")
    assert page.status == 400
    text = page.body.decode()
    assert 'role="alert"' in text
    assert 'value="soonish"' in text
    assert anyone.get("/events?since=soonish").problem == "bad-request"
    assert anyone.get("/events?before=1&after=1").problem == "bad-request"


def test_a_search_says_how_far_it_looked(lab: Lab, server: Server, anyone: Client) -> None:
    lab.queue.enqueue("true", id="needle")
    lab.queue.hold("needle")
    lab.queue.enqueue_many([{"command": "true", "id": f"j{n}"} for n in range(5_000)])
    for verb in ("hold", "release"):
        anyone.post("/bulk/changes", {"do": verb, "filter": {"text": "true"}})
    lab.queue.hold("j1")
    page = Client(server.port, anyone.headers, "")
    first = page.get("/events?kind=hold&text=nothing").body.decode()
    assert "Searched back to" in first
    assert "No events fit" not in first
    last = page.get(link(first, "next")).body.decode()
    assert "No events fit" in last
    assert "Searched" not in last
    above = page.get(link(last, "prev")).body.decode()
    assert "Searched up to" in above
