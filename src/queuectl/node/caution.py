"""Caution: reasons not to claim for a while, which are a host in trouble and jobs that crash.

A host that can't start anything leaves jobs to others, and tries with one job now and then. A job
that one more crash would bury is a suspect: it gets the node for itself, so that no other job
dies of its crashes.
"""

from collections.abc import Collection
from math import inf
from time import monotonic

from queuectl.node.runs import Run

ALONE_FOR = 60.0
"""Seconds that such a job keeps the node for itself."""
RETRY = 0.5
"""Seconds until a host that couldn't start a run tries again, at first."""
LONGEST_RETRY = 30.0
"""Seconds after which it tries again at the latest."""


class Caution:
    """The reasons that there are now not to claim, or to claim one job only."""

    def __init__(self) -> None:
        self._until = 0.0
        """Until then nothing is claimed, since nothing can be started here."""
        self._unable = 0
        """How often in a row that was so."""

    def pause(self) -> bool:
        """Leave jobs to others for a while; True if that is news."""
        now = monotonic()
        news = self._until <= now
        if news:
            self._unable = min(self._unable + 1, 10)
        self._until = now + min(RETRY * 2 ** (self._unable - 1), LONGEST_RETRY)
        return news

    def resumes_in(self) -> float:
        """Return in how many seconds such a pause is over; never, if there is none."""
        left = self._until - monotonic()
        return left if left > 0 else inf

    def went_well(self) -> None:
        """Note that a run could be started."""
        self._unable = 0

    def few(self, workers: list[int]) -> list[int]:
        """Return those of these workers that it is wise to claim for."""
        # One job is enough to find out whether it can be started now.
        return workers[:1] if self._unable else workers

    def forbids(self, running: Collection[Run], suspicious: int) -> bool:
        """Tell whether nothing may be claimed now."""
        return self._until > monotonic() or _has_suspect(running, suspicious)


def _has_suspect(running: Collection[Run], suspicious: int) -> bool:
    """Tell whether a job runs that gets the whole node, for now."""
    if len(running) != 1:
        return False
    [run] = running
    return run.job.crashes >= suspicious and monotonic() - run.claimed < ALONE_FOR
