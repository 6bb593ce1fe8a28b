"""Waits for something in a store to come true, without asking more often than it helps."""

from collections.abc import Callable
from time import monotonic, sleep

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
