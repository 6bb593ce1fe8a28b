"""Which jobs fit a filter, and by what they are sorted."""

import json
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from queuectl.facts import Event
from queuectl.filter import EventFilter, Filter
from queuectl.job import Job, State
from queuectl.when import milliseconds

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def sortable(job: Job, column: str) -> Any:
    value = getattr(job, column)
    return str(value) if isinstance(value, str) else value


def fits(job: Job, which: Filter) -> bool:
    finished = job.finished_at
    return (
        (not which.states or job.state in which.states)
        and (not which.queues or job.queue in which.queues)
        and (not which.types or job.type in which.types)
        and set(which.tags) <= set(job.tags)
        and (not which.groups or job.group in which.groups)
        and set(which.keys) <= set(job.keys)
        and _is_due(job, which)
        and (which.since is None or job.created_at >= milliseconds(which.since))
        and (which.until is None or job.created_at < milliseconds(which.until))
        and (
            which.finished_since is None
            or (finished is not None and finished >= milliseconds(which.finished_since))
        )
        and (
            which.finished_before is None
            or (finished is not None and finished < milliseconds(which.finished_before))
        )
        and _says(job, which.text.translate(_LOWER))
    )


def event_fits(event: Event, which: EventFilter) -> bool:
    return (
        which.who.translate(_LOWER) in event.who.translate(_LOWER)
        and which.kind in ("", event.kind)
        and (
            not which.text or which.text.translate(_LOWER) in (event.detail or "").translate(_LOWER)
        )
        and (which.since is None or event.at >= milliseconds(which.since))
        and (which.until is None or event.at < milliseconds(which.until))
    )


def _is_due(job: Job, which: Filter) -> bool:
    since, before = which.due_since, which.due_before
    if (since, before) == (None, None):
        return True
    waits = job.state in (State.PENDING, State.FAILED)
    is_late = since is None or job.run_at >= milliseconds(since)
    return waits and is_late and (before is None or job.run_at < milliseconds(before))


def _says(job: Job, text: str) -> bool:
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    argv = "" if job.argv is None else json.dumps(job.argv, ensure_ascii=False)
    plain = (job.id, job.command or "", job.error or "", job.reason or "")
    return quoted in argv.translate(_LOWER) or any(text in t.translate(_LOWER) for t in plain)
