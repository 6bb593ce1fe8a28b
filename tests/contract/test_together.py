"""Jobs of several who ask, stored in one durable write: each has its own outcome."""

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from queuectl import Queue
from queuectl.errors import StoreBusyError
from queuectl.store import Store
from queuectl.store.sqlstore import SqlStore
from queuectl.together import Outcome, Prepared, Stored
from queuectl.values import replace

pytestmark = pytest.mark.needs("sql")
TOO_LARGE = 2**70
"""A priority that no database takes."""


@pytest.fixture
def queue(store: Store, url: str) -> Iterator[Queue]:
    """The same queue for programs."""
    with Queue(url) as queue:
        yield queue


@pytest.fixture
def commits(queue: Queue) -> Iterator[list[int]]:
    """How many transactions there were, in the end."""
    store = queue.store
    assert isinstance(store, SqlStore)
    seen: list[int] = []
    numbers = count(1)
    store.db.before_commit = lambda: seen.append(next(numbers))
    yield seen
    store.db.before_commit = None


def commands(queue: Queue, *texts: str) -> list[Prepared]:
    return [queue.together.prepare({"command": text}) for text in texts]


def told(outcomes: Sequence[Outcome]) -> list[str]:
    """Return what each came to: its command, marked if it was there before, or its error."""
    return [
        f"{one.job.command}{'' if one.is_new else ' again'}"
        if isinstance(one, Stored)
        else type(one).__name__
        for one in outcomes
    ]


def stored(queue: Queue) -> list[str | None]:
    return [job.command for job in queue.list(oldest=True, limit=None)]


def test_they_share_one_commit_and_each_gets_its_own_job(queue: Queue, commits: list[int]) -> None:
    outcomes = queue.together.add(commands(queue, "a", "b", "c"))
    assert told(outcomes) == ["a", "b", "c"]
    assert stored(queue) == ["a", "b", "c"]
    assert commits == [1]
    for one in outcomes:
        assert isinstance(one, Stored)
        assert queue.get(one.job.id) == one.job


def test_an_id_that_is_taken_is_the_error_of_that_one(queue: Queue, commits: list[int]) -> None:
    queue.enqueue("first", id="taken")
    commits.clear()
    some = commands(queue, "a", "b")
    late = queue.together.prepare({"command": "late", "id": "taken"})
    outcomes = queue.together.add([some[0], late, some[1]])
    assert told(outcomes) == ["a", "DuplicateError", "b"]
    assert stored(queue) == ["first", "a", "b"]
    assert len(commits) == 1


def test_a_request_that_comes_again_finds_its_job(queue: Queue) -> None:
    def asked(command: str, digest: str) -> Prepared:
        return queue.together.prepare({"command": command, "id": "key"}, digest=digest)

    assert told(queue.together.add([asked("a", "one")])) == ["a"]
    again = [asked("a", "one"), *commands(queue, "b"), asked("c", "other"), asked("a", "one")]
    assert told(queue.together.add(again)) == ["a again", "b", "DuplicateError", "a again"]
    twice = [replace(one, new=replace(one.new, id="both")) for one in (again[0], again[0])]
    assert told(queue.together.add(twice)) == ["a", "a again"]
    assert stored(queue) == ["a", "b", "a"]


def test_what_the_database_refuses_takes_nobody_along(queue: Queue) -> None:
    a, bad, b = commands(queue, "a", "bad", "b")
    bad = replace(bad, new=replace(bad.new, priority=TOO_LARGE))
    outcomes = queue.together.add([a, bad, b])
    assert told([outcomes[0], outcomes[2]]) == ["a", "b"]
    assert not isinstance(outcomes[1], Stored)
    assert stored(queue) == ["a", "b"]


def test_what_keeps_all_from_being_stored_is_told_all_of_them(
    queue: Queue,
) -> None:
    store = queue.store
    assert isinstance(store, SqlStore)
    tries = []

    def busy() -> None:
        tries.append(1)
        raise StoreBusyError("somebody has it")

    store.db.before_commit = busy
    assert told(queue.together.add(commands(queue, "a", "b", "c"))) == ["StoreBusyError"] * 3
    assert len(tries) == 1
    store.db.before_commit = None
    assert stored(queue) == []


@pytest.mark.parametrize(
    ("fields", "may_wait"),
    [
        ({}, False),
        ({"priority": 3, "tags": ["a"], "delay": "5m"}, False),
        ({"id": "mine"}, True),
        ({"unique": "key"}, True),
        ({"keys": ["one"]}, True),
        ({"queue": "limited"}, True),
    ],
)
def test_what_others_may_have_locked_is_known(
    queue: Queue, fields: dict[str, object], may_wait: bool
) -> None:
    queue.limits.set("limited", limit=1)
    prepared = queue.together.prepare({"command": "true", **fields})
    assert prepared.may_wait is may_wait


def test_a_delay_counts_from_when_it_was_asked_for(queue: Queue) -> None:
    prepared = queue.together.prepare({"command": "true", "delay": "10s"})
    (one,) = queue.together.add([prepared])
    assert isinstance(one, Stored)
    assert one.job.run_at == prepared.now + 10_000
