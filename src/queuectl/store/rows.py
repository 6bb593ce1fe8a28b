"""What goes into a row: jobs, fences, transitions and ended runs as bound parameters."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from queuectl.job import FINISHED, JOB_COLUMNS, Job, NewJob, State, Transition
from queuectl.store.contract import Ended

_ATTEMPTS = JOB_COLUMNS.index("attempts")


def new_row(job: NewJob, id: str, now: int) -> dict[str, Any]:
    """Describe a job to be stored."""
    run_at = now if job.run_at is None else job.run_at
    return {
        "id": id,
        "queue": job.queue,
        "state": State.PENDING.value,
        "ready": 1 if run_at <= now else 0,
        "priority": job.priority,
        "run_at": run_at,
        "command": job.command,
        "argv": None if job.argv is None else json.dumps(job.argv, ensure_ascii=False),
        "cwd": job.cwd,
        "env": json.dumps(dict(job.env), ensure_ascii=False) if job.env else None,
        "tags": json.dumps(job.tags, ensure_ascii=False) if job.tags else None,
        "expires_at": job.expires_at,
        "timeout": job.timeout,
        "max_retries": job.max_retries,
        "backoff": None if job.backoff is None else job.backoff.value,
        "backoff_base": job.backoff_base,
        "retry_delay": job.retry_delay,
        "max_backoff": job.max_backoff,
        "now": now,
    }


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


def claimed_job(row: Sequence[Any], run: Mapping[str, Any]) -> Job:
    """Make a job of what was read right before it was claimed."""
    return Job.from_row(
        row,
        state=State.PROCESSING,
        attempts=row[_ATTEMPTS] + 1,
        node=run["node"],
        worker=run["worker"],
        started_at=run["now"],
        updated_at=run["now"],
        finished_at=None,
        duration_ms=None,
        exit_code=None,
        reason=None,
        cancel_reason=None,
    )


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
