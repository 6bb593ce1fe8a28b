"""The commands `pause`, `resume` and `queues`: named lines of jobs, and whether they move."""

from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import Command
from queuectl.cli.options import json_option, open_queue, quiet_option
from queuectl.cli.render import Column, safe, say, write, write_json, write_table
from queuectl.errors import QueuectlError
from queuectl.job import DEFAULT_QUEUE, WAITING, State
from queuectl.queue import Queue

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class QueueName(click.ParamType):  # type: ignore[type-arg]
    """The name of a queue."""

    name = "queue"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Complete the names of queues that are in use."""
        from click.shell_completion import CompletionItem

        try:
            with ctx, open_queue() as queue:
                names = list(queue.status().queues)
        except QueuectlError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


names_argument = click.argument("names", nargs=-1, type=QueueName(), metavar="[QUEUE]...")


@click.command(
    cls=Command,
    examples="""
    queuectl pause                            # the queue named default
    queuectl pause mail reports
    queuectl pause --all
    """,
)
@names_argument
@click.option("--all", "every", is_flag=True, help="All queues that are in use.")
def pause(names: tuple[str, ...], every: bool) -> None:
    """Stop giving out the jobs of a queue.

    Running jobs go on, and new ones can still be enqueued. A queue stays paused until it is
    resumed. Without a name it is the queue named default.
    """
    _check(names, every)
    with open_queue(create=True) as queue:
        chosen = [*queue.status().queues] if every else names
        for name in dict.fromkeys(chosen or [DEFAULT_QUEUE]):
            if queue.pause(name):
                write(safe(f"Queue {name!r} is paused; jobs that run go on."))
            else:
                write(safe(f"Queue {name!r} was paused already."))


@click.command(
    cls=Command,
    examples="""
    queuectl resume
    queuectl resume mail reports
    queuectl resume --all
    """,
)
@names_argument
@click.option("--all", "every", is_flag=True, help="All paused queues.")
def resume(names: tuple[str, ...], every: bool) -> None:
    """Give out the jobs of a paused queue again.

    Without a name it is the queue named default.
    """
    _check(names, every)
    with open_queue() as queue:
        if every and not queue.status().paused:
            say("No queue is paused.")
            return
        chosen = queue.status().paused if every else names
        for name in dict.fromkeys(chosen or [DEFAULT_QUEUE]):
            if queue.resume(name):
                write(safe(f"Queue {name!r} is resumed."))
            else:
                write(safe(f"Queue {name!r} wasn't paused."))


def _check(names: tuple[str, ...], every: bool) -> None:
    if names and every:
        raise click.UsageError("Give either names of queues, or --all, not both")


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

    set_on = {info.name: info for info in queue.store.queues()}
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


def _write(rows: list[dict[str, Any]]) -> None:
    counts = ("waiting", "running", "completed", "dead", "cancelled")
    columns = [
        Column("QUEUE"),
        *(Column(count.upper(), right=True) for count in counts),
        Column("PAUSED"),
    ]
    write_table(
        columns,
        ([row["name"], *(str(row[count]) for count in counts), _paused(row)] for row in rows),
    )


def _paused(row: dict[str, Any]) -> str:
    return f"by {row['paused_by']}" if row["paused"] else "no"
