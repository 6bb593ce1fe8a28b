"""What goes into a row: jobs, fences, transitions and ended runs as bound parameters.

And what comes out of rows, where it takes more than their columns.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, count
from operator import attrgetter, itemgetter, ne
from typing import TYPE_CHECKING, Any

from queuectl.bound_values import laid_over
from queuectl.errors import UsageError
from queuectl.facts import Count, Event
from queuectl.fields import COPIED
from queuectl.job import (
    FINISHED,
    JOB_COLUMNS,
    SHELL,
    Job,
    NewJob,
    OneOfMany,
    State,
    Transition,
    distinct,
    handler_of,
)
from queuectl.store.contract import Ended
from queuectl.store.driver import Row
from queuectl.store.ids import job_ids
from queuectl.store.statements.shared import EDITED, NEW_COLUMNS, RESTORED, SAID
from queuectl.values import fields, replace
from queuectl.when import LATEST

if TYPE_CHECKING:
    from queuectl.parameters import Parameters

LONGEST_TEXT = 1_000
"""Characters of a text to search for; where it becomes a pattern, that is what a pattern takes."""

_PENDING = State.PENDING.value
# To look a member up in its class takes longer than most of what is done with it.
_COMPLETED = State.COMPLETED
_IN_LINE = (State.PENDING, State.FAILED)

_PLACES = {name: place for place, name in enumerate(JOB_COLUMNS)}
_SEQ, _STATE, _ATTEMPTS, _NODE, _WORKER, _STARTED, _UPDATED = (
    _PLACES[name]
    for name in ("seq", "state", "attempts", "node", "worker", "started_at", "updated_at")
)
_CLEARED = tuple(
    _PLACES[name] for name in ("finished_at", "duration_ms", "exit_code", "reason", "cancel_reason")
)
keys_in = itemgetter(_PLACES["keys"])
in_line = itemgetter(*(_PLACES[name] for name in ("priority", "seq", "crashes", "run_at", "vtime")))


def _json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


_WRITE: dict[str, Callable[[Any], Any]] = {
    "bytes": len,
    "flag": int,
    "hook": str,
    "labels": _json,
    "keys": _json,
    "parents": _json,
    "groups": _json,
    "if_fails": str,
    "needs": str,
    "required": _json,
    "until": lambda until: None if until == "end" else str(until),
    "program": lambda program: None if program == SHELL else program,
    "strategy": str,
    "bounds": lambda bounds: _json(own) if (own := laid_over(bounds, {})) else None,
    "variables": lambda env: _json(dict(env)),
}
"""What goes into a column for a value of these kinds; for one that is empty, nothing does."""
_WRITTEN = [(n, _WRITE[field.kind]) for n, field in enumerate(COPIED) if field.kind in _WRITE]
_copied = attrgetter(*(field.name for field in COPIED))
_AFTER = [field.name for field in COPIED].index("after")

NewRow = tuple[str, str | None, str | None, str | None, int, Row]
"""The row of a new job: its own id, command, argv, parameters and vtime, and all other columns.

The rest is one and the same tuple for all jobs that share it, so that it is made only once.
"""
OWN_COLUMNS = 5
_FOUND = (
    *("state", "ready", "run_at", "expires_at", "created_at", "updated_at", "tick"),
    *("hook", "body_digest", "handler"),
)
_in_new_row = itemgetter(*map(_FOUND.index, NEW_COLUMNS[OWN_COLUMNS : -len(COPIED)]))
"""Brings what is found out about a new job into the order of its columns."""
_EVENT = tuple(f.name for f in fields(Event) if f.name != "seq")
_FRESH = (0, None)
"""What a new job counts, and what it has in all columns that aren't given."""
_COUNTERS = ("attempts", "failures", "crashes", "open_parents", "has_children")
_KNOWN = ("seq", *NEW_COLUMNS)
_in_columns = itemgetter(
    *(
        _KNOWN.index(name) if name in _KNOWN else len(_KNOWN) + (name not in _COUNTERS)
        for name in JOB_COLUMNS
    )
)
"""Brings `seq`, the columns of a new job and `_FRESH` into the order of `JOB_COLUMNS`."""


