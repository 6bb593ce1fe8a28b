"""Changing jobs by hand: cancel, retry and remove them, as many as wanted in one transaction.

All are changed as they are inside the transaction or, if one of them can't be, none.
"""

from collections.abc import Callable, Iterable, Sequence

from queuectl import lifecycle
from queuectl.errors import NotFoundError, StateError
from queuectl.host import whoami
from queuectl.job import FINISHED, Job, State
from queuectl.request import check_text
from queuectl.store.contract import Event, Store, Topic

LONGEST_REASON = 10_000
"""Bytes that the reason for a cancellation can have."""


def cancel(store: Store, jobs: Sequence[Job], reason: str | None) -> list[Job]:
    """Cancel jobs that wait, and ask the nodes of those that run to end them."""
    if reason:
        check_text("the reason", reason, longest=LONGEST_REASON)
    why = f"cancelled by {whoami()}" + (f": {reason}" if reason else "")
    return _change(store, jobs, lambda held: _cancel(store, held, why), check=check_cancel)


def _cancel(store: Store, jobs: Sequence[Job], why: str) -> set[int]:
    now = store.now()
    waiting = [job for job in jobs if job.state != State.PROCESSING]
    running = [job for job in jobs if job.state == State.PROCESSING]
    done = store.apply_all([(job, lifecycle.cancelled(job, why)) for job in waiting], now=now)
    if running:
        done |= store.ask_cancel_all(running, why, now=now)
        store.nudge(Topic.CONTROL)
    _record(store, "cancel", ((job, why) for job in jobs))
    return done


def check_cancel(job: Job) -> None:
    """Raise why a job can't be cancelled, if that is so."""
    if job.state in FINISHED:
        raise StateError(f"Job {job.id} is {job.state} already; it can't be cancelled.")
    if job.state == State.PROCESSING and job.cancel_reason is not None:
        raise StateError(f"Job {job.id} is being cancelled already.")


def retry(store: Store, jobs: Sequence[Job]) -> list[Job]:
    """Put jobs back in line, to run now."""
    now = store.now()
    return _change(
        store, jobs, lambda held: _retry(store, held), check=lambda job: check_retry(job, now)
    )


def check_retry(job: Job, now: int) -> None:
    """Raise why a job can't be put back in line now, if that is so."""
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; wait for it or cancel it first.")
    if job.state == State.PENDING and job.run_at <= now:
        raise StateError(f"Job {job.id} is pending already; it needs a worker, not a retry.")


def check_dead(job: Job) -> None:
    """Raise why a job isn't to be found in the dead letter queue, if that is so."""
    if job.state != State.DEAD:
        raise StateError(f"Job {job.id} is {job.state}, not dead; see queuectl dlq list.")


def _retry(store: Store, jobs: Sequence[Job]) -> set[int]:
    now = store.now()
    done = store.apply_all([(job, lifecycle.retried(now)) for job in jobs], now=now)
    was = ((job, f"was {job.state}: {job.reason or job.error or ''}") for job in jobs)
    _record(store, "retry", was)
    store.nudge(Topic.WORK)
    return done


def remove(store: Store, jobs: Sequence[Job]) -> list[Job]:
    """Delete jobs that don't run, with all that is kept of them."""
    return _change(store, jobs, lambda held: _remove(store, held), check=check_remove)


def _remove(store: Store, jobs: Sequence[Job]) -> set[int]:
    _record(store, "rm", ((job, f"was {job.state}") for job in jobs))
    return store.remove_all(jobs)


def check_remove(job: Job) -> None:
    """Raise why a job can't be removed, if that is so."""
    if job.state == State.PROCESSING and job.cancel_reason is not None:
        raise StateError(f"Job {job.id} is being cancelled; remove it when that is done.")
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; cancel it first.")


def _change(
    store: Store,
    jobs: Sequence[Job],
    change: Callable[[list[Job]], set[int]],
    *,
    check: Callable[[Job], None],
) -> list[Job]:
    """Change jobs, and return them as they are then; those that are gone, as they were."""
    named = {job.seq: job for job in jobs}

    def apply() -> list[Job]:
        held = {job.seq: job for job in store.lock(list(named.values()))}
        for seq, job in named.items():
            # Another queue, or one that was made anew, has another job at that place.
            if seq not in held or held[seq].id != job.id:
                raise NotFoundError(f"Job {job.id} isn't here, or was removed meanwhile.")
            check(held[seq])
        before = [held[seq] for seq in named]
        done = change(before)
        for job in before:
            if job.seq not in done:
                raise StateError(f"Job {job.id} changed meanwhile; look at it and try again.")
        after = {job.seq: job for job in store.lock(before)}
        return [after.get(job.seq, job) for job in before]

    return store.transact(apply) if named else []


def _record(store: Store, kind: str, told: Iterable[tuple[Job, str]]) -> None:
    at, who = store.now(), whoami()
    store.record_all(
        [
            Event(at=at, kind=kind, job=job.id, node=None, who=who, detail=detail)
            for job, detail in told
        ]
    )
