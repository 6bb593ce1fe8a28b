"""What the runs of a job wrote: those that are over, and the one that goes on."""

from queuectl.errors import NotFoundError, UsageError, shown
from queuectl.finding import get
from queuectl.job import Attempt, Job, Output, State
from queuectl.place import Place
from queuectl.store.contract import Store
from queuectl.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a run wrote, as far as it got."""

    job: Job
    """The job, as it was then."""
    number: int
    """Which run; 0 when there was none."""
    run: Attempt | None = None
    """The run, when it is over."""
    output: Output = Output()
    whole: bool = True
    """Whether that is all so far; not if the run goes on, and its node doesn't answer."""


def kept(store: Store, job: Job, attempt: int | None) -> Output:
    if attempt is not None and type(attempt) is not int:
        raise UsageError(f"attempt must be the number of a run, not {shown(attempt)}.")
    runs = store.history.attempts(job)
    number = attempt if attempt is not None else (runs[-1].number if runs else 0)
    is_over = any(run.number == number for run in runs)
    found = store.history.output(job, number) if is_over else None
    if found is not None:
        return found
    if attempt is None:
        return Output()
    raise NotFoundError(f"Job {job.id} has no finished attempt {attempt}.")


def written(store: Store, place: Place, job: Job, attempt: int | None) -> Written:
    number = job.attempts if attempt is None else attempt
    if number > job.attempts:
        raise NotFoundError(f"Job {job.id} has no attempt {number}; it has {job.attempts} so far.")
    runs = store.history.attempts(get(store, job.id))
    run = next((run for run in runs if run.number == number), None)
    if run is not None:
        output = store.history.output(job, number) or Output()
        return Written(job=job, number=number, run=run, output=output)
    if job.state == State.PROCESSING and number == job.attempts:
        return _so_far(store, place, job)
    if attempt is not None:
        raise NotFoundError(f"Nothing is kept of attempt {number} of job {job.id}.")
    return Written(job=job, number=number)


def _so_far(store: Store, place: Place, job: Job) -> Written:
    """Read what a run has written so far; if it is over by now, take what the store has."""
    from queuectl.live import so_far

    settings, _ = place.settings(store.settings.config())
    output, whole = so_far(store, job, settings.output_limit)
    now = get(store, job.id)
    if (now.state, now.attempts) != (State.PROCESSING, job.attempts):
        return written(store, place, now, job.attempts)
    return Written(job=now, number=job.attempts, output=output, whole=whole)
