"""Groups: jobs that are waited for together.

They have jobs of all queues, and so aren't told of to who is let in for some queues only.
"""

from collections.abc import Iterator
from typing import Any

from queuectl.report import graph_dict, group_dict
from queuectl.views import result_dict
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.api.jobs import GRAPH_LIMIT
from queuectl.web.call import Call, Lines
from queuectl.web.route import LINES, Group, Param, Scope

group = Group(name="groups", about=__doc__ or "")

_GROUP = schemas.ref("Group")
_LAST_LINE = Param(
    name="last_line",
    schema=schemas.FLAG,
    about="Of a job without a result, say the last line that it wrote on stdout.",
)
_BEFORE = Param(name="before", schema=schemas.NAME, about="Go on behind the group of this name.")


@group.get("/groups", scope=Scope.ALL, query=(asking.LIMIT, _BEFORE), answers=schemas.array(_GROUP))
def list_groups(call: Call) -> list[dict[str, Any]]:
    """List groups, the newest first, and how many of their jobs ended how."""
    limit, now = call.query.get("limit", asking.USUAL), call.queue.now()
    found = call.queue.groups.newest(limit, before=call.query.get("before"))
    return [group_dict(one, now) for one in found]


@group.get("/groups/{name}", scope=Scope.ALL, answers=_GROUP)
def show_group(call: Call) -> dict[str, Any]:
    """Say how far a group is: how many of its jobs are done, and how long the rest may take."""
    return group_dict(call.queue.groups.get(call.path["name"]), call.queue.now())


@group.get("/groups/{name}/graph", query=(GRAPH_LIMIT,), answers=schemas.ref("Graph"))
def show_graph(call: Call) -> dict[str, Any]:
    """Return the jobs of a group, and who of them waits for whom.

    That is as with `GET /jobs/{id}/graph`; of more jobs than the limit, it is the oldest.
    """
    limit = call.query.get("limit", 200)
    return graph_dict(call.queue.graph_of_group(call.path["name"], limit=limit))


@group.get(
    "/groups/{name}/results",
    scope=Scope.ALL,
    query=(_LAST_LINE,),
    answers=schemas.ref("GroupResult"),
    answers_as=LINES,
)
def show_results(call: Call) -> Lines:
    """Send what the jobs of a group came to, in the order of the line, a line of JSON each."""
    found = call.queue.groups.get(call.path["name"])
    return Lines(values=_rows(call, found.name))


def _rows(call: Call, name: str) -> Iterator[dict[str, Any]]:
    last_lines = bool(call.query.get("last_line"))
    return map(result_dict, call.queue.groups.results(name, last_lines=last_lines))
