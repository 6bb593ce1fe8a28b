"""Groups: how far they are, what keeps them, and who waits for them.

A group is drawn from its one row, where its jobs are counted: a page of groups costs the same with
a million jobs in them as with ten. Of the jobs themselves only some of the newest are looked at.
"""

from typing import Any

from queuectl.filter import Filter
from queuectl.job import State
from queuectl.job_json import moment
from queuectl.values import dataclass
from queuectl.views import group_dicts, group_whole
from queuectl.web.api.groups import BEFORE, PREFIX
from queuectl.web.call import Call
from queuectl.web.pages import jobs
from queuectl.web.pages.page import Pages
from queuectl.web.route import Scope

PAGE = 50
"""Groups of a page; of those whose names begin in some way, that are shown at all."""
SHOWN = 20
"""Dead jobs of a group that are on its page."""
LEAST = 1.5
"""Percent that a part of a bar has at least: a dead job of a million is seen as well."""
pages = Pages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some jobs of a group, as a part of its bar and in words."""

    kind: str
    sign: str
    label: str
    count: int
    state: str | None
    """The one that a list of them asks for."""
    x: float = 0
    width: float = 0


_SIGNS = {
    "completed": "✓",
    "dead": "✗",
    "cancelled": "⊘",
    "unneeded": "∅",
    "running": "▶",
    "waiting": "…",
    "blocked": "‖",
}
"""What says without a colour how jobs stand, in the order of the bar."""


@pages.show("/groups", "groups.html", title="Groups", scope=Scope.ALL, query=(BEFORE, PREFIX))
def groups(call: Call) -> dict[str, Any]:
    """Show groups, the newest first, or those whose names begin in some way."""
    before, prefix = call.query.get("before"), call.query.get("prefix")
    known = call.queue.groups
    if prefix is None:
        found = known.newest(PAGE + 1, before=before)
    else:
        found = known.named(known.like(prefix, limit=PAGE + 1))
    shown, has_more = found[:PAGE], len(found) > PAGE
    return {
        "groups": [{**told, "parts": drawn(told)} for told in group_dicts(call.queue, shown)],
        "prefix": prefix,
        "first": before is None,
        "next": shown[-1].name if has_more and prefix is None else None,
        "has_more": has_more,
    }


@pages.show("/groups/{name}", "group.html", scope=Scope.ALL)
def group(call: Call) -> dict[str, Any]:
    """Show how far a group is, what is dead of it, what keeps it, and who waits for it."""
    found = call.queue.groups.get(call.path["name"])
    told = group_whole(call.queue, found)
    dead = _some(call, found.name, State.DEAD) if found.dead else []
    return {
        "group": told,
        "parts": drawn(told, blocked=None if told["blocked_more"] else told["blocked"]),
        "dead": jobs.told(call, dead),
        "now": moment(call.queue.now()),
        "filter": {"group": found.name},
    }


def _some(call: Call, name: str, state: State) -> list[Any]:
    """Return some of the newest jobs of a group in a state, of some thousands of the newest."""
    return call.queue.search(Filter(groups=(name,), states=(state,)), limit=SHOWN).jobs


def drawn(group: dict[str, Any], *, blocked: int | None = None) -> list[Part]:
    """Return the parts of the bar of a group that was described, those that are empty left out.

    Jobs that are blocked are parts of those that wait, where nobody has counted them.
    """
    held = blocked or 0
    waiting = max(group["open"] - group["running"] - held, 0)
    counts = {
        "completed": (group["completed"], "completed", State.COMPLETED),
        "dead": (group["dead"], "dead", State.DEAD),
        "cancelled": (group["cancelled"] - group["not_needed"], "cancelled", State.CANCELLED),
        "unneeded": (group["not_needed"], "not needed", State.CANCELLED),
        "running": (group["running"], "running", State.PROCESSING),
        "waiting": (waiting, "waiting", None),
        "blocked": (held, "blocked", State.BLOCKED),
    }
    there = {kind: row for kind, row in counts.items() if row[0] > 0}
    total = sum(count for count, _, _ in there.values()) or 1
    widths = {kind: max(100 * row[0] / total, LEAST) for kind, row in there.items()}
    scale = 100 / (sum(widths.values()) or 1)
    parts, x = [], 0.0
    for kind, (count, label, state) in there.items():
        width = widths[kind] * scale
        parts.append(
            Part(
                kind=kind,
                sign=_SIGNS[kind],
                label=label,
                count=count,
                state=state,
                x=round(x, 3),
                width=round(width, 3),
            )
        )
        x += width
    return parts
