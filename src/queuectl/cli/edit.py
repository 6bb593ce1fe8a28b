"""The commands `edit`, `hold` and `release`: changing jobs that wait."""

import click

from queuectl.changes import HOLD, RELEASE, Changed
from queuectl.cli.change_report import Manner, Words
from queuectl.cli.changing import change_jobs, ids_argument, manner_options
from queuectl.cli.command import Command
from queuectl.cli.options import Wanted, filter_options
from queuectl.queue import Queue


@click.command(
    cls=Command,
    examples="""
    queuectl hold k3v9                        # it doesn't run until it is released
    queuectl hold --queue mail --tag big
    queuectl release k3v9
    """,
)
@ids_argument
@filter_options
@manner_options
def hold(ids: tuple[str, ...], wanted: Wanted, how: Manner) -> int:
    """Keep jobs that wait from running, until they are released.

    They keep their places in the line. A job that expires meanwhile is dead, as ever.
    """
    words = Words(would="hold", done="held", sentence=_held)
    return change_jobs(HOLD, words, ids, wanted, how, asks=False)


def _held(queue: Queue, each: Changed) -> str:
    return f"Job {each.before.id} is held; release it with: queuectl release {each.before.id}"


@click.command(
    cls=Command,
    examples="""
    queuectl release k3v9
    queuectl release --queue mail --json
    """,
)
@ids_argument
@filter_options
@manner_options
def release(ids: tuple[str, ...], wanted: Wanted, how: Manner) -> int:
    """Let jobs run again that are held."""
    words = Words(
        would="release", done="released", sentence=lambda _, each: f"Job {each.before.id} released."
    )
    return change_jobs(RELEASE, words, ids, wanted, how, asks=False)
