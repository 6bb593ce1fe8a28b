"""Groups: jobs that are waited for together.

They have jobs of all queues, and so aren't told of to who is let in for some queues only.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from queuectl.errors import UsageError
from queuectl.report import along_dict, graph_dict
from queuectl.result_tables import columns_of, csv_lines
from queuectl.views import group_dicts, group_whole, result_dict
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.api.jobs import GRAPH_LIMIT
from queuectl.web.call import Call, Lines
from queuectl.web.route import CSV, LINES, Group, Param, Scope

group = Group(name="groups", about=__doc__ or "")

MOST_ALONG = 1_000
"""Jobs that are looked at, and told, of all that a cancellation takes along."""
_GROUP = schemas.ref("Group")
_LAST_LINE = Param(
    name="last_line",
    schema=schemas.FLAG,
    about="Of a job without a result, say the last line that it wrote on stdout.",
)
BEFORE = Param(name="before", schema=schemas.NAME, about="Go on behind the group of this name.")
PREFIX = Param(
    name="prefix", schema=schemas.NAME, about="Only groups whose names begin so, by their names."
)


@group.get(
    "/groups",
    scope=Scope.ALL,
    query=(asking.LIMIT, BEFORE, PREFIX),
    answers=schemas.array(_GROUP),
)
def list_groups(call: Call) -> list[dict[str, Any]]:
    """List groups, the newest first, and how many of their jobs ended how."""
    groups, limit = call.queue.groups, asking.limit_of(call)
    before, prefix = call.query.get("before"), call.query.get("prefix")
    if prefix is None:
        return group_dicts(call.queue, groups.newest(limit, before=before))
    if before is not None:
        raise UsageError("Say either before or prefix: those that begin so are one page.")
    return group_dicts(call.queue, groups.named(groups.like(prefix, limit=limit)))


@group.get("/groups/{name}", scope=Scope.ALL, answers=schemas.ref("GroupWhole"))
def show_group(call: Call) -> dict[str, Any]:
    """Say how far a group is: how many of its jobs are done, and how long the rest may take.

    Also what keeps it from being over, as far as some of its newest jobs tell, and who waits for
    it. It costs no more with a million jobs in it.
    """
    return group_whole(call.queue, call.queue.groups.get(call.path["name"]))


@group.get("/groups/{name}/along", scope=Scope.ALL, answers=schemas.ref("Along"))
def show_along(call: Call) -> dict[str, Any]:
    """Say which other jobs are cancelled if a group is, up to 1,000.

    They wait for jobs of it, or for the group. Of one of more than 1,000 jobs, the newest tell.
    """
    return along_dict(call.queue.groups.taken_along(call.path["name"], limit=MOST_ALONG))


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
    return Lines(values=_rows(call, found.name), headers=_as_file(f"{found.name}.jsonl"))


def _rows(call: Call, name: str) -> Iterator[dict[str, Any]]:
    last_lines = bool(call.query.get("last_line"))
    return map(result_dict, call.queue.groups.results(name, last_lines=last_lines))


@group.get(
    "/groups/{name}/results.csv",
    scope=Scope.ALL,
    query=(_LAST_LINE,),
    answers=schemas.TEXT,
    answers_as=CSV,
    slow=True,
)
def show_results_as_csv(call: Call) -> Lines:
    """Send the same as comma-separated values: a column for each parameter that a job has.

    It has the columns that `queuectl results --csv` has. All jobs are read once before the first
    line, for the names of these.
    """
    found = call.queue.groups.get(call.path["name"])
    lines = _csv(call, found.name)
    return Lines(values=lines, kind=CSV, headers=_as_file(f"{found.name}.csv"))


def _csv(call: Call, name: str) -> Iterator[bytes]:
    last_lines = bool(call.query.get("last_line"))
    columns = columns_of(call.queue, name, last_line=last_lines)
    rows = call.queue.groups.results(name, last_lines=last_lines)
    # What isn't text is shown as escapes, so only halves of surrogates are left that can't be sent.
    return (line.encode(errors="replace") for line in csv_lines(columns, rows))


def _as_file(name: str) -> dict[str, str]:
    """Have a browser save it, under a name of which nothing means anything in a header."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
