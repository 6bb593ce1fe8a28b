"""How a node puts what happens to its runs into words, for the log."""

from collections.abc import Iterable
from typing import Any

from queuectl.job import FINISHED, Job, State
from queuectl.node.log import Log, printable
from queuectl.node.runs import Run
from queuectl.store.contract import Ended
from queuectl.when import format_duration, iso, local


def tell_start(log: Log, now: int, job: Job) -> None:
    """Say that a run starts."""
    log.job(now, "started", job, f" ({_which(job)}): {printable(job.title)}")


def tell_end(log: Log, now: int, end: Ended, *, lost: bool) -> None:
    """Say how a run ended and what becomes of its job."""
    job, to = end.job, end.transition
    facts = _facts(end) if log.as_json else {}
    if lost:
        log.job(now, "ended too late", job, ": its lease was lost", level="warning")
    elif to.state == State.COMPLETED:
        log.job(now, "completed", job, f" in {end.duration_ms}ms", **facts)
    elif to.state == State.FAILED and to.run_at is not None:
        wait = to.run_at - now
        facts |= {"retry_at": iso(to.run_at), "retry_in_ms": wait}
        again = f"retry at {local(to.run_at)} (in {format_duration(wait)})"
        text = f" ({_which(job)}): {printable(end.error or '')}; {again}"
        log.job(now, "failed", job, text, level="error", **facts)
    elif to.state in FINISHED:
        level = "error" if to.state == State.DEAD else "info"
        text = f" ({_which(job)}): {printable(to.reason or '')}"
        log.job(now, to.state.value, job, text, level=level, reason=to.reason, **facts)
    else:
        text = f" ({_which(job)}): {printable(end.outcome.describe())}; it is pending again"
        log.job(now, "given back", job, text, level="warning", **facts)


def _facts(end: Ended) -> dict[str, Any]:
    return {
        "duration_ms": end.duration_ms,
        "outcome": end.outcome.name,
        "exit_code": getattr(end.outcome, "code", None),
        "error": end.error,
    }


def tell_put_back(log: Log, now: int, job: Job) -> None:
    """Say that a job was claimed ahead and can't be run soon."""
    log.job(now, "put back", job, ", not started yet")


def name_runs(runs: Iterable[Run]) -> str:
    """Name the jobs that run, the first few by id."""
    ids = [printable(run.job.id, 40) for run in runs]
    if not ids:
        return "nothing"
    more = len(ids) - 5
    return ", ".join(ids[:5]) + (f" and {more} more" if more > 0 else "")


def _which(job: Job) -> str:
    of = job.max_attempts
    return f"attempt {job.attempts}/{of}" if of else f"attempt {job.attempts}"
