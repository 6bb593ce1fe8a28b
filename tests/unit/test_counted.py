"""What the counters and the running jobs come to together."""

from queuectl.facts import Count
from queuectl.job import State
from queuectl.store.rows import counted


def count(state: State, jobs: int, timed: int, priority: int = 0) -> Count:
    return Count(queue="default", state=state, priority=priority, jobs=jobs, timed=timed)


def test_running_jobs_are_among_the_pending_ones() -> None:
    rows = [
        ("default", "pending", 0, 5, 3),
        ("default", "pending", 7, 1, 1),
        ("default", "dead", 0, 4, 0),
        ("default", None, 0, 2, 1),
    ]
    assert counted(rows) == [
        count(State.PENDING, 3, 2),
        count(State.PENDING, 1, 1, priority=7),
        count(State.DEAD, 4, 0),
        count(State.PROCESSING, 2, 1),
    ]


def test_what_is_zero_is_left_out() -> None:
    rows = [
        ("default", "pending", 0, 2, 0),
        ("default", "dead", 0, 0, 0),
        ("default", None, 0, 2, 0),
    ]
    assert counted(rows) == [count(State.PROCESSING, 2, 0)]


def test_a_file_that_can_only_be_read_may_still_count_them_by_themselves() -> None:
    rows = [
        ("default", "pending", 0, 3, 1),
        ("default", "processing", 0, 2, 2),
        ("default", None, 0, 2, 2),
    ]
    assert counted(rows) == [count(State.PENDING, 3, 1), count(State.PROCESSING, 2, 2)]
