"""The commands `pause`, `resume` and `queues`: named lines of jobs, and whether they move.

`pause` and `resume` are also for a job that runs, and whether that moves.
"""

from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

import click

from queuectl.cli.command import Command
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import note_unused
from queuectl.cli.options import JOB_ID, json_option, open_queue, queues_option, quiet_names_option
from queuectl.cli.render import safe, say, write, write_json
from queuectl.errors import NotFoundError, UsageError
from queuectl.job import DEFAULT_QUEUE, State
from queuectl.request import check_name
from queuectl.values import dataclass

if TYPE_CHECKING:
    from queuectl.job import Job
    from queuectl.queue import Queue

F = TypeVar("F", bound=Callable[..., object])

names_argument = click.argument("names", nargs=-1, metavar="[QUEUE|ID]...")
pause_all_option = click.option("--all", "every", is_flag=True, help="All queues that are in use.")
resume_all_option = click.option("--all", "every", is_flag=True, help="All paused queues.")


def job_option(what: str) -> Callable[[F], F]:
    """Return the --job that may be repeated; arrives as `jobs`."""
    help = f"{what} this running job, also if a queue has that name."
    return click.option("--job", "jobs", multiple=True, type=JOB_ID, metavar="ID", help=help)


def queue_option(what: str) -> Callable[[F], F]:
    """Return the --queue that may be repeated; arrives as `queues`."""
    return queues_option(f"{what} this queue, also if a running job has that id.")


@click.command(
    cls=Command,
    examples="""
    queuectl pause                            # the queue named default
    queuectl pause mail reports
    queuectl pause --all
    queuectl pause 7f3k                       # a job that runs: all its processes stand still
    queuectl pause --job 7f3k --json
    """,
)
@names_argument
@job_option("Pause")
@queue_option("Pause")
@pause_all_option
@json_option
def pause(every: bool, as_json: bool, **given: tuple[str, ...]) -> None:
    """Stop giving out jobs of a queue, or have a job stand still.

    A queue: its running jobs go on, and new ones can still be enqueued. It stays paused until it
    is resumed. Without a name it is the queue named default.

    A job that runs: all its processes are stopped, and the clock of its timeout, until it is
    resumed. It keeps its worker, and its places in limits. A node that is to stop waits for it.

    A name is that of a queue, if one of that name is in use, else the id of a job; if it can be
    both, --job or --queue says which.
    """
    set_paused(Named(**given), every=every, as_json=as_json, paused=True)


@click.command(
    cls=Command,
    examples="""
    queuectl resume
    queuectl resume mail reports
    queuectl resume --all
    queuectl resume --all --json
    queuectl resume 7f3k                      # a running job that is paused
    """,
)
@names_argument
@job_option("Resume")
@queue_option("Resume")
@resume_all_option
@json_option
def resume(every: bool, as_json: bool, **given: tuple[str, ...]) -> None:
    """Give out the jobs of a queue again, or let a job go on.

    Without a name it is the queue named default. A name is that of a queue, if one of that name is
    in use, else the id of a job; if it can be both, --job or --queue says which.
    """
    set_paused(Named(**given), every=every, as_json=as_json, paused=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What is to be paused or resumed: queues and jobs, and what may be either."""

    names: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()

    def check(self, every: bool) -> None:
        """Raise what is wrong with it, before anything is opened."""
        if every and (self.names or self.queues or self.jobs):
            raise click.UsageError("Give either names, or --all, not both")
        for name in (*self.names, *self.queues):
            check_name("queue", name)

    def split(self, queue: "Queue") -> tuple[list[str], list[str]]:
        """Return the names of queues and the ids of jobs; none at all is the default queue."""
        queues, ids = [*self.queues], [queue.meant(id).id for id in self.jobs]
        unused = queue.unused(self.names) if self.names else {}
        for name in self.names:
            job = _job(queue, name, is_queue=name not in unused)
            if job is None:
                queues.append(name)
            else:
                ids.append(job.id)
        note_unused(queue, queues)
        if not queues and not ids:
            queues = [DEFAULT_QUEUE]
        return list(dict.fromkeys(queues)), list(dict.fromkeys(ids))


def set_paused(named: Named, *, every: bool, as_json: bool, paused: bool) -> None:
    """Pause or resume queues and jobs, and say what changed by that."""
    named.check(every)
    # Who means all queues that are in use means none that is still to be made.
    with open_queue(create=paused and not every) as queue, truthful(queue):
        queues, ids = named.split(queue)
        if every:
            found = queue.status()
            queues = [*(found.queues if paused else found.paused)]
        set_jobs, set_queue = (
            (queue.pause_jobs, queue.pause) if paused else (queue.resume_jobs, queue.resume)
        )
        jobs = set_jobs(ids) if ids else {}
        changed = {name: set_queue(name) for name in queues}
        if as_json:
            _write_json(changed, jobs, paused=paused)
        elif not changed and not jobs:
            say("No queue is in use, so none is paused." if paused else "No queue is paused.")
        elif paused:
            _write_changed(changed, "is paused; jobs that run go on", "was paused already")
            _write_jobs(jobs, "is paused; its processes stand still", "was paused already")
        else:
            _write_changed(changed, "is resumed", "wasn't paused")
            _write_jobs(jobs, "goes on", "wasn't paused")


def _job(queue: "Queue", name: str, *, is_queue: bool) -> "Job | None":
    """Return the job that is meant by a name; None if that is a queue."""
    if is_queue:
        job = queue.find(name)
        if job is not None and job.state == State.PROCESSING:
            raise click.UsageError(
                f"{name!r} is a queue, and the id of a job that runs; say --queue {quote(name)}"
                f" or --job {quote(name)}"
            )
        return None
    try:
        return queue.meant(name)
    except (NotFoundError, UsageError):
        return None


def _write_changed(changed: dict[str, bool], done: str, was_so: str) -> None:
    for name, is_new in changed.items():
        write(safe(f"Queue {name!r} {done if is_new else was_so}."))


def _write_jobs(changed: dict[str, bool], done: str, was_so: str) -> None:
    for id, is_new in changed.items():
        write(safe(f"Job {id} {done if is_new else was_so}."))


def _write_json(queues: dict[str, bool], jobs: dict[str, bool], *, paused: bool) -> None:
    told = [{"name": name, "paused": paused, "changed": done} for name, done in queues.items()]
    write_json(told + [{"id": id, "paused": paused, "changed": done} for id, done in jobs.items()])


@click.command(
    cls=Command,
    examples="""
    queuectl queues
    queuectl queues --json
    """,
)
@json_option
@quiet_names_option
def queues(as_json: bool, quiet: bool) -> None:
    """List the queues: what is in them, what they allow.

    Of limits it says how much is used.
    """
    from queuectl.cli.queue_report import write_queues
    from queuectl.views import queue_dicts

    with open_queue() as queue:
        rows = queue_dicts(queue)
    if as_json:
        write_json(rows)
    elif quiet:
        for row in rows:
            write(safe(row["name"]))
    elif rows:
        write_queues(rows)
    else:
        say("No queue has jobs.")
