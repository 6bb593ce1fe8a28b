"""How schedules are shown: as dicts for `--json`, and in words."""

from base64 import b64decode
from collections.abc import Mapping
from shlex import join
from typing import TYPE_CHECKING, Any

from queuectl.cli.render import Column, heading, size, write, write_facts, write_table
from queuectl.errors import NotFoundError, QueuectlError
from queuectl.job import State
from queuectl.report import moment, seconds
from queuectl.schedule import Missed, Overlap, Schedule
from queuectl.when import ahead, format_duration, local

if TYPE_CHECKING:
    from queuectl.queue import Queue

TICKS_SHOWN = 5
"""Ticks to come, and ticks that were, that `show` has."""
_WAITING = (Overlap.LATEST, Overlap.ALL, Overlap.CANCEL)
_COMMANDS = ("command", "cmd", "argv")


def title(schedule: Schedule) -> str:
    """Return what it runs, as one would type it."""
    request = schedule.request
    argv = request.get("argv")
    return str(request.get("command", request.get("cmd", ""))) if argv is None else join(argv)


def in_words(schedule: Schedule) -> str | None:
    """Say its rule in English; None where this host doesn't know its zone."""
    try:
        return schedule.read().in_words()
    except QueuectlError:
        return None


def schedule_dict(schedule: Schedule) -> dict[str, Any]:
    """Describe a schedule for `--json`; of the environment of its jobs only the names are there."""
    return {
        "name": schedule.name,
        "rule": schedule.rule,
        "in_words": in_words(schedule),
        "tz": schedule.zone,
        "missed": schedule.missed.value,
        "missed_within": seconds(schedule.missed_within),
        "overlap": schedule.overlap.value,
        "jitter": seconds(schedule.jitter),
        "pause_after": schedule.pause_after,
        "paused": schedule.paused_at is not None,
        "paused_at": moment(schedule.paused_at),
        "paused_by": schedule.paused_by,
        "next_at": moment(schedule.next_at),
        "last_tick": moment(schedule.last_tick),
        "last_job": schedule.last_job,
        "failures": schedule.failures,
        "created_at": moment(schedule.created_at),
        "updated_at": moment(schedule.updated_at),
        "job": _request_dict(schedule.request),
    }


def _request_dict(request: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in request.items() if not name.startswith("stdin")}
    if "env" in shown:
        shown["env"] = sorted(shown["env"])
    if (length := _stdin_bytes(request)) is not None:
        shown["stdin_bytes"] = length
    return shown


def _stdin_bytes(request: Mapping[str, Any]) -> int | None:
    if "stdin_base64" in request:
        return len(b64decode(request["stdin_base64"]))
    return len(request["stdin"].encode()) if "stdin" in request else None


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
    return "when its job is over" if schedule.overlap in _WAITING and schedule.last_job else "none"


def why_waiting(queue: "Queue", schedule: Schedule) -> str | None:
    """Say why no time is known at which it has something to do; None if there is one."""
    if schedule.next_at is not None:
        return None
    if schedule.paused_at is not None:
        return f"paused by {schedule.paused_by}"
    last = schedule.last_job if schedule.overlap in _WAITING else None
    if last is not None and schedule.waits_for(_job(queue, last)):
        return f"a tick waits for job {last} to be over"
    return "its rule has no more ticks"


def _job(queue: "Queue", id: str) -> Any:
    try:
        return queue.get(id)
    except NotFoundError:
        return None


def show_dict(queue: "Queue", schedule: Schedule) -> dict[str, Any]:
    """Describe a schedule with what was and what comes."""
    return {
        **schedule_dict(schedule),
        "waits_for": why_waiting(queue, schedule),
        "next": [moment(at) for at in _planned(queue, schedule)],
        "ticks": [
            {
                "planned": moment(tick.planned),
                "made_at": moment(tick.made_at),
                "job": tick.job,
                "state": _state(queue, tick.job),
            }
            for tick in queue.schedules.ticks(schedule.name, TICKS_SHOWN)
        ],
    }


def _planned(queue: "Queue", schedule: Schedule) -> list[int]:
    if schedule.paused_at is not None:
        return []
    try:
        return queue.schedules.next(schedule.name, TICKS_SHOWN)
    except QueuectlError:  # a zone that this host doesn't know
        return []


def _state(queue: "Queue", id: str) -> str | None:
    job = _job(queue, id)
    return None if job is None else str(State(job.state))


def write_shown(queue: "Queue", schedule: Schedule) -> None:
    """Print all about a schedule."""
    heading(f"Schedule {schedule.name}")
    write_facts(_facts(queue, schedule))
    planned = _planned(queue, schedule)
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
                    _state(queue, tick.job) or "removed",
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
    rest = {name: value for name, value in _request_dict(request).items() if name not in _COMMANDS}
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
