"""`sleep`, `await`, `emit` and `emitted`: jobs that give their workers back, and what ends that."""

import sys
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import Command
from queuectl.cli.finish import EXIT_TIMED_OUT
from queuectl.cli.options import json_option, open_queue
from queuectl.cli.paging import how_many, limit_option
from queuectl.cli.render import Column, plural, safe, say, shorten, write, write_json, write_table
from queuectl.errors import EXIT_DONE, EXIT_STATE, DuplicateError, UsageError, shown
from queuectl.facts import Sleep, Step
from queuectl.telling import LONGEST_RESULT, sleep_mark
from queuectl.told import current_run
from queuectl.views import emitted_dict
from queuectl.when import ahead, iso, local

if TYPE_CHECKING:
    from queuectl.awaiting import Wish
    from queuectl.queue import Queue

EXIT_ASLEEP = 75
"""That the run should end here, and comes back later; elsewhere it is called EX_TEMPFAIL."""
LONGEST_SHOWN = 200
"""Cells of what was emitted that are shown; --json has all of it."""

_name_option = click.option(
    "--name",
    metavar="STEP",
    help="Call the step so; else it has the name of the command, and a number if it comes again.",
)


@click.command(
    cls=Command,
    examples="""
    queuectl sleep 2d                         # inside a job: go on in two days
    queuectl sleep 1h30m --name before-reminder
    queuectl sleep tomorrow 9am
    """,
)
@click.argument("length", nargs=-1, required=True, metavar="DURATION|TIME")
@_name_option
@json_option
def sleep(length: tuple[str, ...], name: str | None, as_json: bool) -> int:
    """Give the worker back inside a job, and go on later.

    It exits with 75, and the job's script should end there: begin it with `set -e`. The run counts
    as no failure, whatever its exit code is. When the time has come the job runs again from its
    beginning, skips the steps that are done, and finds that this sleep is over: it exits with 0.

    It exits with 4 if the run has lost its lease.
    """
    from queuectl.awaiting import read_sleep

    with open_queue(must_exist=True) as queue:
        found = _fall_asleep(queue, read_sleep(" ".join(length), name, queue.now()))
        if isinstance(found, Sleep):
            return _tell_asleep(queue, found, as_json=as_json)
    if as_json:
        write_json(_done(found) | {"asleep": False, "until": None})
    return EXIT_DONE


@click.command(
    "await",
    cls=Command,
    examples="""
    queuectl await paid-4711                  # inside a job: go on when that is emitted
    queuectl await paid-4711 --timeout 3d --json
    """,
)
@click.argument("emitted_name", metavar="NAME")
@click.option(
    "--timeout",
    metavar="TIME",
    help="Wait no longer than this, such as 3d; without end unless given.",
)
@_name_option
@json_option
def await_(emitted_name: str, timeout: str | None, name: str | None, as_json: bool) -> int:
    """Give the worker back inside a job until something is emitted.

    What was emitted, as JSON, is printed, also in later runs; `queuectl emit NAME JSON` does that,
    before or after. As long as it wasn't, it exits with 75, as `queuectl sleep` does, and the job
    comes back when it is. When --timeout is over it exits with 124, in all later runs as well.
    Without one it waits without end; once in 366 days the job runs up to here, and waits on.

    It exits with 4 if the run has lost its lease.
    """
    from queuectl.awaiting import read_await

    with open_queue(must_exist=True) as queue:
        found = _fall_asleep(queue, read_await(emitted_name, timeout, name))
        if isinstance(found, Sleep):
            return _tell_asleep(queue, found, as_json=as_json)
    told = found.output.decode()
    if as_json:
        from queuectl.jsontext import read_stored

        came = {"emitted": bool(told), "payload": read_stored(told) if told else None}
        write_json(_done(found) | {"asleep": False, "until": None} | came)
    elif told:
        sys.stdout.write(f"{told}\n")
    else:
        say(f"Nothing was emitted as {emitted_name} in time.")
    return EXIT_DONE if told else EXIT_TIMED_OUT


