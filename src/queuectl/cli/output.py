"""`output`: a job's facts and what one of its runs wrote, finished or not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.columns import attempts_of, settled
from queuectl.cli.command import Command
from queuectl.cli.finish import ended_label
from queuectl.cli.interrupts import raised
from queuectl.cli.options import JOB_ID, json_option, open_queue, raw_option
from queuectl.cli.render import (
    heading,
    paint,
    say,
    write,
    write_facts,
    write_json,
    write_json_array,
)
from queuectl.cli.stream import Writer, exact
from queuectl.guard.output import render
from queuectl.job import FINISHED, Attempt, Job, Output, State, signal_name
from queuectl.queue import Queue
from queuectl.values import replace
from queuectl.when import format_duration, human, local

if TYPE_CHECKING:
    from queuectl.outputs import Written

Facts = list[tuple[str, str | None]]

EXAMPLES = """
queuectl output 7f3k
queuectl output 7f3k h2vq
queuectl output 7f3k --attempt 1
queuectl output 7f3k --stdout > report.csv    # byte for byte
"""


class _Output(Command):
    """Knows that other queues say `output get ID`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["get"] and len(args) > 1 and not ctx.resilient_parsing:
            raise click.UsageError("output takes the id itself, without get", ctx)
        return super().parse_args(ctx, args)


@click.command(cls=_Output, examples=EXAMPLES)
@click.argument("ids", nargs=-1, required=True, type=JOB_ID, metavar="ID...")
@click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="This run.  [default: the newest]"
)
@click.option("--stdout", "only_stdout", is_flag=True, help="Only its stdout, byte for byte.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Only its stderr, byte for byte.")
@raw_option
@json_option
def output(
    ids: tuple[str, ...],
    attempt: int | None,
    only_stdout: bool,
    only_stderr: bool,
    raw: bool,
    as_json: bool,
) -> None:
    """Show a job's facts and what it wrote.

    Several jobs are shown one after the other, and with --json as an array. For a job that runs,
    it is what its run has written so far. Of a long output the first and last part are kept (the
    setting output_limit says how much); a line marks the gap.

    On a terminal, colours and progress bars look as the job meant them; all other control
    characters are shown as \\x1b and the like, unless --raw is given.
    """
    if sum((only_stdout, only_stderr, as_json)) > 1:
        raise click.UsageError("Give only one of --stdout, --stderr and --json")
    if attempt is not None and len(ids) > 1:
        raise click.UsageError("--attempt is for one job")
    with open_queue() as queue:
        jobs = [queue.get(id) for id in ids]
        shown = (_written(queue, job, attempt) for job in jobs)
        if as_json and len(ids) > 1:
            write_json_array(_as_dict(queue, found) for found in shown)
            return
        for number, found in enumerate(shown):
            if as_json:
                write_json(_as_dict(queue, found))
            elif only_stdout or only_stderr:
                data, total = _stream(found.output, stderr=only_stderr)
                with _writer(raw) as writer:
                    writer.write(render(data, total))
                if total > len(data):
                    # For whoever sends it to a file, and won't see the line in it.
                    say(
                        f"{total - len(data):,} bytes in the middle were not kept; the setting"
                        " output_limit says why."
                    )
            else:
                if number:
                    write()
                (job,) = settled([found.job], queue)
                facts = _facts(replace(found, job=job), single=attempt is not None)
                _write(found, facts, raw)


def _written(queue: Queue, job: Job, attempt: int | None) -> "Written":
    found = queue.written(job, attempt)
    if not found.whole:
        say(f"Node {job.node} doesn't answer; this may not be all.")
    return found


def _stream(output: Output, *, stderr: bool) -> tuple[bytes, int]:
    """Return what is kept of one stream, and how many bytes there were."""
    if stderr:
        return output.stderr, output.stderr_bytes
    return output.stdout, output.stdout_bytes


def _write(found: "Written", facts: Facts, raw: bool) -> None:
    job = found.job
    heading(f"Job {job.id}")
    write_facts(facts)
    write()
    heading("Output" if found.number == job.attempts else f"Output of run {found.number}")
    written = False
    for title, stderr in (("STDOUT:", False), ("STDERR:", True)):
        if data := render(*_stream(found.output, stderr=stderr)):
            write(paint(title, "bold"))
            with _writer(raw) as writer:
                writer.write(data)
                writer.finish_line()
            written = True
    if not written:
        over = found.run is not None or job.state in FINISHED
        write("No output." if over else "No output available yet.")


@contextmanager
def _writer(raw: bool) -> Iterator[Writer]:
    """Write to stdout, and leave a terminal without colours, also after Ctrl+C."""
    writer = Writer(sys.stdout, raw=raw)
    try:
        with raised():
            yield writer
    finally:
        writer.end()


def _facts(found: "Written", *, single: bool) -> Facts:
    """Return the facts of a job; if a single run was asked for, those of the run apart."""
    job, run = found.job, found.run
    about = [
        ("Priority", str(job.priority)),
        ("Attempts", attempts_of(job)),
        ("Timeout", format_duration(job.timeout) if job.timeout else "none"),
    ]
    created = ("Created", local(job.created_at, exact=True))
    head = [("Command", job.title), ("State", job.state.value), ("Reason", job.reason)]
    if single and run is not None:
        return [*head, *about, created, *_run_facts(job, run)]
    code = job.exit_code if run is None else run.exit_code
    error = job.error if run is None else run.error
    started = job.started_at if run is None else run.started_at
    ended = job.finished_at if run is None else run.finished_at
    took = job.duration_ms if run is None else run.duration_ms
    return [
        *head,
        ("Error", error if error != job.reason else None),
        ("Exit code", None if code is None else str(code)),
        *about,
        ("Started", None if started is None else local(started, exact=True)),
        (ended_label(job), None if ended is None else local(ended, exact=True)),
        ("Duration", None if took is None else human(took)),
        created,
    ]


def _run_facts(job: Job, run: Attempt) -> Facts:
    how = run.outcome
    if run.outcome == "exited" and run.exit_code is not None:
        how = f"exited with {run.exit_code}"
    elif run.outcome == "signalled" and run.signal is not None:
        how = f"killed by {signal_name(run.signal)}"
    return [
        (f"Run {run.number} of {job.attempts}", how),
        ("Error", run.error if run.error != how else None),
        ("Started", local(run.started_at, exact=True)),
        ("Ended", local(run.finished_at, exact=True)),
        ("Duration", human(run.duration_ms)),
    ]


def _as_dict(queue: Queue, found: "Written") -> dict[str, Any]:
    from queuectl.cli.columns import Pauses
    from queuectl.report import attempt_dict, job_dict

    return {
        "job": job_dict(found.job, Pauses(queue.pauses).of(found.job)),
        "attempt": found.number or None,
        "run": None if found.run is None else attempt_dict(found.run),
        "live": found.job.state == State.PROCESSING and found.run is None,
        **_json_stream("stdout", found.output.stdout, found.output.stdout_bytes),
        **_json_stream("stderr", found.output.stderr, found.output.stderr_bytes),
    }


def _json_stream(name: str, data: bytes, total: int) -> dict[str, Any]:
    """Describe a stream; bytes that aren't text are there once more, exactly, in base64."""
    return {
        name: render(data, total).decode(errors="replace"),
        f"{name}_base64": exact(data),
        f"{name}_bytes": total,
    }
