"""One job: everything about it."""

import json
import re
from typing import Any

from queuectl import bounds
from queuectl.errors import NotFoundError
from queuectl.explain import Cause
from queuectl.job import FINISHED, WAITING, Job, State
from queuectl.outputs import STREAMS
from queuectl.report import step_dict, why_ended
from queuectl.views import job_whole
from queuectl.web.api.jobs import masked
from queuectl.web.call import Call
from queuectl.web.pages.graph import next_to
from queuectl.web.pages.page import File, Pages
from queuectl.web.route import Param

SHOWN = 64 << 10
"""Bytes of a stream that a page shows to who has no script; the end of it."""
pages = Pages()

_UNFIT = (Cause.NO_LABEL, Cause.TOO_LARGE)
"""Why a job doesn't run wherever it is in line, and whenever it is due."""
_ATTEMPT = Param(
    name="attempt", schema={"type": "integer", "minimum": 1}, about="Of this run; else the newest."
)
_STREAM = Param(
    name="stream", schema={"type": "string", "enum": list(STREAMS)}, about="Which of the two."
)


@pages.show("/jobs/{id}", "job.html")
def job(call: Call) -> dict[str, Any]:
    """Show a job."""
    found = call.job()
    said = masked(call, job_whole(call.queue, found, sees=call.grant.is_for))
    return {
        "job": said,
        "title": found.title,
        "bounds": bounds.told(found.bounds) if found.bounds else None,
        "why": why_ended(found) if found.state in FINISHED else found.error,
        "is_waiting": found.state in WAITING,
        "is_running": found.state == State.PROCESSING,
        "is_finished": found.state in FINISHED,
        "may_retry": found.state in FINISHED or _may_run_now(found, said),
        "steps": [step_dict(step) for step in call.queue.steps(found)],
        "history": history(said),
        "written": _written(call, found),
        "result": None if said["result"] is None else _json(said["result"]),
        **next_to(call, found, said),
    }


def _may_run_now(found: Job, said: dict[str, Any]) -> bool:
    """Tell whether a job that waits could run if it were due: not what no node can run at all."""
    is_alone = found.state in (State.PENDING, State.FAILED)
    return is_alone and not any(one["cause"] in _UNFIT for one in said["waits_for"])


def history(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a job went through, the oldest first."""
    events = said["events"]
    text = f"enqueued in {_first_queue(said)}"
    found = [{"at": said["created_at"], "kind": "created", "text": text}]
    for run in said["runs"]:
        where = f"attempt {run['number']} began on {run['node']}"
        found.append({"at": run["started_at"], "kind": "began", "text": where})
        ended = f"attempt {run['number']} ended: {run['error'] or run['outcome']}"
        kind = "good" if run["exit_code"] == 0 else "bad"
        found.append({"at": run["finished_at"], "kind": kind, "text": ended})
    if said["state"] == State.PROCESSING and said["started_at"] is not None:
        text = f"attempt {said['attempts']} began on {said['node']}"
        found.append({"at": said["started_at"], "kind": "began", "text": text})
    found += [
        {"at": event["at"], "kind": _kind(event), "text": _event_told(event)} for event in events
    ]
    if said["state"] in ("pending", "failed") and said["run_at"]:
        found.append({"at": said["run_at"], "kind": "due", "text": "due"})
    if said["state"] in FINISHED and said["finished_at"] and not _is_told(said):
        found.append({"at": said["finished_at"], "kind": said["state"], "text": said["state"]})
    return sorted(found, key=lambda one: one["at"])


_DONE = {
    "cancel": "called off",
    "edit": "changed",
    "hold": "held",
    "move": "moved",
    "release": "released",
    "retry": "retried",
    "swap": "swapped",
    "top": "put first",
}
"""What was done by hand, as the timeline says it; of others their kind is good enough."""
_MOVED = re.compile(r"(?:^|; )queue (.+?) -> ")


def _first_queue(said: dict[str, Any]) -> str:
    """Return the queue that a job was enqueued in: of one that was moved, the first one's name."""
    for event in said["events"]:
        if event["kind"] in ("move", "edit", "retry") and (
            found := _MOVED.search(event["detail"] or "")
        ):
            return found[1]
    return str(said["queue"])


def _kind(event: dict[str, Any]) -> str:
    return "dead" if event["kind"] == State.DEAD else "event"


def _event_told(event: dict[str, Any]) -> str:
    detail = f": {event['detail']}" if event["detail"] else ""
    if event["kind"] == State.DEAD:
        return f"dead{detail}"
    return f"{_DONE.get(event['kind'], event['kind'])} by {event['who']}{detail}"


def _is_told(said: dict[str, Any]) -> bool:
    """Tell whether an event says already what the job has come to."""
    says = {State.DEAD: "dead", State.CANCELLED: "cancel"}.get(said["state"])
    return any(
        event["kind"] == says and event["at"] >= said["finished_at"] for event in said["events"]
    )


def _written(call: Call, found: Job) -> list[dict[str, Any]]:
    """Return what its newest run that is over has written, for who has no script."""
    output = call.queue.output(found)
    streams = (
        (STREAMS[0], output.stdout, output.stdout_bytes),
        (STREAMS[1], output.stderr, output.stderr_bytes),
    )
    return [
        {"name": name, "text": data[-SHOWN:].decode("utf-8", "replace"), "bytes": total}
        for name, data, total in streams
        if data
    ]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


@pages.show("/jobs/{id}/output", query=(_ATTEMPT, _STREAM))
def output(call: Call) -> File:
    """Save what a run wrote to one of its streams."""
    found, stream = call.job(), call.query.get("stream", STREAMS[0])
    written = call.queue.written(found, call.query.get("attempt"))
    if not written.number:
        raise NotFoundError(f"Job {found.id} hasn't run yet.")
    data = written.output.stdout if stream == STREAMS[0] else written.output.stderr
    return File(name=f"{found.id}.{written.number}.{stream}.txt", data=data)
