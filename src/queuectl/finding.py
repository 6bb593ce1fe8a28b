"""Finding the job that is meant by an id, or by the beginning of one."""

from collections.abc import Iterable

from queuectl.errors import NotFoundError, UsageError, shown
from queuectl.fields import Identified
from queuectl.job import Job, Named
from queuectl.scope import reaches
from queuectl.store.contract import Store
from queuectl.store.ids import looks_made

SHORTEST_PREFIX = 4


def get(store: Store, named: Named) -> Job:
    name = name_of(named)
    job = store.jobs.get(name)
    if job is not None:
        if not reaches(job.queue):
            raise gone(job)
        return job
    if not isinstance(named, str):
        raise gone(named)
    if len(name) >= SHORTEST_PREFIX:
        found = store.jobs.like(name)
        if len(found) == 1:
            job = store.jobs.get(found[0])
        if len(found) > 1:
            shown = ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")
            raise UsageError(f"{name!r} fits several jobs ({shown}); give more characters.")
    elif store.jobs.like(name, 1):
        raise NotFoundError(
            f"There is no job {name!r}; give at least {SHORTEST_PREFIX} characters of an id."
        )
    if job is None:
        raise NotFoundError(f"There is no job {name!r}.", advice="see queuectl list.")
    return job


def gone(job: Identified) -> NotFoundError:
    """Return the error for a job that somebody holds, and the queue hasn't (any more)."""
    return NotFoundError(f"Job {job.id} isn't here, or was removed meanwhile.")


def meant(store: Store, named: Named) -> Job:
    job = get(store, named)
    if job.id == name_of(named) or looks_made(job.id):
        return job
    raise NotFoundError(f"There is no job {named!r}; {job.id!r} must be named in full.")


def all_meant(store: Store, call: str, jobs: Iterable[Named]) -> list[Job]:
    """Return several jobs; those given as such are looked at where they are changed."""
    return [job if isinstance(job, Job) else meant(store, job) for job in several(call, jobs)]


def several(call: str, jobs: Iterable[Named]) -> Iterable[Named]:
    """Return several jobs or ids as they are; one alone is an error, for it would be several, too.

    A text consists of letters, and a job of its fields.
    """
    if isinstance(jobs, str | Job) or not isinstance(jobs, Iterable):
        raise UsageError(f"{call} takes several jobs or ids, such as a list.")
    return jobs


def name_of(named: Named) -> str:
    """Return the id, or the beginning of one, by which a job is named."""
    name = getattr(named, "id", named)
    if not isinstance(name, str):
        raise UsageError(f"A job is named by its id, which is text, not by {shown(named)}.")
    return name
