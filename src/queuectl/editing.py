"""Changing what waits: edit jobs, hold and release them, move them, put them first, swap two.

And retry them with changes. What each of these came from and to is kept as an event; of
environments only the names are told.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from queuectl import finding, lifecycle
from queuectl.bound_values import laid_over
from queuectl.bounds import told as bounds_told
from queuectl.changes import (
    REMOVE,
    RETRY,
    Asked,
    Change,
    cancelling,
    check_retry,
    finishing,
    only_dead,
    repairing,
    retry_detail,
    retrying_from,
)
from queuectl.errors import BadJobError, NotFoundError, StateError, UsageError, shown
from queuectl.facts import Event
from queuectl.fields import FIELDS, REQUESTED
from queuectl.history import event_of
from queuectl.job import SHELL, Job, Named, State, Strategy, base_handler
from queuectl.limits import own_keys
from queuectl.request import by_name, check_name, read_some
from queuectl.store.contract import Decision, Edit, Store
from queuectl.values import replace
from queuectl.when import LATEST, format_duration, iso

NOT_EDITED = (
    *("id", "stdin", "stdin_base64", "env_all", "type", "data", "data_base64"),
    *("unique", "unique_until", "unique_for", "on_duplicate", "max_wait"),
    *("traceparent", "tracestate", "if_parent_fails", "parameters", "at_once"),
    *("after_group", "group", "max_fails"),
)
"""What a job keeps that it was enqueued with."""
_LINE = (State.PENDING, State.FAILED, State.BLOCKED)
_STEADY = (Strategy.LINEAR, Strategy.FIXED)
_KINDS = {field.name: field.kind for field in FIELDS}


# -- what can be done -------------------------------------------------------------------


def check_waiting(job: Job, now: int) -> None:
    """Raise why what a job is to be can't be changed, if that is so."""
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; only jobs that wait can be changed.")
    if job.state not in _LINE:
        raise StateError(
            f"Job {job.id} is {job.state}; only jobs that wait can be changed.",
            advice="see queuectl retry --with.",
        )


def editing(given: Mapping[str, object]) -> Change:
    """Change what jobs that wait are to be, by the fields of a request.

    Tags and keys replace those that were there; variables are laid over them.
    """
    given = checked(given)
    return _editing(given, "edit", "edited", Asked(do="edit", given=given))


def moving(queue: str) -> Change:
    """Have jobs wait in another queue."""
    given = {"queue": check_name("queue", queue)}
    change = _editing(given, "move", "moved", Asked(do="move", given=given))

    def check(job: Job, now: int) -> None:
        change.check(job, now)
        if job.queue == queue:
            raise StateError(f"Job {job.id} is in queue {queue} already.")

    return replace(change, check=check)


def _editing(given: Mapping[str, object], kind: str, done: str, asked: Asked) -> Change:
    def check(job: Job, now: int) -> None:
        check_waiting(job, now)
        check_parents(job, edited(job, given, now))

    def decide(job: Job, now: int) -> Decision | None:
        to = edited(job, given, now)
        detail = told(job, to)
        return (
            Decision(Edit(to), event_of(now, kind, job=job.id, detail=detail)) if detail else None
        )

    return Change(
        asked=asked,
        done=done,
        allowed=_LINE,
        usual=_LINE,
        check=check,
        decide=decide,
        oldest_first=True,
    )


