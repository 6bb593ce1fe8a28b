"""Schedules: their rules in words, what they made, and what they will."""

from typing import Any

from queuectl.errors import QueuectlError
from queuectl.report import moment
from queuectl.schedule import Schedule
from queuectl.views import schedule_dict, schedule_whole, why_waiting
from queuectl.web.call import Call
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

MISSED_WITHIN = 24 * 3_600_000
"""Milliseconds in which ticks are looked for that have made no job."""
MISSED_SHOWN = 20
pages = Pages()


@pages.show("/schedules", "schedules.html", title="Schedules", scope=Scope.ALL)
def schedules(call: Call) -> dict[str, Any]:
    """Show all schedules."""
    return {
        "schedules": [
            {**_told(one), "why": why_waiting(call.queue, one)}
            for one in call.queue.schedules.all()
        ]
    }


@pages.show("/schedules/{name}", "schedule.html", scope=Scope.ALL)
def schedule(call: Call) -> dict[str, Any]:
    """Show one schedule with its ticks."""
    found = call.queue.schedules.get(call.path["name"])
    said = {**schedule_whole(call.queue, found), **_told(found)}
    missed = _missed(call, found)
    return {
        "schedule": said,
        "missed": None if missed is None else [moment(at) for at in missed[-MISSED_SHOWN:]],
        "missed_count": len(missed or ()),
    }


def _told(one: Schedule) -> dict[str, Any]:
    """Describe a schedule; what its jobs are given besides their command is nobody's business."""
    said = schedule_dict(one)
    job = said["job"]
    what = job.get("command") or " ".join(map(str, job.get("argv") or ())) or job.get("type")
    return {
        **{name: it for name, it in said.items() if name != "job"},
        "runs": what or "data",
        "queue": job.get("queue"),
    }


def _missed(call: Call, one: Schedule) -> list[int] | None:
    """Return the ticks of the last day that have made no job; None where that can't be told."""
    now = call.queue.now()
    begin = max(now - MISSED_WITHIN, one.updated_at)
    if begin >= now:
        return []
    try:
        return call.queue.schedules.backfill(one.name, begin, now, dry_run=True)
    except QueuectlError:
        return None
