"""What can be shown of a job, by name: for people in columns, as a plain value in a line."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from queuectl.cli.render import STATE_COLOURS, Column, size
from queuectl.errors import UsageError, did_you_mean
from queuectl.facts import Pause, RunProgress, Sleep
from queuectl.fields import FIELDS
from queuectl.job import WAITING, Job, State, Usage
from queuectl.report import job_dict
from queuectl.titles import titled
from queuectl.values import fields, replace
from queuectl.when import ago, human, local, until

if TYPE_CHECKING:
    from queuectl.queue import Queue

_SHOWN = {field.name: field.kind for field in FIELDS if field.is_shown}
PLAIN = (
    *(f.name for f in fields(Job) if f.name in _SHOWN),
    *("schedule", "scheduled_for", "held", "paused_at", "paused_by"),
    *("task", "type", "data_base64", "hook", "hook_of", "trace_id", "at_once", "progress"),
)
"""The fields of a job as `--json` has them."""


def settled(jobs: Iterable[Job], queue: "Queue") -> Iterator[Job]:
    """Yield jobs; those that leave their retries to the settings, as hooks do, by these."""
    retries = None
    for job in jobs:
        if job.max_retries is None and retries is None:
            retries = queue.settings.max_retries
        yield job if job.max_retries is not None else replace(job, max_retries=retries)


def attempts_of(job: Job) -> str:
    """Write runs started and runs allowed: `1/4`."""
    return f"{job.attempts}/{'?' if job.max_attempts is None else job.max_attempts}"


def state_of(job: Job) -> str:
    """Write the state of a job, and whether somebody holds it."""
    return f"{job.state.value} (held)" if job.is_held else job.state.value


def duration_of(job: Job, now: int) -> str:
    """Write how long the last run took, or how long the one that goes on has."""
    if job.state == State.PROCESSING and job.started_at is not None:
        return ago(now - job.started_at)
    return "" if job.duration_ms is None else human(job.duration_ms)


def due_in(job: Job, now: int) -> str:
    """Write how long a job waits for its time; nothing if it doesn't."""
    return until(job.run_at, now) if job.state in WAITING and job.run_at > now else ""


def _at(ms: int | None) -> str:
    return "" if ms is None else local(ms)


_HELD = {"pending (held)": "dim", "failed (held)": "dim"}
_Text = Callable[[Job, int], str]
_FOR_PEOPLE: dict[str, tuple[Column, _Text]] = {
    "id": (Column("ID", least=12), lambda job, _: job.id),
    "state": (Column("STATE", styles=STATE_COLOURS | _HELD), lambda job, _: state_of(job)),
    "queue": (Column("QUEUE", least=10), lambda job, _: job.queue),
    "priority": (Column("PRI", right=True, drop=4), lambda job, _: str(job.priority)),
    "attempts": (Column("ATTEMPTS", right=True, drop=3), lambda job, _: attempts_of(job)),
    "age": (Column("AGE", right=True, drop=1), lambda job, now: ago(now - job.created_at)),
    "duration": (Column("DURATION", right=True, drop=2), duration_of),
    "due": (Column("DUE", right=True, drop=5), due_in),
    "after": (Column("AFTER", least=12), lambda job, _: ", ".join(job.after)),
    "progress": (Column("PROGRESS", least=8), lambda *_: ""),
    "peak_memory": (Column("MEMORY", right=True), lambda *_: ""),
    "cpu": (Column("CPU", right=True), lambda *_: ""),
    "read": (Column("READ", right=True), lambda *_: ""),
    "written": (Column("WRITTEN", right=True), lambda *_: ""),
    "command": (Column("COMMAND", least=20), lambda job, _: job.title),
    "title": (Column("COMMAND", least=20), lambda job, _: titled(job)),
    "error": (Column("ERROR", least=16, is_sentence=True), lambda job, _: job.error or ""),
    "reason": (Column("REASON", least=16, is_sentence=True), lambda job, _: job.reason or ""),
    "created": (Column("CREATED"), lambda job, _: _at(job.created_at)),
    "started": (Column("STARTED"), lambda job, _: _at(job.started_at)),
    "finished": (Column("FINISHED"), lambda job, _: _at(job.finished_at)),
    "updated": (Column("UPDATED"), lambda job, _: _at(job.updated_at)),
    "expires": (Column("EXPIRES"), lambda job, _: _at(job.expires_at)),
}
"""The columns of a list, with what they show at a time `now`."""
_USAGE: dict[str, Callable[[Usage], int | None]] = {
    "peak_memory": lambda used: used.peak_memory,
    "cpu": lambda used: used.cpu_ms,
    "read": lambda used: used.read_bytes,
    "written": lambda used: used.written_bytes,
}
"""What the newest run that is over has used."""
PAUSED = "processing (paused)"
"""What people read as the state of a job that runs, but stands still."""
_NUMBERS = ("count", "integer", "limit", "number", "wait")
"""Kinds that stand on the right."""

NAMES = (*_FOR_PEOPLE, *(name for name in PLAIN if name not in _FOR_PEOPLE))
"""All that can be shown."""


