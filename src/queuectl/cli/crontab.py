"""The `crontab` commands: schedules from a crontab, and a crontab of schedules."""

import os
from typing import TYPE_CHECKING, Any

import click

from queuectl.address import is_remote
from queuectl.cli.command import Group
from queuectl.cli.feed import read_stdin
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import are_wanted, note_idle
from queuectl.cli.options import json_option, open_queue
from queuectl.cli.outlet import outlet
from queuectl.cli.program import field_options, given_fields
from queuectl.cli.render import plural, say, write, write_json
from queuectl.cli.schedule import DRY_RUN, NOT_FOR_SCHEDULES, policy_options, take_policy
from queuectl.crontab import Crontab, Entry, read_crontab, write_crontab
from queuectl.errors import DuplicateError, QueuectlError, UsageError
from queuectl.job import DEFAULT_QUEUE

if TYPE_CHECKING:
    from queuectl.queue import Queue
    from queuectl.schedule import Schedule


@click.group(
    cls=Group,
    examples="""
    crontab -l | queuectl crontab import - --dry-run
    queuectl crontab export > my.crontab
    """,
)
def crontab() -> None:
    """Make schedules of a crontab, or a crontab of them."""


@crontab.command(
    "import",
    examples="""
    crontab -l | queuectl crontab import --dry-run
    crontab -l | queuectl crontab import --queue cron --tag cron
    queuectl crontab import my.crontab --prefix web- --overlap allow
    """,
)
@click.argument("file", metavar="[FILE | -]", default="-")
@DRY_RUN
@click.option("--prefix", metavar="TEXT", default="", help="What the names of all begin with.")
@policy_options
@field_options(but=(*NOT_FOR_SCHEDULES, "stdin"))
@json_option
def import_crontab(file: str, dry_run: bool, prefix: str, as_json: bool, **flags: Any) -> None:
    """Add a schedule for each line of a crontab: all of them, or none if one is bad.

    Without FILE it is read from stdin. A line is named by the comment right above it, or by the
    program that it runs. CRON_TZ is the zone and SHELL the shell of the lines below, other
    variables go into the environment of their jobs; MAILTO is ignored. Options hold for all
    schedules, where the crontab doesn't say otherwise. Jobs run in $HOME, as cron's do, unless
    --cwd names another directory.
    """
    place = "stdin" if file == "-" else file
    policy = take_policy(flags)
    given = given_fields(flags)
    found = read_crontab(_text(file, place), place)
    with open_queue(create=not dry_run) as queue, truthful(queue):
        asked = [_Asked(entry, place, prefix, policy, given) for entry in found.entries]
        drafts = _check(queue, asked)
        if not dry_run:
            drafts = _add(queue, asked)
            outlet.done = lambda: f"{plural(len(drafts), 'schedule')} stored"
        _tell(found, drafts, dry_run=dry_run, as_json=as_json)
        if drafts and not dry_run:
            note_idle(queue, [str(given.get("queue") or DEFAULT_QUEUE)])


def _text(file: str, place: str) -> str:
    try:
        return read_stdin(file).decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise UsageError(f"{place} isn't valid UTF-8.") from None


class _Asked:
    """A schedule that a line asks for, as `Schedules.add` takes it."""

    def __init__(
        self, entry: Entry, place: str, prefix: str, policy: dict[str, Any], given: dict[str, Any]
    ) -> None:
        self.where = f"{place}, line {entry.line}"
        self.name = prefix + entry.name
        self.rule = entry.rule
        self.policy = {**policy, **({} if entry.tz is None else {"tz": entry.tz})}
        env = {**given.get("env", {}), **entry.env}
        said = {"stdin": entry.stdin, "shell": entry.shell, "env": env or None}
        self.what = {
            "cwd": entry.home or os.path.expanduser("~"),
            **given,
            **{name: value for name, value in said.items() if value is not None},
            "command": entry.command,
        }


def _check(queue: "Queue", asked: list[_Asked]) -> "list[Schedule]":
    """Return what would be stored; errors name the line."""
    taken = {one.name for one in queue.schedules.all()}
    drafts = []
    for one in asked:
        if one.name in taken:
            raise DuplicateError(
                f"{one.where}: there is a schedule {one.name!r} already.",
                advice="choose another name in a comment above it (# schedule: NAME), or --prefix.",
            )
        try:
            drafts.append(queue.schedules.draft(one.name, one.rule, one.what, **one.policy))
        except UsageError as error:
            raise UsageError(f"{one.where}: {error}", advice=error.advice) from None
    return drafts


def _add(queue: "Queue", asked: list[_Asked]) -> "list[Schedule]":
    """Store all of them; if one can't be, as somebody was quicker, none."""
    added: list[Schedule] = []
    try:
        for one in asked:
            schedule = queue.schedules.add(one.name, one.rule, one.what, **one.policy)
            added.append(schedule)
    except QueuectlError:
        for schedule in added:
            queue.schedules.remove(schedule.name)
        raise
    return added


def _tell(found: Crontab, schedules: "list[Schedule]", *, dry_run: bool, as_json: bool) -> None:
    from queuectl.cli.schedule_report import write_schedules
    from queuectl.views import schedule_dict

    if as_json:
        write_json(
            {
                "dry_run": dry_run,
                "schedules": [schedule_dict(one) for one in schedules],
                "notes": list(found.notes),
            }
        )
        return
    for note in found.notes if are_wanted() else ():
        say(f"Note: {note}")
    if schedules:
        write_schedules(schedules)
    many = plural(len(schedules), "schedule")
    say(f"{many} would be added. Nothing was changed." if dry_run else f"{many} added.")


@crontab.command(
    "export",
    examples="""
    queuectl crontab export > my.crontab
    queuectl crontab export nightly poll
    """,
)
@click.argument("schedule_names", metavar="[NAME]...", nargs=-1)
@json_option
def export(schedule_names: tuple[str, ...], as_json: bool) -> None:
    """Write schedules as a crontab, which crontab import reads back.

    What a crontab can't say stands in comments. The values of variables are in it, in clear:
    passwords, too, which schedule show leaves out.
    """
    with open_queue() as queue:
        names = list(dict.fromkeys(schedule_names))
        chosen = [queue.schedules.get(name) for name in names] or queue.schedules.all()
    text = write_crontab(chosen, home=os.path.expanduser("~"))
    if chosen and is_remote(queue.url):
        say(
            "Note: a server doesn't tell the values of variables, and stdin only to who is admin;"
            " add what is missing."
        )
    if as_json:
        write_json({"crontab": text})
    elif text:
        write(text.removesuffix("\n"))
    else:
        say("There are no schedules.")
