"""What the runs of a job wrote."""

from queuectl.errors import NotFoundError, UsageError, shown
from queuectl.job import Job, Output
from queuectl.store.contract import Store


def kept(store: Store, job: Job, attempt: int | None) -> Output:
    """Return what a finished run of a job wrote: the newest, or the one with this number."""
    if attempt is not None and type(attempt) is not int:
        raise UsageError(f"attempt must be the number of a run, not {shown(attempt)}.")
    runs = store.attempts(job)
    number = attempt if attempt is not None else (runs[-1].number if runs else 0)
    is_over = any(run.number == number for run in runs)
    found = store.output(job, number) if is_over else None
    if found is not None:
        return found
    if attempt is None:
        return Output()
    raise NotFoundError(f"Job {job.id} has no finished attempt {attempt}.")
