"""One change to many jobs, while others change them, too."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from queuectl import Job, Queue, State
from queuectl.changes import check_cancel
from queuectl.cli.many import Manner, Verb, change_matching, change_named
from queuectl.errors import StoreUnreachableError
from queuectl.job import WAITING
from queuectl.lifecycle import cancelled
from queuectl.store.contract import Filter
from queuectl.values import replace

CANCEL = Verb(
    would="cancel",
    done="cancelled",
    change=Queue.cancel_all,
    check=lambda _, job: check_cancel(job),
    told=lambda before, after: f"Job {after.id} cancelled.",
    allowed=(*WAITING, State.PROCESSING),
    usual=WAITING,
)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """A queue with three jobs."""
    with Queue(tmp_path / "q.db") as made:
        made.enqueue_many([{"command": "true", "id": id} for id in "abc"])
        yield made


def test_what_changed_while_it_was_read_is_passed_over(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server finds jobs in one statement and reads them in the next: they may differ by then."""
    real = queue.store.select

    def select(*args: Any, **kwargs: Any) -> list[Job]:
        found = real(*args, **kwargs)
        theirs = queue.get("b")
        if theirs.state == State.PENDING:
            assert queue.store.apply(theirs, cancelled(theirs, "theirs"), now=queue.store.now())
        return [queue.get(job.id) for job in found]

    monkeypatch.setattr(queue.store, "select", select)
    which = Filter(states=(State.PENDING,))
    assert change_matching(queue, which, CANCEL, Manner(quiet=True)) == 0
    assert capsys.readouterr().out.split() == ["c", "a"]
    reasons = [queue.get(id).reason or "" for id in "abc"]
    assert reasons[1] == "theirs"
    assert all(reason.startswith("cancelled by") for reason in (reasons[0], reasons[2]))


def test_a_store_that_is_gone_is_asked_once(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def gone(_: Queue, id: str) -> Job:
        asked.append(id)
        raise StoreUnreachableError("It is gone.")

    monkeypatch.setattr(Queue, "meant", gone)
    with pytest.raises(StoreUnreachableError):
        change_named(queue, ["a", "b", "c"], CANCEL, Manner())
    assert asked == ["a"]


def test_what_is_undone_and_made_again_is_seen_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server may refuse a transaction because of another; it is made again then."""
    real = queue.store.transact

    def transact(action: Callable[[], Any]) -> Any:
        with suppress(ZeroDivisionError), queue.store.transaction():
            action()
            raise ZeroDivisionError
        return real(action)

    monkeypatch.setattr(queue.store, "transact", transact)
    seen: list[Job] = []
    verb = replace(CANCEL, seen=seen.append)
    assert change_matching(queue, Filter(), verb, Manner(quiet=True)) == 0
    assert [job.id for job in seen] == capsys.readouterr().out.split() == ["c", "b", "a"]
    assert {job.state for job in seen} == {State.CANCELLED}
