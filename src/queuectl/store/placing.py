"""Places of jobs that wait, as people give them: before all others, elsewhere, or each other's."""

from queuectl.errors import NotFoundError
from queuectl.job import Job
from queuectl.scope import reaches
from queuectl.store.contract import Check, Edit, Swapped
from queuectl.store.idiom import Idiom
from queuectl.values import replace


def placed(idiom: Idiom, edit: Edit, was: Job, now: int, *, before: int = 0) -> Job:
    """Return a job that is edited with its place in the line; if it is to be first, `before` this.

    Of one that is parked it is asked anew whether there is room, if that may have changed.
    """
    job = edit.job
    if (job.queue, job.keys) != (was.queue, was.keys):
        job = replace(job, vtime=_seat(idiom, job), parked="" if job.is_held else None)
    elif job.parked and job.run_at > now:
        job = replace(job, parked=None)
    if edit.first:
        job = replace(job, vtime=min(before - 1, _first(idiom, job, now)))
    return job


def _seat(idiom: Idiom, job: Job) -> int:
    """Return the place of a job that comes into a queue, or to other keys."""
    limits = idiom.db.rows(idiom.sql.LIMITS, name=job.queue)
    if not job.keys and (not limits or limits[0][0] is None):
        return 0
    return idiom.limiting.seat(job.queue, job.keys)


def _first(idiom: Idiom, job: Job, now: int) -> int:
    """Return a place before those of all jobs of the same line and priority.

    By the time, who was put first last is also before jobs of other queues, and before those that
    aren't in line yet.
    """
    same = {"queue": job.queue, "handler": job.handler, "priority": job.priority}
    places: list[int | None] = [idiom.db.value(idiom.sql.FIRST_READY, **same)]
    places += [idiom.db.value(idiom.sql.FIRST_OF_KEY, **same, parked=key) for key in job.keys]
    return min([-now, *(place - 1 for place in places if place is not None)])


def swap(idiom: Idiom, first: Job, second: Job, check: Check, now: int) -> Swapped:
    """Have two jobs take each other's place, as a part of a transaction."""
    a, b = _hold(idiom, first, second)
    idiom.record(check(a, b, now))
    for statement in (idiom.sql.DROP_PAUSES, idiom.sql.DROP_WATCHES, idiom.sql.DROP_ALL_LIVE):
        idiom.db.change(statement, {"seqs": idiom.bind([a.seq, b.seq])})
    spare = -a.seq
    _move(idiom, a, replace(b, seq=spare), now)
    _move(idiom, b, a, now)
    _move(idiom, replace(a, seq=spare), b, now)
    after = {job.id: job for job in idiom.jobs(idiom.sql.JOBS_AT, seqs=idiom.bind([a.seq, b.seq]))}
    return after[a.id], after[b.id]


def _hold(idiom: Idiom, *jobs: Job) -> list[Job]:
    """Return jobs as they are now; nobody else changes them until the transaction is over."""
    found = idiom.jobs(idiom.sql.LOCK_JOBS, seqs=idiom.bind([job.seq for job in jobs]))
    held = {job.id: job for job in found if reaches(job.queue)}
    for job in jobs:
        if job.id not in held:
            raise NotFoundError(f"Job {job.id} isn't here, or was removed meanwhile.")
    return [held[job.id] for job in jobs]


def _move(idiom: Idiom, job: Job, place: Job, now: int) -> None:
    """Give a job the place of another, and take along all that is kept of it."""
    db, sql = idiom.db, idiom.sql
    to = {"seq": job.seq, "to": place.seq}
    db.change(sql.MOVE_JOB, to | {"priority": place.priority, "vtime": place.vtime, "now": now})
    db.change(sql.MOVE_ATTEMPTS, to)
    db.change(sql.MOVE_OUTPUTS, to)
    if job.after:
        db.change(sql.MOVE_PARENTS, to)
    if job.has_children:
        db.change(sql.MOVE_CHILDREN, to)
    if job.attempts:
        db.change(sql.MOVE_RESULT, to)
        db.change(sql.MOVE_PROGRESS, to)
        db.change(sql.MOVE_STEPS, to)
        db.change(sql.MOVE_SLEEP, to)
    if job.stdin_bytes is not None:
        db.change(sql.MOVE_INPUTS, to)
    if job.tags:
        db.change(sql.MOVE_TAGS, to | {"ids": idiom.bind(job.tags)})
    if job.tick is not None:
        of_schedule = to | {"schedule": job.schedule}
        db.change(sql.MOVE_TICK, of_schedule | {"planned": job.planned})
        db.change(sql.MOVE_LAST, of_schedule)
