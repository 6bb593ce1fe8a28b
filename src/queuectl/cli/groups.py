"""`groups`, `results` and `progress --group`: jobs that are waited for together."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

import click

from queuectl.cli.command import Command
from queuectl.cli.finish import Hint, still_going
from queuectl.cli.notes import again
from queuectl.cli.options import json_option, open_queue, quiet_names_option
from queuectl.cli.paging import how_many, limit_option
from queuectl.cli.progress import Bar
from queuectl.cli.render import (
    STATE_COLOURS,
    Column,
    complain,
    is_terminal,
    plural,
    safe,
    say,
    size,
    write,
    write_json,
    write_json_array,
    write_long_table,
)
from queuectl.errors import EXIT_DONE, EXIT_FAILED, StuckError
from queuectl.job import State
from queuectl.report import group_dict
from queuectl.waiting import LOOK_AGAIN
from queuectl.when import ago, human

if TYPE_CHECKING:
    from queuectl.facts import Group
    from queuectl.queue import Queue

PAGE = 1_000
"""Groups that are read at once."""
SPOKEN_EVERY = 1.0
"""Seconds between two lines where there is no terminal."""
STUCK = "stuck: what is left waits in vain"
LONGEST_CELL = 60


# -- the list of groups -----------------------------------------------------------------


@click.command(
    cls=Command,
    examples="""
    queuectl groups                          # the newest first
    queuectl groups nightly array-x7k2
    """,
)
@click.argument("group_names", nargs=-1, metavar="[NAME]...")
@limit_option("-q", "--json")
@quiet_names_option
@json_option
def groups(group_names: tuple[str, ...], limit: int | None, quiet: bool, as_json: bool) -> None:
    """List groups: how many of their jobs ended how.

    It takes as long with a million jobs in them as with ten. With names, these groups are listed.
    A group that is over is completed, dead if one of its jobs is, or else cancelled. One is stuck
    where all that is left of it waits in vain for what has ended. One is stopped when as many of
    its jobs are dead as --max-fails allows: those that wait are cancelled.
    """
    with open_queue() as queue:
        if group_names:
            found: Iterable[Group] = [queue.groups.get(name) for name in group_names]
            most = None
        else:
            most = how_many(limit, bare=quiet or as_json)
            found = _all(queue)
        now = queue.now()
        shown = iter(found) if most is None else islice(found, most)
        if as_json:
            told = _told(queue, shown)
            write_json_array(group_dict(one, now, is_stuck=stuck) for one, stuck in told)
        elif quiet:
            for group in shown:
                write(safe(group.name))
        else:
            _write_groups([*_told(queue, shown)], now)
            if most is not None and next(iter(found), None) is not None:
                say("There are more; --limit 0 shows all.")


def _all(queue: "Queue") -> Iterator["Group"]:
    """Yield all groups, a page at a time."""
    before = None
    while page := queue.groups.newest(PAGE, before=before):
        yield from page
        before = page[-1].name


def _told(queue: "Queue", groups: "Iterable[Group]") -> "Iterator[tuple[Group, bool]]":
    """Yield groups, and whether all that is left of them waits in vain."""
    rest = iter(groups)
    while some := [*islice(rest, PAGE)]:
        stuck = _stuck(queue, some)
        yield from ((group, group.name in stuck) for group in some)


def _stuck(queue: "Queue", groups: "list[Group]") -> set[str]:
    """Return the names of those of these groups of which all that is left waits in vain."""
    names = [group.name for group in groups if group.open]
    return set(queue.groups.stuck(names)) if names else set()


def _write_groups(found: "list[tuple[Group, bool]]", now: int) -> None:
    if not found:
        say("There are no groups.")
        return
    write_long_table(_GROUP_COLUMNS, [_group(*one, now) for one in found])


_GROUP_COLUMNS = (
    Column("GROUP", least=10),
    Column("STATE", styles=STATE_COLOURS),
    Column("JOBS", right=True),
    Column("OPEN", right=True),
    Column("COMPLETED", right=True, drop=2),
    Column("DEAD", right=True),
    Column("CANCELLED", right=True, drop=1),
    Column("AGE", right=True, drop=3),
)


def _group(group: "Group", is_stuck: bool, now: int) -> tuple[str, ...]:
    return (
        group.name,
        state_of(group, is_stuck=is_stuck),
        f"{group.jobs:,}",
        f"{group.open:,}",
        f"{group.completed:,}",
        f"{group.dead:,}",
        f"{group.cancelled:,}",
        ago(now - group.made_at),
    )


def state_of(group: "Group", *, is_stuck: bool = False) -> str:
    """Say in a word how a group stands."""
    if group.stopped_at is not None:
        return "stopped"
    if is_stuck:
        return "stuck"
    return "open" if group.over_at is None else group.came_to.value


# -- how far one is ---------------------------------------------------------------------


def show_progress(name: str, *, once: bool, as_json: bool, or_stuck: bool) -> int:
    """Show how far a group is, until it is over, or once; returns the exit code."""
    with open_queue() as queue:
        group = queue.groups.get(name)
        if as_json:
            is_stuck = bool(_stuck(queue, [group]))
            write_json(group_dict(group, queue.now(), is_stuck=is_stuck))
            return EXIT_DONE
        if once:
            write(safe(line_of(group, queue.now(), is_stuck=bool(_stuck(queue, [group])))))
            return EXIT_DONE
        return _follow(queue, group, or_stuck=or_stuck)


def _follow(queue: "Queue", group: "Group", *, or_stuck: bool) -> int:
    name = group.name
    go_on = again(f"progress --group {_quoted(name)}")
    hint = Hint(queue, lambda: queue.groups.why(name))
    lines, stuck = _Lines(queue), _Stuck(queue)
    with still_going(f"Nothing was stopped; go on with: {go_on}"), Bar(safe(name)) as bar:

        def left() -> int:
            nonlocal group
            group = queue.groups.get(name)
            return group.open

        def tick(_: int) -> None:
            hint()
            bar(group.done, group.jobs, dead=group.dead, stuck=stuck.is_so(group))
            if not is_terminal(sys.stderr):
                lines.show(group, is_stuck=stuck.is_so(group))
            look(group.open)

        watch = queue.watch(groups=[name])
        look = hint.or_stuck(watch.is_stuck) if or_stuck else lambda _: None
        try:
            queue.wait_until(left, tick=tick)
        except StuckError as error:
            complain(f"{str(error).rstrip('.')}; go on with: {go_on}")
            return EXIT_FAILED
    lines.end(group)
    return EXIT_DONE if group.came_to == State.COMPLETED else EXIT_FAILED


class _Stuck:
    """Whether all that is left of a group waits in vain, looked up now and then."""

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        self._due = 0.0
        self._is_so = False

    def is_so(self, group: "Group") -> bool:
        """Tell it as it was no more than `LOOK_AGAIN` ago."""
        if monotonic() >= self._due:
            self._due = monotonic() + LOOK_AGAIN
            self._is_so = bool(_stuck(self._queue, [group]))
        return self._is_so


class _Lines:
    """A line of what has changed, where there is no terminal to draw on."""

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        self._due = 0.0
        self._shown = ""

    def show(self, group: "Group", *, is_stuck: bool) -> None:
        """Print how far a group is, if that has changed and it isn't too soon."""
        told = counts_of(group) + STUCK * is_stuck
        if monotonic() >= self._due and told != self._shown and group.open:
            self._due = monotonic() + SPOKEN_EVERY
            self._shown = told
            write(safe(line_of(group, self._queue.now(), is_stuck=is_stuck)))
            sys.stdout.flush()

    def end(self, group: "Group") -> None:
        """Print how it ended."""
        write(safe(line_of(group, self._queue.now())))


