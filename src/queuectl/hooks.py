"""Hooks: which commands and handlers the end of a job calls for, and the jobs that run them.

Facts in, a decision out: no clock, no store. A store makes these jobs in the transaction that ends
the other one.
"""

import json
from collections.abc import Sequence
from enum import StrEnum

from queuectl.job import (
    FINISHED,
    TYPE,
    Expired,
    Job,
    NewJob,
    Outcome,
    Released,
    Snoozed,
    State,
)
from queuectl.job_json import job_dict
from queuectl.request import LARGEST_PRIORITY
from queuectl.when import iso

LONGEST_NAME = 220
"""Characters of the id of a job that the ids of its hooks have; with the rest, they are an id."""


class Occasion(StrEnum):
    """What a hook tells of."""

    SUCCESS = "success"
    """The job is completed."""
    FAILURE = "failure"
    """A run of it failed, timed out, could not start or crashed; also the last one."""
    DEAD = "dead"
    """It is dead, whatever of."""


def occasions(state: State, outcome: Outcome | None) -> Sequence[Occasion]:
    """Say what there is to tell of a job that came into a state, by a run unless that is None.

    Nothing of one that was cancelled, released unharmed, or sleeps: none ran to an end of its own.
    """
    if state == State.COMPLETED:
        return (Occasion.SUCCESS,)
    if state == State.CANCELLED or isinstance(outcome, Released | Snoozed):
        return ()
    failed = () if outcome is None or isinstance(outcome, Expired) else (Occasion.FAILURE,)
    return (*failed, Occasion.DEAD) if state == State.DEAD else failed


def called_for(job: Job, outcome: Outcome | None) -> list[NewJob]:
    """Return the jobs that are to be made as a job, which is given as it is now, came to this.

    They wait in its queue, before others of its priority, and have retries and a timeout by the
    settings. A hook that names a type is a data job, for whoever handles that. A hook has no hooks.
    Their ids may be taken.
    """
    if not job.has_hooks:
        return []
    hooks = {
        Occasion.SUCCESS: job.on_success,
        Occasion.FAILURE: job.on_failure,
        Occasion.DEAD: job.on_dead,
    }
    return [
        _hook(job, outcome, occasion, hook)
        for occasion in occasions(job.state, outcome)
        if (hook := hooks[occasion])
    ]


def _hook(job: Job, outcome: Outcome | None, occasion: Occasion, hook: str) -> NewJob:
    code = None if outcome is None else getattr(outcome, "code", None)
    mark = f"{occasion} {job.attempts} {'-' if code is None else code} {job.id}"
    is_data = hook.startswith(TYPE)
    told = _told(job, outcome, occasion).encode()
    return NewJob(
        command=None if is_data else hook,
        type=hook.removeprefix(TYPE) if is_data else None,
        data=told if is_data else None,
        stdin=None if is_data else told + b"\n",
        id=f"{name_of(occasion, job.id)}{job.attempts}",
        queue=job.queue,
        priority=min(job.priority + 1, LARGEST_PRIORITY),
        cwd=job.cwd,
        env=job.env,
        env_all=job.env_all,
        shell=None if is_data else job.shell,
        traceparent=job.traceparent,
        tracestate=job.tracestate,
        hook=mark,
    )


def _told(job: Job, outcome: Outcome | None, occasion: Occasion) -> str:
    """Write what a hook is told: the job, and what has ended."""
    ended = {
        "hook": occasion.value,
        "at": iso(job.updated_at),
        "attempt": job.attempts,
        "outcome": _came_to(job, outcome),
        "exit_code": getattr(outcome, "code", None),
        "signal": getattr(outcome, "signal", None),
        "error": None if outcome is None else job.error,
        "final": job.state in FINISHED,
    }
    return json.dumps({**job_dict(job), "ended": ended}, ensure_ascii=False)


def _came_to(job: Job, outcome: Outcome | None) -> str:
    """Name what a job came to: by a run, by its time, or by hand."""
    if outcome is not None:
        return outcome.name
    return "finished" if job.state == State.COMPLETED else "expired"


def name_of(occasion: Occasion, id: str) -> str:
    """Return what the ids of all hooks begin with that tell this of a job."""
    return f"on-{occasion}.{id[:LONGEST_NAME]}."
