"""Queues: what is in them, what they allow, and who holds that."""

from typing import Any

from queuectl.filter import Filter
from queuectl.job import State
from queuectl.views import queue_dicts
from queuectl.web.api.queues import told
from queuectl.web.call import Call
from queuectl.web.pages import jobs, overview
from queuectl.web.pages.page import Pages

MOST_HOLDERS = 50
pages = Pages()


@pages.show("/queues", "queues.html", title="Queues")
def queues(call: Call) -> dict[str, Any]:
    """Show all queues."""
    rows = [row for row in queue_dicts(call.queue) if call.grant.is_for(row["name"])]
    return {
        "queues": [
            {**row, "use": overview.use(row), "set": limits_told(row["limits"])} for row in rows
        ]
    }


@pages.show("/queues/{name}", "queue.html", query=(overview.RANGE,))
def queue(call: Call) -> dict[str, Any]:
    """Show one queue: how it went, what it allows, and which jobs hold its places."""
    name = call.need_queue(call.path["name"])
    found = told(call, name)
    chosen = overview.RANGES[call.query.get("range", "hour")]
    parts = overview.series(call, chosen, [name])
    holders = call.queue.list(
        Filter(states=(State.PROCESSING,), queues=(name,)), limit=MOST_HOLDERS, oldest=True
    )
    why = call.queue.hindrances_of_each([name])[name] if found["waiting"] else []
    return {
        "queue": found,
        "use": overview.use(found),
        "set": limits_told(found["limits"]),
        "why": [reason.as_dict() for reason in why],
        "range": chosen.name,
        "ranges": list(overview.RANGES),
        "charts": overview.drawn(parts, chosen.span),
        "since": parts[0].as_dict()["at"],
        "until": parts[-1].as_dict()["at"],
        "holders": jobs.told(call, holders),
        "sees_all": not call.grant.queues,
    }


def limits_told(limits: dict[str, Any]) -> list[tuple[str, str]]:
    """Write what is set on a queue, one thing after the other."""
    told = []
    for name, value in limits.items():
        if value in (None, [], {}, ""):
            continue
        if isinstance(value, dict):
            text = ", ".join(f"{key} {one}" for key, one in value.items())
        elif isinstance(value, list | tuple):
            text = ", ".join(map(str, value))
        else:
            text = str(value)
        told.append((name.replace("_", " "), text))
    return told
