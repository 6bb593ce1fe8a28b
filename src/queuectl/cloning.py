"""Making another job of what one was asked for: all of it, also what is shown nowhere."""

from collections.abc import Mapping
from typing import Any

from queuectl import editing
from queuectl.dependencies import read_parent
from queuectl.enqueueing import Enqueuer
from queuectl.errors import DuplicateError, StateError
from queuectl.fields import COPIED
from queuectl.job import Job, State
from queuectl.request import Values
from queuectl.store.contract import Store
from queuectl.uniqueness import OnDuplicate
from queuectl.values import dataclass, replace

NOT_CLONED = ("traceparent", "tracestate", "after")
"""What was asked for, and is of that one job."""
_SOURCES = {"type": "type", "unique": "unique_key"}
"""What of a job says a field that isn't called so there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """A job that was made of another, and what it hasn't got of that."""

    job: Job
    left_out: tuple[str, ...]
    """A sentence for each."""


def clone(store: Store, enqueuer: Enqueuer, job: Job, changes: Mapping[str, Any]) -> Clone:
    """Store another job like one, as `Queue.clone` does."""
    now = store.clock.now()
    check(job)
    asked = request_of(store, job, changes, now)
    left_out = own(job)
    if gone := [text for text in job.after if text not in asked["after"]]:
        left_out = (*left_out, f"That it waits for {', '.join(gone)}: not there any more.")
    try:
        return Clone(job=enqueuer.take_values(asked, now), left_out=left_out)
    except DuplicateError:
        if asked.get("unique") is None:
            raise
    asked |= dict.fromkeys(("unique", "unique_until", "unique_for", "on_duplicate"))
    kept = f"Its unique key {job.unique_key!r}: another job has it."
    return Clone(job=enqueuer.take_values(asked, now), left_out=(kept, *left_out))


def check(job: Job) -> None:
    """Raise why there can be no other job like this one, if that is so."""
    if job.webhook is not None:
        raise StateError(f"Job {job.id} is a delivery; retry it to have it sent again.")
    if job.command is None and job.argv is None and job.type is None:
        raise StateError(f"What job {job.id} was asked for can't be read.")


def own(job: Job) -> tuple[str, ...]:
    """Say what a job has that another like it doesn't get, whatever it is."""
    said = [f"Its id {job.id}: the other has its own."]
    if job.schedule is not None:
        said.append(f"Its tick: no schedule has made the other, {job.schedule} least of all.")
    if job.hook_of is not None:
        said.append(f"That it is a hook of {job.hook_of}.")
    if job.traceparent is not None:
        said.append(f"Its trace {job.trace_id}.")
    return tuple(said)


def request_of(store: Store, job: Job, changes: Mapping[str, Any], now: int) -> Values:
    """Return what a job was asked for, with changes, as `request.read_values` has it."""
    is_early = job.run_at > now and not job.attempts
    fresh = replace(
        job,
        state=State.PENDING,
        run_at=job.run_at if is_early else now,
        expires_at=_expires_at(job, now, is_early=is_early),
        failures=0,
    )
    to = editing.edited(fresh, changes, now) if changes else fresh
    values: Values = {
        field.name: getattr(to, _SOURCES.get(field.name, field.column))
        for field in COPIED
        if field.name not in NOT_CLONED and field.kind != "bytes"
    }
    parents = {text: read_parent(text)[0] for text in to.after}
    there = store.jobs.states([*parents.values()]) if parents else {}
    values["after"] = tuple(text for text, id in parents.items() if id in there)
    for name in ("command", "argv", "parameters", "expires_at"):
        values[name] = getattr(to, name)
    values["expire"] = None
    if to.run_at > now:
        values["run_at"] = to.run_at
    if job.stdin_bytes is not None:
        values["stdin"] = store.jobs.stdin(job)
    if to.type is None:
        values = {name: it for name, it in values.items() if name not in ("type", "data")}
    if to.unique_key is not None:
        # The job that has it isn't the answer: that is most often the one that is cloned.
        values["on_duplicate"] = OnDuplicate.REJECT
    return values


def _expires_at(job: Job, now: int, *, is_early: bool) -> int | None:
    """Return until when another job like this one has to start: it has as long as that had."""
    if job.expires_at is None or is_early:
        return job.expires_at
    # Of one that was put off again and again, it isn't known any more when it was first due.
    was_due = job.run_at if job.attempts < 2 and job.run_at < job.expires_at else job.created_at
    return now + job.expires_at - was_due
