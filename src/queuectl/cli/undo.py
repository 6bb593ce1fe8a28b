"""The `undo` command: takes back what was done to jobs by hand."""

from collections.abc import Sequence

import click

from queuectl.changes import Changed, Refused
from queuectl.cli.change_report import JsonReport, Manner, Report, TextReport, Words
from queuectl.cli.changing import manner_options
from queuectl.cli.command import Command
from queuectl.cli.interrupts import truthful
from queuectl.cli.options import open_queue
from queuectl.cli.outlet import outlet
from queuectl.queue import Queue


@click.command(
    cls=Command,
    examples="""
    queuectl undo                       # what you did last
    queuectl undo --dry-run
    queuectl undo 3f0c9a7be1d24c58      # an action, as events --json names it
    """,
)
@click.argument("action", required=False, metavar="[ACTION]")
@manner_options
def undo(action: str | None, how: Manner) -> int:
    """Take back what was done to jobs by hand, within ten minutes.

    Cancellations, holds, releases, moves, retries, edits and new places can be undone, whoever did
    that, for jobs that have neither run nor changed since; the others stay as they are, and it is
    said why. What is deleted stays deleted. Without an action, it is the last one of yours.
    """
    words = Words(would="bring back", done="brought back", sentence=_sentence)
    with open_queue() as queue, truthful(queue, patient=not how.dry_run) as truth:
        report: Report = (JsonReport if how.as_json else TextReport)(queue, truth, how, words)
        outlet.done = report.done

        def told(some: Sequence[Changed | Refused]) -> None:
            report.page([one for one in some if isinstance(one, Changed)])
            for one in some:
                if isinstance(one, Refused):
                    report.named(one)

        with report:
            queue.undo(action, dry_run=how.dry_run, told=told)
            report.sum_up()
        return report.code


def _sentence(queue: Queue, each: Changed) -> str:
    job = each.after or each.before
    held = ", held" if job.is_held else ""
    return f"Job {job.id} is again as it was: {job.state}{held}."
