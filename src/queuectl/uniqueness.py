"""Unique keys, which one job at a time can have: who has one, and who asks in vain.

Facts in, a decision out. No clock, no store. Nobody gives such a key back: whether a job still has
it is seen from what has become of the job.
"""

from enum import StrEnum

from queuectl.job import FINISHED, Job, NewJob, State
from queuectl.values import dataclass


class Until(StrEnum):
    """Until when a job has its unique key."""

    START = "start"
    END = "end"


class OnDuplicate(StrEnum):
    """What becomes of a request for a unique key that another job has."""

    RETURN = "return"
    """The job that has it is the answer."""
    REJECT = "reject"
    """It is an error."""
    REPLACE = "replace"
    """That job is cancelled, or its run is ended, and the new one takes the key."""
    DEBOUNCE = "debounce"
    """That job, which waits, becomes what the new one is to be, and its time moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Who took a unique key last."""

    job: str
    starts: int | None = None
    """How often it had run by then, if the key is its own until it starts; else None."""
    until: int | None = None
    """Until then the key is its own at least."""
    since: int
    """When the first of the requests came that took each other's place in it."""

    def holds(self, job: Job | None, key: str, now: int) -> bool:
        """Tell whether the job, as it is now, still has the key; one that is gone has none."""
        if job is None or job.id != self.job or job.unique_key != key:
            return False
        if self.until is not None and now < self.until:
            return True
        if self.starts is None:
            return job.state not in FINISHED
        return job.state in (State.PENDING, State.FAILED) and job.attempts <= self.starts


def taken_by(
    new: NewJob | Job, id: str, now: int, *, attempts: int = 0, since: int | None = None
) -> Holding:
    """Return what a job has that takes its key now, after so many attempts."""
    starts = attempts if new.unique_until == Until.START else None
    until = None if new.unique_for is None else now + new.unique_for
    return Holding(job=id, starts=starts, until=until, since=now if since is None else since)


def latest_start(run_at: int, since: int, max_wait: int | None) -> int:
    """Return when a debounced job is due: no request moves it behind what the first can wait."""
    return run_at if max_wait is None else min(run_at, since + max_wait)


def who_has(key: str, holder: Job) -> str:
    """Say which job has a key."""
    what = {
        State.PROCESSING: "runs",
        State.PENDING: "waits",
        State.FAILED: "waits for a retry",
    }.get(holder.state, f"is {holder.state}, but keeps it for a while")
    return f"Job {holder.id} has the unique key {key!r}, and {what}"
