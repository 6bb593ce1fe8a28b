"""Jobs that give their workers back, and what is emitted for them: wishes are read, and stored."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from queuectl.errors import BadTimeError, UsageError
from queuectl.facts import Emitted, Sleep, Step
from queuectl.host import whoami
from queuectl.job import Job
from queuectl.request import check_text
from queuectl.store.contract import RunId, Store
from queuectl.store.contract import Wish as Wish
from queuectl.telling import LONGEST_RESULT, check_json
from queuectl.told import check_name, on
from queuectl.when import format_duration, parse_duration, parse_time

LONGEST_EMITTED = 200
"""Characters that a name can have under which something is emitted."""
LOOKED_AT = 500
"""Of very many names, so many are looked at to find those that are wanted."""
Duration = str | int | float | timedelta


class Emission(NamedTuple):
    """What became of something that was emitted."""

    emitted: Emitted
    """What counts: the first under this name."""
    is_first: bool
    waiting: int
    """How many jobs were waiting for it."""


def check_emitted(name: str) -> str:
    """Return a name under which something can be emitted; one that can't be is an error."""
    return check_text("The name of what is emitted", name, longest=LONGEST_EMITTED)


def read_sleep(length: Duration, step: str | None, now: int) -> Wish:
    """Read for how long, or until when, a run wants its job to sleep."""
    text = _text(length)
    name, numbered = _step(step, f"sleep {text}")
    try:
        return Wish(step=name, numbered=numbered, wait=parse_duration(text))
    except BadTimeError as error:
        try:
            return Wish(step=name, numbered=numbered, until=parse_time(text, now=now))
        except BadTimeError:
            raise error from None


def read_await(awaits: str, timeout: Duration | None, step: str | None) -> Wish:
    """Read what a run wants its job to wait for."""
    name, numbered = _step(step, f"await {check_emitted(awaits)}")
    wait = None if timeout is None else parse_duration(_text(timeout))
    return Wish(step=name, numbered=numbered, awaits=awaits, wait=wait)


def _step(given: str | None, made: str) -> tuple[str, bool]:
    """Return the name of a step, and whether it gets a number where it comes again."""
    return (check_name(made), True) if given is None else (check_name(given), False)


def _text(length: Duration) -> str:
    if isinstance(length, timedelta):
        return format_duration(round(length.total_seconds() * 1000))
    return str(length)


def begin(store: Store, run: RunId, wish: Wish) -> Step | Sleep:
    """Return the step of a sleep that is over; or have the job of a run sleep."""
    return store.sleeps.begin(run, wish)


def sleeps(store: Store, jobs: Sequence[Job]) -> dict[int, Sleep]:
    """Return what those of these jobs that sleep do so for, by their places."""
    now = store.clock.now()
    tired = [job for job in jobs if job.attempts and job.run_at > now]
    return store.sleeps.of(tired) if tired else {}


def emit(store: Store, name: str, value: Any, connection: Any = None) -> Emission:
    """Emit something, as a part of the transaction of a connection, if there is one."""
    return emit_text(store, name, payload_of(value), connection)


def emit_text(store: Store, name: str, payload: str, connection: Any = None) -> Emission:
    """Do the same with JSON as it was written."""
    check_emitted(name)
    with on(store, connection):
        emitted, waiting = store.sleeps.emit(name, payload, who=whoami())
    return Emission(emitted, waiting is not None, waiting or 0)


def names_like(store: Store, prefix: str, *, came: bool | None, limit: int) -> list[str]:
    """Return some names that begin with a prefix: that were emitted, or not, or either."""
    found = store.sleeps.names(prefix, LOOKED_AT)
    return [name for name, has in found.items() if came is None or has == came][:limit]


def read_payload(data: bytes) -> str:
    """Return JSON as it is emitted; anything else is an error."""
    return check_json(data, "What is emitted")


def payload_of(value: Any) -> str:
    """Return what is emitted as JSON; what JSON can't say is a `UsageError`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"What is emitted is no JSON: {error}.") from None
    if size > LONGEST_RESULT:
        raise UsageError("What is emitted can have 1 MiB at most.")
    return text
