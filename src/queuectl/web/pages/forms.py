"""Forms in which jobs, schedules and queues are described: which fields, and what is in them.

The fields of jobs are those of the table that everything else is made of. What is sent is checked
by the API, which says of which field a refusal is.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from queuectl.access import Right, Role
from queuectl.bound_values import NAMES as BOUNDS
from queuectl.bounds import written as bound_written
from queuectl.dependencies import IfParentFails
from queuectl.editing import NOT_EDITED
from queuectl.fields import REQUESTED, Field
from queuectl.host import local_zone
from queuectl.job import Job, Strategy
from queuectl.limits import WhenFull
from queuectl.queue_limits import DEFAULTS
from queuectl.schedule import Missed, Overlap, Schedule
from queuectl.uniqueness import OnDuplicate, Until
from queuectl.values import dataclass, replace
from queuectl.web.api.jobs import was_given
from queuectl.web.call import Call
from queuectl.webhook import News
from queuectl.when import format_duration, iso


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A field of a form."""

    name: str
    label: str
    kind: str = "text"
    """What it is sent as: text, a number, words between commas, lines, pairs NAME=VALUE, checks
    (those that are ticked), or a flag."""
    value: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()
    empty: str = ""
    """What is sent if somebody has emptied it, as JSON; else that it is empty."""
    required: bool = False
    is_area: bool = False
    of_queues: bool = False
    """Whether the queues that there are, are proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What asks the API for one thing."""

    method: str
    path: str
    """Where it is sent; `{name}` stands for what is in the field of that name."""
    button: str
    done: str
    """What is said then."""
    parts: tuple["Part", ...]
    title: str = ""
    go: str = ""
    """Where one is sent then: to a path, or to the `job` that was made."""
    inside: str = ""
    """The field of the body that all of it is put into."""
    preview: bool = False
    """Whether its rule is shown in words, with the next times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some fields that belong together; without a title they are always to be seen."""

    title: str = ""
    inputs: tuple[Input, ...]


_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("command", "queue", "priority", "tags")),
    ("When", ("run_at", "delay", "expire", "timeout")),
    ("Retries", ("max_retries", "backoff", "backoff_base", "retry_delay", "max_backoff")),
    ("Where it runs", ("cwd", "shell", "env", "stdin")),
    ("What it waits for", ("after", "after_group", "if_parent_fails")),
    ("What it belongs to", ("group", "max_fails")),
    (
        "What it may use",
        (
            *("memory", "cpus", "cpu_time", "nofile", "nproc", "nice", "user"),
            *("read_only_root", "no_network", "best_effort", "image", "mounts"),
        ),
    ),
    ("Whom it is for", ("keys",)),
    ("What it needs of a node", ("needs", "requires")),
    ("Only once", ("unique", "unique_until", "unique_for", "on_duplicate", "max_wait")),
    ("Hooks", ("on_success", "on_failure", "on_dead")),
    ("A program or data instead of a command", ("argv", "type", "data")),
    ("Its id", ("id",)),
)
"""In which order, and under which titles, the fields of a job stand."""
NOT_ASKED = frozenset("env_all expires_at parameters at_once bounds traceparent tracestate".split())
"""What no form asks for: it is of a program that enqueues, or said in another way."""
NOT_OF_SCHEDULES = frozenset(
    "id run_at delay after after_group if_parent_fails group max_fails unique unique_until"
    " unique_for on_duplicate max_wait".split()
)
"""What isn't said of all the jobs that a schedule makes, or hardly ever."""

_FIELDS = {field.name: field for field in REQUESTED}
_KINDS = {
    **dict.fromkeys(("integer", "count", "runs", "number"), "number"),
    **dict.fromkeys(("labels", "keys", "parents", "groups", "required"), "words"),
    "arguments": "lines",
    "bounds_list": "words",
    "variables": "pairs",
}
_AREAS = ("command", "argv", "env", "stdin", "data")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "strategy": tuple(Strategy),
    "until": tuple(Until),
    "collision": tuple(OnDuplicate),
    "if_fails": tuple(IfParentFails),
}
_YES_OR_NO = ("read_only_root", "no_network", "best_effort")
_ABOUT = {
    "command": "What the shell runs.",
    "argv": "A program and its exact arguments, one on a line; then there is no command.",
    "type": "Which handler is given the data.",
    "data": "What a handler is given; then there is no command.",
    "after": "Ids of jobs that must complete before it; with :fail or :any behind, that must fail"
    " or just end. With commas between them.",
    "tags": "Labels, with commas between them.",
    "keys": "Whom it is for, such as user42: limits count by it, and keys take turns. With commas"
    " between them.",
    "needs": "What it needs of its node for itself, such as gpu=1,mem=8G.",
    "requires": "Labels that its node must have, with commas between them.",
    "env": "One on a line: NAME=VALUE.",
    "stdin": "What each run finds on stdin.",
}
_EMPTIED: Mapping[str, Any] = {
    "tags": [],
    "keys": [],
    "needs": "",
    "requires": [],
    "timeout": 0,
    "expire": 0,
    **dict.fromkeys(BOUNDS, "none"),
    **dict.fromkeys(("on_success", "on_failure", "on_dead"), False),
}
"""What says of a job that it has none of these any more."""