def all_columns(row: NewRow) -> Row:
    """Return what goes into the columns of a new job, one by one."""
    return row[:-1] + row[-1]


def named(row: NewRow) -> dict[str, Any]:
    """Return what goes into the columns of a new job, by their names."""
    return dict(zip(NEW_COLUMNS, all_columns(row), strict=True))


def filled(rows: Sequence[NewRow]) -> tuple[list[str], Iterator[Row]]:
    """Return the columns that any of these jobs has something in, and what they have there.

    Most have few of them, and the server reads and checks what it is sent, value by value.
    """
    # Jobs like one model share all but what they have for themselves.
    models = {id(row[-1]): row[-1] for row in rows}
    own = [0, 1, *(at for at in (2, 3, 4) if any(map(itemgetter(at), rows)))]
    rest = [
        at
        for at, name in enumerate(NEW_COLUMNS[OWN_COLUMNS:])
        if name in SAID or any(m[at] is not None for m in models.values())
    ]
    shared = {key: tuple(model[at] for at in rest) for key, model in models.items()}
    first = itemgetter(*own)
    names = [NEW_COLUMNS[at] for at in own] + [NEW_COLUMNS[OWN_COLUMNS + at] for at in rest]
    return names, (first(row) + shared[id(row[-1])] for row in rows)


_REST = {name: place for place, name in enumerate(NEW_COLUMNS[OWN_COLUMNS:])}


def asked_for(row: NewRow) -> tuple[str, list[str]]:
    """Return the queue of a new job, and its keys."""
    import json

    rest = row[-1]
    keys = rest[_REST["keys"]]
    return rest[_REST["queue"]], json.loads(keys) if keys else []


def with_values(row: NewRow, **values: Any) -> NewRow:
    """Change what a new job doesn't have to itself."""
    changed = list(row[-1])
    for name, value in values.items():
        changed[_REST[name]] = value
    return (*row[:-1], tuple(changed))


def with_vtimes(rows: Sequence[NewRow], vtimes: Iterable[int]) -> Iterable[NewRow]:
    """Give new jobs their places among those of their priority."""
    ids, commands, argvs, parameters, _, rests = zip(*rows, strict=True)
    return zip(ids, commands, argvs, parameters, vtimes, rests, strict=True)


def with_parents(row: NewRow, model: NewJob) -> NewRow:
    """Have a new job wait for the parents that its model names by now."""
    return with_values(row, after=_asked(model)[_AFTER])


def stored_job(row: NewRow, seq: int) -> Job:
    """Return the job that a row is when it has its place in the line."""
    return Job.from_row(_in_columns((seq, *all_columns(row), *_FRESH)))


def written_parameters(parameters: "Parameters | None") -> str | None:
    """Return what goes into the column for parameters; for none, nothing does."""
    if not parameters:
        return None
    from queuectl.parameters import write

    return write(parameters)


def one_of_many(job: NewJob) -> OneOfMany:
    """Return a job by itself as one that may share with others."""
    return job.id, job.command, job.argv, written_parameters(job.parameters), job


def new_rows(jobs: Sequence[OneOfMany], now: int) -> list[NewRow]:
    """Describe jobs to be stored; one without an id gets one."""
    if not jobs:
        return []
    ids, commands, argvs, parameters, models = zip(*jobs, strict=True)
    made = iter(job_ids(ids.count(None)))
    if ids.count(None) < len(ids):
        made = iter([next(made) if id is None else id for id in ids])
    if argvs.count(None) < len(argvs):
        argvs = tuple(None if argv is None else _json(argv) for argv in argvs)
    rests = {id(model): _rest(model, now) for model in distinct(models)}
    shared = map(rests.__getitem__, map(id, models))
    return list(zip(made, commands, argvs, parameters, [0] * len(jobs), shared, strict=True))


