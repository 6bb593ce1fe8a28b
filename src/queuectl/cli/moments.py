"""How far away times are, as people read it."""

from queuectl.when import human, local


def ahead(ms: int, now: int) -> str:
    """Write a time to come and how long it is until then: `2026-11-16T02:00:00Z (in 22h)`."""
    return f"{local(ms)} ({until(ms, now)})"


def until(ms: int, now: int) -> str:
    """Write how long it is until then: `in 1h59m`."""
    return f"in {human(ms - now)}"
