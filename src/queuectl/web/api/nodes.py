"""Nodes: who works, and asking them to stop."""

from typing import Any

from queuectl.access import Right
from queuectl.errors import NotFoundError
from queuectl.web import schemas
from queuectl.web.call import Call, flag
from queuectl.web.route import Group, Scope

group = Group(name="nodes", about=__doc__ or "")

_NODE = schemas.ref("Node")


@group.get("/nodes", scope=Scope.ALL, answers=schemas.array(_NODE))
def list_nodes(call: Call) -> list[dict[str, Any]]:
    """List the nodes, with whether they live and how many jobs they run."""
    return call.queue.nodes()


@group.post(
    "/nodes/{id}/stop",
    needs=Right.ADMIN,
    scope=Scope.ALL,
    takes=schemas.takes({}, {"force": schemas.FLAG}),
    optional=True,
    answers=_NODE,
)
def stop_node(call: Call) -> dict[str, Any]:
    """Ask a node to finish what it runs and stop; with `force`, to give it back."""
    force = flag(call.said("force"), "force")
    call.queue.stop_nodes([call.path["id"]], force=force)
    return _node(call)


def _node(call: Call) -> dict[str, Any]:
    for node in call.queue.nodes():
        if node["id"] == call.path["id"]:
            return node
    raise NotFoundError(f"There is no node {call.path['id']!r} any more.")
