"""Queues: what is in them, what they allow, and whether they give out jobs."""

from typing import Any

from queuectl.access import Right
from queuectl.errors import UsageError
from queuectl.fields import REQUESTED
from queuectl.report import limits_dict
from queuectl.views import queue_dict, queue_dicts
from queuectl.web import schemas
from queuectl.web.call import Call, text
from queuectl.web.route import LONGEST_LIST, Group, Scope

group = Group(name="queues", about=__doc__ or "")

_WORK = frozenset(field.name for field in REQUESTED if field.is_work)
"""What says what is run. A queue may have some of it for its jobs."""
_WHOLE = schemas.ref("QueueWhole")


def told(call: Call, name: str) -> dict[str, Any]:
    """Describe a queue; who sees some only gets no hint at others."""
    return queue_dict(call.queue, name, hints=not call.grant.queues)


@group.get("/queues", answers=schemas.array(schemas.ref("Queue")))
def list_queues(call: Call) -> list[dict[str, Any]]:
    """List the queues: what is in them, and what they allow."""
    return [row for row in queue_dicts(call.queue) if call.grant.is_for(row["name"])]


@group.get("/queues/{name}", answers=_WHOLE)
def show_queue(call: Call) -> dict[str, Any]:
    """Show a queue with its limits, its keys, and who serves it."""
    return told(call, call.need_queue(call.path["name"]))


@group.post("/queues/{name}/pause", needs=Right.OPERATE, answers=_WHOLE)
def pause_queue(call: Call) -> dict[str, Any]:
    """Stop giving out jobs of a queue; those that run go on."""
    call.queue.pause(call.need_queue(call.path["name"]))
    return told(call, call.path["name"])


@group.post("/queues/{name}/resume", needs=Right.OPERATE, answers=_WHOLE)
def resume_queue(call: Call) -> dict[str, Any]:
    """Give out jobs of a queue again."""
    call.queue.resume(call.need_queue(call.path["name"]))
    return told(call, call.path["name"])


@group.patch(
    "/queues/{name}/limits",
    needs=Right.ADMIN,
    scope=Scope.ALL,
    takes=schemas.LIMITS,
    longest=LONGEST_LIST,
    answers=schemas.LIMITS,
)
def set_limits(call: Call) -> dict[str, Any]:
    """Set what a queue allows, and what its jobs get where they say nothing; null takes it away.

    Hooks and other defaults that have something run need the right to submit as well.
    """
    if not isinstance(call.body, dict):
        raise UsageError('Limits are a JSON object, such as {"limit": 3}.')
    return limits_dict(call.queue.limits.set(call.path["name"], **checked_limits(call, call.body)))


def checked_limits(call: Call, changes: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be set on a queue, if who asks may."""
    if odd := changes.keys() & {"self", "name"}:
        raise UsageError(f"There is nothing called {min(odd)!r} to set on a queue.")
    if not _WORK.isdisjoint(changes):
        call.need(Right.SUBMIT, "To say what else runs for the jobs of a queue")
    return changes


@group.delete("/queues/{name}/limits", needs=Right.ADMIN, scope=Scope.ALL)
def clear_limits(call: Call) -> None:
    """Take away all that is set on a queue, but for a pause."""
    call.queue.limits.clear(call.path["name"])


@group.post(
    "/queues/{name}/rename",
    needs=Right.ADMIN,
    scope=Scope.ALL,
    takes=schemas.takes({"to": schemas.NAME}),
    answers=_WHOLE,
)
def rename_queue(call: Call) -> dict[str, Any]:
    """Call a queue otherwise, with its jobs, limits, keys, history and schedules."""
    to = text(call.said("to", need=("to",)), "to") or ""
    call.queue.rename_queue(call.path["name"], to)
    return told(call, to)


@group.delete("/queues/{name}", needs=Right.ADMIN, scope=Scope.ALL)
def remove_queue(call: Call) -> None:
    """Remove a queue without jobs: all that is set on it."""
    call.queue.remove_queue(call.path["name"])
