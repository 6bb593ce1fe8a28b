"""Tasks that a test runs in its own process: on each database, by the clock of the test."""

from collections.abc import Iterator

import pytest

from queuectl import Queue, Snooze, State, current_job
from queuectl.store import Store
from queuectl.testing import assert_enqueued, drain, inline, moving

pytestmark = pytest.mark.needs("transactions")


@pytest.fixture
def queue(store: Store, url: str) -> Iterator[Queue]:
    with Queue(url) as queue:
        yield queue


def work(fails: int) -> str:
    """Fail so often, then snooze, then be done."""
    attempt = current_job().attempt
    if attempt <= fails:
        raise ValueError(f"attempt {attempt}")
    if attempt == fails + 1:
        raise Snooze("1h")
    return f"attempt {attempt}"


def test_retries_and_snoozes_come_as_the_clock_is_moved(queue: Queue) -> None:
    task = queue.task(name="work", retries=2, retry_delay="10m")(work)
    job = task.enqueue(2)
    with moving(queue) as clock:
        seen = []
        for _ in range(5):
            seen += [one.job.state for one in drain(queue)]
            assert drain(queue) == []
            clock.move("11m" if len(seen) < 3 else "61m")
        assert seen == [State.FAILED, State.FAILED, State.PENDING, State.COMPLETED]
        assert job.result() == "attempt 4"
    assert [run.outcome for run in queue.attempts(job.id)] == [
        "raised",
        "raised",
        "snoozed",
        "exited",
    ]


def test_all_of_it_at_once(queue: Queue) -> None:
    task = queue.task(name="work", retries=1)(work)
    job = task.using(delay="1d").enqueue(1)
    assert len(drain(queue, later=True)) == 3
    assert job.result() == "attempt 3"
    with inline():
        assert task.enqueue(0).result() == "attempt 2"
    assert_enqueued(queue, task.using(delay="1d"), 1, count=1)
    assert queue.nodes() == []