def checked(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return changes by the true names of their fields, or refuse what can't be made to any job.

    Times in them aren't looked at yet.
    """
    if not given:
        raise UsageError("Say what to change, such as the priority.")
    named = by_name(given, nulls=True)
    for name in named:
        if name in NOT_EDITED:
            raise UsageError(f"The {name} of a job can't be changed; enqueue another job.")
    return named


def edited(job: Job, given: Mapping[str, object], now: int) -> Job:
    """Return what becomes of a job by the fields of a request, or raise why nothing can."""
    values = read_some(given, now=now)
    if job.type is not None and (what := {"command", "argv", "shell"}.intersection(values)):
        raise StateError(f"Job {job.id} has data for a handler, and no {sorted(what)[0]}.")
    if "command" in values or "argv" in values:
        values = {"command": None, "argv": None, **values}
        if values["argv"] is not None:
            values["shell"] = None
    if values.get("shell") == SHELL:
        values["shell"] = None
    hooks = [field.name for field in REQUESTED if field.kind == "hook" and field.name in values]
    if hooks and job.hook is not None:
        raise StateError(f"Job {job.id} is a hook, and hooks have none themselves.")
    values |= {name: values[name] or None for name in hooks}
    if "keys" in values:
        # By those with limits of their own, it is known of which array it is.
        values["keys"] = (*values["keys"], *own_keys(job.keys))
    if "bounds" in values:
        values["bounds"] = laid_over(values["bounds"], job.bounds)
    if "env" in values:
        values["env"] = {**job.env, **values["env"]}
    if (delay := values.pop("delay", None)) is not None:
        values["run_at"] = now + delay
    if "retry_delay" in values and "backoff" not in given and job.backoff in _STEADY:
        values["backoff"] = job.backoff
    for field in REQUESTED:
        if field.at_least in values and field.name not in values:
            values[field.name] = max(getattr(job, field.name) or 0, values[field.at_least])
    expire = values.pop("expire", None)
    to = replace(job, **values)
    if "needs" in values or "requires" in values:
        to = replace(to, handler=_handler(to))
    if expire is not None:
        until = min(max(now, to.run_at) + expire, LATEST) if expire else None
        to = replace(to, expires_at=until)
    if to.argv is not None and to.shell is not None:
        raise BadJobError("A program with its arguments runs without a shell; leave shell out.")
    times = (to.run_at, to.expires_at)
    if times != (job.run_at, job.expires_at) and to.expires_at and to.expires_at <= to.run_at:
        raise StateError(f"Job {job.id} would expire before it is due; say when it expires, too.")
    return to


def _handler(job: Job) -> str:
    """Return what a node must have to run a job, now that it needs something else."""
    from queuectl.resources import AmountError, class_of

    try:
        return class_of(job.needs, job.requires, base_handler(job.handler))
    except AmountError as error:
        raise BadJobError(f"needs and requires can't be {error}.") from None


def check_parents(before: Job, after: Job) -> None:
    """Raise that a job would wait for more than it does; it may wait for less."""
    if more := [text for text in after.after if text not in before.after]:
        raise StateError(
            f"Job {before.id} doesn't wait for {more[0]}, and can only wait for less than it does."
        )


def told(before: Job, after: Job) -> str:
    """Say what became of the fields of a job; nothing if they are the same."""
    names = {field.column: None for field in REQUESTED if field.column}
    changed = [n for n in names if n != "id" and getattr(before, n) != getattr(after, n)]
    return "; ".join(_told(name, before, after) for name in changed)


def _told(name: str, before: Job, after: Job) -> str:
    was, now = getattr(before, name), getattr(after, name)
    if name == "env":
        names = sorted({*was, *now})
        return f"env: {', '.join(n for n in names if was.get(n) != now.get(n))}"
    return f"{name} {_written(name, was)} -> {_written(name, now)}"


def _written(name: str, value: Any) -> str:
    """Write a value for people."""
    if value is None or value == ():
        return "none"
    if name == "bounds":
        return bounds_told(value)
    match _KINDS[name]:
        case "time":
            return iso(value)
        case "limit" if not value:
            return "none"
        case "limit" | "wait":
            return format_duration(value)
        case "labels" | "keys" | "parents" | "required":
            return ", ".join(value)
        case "arguments":
            from shlex import join

            return join(value)
    return str(value)


def check_hold(job: Job, now: int) -> None:
    """Raise why a job can't be held, if that is so."""
    check_waiting(job, now)
    if job.is_held:
        raise StateError(f"Job {job.id} is held already.")


def _hold(job: Job, now: int) -> Decision:
    return Decision(Edit(replace(job, parked="")), event_of(now, "hold", job=job.id))


def check_release(job: Job, now: int) -> None:
    """Raise why a job can't be released, if that is so."""
    if not job.is_held:
        raise StateError(f"Job {job.id} isn't held.")


def _release(job: Job, now: int) -> Decision:
    return Decision(Edit(replace(job, parked=None)), event_of(now, "release", job=job.id))


def _put_first(job: Job, now: int) -> Decision:
    return Decision(Edit(job, first=True), event_of(now, "top", job=job.id))


HOLD = Change(
    asked=Asked(do="hold"),
    done="held",
    allowed=_LINE,
    usual=_LINE,
    check=check_hold,
    decide=_hold,
)
"""Keeps jobs that wait from running until they are released."""
RELEASE = Change(
    asked=Asked(do="release"),
    done="released",
    allowed=_LINE,
    usual=_LINE,
    check=check_release,
    decide=_release,
)
"""Lets them run again."""
TOP = Change(
    asked=Asked(do="top"),
    done="put first",
    allowed=_LINE,
    usual=_LINE,
    check=check_waiting,
    decide=_put_first,
    together=True,
)
"""Puts jobs before all others of their queues that have the same priority, in their order."""


def retrying(given: Mapping[str, object]) -> Change:
    """Put jobs back in line as others, by the fields of a request."""
    given = checked(given)

    def check(job: Job, now: int) -> None:
        check_retry(job, now)
        check_parents(job, _retried(job, given, now))

    def decide(job: Job, now: int) -> Decision:
        to = _retried(job, given, now)
        changed = told_retried(job, to)
        detail = "; with ".join(part for part in (retry_detail(job), changed) if part)
        event = event_of(now, "retry", job=job.id, detail=detail)
        return Decision(Edit(to, retried=lifecycle.retried(to.run_at, to.state)), event)

    return replace(RETRY, asked=Asked(do="retry", given=given), check=check, decide=decide)


def told_retried(before: Job, after: Job) -> str:
    """Say what became of the fields of a job that is retried, but for when it is due."""
    return told(replace(before, run_at=after.run_at, expires_at=after.expires_at), after)


def change_of(asked: Asked) -> Change:
    """Return the change that was asked for in words."""
    change = _plain_change(asked)
    if asked.from_step is not None:
        change = retrying_from(asked.from_step, change)
    if asked.repairs:
        change = repairing(change)
    return only_dead(change) if asked.only_dead else change


def _plain_change(asked: Asked) -> Change:
    match asked.do:
        case "cancel":
            return cancelling(asked.reason, joining=asked.joining)
        case "finish":
            return finishing(asked.result)
        case "edit":
            return editing(asked.given or {})
        case "move":
            return moving((asked.given or {}).get("queue", ""))
        case "retry" if asked.given is not None:
            return retrying(asked.given)
    known = {"retry": RETRY, "remove": REMOVE, "hold": HOLD, "release": RELEASE, "top": TOP}
    if asked.do not in known:
        raise UsageError(f"Nothing called {shown(asked.do)} can be done to jobs.")
    return known[asked.do]


def _retried(job: Job, given: Mapping[str, object], now: int) -> Job:
    """Return a job as it is retried: due at once and with time to start, unless that is said."""
    over = job.expires_at is not None and job.expires_at <= now
    expires_at = None if over else job.expires_at
    fresh = replace(
        job,
        state=lifecycle.in_line(job),
        run_at=now,
        expires_at=expires_at,
        parked=None,
        failures=0,
    )
    return edited(fresh, given, now)


# -- two at a time ----------------------------------------------------------------------


def swap(store: Store, one: Named, other: Named) -> tuple[Job, Job]:
    """Have two jobs that wait in one queue take each other's place."""
    while True:
        # One that was taken away isn't found here.
        jobs = [finding.meant(store, named) for named in (one, other)]
        # Somebody may give them other places meanwhile.
        with suppress(NotFoundError):
            return store.jobs.swap(jobs[0], jobs[1], check_swap)


def check_swap(one: Job, other: Job, now: int) -> Sequence[Event]:
    """Raise why two jobs can't take each other's place; else say what is kept of it."""
    if one.id == other.id:
        raise UsageError(f"Both are job {one.id}; name two jobs.")
    for job in (one, other):
        check_waiting(job, now)
    if one.queue != other.queue:
        raise StateError(
            f"Job {one.id} waits in queue {one.queue}, and {other.id} in {other.queue}.",
            advice="move one of them first.",
        )
    return [
        event_of(now, "swap", job=job.id, detail=f"with {peer.id}")
        for job, peer in ((one, other), (other, one))
    ]
