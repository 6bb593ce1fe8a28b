"""The commands `pause`, `resume` and `queues`: named lines of jobs, and whether they move."""

import click

from queuectl.cli.command import Command
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import note_unused
from queuectl.cli.options import json_option, open_queue, quiet_option
from queuectl.cli.render import safe, say, write, write_json
from queuectl.job import DEFAULT_QUEUE
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
    """List the queues: what is in them, what they allow.

    Of limits it says how much is used.
    """
    from queuectl.cli.queue_report import queue_dicts, write_queues

    with open_queue() as queue:
        rows = queue_dicts(queue)
    if as_json:
        write_json(rows)
    elif quiet:
        for row in rows:
            write(safe(row["name"]))
    elif rows:
        write_queues(rows)
    else:
        say("No queue has jobs.")
