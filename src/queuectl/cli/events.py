"""The `events` command: what people did by hand, and which jobs died or were rescued."""

from typing import Any

import click

from queuectl.cli.command import Command
from queuectl.cli.options import JOB_ID, MOMENT, json_option, open_queue
from queuectl.cli.paging import how_many, limit_option
from queuectl.cli.render import Column, say, write_json_array, write_long_table
from queuectl.facts import Event
from queuectl.filter import EventFilter
from queuectl.when import local, parse_moment


@click.command(
    cls=Command,
    examples="""
    queuectl events
    queuectl events k3v9            # of one job
    queuectl events --who ann --since yesterday
    queuectl events --kind cancel --text "out of date"
    queuectl events --json > events.json
    """,
)
@click.argument("id", type=JOB_ID, required=False, metavar="[ID]")
@click.option("--who", default="", metavar="NAME", help="Only events of who has this in the name.")
@click.option("--kind", default="", metavar="KIND", help="Only events of this kind: cancel, dead.")
@click.option(
    "--text",
    "--search",
    "text",
    default="",
    metavar="TEXT",
    help="Only events with this in their detail, in any letter case.",
)
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="Only events since: 1h (ago), yesterday, 09:00, 2025-11-08T13:00:00Z.",
)
@click.option("--until", type=MOMENT, metavar="TIME", help="Only events before; as --since.")
@limit_option("--json")
@json_option
def events(id: str | None, limit: int | None, as_json: bool, **which: Any) -> None:
    """List what was done by hand, and which jobs died or were rescued.

    Retries, cancellations, edits, removals, prunings, pauses, stops and changed settings, each with
    who did it; jobs that were given up, with the reason; and jobs that were rescued from a node
    that died. The newest come first.
    """
    from queuectl.report import event_dict

    with open_queue() as queue:
        limit = how_many(limit, bare=as_json)
        for name in ("since", "until"):
            if which[name] is not None:
                which[name] = parse_moment(which[name], now=queue.now())
        page = queue.page_events(id, which=EventFilter(**which), limit=limit)
        if as_json:
            write_json_array(map(event_dict, page))
        else:
            write_long_table(_COLUMNS, map(_row, page))
    if page.more:
        say(f"There are more than these {page.count:,}; --limit 0 shows all.")
    elif not page.count and not as_json and any(which.values()):
        say("No events fit.")
    elif not page.count and not as_json:
        say("Nothing was done by hand, and no job has died or had to be rescued.")


_COLUMNS = (
    Column("WHEN", drop=4),
    Column("WHAT"),
    Column("JOB", least=12),
    Column("NODE", least=8, drop=1),
    Column("WHO", least=8, drop=2),
    Column("DETAIL", least=10, drop=3, is_sentence=True),
)


def _row(event: Event) -> list[str]:
    return [
        local(event.at),
        event.kind,
        event.job or "-",
        event.node or "-",
        event.who,
        event.detail or "",
    ]
