"""`result` and `progress`: what a job tells of itself while it runs, and what it came to."""

import os
import sys

import click

from queuectl.cli.command import Command
from queuectl.cli.options import JOB_ID, json_option, or_stuck_option
from queuectl.errors import UsageError
from queuectl.telling import (
    LONGEST_NOTE,
    LONGEST_RESULT,
    PROGRESS,
    RESULT,
    check_percent,
    check_result,
    place_of,
    read_progress,
)


@click.command(
    cls=Command,
    examples="""
    queuectl result '{"rows": 1000}'          # inside a job: this is what it came to
    jq -c .summary out.json | queuectl result -
    queuectl result @summary.json
    queuectl result --of k3v9                 # anywhere: print what a job came to
    queuectl result --of k3v9 --json
    """,
)
@click.argument("value", required=False, metavar="[JSON]")
@click.option("--of", type=JOB_ID, metavar="ID", help="Print the result of this job instead.")
@json_option
def result(value: str | None, of: str | None, as_json: bool) -> None:
    """Set what a job came to, or print it.

    Inside a job it takes JSON of 1 MiB at most: as it stands, from a file with @FILE, or from stdin
    with -. The last one counts, and is stored with the end of the run, if that completes the job.
    Writing the file that $QUEUECTL_RESULT names does the same.

    With --of it prints the result of a job that is completed.
    """
    if (value is None) == (of is None):
        raise click.UsageError("Give either JSON, inside a job, or --of ID")
    if of is not None:
        _print_result(of, as_json=as_json)
        return
    path = place_of(RESULT)
    text = check_result(read_given(value or "", LONGEST_RESULT + 1))
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise UsageError(f"The result can't be written: {error.strerror}.") from None
    if as_json:
        from queuectl.cli.render import write_json

        write_json({"id": os.environ.get("QUEUECTL_JOB_ID"), "bytes": len(text.encode())})


def read_given(value: str, most: int) -> bytes:
    """Read what was given: as it stands, in a file as @FILE, or on stdin as -."""
    if value == "-":
        return sys.stdin.buffer.read(most)
    if not value.startswith("@"):
        return value.encode("utf-8", "surrogateescape")
    try:
        with open(value[1:], "rb") as file:
            return file.read(most)
    except OSError as error:
        raise UsageError(f"{value[1:]} can't be read: {error.strerror}.") from None


def _print_result(id: str, *, as_json: bool) -> None:
    from queuectl.cli.options import open_queue
    from queuectl.cli.render import write_json

    with open_queue() as queue:
        job = queue.get(id)
        found = queue.result(job)
        write_json({"id": job.id, "result": found} if as_json else found)


@click.command(
    cls=Command,
    examples="""
    queuectl progress 40                      # inside a job: 40 percent are done
    queuectl progress 40 "rows 400 of 1000"
    queuectl progress 12.5% fetching
    queuectl progress --group nightly         # anywhere: how far a group is, until it is over
    queuectl progress --group nightly --json  # as it is now
    """,
)
@click.argument("percent", required=False)
@click.argument("note", required=False, default="")
@click.option("--group", metavar="NAME", help="Show how far this group is, until it is over.")
@click.option("--once", is_flag=True, help="With --group: show it as it is now, and end.")
@or_stuck_option
@json_option
def progress(
    percent: str | None, note: str, group: str | None, once: bool, or_stuck: bool, as_json: bool
) -> int | None:
    """Tell inside a job how far it is, or show how far a group is.

    What a job tells is said by status, list, show and wait.

    With --group it shows how many jobs of a group are done, how many failed, and how long the rest
    may take if it goes on so: in one line on a terminal, and elsewhere in a line for each change,
    once a second at most. When all are over, the exit code is 0 if they completed, else 1, as that
    of wait. With --once or --json it is shown as it is now.

    PERCENT is a number from 0 to 100, so that 0.5 is half a percent. It is shown within a second or
    two. A job that tells nothing is as alive as any other. A line such as `40 rows 400 of 1000` in
    the file that $QUEUECTL_PROGRESS names does the same.
    """
    if (percent is None) == (group is None):
        raise click.UsageError("Give either a number, inside a job, or --group NAME")
    if once and group is None:
        raise click.UsageError("--once is for --group")
    if or_stuck and (group is None or once or as_json):
        raise click.UsageError("--or-stuck is for --group that is waited for")
    if group is not None:
        from queuectl.cli.groups import show_progress

        return show_progress(group, once=once, as_json=as_json, or_stuck=or_stuck)
    path = place_of(PROGRESS)
    line = f"{check_percent(percent or '')} {note}"
    told = read_progress(line)
    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{told[0]:g} {told[1][:LONGEST_NOTE]}\n")
    except OSError as error:
        raise UsageError(f"The progress can't be written: {error.strerror}.") from None
    if as_json:
        from queuectl.cli.render import write_json

        write_json({"percent": told[0], "note": told[1]})
    return None
