"""What a task raises to say what becomes of its job."""

from datetime import datetime, timedelta
from time import time

from queuectl.when import parse_duration


class Interruption(BaseException):
    """Ends a run where it is. It is no `Exception`, so that nothing catches it by accident.

    Code that catches it anyway must raise it again: whatever the run does from then on is in vain.
    """


class Asleep(Interruption):
    """The job sleeps, or waits for something: it comes back later, and goes on from here."""


class LeaseLost(Interruption):
    """The job isn't this run's any more: its node was given up, and it may run elsewhere by now."""


class TaskSignal(Exception):  # noqa: N818 - it says what becomes of a job, as StopIteration does
    """Ends a run of a task otherwise than by success or failure."""


class Retry(TaskSignal):
    """The run failed, and the job is tried again at this time, if it has retries left."""

    def __init__(self, why: str = "", *, after: str | float | timedelta | None = None) -> None:
        """Say why, and after how long; None is what the job's backoff says."""
        super().__init__(why or "asked to be retried")
        self.after = None if after is None else _seconds(after)
        """In seconds."""


class Discard(TaskSignal):
    """The job is of no use any more: it is cancelled, and not tried again."""

    def __init__(self, why: str = "discarded by itself") -> None:
        super().__init__(why)


class Snooze(TaskSignal):
    """Not now: the job comes back later, and nothing counts as failed."""

    def __init__(self, until: str | float | timedelta | datetime) -> None:
        """Say until when, or for how long."""
        super().__init__(f"snoozed ({until})")
        self.until = _seconds(until)
        """In how many seconds."""


def _seconds(given: str | float | timedelta | datetime) -> float:
    """Read a duration, or how long it is until a time."""
    if isinstance(given, datetime):
        return max(0.0, given.timestamp() - time())
    if isinstance(given, timedelta):
        given = given.total_seconds()
    return parse_duration(given) / 1000
