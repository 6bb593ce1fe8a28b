"""Many jobs at once, as lines of JSON that are read, and answered, as they come."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Full
from queue import Queue as Pipe
from threading import Event, Thread
from typing import Any

from queuectl import changes, editing
from queuectl.access import Right
from queuectl.errors import QueuectlError, UsageError, shown
from queuectl.filter import Filter
from queuectl.job_json import job_dict
from queuectl.report import change_dict
from queuectl.web import schemas
from queuectl.web.api import asking
from queuectl.web.api.jobs import asked_of, masked
from queuectl.web.call import Call, Lines, flag, text
from queuectl.web.route import LINES, LONGEST_LIST, Group

group = Group(name="bulk", about=__doc__ or "")

PART = 1_000
"""Jobs that are stored in one transaction, and told together."""
PAGES = 2
"""Transactions whose changes may be untold while the next goes on."""
WHAT = ("cancel", "retry", "hold", "release", "remove", "top", "move", "finish")


@group.get("/bulk/jobs", query=asking.FILTERS, answers=schemas.ref("Job"), answers_as=LINES)
def export(call: Call) -> Lines:
    """Send all jobs that fit, however many, a line of JSON each, newest first."""
    which = asking.filter_of(call)
    return Lines(values=(masked(call, job_dict(job)) for job in call.queue.iterate(which)))


@group.post(
    "/bulk/jobs",
    needs=Right.SUBMIT,
    takes=schemas.ref("NewJob"),
    takes_as=LINES,
    answers=schemas.tells(
        {
            "line": schemas.COUNT,
            "id": schemas.or_null(schemas.TEXT),
            "error": schemas.or_null(schemas.TEXT),
        }
    ),
    answers_as=LINES,
)
def add_many(call: Call) -> Lines:
    """Add jobs, a line of JSON each, and answer each with a line: its id, or what is wrong with it.

    They are stored in parts of 1,000, and are told once that can't be undone: what was told before
    a connection broke is stored. A line that is wrong keeps none of the others from being stored.
    """
    return Lines(values=_added(call))


def _added(call: Call) -> Iterator[dict[str, Any]]:
    ahead = 0
    for lines in call.parts(PART):
        part = list(enumerate(lines, ahead + 1))
        ahead += len(lines)
        told: dict[int, dict[str, Any]] = {}
        good: dict[int, Any] = {}
        for number, asked in part:
            try:
                if isinstance(asked, QueuectlError):
                    raise asked
                if not isinstance(asked, dict):
                    raise UsageError(f"A job is a JSON object, not {shown(asked)}.")
                good[number] = asked_of(call, asked)
            except QueuectlError as error:
                told[number] = {"line": number, "id": None, "error": str(error)}
        told |= _stored(call, good)
        yield from (told[number] for number, _ in part)


def _stored(call: Call, asked: dict[int, Any]) -> dict[int, dict[str, Any]]:
    """Store jobs together or, if one of them can't be, one by one."""
    if not asked:
        return {}
    try:
        ids = call.queue.enqueue_many(asked.values()).ids
    except QueuectlError:
        return {number: _stored_alone(call, number, one) for number, one in asked.items()}
    return {
        number: {"line": number, "id": id, "error": None}
        for number, id in zip(asked, ids, strict=True)
    }


def _stored_alone(call: Call, number: int, asked: Any) -> dict[str, Any]:
    try:
        return {"line": number, "id": call.queue.enqueue(asked).id, "error": None}
    except QueuectlError as error:
        return {"line": number, "id": None, "error": str(error)}


@group.post(
    "/bulk/changes",
    needs=Right.OPERATE,
    takes=schemas.takes(
        {"do": {"type": "string", "enum": list(WHAT)}},
        {
            "ids": schemas.array(schemas.ID),
            "filter": asking.FILTER,
            "reason": schemas.TEXT,
            "to": schemas.NAME,
            "dry_run": schemas.FLAG,
        },
    ),
    longest=LONGEST_LIST,
    answers=schemas.ref("Change"),
    answers_as=LINES,
)
def change_many(call: Call) -> Lines:
    """Do the same to many jobs: those with these ids, or all that fit a filter.

    What became of each is a line of JSON, as soon as it can't be undone any more. With `dry_run`
    nothing is changed, and the lines say what would be. To `retry` a `group` means its dead jobs,
    and those that were cancelled because of dead ones, unless a `state` is said.
    """
    said = call.said("do", "ids", "filter", "reason", "to", "dry_run", need=("do",))
    change = _change(call, said)
    if ("ids" in said) == ("filter" in said):
        raise UsageError("Say either ids or a filter.")
    dry_run = flag(said, "dry_run")
    if "filter" in said:
        which = asking.filter_in(call, said["filter"])
        if said["do"] == "retry" and which.groups and not which.states:
            change = changes.repairing(change)
        return Lines(values=_matching(call, which, change, dry_run=dry_run))
    ids = said["ids"]
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise UsageError("ids must be a list of ids.")
    return Lines(values=_named(call, ids, change, dry_run=dry_run))


