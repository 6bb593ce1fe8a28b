"""The commands `edit`, `hold`, `release`, `top`, `swap` and `move`: changing jobs that wait."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from queuectl.changes import Changed
from queuectl.cli.change_report import Manner, Words
from queuectl.cli.changing import change_jobs, ids_argument, manner_options
from queuectl.cli.command import Command
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import near_queue, note_near
from queuectl.cli.options import (
    JOB_ID,
    Wanted,
    filter_options,
    json_option,
    open_queue,
)
from queuectl.cli.outlet import outlet
from queuectl.cli.pairs import FILTERS, wanted_of
from queuectl.cli.program import TakesProgram, exact_words, field_options, given_fields
from queuectl.cli.render import safe, write, write_json
from queuectl.editing import HOLD, NOT_EDITED, RELEASE, TOP, editing, moving, told
from queuectl.queue import Queue

CLEARED: Mapping[str, Any] = {
    "after": [],
    "tags": [],
    "keys": [],
    "timeout": 0,
    "expire": 0,
    **dict.fromkeys(("on_success", "on_failure", "on_dead"), False),
}
"""What can be taken away from a job, and how a request says so."""


class EditsProgram(TakesProgram):
    """A command whose words before `--` are ids, and not the command of a job."""

    def _words_before(self, args: Sequence[str], option: str) -> list[str]:
        return []


@click.command(
    cls=EditsProgram,
    examples="""
    queuectl edit k3v9 --priority 10 --timeout 5m
    queuectl edit k3v9 --command "make report" --run-at "tomorrow 09:00"
    queuectl edit k3v9 -- rsync -a "my files/" host:/backup
    queuectl edit --where queue=mail --where tag=bulk --priority -5
    queuectl edit --where state=failed --max-retries 9 --dry-run
    queuectl edit k3v9 --unset timeout --unset tags
    """,
)
@ids_argument
@click.option(
    "--where",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"Instead of ids, all that fit: {', '.join(FILTERS)}. Repeat it to narrow it down.",
)
@click.option("--command", metavar="TEXT", help="Another shell command.")
@field_options(but=NOT_EDITED)
@click.option(
    "--unset",
    multiple=True,
    type=click.Choice(list(CLEARED)),
    metavar="FIELD",
    help=f"Take something away: {', '.join(CLEARED)}. Repeat it.",
)
@manner_options
def edit(
    ids: tuple[str, ...],
    where: tuple[str, ...],
    command: str | None,
    unset: tuple[str, ...],
    how: Manner,
    **flags: Any,
) -> int:
    """Change jobs that wait: priority, queue, time, command.

    It takes what enqueue takes, and what isn't named stays as it is. --tag and --key replace those
    that a job has, --env is laid over its variables, and words behind -- are another program. A job
    that runs, or is over, can't be edited; see retry --with. What was and what is then are kept in
    its history.
    """
    given = _given(command, unset, given_fields(flags))
    change = editing(given)
    words = Words(would="edit", done="edited", sentence=_edited, what=_changed, counts_same=False)
    return change_jobs(
        change, words, ids, wanted_of(where), how, asks=False, filters="--where NAME=VALUE"
    )


def _given(command: str | None, unset: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are to be changed, or refuse them before a queue is opened."""
    from time import time

    from queuectl.request import read_some

    exact = exact_words()
    if exact is not None and command is not None:
        raise click.UsageError("Give only one of: --command, -- PROGRAM")
    if exact is not None:
        given["argv"] = list(exact)
    if command is not None:
        given["command"] = command
    for name in unset:
        if name in given:
            raise click.UsageError(f"Either set {name} or take it away, not both")
        given[name] = CLEARED[name]
    if not given:
        raise click.UsageError("Say what to change, such as --priority 5")
    read_some(given, now=int(time() * 1000))
    return given


def _changed(each: Changed) -> str:
    return told(each.before, each.after or each.before) or "it is so already"


def _edited(queue: Queue, each: Changed) -> str:
    if not told(each.before, each.after or each.before):
        return f"Job {each.before.id} is so already; nothing was changed."
    return f"Job {each.before.id} edited: {_changed(each)}."


