"""`list`: jobs in a table or in lines, by any filter, in any order, page by page."""

import shlex
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from queuectl.address import without_secrets
from queuectl.cli.columns import NAMES, Pauses, check, column, due_in, for_people, settled
from queuectl.cli.command import DB, Command
from queuectl.cli.notes import again
from queuectl.cli.options import (
    JOB_ID,
    Wanted,
    filter_options,
    json_option,
    open_queue,
    quiet_option,
)
from queuectl.cli.paging import how_many, limit_option
from queuectl.cli.render import ALIGNED, plural, safe, say, write, write_json_array, write_table
from queuectl.cli.template import Template
from queuectl.filter import Filter
from queuectl.job import DEFAULT_QUEUE, Job, State
from queuectl.listing import SORTS, Page
from queuectl.queue import Queue
from queuectl.report import job_dict, progress_dict
from queuectl.values import dataclass, replace

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXAMPLES = """
queuectl list
queuectl list --state failed,dead --since 1h
queuectl list --queue mail --text invoice --limit 0
queuectl list --type thumbnail --state failed,dead
queuectl list --state completed --sort -duration -n 10
queuectl list --columns id,state,exit_code,finished,command
queuectl list --format '{id}\\t{command}' | grep backup
queuectl list --state dead -q | xargs -r queuectl retry --
queuectl list --json | jq '.[].command'
"""


