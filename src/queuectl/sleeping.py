"""Jobs that sleep: whether that is over, who is woken, and what their runs came to.

Facts in, a decision out: no clock, no store. What becomes of such a job is decided in `lifecycle`.
"""

from queuectl.facts import Emitted, Sleep
from queuectl.job import Job, Snoozed
from queuectl.lifecycle import LONGEST_WAIT


def is_over(came: Emitted | None, until: int | None, now: int) -> bool:
    """Tell whether a sleep is: what it awaits came, or its time has."""
    return came is not None or (until is not None and until <= now)


def wakes(job: Job, sleep: Sleep, now: int) -> bool:
    """Tell whether a job comes back now that what it awaits was emitted.

    Not one that runs: the end of that run sees to it. Nor one that is due anyway.
    """
    return sleep.is_of(job) and job.run_at > now


def snoozed(sleep: Sleep, now: int) -> Snoozed:
    """Say what a run came to whose job sleeps: for how long, as far as is known now."""
    if sleep.woken:
        return Snoozed(str(sleep), 0)
    left = LONGEST_WAIT if sleep.until is None else max(0, sleep.until - now)
    return Snoozed(str(sleep), left)
