"""The commands `pause`, `resume` and `queues`: named lines of jobs, and whether they move."""

from typing import Any

import click

from queuectl.cli.command import Command
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import note_unused
from queuectl.cli.options import json_option, open_queue, quiet_option
from queuectl.cli.render import Column, safe, say, write, write_json, write_table
from queuectl.job import DEFAULT_QUEUE, WAITING, State
from queuectl.queue import Queue
from queuectl.request import check_name

names_argument = click.argument("names", nargs=-1, metavar="[QUEUE]...")


@click.command(
    cls=Command,
    examples="""
    queuectl pause                            # the queue named default
    queuectl pause mail reports
    queuectl pause --all
    queuectl pause mail --json
    """,
)
@names_argument
@click.option("--all", "every", is_flag=True, help="All queues that are in use.")
@json_option
def pause(names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Stop giving out the jobs of a queue.

    Running jobs go on, and new ones can still be enqueued. A queue stays paused until it is
    resumed. Without a name it is the queue named default.
    """
    _check(names, every)
    # Who means all queues that are in use means none that is still to be made.
    with open_queue(create=not every) as queue, truthful(queue):
        note_unused(queue, names)
        chosen = [*queue.status().queues] if every else names or [DEFAULT_QUEUE]
        changed = {name: queue.pause(name) for name in dict.fromkeys(chosen)}
        if as_json:
            _write_json(changed, paused=True)
        elif changed:
            _write_changed(changed, "is paused; jobs that run go on", "was paused already")
        else:
            say("No queue is in use, so none is paused.")


@click.command(
    cls=Command,
    examples="""
    queuectl resume
    queuectl resume mail reports
    queuectl resume --all
    queuectl resume --all --json
    """,
)
@names_argument
@click.option("--all", "every", is_flag=True, help="All paused queues.")
@json_option
def resume(names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Give out the jobs of a paused queue again.

    Without a name it is the queue named default.
    """
    _check(names, every)
    with open_queue() as queue, truthful(queue):
        note_unused(queue, names)
        chosen = queue.status().paused if every else names or [DEFAULT_QUEUE]
        changed = {name: queue.resume(name) for name in dict.fromkeys(chosen)}
        if as_json:
            _write_json(changed, paused=False)
        elif changed:
            _write_changed(changed, "is resumed", "wasn't paused")
        else:
            say("No queue is paused.")


def _write_changed(changed: dict[str, bool], done: str, was_so: str) -> None:
    for name, is_new in changed.items():
        write(safe(f"Queue {name!r} {done if is_new else was_so}."))


def _write_json(changed: dict[str, bool], *, paused: bool) -> None:
    write_json(
        [{"name": name, "paused": paused, "changed": done} for name, done in changed.items()]
    )


def _check(names: tuple[str, ...], every: bool) -> None:
    if names and every:
        raise click.UsageError("Give either names of queues, or --all, not both")
    for name in names:
        check_name("queue", name)


@click.command(
    cls=Command,
    examples="""
    queuectl queues
    queuectl queues --json
    """,
)
@json_option
@quiet_option
def queues(as_json: bool, quiet: bool) -> None:
    """List the queues and what is in them."""
    with open_queue() as queue:
        rows = _rows(queue)
    if as_json:
        write_json(rows)
    elif quiet:
        for row in rows:
            write(safe(row["name"]))
    elif rows:
        _write(rows)
    else:
        say("No queue has jobs.")


def _rows(queue: Queue) -> list[dict[str, Any]]:
    from queuectl.report import moment

    set_on = {info.name: info for info in queue.queues()}
    rows: list[dict[str, Any]] = []
    for name, states in queue.status().queues.items():
        info = set_on.get(name)
        rows.append(
            {
                "name": name,
                "waiting": sum(states[state] for state in WAITING),
                "running": states[State.PROCESSING],
                "completed": states[State.COMPLETED],
                "dead": states[State.DEAD],
                "cancelled": states[State.CANCELLED],
                "paused": info is not None and info.paused_at is not None,
                "paused_at": None if info is None else moment(info.paused_at),
                "paused_by": None if info is None else info.paused_by,
                "states": {state.value: count for state, count in states.items()},
            }
        )
    return rows


_DROP = {"cancelled": 1, "completed": 2}
"""What is least missed where a terminal is narrow."""


def _write(rows: list[dict[str, Any]]) -> None:
    counts = ("waiting", "running", "completed", "dead", "cancelled")
    columns = [
        Column("QUEUE", least=10),
        *(Column(count.upper(), right=True, drop=_DROP.get(count, 0)) for count in counts),
        Column("PAUSED", least=8),
    ]
    write_table(
        columns,
        ([row["name"], *(str(row[count]) for count in counts), _paused(row)] for row in rows),
    )


def _paused(row: dict[str, Any]) -> str:
    return f"by {row['paused_by']}" if row["paused"] else "no"
