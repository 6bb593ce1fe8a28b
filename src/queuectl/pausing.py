"""Pausing jobs that run: all their processes stand still until they are resumed."""

from collections.abc import Iterable, Mapping

from queuectl import finding
from queuectl.changes import is_ending
from queuectl.errors import StateError
from queuectl.facts import Event, Pause
from queuectl.history import event_of
from queuectl.job import FINISHED, Job, Named, State
from queuectl.store.contract import Store


def set_paused(store: Store, call: str, jobs: Iterable[Named], *, paused: bool) -> dict[str, bool]:
    """Pause the runs of jobs, or let them go on: all of them or, if one can't be, none.

    Returns whether that changed anything, by the ids.
    """
    named = {job.seq: job for job in finding.all_meant(store, call, jobs)}

    def decide(held: Mapping[int, Job], pauses: Mapping[int, Pause], now: int) -> dict[int, Event]:
        for seq, job in named.items():
            if seq not in held or held[seq].id != job.id:
                raise finding.gone(job)
            check(held[seq], paused=paused)
        kind = "pause" if paused else "resume"
        return {
            seq: event_of(now, kind, job=job.id, node=held[seq].node)
            for seq, job in named.items()
            if (seq in pauses) != paused
        }

    changed = store.runs.set_paused(list(named.values()), decide)
    return {job.id: seq in changed for seq, job in named.items()}


def check(job: Job, *, paused: bool) -> None:
    """Raise why a job can't be paused or resumed, if that is so."""
    done = "paused" if paused else "resumed"
    if job.state in FINISHED:
        raise StateError(f"Job {job.id} is {job.state}; only jobs that run can be {done}.")
    if job.state != State.PROCESSING:
        raise StateError(
            f"Job {job.id} doesn't run, it is {job.state}; only jobs that run can be {done}.",
            advice="queuectl hold keeps one that waits from running." if paused else "",
        )
    if is_ending(job):
        raise StateError(f"Job {job.id} is being cancelled; it can't be {done} any more.")