def counts_of(group: "Group") -> str:
    """Say how many jobs of a group are done, and how many of those failed."""
    told = f"{group.done:,} of {plural(group.jobs, 'job')} done"
    failed = [(group.dead, "dead"), (group.cancelled - group.unneeded, "cancelled")]
    failed += [(group.unneeded, "not needed")]
    return ", ".join([told, *(f"{count:,} {word}" for count, word in failed if count)])


def line_of(group: "Group", now: int, *, is_stuck: bool = False) -> str:
    """Say how far a group is, in one line."""
    told = f"{group.name}: {counts_of(group)}"
    if group.stopped_at is not None:
        told += ", stopped as too many are dead"
    if is_stuck:
        return f"{told}, {STUCK}"
    left = group.left(now)
    return told if left is None else f"{told}, about {human(left)} left"


# -- what its jobs came to --------------------------------------------------------------


@click.command(
    cls=Command,
    examples="""
    queuectl results --group sweep-x7k2
    queuectl results --group sweep-x7k2 --csv > results.csv
    queuectl results --group nightly --last-line     # of those without a result
    """,
)
@click.option("--group", required=True, metavar="NAME", help="The group that it is about.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option(
    "--last-line",
    is_flag=True,
    help="Of a job without a result, show the last line that it wrote on stdout.",
)
@json_option
def results(group: str, as_csv: bool, last_line: bool, as_json: bool) -> None:
    """Show what the jobs of a group came to: a table.

    The columns are the id, the parameters of the jobs (of an array, a sweep, or lines), the state,
    the exit code, the seconds of the last run, the most memory that it used, and the result as
    JSON. With --json, each is an object. However many there are, they are read a few at a time.
    """
    if as_csv and as_json:
        raise click.UsageError("Give either --csv or --json, not both")
    from queuectl.result_tables import columns_of, csv_lines
    from queuectl.views import result_dict

    with open_queue() as queue:
        rows = queue.groups.results(group, last_lines=last_line)
        if as_json:
            write_json_array(map(result_dict, rows))
            return
        columns = columns_of(queue, group, last_line=last_line)
        if as_csv:
            for line in csv_lines(columns, rows):
                write(line.removesuffix("\n"))
        elif columns.jobs:
            cells = (columns.cells(row, memory=size) for row in islice(rows, columns.jobs))
            write_long_table([_column(name) for name in columns.names], cells)
        else:
            say("The group has no jobs.")


def _column(name: str) -> Column:
    title = name.upper().replace("_", " ")
    match name:
        case "state":
            return Column(title, styles=STATE_COLOURS)
        case "exit_code" | "duration" | "index":
            return Column(title, right=True)
        case "peak_memory":
            return Column("MEMORY", right=True, drop=1)
        case "result" | "last_line":
            return Column(title, least=16, is_sentence=True, most=LONGEST_CELL)
    return Column(title, least=8, most=LONGEST_CELL)


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
