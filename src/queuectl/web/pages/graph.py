"""Graphs of jobs: all that hangs together with one, or is in a group; and the jobs next to one."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from shlex import quote
from typing import Any

from queuectl.drawing import Line, tree
from queuectl.folding import folded
from queuectl.job import FINISHED, Job
from queuectl.lineage import Blockage, Graph, blockage
from queuectl.report import relative_dict
from queuectl.web.call import Call
from queuectl.web.pages.page import Pages
from queuectl.web.pages.sketch import SIGNS, WANTED, path_of, path_of_group, sketch, state_of
from queuectl.web.pages.words import cut, part, query
from queuectl.web.route import Param
from queuectl.web.schemas import FLAG

MOST_NODES = 1_000
"""Jobs that are drawn, unless fewer are asked for."""
MOST_LINES = 2_000
"""Lines of the tree that a page has."""
NEXT_TO_ONE = 10
"""Parents, and children, that the page of a job shows."""
NEXT_TO_ONE_ALONE = 1_000
"""And the page that shows nothing else."""
COUNTED = 10_000
"""Children that are counted."""
MOST_ROOTS = 5
"""Root causes that are named."""
LONGEST = 100
"""Letters of an id or a command in the tree."""
pages = Pages()

_QUERY = (
    Param(
        name="limit",
        schema={"type": "integer", "minimum": 1, "maximum": MOST_NODES},
        about="At most so many jobs, the nearest.",
    ),
    Param(name="fold", schema=FLAG, about="Whether jobs that are alike are drawn as one."),
)


@pages.show("/jobs/{id}/graph", "graph.html", query=_QUERY)
def graph_of_job(call: Call) -> dict[str, Any]:
    """Draw a job with all that must end before it, and all that waits for its end."""
    found = call.job()
    graph = call.queue.graph_of(found, limit=call.query.get("limit", MOST_NODES))
    back = {"text": found.id, "path": f"/jobs/{part(found.id)}"}
    return {
        **_shown(call, graph, f"/jobs/{part(found.id)}/graph"),
        "heading": f"Graph of {cut(found.id, LONGEST)}",
        "back": [{"text": "Jobs", "path": "/jobs"}, back],
        "command": f"queuectl graph {quote(found.id)}",
    }


@pages.show("/groups/{name}/graph", "graph.html", query=_QUERY)
def graph_of_group(call: Call) -> dict[str, Any]:
    """Draw the jobs of a group, and who of them waits for whom."""
    name = call.path["name"]
    graph = call.queue.graph_of_group(name, limit=call.query.get("limit", MOST_NODES))
    back = [{"text": f"Jobs of group {name}", "path": f"/jobs{query({'group': name})}"}]
    if not call.grant.queues:
        group = {"text": name, "path": f"/groups/{part(name)}"}
        back = [{"text": "Groups", "path": "/groups"}, group]
    return {
        **_shown(call, graph, f"/groups/{part(name)}/graph"),
        "heading": f"Graph of group {cut(name, LONGEST)}",
        "back": back,
        "command": f"queuectl graph --group {quote(name)}",
    }


def _shown(call: Call, graph: Graph, path: str) -> dict[str, Any]:
    is_folded = call.query.get("fold", True)
    found = blockage(graph, graph.id)
    boxes = folded(graph, found, apart=not is_folded)
    said = {name: value for name, value in call.query.items() if name != "fold"}
    apart = f"{path}{query({**said, 'fold': 'false'})}"
    return {
        "graph": graph,
        "sketch": sketch(boxes, graph.id, apart),
        "signs": SIGNS,
        "states": Counter(state_of(node) for node in graph.nodes),
        "is_folded": is_folded,
        "has_folds": len(boxes.boxes) < len(graph.nodes),
        "apart": apart,
        "together": f"{path}{query(said)}",
        "roots": _roots(graph, found),
        **_tree(graph, found),
    }


def _roots(graph: Graph, found: Blockage) -> dict[str, Any]:
    """Return what is waited for in vain: what a retry may help, and what is gone."""
    roots = [node for node in graph.nodes if node.id in found.roots]
    return {
        "jobs": [node.id for node in roots if not node.is_group and node.state in FINISHED],
        "groups": [node.id.removeprefix("group ") for node in roots if node.is_group],
        "gone": [node.id for node in roots if node.state is None and not node.is_group],
        "most": MOST_ROOTS,
    }


def _tree(graph: Graph, found: Blockage) -> dict[str, Any]:
    """Return a graph as lines, each a job below one that it waits for."""
    every = tree(graph, found)
    lines = [_line(line, found) for line in islice(every, MOST_LINES)]
    return {"lines": lines, "more_lines": next(every, None) is not None}


def _line(line: Line, found: Blockage) -> dict[str, Any]:
    node = line.node
    return {
        "branch": line.branch,
        "level": line.level + 1,
        "id": cut(node.id, LONGEST),
        "path": path_of(node),
        "state": state_of(node),
        "wanted": line.wanted,
        "where": line.where,
        "is_root": node.id in found.roots,
        "title": cut(node.titled(LONGEST), LONGEST),
    }


# -- the jobs next to one -----------------------------------------------------------------


@pages.show("/jobs/{id}/relatives", "relatives.html")
def relatives(call: Call) -> dict[str, Any]:
    """Show the jobs that one waits for, and those that wait for it."""
    found = call.job()
    limit = NEXT_TO_ONE_ALONE
    parents = [relative_dict(one) for one in call.queue.parents(found)]
    children = [relative_dict(one) for one in call.queue.children(found, limit=limit)]
    said = {"parents": parents, "children": children}
    return {
        "job": {"id": found.id, "queue": found.queue},
        "title": found.title,
        "show": f"queuectl show {quote(found.id)} --json",
        "command": f"queuectl graph {quote(found.id)} --limit 0",
        **next_to(call, found, said, most=limit),
    }


def next_to(
    call: Call, found: Job, said: Mapping[str, Any], *, most: int = NEXT_TO_ONE
) -> dict[str, Any]:
    """Return the parents and children of a job, as far as a page shows them, and how many more.

    Of parents, those come first that still keep it.
    """
    parents = sorted(said["parents"], key=lambda one: one["met"])
    children = said["children"]
    many = len(children)
    if found.has_children and many >= most:
        many = max(many, call.queue.count_children(found, limit=COUNTED + 1))
    return {
        "parents": [_told(one, found.state) for one in parents[:most]],
        "children": [_told(one, one["state"]) for one in children[:most]],
        "more_parents": max(len(parents) - most, 0),
        "more_children": max(min(many, COUNTED) - most, 0),
        "is_counted": many <= COUNTED,
        "wanted": WANTED,
    }


def _told(one: Mapping[str, Any], waiting: str) -> dict[str, Any]:
    """Describe a relative as a row of a table, and whether it keeps the one that waits."""
    state = one["state"] or ("open" if one["group"] else "gone")
    if one["group"]:
        path = path_of_group(one["id"])
    else:
        path = f"/jobs/{part(one['id'])}" if one["state"] else ""
    if one["met"] or waiting in FINISHED:
        keeps = "no longer"
    else:
        keeps = "still" if one["came_to"] is None else "in vain"
    return {**one, "shown": state, "path": path, "keeps": keeps, "command": one["command"] or ""}
