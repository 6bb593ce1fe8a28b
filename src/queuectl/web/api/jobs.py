"""Jobs one by one: adding, reading, changing and waiting for them."""

from base64 import b64encode
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from queuectl import editing
from queuectl.access import Right
from queuectl.changes import Asked, Change, stays_itself
from queuectl.errors import UsageError, shown
from queuectl.fields import REQUESTED
from queuectl.job import DEFAULT_QUEUE, FINISHED, Job, State
from queuectl.report import (
    attempt_dict,
    event_dict,
    graph_dict,
    job_dict,
    progress_dict,
    relative_dict,
    step_dict,
)
from queuectl.request import by_name
from queuectl.together import Prepared, Stored
from queuectl.tracecontext import read_trace
from queuectl.values import replace
from queuectl.views import job_whole
from queuectl.web import schemas
from queuectl.web.api import asking, once
from queuectl.web.call import Adding, Answer, Call, ForbiddenError, Later, text
from queuectl.web.route import LONGEST_JOB, LONGEST_LIST, Group, Param

LONGEST_WAIT = 60
"""Seconds that an answer may wait for the end of a job."""
group = Group(name="jobs", about=__doc__ or "")

_JOB = schemas.ref("Job")
_OPERATES: dict[str, Any] = {"needs": Right.OPERATE, "answers": _JOB}


def told(call: Call, job: Job) -> dict[str, Any]:
    """Describe a job to who asks."""
    pause = call.queue.pauses().get(job.seq) if job.state == State.PROCESSING else None
    return masked(call, job_dict(job, pause if pause is not None and pause.is_of(job) else None))


