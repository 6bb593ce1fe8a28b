"""The audit log: what was done by hand, and what became of jobs by themselves."""

from typing import Any

from queuectl.facts import undo_until
from queuectl.report import event_dict
from queuectl.web.api import asking
from queuectl.web.call import Call
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

USUAL = 100
pages = Pages()


@pages.show("/events", "events.html", title="Audit log", scope=Scope.ALL, query=(asking.LIMIT,))
def events(call: Call) -> dict[str, Any]:
    """Show who did what, newest first."""
    limit = call.query.get("limit", USUAL)
    page = call.queue.page_events(limit=limit)
    now = call.queue.now()
    rows = [event_dict(event) | {"is_fresh": (undo_until(event) or 0) > now} for event in page]
    more = min(limit * 5, asking.MOST)
    return {"events": rows, "more": more if page.more and more > limit else None}
