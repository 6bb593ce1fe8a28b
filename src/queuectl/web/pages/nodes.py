"""Nodes: who works, and on what."""

from typing import Any

from queuectl.web.call import Call
from queuectl.web.pages.overview import with_runs
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

pages = Pages()


@pages.show("/nodes", "nodes.html", title="Nodes", scope=Scope.ALL)
def nodes(call: Call) -> dict[str, Any]:
    """Show all nodes with what runs on each worker."""
    return {"nodes": with_runs(call, call.queue.nodes())}
