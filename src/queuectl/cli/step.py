"""`step` and `steps`: parts of a job that are done once, however often it runs."""

import os
import subprocess
import sys

import click

from queuectl.cli.command import Command
from queuectl.cli.options import JOB_ID, json_option, open_queue
from queuectl.errors import EXIT_DONE, StateError, UsageError
from queuectl.told import LONGEST_OUTPUT, check_name, current_run

EXIT_NOT_FOUND, EXIT_NOT_RUN = 127, 126
"""As shells have it: there is no such program, or it can't be started."""
FIRST_SIGNAL = 128
PIECE = 1 << 16


@click.command(
    cls=Command,
    examples="""
    queuectl step fetch -- curl -sSfo data.json https://example.org/data
    queuectl step count -- wc -l data.csv       # what it prints is printed again in later runs
    queuectl step load -- sh -c 'psql -f load.sql && touch loaded'
    """,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def step(name: str, command: tuple[str, ...]) -> int:
    """Run a part of a job once, however often the job runs.

    If the command exits with 0, the store keeps that, and what it wrote to stdout (1 MiB at most).
    When the job runs again, the command is skipped, and that is printed. If it fails, nothing is
    kept, and its exit code is passed on.

    It exits with 4 if the run has lost its lease, so that it stores nothing, or comes by the step
    twice: begin the job's script with `set -e`, and it ends there.
    """
    # Behind the name, click leaves it where it is: so the command may have options, too.
    command = command[1:] if command[0] == "--" else command
    if not command:
        raise click.UsageError("Say which command the step runs: queuectl step NAME -- COMMAND")
    run = current_run()
    check_name(name)
    with open_queue(must_exist=True) as queue:
        done = queue.begin_step(run, name)
    if done is not None:
        _pass_on(done.output)
        return EXIT_DONE
    # Not connected meanwhile: the command may take hours.
    code, output = _run(command)
    if code != EXIT_DONE:
        return code
    if output is None:
        raise StateError(
            f"Step {name!r} wrote more than the 1 MiB that a step can keep, so it isn't done;"
            " have its command write into a file."
        )
    with open_queue(must_exist=True) as queue:
        queue.keep_step(run, name, output)
    return EXIT_DONE


def _run(command: tuple[str, ...]) -> tuple[int, bytes | None]:
    """Run a command; returns its exit code and what it wrote, unless that is too much."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
    except FileNotFoundError:
        raise UnstartedError(f"There is no program {command[0]!r}.", EXIT_NOT_FOUND) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UnstartedError(f"{command[0]!r} can't be started: {why}.", EXIT_NOT_RUN) from None
    assert process.stdout is not None
    pieces, room = [], LONGEST_OUTPUT
    fd = process.stdout.fileno()
    while piece := os.read(fd, PIECE):
        _pass_on(piece)
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            break
    # One that goes on to write is told by SIGPIPE that nobody reads it.
    process.stdout.close()
    code = process.wait()
    if room < 0:
        return EXIT_DONE, None
    return FIRST_SIGNAL - code if code < 0 else code, b"".join(pieces)


def _pass_on(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class UnstartedError(UsageError):
    """A command that couldn't be started."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]


@click.command(
    cls=Command,
    examples="""
    queuectl steps k3v9
    queuectl steps k3v9 --json
    """,
)
@click.argument("id", type=JOB_ID, metavar="ID")
@json_option
def steps(id: str, as_json: bool) -> int:
    """List the steps of a job that are done.

    With --json: `name`, `attempt` (the run that did it), `done_at` and `output` of each.
    """
    from queuectl.cli.render import Column, say, size, write_json, write_table
    from queuectl.report import step_dict
    from queuectl.when import local

    with open_queue() as queue:
        job = queue.get(id)
        found = queue.steps(job)
    if as_json:
        write_json([step_dict(one) for one in found])
    elif not found:
        say(f"Job {job.id} has no steps that are done.")
    else:
        columns = (
            Column("STEP", least=12),
            Column("RUN", right=True),
            Column("DONE"),
            Column("OUTPUT", right=True),
        )
        rows = [(one.name, str(one.number), local(one.at), size(len(one.output))) for one in found]
        write_table(columns, rows)
    return EXIT_DONE
