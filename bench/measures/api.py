"""Jobs enqueued one by one through the API, and by `Queue.enqueue` of a program.

Both sides have one process of their own that asks for as much as it can, and the same number at
once: 16 connections, kept alive, each with one request at a time; 16 threads that share a `Queue`.
Each job is durable before its answer comes. The API is `queuectl web` as a user starts it, and who
asks has a token. The two take turns, a tenth of the jobs each time, on queues of their own.

- *api*: `POST /api/v1/jobs`.
- *threads*: `Queue.enqueue`.
- *alone*: `Queue.enqueue`, one after the other.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

from bench.clients import Asked
from bench.figures import Reading
from bench.lab import Lab
from bench.measures.enqueue import TURNS, check
from bench.subject import Measure, Plain, Subject
from bench.website import website

AT_ONCE = 16


def subjects(lab: Lab) -> list[Subject]:
    """Return a pair for each store."""
    return [Plain(f"the API on {store}", partial(pair, lab, store)) for store in lab.stores]


def pair(lab: Lab, store: str) -> Iterable[Reading]:
    """Enqueue in turns through the API, and without it."""
    each = lab.sizes.enqueue_single // TURNS // AT_ONCE * AT_ONCE or AT_ONCE
    with ExitStack() as stack:
        plain, served = (stack.enter_context(lab.place(store)) for _ in range(2))
        program = stack.enter_context(Asked(lab, "queuectl_app", plain))
        site = stack.enter_context(website(lab, served))
        asker = stack.enter_context(Asked(lab, "api_app", site.broker))

        def once(who: str, times: int) -> float:
            if who == "api":
                return _seconds(
                    asker("connected", command="true", times=times, connections=AT_ONCE)
                )
            if who == "threads":
                return _seconds(program("threaded", command="true", times=times, threads=AT_ONCE))
            return _seconds(program("single", command="true", times=times))

        ways = ("api", "threads", "alone")
        for who in ways:
            once(who, AT_ONCE)
        seconds = dict.fromkeys(ways, 0.0)
        for turn in range(TURNS):
            for who in sorted(ways, reverse=bool(turn % 2)):
                seconds[who] += once(who, each)
        jobs = AT_ONCE + TURNS * each
        check(plain, 2 * jobs)
        check(served, jobs)
    return [
        Reading(id=f"api/{store}/{who}", value=TURNS * each / took, unit="jobs/s")
        for who, took in seconds.items()
    ]


def _seconds(said: dict[str, float]) -> float:
    return said["seconds"]


MEASURE = Measure(
    name="api",
    title="Enqueue through the API",
    about=__doc__ or "",
    subjects=subjects,
)
