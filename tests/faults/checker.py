"""Compares what jobs and enqueuers saw with what the queue says through its public interface.

Each function returns the promises that were broken, in a sentence each; none is good.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from queuectl import Job, Queue, State
from tests.faults.ledger import Ledger, Orders, Run

Jobs = Mapping[str, Job]
Runs = Mapping[str, Sequence[Run]]
SHOWN = 5
"""Of many of a kind, so many are named."""


def check(queue: Queue, ledger: Ledger, line: str | None = None) -> list[str]:
    """Check all that must hold once every job, perhaps of one queue, has come to its end."""
    jobs = {job.id: job for job in queue.list(queue=line, limit=None)}
    runs, orders = ledger.runs(), ledger.orders()
    return [
        *nothing_is_lost(orders, jobs),
        *nothing_is_made_up(orders, jobs, runs),
        *all_are_completed(jobs, runs),
        *no_runs_overlap(runs),
        *no_attempt_runs_twice(jobs, runs),
        *none_finishes_twice(queue, jobs),
        *none_dies_unheard(queue, jobs),
    ]


def nothing_is_lost(orders: Orders, jobs: Jobs) -> list[str]:
    """Every job that was acknowledged is there, under its own id, once."""
    return [
        *_each("acknowledged, and lost", orders.acknowledged - jobs.keys()),
        *_each("acknowledged twice", orders.doubled),
    ]


def nothing_is_made_up(orders: Orders, jobs: Jobs, runs: Runs) -> list[str]:
    """Every job that is there was asked for, and none of those whose asker was told no."""
    there = jobs.keys() | runs.keys()
    return [
        *_each("never asked for, and there", there - orders.asked),
        *_each("refused, and there all the same", there & orders.refused),
    ]


def all_are_completed(jobs: Jobs, runs: Runs) -> list[str]:
    """Every job is completed, and the run that completed it came to its end."""
    unfinished = (
        f"{id} ({job.state}, {job.reason})"
        for id, job in jobs.items()
        if job.state != State.COMPLETED
    )
    hollow = (
        id
        for id, job in jobs.items()
        if job.state == State.COMPLETED
        and not any(run.attempt == job.attempts and run.ended for run in runs.get(id, ()))
    )
    return [
        *_each("not completed", unfinished),
        *_each("completed, though that run never came to its end", hollow),
    ]


def no_runs_overlap(runs: Runs) -> list[str]:
    """No two runs of a job were alive at once."""
    both = (id for id, all_ in runs.items() if any(run.overlapped for run in all_))
    return _each("ran while another run of it was alive", both)


def no_attempt_runs_twice(jobs: Jobs, runs: Runs) -> list[str]:
    """A number is given to one run only, and never one that the queue doesn't know of."""
    doubled, unknown = set(), set()
    for id, all_ in runs.items():
        counts = Counter(run.attempt for run in all_)
        doubled |= {f"{id} #{number}" for number, many in counts.items() if many > 1}
        if id in jobs:
            unknown |= {f"{id} #{number}" for number in counts if number > jobs[id].attempts}
    return [
        *_each("ran twice under one number", doubled),
        *_each("ran, and the queue doesn't know of it", unknown),
    ]


def none_finishes_twice(queue: Queue, jobs: Jobs) -> list[str]:
    """Of all attempts of a job that are kept, at most one was good, and none came after it."""
    twice = set()
    for id, job in jobs.items():
        if job.attempts > 1:
            kept = queue.attempts(id)
            good = [attempt.number for attempt in kept if attempt.exit_code == 0]
            if len(good) > 1 or (good and good[0] != job.attempts) or len(kept) != job.attempts:
                twice.add(f"{id} (kept {[(a.number, a.outcome) for a in kept]})")
    return _each("finished more than once, or without a trace of an attempt", twice)


def none_dies_unheard(queue: Queue, jobs: Jobs) -> list[str]:
    """Every dead job has an event that says so; one, as nobody has put it back in line."""
    unheard = set()
    for id, job in jobs.items():
        kinds = [event.kind for event in queue.events(id)] if job.state == State.DEAD else ["dead"]
        if kinds.count("dead") != 1:
            unheard.add(f"{id} ({kinds})")
    return _each("dead, and its events don't say so once", unheard)


def runs_beyond_one(runs: Runs) -> int:
    """Return how many runs there were more than jobs that ran."""
    return sum(len(all_) - 1 for all_ in runs.values())


def _each(what: str, ids: Iterable[str]) -> list[str]:
    ids = sorted(ids)
    if not ids:
        return []
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return [f"{what}: {', '.join(ids[:SHOWN])}{more}"]
