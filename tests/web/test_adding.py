"""Requests that add jobs at the same moment share a commit, and nobody notices."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Event
from typing import Any

import pytest

from queuectl import Queue
from queuectl.access import Grant, Kind, Role
from queuectl.errors import UsageError
from queuectl.store.sqlstore import SqlStore
from queuectl.web.adding import LONGEST_TOGETHER, Adder
from queuectl.web.api import jobs
from queuectl.web.call import Adding, Answer, Call
from tests.support import PATIENCE, Lab
from tests.web.conftest import Client

MANY = 12
ANN = Grant(
    id="t1",
    kind=Kind.TOKEN,
    name="ann",
    digest="",
    roles=tuple(Role),
    created_at=0,
    created_by="test",
)


class Gate:
    """Holds the first commit up until it is opened."""

    def __init__(self, queue: Queue) -> None:
        self.reached, self.open = Event(), Event()
        self.commits = 0
        store = queue.store
        assert isinstance(store, SqlStore)
        store.db.before_commit = self._pass

    def _pass(self) -> None:
        self.commits += 1
        self.reached.set()
        assert self.open.wait(PATIENCE)


def behind_a_gate(lab: Lab, then: Callable[[Queue, Gate, Adder], Awaitable[Any]]) -> Any:
    """Do something in a loop while the first commit is held up."""

    async def run() -> Any:
        with Queue(lab.url) as queue:
            gate = Gate(queue)
            try:
                return await then(queue, gate, Adder(queue))
            finally:
                gate.open.set()

    return asyncio.run(run())


def post(queue: Queue, adder: Adder, body: Any, **headers: str) -> "asyncio.Future[Any]":
    call = Call(queue=queue, grant=ANN, body=body, headers=headers)
    return adder.run(partial(jobs.enqueue, call))


def test_who_comes_meanwhile_shares_the_next_commit_and_hears_after_it(lab: Lab) -> None:
    async def then(queue: Queue, gate: Gate, adder: Adder) -> None:
        first = post(queue, adder, {"command": "echo first"})
        await asyncio.to_thread(gate.reached.wait, PATIENCE)
        others = [post(queue, adder, {"command": f"echo {number}"}) for number in range(MANY)]
        wrong = post(queue, adder, {"command": "true", "prioritee": 1})
        named = post(queue, adder, {"command": "true", "id": "mine"})
        assert not any(one.done() for one in (first, *others, wrong, named))
        assert not lab.queue.list()
        gate.open.set()
        answers = await asyncio.gather(first, *others)
        assert gate.commits == 2
        assert [one.value["command"] for one in answers] == [
            "echo first",
            *(f"echo {number}" for number in range(MANY)),
        ]
        assert {one.value["id"]: one.value["command"] for one in answers} == {
            job.id: job.command for job in lab.queue.list()
        }
        with pytest.raises(UsageError, match="prioritee"):
            await wrong
        # Somebody may have that id in a transaction that isn't over: it is for another thread.
        assert isinstance(await named, Adding)

    behind_a_gate(lab, then)


def test_a_key_that_comes_twice_at_the_same_moment_adds_one_job(lab: Lab) -> None:
    async def then(queue: Queue, gate: Gate, adder: Adder) -> None:
        first = post(queue, adder, {"command": "echo first"})
        await asyncio.to_thread(gate.reached.wait, PATIENCE)
        key = {"idempotency-key": "k"}
        twice = [post(queue, adder, {"command": "true", "id": None}, **key) for _ in range(2)]
        other = post(queue, adder, {"command": "false"}, **key)
        gate.open.set()
        answers = await asyncio.gather(*twice)
        assert all(isinstance(each, Answer) for each in answers)
        one, again = answers
        assert (one.status, again.status) == (201, 200)
        assert one.value == again.value
        with pytest.raises(UsageError, match="Another request"):
            await other
        await first
        assert len(lab.queue.list()) == 2

    behind_a_gate(lab, then)


def test_a_lone_request_is_answered_by_itself(lab: Lab) -> None:
    async def then(queue: Queue, gate: Gate, adder: Adder) -> None:
        gate.open.set()
        answer = await post(queue, adder, {"command": "true"})
        assert isinstance(answer, Answer)
        assert gate.commits == 1

    behind_a_gate(lab, then)


def test_what_is_large_or_named_is_added_as_well(lab: Lab, anyone: Client) -> None:
    text = "x" * LONGEST_TOGETHER
    large = anyone.post("/jobs", {"command": "cat", "stdin": text}, Idempotency_Key="large")
    assert (large.status, large.json["stdin_bytes"]) == (201, LONGEST_TOGETHER)
    named = anyone.post("/jobs", {"command": "true", "id": "mine"})
    assert (named.status, named.headers["location"]) == (201, "/api/v1/jobs/mine")
    taken = anyone.post("/jobs", {"command": "true", "id": "mine"})
    assert (taken.status, taken.problem) == (409, "duplicate")
    unique = [anyone.post("/jobs", {"command": "true", "unique": "u"}).json for _ in range(2)]
    assert unique[0]["id"] == unique[1]["id"]
    assert len(lab.queue.list()) == 3
