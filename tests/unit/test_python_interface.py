"""What a Python program sees: the names of the package, datetimes, errors without commands."""

import ast
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import queuectl
from queuectl import (
    Attempt,
    BadTimeError,
    Event,
    Filter,
    NotFoundError,
    Queue,
    State,
    StateError,
    StoreMissingError,
    UsageError,
    errors,
)
from queuectl.changes import REMOVE
from queuectl.when import milliseconds
from tests.unit.samples import SAMPLE, a_job

SOURCE = Path(queuectl.__file__).parent


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with Queue(tmp_path / "queue.db") as queue:
        yield queue


# -- names ---------------------------------------------------------------------------------


def test_every_name_can_be_had_from_the_package() -> None:
    for name in queuectl.__all__:
        assert getattr(queuectl, name) is not None
    assert not hasattr(queuectl, "Nothing")


def test_every_error_that_a_program_may_meet_is_there() -> None:
    ours = set(errors.__all__) - {"LeaseLostError"}  # which only nodes meet
    assert ours <= set(queuectl.__all__)


# -- times ---------------------------------------------------------------------------------


def test_times_of_a_job_are_datetimes() -> None:
    job = a_job(
        created_at=1_000,
        run_at=2_000,
        expires_at=3_001,
        updated_at=4_000,
        started_at=5_000,
        finished_at=6_000,
        duration_ms=1_500,
    )
    seconds = [job.created, job.due, job.expires, job.updated, job.started, job.finished]
    assert [t and (t - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() for t in seconds] == [
        1, 2, 3.001, 4, 5, 6,
    ]  # fmt: skip
    assert all(t is not None and t.tzinfo is UTC for t in seconds)
    assert job.duration == timedelta(seconds=1.5)


def test_times_that_are_not_there_are_none() -> None:
    job = a_job(expires_at=None, started_at=None, finished_at=None, duration_ms=None)
    assert (job.expires, job.started, job.finished, job.duration) == (None,) * 4


def test_times_of_runs_and_events_are_datetimes() -> None:
    run = Attempt(
        job="a", number=1, node="n", host="h", worker=1, started_at=1_000, finished_at=3_000,
        duration_ms=2_000, outcome="exited", exit_code=0, signal=None, error=None,
        stdout_bytes=0, stderr_bytes=0,
    )  # fmt: skip
    assert run.finished - run.started == run.duration == timedelta(seconds=2)
    event = Event(at=1_234, kind="rm", job="a", node=None, who="me", detail=None)
    assert event.time == datetime(1970, 1, 1, 0, 0, 1, 234_000, tzinfo=UTC)


def test_what_is_read_can_be_given_again(queue: Queue) -> None:
    due = datetime(2030, 1, 31, 9, 0, tzinfo=timezone(timedelta(hours=2)))
    job = queue.enqueue("true", run_at=due, expires_at=due + timedelta(days=1))
    assert (job.due, job.expires) == (due, due + timedelta(days=1))
    assert queue.enqueue("true", run_at=job.due).run_at == job.run_at


def test_a_time_without_a_zone_is_local(queue: Queue) -> None:
    naive = datetime(2030, 1, 31, 9, 0)
    job = queue.enqueue("true", run_at=naive)
    assert job.due.astimezone().replace(tzinfo=None) == naive
    assert job.run_at == queue.enqueue("true", run_at="2030-01-31 09:00").run_at


def test_filters_take_datetimes(queue: Queue) -> None:
    old, new = queue.enqueue("true", id="old"), queue.enqueue("true", id="new")
    queue.cancel("old")
    later = new.created + timedelta(seconds=1)
    assert queue.list(Filter(since=later)) == []
    assert [job.id for job in queue.list(Filter(since=old.created, until=later))] == ["new", "old"]
    assert [job.id for job in queue.list(Filter(finished_before=datetime.max))] == ["old"]
    assert queue.list(Filter(finished_before=datetime.min.replace(tzinfo=UTC))) == []


def test_statistics_since_a_datetime(queue: Queue) -> None:
    assert queue.stats(since=datetime.now() - timedelta(hours=1)).run.count == 0


def test_settings_take_timedeltas(queue: Queue) -> None:
    assert queue.set_setting("retention", timedelta(days=7)) == ("retention", "7d")


def test_a_time_that_no_clock_can_show_is_an_error() -> None:
    assert milliseconds(SAMPLE.created) == SAMPLE.created_at
    with pytest.raises(BadTimeError, match="outside the years"):
        milliseconds(datetime.min)


# -- jobs in place of their ids --------------------------------------------------------------


def test_a_job_is_taken_wherever_an_id_is(queue: Queue) -> None:
    job, other = queue.enqueue("true", id="job"), queue.enqueue("true", id="other")
    assert queue.get(job) == queue.meant(job) == job
    assert queue.attempts(job) == []
    assert queue.output(job).stdout == b""
    assert [reason.cause for reason in queue.explain(job)] == ["no_worker"]
    assert queue.list(after=other) == [job]
    assert queue.cancel(job).state == "cancelled"
    assert [event.kind for event in queue.events(job)] == ["cancel"]
    assert [event.kind for event in queue.iterate_events(job)] == ["cancel"]
    assert queue.wait(job, "job", timeout=5)[0].state == "cancelled"
    assert queue.retry(job).state == "pending"
    with pytest.raises(StateError, match="not dead"):
        queue.retry_dead(job)
    assert queue.remove(job).id == "job"


def test_a_job_that_is_gone_is_no_other_whose_id_begins_alike(queue: Queue) -> None:
    job = queue.enqueue("true", id="nightly")
    queue.enqueue("true", id="nightly-2")
    queue.remove(job)
    for call in (queue.get, queue.cancel, queue.explain, queue.wait):
        with pytest.raises(NotFoundError, match="nightly"):
            call(job)


def test_ids_are_taken_wherever_jobs_are(queue: Queue) -> None:
    jobs = [queue.enqueue("true", id=name) for name in ("a", "b", "c", "d")]
    assert [job.id for job in queue.cancel_all(["a", jobs[1]])] == ["a", "b"]
    assert [job.id for job in queue.retry_all(["b"])] == ["b"]
    assert [job.id for job in queue.remove_all(iter(["b", "c"]))] == ["b", "c"]
    told: list[Any] = []
    queue.change_named([jobs[0], "d", jobs[1]], REMOVE, told=told.append)
    assert [change.before.id for change in told[:2]] == ["a", "d"]
    assert told[2].name == "b"


def test_one_id_is_not_a_list_of_letters_nor_one_job_a_list_of_its_fields(queue: Queue) -> None:
    for name in ("a", "b", "c", "abc", "true", "default"):
        queue.enqueue("true", id=name)
    one: Any
    for one in ("abc", queue.get("abc"), 5):
        with pytest.raises(UsageError, match="change_named takes several"):
            queue.change_named(one, REMOVE)
        for call in (queue.cancel_all, queue.retry_all, queue.remove_all):
            with pytest.raises(UsageError, match="_all takes several"):
                call(one)
    assert queue.count(state="pending") == 6


def test_one_node_is_not_a_list_of_letters(queue: Queue) -> None:
    for call in (queue.stop_nodes, queue.restart_nodes):
        with pytest.raises(UsageError, match="a list of their ids"):
            call("abc")


def test_an_id_is_text(queue: Queue) -> None:
    wrong: Any
    for wrong in (5, None, b"abc", ["abc"]):
        for call in (queue.get, queue.meant, queue.cancel, queue.output, queue.explain):
            with pytest.raises(UsageError, match="named by its id"):
                call(wrong)
    with pytest.raises(UsageError, match="named by its id"):
        queue.remove_all([5])  # type: ignore[list-item]


# -- filters -------------------------------------------------------------------------------


def test_a_single_name_in_a_filter_is_one_name(queue: Queue) -> None:
    for name in ("mail", "m", "email"):
        queue.enqueue("true", id=f"in-{name}", queue=name, tags=[name])
    assert Filter(queues="mail", states="pending", tags="mail") == Filter(  # type: ignore[arg-type]
        queues=("mail",), states=(State.PENDING,), tags=("mail",)
    )
    which = Filter(queues="mail", states="pending")  # type: ignore[arg-type]
    assert [job.id for job in queue.list(which)] == ["in-mail"]
    assert queue.count(which) == 1
    assert queue.change_matching(which, REMOVE) == 1
    assert {job.id for job in queue.list()} == {"in-m", "in-email"}


def test_several_names_may_come_as_any_list(queue: Queue) -> None:
    for name in ("a", "b", "c"):
        queue.enqueue("true", id=name, queue=name, tags=["all", name])
    queue.cancel("b")
    assert Filter(queues=["a", "b"]) == Filter(queues=("a", "b"))  # type: ignore[arg-type]
    assert [job.id for job in queue.list(queue=["a", "b"])] == ["b", "a"]
    assert [job.id for job in queue.iterate(tag=["all", "c"])] == ["c"]
    assert queue.count(state=["cancelled", State.DEAD]) == 1
    assert queue.count(queue="a", tag="all", state="pending") == 1
    assert queue.count(Filter(queues=("a", "b")), state="pending") == 1


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"states": ("bogus",)}, "no state 'bogus'"),
        ({"states": "Pending"}, "no state 'Pending'"),
        ({"states": 5}, "states must be"),
        ({"queues": None}, "queues must be"),
        ({"queues": b"mail"}, "queues must be"),
        ({"queues": (5,)}, "queue must be text"),
        ({"queues": ("\udcff",)}, "valid UTF-8"),
        ({"tags": ("\udcff",)}, "valid UTF-8"),
        ({"tags": {"a": 1}}, "tags must be"),
        ({"text": 5}, "text must be text"),
        ({"since": date(2026, 1, 1)}, "not a time"),
        ({"until": 1_800_000_000.5}, "not a time"),
        ({"finished_before": 10**30}, "outside the years"),
    ],
)
def test_what_no_filter_can_mean_is_an_error(given: Any, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        Filter(**given)


@pytest.mark.parametrize("limit", [-1, 2.5, "5", True, datetime(2026, 1, 1)])
def test_a_limit_is_a_number_that_is_not_negative(queue: Queue, limit: Any) -> None:
    queue.enqueue("true")
    for call in (queue.list, queue.iterate, queue.events, queue.iterate_events):
        with pytest.raises(UsageError, match="limit must be a whole number"):
            call(limit=limit)
    with pytest.raises(UsageError, match="limit must be a whole number"):
        queue.list(sort="id", limit=limit)


def test_a_limit_may_be_as_large_as_one_likes(queue: Queue) -> None:
    queue.remove(queue.enqueue("true"))
    queue.enqueue("true")
    for limit in (10**30, None):
        assert len(queue.list(limit=limit)) == len(queue.list(limit=limit, sort="id")) == 1
        assert len(queue.events(limit=limit)) == len([*queue.iterate_events(limit=limit)]) == 1


def test_what_is_of_the_wrong_kind_is_named(queue: Queue) -> None:
    given: Any = queue
    job = queue.enqueue("true")
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: given.count(5), "a Filter, not by '5'"),
        (lambda: given.list("pending"), "a Filter, not by 'pending'"),
        (lambda: given.change_matching("pending", REMOVE), "a Filter, not by 'pending'"),
        (lambda: given.list(queue=5), "queues must be one name or a list"),
        (lambda: given.list(sort=5), "sort names fields"),
        (lambda: given.stats(since=1_800_000_000.5), "not a time"),
        (lambda: given.stats(queue=["a", "b"]), "queue must be text"),
        (lambda: given.stats(tag=5), "tags must be"),
        (lambda: given.set_setting(5, "1"), "name of a setting must be text"),
        (lambda: given.unset_setting(None), "name of a setting must be text"),
        (lambda: given.output(job, attempt=datetime(2026, 1, 1)), "attempt must be the number"),
    ]
    for call, hint in wrong:
        with pytest.raises(UsageError, match=hint):
            call()
    with pytest.raises(NotFoundError, match="no finished attempt"):
        queue.output(job, attempt=10**30)


