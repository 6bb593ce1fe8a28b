"""Schedules: what makes jobs at times."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from queuectl.access import Right
from queuectl.errors import UsageError
from queuectl.report import moment
from queuectl.views import TICKS_SHOWN, schedule_dict, schedule_whole
from queuectl.web import schemas
from queuectl.web.api.jobs import asked_of, check_given, told
from queuectl.web.call import Answer, Call, flag, text
from queuectl.web.route import LONGEST_JOB, Group, Param, Scope

group = Group(name="schedules", about=__doc__ or "")

_SCHEDULE = schemas.ref("Schedule")
_OPTIONS = {
    "tz": schemas.TEXT,
    "missed": schemas.TEXT,
    "missed_within": schemas.or_null(schemas.DURATION),
    "overlap": schemas.TEXT,
    "jitter": schemas.DURATION,
    "pause_after": schemas.or_null(schemas.COUNT),
    "job": schemas.ref("NewJob"),
}
_SUBMITS: dict[str, Any] = {
    "needs": Right.SUBMIT,
    "scope": Scope.ALL,
    "answers": _SCHEDULE,
    "longest": LONGEST_JOB,
}
_OPERATES: dict[str, Any] = {"needs": Right.OPERATE, "scope": Scope.ALL, "answers": _SCHEDULE}


@group.get("/schedules", scope=Scope.ALL, answers=schemas.array(_SCHEDULE))
def list_schedules(call: Call) -> list[dict[str, Any]]:
    """List the schedules, by name."""
    return [_told(call, schedule_dict(one)) for one in call.queue.schedules.all()]


@group.get("/schedules/{name}", scope=Scope.ALL, answers=schemas.ref("ScheduleWhole"))
def show_schedule(call: Call) -> dict[str, Any]:
    """Show a schedule with its next ticks and those that were."""
    found = call.queue.schedules.get(call.path["name"])
    return _told(call, schedule_whole(call.queue, found))


def _told(call: Call, said: dict[str, Any]) -> dict[str, Any]:
    if not call.may(Right.SECRETS):
        hidden = ("env", "data", "data_base64")
        said["job"] = {name: it for name, it in said["job"].items() if name not in hidden}
    return said


@group.put(
    "/schedules/{name}",
    takes=schemas.takes({"rule": schemas.TEXT, "job": schemas.ref("NewJob")}, _OPTIONS),
    status=201,
    **_SUBMITS,
)
def add_schedule(call: Call) -> Answer:
    """Add a schedule that makes jobs at the times of a rule; one that is there is a conflict."""
    said = call.said("rule", *_OPTIONS, need=("rule", "job"))
    rule, what = text(said, "rule") or "", checked_job(call, said.pop("job"))
    del said["rule"]
    given = {name: value for name, value in said.items() if value is not None}
    made = call.queue.schedules.add(call.path["name"], rule, what, **given)
    return Answer(value=_told(call, schedule_dict(made)), status=201)


@group.patch(
    "/schedules/{name}", takes=schemas.takes({}, {"rule": schemas.TEXT, **_OPTIONS}), **_SUBMITS
)
def edit_schedule(call: Call) -> dict[str, Any]:
    """Change a schedule; nothing of the past comes because of it.

    Fields of the job that aren't named stay as they are; null takes one away.
    """
    said = call.said("rule", *_OPTIONS)
    job = said.pop("job", None)
    changed = {} if job is None else checked_job(call, job)
    check_made(call, call.path["name"], changed)
    changes = {**said, **changed}
    return _told(call, schedule_dict(call.queue.schedules.edit(call.path["name"], **changes)))


def check_made(call: Call, name: str, changes: Mapping[str, Any]) -> None:
    """Refuse to have something else run with what the jobs of a schedule are given."""
    request = call.queue.schedules.get(name).request
    if any(request.get(each) is not None for each in _GIVEN):
        check_given(call, changes)


_GIVEN = ("env", "stdin", "stdin_base64", "data", "data_base64")


def checked_job(call: Call, said: Any) -> dict[str, Any]:
    """Return the request of a schedule's jobs, if who asks may make it."""
    if not isinstance(said, dict):
        raise UsageError('The job of a schedule is a JSON object, such as {"command": "true"}.')
    # A field that is null is taken away from the job that is there.
    return asked_of(call, said, nulls=True)