def joined_by(models: Sequence[NewJob]) -> dict[str, tuple[int, int | None]]:
    """Return how many of new jobs come into which groups, and how many dead ones these bear."""
    if all(model.group is None for model in distinct(models)):
        return {}
    by_model = Counter(map(id, models))
    joined: dict[str, tuple[int, int | None]] = {}
    for model in distinct(models):
        if model.group is not None:
            jobs, bound = joined.get(model.group, (0, None))
            bound = bound if model.max_fails is None else model.max_fails
            joined[model.group] = jobs + by_model[id(model)], bound
    return joined


def _rest(job: NewJob, now: int) -> Row:
    """Return what goes into the columns that a job may share with others."""
    run_at, expires_at = _times(job, now)
    ready, handler = 1 if run_at <= now else 0, handler_of(job.type)
    if job.needs is not None or job.requires:
        from queuectl.resources import class_of

        handler = class_of(job.needs, job.requires, handler)
    told = (job.tick, job.hook, job.body_digest)
    found = (_PENDING, ready, run_at, expires_at, now, now, *told, handler)
    return (*_in_new_row(found), *_asked(job))


def _asked(job: NewJob) -> Row:
    """Return what goes into columns as it was asked for; mostly that is as it was before."""
    global _last
    last, row = _last
    if last is not job:
        asked = list(_copied(job))
        for place, write in _WRITTEN:
            value = asked[place]
            asked[place] = write(value) if value else None
        row = tuple(asked)
        _last = job, row
    return row


_last: tuple[NewJob | None, Row] = None, ()


def _times(job: NewJob, now: int) -> tuple[int, int | None]:
    """Return when a job is due and when it expires: durations count from when it is stored."""
    run_at = now + (job.delay or 0) if job.run_at is None else job.run_at
    if job.expires_at is None and job.expire:
        return run_at, min(max(now, run_at) + job.expire, LATEST)
    return run_at, job.expires_at


def storable(text: str) -> bool:
    """Tell whether a text can be in a store at all: bytes that aren't UTF-8 and NULs can't."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def can_be_sought(text: str) -> bool:
    """Tell whether a text can be in a store; one too long to search for is a `UsageError`."""
    if storable(text) and len(text) > LONGEST_TEXT:
        raise UsageError(f"A text to search for can have {LONGEST_TEXT:,} characters at most.")
    return storable(text)


def fence(job: Job) -> dict[str, Any]:
    """Name exactly one run of one job."""
    return {"seq": job.seq, "id": job.id, "attempt": job.attempts}


def transition_row(transition: Transition, now: int) -> dict[str, Any]:
    """Describe what a transition makes of a job, readiness included."""
    state, run_at = transition.state, transition.run_at
    ready = None
    if state in _IN_LINE:
        ready = 1 if run_at is None or run_at <= now else 0
    if ready == 1:
        # A failed job that may run at once is simply pending again.
        state = State.PENDING
    return {
        "state": str(state),
        "ready": ready,
        "run_at": run_at,
        "failures": transition.failures,
        "crashes": transition.crashes,
        "reason": transition.reason,
        "final": 1 if state in FINISHED else 0,
    }


def edited_row(job: Job, was: Job, now: int) -> dict[str, Any]:
    """Describe what becomes of a job that waits, if it is to be like this."""
    row = {"ready": _readiness(job, was.state, now), "now": now, "was": was.state.value}
    values = restorable(job)
    return fence(was) | {name: values[name] for name in EDITED if name != "ready"} | row


def _readiness(job: Job, state: State, now: int) -> int | None:
    """Say whether a job in a state may be claimed; None, if it doesn't even wait for that."""
    if state not in _IN_LINE:
        return None
    return int(state == State.PENDING and job.parked is None and job.run_at <= now)


