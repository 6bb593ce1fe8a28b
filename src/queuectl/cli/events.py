"""The `events` command: what people did by hand, and what was rescued."""

import click

from queuectl.cli.command import Command
from queuectl.cli.options import JOB_ID, json_option, open_queue
from queuectl.cli.render import Column, say, write_json, write_table
from queuectl.when import local


@click.command(
    cls=Command,
    examples="""
    queuectl events
    queuectl events k3v9            # of one job
    queuectl events -n 1000 --json
    """,
)
@click.argument("id", type=JOB_ID, required=False, metavar="[ID]")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="At most so many, the newest.",
)
@json_option
def events(id: str | None, limit: int, as_json: bool) -> None:
    """List what was done by hand, and what was rescued.

    Retries, cancellations, removals, prunings, pauses, stops and changed settings, each with who
    did it; and jobs that were rescued from a node that died. The newest come first.
    """
    from queuectl.report import event_dict

    with open_queue() as queue:
        found = queue.events(id, limit=limit)
    if as_json:
        write_json([event_dict(event) for event in found])
        return
    if not found:
        say("Nothing was done by hand, and nothing had to be rescued.")
        return
    columns = [Column(n) for n in ("WHEN", "WHAT", "JOB", "NODE", "WHO")]
    write_table(
        [*columns, Column("DETAIL", cut=True)],
        [[local(e.at), e.kind, e.job or "-", e.node or "-", e.who, e.detail or ""] for e in found],
    )
