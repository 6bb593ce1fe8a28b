"""The `dlq` commands: the dead letter queue, which is all jobs in state dead."""

from collections.abc import Iterable

import click

from queuectl.changes import PURGE, RETRY_DEAD
from queuectl.cli.change_report import Manner, Words
from queuectl.cli.changing import change_jobs, ids_argument, manner_options
from queuectl.cli.command import Group
from queuectl.cli.list import write_all, write_ids
from queuectl.cli.options import (
    DURATION,
    JOB_ID,
    Wanted,
    filter_options_without_state,
    json_option,
    open_queue,
    quiet_option,
    yes_option,
)
from queuectl.cli.paging import how_many, limit_option
from queuectl.cli.render import Column, plural, say, write_long_table, write_result
from queuectl.errors import StateError
from queuectl.filter import Filter
from queuectl.job import Job, State
from queuectl.queue import Queue
from queuectl.report import why_ended
from queuectl.titles import titled
from queuectl.values import replace
from queuectl.when import ago

all_option = click.option("--all", "all_jobs", is_flag=True, help="All dead jobs.")
older_option = click.option(
    "--older-than", type=DURATION, metavar="AGE", help="Only jobs that died so long ago: 12h, 7d."
)


@click.group(
    cls=Group,
    examples="""
    queuectl dlq list
    queuectl dlq show k3v9
    queuectl dlq retry k3v9                   # once the cause is mended
    queuectl dlq retry --queue mail
    queuectl dlq purge --older-than 30d
    """,
)
def dlq() -> None:
    """Look into the dead letter queue, retry or purge it.

    A job is dead when its retries are used up, when it expired, or when its runs were lost with
    their worker too often. It stays, with its reason and output, until it is retried or purged.
    """


@dlq.command(
    "list",
    examples="""
    queuectl dlq list
    queuectl dlq list --queue mail --since 1d
    queuectl dlq list -q | xargs -n 1 queuectl output --
    """,
)
@filter_options_without_state
@limit_option("-q", "--json")
@json_option
@quiet_option
def list_dead(wanted: Wanted, limit: int | None, as_json: bool, quiet: bool) -> None:
    """List dead jobs: why they died, and what they ran.

    As in list, the order is that in which they were enqueued, the newest first, and -q and --json
    into a pipe or a file are complete.
    """
    with open_queue() as queue:
        which = _dead(queue, wanted)
        page = queue.page(which, limit=how_many(limit, bare=as_json or quiet))
        write_jobs = write_all if as_json else write_ids if quiet else _write_table
        write_jobs(page, queue.now())
        if page.more:
            say(_more(page.count, queue.counted(which)))
        elif not as_json and not quiet:
            say(_total(page.count, bool(wanted)))


def _more(shown: int, total: int | None) -> str:
    if total is None:
        return f"There are more than these {shown:,}; --limit 0 shows all."
    return f"{shown:,} of {plural(total, 'dead job')} shown; --limit 0 shows all."


def _total(shown: int, filtered: bool) -> str:
    if shown:
        return f"Total: {plural(shown, 'dead job')}."
    return "No dead jobs fit." if filtered else "The dead letter queue is empty."


_COLUMNS = (
    Column("ID", least=12),
    Column("ATTEMPTS", right=True, drop=1),
    Column("DIED", right=True, drop=2),
    Column("REASON", least=30, most=100, is_sentence=True),
    Column("COMMAND", least=14),
)


def _write_table(jobs: Iterable[Job], now: int) -> None:
    write_long_table(_COLUMNS, (_row(job, now) for job in jobs))


def _row(job: Job, now: int) -> list[str]:
    return [job.id, str(job.attempts), _died(job, now), why_ended(job), titled(job)]


def _died(job: Job, now: int) -> str:
    return "" if job.finished_at is None else f"{ago(now - job.finished_at)} ago"


@dlq.command(
    "show",
    examples="""
    queuectl dlq show k3v9
    queuectl dlq show k3v9 --json
    """,
)
@click.argument("id", type=JOB_ID, metavar="ID")
@json_option
def show_dead(id: str, as_json: bool) -> None:
    """Show all about a dead job: reason, runs, history."""
    from queuectl.cli.show import show_job

    with open_queue() as queue:
        job = queue.get(id)
        if job.state != State.DEAD:
            raise StateError(f"Job {job.id} is {job.state}, not dead; see queuectl show {job.id}.")
        show_job(queue, job, as_json=as_json)


@dlq.command(
    "count",
    examples="""
    queuectl dlq count
    test "$(queuectl dlq count)" -eq 0        # in a script that watches it
    """,
)
@filter_options_without_state
@json_option
def count(wanted: Wanted, as_json: bool) -> None:
    """Print the number of dead jobs."""
    with open_queue() as queue:
        number = queue.count(_dead(queue, wanted))
    write_result(number, str(number), as_json=as_json)


def _dead(queue: Queue, wanted: Wanted) -> Filter:
    return replace(wanted, states=(State.DEAD,)).filter(queue)


@dlq.command(
    "retry",
    examples="""
    queuectl dlq retry k3v9
    queuectl dlq retry --all
    queuectl dlq retry --queue mail --text "connection refused"
    """,
)
@ids_argument
@all_option
@filter_options_without_state
@manner_options
def retry_dead(ids: tuple[str, ...], all_jobs: bool, wanted: Wanted, how: Manner) -> int:
    """Put dead jobs back in line, to run now.

    Failures and crashes are counted from zero again; attempts, output and history stay.
    """
    words = _words("retry", "moved from the dead letter queue to 'pending'")
    return change_jobs(RETRY_DEAD, words, ids, wanted, how, all_jobs=all_jobs, asks=False)


def _words(would: str, done: str) -> Words:
    return Words(would=would, done=done, sentence=lambda _, each: f"Job {each.before.id} {done}.")


@dlq.command(
    "purge",
    examples="""
    queuectl dlq purge k3v9
    queuectl dlq purge --older-than 30d
    queuectl dlq purge --all --dry-run
    """,
)
@ids_argument
@all_option
@older_option
@filter_options_without_state
@yes_option
@manner_options
def purge(ids: tuple[str, ...], all_jobs: bool, wanted: Wanted, how: Manner) -> int:
    """Delete dead jobs for good, with their attempts and output.

    On a terminal, --all asks first.
    """
    words = _words("delete", "deleted from the dead letter queue")
    return change_jobs(PURGE, words, ids, wanted, how, all_jobs=all_jobs)
