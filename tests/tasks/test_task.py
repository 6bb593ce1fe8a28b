"""Tasks as those who enqueue them see them: what is stored, what is refused, what comes back."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import queuectl
from queuectl import (
    BadJobError,
    Discard,
    DuplicateError,
    Job,
    NotFoundError,
    Queue,
    Retry,
    Snooze,
    State,
    StateError,
    Task,
    TaskFailedError,
    UsageError,
    current_job,
)
from queuectl.errors import BadTimeError


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with Queue(tmp_path / "jobs.db") as queue:
        yield queue


def send(user: int, tenant: str = "none", at: datetime | None = None) -> UUID | None:
    """Send a mail."""
    return None


async def fetch(url: str) -> list[str]:
    await asyncio.sleep(0)
    return [url]


def stored(queue: Queue, id: str) -> tuple[str | None, Any]:
    job = queue.get(id)
    return job.type, json.loads(job.data or b"")


class TestCalls:
    def test_it_is_the_function_still(self, queue: Queue) -> None:
        task = queue.task(send)
        assert task(1) is None
        assert (task.__name__, task.__doc__, task.__wrapped__) == ("send", "Send a mail.", send)
        assert queue.count() == 0

    def test_an_async_one_is_awaited(self, queue: Queue) -> None:
        task = queue.task(fetch)
        assert task.is_async
        assert asyncio.run(task("x")) == ["x"]

    def test_it_is_known_by_its_module_and_name(self, queue: Queue) -> None:
        task = queue.task(send)
        assert task.name == f"{__name__}.send"
        assert queue.tasks == {task.name: task}

    def test_or_by_the_name_that_it_is_given(self, queue: Queue) -> None:
        assert queue.task(name="mail")(send).name == "mail"


class TestEnqueue:
    def test_its_arguments_are_kept_by_name(self, queue: Queue) -> None:
        task = queue.task(send)
        at = datetime(2026, 11, 18, 12, tzinfo=UTC)
        job = task.enqueue(1, at=at)
        assert stored(queue, job.id) == (task.name, {"user": 1, "at": "2026-11-18T12:00:00+00:00"})
        assert job.job == queue.get(job.id)

    def test_in_other_words(self, queue: Queue) -> None:
        task = queue.task(send)
        ids = [task.delay(1).id, asyncio.run(task.aenqueue(1)).id]
        assert [stored(queue, id) for id in ids] == [(task.name, {"user": 1})] * 2

    def test_the_options_are_fields_of_its_jobs(self, queue: Queue) -> None:
        task = queue.task(queue="mail", retries=5, timeout="5m", priority=2, tags=["a"])(send)
        job = task.enqueue(1).job
        assert (job.queue, job.max_retries, job.timeout) == ("mail", 5, 300_000)
        assert (job.priority, job.tags) == (2, ("a",))

    def test_using_is_another_task_with_other_options(self, queue: Queue) -> None:
        task = queue.task(queue="mail", retries=5)(send)
        job = task.using(delay=timedelta(minutes=5), max_retries=1).enqueue(1).job
        assert (job.queue, job.max_retries) == ("mail", 1)
        assert job.run_at - job.created_at == 300_000
        assert task.enqueue(1).job.max_retries == 5

    def test_of_unique_jobs_there_is_one_for_each_argument(self, queue: Queue) -> None:
        task = queue.task(unique="send-{user}")(send)
        first = task.enqueue(1)
        assert task.enqueue(1).id == first.id != task.enqueue(2).id
        with pytest.raises(DuplicateError):
            task.using(on_duplicate="reject").enqueue(user=1)

    def test_those_of_other_tasks_have_keys_of_their_own(self, queue: Queue) -> None:
        one, other = (queue.task(name=name, unique="{user}")(send) for name in ("one", "other"))
        assert one.enqueue(1).id != other.enqueue(1).id
        assert one.enqueue(1).job.task == "one"

    def test_keys_may_be_defaults_and_parts_of_arguments(self, queue: Queue) -> None:
        task = queue.task(keys=["{tenant}", "year{at.year}"])(send)
        at = datetime(2026, 11, 18, tzinfo=UTC)
        assert task.enqueue(1, at=at).job.keys == ("none", "year2026")
        assert queue.task(key="{tenant}", name="b")(send).enqueue(1, "x").job.keys == ("x",)

    def test_the_rest_of_the_arguments_too(self, queue: Queue) -> None:
        def total(*parts: int, **more: float) -> float:
            return sum(parts) + sum(more.values())

        task = queue.task(name="total")(total)
        assert stored(queue, task.enqueue(1, 2, x=0.5).id)[1] == {
            "parts": [1, 2],
            "more": {"x": 0.5},
        }


class TestRefusals:
    """Each is one sentence, and nothing was stored."""

    @pytest.mark.parametrize(
        ("args", "kwargs", "why"),
        [
            ((), {}, "can't be called like that: missing a required argument: 'user'."),
            ((1, "a", None, 4), {}, "can't be called like that: too many positional arguments."),
            (
                (1,),
                {"usr": 1},
                "can't be called like that: got an unexpected keyword argument 'usr'.",
            ),
            (("1",), {}, "user must be int, not str '1'."),
            ((True,), {}, "user must be int, not bool 'True'."),
            ((1, None), {}, "tenant must be str, not NoneType 'None'."),
            ((1, "a", "now"), {}, "at must be datetime or None, not str 'now'."),
            ((1, "x" * 2_000_000), {}, "the arguments take more than 1,048,576 bytes"),
        ],
    )
    def test_arguments_that_do_not_fit(
        self, queue: Queue, args: tuple[Any, ...], kwargs: dict[str, Any], why: str
    ) -> None:
        task = queue.task(send)
        with pytest.raises(BadJobError) as caught:
            task.enqueue(*args, **kwargs)
        assert str(caught.value).startswith(f"Task {task.name}")
        assert why in str(caught.value)
        assert queue.count() == 0

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"prioritty": 1}, "Unknown field 'prioritty'; did you mean 'priority'?"),
            ({"priority": "high"}, "priority"),
            ({"timeout": "soon"}, "'soon' is not a duration"),
            ({"command": "true"}, "command is for jobs that run a command"),
            ({"unique": "{id}"}, "unique '{id}' needs a parameter 'id', which it doesn't have."),
            ({"key": "{user"}, "keys '{user': expected '}' before end of string."),
            ({"on_duplicate": "reject"}, "unique"),
        ],
    )
    def test_options_that_cannot_be(self, queue: Queue, options: dict[str, Any], why: str) -> None:
        with pytest.raises(UsageError) as caught:
            queue.task(name="mail", **options)(send)
        assert why in str(caught.value)
        with pytest.raises(UsageError):
            queue.task(name="mail2")(send).using(**options)
        assert "mail" not in queue.tasks
        assert queue.count() == 0

    def test_a_template_that_finds_nothing(self, queue: Queue) -> None:
        task = queue.task(unique="{at.year}")(send)
        with pytest.raises(UsageError, match=r"unique '\{at.year\}' can't be filled in"):
            task.enqueue(1)
        assert queue.count() == 0

    def test_functions_that_no_worker_can_find(self, queue: Queue) -> None:
        with pytest.raises(UsageError, match="is made inside of a function; give the task a name="):
            queue.task(lambda: None)
        queue.task(name="one")(send)
        with pytest.raises(UsageError, match="There is a task one already"):
            queue.task(name="one")(fetch)

    def test_annotations_that_cannot_be_stored(self, queue: Queue) -> None:
        def bad(file: type[int]) -> None: ...

        with pytest.raises(UsageError, match="parameter 'file': values of type type can't"):
            queue.task(name="bad")(bad)


def end(queue: Queue, job: Job, state: State) -> None:
    """End a job by hand."""
    from queuectl.testing import drain

    drain(queue, later=True)
    assert queue.get(job.id).state == state


class TestResults:
    def test_it_comes_back_as_what_it_was(self, queue: Queue) -> None:
        task = queue.task(name="when")(when)
        job = task.enqueue(3)
        end(queue, job.job, State.COMPLETED)
        assert job.result(timeout=10) == timedelta(days=3)
        assert asyncio.run(job.aresult("10s")) == timedelta(days=3)

    def test_nothing_is_a_result(self, queue: Queue) -> None:
        job = queue.task(send).enqueue(1)
        end(queue, job.job, State.COMPLETED)
        assert job.result(timeout=10) is None

    def test_it_is_waited_for(self, queue: Queue) -> None:
        job = queue.task(send).enqueue(1)
        with pytest.raises(TimeoutError):
            job.result(timeout=0)

    def test_it_can_be_had_by_its_id(self, queue: Queue) -> None:
        task = queue.task(name="when")(when)
        job = task.enqueue(3)
        assert (task.job(job.id).job, job.state) == (job.job, State.PENDING)
        for id in ("nothing", queue.task(send).enqueue(1).id, queue.enqueue("true").id):
            with pytest.raises(NotFoundError, match=f"no job '{id}' of task when"):
                task.job(id)

    def test_a_dead_job_has_none(self, queue: Queue) -> None:
        job = queue.task(name="fail", retries=0)(fail).enqueue()
        end(queue, job.job, State.DEAD)
        with pytest.raises(TaskFailedError, match=r"of fail is dead: ValueError: no; .*\.$"):
            job.result()

    def test_a_result_of_another_time_may_not_fit(self, queue: Queue) -> None:
        job = queue.task(name="when")(when).enqueue(3)
        end(queue, job.job, State.COMPLETED)
        queue.tasks.clear()

        def when_now(days: int) -> UUID:
            return UUID(int=days)

        newer: Task[..., Any, Any] = queue.task(name="when")(when_now)
        with pytest.raises(TaskFailedError, match="can't be read: the result must be UUID"):
            type(job)(queue, newer, job.job).result()


def when(days: int) -> timedelta:
    return timedelta(days=days)


def fail() -> None:
    raise ValueError("no")


class TestSignals:
    def test_they_take_durations_of_all_kinds(self) -> None:
        assert Retry(after="1m").after == Retry(after=60).after == 60
        assert Retry("busy").after is None
        assert Snooze(timedelta(hours=1)).until == 3600
        soon = Snooze(datetime.now(UTC) + timedelta(hours=1)).until
        assert 3500 < soon <= 3600
        assert Snooze(datetime(2020, 1, 1, tzinfo=UTC)).until == 0
        assert str(Discard("old")) == "old"

    def test_what_is_no_duration_is_an_error_of_the_task(self) -> None:
        with pytest.raises(BadTimeError):
            Snooze("soon")

    def test_outside_of_a_job_there_is_none(self) -> None:
        with pytest.raises(StateError, match="doesn't run as a job"):
            current_job()


def test_all_public_names_can_be_had() -> None:
    for name in queuectl.__all__:
        assert getattr(queuectl, name) is not None
