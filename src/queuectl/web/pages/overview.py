"""The first page: how things stand, and how they went of late."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from queuectl.job import State
from queuectl.report import moment
from queuectl.titles import titled
from queuectl.values import dataclass
from queuectl.views import queue_dicts
from queuectl.web.call import Call
from queuectl.web.pages import charts, words
from queuectl.web.pages.page import Pages
from queuectl.web.route import Param

if TYPE_CHECKING:
    from queuectl.explain import Reason
    from queuectl.queue import Queue
    from queuectl.report import Part

MINUTE, HOUR = 60_000, 3_600_000
MOST_LINES = 12
"""Queues that get a line of their own, with what keeps them: those with the most to do."""
pages = Pages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """How far back charts go, and in which steps."""

    name: str
    parts: int
    span: int


RANGES = {
    one.name: one
    for one in (
        Range(name="hour", parts=60, span=MINUTE),
        Range(name="day", parts=96, span=15 * MINUTE),
        Range(name="week", parts=84, span=2 * HOUR),
        Range(name="month", parts=30, span=24 * HOUR),
    )
}
RANGE = Param(
    name="range",
    schema={"type": "string", "enum": list(RANGES)},
    about="How far back charts go.",
)
_ENDS = (("completed", "ok"), ("failed", "warn"), ("dead", "bad"))
"""How runs end that are counted, and the class of that in charts."""


@pages.show("/", "overview.html", title="Overview", query=(RANGE,))
def overview(call: Call) -> dict[str, Any]:
    """Show counts, charts, queues and nodes."""
    chosen = RANGES[call.query.get("range", "hour")]
    status = call.queue.status()
    rows = [row for row in queue_dicts(call.queue, status) if call.grant.is_for(row["name"])]
    rows.sort(key=lambda row: (-row["running"], -row["waiting"], row["name"]))
    states = {
        state.value: sum(row["states"][state.value] for row in rows)
        if call.grant.queues
        else status.states[state]
        for state in State
    }
    shown = rows[:MOST_LINES]
    choices = [call.grant.queues, *([row["name"]] for row in shown)]
    lately, *each = call.queue.several_series(choices, **_within(call.queue, RANGES["hour"]))
    why = call.queue.hindrances_of_each([row["name"] for row in shown if row["waiting"]])
    parts = lately if chosen.span == MINUTE else series(call, chosen)
    return {
        "range": chosen.name,
        "ranges": list(RANGES),
        "states": states,
        "pace": sum(sum(part.runs.values()) for part in lately[-6:-1]) / 5,
        "charts": drawn(parts, chosen.span),
        "since": moment(parts[0].at),
        "until": moment(parts[-1].at + chosen.span),
        "queues": [_line(row, why, of_it) for row, of_it in zip(shown, each, strict=True)],
        "more_queues": max(len(rows) - MOST_LINES, 0),
        "nodes": [] if call.grant.queues else with_runs(call, list(status.nodes)),
        "sees_nodes": not call.grant.queues,
    }


def recall(queue: "Queue") -> None:
    """Have the queue read the past that charts show, which takes a while if there is much of it."""
    for chosen in RANGES.values():
        queue.several_series([()], **_within(queue, chosen))


def series(call: Call, chosen: Range, queues: Sequence[str] = ()) -> "list[Part]":
    """Return the parts of charts: of some queues, or of all that who asks may see."""
    choice = tuple(queues) or call.grant.queues
    (found,) = call.queue.several_series([choice], **_within(call.queue, chosen))
    return found


def _within(queue: "Queue", chosen: Range) -> dict[str, int]:
    return {"since": queue.now() - (chosen.parts - 1) * chosen.span, "span": chosen.span}


def _line(
    row: dict[str, Any], why: "Mapping[str, Sequence[Reason]]", parts: "Sequence[Part]"
) -> dict[str, Any]:
    done = [sum(part.runs.values()) for part in parts]
    return {
        **row,
        "why": [reason.text for reason in why.get(row["name"], ())],
        "use": use(row),
        "spark": charts.area(done, charts.nice(max(done, default=0))),
        "done": sum(done),
    }


def use(row: dict[str, Any]) -> float | None:
    """Return how much of its limit a queue uses, in percent."""
    limit = row["limits"]["limit"]
    if limit is None:
        return None
    return 100.0 if not limit else min(100.0, 100 * row["running"] / limit)


def with_runs(call: Call, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say of nodes what runs on each of their workers."""
    found = []
    for node in nodes:
        jobs = sorted(call.queue.held(node["id"]), key=lambda job: (job.worker or 0, job.seq))
        runs = [
            {
                "id": job.id,
                "worker": job.worker,
                "queue": job.queue,
                "title": words.brief(titled(job, words.LONGEST)),
                "since": moment(job.started_at),
                "devices": {name: [*map(str, at)] for name, at in job.devices.items()},
            }
            for job in jobs
        ]
        found.append({**node, "runs": runs})
    return found


def drawn(parts: "Sequence[Part]", span: int) -> list[charts.Chart]:
    """Draw what ended, and how long it took."""
    return [_ended(parts, span), *(_times(parts, name) for name in ("run", "wait"))]


def _ended(parts: "Sequence[Part]", span: int) -> charts.Chart:
    stacks = [[part.runs.get(name, 0) for part in parts] for name, _ in _ENDS]
    top = charts.nice(max(map(sum, zip(*stacks, strict=True)), default=0), least=4)
    rows = [
        (_at(part), [words.count(stack[number]) for stack in stacks])
        for number, part in enumerate(parts)
    ]
    totals = [sum(stack) for stack in stacks]
    each = {MINUTE: "minute", HOUR: "hour", 24 * HOUR: "day"}.get(span, words.duration(span))
    return charts.Chart(
        title=f"Runs per {each}",
        about=", ".join(
            f"{words.count(int(total))} {name}"
            for total, (name, _) in zip(totals, _ENDS, strict=True)
        ),
        layers=tuple(
            charts.Layer(kind=f"bar {kind}", path=path, label=f"{name} {words.short(total)}")
            for path, total, (name, kind) in zip(
                charts.bars(stacks, top), totals, _ENDS, strict=True
            )
        ),
        columns=tuple(name for name, _ in _ENDS),
        spots=tuple(charts.spots(rows)),
        top=words.short(top),
        middle=words.short(top / 2),
    )


def _at(part: "Part") -> str:
    return moment(part.at) or ""


def _times(parts: "Sequence[Part]", what: str) -> charts.Chart:
    found = [getattr(part, what) for part in parts]
    middle, most = [one.median for one in found], [one.p95 for one in found]
    known = [value for value in (*middle, *most) if value is not None]
    top = charts.nice(max(known, default=0), least=10)
    rows = [
        (_at(part), (words.duration(one.median), words.duration(one.p95), words.count(one.count)))
        for part, one in zip(parts, found, strict=True)
    ]
    title = {"run": "Run time", "wait": "Wait for a worker"}[what]
    last = next((one for one in reversed(found) if one.count), None)
    about = (
        "nothing yet"
        if last is None
        else (f"last p50 {words.duration(last.median)}, p95 {words.duration(last.p95)}")
    )
    return charts.Chart(
        title=title,
        about=about,
        layers=(
            charts.Layer(kind="line far", path=charts.line(most, top), label="p95"),
            charts.Layer(kind="line mid", path=charts.line(middle, top), label="p50"),
        ),
        columns=("p50", "p95", "runs"),
        spots=tuple(charts.spots(rows)),
        top=words.duration(top),
        middle=words.duration(top / 2),
    )