@click.command(
    cls=Command,
    examples="""
    queuectl hold k3v9                        # it doesn't run until it is released
    queuectl hold --queue mail --tag big
    queuectl release k3v9
    """,
)
@ids_argument
@filter_options
@manner_options
def hold(ids: tuple[str, ...], wanted: Wanted, how: Manner) -> int:
    """Keep jobs that wait from running, until they are released.

    They keep their places in the line. A job that expires meanwhile is dead, as ever.
    """
    words = Words(would="hold", done="held", sentence=_held)
    return change_jobs(HOLD, words, ids, wanted, how, asks=False)


def _held(queue: Queue, each: Changed) -> str:
    return f"Job {each.before.id} is held; release it with: queuectl release {each.before.id}"


@click.command(
    cls=Command,
    examples="""
    queuectl release k3v9
    queuectl release --queue mail --json
    """,
)
@ids_argument
@filter_options
@manner_options
def release(ids: tuple[str, ...], wanted: Wanted, how: Manner) -> int:
    """Let jobs run again that are held."""
    words = Words(would="release", done="released", sentence=_released)
    return change_jobs(RELEASE, words, ids, wanted, how, asks=False)


def _released(queue: Queue, each: Changed) -> str:
    return f"Job {each.before.id} is released."


@click.command(
    cls=Command,
    examples="""
    queuectl top k3v9
    queuectl top k3v9 m2aa                    # k3v9 first, then m2aa
    queuectl top k3v9 --json
    """,
)
@click.argument("ids", nargs=-1, type=JOB_ID, metavar="ID...")
@manner_options
def top(ids: tuple[str, ...], how: Manner) -> int:
    """Put jobs before all others of their queue and priority.

    Several keep the order in which they are named. A job of a higher priority still comes before
    them, and limits, pauses and times hold as ever. To see what goes on, use status --watch.
    """
    if not ids:
        raise click.UsageError("Say which job is to be first; status --watch shows what goes on")
    words = Words(would="put first", done="put first", sentence=_first)
    return change_jobs(TOP, words, ids, Wanted(), how, asks=False)


def _first(queue: Queue, each: Changed) -> str:
    job = each.before
    return f"Job {job.id} moved to the front of queue {job.queue} (priority {job.priority})."


@click.command(
    cls=Command,
    examples="""
    queuectl swap k3v9 m2aa
    queuectl swap k3v9 m2aa --json
    """,
)
@click.argument("id", type=JOB_ID, metavar="ID")
@click.argument("other", type=JOB_ID, metavar="ID")
@json_option
def swap(id: str, other: str, as_json: bool) -> None:
    """Have two jobs take each other's place in the line.

    Both must wait, in one queue. They exchange their priorities, their places in the line, and so
    also those in lists. When each is due stays as it is.
    """
    with open_queue(must_exist=True) as queue, truthful(queue):
        jobs = queue.swap(id, other)
        outlet.done = lambda: f"Jobs {jobs[0].id} and {jobs[1].id} have swapped places"
        if as_json:
            from queuectl.report import job_dict

            write_json([job_dict(job) for job in jobs])
        else:
            write(safe(f"Jobs {jobs[0].id} and {jobs[1].id} have swapped places."))


@click.command(
    cls=Command,
    examples="""
    queuectl move k3v9 --to slow
    queuectl move --queue mail --tag bulk --to slow
    queuectl move --queue mail --state failed --to later --dry-run
    """,
)
@ids_argument
@click.option("--to", required=True, metavar="QUEUE", help="The queue to wait in from now on.")
@filter_options
@manner_options
def move(ids: tuple[str, ...], to: str, wanted: Wanted, how: Manner) -> int:
    """Have jobs that wait do so in another queue.

    There they stand by when they were enqueued or, if that queue has keys, as if they were new.
    How many may wait there isn't asked.
    """
    change = moving(to)
    with open_queue() as queue:
        near = near_queue(queue, to)
    words = Words(would="move", done="moved", sentence=_moved, what=_changed)
    code = change_jobs(change, words, ids, wanted, how, asks=False)
    note_near(to, near)
    return code


def _moved(queue: Queue, each: Changed) -> str:
    after = each.after or each.before
    return f"Job {after.id} moved from queue {each.before.queue} to {after.queue}."