_restored_of = attrgetter(*RESTORED)
_RESTORED_AS: dict[str, Callable[[Any], Any]] = {
    "argv": lambda argv: None if argv is None else _json(argv),
    "parameters": lambda parameters: written_parameters(parameters),
    "state": lambda state: state.value,
}
_RESTORED_IF_ANY = {
    field.column: _WRITE[field.kind]
    for field in COPIED
    if field.kind in _WRITE and field.column == field.name
}


def restorable(job: Job) -> dict[str, Any]:
    """Describe all of a job that is changed by hand, as its columns have it."""
    return {
        name: _in_column(name, value)
        for name, value in zip(RESTORED, _restored_of(job), strict=True)
    }


def _in_column(name: str, value: Any) -> Any:
    if (write := _RESTORED_AS.get(name)) is not None:
        return write(value)
    if (write := _RESTORED_IF_ANY.get(name)) is not None:
        return write(value) if value else None
    return value


_AT = {name: place for place, name in enumerate(RESTORED)}
_BY_STATE = {
    *map(
        _AT.__getitem__,
        "state run_at expires_at failures crashes reason parked finished_at".split(),
    )
}
_BY_PLACE = {_AT["parked"], _AT["vtime"]}
_FENCE = ("seq", "attempts")


def kept(before: Job, after: Job | None) -> str:
    """Write what a job was, for `restored`: all that a state changes, or that it isn't any more."""
    values = _restored_of(before)
    now = values if after is None else _restored_of(after)
    is_moved = after is None or before.state != after.state
    places = {*compress(count(), map(ne, values, now)), *(_BY_STATE if is_moved else _BY_PLACE)}
    was = {RESTORED[at]: _in_column(RESTORED[at], values[at]) for at in sorted(places)}
    return _json(was | {name: getattr(before, name) for name in _FENCE})


def restored(job: Job, was: str) -> Job:
    """Return a job as it was; whether its keys have room for it is asked anew."""
    import json

    raw = restorable(job) | {k: v for k, v in json.loads(was).items() if k not in _FENCE}
    raw["devices"] = _json(job.devices) if job.devices else None
    again = Job.from_row([raw.get(name, getattr(job, name)) for name in JOB_COLUMNS])
    return replace(again, parked=None) if again.parked else again


def restored_row(again: Job, now: Job, at: int) -> dict[str, Any]:
    """Describe what becomes of a job that is to be again what it was."""
    row = {"ready": _readiness(again, again.state, at), "now": at, "was": now.state.value}
    return fence(now) | restorable(again) | row


def claimed_job(row: Sequence[Any], run: Mapping[str, Any]) -> Job:
    """Make a job of what was read right before it was claimed."""
    values = list(row)
    values[_STATE] = State.PROCESSING
    values[_ATTEMPTS] += 1
    values[_NODE], values[_WORKER] = run["node"], run["worker"]
    values[_STARTED] = values[_UPDATED] = run["now"]
    for place in _CLEARED:
        values[place] = None
    return Job.from_row(values)


def buried_job(job: Job, transition: Transition, now: int) -> Job:
    """Return what a transition has made of a job that waited, and won't any more."""
    state, reason = transition.state, transition.reason
    return replace(job, state=state, reason=reason, parked=None, updated_at=now, finished_at=now)


def ended_job(end: Ended) -> Job:
    """Return what the end of a run has made of its job."""
    to, at = transition_row(end.transition, end.settled_at), end.settled_at
    return replace(
        end.job,
        state=State(to["state"]),
        run_at=end.job.run_at if to["run_at"] is None else to["run_at"],
        failures=to["failures"],
        crashes=to["crashes"],
        reason=to["reason"],
        started_at=end.started_at,
        updated_at=at,
        finished_at=at if to["final"] else None,
        duration_ms=end.duration_ms,
        exit_code=getattr(end.outcome, "code", None),
        error=None if end.transition.state == State.COMPLETED else end.error,
        cancel_reason=None,
    )