def _fall_asleep(queue: "Queue", wish: "Wish") -> Step | Sleep:
    """Have the run that we are in sleep, if that isn't over; the node is told to look for it."""
    run, mark = current_run(), sleep_mark()
    try:
        with open(mark, "wb"):
            pass
    except OSError as error:
        raise UsageError(f"The worker can't be told: {error.strerror}.") from None
    return queue.fall_asleep(run, wish)


def _tell_asleep(queue: "Queue", sleep: Sleep, *, as_json: bool) -> int:
    if as_json:
        until = None if sleep.until is None else iso(sleep.until)
        write_json({"name": sleep.step, "asleep": True, "until": until})
    else:
        when = "" if sleep.until is None else f" until {ahead(sleep.until, queue.now())}"
        say(f"The job {sleep}{when}; this run ends.")
    return EXIT_ASLEEP


def _done(step: Step) -> dict[str, Any]:
    return {"name": step.name, "attempt": step.number, "done_at": iso(step.at)}


@click.command(
    cls=Command,
    examples="""
    queuectl emit paid-4711
    queuectl emit paid-4711 '{"amount": 30}'  # jobs that await it print that
    jq -c .order event.json | queuectl emit paid-4711 -
    queuectl emit paid-4711 @event.json --json
    """,
)
@click.argument("emitted_name", metavar="NAME")
@click.argument("value", default="null", metavar="[JSON]")
@json_option
def emit(emitted_name: str, value: str, as_json: bool) -> int:
    """Tell something to all jobs that await it, or will.

    It is JSON of 1 MiB at most: as it stands, from a file with @FILE, or from stdin with -; null
    unless given. Jobs that wait for it come back in the same transaction.

    The first one under a name counts, so the name should say of what it is: paid-4711. A later one
    changes nothing, says so, and exits with 4.
    """
    from queuectl.awaiting import check_emitted, read_payload
    from queuectl.cli.telling import read_given

    check_emitted(emitted_name)
    payload = read_payload(read_given(value, LONGEST_RESULT + 1))
    with open_queue() as queue:
        emission = queue.emit_text(emitted_name, payload)
    if as_json:
        facts = {"is_first": emission.is_first, "waiting": emission.waiting}
        write_json(emitted_dict(emission.emitted) | facts)
    elif emission.is_first:
        waiting = plural(emission.waiting, "job")
        write(f"Emitted {safe(emitted_name)}; {waiting} {_waited(emission.waiting)} for it.")
    else:
        first = emission.emitted
        raise DuplicateError(
            f"{shown(emitted_name)} was emitted by {first.who} at {local(first.at)};"
            " that counts, not this."
        )
    return EXIT_DONE if emission.is_first else EXIT_STATE


def _waited(jobs: int) -> str:
    return "was waiting" if jobs == 1 else "were waiting"


@click.command(
    cls=Command,
    examples="""
    queuectl emitted
    queuectl emitted paid-4711
    queuectl emitted --json
    """,
)
@click.argument("emitted_name", required=False, metavar="[NAME]")
@limit_option("--json")
@json_option
def emitted(emitted_name: str | None, limit: int | None, as_json: bool) -> int:
    """List what was emitted, newest first.

    With --json: `name`, `payload`, `emitted_at` and `who` of each.
    """
    most = how_many(limit, bare=as_json)
    with open_queue() as queue:
        found = queue.emitted(emitted_name, limit=2**31 - 1 if most is None else most)
    if as_json:
        write_json([emitted_dict(one) for one in found])
    elif not found:
        named = "" if emitted_name is None else f" as {emitted_name}"
        say(f"Nothing was emitted{named}.")
    else:
        columns = (
            Column("NAME", least=12),
            Column("WHEN"),
            Column("WHO", least=8, drop=1),
            Column("PAYLOAD", least=12, is_sentence=True),
        )
        rows = [(e.name, local(e.at), e.who, shorten(e.payload, LONGEST_SHOWN)) for e in found]
        write_table(columns, rows)
    return EXIT_DONE
