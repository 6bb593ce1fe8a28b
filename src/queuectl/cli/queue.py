"""The `queue` commands: what queues have, what they allow, and whether they move."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import click

from queuectl.cli import queues
from queuectl.cli.command import Command, Group
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import note_unused
from queuectl.cli.options import json_option, open_queue
from queuectl.cli.outlet import outlet
from queuectl.cli.program import field_options
from queuectl.cli.render import plural, safe, say, write, write_facts, write_json
from queuectl.fields import REQUESTED
from queuectl.limits import WhenFull
from queuectl.queue_limits import DEFAULTS, read_changes
from queuectl.request import check_name

NONE = "none"
"""What takes a limit away."""

name_argument = click.argument("queue_name", metavar="NAME")
names_argument = click.argument("queue_names", nargs=-1, metavar="[QUEUE]...")


@click.group(
    cls=Group,
    examples="""
    queuectl queue list
    queuectl queue set mail --limit 3 --rate 100/1m
    queuectl queue show mail
    queuectl queue pause mail
    queuectl queue rename mail post
    """,
)
def queue() -> None:
    """Show queues, pause and rename them, and set what they allow.

    A queue is a named line of jobs, made by its first job. Limits hold for all nodes together.
    """


def _also(command: click.Command, name: str) -> None:
    """Have a command that stands alone in the group as well."""
    assert isinstance(command, Command)
    made = copy(command)
    made.name = name
    made.examples = made.examples.replace(f"queuectl {command.name}", f"queuectl queue {name}")
    queue.add_command(made)


_also(queues.queues, "list")


@queue.command(
    "show",
    examples="""
    queuectl queue show mail
    queuectl queue show default --json | jq .keys
    """,
)
@name_argument
@json_option
def show(queue_name: str, as_json: bool) -> None:
    """Show all about a queue: its jobs, limits and how much of them is used, keys, defaults."""
    from queuectl.cli.queue_report import write_shown
    from queuectl.views import queue_dict

    check_name("queue", queue_name)
    with open_queue() as opened:
        row = queue_dict(opened, queue_name)
    if as_json:
        write_json(row)
    else:
        write_shown(row)


@queue.command(
    "set",
    examples="""
    queuectl queue set mail --limit 3                     # over all nodes
    queuectl queue set mail --rate 100/1m --rate 5/1s     # both must allow it
    queuectl queue set build --key-limit 1 --key-limit gpu=2 --weight vip=5
    queuectl queue set api --max-waiting 1000 --when-full drop-newest
    queuectl queue set slow --timeout 2h --retries 5 --priority -10
    queuectl queue set mail --on-dead "notify-ops"          # the job comes as JSON on stdin
    queuectl queue set mail --limit none                  # what isn't named stays
    queuectl queue set mail --clear
    """,
)
@name_argument
@click.option("--limit", metavar="N", help="So many of its jobs run at once, over all nodes.")
@click.option(
    "--rate",
    "rates",
    multiple=True,
    metavar="N/D[:B]",
    help="N of its jobs begin in a time: 100/1m, 5/1s; at once no more than N, or B. Repeat it.",
)
@click.option(
    "--key-limit",
    "key_limits",
    multiple=True,
    metavar="[KEY=]N",
    help="So many jobs of each key, or of this one, run at once. Repeat it.",
)
@click.option(
    "--key-rate",
    "key_rates",
    multiple=True,
    metavar="N/D[:B]",
    help="N jobs of each key begin in a time, as --rate. Repeat it.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="KEY=N",
    help="This key gets N times of what keys without a weight get. Repeat it.",
)
@click.option("--max-waiting", metavar="N", help="No more than N of its jobs wait.")
@click.option(
    "--when-full",
    type=click.Choice([*map(str, WhenFull), NONE]),
    metavar="HOW",
    help=f"What becomes of new jobs when it, or their key, is full: {', '.join(WhenFull)}."
    "  [default: reject with --max-waiting, else wait]",
)
@field_options(but=[field.name for field in REQUESTED if field.name not in DEFAULTS])
@click.option("--clear", is_flag=True, help="Take all that was set away.")
@json_option
def set_limits(queue_name: str, clear: bool, as_json: bool, **flags: Any) -> None:
    """Set what a queue allows, and what its jobs get where they say nothing.

    It holds from now on, for all nodes; jobs that run go on. What isn't named stays as it is, and
    the word none takes a limit away: --limit none, --key-limit gpu=none. All rates of a queue are
    named together. Without limits, as many jobs run as there are workers.
    """
    from queuectl.report import limits_dict

    check_name("queue", queue_name)
    changes = _changes(flags)
    if clear and changes:
        raise click.UsageError("Either clear all, or say what to set, not both")
    if not clear:
        if not changes:
            raise click.UsageError("Say what to set, such as --limit 3")
        read_changes(changes)  # before a database is made for it
    with open_queue(create=True) as opened, truthful(opened):
        note_unused(opened, [queue_name])
        if clear:
            opened.limits.clear(queue_name)
            holds = opened.limits.get(queue_name)
        else:
            holds = opened.limits.set(queue_name, **changes)
        outlet.done = lambda: f"Queue {queue_name} is set"
        if as_json:
            write_json({"name": queue_name, "limits": limits_dict(holds)})
        else:
            _write(queue_name, limits_dict(holds))


def _write(name: str, limits: dict[str, Any]) -> None:
    from queuectl.cli.queue_report import default_facts, limit_facts

    facts = [*limit_facts(limits), *default_facts(limits)]
    if not facts:
        write(safe(f"Queue {name!r} has no limits."))
        return
    write(safe(f"Queue {name!r} from now on:"))
    write_facts(facts)


def _changes(flags: dict[str, Any]) -> dict[str, Any]:
    """Return what the options change, as `QueueLimits.set` has it."""
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name in ("rates", "key_rates"):
            changes[name] = _rates(name, value)
        elif name == "key_limits":
            changes |= _key_limits(value)
        elif name == "weights":
            changes[name] = None if value == (NONE,) else dict(map(_weight, value))
        else:
            changes[name] = None if value == NONE else value
    return changes


def _rates(name: str, given: Sequence[str]) -> list[str] | None:
    if NONE not in given:
        return list(given)
    if len(given) > 1:
        option = "--" + name[:-1].replace("_", "-")
        raise click.UsageError(f"Either {option} none, or rates, not both")
    return None


def _key_limits(given: Sequence[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for text in given:
        key, equals, number = text.rpartition("=")
        value = None if number == NONE else number
        if equals:
            own[key] = value
        elif "key_limit" in changes:
            raise click.UsageError("--key-limit is given twice for all keys; name one: gpu=2")
        else:
            changes["key_limit"] = value
    return {**changes, "key_limits": own} if own else changes


def _weight(text: str) -> tuple[str, str | None]:
    key, equals, number = text.rpartition("=")
    if not equals:
        raise click.UsageError(f"--weight takes KEY=N, such as vip=5, not {text[:60]!r}")
    return key, None if number == NONE else number


@queue.command(
    "rename",
    examples="""
    queuectl queue rename mail post
    queuectl queue rename mail post --json
    """,
)
@click.argument("queue_name", metavar="OLD")
@click.argument("new_name", metavar="NEW")
@json_option
def rename(queue_name: str, new_name: str, as_json: bool) -> None:
    """Call a queue otherwise, with all that there is of it.

    Its jobs, limits, keys and history go over as one change, and schedules that name it name the
    new one then. No job of it may run meanwhile: pause it, and wait for those. Nothing may be in
    the queue of the new name. Nodes that were started for the old name go on to serve that.
    """
    with open_queue() as opened, truthful(opened):
        use = opened.rename_queue(queue_name, new_name)
        outlet.done = lambda: f"Queue {queue_name} is called {new_name}"
        nodes = [node.id for node in opened.living_nodes() if queue_name in node.queues.named]
        if as_json:
            told = {"name": new_name, "was": queue_name, "jobs": use.jobs}
            write_json({**told, "schedules": list(use.schedules), "nodes": nodes})
            return
        jobs = plural(use.jobs, "job")
        write(safe(f"Queue {queue_name!r} is called {new_name!r} from now on, with {jobs}."))
        for name in use.schedules:
            write(safe(f"Schedule {name!r} makes its jobs there."))
        for id in nodes:
            say(f"Node {id} was started for {queue_name!r}, and goes on with that name.")


@queue.command(
    "rm",
    examples="""
    queuectl queue rm mail
    queuectl queue rm mail --json
    """,
)
@name_argument
@json_option
def rm(queue_name: str, as_json: bool) -> None:
    """Remove a queue that has no jobs: its limits, defaults and keys, and that it is paused.

    Jobs are never removed by that; as long as there are any, it is refused. The next job that is
    enqueued there makes the queue anew. What was measured of its jobs stays in queuectl stats.
    """
    with open_queue() as opened, truthful(opened):
        opened.remove_queue(queue_name)
        outlet.done = lambda: f"Queue {queue_name} is removed"
        if as_json:
            write_json({"name": queue_name, "removed": True})
        else:
            write(safe(f"Queue {queue_name!r} is removed."))


@queue.command(
    "pause",
    examples="""
    queuectl queue pause                      # the queue named default
    queuectl queue pause mail reports
    queuectl queue pause --all
    queuectl queue pause mail --json
    """,
)
@names_argument
@queues.pause_all_option
@json_option
def pause(queue_names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Stop giving out the jobs of a queue.

    Running jobs go on, and new ones can still be enqueued. A queue stays paused until it is
    resumed. Without a name it is the queue named default.
    """
    named = queues.Named(queues=queue_names)
    queues.set_paused(named, every=every, as_json=as_json, paused=True)


@queue.command(
    "resume",
    examples="""
    queuectl queue resume
    queuectl queue resume mail reports
    queuectl queue resume --all
    queuectl queue resume --all --json
    """,
)
@names_argument
@queues.resume_all_option
@json_option
def resume(queue_names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Give out the jobs of a paused queue again.

    Without a name it is the queue named default.
    """
    named = queues.Named(queues=queue_names)
    queues.set_paused(named, every=every, as_json=as_json, paused=False)
