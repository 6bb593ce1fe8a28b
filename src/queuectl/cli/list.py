"""`list`: jobs in a table, by any filter, page by page."""

import shlex
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

from queuectl.address import without_secrets
from queuectl.cli.command import DB, Command
from queuectl.cli.options import (
    JOB_ID,
    Wanted,
    filter_options,
    json_option,
    open_queue,
    quiet_option,
)
from queuectl.cli.render import (
    STATE_COLOURS,
    Column,
    cut,
    is_terminal,
    safe,
    say,
    write,
    write_json_array,
    write_table,
)
from queuectl.job import DEFAULT_QUEUE, WAITING, Job, State
from queuectl.when import ago, format_duration

if TYPE_CHECKING:
    from queuectl.queue import Queue
    from queuectl.store.contract import Filter

PAGE = 1_000
"""Jobs read, and aligned with each other, at a time."""

LIMIT = 50
"""Jobs listed when nothing is said."""
LONGEST_ID = 24
"""Cells of an id on a terminal; what is left of a longer one is still enough to name the job."""

EXAMPLES = """
queuectl list
queuectl list --state failed,dead --since 1h
queuectl list --queue mail --text invoice --limit 0
queuectl list --state dead -q | xargs -r queuectl retry --
queuectl list --json | jq '.[].command'
"""


@click.command("list", cls=Command, examples=EXAMPLES)
@filter_options
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(0, 1_000_000_000),
    default=LIMIT,
    show_default=True,
    metavar="N",
    help="At most so many; 0 for all.",
)
@click.option("--after", type=JOB_ID, metavar="ID", help="Go on behind this job.")
@click.option("--oldest", is_flag=True, help="Oldest first instead of newest first.")
@quiet_option
@json_option
def list_jobs(
    wanted: Wanted, limit: int, after: str | None, oldest: bool, quiet: bool, as_json: bool
) -> None:
    """List jobs, newest first, by any filter.

    The order is that in which they were enqueued, and it doesn't change when jobs do; --after
    therefore goes on exactly where another list ended.
    """
    with open_queue() as queue:
        place = None if after is None else queue.get(after).seq
        reader = _Reader(queue, wanted.filter(queue), limit or None, place, oldest)
        if as_json:
            from queuectl.report import job_dict

            write_json_array(job_dict(job) for job in reader)
        elif quiet:
            for job in reader:
                write(safe(job.id))
        elif not _write_pages(reader, queue.store.now()):
            say("No jobs found." if wanted or after else "There are no jobs yet.")
        if reader.more_after is not None:
            say(
                f"There are more; go on with: queuectl list {_again(wanted, oldest, limit)}"
                f"--after {shlex.quote(reader.more_after)}"
            )


class _Reader:
    """Reads jobs page by page, so that a long list takes no more memory than a short one."""

    def __init__(
        self, queue: "Queue", which: "Filter", limit: int | None, after: int | None, oldest: bool
    ) -> None:
        self._queue = queue
        self._which = which
        self._limit = limit
        self._after = after
        self._oldest = oldest
        self.more_after: str | None = None
        """The last job of the list, when there are more behind it."""

    def __iter__(self) -> Iterator[Job]:
        jobs = self._jobs()
        last: Job | None = None
        for job in islice(jobs, self._limit):
            yield job
            last = job
        if last is not None and next(jobs, None) is not None:
            self.more_after = last.id

    def _jobs(self) -> Iterator[Job]:
        after = self._after
        size = PAGE if self._limit is None else min(PAGE, self._limit + 1)
        while True:
            jobs = self._queue.store.select(
                self._which, limit=size, after=after, oldest=self._oldest
            )
            yield from jobs
            if len(jobs) < size:
                return
            after = jobs[-1].seq


def _write_pages(reader: _Reader, now: int) -> bool:
    """Print the jobs as tables; False when there were none."""
    jobs = iter(reader)
    first = next(jobs, None)
    if first is None:
        return False
    jobs = chain([first], jobs)
    while page := list(islice(jobs, PAGE)):
        _write_page(page, now)
    return True


def _write_page(jobs: list[Job], now: int) -> None:
    """Print one table; columns that would say the same in every row are left out."""
    several = any(job.queue != DEFAULT_QUEUE for job in jobs)
    due = any(_due(job, now) for job in jobs)
    terminal = is_terminal()
    columns = [
        Column("ID"),
        Column("STATE", styles=STATE_COLOURS),
        *([Column("QUEUE")] if several else []),
        Column("PRI", right=True),
        Column("ATTEMPTS", right=True, drop=3),
        Column("AGE", right=True, drop=1),
        Column("DURATION", right=True, drop=2),
        *([Column("DUE", right=True)] if due else []),
        Column("COMMAND", cut=True),
    ]
    rows = [
        [
            _short(job.id) if terminal else job.id,
            job.state.value,
            *([job.queue] if several else []),
            str(job.priority),
            attempts_of(job),
            ago(now - job.created_at),
            duration_of(job, now),
            *([_due(job, now)] if due else []),
            job.title,
        ]
        for job in jobs
    ]
    write_table(columns, rows)


def _short(id: str) -> str:
    return cut(safe(id), LONGEST_ID, "\N{HORIZONTAL ELLIPSIS}")


def attempts_of(job: Job) -> str:
    """Write runs started and runs allowed: `1/4`."""
    return f"{job.attempts}/{'?' if job.max_attempts is None else job.max_attempts}"


def duration_of(job: Job, now: int) -> str:
    """Write how long the last run took, or how long the one that goes on has."""
    if job.state == State.PROCESSING and job.started_at is not None:
        return format_duration(max(now - job.started_at, 0) // 1000 * 1000)
    return "" if job.duration_ms is None else format_duration(job.duration_ms)


def _due(job: Job, now: int) -> str:
    return f"in {ago(job.run_at - now)}" if job.state in WAITING and job.run_at > now else ""


def _again(wanted: Wanted, oldest: bool, limit: int) -> str:
    """Write what was given as options again."""
    db: str | None = click.get_current_context().meta.get(DB)
    parts = [] if db is None else [f"--db {shlex.quote(without_secrets(db))}"]
    if wanted.states:
        every = set(wanted.states) == set(State)
        parts.append(f"--state {'all' if every else ','.join(wanted.states)}")
    parts += [f"--queue {shlex.quote(name)}" for name in wanted.queues]
    parts += [f"--tag {shlex.quote(tag)}" for tag in wanted.tags]
    for name in ("text", "since", "until"):
        if value := getattr(wanted, name):
            parts.append(f"--{name} {shlex.quote(value)}")
    if oldest:
        parts.append("--oldest")
    if limit != LIMIT:
        parts.append(f"-n {limit}")
    return "".join(f"{part} " for part in parts)
