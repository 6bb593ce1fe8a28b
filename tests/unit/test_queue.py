"""The Python interface, where it does more than pass a call on."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from queuectl import Filter, NewJob, Queue, State, enqueueing
from queuectl.enqueueing import Defaults
from queuectl.errors import BadJobError, NotFoundError, StateError, UsageError
from queuectl.facts import QueueInfo
from queuectl.settings import Settings
from queuectl.when import LATEST
from tests.support import wait_for


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(str(tmp_path / "queue.db"))


def test_too_many_at_once_are_refused_and_none_is_stored(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueueing, "MOST_AT_ONCE", 5)
    with pytest.raises(BadJobError, match="More than 5 jobs"):
        queue.enqueue_many(["true"] * 6)
    assert queue.list() == []
    assert len(queue.enqueue_many(["true"] * 5).ids) == 5
    assert len(queue.enqueue_many(["true"] * 6, keep_going=True).ids) == 6


def test_one_bad_request_stores_none(queue: Queue) -> None:
    with pytest.raises(BadJobError, match=r"^Job number 2: "):
        queue.enqueue_many(["true", {"command": "x", "priority": "high"}])
    assert queue.list() == []


def test_a_bad_request_among_many_is_named(queue: Queue) -> None:
    with pytest.raises(BadJobError, match=r"^Job number 1,235: Unknown field 'comand'"):
        queue.enqueue_many([*["true"] * 1234, {"comand": "x"}])


@pytest.mark.parametrize("bad", ["", {"comand": "x"}])
def test_what_comes_before_a_bad_request_stays_stored_if_we_keep_going(
    queue: Queue, bad: Any
) -> None:
    with pytest.raises(BadJobError, match=r"^Job number 1,235: "):
        queue.enqueue_many([*["true"] * 1234, bad, "true"], keep_going=True)
    assert len(queue.list(limit=None)) == 1234


def test_what_comes_before_trouble_of_whoever_gives_it_stays_stored_too(queue: Queue) -> None:
    def source() -> Iterator[str]:
        yield from ["true"] * 7
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        queue.enqueue_many(source(), keep_going=True)
    assert len(queue.list()) == 7
    with pytest.raises(OSError, match="no more"):
        queue.enqueue_many(source())
    assert len(queue.list()) == 7


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_at": 2**70},
        {"expires_at": -1},
        {"timeout": "10m"},
        {"delay": 2**50},
        {"backoff": "steady"},
        {"backoff_base": 0},
        {"tags": ("a\n",)},
        {"tags": 7},
        {"cwd": 7},
        {"env": {"A": 1}},
    ],
    ids=str,
)
def test_no_field_of_a_request_made_in_python_goes_unchecked(
    queue: Queue, wrong: dict[str, Any]
) -> None:
    with pytest.raises(BadJobError):
        queue.enqueue(NewJob(command="true", **wrong))
    assert queue.list() == []


def test_a_request_made_in_python_means_the_same_as_any_other(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given: Any = {"cwd": Path("sub"), "backoff": "fixed", "tags": "abc", "priority": "3"}
    made = queue.enqueue(NewJob(command="true", timeout=1_500, **given))
    said = queue.enqueue("true", timeout=1.5, **given)
    same = "cwd backoff tags priority timeout".split()
    assert [getattr(made, name) for name in same] == [getattr(said, name) for name in same]
    assert made.cwd == str(tmp_path / "sub")


def test_what_would_expire_after_the_end_of_time_expires_then(queue: Queue) -> None:
    job = queue.enqueue("true", run_at="9999-12-30", expire="3d")
    assert job.expires_at == LATEST


def test_states_to_prune_may_be_texts(queue: Queue) -> None:
    queue.cancel(queue.enqueue("true").id)
    states: Any = ["cancelled"]
    assert queue.prune(states, "1d", dry_run=True) == {"cancelled": 0}
    wait_for(lambda: queue.prune(states, 0) == {"cancelled": 1}, "a millisecond to pass")


@pytest.mark.parametrize("one", ["true", b"true", {"command": "true"}, NewJob(command="true")])
def test_one_job_is_not_many(queue: Queue, one: Any) -> None:
    with pytest.raises(UsageError, match="enqueue takes one"):
        queue.enqueue_many(one)
    assert queue.list() == []


def test_a_tag_with_a_comma_is_refused_but_one_that_is_stored_stays_usable(queue: Queue) -> None:
    for tags in ("a,b", ["a,b"]):
        with pytest.raises(BadJobError, match="can't contain a comma"):
            queue.enqueue("true", tags=tags)
    with pytest.raises(BadJobError, match="can't contain a comma"):
        queue.enqueue(NewJob(command="true", tags=("a,b",)))
    job = queue.enqueue("true")
    store: Any = queue.store
    store.db.run("UPDATE jobs SET tags = :tags", tags='["a,b"]')
    assert [found.id for found in queue.list(tag="a,b")] == [job.id]
    assert queue.cancel(job).tags == queue.retry(job).tags == ("a,b",)


def test_fields_that_hold_for_many(queue: Queue) -> None:
    batch = queue.enqueue_many(
        [
            "echo hi",
            ["printf", "hi"],
            {"cmd": "make", "queue": "own", "tags": "own", "env": {"A": "2"}, "max_attempts": 9},
        ],
        queue="all", tags=["many"], env={"A": "1", "B": "1"}, max_retries=3, command="unused",
    )  # fmt: skip
    first, second, third = (queue.get(id) for id in batch.ids)
    assert (first.command, first.queue, first.tags, first.max_retries) == (
        "echo hi", "all", ("many",), 3,
    )  # fmt: skip
    assert (second.argv, second.env) == (("printf", "hi"), {"A": "1", "B": "1"})
    assert (third.command, third.queue, third.max_retries) == ("make", "own", 8)
    assert (third.tags, third.env) == (("many", "own"), {"A": "2", "B": "1"})


def test_fields_that_cannot_hold_for_many(queue: Queue) -> None:
    with pytest.raises(UsageError, match="each says its own"):
        queue.enqueue_many(["true"], id="a")
    with pytest.raises(BadJobError, match="Job number 2: A NewJob is complete"):
        queue.enqueue_many(["true", NewJob(command="true")], queue="all")
    with pytest.raises(BadJobError, match="Job number 1: Unknown field 'prioritty'"):
        queue.enqueue_many(["true"], prioritty=5)  # type: ignore[call-arg]
    assert queue.list() == []


@pytest.mark.parametrize("keep_going", [False, True])
def test_who_has_a_key_is_waited_for_from_batch_to_batch(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, keep_going: bool
) -> None:
    monkeypatch.setattr("queuectl.enqueueing.BATCH", 2)
    queue.enqueue("true", id="there", unique="k")
    many: list[dict[str, Any]] = [
        {"id": "a", "command": "true", "unique": "k"},
        {"id": "b", "command": "true"},
        {"id": "c", "command": "true", "after": ["a", "b"]},
        *([{"id": "d", "command": "true", "after": ["nix"]}] if keep_going else []),
        {"id": "e", "command": "true", "after": ["a"]},
    ]
    batch = queue.enqueue_many(many, keep_going=keep_going)
    assert batch.ids == ("there", "b", "c", "e")
    assert batch.refused_at == ((3,) if keep_going else ())
    assert queue.get("c").after == ("there", "b")
    assert queue.get("e").after == ("there",)


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_delay_counts_from_when_a_job_is_stored_however_long_the_reading_took(
    queue: Queue, keep_going: bool
) -> None:
    def is_past(moment: int) -> bool:
        return queue.store.clock.now() > moment

    def slow() -> Iterator[dict[str, Any]]:
        began = queue.store.clock.now()
        for n in (1, 2):
            wait_for(partial(is_past, began + 20 * n), "some time to pass")
            yield {"command": "true", "delay": "1s", "expire": "2s"}

    for id in queue.enqueue_many(slow(), keep_going=keep_going).ids:
        job = queue.get(id)
        assert job.run_at - job.created_at == 1_000
        assert job.expires_at == job.run_at + 2_000


def test_a_new_setting_holds_for_the_next_job(queue: Queue) -> None:
    queue.enqueue("true")
    queue.set_setting("max_retries", 7)
    assert queue.enqueue("true").max_retries == 7
    queue.unset_setting("max_retries")
    assert queue.enqueue("true").max_retries == 3


def test_what_is_set_while_another_thread_reads_holds_for_the_next_job(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(settings: Settings, queues: list[QueueInfo], hidden: tuple[str, ...]) -> Defaults:
        if settings.max_retries == 3:
            queue.set_setting("max_retries", 8)
        return Defaults(settings, queues, hidden=hidden)

    monkeypatch.setattr(enqueueing, "Defaults", slow)
    assert queue.enqueue("true").max_retries == 3
    assert queue.enqueue("true").max_retries == 8


def test_what_others_set_holds_a_moment_later(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(enqueueing, "monotonic", lambda: now)
    queue.enqueue("true")
    Queue(queue.place.url).set_setting("max_retries", 7)
    assert queue.enqueue("true").max_retries == 3
    now += enqueueing.SETTINGS_HOLD + 0.1
    assert queue.enqueue("true").max_retries == 7


@pytest.mark.parametrize("timeout", [0.01, "10ms", timedelta(milliseconds=10)])
def test_waiting_takes_any_duration(queue: Queue, timeout: Any) -> None:
    id = queue.enqueue("true").id
    with pytest.raises(TimeoutError):
        queue.wait(id, timeout=timeout)


@pytest.mark.parametrize("timeout", ["soon", "-1s", True, [1]])
def test_waiting_for_no_duration_is_refused(queue: Queue, timeout: Any) -> None:
    with pytest.raises(UsageError):
        queue.wait(queue.enqueue("true").id, timeout=timeout)


@pytest.mark.parametrize("ids", [[["a", "b"]], ["a", print]])
def test_waiting_takes_ids_one_by_one(queue: Queue, ids: list[Any]) -> None:
    with pytest.raises(UsageError, match=r"wait\(\*ids\)"):
        queue.wait(*ids)


def test_jobs_are_found_by_the_start_of_their_id(queue: Queue) -> None:
    queue.enqueue("true", id="report-1")
    queue.enqueue("true", id="report-2")
    assert queue.get("report-1").id == "report-1"
    with pytest.raises(UsageError, match="fits several jobs"):
        queue.get("repo")
    with pytest.raises(NotFoundError, match="give at least 4 characters"):
        queue.get("rep")
    with pytest.raises(NotFoundError, match="There is no job"):
        queue.get("xyz")
    with pytest.raises(NotFoundError):
        queue.get("\udcff")


def test_listing_narrows_down(queue: Queue) -> None:
    queue.enqueue("true", id="a", queue="q", tags=["t"])
    queue.enqueue("true", id="b", queue="q")
    queue.enqueue("true", id="c", tags=["t"])
    queue.cancel("b")
    assert [job.id for job in queue.list(tag="t")] == ["c", "a"]
    assert [job.id for job in queue.list(queue="q", state="pending")] == ["a"]
    assert [job.id for job in queue.list(Filter(queues=("q",)), state=State.CANCELLED)] == ["b"]
    with pytest.raises(UsageError, match="There is no state 'gone'"):
        queue.list(state="gone")


def test_what_is_over_cannot_be_cancelled_and_what_waits_needs_no_retry(queue: Queue) -> None:
    queue.enqueue("true", id="a")
    with pytest.raises(StateError, match="pending already"):
        queue.retry("a")
    assert queue.cancel("a", reason="why not").state == State.CANCELLED
    with pytest.raises(StateError, match="cancelled already"):
        queue.cancel("a")
    assert queue.retry("a").state == State.PENDING
    assert [event.kind for event in queue.events("a")] == ["retry", "cancel"]


@pytest.mark.parametrize("change", ["cancel_all", "retry_all", "remove_all"])
def test_jobs_of_another_queue_are_not_those_at_the_same_places(
    queue: Queue, tmp_path: Path, change: str
) -> None:
    queue.enqueue("true", id="mine", delay="1h")
    with Queue(tmp_path / "other.db") as other:
        theirs = other.enqueue("true", id="theirs", delay="1h")
        with pytest.raises(NotFoundError, match="Job theirs isn't here"):
            getattr(queue, change)([theirs])
    job = queue.get("mine")
    assert (job.state, job.run_at > queue.store.clock.now()) == (State.PENDING, True)


def test_to_change_a_job_or_wait_for_it_its_given_name_is_named_in_full(queue: Queue) -> None:
    queue.enqueue("true", id="job10", delay="1h")
    for change in (queue.cancel, queue.retry, queue.retry_dead, queue.remove):
        with pytest.raises(NotFoundError, match="'job10' must be named in full"):
            change("job1")
    with pytest.raises(NotFoundError, match="'job10' must be named in full"):
        queue.wait("job1", timeout=0)
    assert queue.get("job1").id == "job10"
    made = queue.enqueue("true").id
    assert queue.remove(made[:5]).id == made


def test_several_are_changed_all_or_none(queue: Queue) -> None:
    queue.enqueue_many([{"command": "true", "id": id} for id in "abc"])
    a, b, c = (queue.get(id) for id in "abc")
    assert [job.state for job in queue.cancel_all([a, b], reason="enough")] == ["cancelled"] * 2
    with pytest.raises(StateError, match="Job b is cancelled already"):
        queue.cancel_all([c, b])
    assert queue.get("c").state == State.PENDING
    with pytest.raises(StateError, match="Job c is pending already"):
        queue.retry_all([a, b, c])
    assert [job.id for job in queue.retry_all([b, a, b])] == ["b", "a"]
    assert [job.id for job in queue.remove_all([c, a])] == ["c", "a"]
    assert [job.id for job in queue.list()] == ["b"]
    with pytest.raises(NotFoundError, match="Job a isn't here, or was removed"):
        queue.remove_all([b, a])
    assert queue.get("b").state == State.PENDING
    assert queue.cancel_all([]) == queue.retry_all([]) == queue.remove_all([]) == []
    kinds = [(event.kind, event.job) for event in queue.events()]
    assert kinds[::-1] == [
        *[("cancel", "a"), ("cancel", "b"), ("retry", "b"), ("retry", "a")],
        *[("rm", "c"), ("rm", "a")],
    ]


def test_a_delayed_job_is_made_due_by_a_retry(queue: Queue) -> None:
    queue.enqueue("true", id="a", delay="1d")
    assert queue.retry("a").run_at <= queue.store.clock.now()


def test_waiting_has_an_end(queue: Queue) -> None:
    queue.enqueue("true", id="a")
    with pytest.raises(TimeoutError):
        queue.wait("a", timeout=0.01)


def test_pruning_takes_a_duration(queue: Queue) -> None:
    queue.enqueue("true", id="a")
    queue.cancel("a")
    assert queue.prune([State.CANCELLED], "1d", dry_run=True) == {State.CANCELLED: 0}
    assert queue.prune([State.CANCELLED], timedelta(hours=1)) == {State.CANCELLED: 0}
    # A number is in seconds, as it is everywhere.
    assert queue.prune([State.CANCELLED], 3600, dry_run=True) == {State.CANCELLED: 0}
    pruned: list[tuple[State, int]] = []

    def prune() -> dict[State, int]:
        return queue.prune(
            [State.CANCELLED], 0, progress=lambda state, jobs: pruned.append((state, jobs))
        )

    wait_for(lambda: prune() == {State.CANCELLED: 1}, "a millisecond to pass")
    assert pruned == [(State.CANCELLED, 1)]
    with pytest.raises(UsageError, match="Only finished jobs"):
        queue.prune([State.PENDING], "1d")


@pytest.mark.parametrize(
    "new",
    [
        NewJob(),
        NewJob(command="a\0b"),
        NewJob(command="x", argv=("y",)),
        NewJob(command="x", id="two\nlines"),
        NewJob(command="x", priority=2**40),
    ],
)
def test_a_request_made_in_python_is_checked_like_any_other(queue: Queue, new: NewJob) -> None:
    with pytest.raises(BadJobError):
        queue.enqueue(new)
    assert queue.list() == []


def test_a_number_that_a_request_has_as_text_is_a_number(queue: Queue) -> None:
    texts: Any = {"priority": "-5", "max_retries": "7"}
    job = queue.enqueue(NewJob(command="x", **texts))
    assert (job.priority, job.max_retries) == (-5, 7)
    assert queue.get(job.id) == job


def test_durations_may_be_timedeltas(queue: Queue) -> None:
    minute = timedelta(minutes=1)
    job = queue.enqueue("x", retry_delay=minute, max_backoff=minute, timeout=minute, delay=minute)
    assert (job.retry_delay, job.max_backoff, job.timeout) == (60_000, 60_000, 60_000)


class TestDigests:
    """What tells of an HTTP request whether it is sent a second time."""

    def test_it_comes_with_a_new_job(self, queue: Queue) -> None:
        assert queue.enqueue(NewJob(command="true", body_digest="abc")).body_digest == "abc"
        values = {"command": "true", "body_digest": "def"}
        (id,) = queue.enqueue_read([values]).ids
        assert queue.get(id).body_digest == "def"
        assert queue.enqueue("true").body_digest is None

    @pytest.mark.parametrize("bad", ["", "x" * 129, "a\0", 3])
    def test_it_is_text(self, queue: Queue, bad: Any) -> None:
        with pytest.raises(BadJobError, match="body_digest"):
            queue.enqueue(NewJob(command="true", body_digest=bad))

    def test_nobody_can_ask_for_one(self, queue: Queue) -> None:
        with pytest.raises(BadJobError, match="'body_digest' is set by queuectl only"):
            queue.enqueue({"command": "true", "body_digest": "abc"})

    def test_whatever_becomes_of_the_job_it_stays(self, queue: Queue) -> None:
        queue.enqueue(NewJob(id="a", command="true", body_digest="abc"))
        queue.enqueue("true", id="b")
        queue.edit("a", command="false", priority=3)
        queue.hold("a")
        queue.release("a")
        queue.move("a", "elsewhere")
        queue.move("b", "elsewhere")
        queue.edit("b", priority=3)
        queue.swap("a", "b")
        queue.top("a")
        queue.cancel("a")
        job = queue.retry("a")
        assert (job.body_digest, queue.get("b").body_digest) == ("abc", None)
