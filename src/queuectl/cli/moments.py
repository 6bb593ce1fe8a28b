"""Times as people read them: local, with the zone, and how far away. Programs get `iso`."""

from time import localtime, strftime

from queuectl.when import ago, iso, local

__all__ = ["ahead", "exact", "moment", "until"]


def moment(ms: int) -> str:
    """Write a time to the second: `2026-11-16 02:00:00 CET`."""
    return f"{local(ms)} {_zone(ms)}"


def exact(ms: int) -> str:
    """Write a time to the millisecond, for where runs begin and end."""
    return f"{local(ms)}{iso(ms)[-5:-1]} {_zone(ms)}"


def ahead(ms: int, now: int) -> str:
    """Write a time to come and how long it is until then: `2026-11-16 02:00:00 CET (in 22h)`."""
    return f"{moment(ms)} ({until(ms, now)})"


def until(ms: int, now: int) -> str:
    """Write how long it is until then: `in 22h`."""
    return f"in {ago(max(ms - now, 1_000))}"


def _zone(ms: int) -> str:
    return strftime("%Z", localtime(ms / 1000))