# -- errors --------------------------------------------------------------------------------


def test_errors_leave_commands_to_the_command_line(queue: Queue, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        queue.get("nope")
    assert str(caught.value) == "There is no job 'nope'."
    assert caught.value.advised == "There is no job 'nope'; see queuectl list."
    with pytest.raises(StoreMissingError) as missing:
        Queue(tmp_path / "other.db", create=False)
    assert str(missing.value).endswith("other.db yet.")
    assert missing.value.advised.endswith("other.db yet; `queuectl enqueue` makes it.")


COMMANDS = re.compile(r"queuectl [a-z]+(?<!needs)(?<!only)(?<!database)\b|(?<!\w)--[a-z]")


def sentences() -> Iterator[tuple[str, str]]:
    """Return where errors are made below the command line, and what they say."""
    for path in sorted(SOURCE.rglob("*.py")):
        part = path.relative_to(SOURCE).parts[0]
        if part in ("cli", "node", "guard"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
                texts = [
                    text.value
                    for argument in node.args
                    for text in ast.walk(argument)
                    if isinstance(text, ast.Constant) and isinstance(text.value, str)
                ]
                yield f"{path.name}:{node.lineno}", " ".join(texts)


def test_no_error_of_the_python_interface_names_a_command_or_option() -> None:
    found = [(where, text) for where, text in sentences() if COMMANDS.search(text)]
    assert found == []
    assert len(list(sentences())) > 50
