"""Changing what waits, from Python: what becomes of jobs, and what is kept of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuectl import Queue, State
from queuectl.changes import REMOVE
from queuectl.editing import HOLD, edited, editing, moving, retrying, told
from queuectl.errors import BadJobError, NotFoundError, StateError, UsageError
from queuectl.explain import Cause
from queuectl.filter import Filter
from queuectl.job import Strategy
from tests.unit.samples import a_job

NOW = 1_762_606_800_000
HOUR = 3_600_000


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """A queue with three jobs."""
    with Queue(tmp_path / "q.db") as made:
        made.enqueue_many([{"command": "true", "id": id} for id in "abc"])
        yield made


def waiting(**changes: Any) -> Any:
    fields = {"state": State.PENDING, "expires_at": None, "run_at": NOW, "parked": None}
    return a_job(**(fields | changes))


class TestEdited:
    def test_times_count_from_now(self) -> None:
        to = edited(waiting(), {"delay": "1h", "expire": "1h"}, NOW)
        assert (to.run_at, to.expires_at) == (NOW + HOUR, NOW + 2 * HOUR)
        assert edited(to, {"expire": 0}, NOW).expires_at is None

    def test_who_would_expire_before_it_is_due_is_told(self) -> None:
        job = waiting(expires_at=NOW + HOUR)
        with pytest.raises(StateError, match="before it is due"):
            edited(job, {"delay": "2h"}, NOW)
        assert edited(job, {"priority": 3}, NOW + 2 * HOUR).priority == 3

    def test_a_program_needs_no_shell(self) -> None:
        to = edited(waiting(command="x", shell="bash"), {"argv": ["ls"]}, NOW)
        assert (to.command, to.argv, to.shell) == (None, ("ls",), None)
        assert edited(to, {"cmd": "y"}, NOW).argv is None
        with pytest.raises(BadJobError, match="without a shell"):
            edited(to, {"shell": "bash"}, NOW)
        assert edited(waiting(shell="bash"), {"shell": "/bin/sh"}, NOW).shell is None

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (Strategy.EXPONENTIAL, Strategy.FIXED),
            (Strategy.LINEAR, Strategy.LINEAR),
            (Strategy.FIXED, Strategy.FIXED),
        ],
    )
    def test_a_wait_alone_keeps_how_waits_grow(self, before: Strategy, after: Strategy) -> None:
        job = waiting(backoff=before, max_backoff=1_000)
        to = edited(job, {"retry_delay": "1m"}, NOW)
        assert (to.backoff, to.retry_delay, to.max_backoff) == (after, 60_000, 60_000)
        to = edited(job, {"retry_delay": "1m", "backoff": "linear", "max_backoff": "1s"}, NOW)
        assert (to.backoff, to.max_backoff) == (Strategy.LINEAR, 1_000)

    def test_variables_are_laid_over_and_never_told(self) -> None:
        before = waiting(env={"A": "1", "B": "secret"})
        after = edited(before, {"env": {"B": "hush"}, "tags": []}, NOW)
        assert after.env == {"A": "1", "B": "hush"}
        assert told(before, after) == "env: B; tags tag-109, tag-110 -> none"

    @pytest.mark.parametrize("name", ["id", "stdin", "stdin-base64", "env_all"])
    def test_what_a_job_keeps(self, name: str) -> None:
        for make in (editing, retrying):
            true = name.replace("-", "_")
            with pytest.raises(UsageError, match=f"The {true} of a job can't be changed"):
                make({name: "x"})

    def test_something_must_be_said(self) -> None:
        with pytest.raises(UsageError, match="what to change"):
            editing({})
        with pytest.raises(BadJobError, match="queue is empty"):
            moving("")


class TestQueue:
    def test_all_of_it(self, queue: Queue) -> None:
        assert queue.edit("a", priority=5, run_at="+1h").priority == 5
        assert queue.hold("a").is_held
        [reason, *_] = queue.explain("a")
        assert reason.cause == Cause.HELD
        assert reason.text.startswith("it is held by ")
        assert reason.remedy == "release a"
        assert not queue.release("a").is_held
        assert queue.move("a", "slow").queue == "slow"
        assert [job.vtime < 0 for job in queue.top_all(["c", "b"])] == [True, True]
        assert queue.get("c").vtime < queue.get("b").vtime
        assert [job.id for job in queue.swap("b", "c")] == ["b", "c"]
        assert [job.id for job in queue.list(queue="default", oldest=True)] == ["c", "b"]
        kinds = [event.kind for event in queue.events("a")]
        assert kinds == ["move", "release", "hold", "edit"]

    def test_a_filter_hits_nobody_who_came_to_the_place_of_another(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for id in "xyz":
            queue.enqueue("true", id=id, tags=[id])
        jobs = type(queue.store.jobs)
        select = jobs.select

        def select_and_swap(self: Any, which: Filter, **how: Any) -> Any:
            found = select(self, which, **how)
            monkeypatch.setattr(jobs, "select", select)
            queue.swap("x", "y")
            queue.edit("z", tags=["other"])
            return found

        for tag, left in (("x", "yz"), ("z", "yz")):
            monkeypatch.setattr(jobs, "select", select_and_swap)
            if tag == "z":
                queue.enqueue("true", id="x", tags=["x"])
            queue.change_matching(Filter(tags=(tag,)), REMOVE)
            assert {job.id for job in queue.list()} - {"x", *"abc"} == set(left)
            assert tag != "x" or queue.find("x") is None

    def test_retry_with_changes(self, queue: Queue) -> None:
        queue.cancel("a")
        job = queue.retry("a", changed={"command": "false", "queue": "slow"})
        assert (job.state, job.command, job.queue) == (State.PENDING, "false", "slow")
        detail = queue.events("a")[0].detail or ""
        assert detail.endswith("; with command true -> false; queue default -> slow")

    def test_all_of_them_or_none(self, queue: Queue) -> None:
        queue.cancel("b")
        for change in (queue.hold_all, queue.top_all, queue.release_all):
            with pytest.raises(StateError):
                change(["a", "b"])
        with pytest.raises(StateError):
            queue.edit_all(["a", "b"], priority=5)
        assert queue.get("a").priority == 0
        assert queue.get("a").vtime == 0
        assert not queue.get("a").is_held

    def test_who_got_another_place_is_still_the_same(self, queue: Queue) -> None:
        a, b, c = (queue.get(id) for id in "abc")
        queue.swap(a, b)
        assert queue.hold_all([a])[0].id == "a"
        assert queue.cancel_all([b, c])[0].id == "b"
        assert [queue.get(id).state for id in "abc"] == [State.PENDING, *[State.CANCELLED] * 2]
        queue.remove(c)
        with pytest.raises(NotFoundError):
            queue.hold_all([c])
        with pytest.raises(NotFoundError):
            queue.swap(a, c)

    def test_who_is_held_is_not_retried_along(self, queue: Queue) -> None:
        from queuectl.changes import RETRY

        queue.edit_all([*"abc"], delay="1h")
        assert queue.change_matching(Filter(text="true"), HOLD) == 3
        assert queue.change_matching(Filter(), RETRY) == 0
        queue.release("b")
        with pytest.raises(StateError, match="is held"):
            queue.retry("a")
        assert queue.retry("b").run_at <= queue.now()

    def test_a_wait_says_that_all_are_held(self, queue: Queue) -> None:
        queue.hold_all([*"abc"])
        [reason, *_] = queue.explain_some(["a", "b", "c"])
        assert (reason.cause, reason.text) == (Cause.HELD, "all of them are held by hand")

    def test_jobs_keep_their_order_in_a_queue_with_keys(self, queue: Queue) -> None:
        queue.limits.set("slow", key_limit=1)
        assert queue.change_matching(Filter(queues=("default",)), moving("slow")) == 3
        places = [queue.get(id).vtime for id in "abc"]
        assert places == sorted(places)
        assert len(set(places)) == 3
