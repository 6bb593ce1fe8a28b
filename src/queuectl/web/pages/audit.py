"""The audit log: what was done by hand, and what became of jobs by themselves."""

from collections.abc import Mapping
from typing import Any

from queuectl.errors import UsageError
from queuectl.facts import undo_until
from queuectl.job_json import moment
from queuectl.report import event_dict
from queuectl.web.api import asking
from queuectl.web.call import Call
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

USUAL = 100
pages = Pages()

_PLACES = {asking.BEFORE.name, asking.NEWER.name}
_SAID = [param.name for param in asking.EVENTS if param.name not in _PLACES]


def wrong(call: Call, said: Mapping[str, list[str]], error: UsageError) -> dict[str, Any]:
    """Show what is wrong with a filter beside the form, as it was filled in."""
    filled = {name: said[name][0] if name in said else None for name in _SAID}
    return {"said": filled, "filtered": True, "kinds": [], "wrong": error.advised}


@pages.show(
    "/events",
    "events.html",
    title="Audit log",
    scope=Scope.ALL,
    query=asking.EVENTS,
    if_wrong=wrong,
)
def events(call: Call) -> dict[str, Any]:
    """Show who did what, newest first."""
    page = asking.events_of(call, limit=call.query.get("limit", USUAL))
    now = call.queue.now()
    said = {name: call.query.get(name) for name in _SAID}
    return {
        "events": [
            event_dict(event) | {"is_fresh": (undo_until(event) or 0) > now}
            for event in page.events
        ],
        "said": said,
        "filtered": any(it for name, it in said.items() if name != asking.LIMIT.name),
        "kinds": sorted({event.kind for event in page.events}),
        "newer": page.newer,
        "older": page.older,
        "reached": None if page.reached is None else moment(page.reached.at),
        "upwards": asking.NEWER.name in call.query,
        "first": not _PLACES & call.query.keys(),
        "wrong": None,
    }
