"""What is told to jobs that wait for it."""

from typing import Any

from queuectl.access import Right
from queuectl.errors import NotFoundError
from queuectl.views import emitted_dict
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.call import Call
from queuectl.web.route import LONGEST_LIST, Group, Scope

group = Group(name="emitted", about=__doc__ or "")

_EMITTED = schemas.ref("Emitted")


@group.get("/emitted", scope=Scope.ALL, query=(asking.LIMIT,), answers=schemas.array(_EMITTED))
def list_emitted(call: Call) -> list[dict[str, Any]]:
    """List what was emitted, newest first."""
    return [emitted_dict(one) for one in call.queue.emitted(limit=asking.limit_of(call))]


@group.get("/emitted/{name}", scope=Scope.ALL, answers=_EMITTED)
def show_emitted(call: Call) -> dict[str, Any]:
    """Show what was emitted under a name."""
    found = call.queue.emitted(call.path["name"])
    if not found:
        raise NotFoundError(f"Nothing was emitted as {call.path['name']!r}.")
    return emitted_dict(found[0])


@group.put(
    "/emitted/{name}",
    needs=Right.OPERATE,
    scope=Scope.ALL,
    takes=schemas.takes({}, {"payload": schemas.ANY}),
    longest=LONGEST_LIST,
    optional=True,
    answers=_EMITTED,
)
def emit(call: Call) -> dict[str, Any]:
    """Tell something, once, to all jobs that wait for it or will. The first under a name counts."""
    payload = call.said("payload").get("payload")
    return emitted_dict(call.queue.emit(call.path["name"], payload).emitted)