def death_of(job: Job, reason: str | None, *, at: int, node: str | None) -> Event:
    """Describe that a job was given up, by which node and why."""
    from queuectl.host import whoami

    return Event(at=at, kind="dead", job=job.id, node=node, who=whoami(), detail=reason)


def holding_slots(jobs: Iterable[Job]) -> list[Job]:
    """Return those of these jobs that may have had a slot of a key waiting for them."""
    return [job for job in jobs if job.keys and job.parked is None]


def event_row(event: Event) -> dict[str, Any]:
    """Describe an event that is to be kept."""
    return {name: getattr(event, name) for name in _EVENT}


_ENDED: dict[str, Any] = dict.fromkeys(
    (
        *("state", "ready", "run_at", "failures", "crashes", "reason", "final"),
        *("seq", "id", "queue", "priority", "timeout", "attempt", "node", "worker", "host"),
        *("started_at", "finished_at", "settled_at", "duration_ms", "outcome", "exit_code"),
        *("signal", "error", "stdout_bytes", "stderr_bytes", "peak_memory", "cpu_ms"),
        *("read_bytes", "written_bytes", "noted", "has_children"),
    )
)
"""What is told of an ended run. One that begins as a copy of this is made in half the time."""


def ended_row(end: Ended) -> dict[str, Any]:
    """Describe a run that is over, fenced by its number and node."""
    job, transition, settled_at = end.job, end.transition, end.settled_at
    outcome, output, used = end.outcome, end.output, end.used
    row = _ENDED.copy()
    row |= transition_row(transition, settled_at)
    row["seq"], row["id"], row["queue"] = job.seq, job.id, job.queue
    row["priority"], row["timeout"] = job.priority, job.timeout
    row["attempt"], row["node"] = job.attempts, job.node
    row["worker"], row["host"] = job.worker or 0, end.host
    row["started_at"], row["finished_at"] = end.started_at, end.finished_at
    row["settled_at"], row["duration_ms"] = settled_at, end.duration_ms
    row["outcome"] = outcome.name
    row["exit_code"] = getattr(outcome, "code", None)
    row["signal"] = getattr(outcome, "signal", None)
    if transition.state is not _COMPLETED:
        row["error"] = end.error
    row["stdout_bytes"], row["stderr_bytes"] = output.stdout_bytes, output.stderr_bytes
    row["peak_memory"], row["cpu_ms"] = used.peak_memory, used.cpu_ms
    row["read_bytes"], row["written_bytes"] = used.read_bytes, used.written_bytes
    row["noted"] = end.noted
    row["has_children"] = 1 if job.has_children else 0
    return row


def output_row(end: Ended) -> dict[str, Any]:
    """Describe what a run wrote."""
    return {
        "seq": end.job.seq,
        "attempt": end.job.attempts,
        "stdout": end.output.stdout,
        "stderr": end.output.stderr,
    }


def counted(rows: Iterable[Row]) -> list[Count]:
    """Return what `COUNTS` says. Running jobs are counted among the pending ones; it names both."""
    found: dict[tuple[str, State, int], tuple[int, int]] = defaultdict(lambda: (0, 0))

    def add(queue: str, state: State, priority: int, jobs: int, timed: int) -> None:
        so_far = found[queue, state, priority]
        found[queue, state, priority] = so_far[0] + jobs, so_far[1] + timed

    for queue, state, priority, jobs, timed in rows:
        if state is None:
            add(queue, State.PROCESSING, priority, int(jobs), int(timed))
            add(queue, State.PENDING, priority, -int(jobs), -int(timed))
        else:
            # A file that can only be read may still have them by themselves.
            counter = State.PENDING if state == State.PROCESSING else State(state)
            add(queue, counter, priority, int(jobs), int(timed))
    return [
        Count(queue=queue, state=state, priority=priority, jobs=jobs, timed=timed)
        for (queue, state, priority), (jobs, timed) in found.items()
        if jobs
    ]
