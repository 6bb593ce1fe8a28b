"""The `dlq` commands: the dead letter queue, which is all jobs in state dead."""

from collections.abc import Callable, Sequence

import click

from queuectl import changes
from queuectl.cli.command import Group
from queuectl.cli.many import (
    Manner,
    Verb,
    change_matching,
    change_named,
    check_choice,
    count_matching,
    dry_run_option,
    ids_argument,
)
from queuectl.cli.options import (
    DURATION,
    JOB_ID,
    Wanted,
    filter_options_without_state,
    json_option,
    open_queue,
    quiet_option,
)
from queuectl.cli.render import (
    Column,
    cut,
    is_terminal,
    plural,
    safe,
    say,
    terminal_width,
    width,
    write,
    write_json,
    write_table,
)
from queuectl.errors import StateError
from queuectl.job import Job, State
from queuectl.queue import Queue
from queuectl.store.contract import Filter
from queuectl.values import replace
from queuectl.when import ago

DEAD = (State.DEAD,)
LONGEST_REASON, SHORTEST_REASON = 70, 24
NARROW = 27
"""What the other columns of the list take, but for the id, with the gaps between them."""

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

    A job is dead when its retries are used up, when it expired, or when its runs took their
    worker down too often. It stays, with its reason and output, until it is retried or purged.
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
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="At most so many, the newest; 0 for all.",
)
@json_option
@quiet_option
def list_dead(wanted: Wanted, limit: int, as_json: bool, quiet: bool) -> None:
    """List dead jobs: why they died, and what they ran.

    As in list, the order is that in which they were enqueued, the newest first.
    """
    with open_queue() as queue:
        now = queue.store.now()
        which = _dead(queue, wanted)
        jobs = queue.store.select(which, limit=limit + 1 if limit else None)
    more = bool(limit) and len(jobs) > limit
    jobs = jobs[:limit] if limit else jobs
    if as_json:
        from queuectl.report import job_dict

        write_json([job_dict(job) for job in jobs])
    elif quiet:
        for job in jobs:
            write(safe(job.id))
    elif jobs:
        _write_jobs(jobs, now)
        say(f"There are more than these {limit}; --limit 0 shows all." if more else _total(jobs))
    else:
        say("No dead jobs fit." if wanted else "The dead letter queue is empty.")


def _total(jobs: list[Job]) -> str:
    return f"Total: {plural(len(jobs), 'dead job')}."


def _write_jobs(jobs: list[Job], now: int) -> None:
    columns = [
        Column("ID"),
        Column("ATTEMPTS", right=True),
        Column("DIED", right=True),
        Column("REASON"),
        Column("COMMAND", cut=True),
    ]
    limit = _reason_width(jobs) if is_terminal() else LONGEST_REASON
    rows = (
        [job.id, str(job.attempts), _died(job, now), cut(safe(why(job)), limit), job.title]
        for job in jobs
    )
    write_table(columns, rows)


def _reason_width(jobs: list[Job]) -> int:
    """Return the cells for the reason: half of what is free, or all that no command needs."""
    left = terminal_width() - NARROW - max(width(job.id) for job in jobs)
    longest = max(width(safe(job.title)) for job in jobs)
    return max(left // 2, left - longest, SHORTEST_REASON)


def _died(job: Job, now: int) -> str:
    return "" if job.finished_at is None else f"{ago(now - job.finished_at)} ago"


def why(job: Job) -> str:
    """Say why a job is dead, with the last line of its error where there is one."""
    reason, error = job.reason or "", job.error or ""
    how, _, rest = reason.partition("; ")
    if rest and error.startswith(how):
        return f"{error}; {rest}"
    return ": ".join(part for part in (reason, error) if part)


@dlq.command(
    "show",
    examples="""
    queuectl dlq show k3v9
    queuectl dlq show k3v9 --json
    """,
)
@click.argument("id", type=JOB_ID, metavar="ID")
@json_option
@click.pass_context
def show_dead(ctx: click.Context, id: str, as_json: bool) -> int | None:
    """Show all about a dead job: reason, runs, history."""
    from queuectl.cli.show import show

    with open_queue() as queue:
        job = queue.get(id)
    if job.state != State.DEAD:
        raise StateError(f"Job {job.id} is {job.state}, not dead; see queuectl show {job.id}.")
    code: int | None = ctx.invoke(show, id=job.id, as_json=as_json)
    return code


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
        if wanted:
            number = count_matching(queue, _dead(queue, wanted))
        else:
            number = queue.status().states[State.DEAD]
    if as_json:
        write_json(number)
    else:
        write(str(number))


def _dead(queue: Queue, wanted: Wanted, older_than: int | None = None) -> Filter:
    before = None if older_than is None else queue.store.now() - older_than
    return replace(replace(wanted, states=DEAD).filter(queue), finished_before=before)


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
@dry_run_option
@quiet_option
def retry_dead(
    ids: tuple[str, ...], all_jobs: bool, wanted: Wanted, dry_run: bool, quiet: bool
) -> int:
    """Put dead jobs back in line, to run now.

    Failures and crashes are counted from zero again; attempts, output and history stay.
    """
    check_choice(ids, bool(wanted), all_jobs=all_jobs)
    verb = Verb(
        would="retry",
        done="moved from the dead letter queue to 'pending'",
        change=_only_dead(Queue.retry_all),
        check=lambda _, job: changes.check_dead(job),
        told=lambda before, after: f"Job {after.id} moved from the dead letter queue to 'pending'.",
        allowed=DEAD,
        usual=DEAD,
    )
    how = Manner(dry_run=dry_run, quiet=quiet)
    with open_queue() as queue:
        if ids:
            return change_named(queue, ids, verb, how)
        return change_matching(queue, _dead(queue, wanted), verb, how)


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
@dry_run_option
@quiet_option
def purge(
    ids: tuple[str, ...],
    all_jobs: bool,
    older_than: int | None,
    wanted: Wanted,
    dry_run: bool,
    quiet: bool,
) -> int:
    """Delete dead jobs for good, with their attempts and output."""
    check_choice(ids, bool(wanted) or older_than is not None, all_jobs=all_jobs)
    verb = Verb(
        would="delete",
        done="deleted from the dead letter queue",
        change=_only_dead(Queue.remove_all),
        check=lambda _, job: changes.check_dead(job),
        told=lambda before, after: f"Job {before.id} deleted from the dead letter queue.",
        allowed=DEAD,
        usual=DEAD,
    )
    how = Manner(dry_run=dry_run, quiet=quiet)
    with open_queue() as queue:
        if ids:
            return change_named(queue, ids, verb, how)
        return change_matching(queue, _dead(queue, wanted, older_than), verb, how)


def _only_dead(
    change: Callable[[Queue, Sequence[Job]], list[Job]],
) -> Callable[[Queue, Sequence[Job]], list[Job]]:
    """Make a change that refuses all jobs but dead ones."""

    def change_dead(queue: Queue, jobs: Sequence[Job]) -> list[Job]:
        for job in queue.store.lock(jobs):
            changes.check_dead(job)
        return change(queue, jobs)

    return lambda queue, jobs: queue.store.transact(lambda: change_dead(queue, jobs))
