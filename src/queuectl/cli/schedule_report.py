"""How schedules are shown, in words."""

from shlex import join
from typing import TYPE_CHECKING, Any

from queuectl.cli.render import Column, heading, size, write, write_facts, write_table
from queuectl.errors import QueuectlError
from queuectl.schedule import Missed, Schedule
from queuectl.views import (
    WAITING_OVERLAPS,
    in_words,
    planned_of,
    request_dict,
    state_of_id,
    why_waiting,
)
from queuectl.when import ahead, format_duration, local

if TYPE_CHECKING:
    from queuectl.queue import Queue

TICKS_SHOWN = 5
"""Ticks to come, and ticks that were, that `show` has."""
_COMMANDS = ("command", "cmd", "argv")


def title(schedule: Schedule) -> str:
    """Return what it runs, as one would type it."""
    request = schedule.request
    argv = request.get("argv")
    return str(request.get("command", request.get("cmd", ""))) if argv is None else join(argv)


_COLUMNS = (
    Column("NAME", least=10),
    Column("RULE", least=9),
    Column("ZONE", least=8, drop=2),
    Column("NEXT", least=10),
    Column("LAST JOB", drop=1),
    Column("RUNS", least=12),
)


def write_schedules(schedules: list[Schedule]) -> None:
    """Print a table of schedules."""
    rows = [
        (s.name, s.rule, s.zone, _next_shown(s), s.last_job or "none", title(s)) for s in schedules
    ]
    write_table(_COLUMNS, rows)


def _next_shown(schedule: Schedule) -> str:
    if schedule.paused_at is not None:
        return f"paused by {schedule.paused_by}"
    if schedule.next_at is not None:
        return local(schedule.next_at)
    return (
        "when its job is over"
        if schedule.overlap in WAITING_OVERLAPS and schedule.last_job
        else "none"
    )


def write_shown(queue: "Queue", schedule: Schedule) -> None:
    """Print all about a schedule."""
    heading(f"Schedule {schedule.name}")
    write_facts(_facts(queue, schedule))
    planned = planned_of(queue, schedule)
    if planned:
        write()
        heading("Next ticks")
        write_times(schedule, planned)
    ticks = queue.schedules.ticks(schedule.name, TICKS_SHOWN)
    if ticks:
        write()
        heading("Last ticks")
        write_table(
            (Column("PLANNED"), Column("MADE", drop=1), Column("JOB"), Column("STATE")),
            [
                (
                    _there(schedule, tick.planned),
                    local(tick.made_at),
                    tick.job,
                    state_of_id(queue, tick.job) or "removed",
                )
                for tick in ticks
            ],
        )


def write_times(schedule: Schedule, planned: list[int]) -> None:
    """Print instants, in the zone of a schedule and, if that is another, in UTC."""
    if schedule.zone == "UTC":
        write_table((Column("UTC"),), [(utc(at),) for at in planned])
        return
    columns = (Column(schedule.zone), Column("UTC"))
    write_table(columns, [(_there(schedule, at), utc(at)) for at in planned])


def utc(at: int) -> str:
    """Write an instant in UTC."""
    from datetime import UTC

    return local(at, UTC)


def _there(schedule: Schedule, at: int) -> str:
    try:
        return local(at, schedule.tz)
    except QueuectlError:
        return utc(at)


def _facts(queue: "Queue", schedule: Schedule) -> list[tuple[str, str | None]]:
    request = schedule.request
    rest = {name: value for name, value in request_dict(request).items() if name not in _COMMANDS}
    length = rest.pop("stdin_bytes", None)
    now = queue.now()
    return [
        ("Command" if "argv" not in request else "Program", title(schedule)),
        ("Rule", schedule.rule),
        ("In words", in_words(schedule) or "its zone isn't known on this host"),
        ("Zone", schedule.zone),
        ("Next", None if schedule.next_at is None else ahead(schedule.next_at, now)),
        ("Waits", why_waiting(queue, schedule)),
        ("Paused", None if schedule.paused_at is None else local(schedule.paused_at)),
        ("Missed ticks", _missed(schedule)),
        ("Overlap", schedule.overlap.value),
        ("Jitter", format_duration(schedule.jitter) if schedule.jitter else None),
        ("Pauses after", _dead(schedule.pause_after)),
        ("Died in a row", str(schedule.failures) if schedule.failures else None),
        ("Created", local(schedule.created_at)),
        ("Changed", local(schedule.updated_at)),
        *((_label(name), _text(value)) for name, value in rest.items()),
        ("Stdin", None if length is None else size(length)),
    ]


def _label(field: str) -> str:
    return "Directory" if field == "cwd" else field.replace("_", " ").capitalize()


def _missed(schedule: Schedule) -> str:
    within = schedule.missed_within
    if within is None or schedule.missed is Missed.OFF:
        return schedule.missed.value
    return f"{schedule.missed}, within {format_duration(within)}"


def _dead(count: int | None) -> str | None:
    return None if count is None else f"{count} dead in a row"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