_SOME_QUEUES = "Names with commas between them; leave it empty for all."


def of_new_job(queue: str) -> tuple[Part, ...]:
    """Return the fields of a job that is to be enqueued, in this queue unless that is changed."""
    return _parts({"queue": queue})


def of_edited(call: Call, job: Job) -> tuple[Part, ...]:
    """Return what can be changed of a job by who asks, with what it is now."""
    without = {_plain(name) for name in NOT_EDITED}
    if not call.may(Right.SUBMIT):
        without |= _WORK
    return _parts(_said(call, job), without=without | _not_of(call, job))


def of_clone(call: Call, job: Job) -> tuple[Part, ...]:
    """Return what another job like one can have otherwise, if who asks may say so."""
    without = {_plain(name) for name in NOT_EDITED}
    return _parts(_said(call, job), without=without | _not_of(call, job))


def _not_of(call: Call, job: Job) -> set[str]:
    """Return the fields of a job that who asks can't change."""
    may = call.may(Right.SECRETS) or not was_given(job)
    return _of_others(job) if may else _of_others(job) | _WORK


_WORK = {field.name for field in REQUESTED if field.is_work}


def of_jobs_made(request: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the fields of the jobs that a schedule makes, named as parts of a `job`."""
    said = {name: _told(value) for name, value in request.items() if name in _FIELDS}
    parts = _parts({**said, "env": ""}, without=NOT_OF_SCHEDULES, empty="null")
    return tuple(
        replace(part, inputs=tuple(replace(one, name=f"job.{one.name}") for one in part.inputs))
        for part in parts
    )


def of_rule(schedule: Schedule | None) -> Part:
    """Return what says when a schedule ticks."""
    zone = local_zone() if schedule is None else schedule.zone
    rule = "" if schedule is None else schedule.rule
    inputs = (
        Input(name="name", label="Name", required=True),
        Input(
            name="rule",
            label="When",
            value=rule,
            required=True,
            help="As in a crontab, such as 0 3 * * *; or every 15m, @daily.",
        ),
        Input(name="tz", label=label_of("tz"), value=zone),
    )
    return Part(inputs=inputs if schedule is None else inputs[1:])


def of_policy(schedule: Schedule | None) -> Part:
    """Return what says what becomes of ticks that can't come as planned."""
    one = schedule
    within = one and one.missed_within
    inputs = (
        Input(
            name="missed",
            label="Ticks that nobody was there for",
            choices=tuple(Missed),
            value=one.missed if one else "",
        ),
        Input(
            name="missed_within",
            label="They come for",
            value=format_duration(within) if within else "",
            help="How late they may be; leave it empty for any time.",
            empty="null",
        ),
        Input(
            name="overlap",
            label="While the job before isn't over",
            choices=tuple(Overlap),
            value=one.overlap if one else "",
        ),
        Input(
            name="jitter",
            label="Later by up to",
            value=format_duration(one.jitter) if one and one.jitter else "",
            empty="0",
        ),
        Input(
            name="pause_after",
            label="Pause after so many in a row that died",
            kind="number",
            value=_told(one and one.pause_after),
            empty="null",
        ),
    )
    return Part(title="Ticks that can't come as planned", inputs=inputs)


_OF_QUEUES = (
    ("limit", "Running at once", "number", "How many of its jobs."),
    ("rates", "Begin in a time", "words", "100/1m, or 100/1m:10 with a burst of ten."),
    ("max_waiting", "Waiting at most", "number", "What becomes of more, the next field says."),
    ("when_full", "When it is full", "text", ""),
)
_OF_KEYS = (
    ("key_limit", "Of each key at once", "number", ""),
    ("key_rates", "Of each key in a time", "words", "10/1m."),
    ("key_limits", "Of some keys at once", "numbers", "One on a line: vip=5."),
    ("weights", "Weights", "numbers", "What keys get of it where others get 1: vip=5."),
)


def of_limits(limits: Mapping[str, Any], call: Call) -> tuple[Part, ...]:
    """Return what can be set on a queue, with what is."""

    def read(rows: Iterable[tuple[str, str, str, str]]) -> tuple[Input, ...]:
        return tuple(
            Input(
                name=name,
                label=label,
                kind=kind,
                value=_told(limits[name]),
                help=help,
                choices=tuple(WhenFull) if name == "when_full" else (),
                empty="null",
                is_area=kind == "numbers",
            )
            for name, label, kind, help in rows
        )

    usual = limits["defaults"]
    own = tuple(
        _input(_FIELDS[name], _told(usual.get(name)), "null")
        for name in DEFAULTS
        if not _FIELDS[name].is_work or call.may(Right.SUBMIT)
    )
    return (
        Part(inputs=read(_OF_QUEUES)),
        Part(title="Keys", inputs=read(_OF_KEYS)),
        Part(title="What its jobs get where they say nothing", inputs=own),
    )


def of_token() -> Part:
    """Return what is said of a token."""
    return Part(
        inputs=(
            Input(name="name", label="Name", required=True),
            Input(name="roles", label="Roles", kind="checks", choices=tuple(Role)),
            Input(
                name="queues",
                label="Queues",
                kind="words",
                help=_SOME_QUEUES,
            ),
            Input(
                name="expires",
                label="Until",
                help="Such as 90d or 2030-01-31; leave it empty for no end.",
            ),
        )
    )


def of_webhook(call: Call) -> Part:
    """Return what is said of a webhook, as far as who asks may say it."""
    inputs = (
        Input(name="url", label="URL", required=True, help="https://example.com/hook"),
        Input(name="name", label="Name", required=True),
        Input(
            name="on",
            label="Told when a job is",
            kind="checks",
            choices=tuple(News),
            value=News.DEAD,
        ),
        Input(
            name="queues",
            label="Only of these queues",
            kind="words",
            help=_SOME_QUEUES,
        ),
    )
    of_admins = (
        Input(
            name="allow_private",
            label="It may be at an address that isn't public",
            kind="flag",
        ),
        Input(name="data", label="Tell the data of data jobs as well", kind="flag"),
    )
    return Part(inputs=(*inputs, *of_admins) if call.may(Right.ADMIN) else inputs)


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _of_others(job: Job) -> set[str]:
    """Return the fields that say what another kind of job runs."""
    return {"command", "argv", "shell"} if job.type is not None else {"type", "data"}


def _parts(
    said: Mapping[str, str], *, without: Collection[str] = (), empty: str = ""
) -> tuple[Part, ...]:
    made = []
    for title, names in _PARTS:
        inputs = tuple(
            _input(_FIELDS[name], said.get(name, ""), empty)
            for name in names
            if name not in without
        )
        if inputs:
            made.append(Part(title=title, inputs=inputs))
    return tuple(made)


def _input(field: Field, value: str, empty: str) -> Input:
    name = field.name
    choices = ("true", "false") if name in _YES_OR_NO else _CHOICES.get(field.kind, ())
    emptied = json.dumps(_EMPTIED[name]) if name in _EMPTIED else ""
    return Input(
        name=name,
        label=label_of(name),
        kind=_KINDS.get(field.kind, "text"),
        value=value,
        help=_ABOUT.get(name, field.help.partition("  [")[0].removesuffix(" Repeat it.")),
        choices=choices,
        empty=empty or emptied,
        is_area=name in _AREAS,
        of_queues=name == "queue",
    )


def label_of(name: str) -> str:
    """Write the name of a field for people."""
    return _LABELS.get(name, name.replace("_", " ").capitalize())


_LABELS = {
    "argv": "Program",
    "cwd": "Folder",
    "cpus": "Cores",
    "cpu_time": "CPU time",
    "nofile": "Open files",
    "nproc": "Processes",
    "nice": "Niceness",
    "read_only_root": "Files are read-only",
    "best_effort": "Run it where these can't be enforced",
    "env": "Variables",
    "id": "Id",
    "keys": "Keys",
    "max_retries": "Retries",
    "max_backoff": "Longest backoff",
    "run_at": "Not before",
    "stdin": "Input",
    "unique": "Unique key",
    "unique_until": "It has the key until its",
    "unique_for": "And for at least",
    "on_duplicate": "If another job has the key",
    "max_wait": "Longest debounce",
    "tz": "Time zone",
}


def _said(call: Call, job: Job) -> dict[str, str]:
    """Return what a job was asked for, as people write it; secrets stay where they are."""
    early = job.run_at > call.queue.now()
    said = {
        field.name: _written(field.name, _value_of(job, field))
        for field in REQUESTED
        if field.column and field.name not in NOT_ASKED and not field.gives
        if field.name not in ("type", "data", "env", "stdin", "delay", "expire", "unique")
        if hasattr(job, field.column)
    }
    return {**said, "run_at": iso(job.run_at) if early else ""}


def _value_of(job: Job, field: Field) -> Any:
    """Return what a job has in a field, or in that part of one."""
    value = getattr(job, field.column)
    return value.get(field.name) if field.within else value


def _written(name: str, value: Any) -> str:
    """Write a value of a field of a job as people do."""
    kind = _FIELDS[name].kind
    if _FIELDS[name].within and value is not None:
        return "true" if value is True else bound_written(name, value)
    if kind in ("limit", "wait", "duration") and value is not None:
        return format_duration(value) if value else ""
    return "\n".join(value) if kind == "arguments" and value else _told(value)


def _told(value: Any) -> str:
    """Write a value as a request has it."""
    if value is None or value is False:
        return ""
    if isinstance(value, Mapping):
        return "\n".join(f"{name}={one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def queues_of(call: Call) -> list[str]:
    """Return the queues that are proposed to who asks."""
    names: Iterable[str] = {count.queue for count in call.queue.counts() if count.jobs}
    return sorted(name for name in names if call.grant.is_for(name))
