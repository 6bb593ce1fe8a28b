"""Very many dashboards at once: what they ask of the store, and of each other."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import pytest

from queuectl import Queue
from queuectl.web import gate
from queuectl.web.app import App
from queuectl.web.live import Live
from queuectl.web.pages import site
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import Client, Server, asked

MANY = 1_000
CHANGES = 5
ROOM = """
import resource
from queuectl.web.server import make_room

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(make_room(2_000), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the statements that SQLite is given by connections that are opened meanwhile."""
    seen: list[str] = []

    def trace(_: Any, text: str, __: Any) -> bool:
        seen.append(text)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(watch)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(watch)


def test_a_thousand_listeners_ask_the_store_no_more_than_one(lab: Lab) -> None:
    lab.queue.enqueue("true")
    with counted() as seen, Queue(lab.url) as queue:
        heard = asyncio.run(listened(lab, Live(queue), seen))
    # Who asked for each of them would have asked five thousand times.
    assert len(seen) < MANY
    assert heard == dict.fromkeys(range(2, 2 + CHANGES), MANY)


async def listened(lab: Lab, live: Live, seen: list[str]) -> Counter[int]:
    """Change things while all listen; returns how many were told of each number of jobs."""
    heard: Counter[int] = Counter()

    async def listen(started: asyncio.Event) -> None:
        async for text in live.listen(None):
            started.set()
            for total in range(2, 2 + CHANGES):
                heard[total] += (
                    text.startswith(b"event: status") and b'"total": %d,' % total in text
                )
            if heard[1 + CHANGES] and b'"total": %d,' % (1 + CHANGES) in text:
                return

    live.start()
    try:
        starts = [asyncio.Event() for _ in range(MANY)]
        tasks = [asyncio.create_task(listen(started)) for started in starts]
        for started in starts:
            await started.wait()
        seen.clear()
        for total in range(2, 2 + CHANGES):
            await asyncio.to_thread(lab.queue.enqueue, "true")
            await until(lambda total=total: heard[total] == MANY)
        await asyncio.gather(*tasks)
    finally:
        live.stop()
    return heard


async def until(condition: Any) -> None:
    """Wait in the loop until a condition is true."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def test_those_who_renew_the_same_page_are_shown_the_same(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", id="first-of-all")
    one, other = (Client(server.port, viewer.headers, "") for viewer in viewers(server))
    shown = one.get("/jobs", X_Part="main")
    assert b"first-of-all" in shown.body
    wait_for(lambda: other.get("/jobs", X_Part="main").headers["etag"] == shown.headers["etag"], "")
    again = other.get("/jobs", X_Part="main", If_None_Match=shown.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    lab.queue.enqueue("true", id="second")
    fresh = one.get("/jobs", X_Part="fresh", If_None_Match=shown.headers["etag"])
    assert (fresh.status, b"second" in fresh.body) == (200, True)
    # Another page, and other rights, are something else.
    assert one.get("/queues", X_Part="main").headers["etag"] != fresh.headers["etag"]
    limited = Client(server.port, server.client("view", queues=("none",)).headers, "")
    assert b"second" not in limited.get("/jobs", X_Part="main").body


def test_a_page_by_another_query_is_the_same_page(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "GOOD_FOR", 3_600.0)
    monkeypatch.setattr(gate, "KNOWN_FOR", 3_600.0)
    lab.queue.enqueue("true", id="j", queue="mail")
    _, secret = lab.queue.access.add_token("ann", ["view"])
    with counted() as seen, Queue(lab.url) as queue:
        app = App(queue, gate.Rules())
        first = asyncio.run(renewed(app, secret, ["queue=mail"]))
        seen.clear()
        odd = [f"queue=mail&x{number}=" for number in range(20)]
        again = asyncio.run(renewed(app, secret, [*odd, "text=&queue=mail"]))
    assert set(again) == set(first)
    assert seen == []


async def renewed(app: App, secret: str, queries: list[str]) -> list[bytes]:
    """Return what is shown of the list of jobs by each of these queries."""
    headers = {"x_part": "main", "authorization": f"Bearer {secret}"}
    return [(await asked(app, f"/jobs?{query}", **headers)).body for query in queries]


def test_pages_about_groups_ask_no_more_of_the_store_for_more_jobs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these groups has more jobs, and more blocked ones, than a page looks at."""
    monkeypatch.setattr(gate, "KNOWN_FOR", 3_600.0)
    sizes = {"small": 11_000, "large": 22_000}
    for name, many in sizes.items():
        lab.queue.enqueue("true", id=f"root-{name}", group=name, delay="1h")
        made = ({"command": "true", "after": f"root-{name}"} for _ in range(many))
        lab.queue.enqueue_many(made, group=name)
    _, secret = lab.queue.access.add_token("ann", ["view"])
    headers = {"authorization": f"Bearer {secret}"}
    counts: dict[str, list[int]] = {}
    with counted() as seen, Queue(lab.url) as queue:
        app = App(queue, gate.Rules())

        async def look() -> None:
            await asked(app, "/groups", **headers)
            for name in ("small", *sizes):
                for path in ("", "/results"):
                    seen.clear()
                    reply = await asked(app, f"/groups/{name}{path}", **headers)
                    assert reply.status == 200
                    counts.setdefault(name, []).append(len(seen))

        asyncio.run(look())
    assert counts["large"] == counts["small"][2:]


def viewers(server: Server) -> tuple[Client, Client]:
    """Return two who may see everything."""
    return server.client("view"), server.client("view")


@pytest.mark.parametrize(
    ("soft", "hard", "told"),
    [
        ("400", "hard", "2000 2256"),
        ("400", "900", "644 900"),
        ("300", "300", "150 300"),
        ("hard", "hard", "2000"),
    ],
)
def test_there_is_room_for_connections_whatever_the_shell_gives(
    soft: str, hard: str, told: str
) -> None:
    script = ROOM.format(soft=soft, hard=hard)
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert found.stdout.startswith(told)
