"""What type checkers know of tasks. Nobody runs this; mypy and pyright read it (`make check`).

A line that must be refused says so to both of them: a comment that is of no use is an error, too.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from queuectl import CurrentJob, Queue, TaskJob, current_job
from queuectl.testing import Ran, assert_enqueued, drain, inline, moving

queue = Queue("jobs.db")


@dataclass
class Receipt:
    """What is returned."""

    number: int


@queue.task
def plain(user: int, tenant: str = "") -> Receipt:
    """Be registered as it is."""
    return Receipt(user)


@queue.task(queue="mail", retries=5, timeout="5m", unique="{user}", key="{tenant}", name="other")
def configured(user: int, tenant: str) -> Receipt | None:
    """Be registered with options."""
    return None


@queue.task
async def fetch(url: str) -> list[bytes]:
    """Be async."""
    return [url.encode()]


@queue.task(priority=5)
async def fetch_first(url: str, *more: str, **options: bool) -> bytes:
    """Be async, with options and all kinds of parameters."""
    return url.encode()


# Calls are those of the function.
assert_type(plain(1), Receipt)
assert_type(configured(1, "a"), Receipt | None)


def jobs() -> None:
    """Enqueue."""
    assert_type(plain.enqueue(1), TaskJob[Receipt])
    assert_type(plain.delay(1, tenant="a"), TaskJob[Receipt])
    assert_type(plain.enqueue(1).result(timeout=10), Receipt)
    assert_type(plain.job("id").result("10s"), Receipt)
    assert_type(configured.enqueue(1, "a").result(), Receipt | None)
    assert_type(plain.using(run_at="+5m", priority=3).enqueue(1).result(), Receipt)
    assert_type(plain.using(delay=timedelta(1), connection=object()).enqueue(1), TaskJob[Receipt])
    assert_type(fetch.enqueue("x").result(), list[bytes])
    assert_type(fetch_first.enqueue("x", "y", "z", fast=True).result(), bytes)
    assert_type(current_job(), CurrentJob)
    assert_type(current_job().progress(0.5, "half"), None)


async def async_jobs() -> None:
    """Do so where others go on meanwhile."""
    assert_type(await fetch("x"), list[bytes])
    assert_type(await fetch_first("x"), bytes)
    assert_type(await plain.aenqueue(1), TaskJob[Receipt])
    assert_type(await (await fetch.aenqueue("x")).aresult(), list[bytes])
    assert_type(await plain.enqueue(1).aresult(timeout=1), Receipt)
    coroutine: Coroutine[Any, Any, list[bytes]] = fetch("x")
    await coroutine


def tests() -> None:
    """Test."""
    with inline():
        assert_type(plain.enqueue(1).result().number, int)
    with moving(queue) as clock:
        clock.move("5m")
    assert_type(drain(queue), list[Ran])
    assert_enqueued(queue, plain, 1, count=2)


def refused() -> None:
    """Be told of what can't be."""
    plain("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    plain.enqueue("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    plain.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    plain.enqueue(1, "a", 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    plain.delay(user=1, tennant="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    configured.using(queue="x").enqueue(1, 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fetch.enqueue(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fetch_first.enqueue("x", fast="no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    plain.using(prioritty=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    plain.using(priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    number: str = plain.enqueue(1).result().number  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(number)


async def async_refused() -> None:
    """Be told of it there, too."""
    await plain.aenqueue("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fetch("x").decode()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