def check(name: str) -> str:
    """Return a name that can be shown, as it is written here; any other is a `UsageError`."""
    known = name.strip().lower()
    if known not in NAMES:
        hint = did_you_mean(known, NAMES, f"use one of {', '.join(NAMES)}.")
        raise UsageError(f"Jobs have no field {name.strip()!r}; {hint}")
    return known


def column(name: str, *, chosen: bool = False) -> Column:
    """Return the column for a field; one that was `chosen` is never left out."""
    known = _FOR_PEOPLE.get(name)
    if known is None:
        return Column(name.upper(), right=_SHOWN.get(name) in _NUMBERS, least=len(name))
    return replace(known[0], drop=0) if chosen else known[0]


class Pauses:
    """The pauses of jobs that are listed; asked for once a job is among them that runs.

    And how far these have come, what others sleep for, and what their runs have used.
    """

    def __init__(
        self,
        ask: Callable[[], Mapping[int, Pause]] = dict,
        ask_progress: Callable[[], Mapping[int, RunProgress]] = dict,
        ask_sleeps: Callable[[Sequence[Job]], Mapping[int, Sleep]] = lambda _: {},
        ask_usages: Callable[[Sequence[Job]], Mapping[int, Usage]] = lambda _: {},
    ) -> None:
        self._ask = ask
        self._found: Mapping[int, Pause] | None = None
        self._ask_progress = ask_progress
        self._told: Mapping[int, RunProgress] | None = None
        self._ask_sleeps = ask_sleeps
        self._asleep: Mapping[int, Sleep] = {}
        self._ask_usages = ask_usages
        self._used: Mapping[int, Usage] = {}

    def count(self, jobs: Sequence[Job], names: Sequence[str]) -> None:
        """Ask what the newest runs of these jobs have used, if one of the columns shows that."""
        if not _USAGE.keys().isdisjoint(names):
            self._used = self._ask_usages(jobs)

    def usage_of(self, job: Job) -> Usage | None:
        """Return what the newest run of a job has used, if it is one of those counted last."""
        return self._used.get(job.seq)

    def look_at(self, jobs: Sequence[Job]) -> None:
        """Ask what those of these jobs sleep for that do."""
        self._asleep = self._ask_sleeps(jobs)

    def sleep_of(self, job: Job) -> Sleep | None:
        """Return what a job sleeps for, if it is one of those that were looked at last."""
        return self._asleep.get(job.seq)

    def progress_of(self, job: Job) -> RunProgress | None:
        """Return how far the run that a job has says that it has come."""
        if job.state != State.PROCESSING:
            return None
        if self._told is None:
            self._told = self._ask_progress()
        told = self._told.get(job.seq)
        return told if told is not None and told.number == job.attempts else None

    def of(self, job: Job) -> Pause | None:
        """Return the pause of the run that a job has, if it has one."""
        if job.state != State.PROCESSING:
            return None
        if self._found is None:
            self._found = self._ask()
        pause = self._found.get(job.seq)
        return pause if pause is not None and pause.is_of(job) else None


def for_people(
    job: Job,
    names: tuple[str, ...],
    now: int,
    pause: Pause | None = None,
    progress: RunProgress | None = None,
    sleep: Sleep | None = None,
    used: Usage | None = None,
) -> list[str]:
    """Return what the columns of these names show."""
    plain = {} if all(name in _FOR_PEOPLE for name in names) else job_dict(job, pause)
    return [
        PAUSED
        if pause is not None and name == "state"
        else f"{state_of(job)} ({sleep})"
        if sleep is not None and name == "state"
        else str(progress)
        if progress is not None and name == "progress"
        else used_of(used, name)
        if name in _USAGE
        else _FOR_PEOPLE[name][1](job, now)
        if name in _FOR_PEOPLE
        else _text(plain.get(name))
        for name in names
    ]


def for_programs(
    job: Job,
    names: tuple[str, ...],
    now: int,
    pause: Pause | None = None,
    progress: RunProgress | None = None,
    used: Usage | None = None,
) -> list[str]:
    """Return the fields of these names: as `--json` has them, and those it hasn't as for people.

    The command is what the job runs, also when that is a program with arguments.
    """
    told = "" if progress is None else str(progress)
    counted = {name: None if used is None else ask(used) for name, ask in _USAGE.items()}
    plain = {**job_dict(job, pause), **counted, "command": job.title, "progress": told}
    return [
        _text(plain[name]) if name in plain else _FOR_PEOPLE[name][1](job, now) for name in names
    ]


def used_of(used: Usage | None, name: str) -> str:
    """Write what a run has used; nothing if nobody has counted."""
    amount = None if used is None else _USAGE[name](used)
    if amount is None:
        return ""
    return human(amount) if name == "cpu" else size(amount)


def _text(value: Any) -> str:
    """Write a value of JSON as plain text: nothing for null, lists with commas."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return ",".join(map(_text, value))
        case dict():
            return ",".join(f"{name}={_text(it)}" for name, it in value.items())
        case _:
            return str(value)
