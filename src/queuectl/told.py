"""What runs have told and kept, for those who ask: results, progress, steps and data of jobs."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from queuectl.errors import NotFoundError, StateError, UsageError
from queuectl.facts import RunProgress, Step
from queuectl.filter import Filter
from queuectl.job import OPEN, Job, State, Usage
from queuectl.request import check_data_size, check_text
from queuectl.store.contract import RunId, Store

LONGEST_NAME = 256
"""Characters that the name of a step can have."""
LONGEST_OUTPUT = 1 << 20
"""Bytes that a step can keep."""


def result(store: Store, job: Job) -> Any:
    """Return what a completed job came to; that it has no result is an error."""
    from queuectl.jsontext import read_stored

    return read_stored(result_text(store, job))


def result_text(store: Store, job: Job) -> str:
    """Return the same as the JSON that its run wrote."""
    if job.state != State.COMPLETED:
        raise StateError(
            f"Job {job.id} is {job.state}; only a completed job has a result.",
            advice=f"queuectl wait {job.id} waits for its end." if job.state in OPEN else "",
        )
    found = store.reports.results([job]).get(job.seq)
    if found is None:
        raise NotFoundError(f"Job {job.id} has no result: the run that completed it set none.")
    return found


def results(store: Store, jobs: Sequence[Job]) -> dict[int, Any]:
    """Return what completed jobs came to, by their places; those without a result are missing."""
    from queuectl.jsontext import read_stored

    return {seq: read_stored(text) for seq, text in store.reports.results(jobs).items()}


def usages(store: Store, jobs: Sequence[Job]) -> dict[int, Usage]:
    """Return what the newest runs of these jobs that are over have used, by their places."""
    begun = [job for job in jobs if job.attempts]
    return store.reports.usages(begun) if begun else {}


def progress(store: Store, jobs: Sequence[Job]) -> dict[int, RunProgress]:
    """Return how far the newest runs of these jobs have come, or had, by their places."""
    begun = [job for job in jobs if job.attempts]
    return store.reports.progress(begun) if begun else {}


def running_progress(store: Store) -> dict[int, RunProgress]:
    """Return how far the jobs that run have come, by their places."""
    return progress(store, store.jobs.select(Filter(states=(State.PROCESSING,)), limit=None))


def result_of(value: Any) -> str:
    """Return a result as it is stored; what JSON can't say is a `UsageError`."""
    import json

    from queuectl.telling import check_result

    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return check_result(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"The result can't be written as JSON: {error}.") from None


# -- data -------------------------------------------------------------------------------


def heartbeat(store: Store, run: RunId | None) -> Job:
    """Return the job of a run as it is now; one that should end is an error."""
    job = store.reports.running(_meant(run))
    if job.cancel_reason is not None:
        what = "finished" if job.is_forced else "cancelled"
        raise StateError(f"Job {job.id} is being {what}, so that this run should end.")
    return job


def update_data(
    store: Store, run: RunId | None, given: Mapping[str, Any] | str | bytes, *, replace: bool
) -> bytes:
    """Change the data of the job of a run, and return them as they are then."""
    if not isinstance(given, Mapping):
        data = given.encode() if isinstance(given, str) else bytes(given)
        return store.reports.set_data(_meant(run), lambda _: check_data_size("data", data))
    check_data_size("data", _json(given))
    changed = dict(given)
    make = (lambda _: _json(changed)) if replace else (lambda data: _merged(data, changed))
    return store.reports.set_data(_meant(run), make)


def _meant(run: RunId | None) -> RunId:
    return current_run() if run is None else RunId(*run)


def _merged(data: bytes, changed: Mapping[str, Any]) -> bytes:
    """Lay names and values over those of a JSON object."""
    import json

    try:
        known = json.loads(data)
    except (ValueError, RecursionError):
        known = None
    if not isinstance(known, dict):
        raise StateError("The data of this job are no JSON object, so nothing can be merged in.")
    return check_data_size("data", _json(known | dict(changed)))


def _json(value: Mapping[str, Any]) -> bytes:
    import json

    try:
        return json.dumps(dict(value), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"The data can't be written as JSON: {error}.") from None


# -- steps ------------------------------------------------------------------------------


def current_run(environment: Mapping[str, str] = os.environ) -> RunId:
    """Return the run that we are in; in none, it is an error."""
    id, node = environment.get("QUEUECTL_JOB_ID"), environment.get("QUEUECTL_NODE")
    attempt = environment.get("QUEUECTL_ATTEMPT", "")
    if not id or not node or not attempt.isdecimal():
        raise StateError("This works only inside a job that a worker runs.")
    return RunId(id, int(attempt), node)


def check_name(name: str) -> str:
    """Return the name of a step; one that can't be is an error."""
    return check_text("The name of a step", name, longest=LONGEST_NAME)


def begin_step(store: Store, run: RunId, name: str, connection: Any = None) -> Step | None:
    """Return a step that an earlier run has done; None if it is yet to be done."""
    with on(store, connection):
        return store.reports.begin_step(run, check_name(name))


def keep_step(store: Store, run: RunId, name: str, output: bytes, connection: Any = None) -> None:
    """Store that a run has done a step."""
    if len(output) > LONGEST_OUTPUT:
        raise StateError(f"Step {name!r} wrote more than the 1 MiB that a step can keep.")
    with on(store, connection):
        store.reports.keep_step(run, check_name(name), output)


def on(store: Store, connection: Any) -> AbstractContextManager[None]:
    """Do what is inside on a connection of somebody else's, if there is one."""
    return nullcontext() if connection is None else store.borrowed(connection)