@group.delete("/schedules/{name}", needs=Right.OPERATE, scope=Scope.ALL)
def remove_schedule(call: Call) -> None:
    """Remove a schedule. The jobs that it made stay."""
    call.queue.schedules.remove(call.path["name"])


@group.post("/schedules/{name}/pause", **_OPERATES)
def pause_schedule(call: Call) -> dict[str, Any]:
    """Let no tick come until it is resumed."""
    call.queue.schedules.pause(call.path["name"])
    return _told(call, schedule_dict(call.queue.schedules.get(call.path["name"])))


@group.post("/schedules/{name}/resume", **_OPERATES)
def resume_schedule(call: Call) -> dict[str, Any]:
    """Let ticks come again, from now on."""
    call.queue.schedules.resume(call.path["name"])
    return _told(call, schedule_dict(call.queue.schedules.get(call.path["name"])))


@group.post(
    "/schedules/{name}/run",
    needs=Right.OPERATE,
    scope=Scope.ALL,
    answers=schemas.ref("Job"),
    status=201,
)
def run_schedule(call: Call) -> dict[str, Any]:
    """Make a job of a schedule now, besides those of its ticks."""
    return told(call, call.queue.schedules.run(call.path["name"]))


_COUNT = Param(
    name="count",
    schema={"type": "integer", "minimum": 1, "maximum": 1_000, "default": 10},
    about="How many.",
)


@group.get(
    "/schedules/{name}/next",
    scope=Scope.ALL,
    query=(_COUNT,),
    answers=schemas.array(schemas.TIME),
)
def next_ticks(call: Call) -> list[Any]:
    """List the next times for which ticks are planned."""
    planned = call.queue.schedules.next(call.path["name"], call.query.get("count", 10))
    return [moment(at) for at in planned]


_RULE = (
    Param(name="rule", schema=schemas.TEXT, about="Such as 0 3 * * *, every 15m, @daily."),
    Param(name="tz", schema=schemas.TEXT, about="In which time zone; else in that of the server."),
    Param(
        name="count",
        schema={"type": "integer", "minimum": 1, "maximum": 100, "default": TICKS_SHOWN},
        about="How many of the next times.",
    ),
)


@group.get(
    "/rule",
    query=_RULE,
    answers=schemas.tells(
        {
            "rule": schemas.TEXT,
            "in_words": schemas.TEXT,
            "tz": schemas.TEXT,
            "next": schemas.array(schemas.TIME),
        }
    ),
)
def read_rule(call: Call) -> dict[str, Any]:
    """Say in words when a schedule of a rule would tick, with the next times."""
    if "rule" not in call.query:
        raise UsageError("Say which rule.", field="rule")
    found = call.queue.schedules.draft("rule", call.query["rule"], "true", tz=call.query.get("tz"))
    rule, count = found.read(), call.query.get("count", TICKS_SHOWN)
    return {
        "rule": found.rule,
        "in_words": rule.in_words(),
        "tz": found.zone,
        "next": [moment(at) for at in islice(rule.after(found.anchor), count)],
    }


@group.post(
    "/schedules/{name}/backfill",
    needs=Right.OPERATE,
    scope=Scope.ALL,
    takes=schemas.takes({"from": schemas.MOMENT, "to": schemas.MOMENT}, {"dry_run": schemas.FLAG}),
    answers=schemas.array(schemas.TIME),
)
def backfill(call: Call) -> list[Any]:
    """Make the jobs of ticks that were planned in a time of the past, and have made none."""
    said = call.said("from", "to", "dry_run", need=("from", "to"))
    for name in ("from", "to"):
        if not isinstance(said[name], str | int) or isinstance(said[name], bool):
            raise UsageError(f"{name} must be a time.")
    planned = call.queue.schedules.backfill(
        call.path["name"], said["from"], said["to"], dry_run=flag(said, "dry_run")
    )
    return [moment(at) for at in planned]
