"""`push`, and its other word `submit`: adds a data job, an id and bytes for a worker's program."""

from typing import Any

import click

from queuectl.cli.command import Command
from queuectl.cli.enqueue import Manner, check_manner, enqueue_one
from queuectl.cli.options import (
    follow_option,
    json_option,
    or_stuck_option,
    quiet_option,
    raw_option,
    wait_option,
)
from queuectl.cli.program import (
    field_options,
    finally_option,
    given_fields,
    in_our_trace,
    on_done_option,
)

EXAMPLES = """
queuectl push order-17 '{"total": 12}'               # handled by: worker start --exec PROGRAM
queuectl push order-17 '{"total": 12}' --type order  # by: worker start --exec order=PROGRAM
queuectl push photo-3 @photo.jpg --type thumbnail --queue images --priority 5
tar c docs | queuectl push backup-7 -
queuectl push photo-4 @photo4.jpg --type thumbnail --group album --on-done "notify.sh"
queuectl push report-1 '{"month": 11}' --delay 1h --wait
"""
NOT_FOR_DATA = ("id", "stdin", "shell", "type", "data")


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("id")
@click.argument("data", required=False, metavar="[DATA | @FILE | -]")
@click.option("--type", "type", metavar="T", help="What it is one of: who handles it goes by this.")
@field_options(but=NOT_FOR_DATA)
@finally_option
@on_done_option
@wait_option
@follow_option
@or_stuck_option
@raw_option
@quiet_option
@json_option
def push(
    id: str,
    data: str | None,
    on_done: str | None,
    wait: bool,
    follow: bool,
    or_stuck: bool,
    raw: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Add a data job: an id, and bytes for a worker's program.

    A node that was started with worker start --exec PROGRAM runs that with the data on stdin and
    the id as its last argument. DATA is text, @FILE is what a file has, and - or nothing is our
    stdin; any bytes, 1 MiB at most. A text that begins with @ comes by stdin.

    An id can be used once, until its job is removed: if it is taken, nothing is stored, and the
    exit code says so as that of enqueue does.
    """
    how = Manner(
        wait=wait or follow,
        follow=follow,
        raw=raw,
        quiet=quiet,
        as_json=as_json,
        on_done=on_done,
        or_stuck=or_stuck,
    )
    check_manner(how)
    fields = given_fields(flags)
    return enqueue_one(in_our_trace({"id": id, "data": _read(data), **fields}), how)


submit = Command(
    "submit",
    callback=push.callback,
    params=[param for param in push.params if param.name != "db"],
    help=f"Add a data job: another word for push.\n{(push.help or '').partition(chr(10))[2]}",
    examples=EXAMPLES.replace("queuectl push", "queuectl submit"),
)


def _read(data: str | None) -> bytes:
    """Return the data that is meant: a text, or what is in a file."""
    if data is not None and data != "-" and not data.startswith("@"):
        # Bytes of an argument that aren't UTF-8 came in as surrogates.
        return data.encode("utf-8", "surrogateescape")
    from queuectl.cli.feed import read_data

    return read_data("-" if data is None else data.removeprefix("@"))
