"""What goes into a row: jobs, fences, transitions and ended runs as bound parameters."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from queuectl.job import FINISHED, JOB_COLUMNS, Job, NewJob, State, Transition
from queuectl.store.contract import Ended, InLine
from queuectl.store.transactions import Row

_PENDING = State.PENDING.value

_PLACES = {name: place for place, name in enumerate(JOB_COLUMNS)}
_ATTEMPTS = _PLACES["attempts"]
_IN_LINE = tuple(_PLACES[name] for name in ("priority", "seq", "crashes", "run_at"))


def new_row(job: NewJob, id: str, now: int) -> Row:
    """Describe a job to be stored: what goes into the columns that `ENQUEUE` names."""
    run_at = now if job.run_at is None else job.run_at
    return (
        id,
        job.queue,
        _PENDING,
        1 if run_at <= now else 0,
        job.priority,
        run_at,
        job.command,
        None if job.argv is None else json.dumps(job.argv, ensure_ascii=False),
        job.cwd,
        json.dumps(dict(job.env), ensure_ascii=False) if job.env else None,
        json.dumps(job.tags, ensure_ascii=False) if job.tags else None,
        job.expires_at,
        job.timeout,
        job.max_retries,
        None if job.backoff is None else job.backoff.value,
        job.backoff_base,
        job.retry_delay,
        job.max_backoff,
        now,
        now,
    )


def storable(text: str) -> bool:
    """Tell whether a text can be in a store at all: bytes that aren't UTF-8 and NULs can't."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def fence(job: Job) -> dict[str, Any]:
    """Name exactly one run of one job."""
    return {"seq": job.seq, "id": job.id, "attempt": job.attempts}


def transition_row(transition: Transition, now: int) -> dict[str, Any]:
    """Describe what a transition makes of a job, readiness included."""
    state = transition.state
    ready = None
    if state in (State.PENDING, State.FAILED):
        ready = 1 if transition.run_at is None or transition.run_at <= now else 0
    if ready == 1:
        # A failed job that may run at once is simply pending again.
        state = State.PENDING
    return {
        "state": state.value,
        "ready": ready,
        "run_at": transition.run_at,
        "failures": transition.failures,
        "crashes": transition.crashes,
        "reason": transition.reason,
        "final": int(state in FINISHED),
    }


def whole_in_line(row: Row) -> InLine:
    """Make what a claim looks at of a row that has `JOB_COLUMNS` in their order."""
    priority, seq, crashes, run_at = (row[place] for place in _IN_LINE)
    return InLine(priority, seq, crashes, run_at, row)


def claimed_job(row: Sequence[Any], run: Mapping[str, Any]) -> Job:
    """Make a job of what was read right before it was claimed."""
    values = list(row)
    values[_ATTEMPTS] += 1
    for name, value in (
        ("state", State.PROCESSING),
        ("node", run["node"]),
        ("worker", run["worker"]),
        ("started_at", run["now"]),
        ("updated_at", run["now"]),
        ("finished_at", None),
        ("duration_ms", None),
        ("exit_code", None),
        ("reason", None),
        ("cancel_reason", None),
    ):
        values[_PLACES[name]] = value
    return Job.from_row(values)


def ended_row(end: Ended) -> dict[str, Any]:
    """Describe a run that is over, fenced by its number and node."""
    outcome, output = end.outcome, end.output
    completed = end.transition.state == State.COMPLETED
    return (
        fence(end.job)
        | transition_row(end.transition, end.finished_at)
        | {
            "node": end.job.node,
            "worker": end.job.worker or 0,
            "host": end.host,
            "started_at": end.started_at,
            "finished_at": end.finished_at,
            "duration_ms": end.duration_ms,
            "outcome": outcome.name,
            "exit_code": getattr(outcome, "code", None),
            "signal": getattr(outcome, "signal", None),
            "error": None if completed else end.error,
            "stdout_bytes": output.stdout_bytes,
            "stderr_bytes": output.stderr_bytes,
        }
    )


def output_row(end: Ended) -> dict[str, Any]:
    """Describe what a run wrote."""
    return {
        "seq": end.job.seq,
        "attempt": end.job.attempts,
        "stdout": end.output.stdout,
        "stderr": end.output.stderr,
    }
