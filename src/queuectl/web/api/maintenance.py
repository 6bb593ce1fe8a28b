"""Settings, and looking after the store."""

from typing import Any

from queuectl import __version__
from queuectl.access import Right
from queuectl.errors import UsageError
from queuectl.job import FINISHED, State
from queuectl.report import finding_dict
from queuectl.settings import NAMES, canonical
from queuectl.views import setting_dict
from queuectl.web import schemas
from queuectl.web.call import Call, flag
from queuectl.web.route import Group, Scope

group = Group(name="maintenance", about=__doc__ or "")

_SETTING = schemas.ref("Setting")
RUNS = ("shell", "env_all")
"""Settings that say what is run, or in which environment."""


@group.get("/settings", scope=Scope.ALL, needs=Right.ADMIN, answers=schemas.array(_SETTING))
def list_settings(call: Call) -> list[dict[str, Any]]:
    """List the settings that are in force for this server, and where they come from."""
    settings, sources = call.queue.explain_settings()
    return [setting_dict(name, settings, sources) for name in NAMES]


@group.put(
    "/settings/{name}",
    scope=Scope.ALL,
    needs=Right.ADMIN,
    takes=schemas.takes({"value": {"type": ["string", "number", "boolean"]}}),
    answers=_SETTING,
)
def set_setting(call: Call) -> dict[str, Any]:
    """Set a setting for all who use the queue."""
    value = call.said("value", need=("value",))["value"]
    if not isinstance(value, str | int | float):
        raise UsageError("A value is text, a number, or true or false.")
    name = may_set(call, call.path["name"])
    name, _ = call.queue.set_setting(name, value)
    return setting_dict(name, *call.queue.explain_settings())


@group.delete("/settings/{name}", scope=Scope.ALL, needs=Right.ADMIN)
def unset_setting(call: Call) -> None:
    """Forget a setting, so that its default holds again."""
    call.queue.unset_setting(may_set(call, call.path["name"]))


def may_set(call: Call, name: str) -> str:
    """Return the name of a setting, if who asks may change it."""
    name = canonical(name)
    if name in RUNS:
        call.need(Right.SUBMIT, f"To change the setting {name}")
    return name


@group.get("/info", scope=Scope.ALL, answers=schemas.by_name(schemas.ANY))
def info(call: Call) -> dict[str, Any]:
    """Describe the store: engine, version, size, durability."""
    return {"queuectl": __version__, "database": call.queue.url, **call.queue.info()}


@group.get(
    "/checkup", scope=Scope.ALL, needs=Right.ADMIN, answers=schemas.array(schemas.ref("Finding"))
)
def checkup(call: Call) -> list[dict[str, Any]]:
    """Check the queue, its database and the host of this server; says of each what to do."""
    return [finding_dict(finding) for finding in call.queue.checkup()]


@group.post(
    "/prune",
    scope=Scope.ALL,
    needs=Right.OPERATE,
    takes=schemas.takes(
        {"older_than": schemas.DURATION},
        {
            "states": schemas.array(
                {"type": "string", "enum": [state.value for state in FINISHED]}
            ),
            "dry_run": schemas.FLAG,
        },
    ),
    answers=schemas.by_name(schemas.COUNT),
)
def prune(call: Call) -> dict[str, int]:
    """Delete finished jobs that are older than a duration; says how many of which."""
    said = call.said("older_than", "states", "dry_run", need=("older_than",))
    asked = said.get("states") or [state.value for state in FINISHED]
    known = [state.value for state in FINISHED]
    if not isinstance(asked, list) or not all(name in known for name in asked):
        raise UsageError(f"states are some of {', '.join(known)}.")
    gone = call.queue.prune(
        [State(name) for name in asked], said["older_than"], dry_run=flag(said, "dry_run")
    )
    return {state.value: count for state, count in gone.items()}