def masked(call: Call, said: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a job what who asks may not see: what it was given besides its command."""
    if not call.may(Right.SECRETS):
        said |= {"data": None, "data_base64": None, "env": []}
    return said


# -- adding -----------------------------------------------------------------------------


@group.post(
    "/jobs",
    needs=Right.SUBMIT,
    takes=schemas.ref("NewJob"),
    longest=LONGEST_JOB,
    answers=_JOB,
    status=201,
    also=(200,),
    adds=True,
    headers=(once.KEY,),
)
def enqueue(call: Call) -> Adding:
    """Add a job. When the answer comes, it survives a power cut.

    With an `Idempotency-Key`, a request that is sent again adds nothing: the answer is the job that
    the first one has added, with 200. The same key with another body is refused with 422. The key
    is kept as long as the job is. A `unique` key that a job has is answered with that job and 200
    too, as nothing is added.
    """
    return _adding(call, once.prepare(call, _asked(call), call.headers.get("idempotency-key")))


def _adding(call: Call, prepared: Prepared) -> Adding:
    def then(stored: Stored) -> Answer:
        job = once.found(call, prepared, stored.job)
        status = 201 if stored.is_new else 200
        return Answer(value=told(call, job), status=status, headers=_where(call, job))

    return Adding(
        prepared=prepared, then=then, otherwise=partial(once.explained, prepared=prepared)
    )


_ORDER = (
    Param(name="oldest", schema=schemas.FLAG, about="Oldest first instead of newest first."),
    Param(
        name="sort",
        schema=schemas.TEXT,
        about="Sort by a field: finished, -duration, queue,-priority. There is one page then.",
    ),
)


@group.get(
    "/jobs",
    query=(*asking.FILTERS, asking.LIMIT, asking.AFTER, *_ORDER),
    answers=schemas.page_of("Job"),
)
def list_(call: Call) -> dict[str, Any]:
    """List jobs, newest first, by any filter, page by page.

    What no index finds is looked for among some thousands at a time: a page may have few items, or
    none, and there are others behind it as long as it says what is `next`.
    """
    query, limit = call.query, asking.limit_of(call)
    after = None if (id := query.get("after")) is None else call.job(id)
    which, oldest, sort = asking.filter_of(call), query.get("oldest", False), query.get("sort")
    if sort is None:
        found = call.queue.search(which, limit=limit, after=after, oldest=oldest)
        page, behind = found.jobs, found.next
    else:
        page = call.queue.list(which, limit=limit, after=after, oldest=oldest, sort=sort)
        behind = None
    pauses, progress = call.queue.pauses(), call.queue.running_progress()
    items = []
    for job in page:
        pause = pauses.get(job.seq)
        said = job_dict(job, pause if pause is not None and pause.is_of(job) else None)
        items.append(masked(call, said) | {"progress": progress_dict(progress.get(job.seq))})
    return {"items": items, "next": None if behind is None else behind.id}


@group.put(
    "/jobs/{id}",
    needs=Right.SUBMIT,
    takes=schemas.ref("NewJob"),
    longest=LONGEST_JOB,
    answers=_JOB,
    status=201,
    also=(200,),
)
def put(call: Call) -> Adding:
    """Add a job under this id, once: the same request again answers with the job, and adds nothing.

    Another request under an id that is taken is refused with 422.
    """
    id = call.path["id"]
    _check_part("id", id)
    asked = _asked(call)
    if asked.setdefault("id", id) != id:
        raise UsageError(f"The body says another id than the path: {asked['id']!r}.")
    prepared = call.queue.together.prepare(asked, digest=once.digest(call))
    return _adding(call, prepared)


def _asked(call: Call) -> dict[str, Any]:
    """Return the request of a job, which who asks may make."""
    if not isinstance(call.body, dict):
        raise UsageError('A job is a JSON object, such as {"command": "true"}.')
    asked = asked_of(call, call.body)
    trace = read_trace(call.headers.get("traceparent"), call.headers.get("tracestate"))
    if trace is not None and asked.get("traceparent") is None:
        asked |= trace.named()
    return asked


def asked_of(call: Call, said: Mapping[str, Any], *, nulls: bool = False) -> dict[str, Any]:
    """Return the fields of a job by their true names, if who asks may ask for that from afar."""
    asked = by_name(said, nulls=nulls)
    call.need_queue(str(asked.get("queue") or DEFAULT_QUEUE))
    for name in ("id", "queue", "group"):
        _check_part(name, asked.get(name))
    _check_afar(asked)
    if call.grant.queues:
        _check_group(call, asked)
    return asked


def _check_group(call: Call, asked: Mapping[str, Any]) -> None:
    """Refuse what tells of a group, or has to do with all jobs of it: they may be of any queue."""
    for name in ("after_group", "max_fails"):
        if asked.get(name) is not None:
            raise ForbiddenError(
                f"{call.grant.name} is let in for some queues, and {name} is about jobs of all."
            )
    group = asked.get("group")
    for found in call.queue.groups.named([group]) if isinstance(group, str) else ():
        if found.max_fails is not None:
            raise ForbiddenError(
                f"{call.grant.name} is let in for some queues; a job of group {shown(group)} that"
                " dies may have those of others cancelled."
            )


def _check_part(name: str, value: object) -> None:
    """Refuse what could be named in no path: browsers and proxies take it for another one."""
    if value in (".", ".."):
        raise UsageError(
            f"The {name} {value!r} can't be asked for here: no path could name it.", field=name
        )


def _check_afar(asked: Mapping[str, Any]) -> None:
    """Refuse what means something else here than where it was asked for."""
    if asked.get("env_all"):
        raise UsageError(
            "env_all can't be asked for here: it would be that of the server.", field="env_all"
        )
    folder = asked.get("cwd")
    if isinstance(folder, str) and not folder.startswith("/"):
        raise UsageError("cwd must be an absolute path here.", field="cwd")


def _where(call: Call, job: Job) -> dict[str, str]:
    from urllib.parse import quote

    return {"Location": f"{call.base}/jobs/{quote(job.id, safe='')}"}


# -- reading ----------------------------------------------------------------------------


@group.get("/jobs/{id}", answers=schemas.ref("JobWhole"))
def show(call: Call) -> dict[str, Any]:
    """Show everything about a job: fields, runs, history, and why it waits."""
    return masked(call, job_whole(call.queue, call.job(), sees=call.grant.is_for))


@group.get("/jobs/{id}/attempts", answers=schemas.array(schemas.ref("Attempt")))
def attempts(call: Call) -> list[dict[str, Any]]:
    """List the runs of a job that are over, oldest first."""
    return [attempt_dict(run) for run in call.queue.attempts(call.job())]


@group.get("/jobs/{id}/events", answers=schemas.array(schemas.ref("Event")))
def job_events(call: Call) -> list[dict[str, Any]]:
    """List what was done to a job by hand, its rescues and its death, newest first."""
    return [event_dict(event) for event in call.queue.iterate_events(call.job())]


@group.get("/jobs/{id}/explain", answers=schemas.array(schemas.ref("Reason")))
def explain(call: Call) -> list[dict[str, Any]]:
    """Say why a job waits, with all reasons there are."""
    return [reason.as_dict() for reason in call.queue.explain(call.job())]


_RELATIVES = schemas.array(schemas.ref("Relative"))
MOST_RELATIVES = 10_000
"""Jobs that wait for one, in one answer at most."""
_MANY = Param(
    name="limit",
    schema={"type": "integer", "minimum": 1, "maximum": MOST_RELATIVES},
    about="At most so many jobs; 1,000 unless that is said.",
)


@group.get("/jobs/{id}/parents", answers=_RELATIVES)
def parents(call: Call) -> list[dict[str, Any]]:
    """List the jobs and groups that a job waits for, or did, and whether they still keep it."""
    return [relative_dict(one) for one in call.queue.parents(call.job())]


@group.get("/jobs/{id}/children", query=(_MANY,), answers=_RELATIVES)
def children(call: Call) -> list[dict[str, Any]]:
    """List jobs that wait for a job, or did, as they were enqueued."""
    limit = call.query.get("limit", 1_000)
    return [relative_dict(one) for one in call.queue.children(call.job(), limit=limit)]


MOST_NODES = 10_000
"""Jobs that a graph has in one answer at most."""
GRAPH_LIMIT = Param(
    name="limit",
    schema={"type": "integer", "minimum": 1, "maximum": MOST_NODES},
    about="At most so many jobs, the nearest; 200 unless that is said.",
)


@group.get("/jobs/{id}/graph", query=(GRAPH_LIMIT,), answers=schemas.ref("Graph"))
def graph(call: Call) -> dict[str, Any]:
    """Return a job with all that must end before it, and all that waits for its end.

    Jobs are in an order in which none comes before one that it waits for. Of one in a queue that
    who asks isn't let in for, only the id is there. If there are more, it isn't `whole`. What
    others wait for in vain is a `root_cause`, and edges from there to these are `in_vain`.
    """
    return graph_dict(call.queue.graph_of(call.job(), limit=call.query.get("limit", 200)))


@group.get("/jobs/{id}/steps", answers=schemas.array(schemas.ref("Step")))
def steps(call: Call) -> list[dict[str, Any]]:
    """List the steps of a job that are done."""
    return [step_dict(step) for step in call.queue.steps(call.job())]


@group.get("/jobs/{id}/hooks", answers=schemas.array(_JOB))
def hooks(call: Call) -> list[dict[str, Any]]:
    """List the jobs that ends of a job have made for its hooks, oldest first."""
    found = call.queue.hooks(call.job())
    return [told(call, job) for job in found if call.grant.is_for(job.queue)]


@group.get("/jobs/{id}/result", answers=schemas.ANY)
def result(call: Call) -> Any:
    """Return what a completed job came to, as its run told it."""
    return call.queue.result(call.job())


_ATTEMPT = Param(
    name="attempt",
    schema={"type": "integer", "minimum": 1},
    about="Of this run; else of the newest.",
)


@group.get("/jobs/{id}/output", query=(_ATTEMPT,), answers=schemas.ref("Output"))
def output(call: Call) -> dict[str, Any]:
    """Return what a run of a job has written, also while it goes on."""
    found = call.queue.written(call.job(), call.query.get("attempt"))
    return {
        "job": told(call, found.job),
        "attempt": found.number or None,
        "run": None if found.run is None else attempt_dict(found.run),
        "live": found.job.state == State.PROCESSING and found.run is None,
        "whole": found.whole,
        **_stream("stdout", found.output.stdout, found.output.stdout_bytes),
        **_stream("stderr", found.output.stderr, found.output.stderr_bytes),
    }


def _stream(name: str, data: bytes, total: int) -> dict[str, Any]:
    """Describe a stream; bytes that aren't text are there once more, exactly, in base64."""
    try:
        written, exact = data.decode(), None
    except UnicodeDecodeError:
        written, exact = data.decode(errors="replace"), b64encode(data).decode()
    return {name: written, f"{name}_base64": exact, f"{name}_bytes": total}


_TIMEOUT = Param(
    name="timeout",
    schema={"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "default": 30},
    about=f"Seconds to wait at most, up to {LONGEST_WAIT}.",
)


@group.get("/jobs/{id}/wait", query=(_TIMEOUT,), answers=_JOB)
def wait(call: Call) -> Any:
    """Wait for the end of a job, and return it; if it takes too long, as it is then."""
    job, seconds = call.job(), call.query.get("timeout", 30)
    if job.state in FINISHED or not seconds:
        return told(call, job)
    return Later(job=job, seconds=seconds, then=lambda: told(call, call.job()))


# -- changing ---------------------------------------------------------------------------


@group.patch("/jobs/{id}", takes=schemas.ref("NewJob"), longest=LONGEST_LIST, **_OPERATES)
def edit(call: Call) -> dict[str, Any]:
    """Change what a job that waits is to be.

    What says what is run (command, variables, hooks ...) needs the right to submit as well, and
    to secrets if the job has variables or data: something else would be given these.
    """
    change = editing.editing(changes_of(call, call.body))
    return told(call, call.queue.change_all([call.job()], guarded(call, change))[0])


def changes_of(call: Call, asked: Any) -> Any:
    """Return the fields that are to be changed, as far as who asks may change them."""
    if not isinstance(asked, dict):
        raise UsageError('What is to be changed is a JSON object, such as {"priority": 5}.')
    asked = by_name(asked, nulls=True)
    if not asked.keys() <= _HARMLESS:
        call.need(Right.SUBMIT, "To change what a job runs")
    if asked.get("queue") is not None:
        call.need_queue(str(asked["queue"]))
    _check_afar(asked)
    return asked


@group.post(
    "/jobs/{id}/clone",
    needs=Right.SUBMIT,
    takes=schemas.takes({}, {"changes": schemas.or_null(schemas.ref("NewJob"))}),
    longest=LONGEST_JOB,
    optional=True,
    answers=schemas.tells({"job": _JOB, "left_out": schemas.array(schemas.TEXT)}),
    status=201,
)
def clone(call: Call) -> Answer:
    """Add another job with all that one was asked for, also what isn't shown; with changes.

    Says what the other hasn't got: the id, a unique key that another job has. Who may not see what
    a job was given can't have something else run with it.
    """
    found = call.job()
    changes = changes_of(call, call.said("changes").get("changes") or {})
    call.need_queue(str(changes.get("queue") or found.queue))
    if was_given(found):
        check_given(call, changes)
    made = call.queue.clone(found, **changes)
    value = {"job": told(call, made.job), "left_out": list(made.left_out)}
    return Answer(value=value, status=201, headers=_where(call, made.job))


def was_given(job: Job) -> bool:
    """Tell whether a job was given what isn't shown to everybody."""
    return bool(job.env) or job.stdin_bytes is not None or job.data is not None


def check_given(call: Call, changes: Collection[str]) -> None:
    """Refuse to have something else run with what a job was given, to who may not see that."""
    if not _HARMLESS.issuperset(changes):
        call.need(Right.SECRETS, "To have something else run with the variables and data of a job")


def guarded(call: Call, change: Change) -> Change:
    """Return a change that isn't made to jobs which were given something, if that is refused."""
    given = change.asked.given
    if given is None:
        return change

    def check(job: Job, now: int) -> None:
        if was_given(job) and not stays_itself(job, change):
            check_given(call, given)
        change.check(job, now)

    return replace(change, check=check)


_HARMLESS = frozenset(field.name for field in REQUESTED if not field.is_work)
"""What may be changed without having anything else run."""


@group.delete("/jobs/{id}", needs=Right.OPERATE)
def remove(call: Call) -> None:
    """Delete a job that doesn't run, with its attempts and output."""
    call.queue.remove(call.job())


@group.post(
    "/jobs/{id}/cancel",
    takes=schemas.takes({}, {"reason": schemas.or_null(schemas.TEXT)}),
    optional=True,
    **_OPERATES,
)
def cancel(call: Call) -> dict[str, Any]:
    """Call a job off, also while it runs."""
    reason = text(call.said("reason"), "reason")
    return told(call, call.queue.cancel(call.job(), reason=reason))


@group.post(
    "/jobs/{id}/retry",
    takes=schemas.takes(
        {},
        {
            "changes": schemas.or_null(schemas.ref("NewJob")),
            "from_step": schemas.or_null(schemas.TEXT),
        },
    ),
    longest=LONGEST_LIST,
    optional=True,
    **_OPERATES,
)
def retry(call: Call) -> dict[str, Any]:
    """Put a job back in line, to run now; with changes, or from one of its steps on."""
    said = call.said("changes", "from_step")
    changed = changes_of(call, said.get("changes") or {}) or None
    asked = Asked(do="retry", given=changed, from_step=text(said, "from_step"))
    change = guarded(call, editing.change_of(asked))
    return told(call, call.queue.change_all([call.job()], change)[0])


@group.post(
    "/jobs/{id}/finish",
    takes=schemas.takes({}, {"result": schemas.ANY}),
    longest=LONGEST_LIST,
    optional=True,
    **_OPERATES,
)
def finish(call: Call) -> dict[str, Any]:
    """Complete a job from outside, as if it had succeeded."""
    result = call.said("result").get("result")
    return told(call, call.queue.force_finish(call.job(), result=result))


@group.post("/jobs/{id}/hold", **_OPERATES)
def hold(call: Call) -> dict[str, Any]:
    """Keep a job that waits from running, until it is released."""
    return told(call, call.queue.hold(call.job()))


@group.post("/jobs/{id}/release", **_OPERATES)
def release(call: Call) -> dict[str, Any]:
    """Let a job run again that is held."""
    return told(call, call.queue.release(call.job()))


@group.post("/jobs/{id}/top", **_OPERATES)
def top(call: Call) -> dict[str, Any]:
    """Put a job before all others of its queue and priority."""
    return told(call, call.queue.top(call.job()))


@group.post("/jobs/{id}/move", takes=schemas.takes({"queue": schemas.NAME}), **_OPERATES)
def move(call: Call) -> dict[str, Any]:
    """Have a job that waits do so in another queue."""
    to = text(call.said("queue", need=("queue",)), "queue") or ""
    return told(call, call.queue.move(call.job(), call.need_queue(to)))


@group.post("/jobs/{id}/swap", takes=schemas.takes({"with": schemas.ID}), **_OPERATES)
def swap(call: Call) -> dict[str, Any]:
    """Have two jobs that wait in one queue take each other's place."""
    other = call.job(text(call.said("with", need=("with",)), "with"))
    return told(call, call.queue.swap(call.job(), other)[0])


@group.post("/jobs/{id}/pause", **_OPERATES)
def pause(call: Call) -> dict[str, Any]:
    """Have a job that runs stand still."""
    call.queue.pause_jobs([job := call.job()])
    return told(call, call.queue.get(job))


@group.post("/jobs/{id}/resume", **_OPERATES)
def resume(call: Call) -> dict[str, Any]:
    """Let a job go on that stands still."""
    call.queue.resume_jobs([job := call.job()])
    return told(call, call.queue.get(job))