class Listed(click.ParamType):  # type: ignore[type-arg]
    """Names with commas between them, the last of which is completed."""

    def __init__(self, name: str, known: tuple[str, ...], signs: str = "") -> None:
        self.name = name
        self._known = known
        self._signs = signs

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        start = last.lstrip(self._signs) if self._signs else last
        sign = last[: len(last) - len(start)]
        names = [name for name in self._known if name.startswith(start)]
        return [CompletionItem(f"{before}{comma}{sign}{name}") for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """In which form jobs are listed."""

    quiet: bool = False
    as_json: bool = False
    template: str | None = None
    columns: str | None = None

    @property
    def bare(self) -> bool:
        """Whether it is for programs."""
        return self.quiet or self.as_json or self.template is not None


@click.command("list", cls=Command, examples=EXAMPLES)
@filter_options
@limit_option("-q", "--json", "--format")
@click.option("--after", type=JOB_ID, metavar="ID", help="Go on behind this job.")
@click.option("--oldest", is_flag=True, help="Oldest first instead of newest first.")
@click.option(
    "--sort",
    type=Listed("field", tuple(SORTS), signs="-"),
    metavar="FIELD",
    help="Sort by a field, such as finished; -duration for the longest first. With commas by "
    f"several: {', '.join(SORTS)}.",
)
@click.option(
    "--columns",
    type=Listed("field", NAMES),
    metavar="FIELDS",
    help="Show these columns, such as id,state,finished,command: any field of --json, and age, "
    "due, duration, created, started, finished, updated, expires, title (the command with the "
    "parameters that it doesn't show) for people; and what its newest "
    "run used: peak_memory, cpu, read, written.",
)
@click.option(
    "--format",
    "template",
    metavar="TEXT",
    help="Print a line for each job, with its fields in braces: '{id} {command}'. It may have "
    "\\t and \\n.",
)
@quiet_option
@json_option
def list_jobs(
    wanted: Wanted,
    limit: int | None,
    after: str | None,
    oldest: bool,
    sort: str | None,
    **form: Any,
) -> None:
    """List jobs, newest first, by any filter.

    The order is that in which they were enqueued, and only swap changes it; --after
    therefore goes on exactly where another list ended. --sort sorts them otherwise, those
    without a value last.

    On a terminal, and in a table, 50 jobs are shown. What programs read (-q, --json and --format
    into a pipe or a file) is complete, unless --limit says otherwise.
    """
    how = Form(**form)
    write_jobs = _writer(how)
    if sort is not None and (after is not None or oldest):
        raise click.UsageError("--after and --oldest go by the usual order; leave --sort out")
    with open_queue() as queue:
        which = wanted.filter(queue)
        most = how_many(limit, bare=how.bare)
        page = queue.page(which, limit=most, after=after, oldest=oldest, sort=sort)
        shown = page if how.bare else settled(page, queue)
        write_jobs(shown, queue.now(), _known(queue))
        if page.more and not (how.quiet and limit is not None):
            total = None if after else queue.counted(which)
            say(_more(page, total, None if sort else _again(wanted, oldest, limit, how)))
        elif not how.bare and not page.count:
            say(_none(queue, which) if wanted or after else "There are no jobs.")
        elif not how.bare and not after:
            say(f"Total: {plural(page.count, 'job')}.")


def _known(queue: Queue) -> Pauses:
    return Pauses(queue.pauses, queue.running_progress, queue.sleeps, queue.usages)


def _none(queue: Queue, which: Filter) -> str:
    """Say that no jobs were found; who looks for failed ones may mean those that were given up."""
    if State.FAILED not in which.states or State.DEAD in which.states:
        return "No jobs found."
    dead = queue.counted(replace(which, states=(State.DEAD,)))
    if not dead:
        return "No jobs found."
    options = "".join(f" --queue {shlex.quote(name)}" for name in which.queues)
    count = "1 is" if dead == 1 else f"{dead:,} are"
    return f"No jobs found; {count} dead: {again(f'dlq list{options}')}"


def _more(page: Page[Job], total: int | None, again: str | None) -> str:
    """Say that there are more, how many, and how to see them."""
    told = "There are more" if total is None else f"{page.count:,} of {plural(total, 'job')} shown"
    if again is None or page.last is None:
        return f"{told}; --limit 0 shows all."
    return f"{told}; go on with: queuectl list {again}--after {shlex.quote(page.last.id)}"


def _writer(how: Form) -> Callable[[Iterable[Job], int, Pauses], None]:
    """Return what prints jobs in the form that is wanted; a field they don't have is an error."""
    if sum((how.quiet, how.as_json, how.template is not None, how.columns is not None)) > 1:
        raise click.UsageError("Give only one of --quiet, --json, --format and --columns")
    if how.as_json:
        return write_all
    if how.quiet:
        return write_ids
    if how.template is not None:
        return partial(_write_filled, Template(how.template))
    chosen = None if how.columns is None else tuple(map(check, how.columns.split(",")))
    return partial(_write_tables, chosen)


def write_all(jobs: Iterable[Job], now: int, pauses: Pauses | None = None) -> None:
    """Print all fields of jobs, as JSON."""
    known = pauses or Pauses()
    write_json_array(
        job_dict(job, known.of(job)) | {"progress": progress_dict(known.progress_of(job))}
        for job in jobs
    )


def write_ids(jobs: Iterable[Job], now: int, pauses: Pauses | None = None) -> None:
    """Print the bare ids of jobs."""
    for job in jobs:
        write(safe(job.id))


def _write_filled(template: Template, jobs: Iterable[Job], now: int, pauses: Pauses) -> None:
    rest = iter(jobs)
    while part := list(islice(rest, ALIGNED)):
        pauses.count(part, template.names)
        for job in part:
            known = pauses.of(job), pauses.progress_of(job), pauses.usage_of(job)
            write(template.fill(job, now, *known))


def _write_tables(
    chosen: tuple[str, ...] | None, jobs: Iterable[Job], now: int, pauses: Pauses
) -> None:
    rest = iter(jobs)
    while part := list(islice(rest, ALIGNED)):
        _write_table(part, chosen, now, pauses)


def _write_table(jobs: list[Job], chosen: tuple[str, ...] | None, now: int, pauses: Pauses) -> None:
    """Print one table."""
    names = chosen or _usual(jobs, now, told=any(map(pauses.progress_of, jobs)))
    columns = [column(name, chosen=chosen is not None) for name in names]
    pauses.look_at(jobs)
    pauses.count(jobs, names)
    rows = (
        for_people(
            job,
            names,
            now,
            pauses.of(job),
            pauses.progress_of(job),
            pauses.sleep_of(job),
            pauses.usage_of(job),
        )
        for job in jobs
    )
    write_table(columns, rows)


def _usual(jobs: list[Job], now: int, *, told: bool = False) -> tuple[str, ...]:
    """Return the columns of a table; those that would say the same in every row are left out."""
    several = any(job.queue != DEFAULT_QUEUE for job in jobs)
    due = any(due_in(job, now) for job in jobs)
    return (
        *("id", "state", *(["queue"] if several else [])),
        *("priority", "attempts", "age", "duration", *(["due"] if due else [])),
        *(["progress"] if told else []),
        "title",
    )


def _again(wanted: Wanted, oldest: bool, limit: int | None, how: Form) -> str:
    """Write what was given as options again."""
    db: str | None = click.get_current_context().meta.get(DB)
    parts = [] if db is None else [f"--db {shlex.quote(without_secrets(db))}"]
    if wanted.states:
        every = set(wanted.states) == set(State)
        parts.append(f"--state {'all' if every else ','.join(wanted.states)}")
    parts += [f"--queue {shlex.quote(name)}" for name in wanted.queues]
    parts += [f"--tag {shlex.quote(tag)}" for tag in wanted.tags]
    parts += [f"--type {shlex.quote(type)}" for type in wanted.types]
    parts += [f"--key {shlex.quote(key)}" for key in wanted.keys]
    for name in ("due", "text", "since", "until"):
        if value := getattr(wanted, name):
            parts.append(f"--{name} {shlex.quote(value)}")
    if oldest:
        parts.append("--oldest")
    if limit is not None:
        parts.append(f"-n {limit}")
    if how.columns is not None:
        parts.append(f"--columns {shlex.quote(how.columns)}")
    if how.template is not None:
        parts.append(f"--format {shlex.quote(how.template)}")
    return "".join(f"{part} " for part in parts)
