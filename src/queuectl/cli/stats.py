"""`stats`: how well and how fast jobs run."""

from typing import TYPE_CHECKING

import click

from queuectl.cli.command import Command
from queuectl.cli.notes import note_unused
from queuectl.cli.options import MOMENT, json_option, open_queue, tags_option
from queuectl.cli.render import (
    heading,
    is_terminal,
    plural,
    safe,
    say,
    shorten,
    size,
    terminal_width,
    write,
    write_facts,
    write_json,
)
from queuectl.cli.widths import width
from queuectl.job import Job, State
from queuectl.when import human, parse_moment

if TYPE_CHECKING:
    from queuectl.report import Durations, Stats

LONGEST_COMMAND = 60

EXAMPLES = """
queuectl stats
queuectl stats --queue mail --since 24h
queuectl stats --tag nightly
queuectl stats --json | jq .run_time.p95_ms
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.option("--queue", "-Q", "queue_name", metavar="NAME", help="Only this queue.")
@tags_option(
    "Only jobs with this tag that are in the store, each with its last run; with several, "
    "those that have all of them."
)
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="Run and wait times since: 1h (ago), monday, 09:00.",
)
@json_option
def stats(queue_name: str | None, tags: tuple[str, ...], since: str | None, as_json: bool) -> None:
    """Show success rate, run and wait times, slowest jobs.

    Counts are of the jobs that are in the store now. The success rate is the share of completed
    jobs among those that completed or died: what still waits, runs or is retried isn't counted,
    nor what was cancelled. Run times are those of runs that completed their job, wait times go
    from due to started; both include jobs that have been pruned, except with --tag. Memory and
    CPU time are those of the last runs of the 1,000 newest jobs that are over.
    """
    with open_queue() as queue:
        note_unused(queue, () if queue_name is None else (queue_name,))
        moment = None if since is None else parse_moment(since, now=queue.now())
        found = queue.stats(since=moment, queue=queue_name, tag=tags)
        if as_json:
            write_json(found.as_dict())
        else:
            _write(found)
            if tags:
                say("These are the jobs in the store, each with its last run; pruned ones aren't.")


def _write(found: "Stats") -> None:
    rate = found.success_rate
    heading("Queue Statistics")
    write_facts(
        [
            ("Total Jobs", f"{found.total:,}"),
            *(
                (state.value.capitalize(), f"{found.states[state]:,}")
                for state in _ORDER
                if found.states[state] or state in _ALWAYS
            ),
            ("Success Rate", "nothing finished yet" if rate is None else f"{rate:.2f}%"),
        ]
    )
    write(f"Jobs with timeout configured: {found.timed:,}")
    _write_times("Execution Time Statistics", found.run)
    _write_times("Waiting Time Statistics", found.wait)
    _write_usage(found)
    if found.slowest:
        write()
        heading("Top 5 Slowest Jobs")
        for job in found.slowest:
            write(_slow(job))
    if found.priorities:
        write()
        heading("Priority Distribution")
        for priority, jobs in found.priorities.items():
            write(f"Priority {priority}: {plural(jobs, 'job')}")


def _slow(job: Job) -> str:
    """Return `id: command - duration`, which fits a terminal."""
    took = human(job.duration_ms or 0)
    id, command = safe(job.id), safe(job.title)
    if not is_terminal():
        return f"{id}: {shorten(command, LONGEST_COMMAND)} - {took}"
    left = max(terminal_width() - len(f":  - {took}"), 2)
    id = shorten(id, max(left - width(command), left // 2))
    return f"{id}: {shorten(command, left - width(id))} - {took}"


_ORDER = (
    State.COMPLETED,
    State.FAILED,
    State.DEAD,
    State.CANCELLED,
    State.PENDING,
    State.PROCESSING,
    State.BLOCKED,
)
_ALWAYS = (State.COMPLETED, State.FAILED, State.DEAD)


def _write_usage(found: "Stats") -> None:
    if not found.memory.count and not found.cpu.count:
        return
    write()
    heading("Usage")
    counts = max(found.memory.count, found.cpu.count)
    facts = [("Runs counted", f"{counts:,} (the newest)")]
    for name, of, written in (("Memory", found.memory, size), ("CPU time", found.cpu, human)):
        for which, amount in (("median", of.median), ("P95", of.p95), ("max", of.most)):
            if amount is not None:
                facts.append((f"{name}, {which}", written(amount)))
    write_facts(facts)


def _write_times(title: str, times: "Durations") -> None:
    if not times.count or times.average is None:
        return
    write()
    heading(title)
    write_facts(
        [
            (name, None if value is None else human(value))
            for name, value in (
                ("Average", times.average),
                ("Median", times.median),
                ("P95", times.p95),
                ("P99", times.p99),
                ("Min", times.least),
                ("Max", times.most),
            )
        ]
    )
