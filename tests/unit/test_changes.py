"""Changes by hand to many jobs: which are meant, what is told, and others who change them too."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from queuectl import Job, Queue, State
from queuectl.changes import PURGE, REMOVE, RETRY, Changed, Refused, cancelling
from queuectl.errors import NotFoundError, StateError, StoreUnreachableError, UsageError
from queuectl.filter import Filter
from queuectl.job import WAITING
from queuectl.lifecycle import cancelled
from tests.contract.tools import apply, transaction

WAITS = Filter(states=WAITING)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """A queue with three jobs."""
    with Queue(tmp_path / "q.db") as made:
        made.enqueue_many([{"command": "true", "id": id} for id in "abc"])
        yield made


def ids_of(told: list[Changed]) -> list[str]:
    return [each.before.id for each in told]


def test_what_changed_while_it_was_read_is_passed_over(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server finds jobs in one statement and reads them in the next: they may differ by then."""
    real = queue.store.jobs.select

    def select(*args: Any, **kwargs: Any) -> list[Job]:
        found = real(*args, **kwargs)
        theirs = queue.get("b")
        if theirs.state == State.PENDING:
            assert apply(
                queue.store, theirs, cancelled(theirs, "theirs"), now=queue.store.clock.now()
            )
        return [queue.get(job.id) for job in found]

    monkeypatch.setattr(queue.store.jobs, "select", select)
    told: list[Changed] = []
    assert queue.change_matching(WAITS, cancelling(), told=told.extend) == 2
    assert ids_of(told) == ["c", "a"]
    reasons = [queue.get(id).reason or "" for id in "abc"]
    assert reasons[1] == "theirs"
    assert all(reason.startswith("cancelled by") for reason in (reasons[0], reasons[2]))


def test_a_store_that_is_gone_is_asked_once(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def gone(id: str) -> Job:
        asked.append(id)
        raise StoreUnreachableError("It is gone.")

    monkeypatch.setattr(queue.store.jobs, "get", gone)
    with pytest.raises(StoreUnreachableError):
        queue.change_named(["a", "b", "c"], cancelling())
    assert asked == ["a"]


def test_what_is_undone_and_made_again_is_told_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may refuse a transaction because of another; it is made again then."""
    real = queue.store.transact

    def transact(action: Callable[[], Any]) -> Any:
        with suppress(ZeroDivisionError), transaction(queue.store):
            action()
            raise ZeroDivisionError
        return real(action)

    monkeypatch.setattr(queue.store, "transact", transact)
    told: list[Changed] = []
    assert queue.change_matching(Filter(), cancelling(), told=told.extend) == 3
    assert ids_of(told) == ["c", "b", "a"]
    assert {each.after.state for each in told if each.after} == {State.CANCELLED}


def test_named_jobs_are_changed_whatever_becomes_of_the_others(queue: Queue) -> None:
    queue.cancel("b")
    told: list[Changed | Refused] = []
    queue.change_named(["a", "nosuch", "b", "a", "c"], cancelling(), told=told.append)
    first, missing, late, last = told
    assert isinstance(first, Changed) and first.before.id == "a"
    assert isinstance(missing, Refused) and missing.name == "nosuch" and missing.job is None
    assert isinstance(missing.error, NotFoundError)
    assert isinstance(late, Refused) and late.job is not None and late.job.id == "b"
    assert isinstance(late.error, StateError)
    assert isinstance(last, Changed) and last.after is not None
    assert last.after.state == State.CANCELLED


def test_a_dry_run_tells_the_same_and_changes_nothing(queue: Queue) -> None:
    queue.cancel("b")
    dry: list[Changed] = []
    assert queue.change_matching(Filter(), REMOVE, dry_run=True, told=dry.extend) == 3
    assert ids_of(dry) == ["c", "b", "a"]
    assert queue.status().total == 3
    done: list[Changed] = []
    assert queue.change_matching(Filter(), REMOVE, told=done.extend) == 3
    assert ids_of(done) == ids_of(dry)
    assert [each.after for each in done] == [None, None, None]
    assert queue.status().total == 0


def test_a_filter_without_states_means_the_usual_ones(queue: Queue) -> None:
    queue.cancel("b")
    told: list[Changed] = []
    queue.change_matching(Filter(), RETRY, told=told.extend)
    assert ids_of(told) == ["b"]
    with pytest.raises(UsageError, match="pending can't be retried"):
        queue.change_matching(Filter(states=(State.PENDING,)), RETRY)


def test_purging_is_for_dead_jobs_only(queue: Queue) -> None:
    told: list[Changed | Refused] = []
    queue.change_named(["a"], PURGE, told=told.append)
    (refused,) = told
    assert isinstance(refused, Refused) and "not dead" in str(refused.error)
    assert queue.change_matching(Filter(), PURGE) == 0
    assert queue.status().total == 3


def test_jobs_are_counted_as_they_are_selected(queue: Queue) -> None:
    queue.enqueue("true", id="d", queue="mail", tags=["nightly"])
    queue.cancel("a")
    assert queue.count(Filter()) == 4
    assert queue.count(Filter(states=(State.PENDING,))) == 3
    assert queue.count(Filter(queues=("mail",), states=(State.CANCELLED,))) == 0
    assert queue.count(Filter(tags=("nightly",))) == 1
    assert queue.count(Filter(text="TRU", states=(State.CANCELLED,))) == 1
