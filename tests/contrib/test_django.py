"""The backend for Django's tasks: what it stores, what it tells, how a worker runs them."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from queuectl import Queue, State, TaskFailedError, UsageError
from queuectl.admission import Serving
from queuectl.job import ANY_TYPE, Output, Raised
from queuectl.testing import drain
from queuectl.values import replace
from tests.contract.tools import a_node, ended, finish, take
from tests.contrib import djangos

pytest.importorskip("django_tasks")
from django_tasks import TaskResultStatus
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist
from django_tasks.signals import task_enqueued, task_finished, task_started

from queuectl.contrib.django import app
from tests.contrib.django_shop import tasks as shop

PATH = "tests.contrib.django_shop.tasks"


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """The queue of the backend, which knows the tasks, so that it can be drained."""
    queue: Queue = djangos.use_backend(database=str(tmp_path / "jobs.db"), retries=1).queue
    queue.tasks.update(app.tasks)
    yield queue
    queue.close()


def test_a_task_becomes_a_job(queue: Queue) -> None:
    result = shop.add.enqueue(1, b=2)
    job = queue.get(result.id)
    assert (job.type, job.queue, job.priority, job.max_retries) == (f"{PATH}.add", "default", 0, 1)
    assert job.data == b'{"args": [1], "kwargs": {"b": 2}}'
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [1], {"b": 2})
    assert result.enqueued_at == job.created


def test_its_options_do_as_well(queue: Queue) -> None:
    job = queue.get(shop.send.enqueue("you").id)
    assert (job.queue, job.priority, job.max_retries, job.timeout) == ("mail", 7, 0, 300_000)
    later = timezone.now() + timedelta(hours=1)
    job = queue.get(shop.send.using(run_after=later, priority=-5).enqueue("you").id)
    assert job.priority == -5
    assert abs(job.due - later) < timedelta(milliseconds=2)


def test_what_it_came_to(queue: Queue) -> None:
    result = shop.add.enqueue(1, 2)
    drain(queue)
    assert not result.is_finished
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
    assert result.attempts == 1
    times = [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]
    assert times == sorted(filter(None, times))
    assert shop.add.get_result(result.id).return_value == 3


def test_async_and_with_context(queue: Queue) -> None:
    async def main() -> Any:
        return await shop.fetch.aenqueue("x"), await shop.send.aenqueue("you")

    fetched, sent = asyncio.run(main())
    drain(queue)
    done: Any = asyncio.run(shop.fetch.aget_result(fetched.id))
    assert done.return_value == {"url": "x"}
    assert shop.send.get_result(sent.id).return_value == [True, 1, "you"]


def test_failures_have_been_retried(queue: Queue) -> None:
    result = shop.fail.enqueue("badly")
    drain(queue)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)
    drain(queue, later=True)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 2, 2)
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (f"Traceback (most recent call last):\n  x\n{PATH}.ShopError: badly\n", shop.ShopError),
        ("noise\nTraceback (most recent call last):\n  x\nKeyError: 'x'\n", KeyError),
        ("killed\n", TaskFailedError),
        ("", TaskFailedError),
    ],
)
def test_errors_are_what_the_traceback_names(
    queue: Queue, said: str, kind: type[BaseException]
) -> None:
    result = shop.fail.using(priority=1).enqueue("badly")
    store = queue.store
    a_node(store)
    now = store.clock.now()
    [job] = take(store, queues=Serving(handlers=(ANY_TYPE,)), now=now)
    output = Output(stderr=said.encode(), stderr_bytes=len(said))
    end = ended(job, Raised("ShopError: badly"), now=now, output=output)
    finish(store, [replace(end, error="ShopError: badly")])
    result.refresh()
    assert [error.exception_class for error in result.errors] == [kind]
    assert result.errors[0].traceback == (said or "ShopError: badly")


def test_a_task_says_what_becomes_of_it(queue: Queue) -> None:
    jobs = [shop.fail.enqueue(how).id for how in ("retry", "snooze")]
    drain(queue)
    assert [queue.get(id).state for id in jobs] == [State.FAILED, State.PENDING]


def test_signals_are_sent(queue: Queue) -> None:
    heard: list[tuple[str, str]] = []

    def hear(name: str) -> Any:
        return lambda task_result, **more: heard.append((name, task_result.status))

    ears = {task_enqueued: hear("enqueued"), task_started: hear("started")}
    ears[task_finished] = hear("finished")
    for signal, ear in ears.items():
        signal.connect(ear)
    try:
        shop.add.enqueue(1)
        drain(queue)
    finally:
        for signal, ear in ears.items():
            signal.disconnect(ear)
    assert heard == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]


def test_what_cannot_be(queue: Queue, tmp_path: Path) -> None:
    with pytest.raises(InvalidTaskError, match="Queue 'other' is not valid"):
        shop.add.using(queue_name="other")
    with pytest.raises(TypeError, match="Unsupported type"):
        shop.add.enqueue(object())  # type: ignore[arg-type]
    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result("nothing")
    command = queue.enqueue("true")
    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result(command.id)
    assert queue.count() == 1
    with pytest.raises(ImproperlyConfigured, match="OPTIONS needs a database"):
        djangos.use_backend()
    with pytest.raises(ImproperlyConfigured, match="which is sqlite3; name a file of its own"):
        _ = djangos.use_backend(database="default").queue
    djangos.use_backend(database=str(tmp_path / "jobs.db"), tmeout="5m")
    with pytest.raises(UsageError, match="Unknown field 'tmeout'; did you mean 'timeout'"):
        shop.add.enqueue(1)


def test_only_what_was_decorated_can_run(queue: Queue) -> None:
    assert sorted(app.tasks) == [f"{PATH}.{name}" for name in ("add", "fail", "fetch", "send")]