@group.post(
    "/actions/{id}/undo",
    needs=Right.OPERATE,
    takes=schemas.takes({}, {"dry_run": schemas.FLAG}),
    optional=True,
    answers=schemas.ref("Change"),
    answers_as=LINES,
)
def undo(call: Call) -> Lines:
    """Take back what an action did to jobs, within ten minutes, as far as they are what came of it.

    What became of each is a line of JSON, with the reason for those that stay as they are. The
    header `Queuectl-Action` of an answer says which action a request was.
    """
    dry_run = flag(call.said("dry_run"), "dry_run")
    may = call.may(Right.SUBMIT)

    def run(tell: Tell) -> None:
        call.queue.undo(call.path["id"], dry_run=dry_run, may_change_work=may, told=tell)

    return Lines(values=_as_told(run))


def _named(
    call: Call, ids: list[str], change: changes.Change, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    found: list[changes.Changed | changes.Refused] = []
    jobs = []
    for id in dict.fromkeys(ids):
        try:
            jobs.append(call.job(id))
        except QueuectlError as error:
            yield change_dict(changes.Refused(name=id, job=None, error=error))
    call.queue.change_named(jobs, change, dry_run=dry_run, told=found.append)
    yield from map(change_dict, found)


def _matching(
    call: Call, which: Filter, change: changes.Change, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Change all that fit."""
    return _as_told(
        lambda tell: call.queue.change_matching(which, change, dry_run=dry_run, told=tell)
    )


Tell = Callable[[Sequence[changes.Changed | changes.Refused]], None]


def _as_told(make: Callable[[Tell], object]) -> Iterator[dict[str, Any]]:
    """Change jobs in a thread, and yield what is told of each, as soon as it is."""
    for page in pages_told(make):
        yield from map(change_dict, page)


def pages_told(
    make: Callable[[Tell], object],
) -> Iterator[Sequence[changes.Changed | changes.Refused]]:
    """Change jobs in a thread, and yield what is told, page by page, as soon as it is."""
    pipe: Pipe[Any] = Pipe(maxsize=PAGES)
    gone = Event()

    def run() -> None:
        try:
            make(partial(_put, pipe, gone))
            _put(pipe, gone, None)
        except QueuectlError as error:
            _put(pipe, gone, error)
        except _GoneError:
            return

    Thread(target=copy_context().run, args=[run], daemon=True, name="bulk").start()
    try:
        while (page := pipe.get()) is not None:
            if isinstance(page, QueuectlError):
                raise page
            yield page
    finally:
        gone.set()


class _GoneError(Exception):
    """Nobody hears what is told any more, so no more is done."""


def _put(pipe: "Pipe[Any]", gone: Event, told: Any) -> None:
    while not gone.is_set():
        with suppress(Full):
            pipe.put(told, timeout=0.5)
            return
    raise _GoneError


def _change(call: Call, said: dict[str, Any]) -> changes.Change:
    what = text(said, "do")
    if what == "move":
        to = text(said, "to")
        if to is None:
            raise UsageError("To move jobs, say `to` which queue.")
        return editing.moving(call.need_queue(to))
    if what == "cancel":
        return changes.cancelling(text(said, "reason"))
    known = {
        "retry": changes.RETRY,
        "hold": editing.HOLD,
        "release": editing.RELEASE,
        "remove": changes.REMOVE,
        "top": editing.TOP,
        "finish": changes.finishing(),
    }
    if what not in known:
        raise UsageError(f"There is nothing called {shown(what)} to do; use {', '.join(WHAT)}.")
    return known[what]
