"""One change to many jobs, as a command: which jobs are meant, and how it is made and reported."""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeVar

import click

from queuectl.changes import Change, filter_for
from queuectl.cli.change_report import (
    JsonReport,
    Manner,
    Report,
    TextReport,
    Words,
    taken_along,
)
from queuectl.cli.confirm import can_ask, confirm
from queuectl.cli.interrupts import truthful
from queuectl.cli.options import JOB_ID, Wanted, json_option, open_queue, quiet_option
from queuectl.cli.outlet import outlet
from queuectl.cli.render import plural
from queuectl.errors import NotFoundError, UsageError
from queuectl.filter import Filter
from queuectl.job import Job
from queuectl.lineage import Along
from queuectl.queue import Queue
from queuectl.values import replace

F = TypeVar("F", bound=Callable[..., Any])
LOOKED_AT = 10_000
"""Of very many jobs that are to be changed, so many are asked who waits for them."""

ids_argument = click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Only say what would be done; change nothing."
)


def manner_options(command: F) -> F:
    """Add --dry-run, --quiet and --json; with a --yes or --wait they arrive together as `how`."""

    @wraps(command)
    def gather(*args: Any, **given: Any) -> Any:
        names = ("dry_run", "quiet", "as_json", "yes", "wait")
        how = Manner(**{name: given.pop(name) for name in names if name in given})
        return command(*args, how=how, **given)

    decorated: Any = gather
    for option in (json_option, quiet_option, dry_run_option):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def change_jobs(
    change: Change,
    words: Words,
    ids: Sequence[str],
    wanted: Wanted,
    how: Manner,
    *,
    all_jobs: bool | None = None,
    asks: bool = True,
    filters: str = "filters such as --queue",
) -> int:
    """Change the jobs with these ids, or those that are wanted; report, and return the exit code.

    `--state all` means all states that the change can be made in. What is done to really all jobs
    `asks` first. `all_jobs` is None for a command that has no --all. `filters` are what it has.
    """
    _check_choice(ids, bool(wanted), all_jobs, filters)
    states = change.allowed if wanted.all_states else wanted.states
    with open_queue() as queue:
        which = filter_for(change, replace(wanted, states=states).filter(queue))
        along = _along(queue, ids, which, change, how) if words.takes_along else None
        if asks and (all_jobs or wanted.all_states or (along is not None and along.ids)):
            question = partial(_question, queue, ids, which, change, words, along)
            confirm(question, yes=how.yes or how.dry_run)
        with truthful(queue, patient=not how.dry_run) as truth:
            report: Report
            report = (JsonReport if how.as_json else TextReport)(queue, truth, how, words)
            outlet.done, report.along = report.done, along
            with report:
                if ids:
                    queue.change_named(ids, change, dry_run=how.dry_run, told=report.named)
                else:
                    queue.change_matching(which, change, dry_run=how.dry_run, told=report.page)
                if how.wait:
                    report.wait()
                report.sum_up()
        return report.code


def _check_choice(ids: Sequence[str], filtered: bool, all_jobs: bool | None, filters: str) -> None:
    """Insist on exactly one way to say which jobs are meant."""
    every = "" if all_jobs is None else " or --all"
    if ids and (filtered or all_jobs):
        raise click.UsageError(f"Give either ids, or filters{every}, not both")
    if not ids and not filtered and not all_jobs:
        raise click.UsageError(f"Say which jobs: give ids or {filters}{every}")


def _along(
    queue: Queue, ids: Sequence[str], which: Filter, change: Change, how: Manner
) -> Along | None:
    """Return which jobs would be cancelled with those that are meant, if somebody is told of it."""
    if ids:
        jobs = [job for id in ids if (job := _found(queue, id)) is not None]
        is_whole = True
    elif how.quiet and not (how.dry_run or how.as_json or can_ask()):
        return None
    elif not change.deletes and _is_one_group(which, change):
        # Others wait for the group itself, which is over then.
        return queue.groups.taken_along(which.groups[0], limit=LOOKED_AT)
    else:
        jobs = queue.list(which, limit=LOOKED_AT + 1)
        is_whole = len(jobs) <= LOOKED_AT
    if not any(job.has_children for job in jobs):
        return Along(ids=(), is_whole=is_whole)
    found = queue.taken_along(jobs)
    return found if is_whole else replace(found, is_whole=False)


def _is_one_group(which: Filter, change: Change) -> bool:
    """Tell whether all of a group is meant that a change can be made to."""
    return len(which.groups) == 1 and which == Filter(groups=which.groups, states=change.usual)


def _found(queue: Queue, id: str) -> Job | None:
    """Return a job that is meant, if there is one: that there is none is said where it matters."""
    try:
        return queue.meant(id)
    except (NotFoundError, UsageError):
        return None


def _question(
    queue: Queue,
    ids: Sequence[str],
    which: Filter,
    change: Change,
    words: Words,
    along: Along | None,
) -> str:
    count = len(ids) or queue.count(which)
    certain = " for good" if change.deletes else ""
    more = f", and cancel {taken_along(along)}" if along is not None and along.ids else ""
    what = f"job {ids[0]}" if count == len(ids) == 1 else plural(count, "job")
    return f"{words.would.capitalize()} {what}{certain}{more}?" if count else ""
