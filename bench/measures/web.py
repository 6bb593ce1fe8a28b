"""What a dashboard costs those who look at it, the database, and the nodes beside it.

- *overview*, *jobs*, *search*: milliseconds until a page has come, p95, of a queue that has had a
  million jobs in a month (`fill_month` in `bench/fill.py`). A job is enqueued before each, so that
  something is new. *search* looks for a text that no job has.
- *paint*: milliseconds from asking for the overview of that queue until a browser begins to show
  it, p95: Debian's chromium, which has been there before.
- *streams*: what SQLite is asked, in statements, while a job is enqueued ten times a second and one
  listens, or a thousand do; each of them hears of it.
- *beside*: jobs `true` a second that a node with 16 workers gets through beside a web server whose
  overview ten people have open: each listens, and asks for what is new as the page does in a
  browser. *alone* is the same without. The two take turns.
"""

import http.client
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.counted import counted
from bench.figures import Reading, percentile
from bench.fill import fill_month
from bench.lab import MARIADB, SQLITE, Lab
from bench.measures.drain import UNIT, Ours
from bench.processes import BenchError, wait_for
from bench.subject import Measure, Plain, Subject
from bench.website import Website, audience, website
from queuectl import Queue
from queuectl.access import Role
from tests.web.browser import chromium, open_page

PAGES = {"overview": "/", "jobs": "/jobs", "search": "/jobs?text=nowhere-to-be-found"}
WORKERS = 16
DASHBOARDS = 10
RATE = 10.0
"""Changes a second while somebody listens."""
SHARE = 0.95
PAINTED = """() => new Promise((tell) => new PerformanceObserver((list) => {
  const first = list.getEntriesByName("first-paint")[0];
  if (first) tell(first.startTime);
}).observe({type: "paint", buffered: true}))"""


def subjects(lab: Lab) -> list[Subject]:
    """Return a full queue on each store that is quickly filled, drains, and the streams."""
    found: list[Subject] = [
        _Month(lab, store, lab.sizes.month_jobs) for store in lab.stores if store != MARIADB
    ]
    found += [_Beside(lab, store) for store in lab.stores]
    if SQLITE in lab.stores:
        found.append(Plain("who listens, on sqlite", lambda: streams(lab), cold=True))
    return found


class _Month(Subject):
    """A queue with many jobs, and the web server of it."""

    def __init__(self, lab: Lab, store: str, jobs: int) -> None:
        super().__init__(f"the dashboard on {store}, {jobs:,} jobs")
        self._lab = lab
        self._store = store
        self._jobs = jobs
        self._stack = ExitStack()
        self._queue: Queue | None = None
        self._site: Website | None = None

    def warm_up(self) -> None:
        """Fill it."""
        url = self._stack.enter_context(self._lab.place(self._store))
        self._queue = self._stack.enter_context(Queue(url))
        fill_month(self._lab, self._store, self._queue, self._jobs)
        self._site = self._stack.enter_context(website(self._lab, url))
        self.measure()

    def measure(self) -> Iterable[Reading]:
        """Look at each page many times."""
        queue, site = self._queue, self._site
        assert queue is not None
        assert site is not None
        found = {name: list(self._looks(queue, site, path)) for name, path in PAGES.items()}
        found["paint"] = list(self._paints(queue, site))
        return [
            Reading(id=f"web/{self._store}/{name}", value=percentile(took, SHARE), unit="ms")
            for name, took in found.items()
        ]

    def close(self) -> None:
        """Drop it."""
        self._stack.close()

    def _looks(self, queue: Queue, site: Website, path: str) -> Iterator[float]:
        connection = http.client.HTTPConnection("127.0.0.1", site.port)
        for _ in range(self._lab.sizes.views):
            queue.enqueue("true")
            began = time.perf_counter()
            connection.request("GET", path, headers={"Authorization": f"Bearer {site.secret}"})
            reply = connection.getresponse()
            shown = reply.read()
            yield (time.perf_counter() - began) * 1000
            if reply.status != http.client.OK:
                raise BenchError(f"{path} is answered with {reply.status}: {shown[:200]!r}")
        connection.close()

    def _paints(self, queue: Queue, site: Website) -> Iterator[float]:
        with browsing(queue, site) as page:
            for _ in range(self._lab.sizes.views):
                queue.enqueue("true")
                page.goto(f"{site.url}{PAGES['overview']}")
                yield float(page.evaluate(PAINTED))


@contextmanager
def browsing(queue: Queue, site: Website) -> Iterator[Any]:
    """Lend a page of a browser that is signed in."""
    secret = queue.access.link("bench", [str(Role.OPERATE)])
    with chromium() as browser:
        page = open_page(browser)
        page.goto(f"{site.url}/sign-in#{secret}")
        page.wait_for_selector("h1:has-text('Overview')")
        yield page


class _Beside(Subject):
    """A drain alone, and one beside a web server, one right after the other."""

    def __init__(self, lab: Lab, store: str) -> None:
        super().__init__(f"a drain on {store} beside dashboards")
        self._lab = lab
        self._store = store
        self._turn = 0

    def warm_up(self) -> None:
        """Drain a few both ways."""
        for drain in (Ours(self._lab, self._store, WORKERS, 1), Served(self._lab, self._store)):
            drain.warm_up()

    def measure(self) -> Iterable[Reading]:
        """Drain all both ways; each goes first every other time."""
        self._turn += 1
        pair = [
            ("alone", Ours(self._lab, self._store, WORKERS, 1)),
            ("beside", Served(self._lab, self._store)),
        ]
        for who, drain in pair if self._turn % 2 else pair[::-1]:
            rate = drain.rate(self._lab.sizes.drain_jobs)
            yield Reading(id=f"web/{self._store}/{who}", value=rate, unit=UNIT)


class Served(Ours):
    """A node whose queue has a web server, and that some who look at it."""

    def __init__(self, lab: Lab, store: str) -> None:
        super().__init__(lab, store, WORKERS, 1)

    @contextmanager
    def beside(self, queue: Queue) -> Iterator[None]:
        """Have the overview open."""
        with (
            website(self.lab, queue.place.url) as site,
            audience(self.lab, site, DASHBOARDS, PAGES["overview"]) as people,
        ):
            yield
            people.wait(DASHBOARDS)


def streams(lab: Lab) -> Iterable[Reading]:
    """Count statements while few listen, and while many do."""
    for many in (1, lab.sizes.streams):
        with lab.scratch() as folder, lab.place(SQLITE) as url:
            count = folder / "count"
            program = (sys.executable, "-m", "bench.counted", str(count))
            with (
                website(lab, url, *program) as site,
                Queue(url) as queue,
                audience(lab, site, many) as people,
            ):
                people.heard()
                before, due = counted(count), time.monotonic()
                for _ in range(lab.sizes.changes):
                    last = counted(count)
                    queue.enqueue("true")
                    due += 1 / RATE
                    time.sleep(max(0.0, due - time.monotonic()))
                # What they hear late may be of what was before.
                wait_for(lambda: counted(count) > last, "a look at the last change")  # noqa: B023
                people.wait(many)
                asked = counted(count) - before
        yield Reading(
            id=f"web/sqlite/streams/{'one' if many == 1 else 'many'}",
            value=asked / lab.sizes.changes,
            unit="statements a change",
        )


MEASURE = Measure(
    name="web",
    title="The dashboard",
    about=__doc__ or "",
    subjects=subjects,
)
