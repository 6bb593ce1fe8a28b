"""How things stand: counts, times, and what has happened."""

from typing import Any

from queuectl.report import event_dict
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.call import Call
from queuectl.web.route import Group, Param, Scope
from queuectl.when import parse_moment

group = Group(name="reports", about=__doc__ or "")


@group.get("/status", scope=Scope.ALL, answers=schemas.ref("Status"))
def status(call: Call) -> dict[str, Any]:
    """Show counts per state and queue, and who works."""
    return call.queue.status().as_dict()


_SINCE = Param(name="since", schema=schemas.TEXT, about="Only runs that ended since: 1h, a time.")
_TAG = Param(name="tag", schema=schemas.NAME, about="Only jobs with all of these tags.", many=True)
_QUEUE = Param(name="queue", schema=schemas.NAME, about="Only jobs of this queue.")


@group.get("/stats", query=(_SINCE, _QUEUE, _TAG), answers=schemas.ref("Stats"))
def stats(call: Call) -> dict[str, Any]:
    """Show success rate, run and wait times, the slowest jobs and the spread of priorities.

    Who is let in for some queues only must say which.
    """
    query = call.query
    queue = query.get("queue")
    if queue is not None or call.grant.queues:
        queue = call.need_queue(queue or "")
    since = query.get("since")
    at = None if since is None else parse_moment(since, now=call.queue.now())
    return call.queue.stats(since=at, queue=queue, tag=query.get("tag")).as_dict()


@group.get(
    "/events",
    scope=Scope.ALL,
    query=asking.EVENTS,
    answers=schemas.page_of(
        "Event",
        next=schemas.or_null({"type": "integer"}),
        previous=schemas.or_null({"type": "integer"}),
    ),
)
def events(call: Call) -> dict[str, Any]:
    """List what was done by hand, and which jobs died or were rescued, newest first.

    What is filtered by more than a job or an action is looked for among some thousands at a time:
    a page may have few items, or none, and there are others as long as it says where.
    """
    page = asking.events_of(call, limit=asking.limit_of(call))
    return {
        "items": [event_dict(event) for event in page.events],
        "next": page.older,
        "previous": page.newer,
    }
