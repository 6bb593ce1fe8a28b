"""Waits for something in a store to come true, without asking more often than it helps."""

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING

from queuectl.errors import UsageError
from queuectl.finding import meant
from queuectl.job import FINISHED, Job, Named
from queuectl.request import read_duration
from queuectl.store.contract import Store

if TYPE_CHECKING:
    from datetime import timedelta

GLANCE = 0.02
"""Seconds between looks at whether anybody wrote: that costs microseconds."""
AT_LEAST_EVERY = 1.0
"""Seconds after which to ask even if nobody seems to have written."""


def wait_until(
    remaining: Callable[[], int],
    changed: Callable[[], bool],
    *,
    timeout: float | None = None,
    tick: Callable[[int], None] | None = None,
) -> None:
    """Return when `remaining()` is 0; asks whenever `changed()`, and tells `tick` what is left.

    Asking takes at most a fifth of the time, however much there is to look at. Raises
    `TimeoutError` when `timeout` seconds have passed.
    """
    deadline = None if timeout is None else monotonic() + timeout
    ask = True
    asked = took = 0.0
    while True:
        if ask and monotonic() >= asked + 4 * took:
            began = monotonic()
            left = remaining()
            if tick is not None:
                tick(left)
            if left == 0:
                return
            asked, ask = monotonic(), False
            took = asked - began
        if deadline is not None and monotonic() >= deadline:
            raise TimeoutError(f"still waiting after {timeout:g} seconds")
        sleep(GLANCE)
        ask = changed() or ask or monotonic() - asked > AT_LEAST_EVERY


def wait_for(
    store: Store,
    ids: Sequence[Named],
    *,
    timeout: "str | float | timedelta | None",
    tick: Callable[[int], None] | None,
) -> list[Job]:
    """Wait until these jobs are finished, and return them as they are then."""
    if not all(isinstance(id, str | Job) for id in ids):
        raise UsageError("wait takes ids one by one: wait(id), wait(first, second), wait(*ids).")
    seconds = None if timeout is None else read_duration("timeout", timeout) / 1000
    jobs = [meant(store, id) for id in ids]
    open_ids = {job.id for job in jobs}

    def remaining() -> int:
        states = store.jobs.states(sorted(open_ids))
        open_ids.difference_update(
            id for id in list(open_ids) if states.get(id) in (None, *FINISHED)
        )
        return len(open_ids)

    wait_until(remaining, store.changed, timeout=seconds, tick=tick)
    return [store.jobs.get(job.id) or job for job in jobs]
