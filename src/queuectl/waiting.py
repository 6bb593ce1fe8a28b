"""Waits for something in a store to come true, without asking more often than it helps."""

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING

from queuectl.errors import StuckError

if TYPE_CHECKING:
    from queuectl.explain import Reason

GLANCE = 0.02
"""Seconds between looks at whether anybody wrote: that costs microseconds."""
AT_LEAST_EVERY = 1.0
"""Seconds after which to ask even if nobody seems to have written."""
LOOK_AGAIN = 5.0
"""Seconds after which it is looked again whether somebody waits in vain."""
LOOK_TWICE = 1.0
"""Seconds after which that has to be so still."""
IN_VAIN = ("root_cause", "parent_gone")
"""Reasons that may come about while somebody waits, and end only by hand."""


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


def unless_stuck(
    is_stuck: Callable[[], bool],
    why: "Callable[[], Sequence[Reason]]",
    tick: Callable[[int], None] | None = None,
) -> Callable[[int], None]:
    """Return a tick that raises `StuckError` once all that is left waits in vain.

    It has to be so at two looks: between them, what has just ended is told to all who wait for it.
    """
    due, was_so = 0.0, False

    def look(left: int) -> None:
        nonlocal due, was_so
        if tick is not None:
            tick(left)
        if not left or monotonic() < due:
            return
        is_so = is_stuck()
        if is_so and was_so:
            raise _stuck(left, why())
        was_so = is_so
        due = monotonic() + (LOOK_TWICE if is_so else LOOK_AGAIN)

    return look


def _stuck(left: int, reasons: "Sequence[Reason]") -> StuckError:
    vain = [reason for reason in reasons if reason.cause in IN_VAIN]
    texts = "; ".join(reason.text for reason in vain)
    jobs = f"{left:,} job{' waits' if left == 1 else 's wait'}"
    remedy = next((reason.remedy for reason in vain if reason.remedy is not None), None)
    return StuckError(
        f"{jobs} in vain, and nothing of that goes on by itself"
        + (f": {texts}." if texts else "."),
        advice="" if remedy is None else f"repair that with: queuectl {remedy}",
    )
