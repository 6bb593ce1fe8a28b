"""Looking at what was enqueued: which jobs of a task there are, with which arguments."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from queuectl.job import Job
from queuectl.queue import Queue
from queuectl.request import read_some
from queuectl.tasks.task import Task

SHOWN = 10
"""How many jobs a failure names."""
_COMPARED = frozenset("queue priority timeout max_retries tags keys delay".split())
"""The options of a task by which jobs are told apart."""


class Enqueued(NamedTuple):
    """A job of a task."""

    job: Job
    task: Task[..., Any, Any]
    arguments: Mapping[str, Any]
    """By the names of their parameters; those that weren't given are missing."""

    def __str__(self) -> str:
        """Write it as a call, and say where it is."""
        return f"{_call(self.task, self.arguments)} in {self.job.queue}, {self.job.state}"


def enqueued(queue: Queue, task: Task[..., Any, Any] | None = None) -> list[Enqueued]:
    """Return the jobs of a task, or of all that are registered, in the order they were made in."""
    names = queue.tasks if task is None else {task.name: task}
    return [
        Enqueued(job, names[job.task], names[job.task].signature.arguments(_data(job)))
        for job in queue.iterate(oldest=True)
        if job.task in names
    ]


def assert_enqueued(
    queue: Queue, task: Task[..., Any, Any], /, *args: Any, count: int | None = None, **kwargs: Any
) -> list[Job]:
    """Check that a task was enqueued with these arguments; those that aren't given may be any.

    Once or more often; or as often as `count` says, also never. Whether it still waits doesn't
    matter. What `task.using(queue="mail")` says of its jobs must be so, too. Returns the jobs.
    """
    wanted = task.signature.written_part(args, kwargs)
    fields = {name: value for name, value in task.options.items() if name in _COMPARED}
    templates = {"keys"} if "{" in str(fields.get("keys", "")) else set()
    options = {n: v for n, v in read_some(fields).items() if n in _COMPARED - templates}
    of_task = enqueued(queue, task)
    found = [
        one.job
        for one in of_task
        if _fits(task.signature.whole(_data(one.job)), wanted) and _is_so(one.job, options)
    ]
    if found if count is None else len(found) == count:
        return found
    told = _call(task, task.signature.arguments(wanted), "…")
    where = "".join(f", {name} {value!r}" for name, value in fields.items())
    expected = "at least once" if count is None else "once" if count == 1 else f"{count} times"
    was = "once" if len(found) == 1 else f"{len(found)} times" if found else "never"
    lines = [f"Expected {told}{where} to be enqueued {expected}; it was {was}."]
    others = of_task or enqueued(queue)
    if others:
        lines.append("There are these jobs:" if of_task else "There are only jobs of other tasks:")
        lines += [f"  {one}" for one in others[:SHOWN]]
        lines += [f"  and {len(others) - SHOWN} more"] if len(others) > SHOWN else []
    else:
        lines.append("There are no jobs of tasks at all.")
    raise AssertionError("\n".join(lines))


def _data(job: Job) -> Any:
    return json.loads(job.data or b"null")


def _fits(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in there and there[name] == value for name, value in wanted.items())


def _is_so(job: Job, options: Mapping[str, Any]) -> bool:
    # After a run, it is due when its retry is, and nobody knows for when it was enqueued.
    delay = job.run_at - job.created_at if not job.attempts else options.get("delay")
    is_now = {
        "delay": delay,
        **{name: getattr(job, name, None) for name in options if name != "delay"},
    }
    return all(is_now[name] == value for name, value in options.items())


def _call(task: Task[..., Any, Any], arguments: Mapping[str, Any], nothing: str = "") -> str:
    inner = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{task.name}({inner or nothing})"
