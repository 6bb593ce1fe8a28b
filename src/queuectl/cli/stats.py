"""`stats`: how well and how fast jobs run."""

from typing import TYPE_CHECKING

import click

from queuectl.cli.command import Command
from queuectl.cli.options import MOMENT, json_option, open_queue, queue_option
from queuectl.cli.render import cut, heading, plural, safe, write, write_facts, write_json
from queuectl.job import State
from queuectl.when import parse_moment

if TYPE_CHECKING:
    from queuectl.report import Durations, Stats

LONGEST_COMMAND = 60

EXAMPLES = """
queuectl stats
queuectl stats --queue mail --since 24h
queuectl stats --json | jq .run_time.p95_ms
"""


@click.command(cls=Command, examples=EXAMPLES)
@queue_option
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help="Run and wait times since: 1h (ago), monday, 09:00.",
)
@json_option
def stats(queue_name: str | None, since: str | None, as_json: bool) -> None:
    """Show success rate, run and wait times, slowest jobs.

    Counts are of the jobs that are in the store now; the success rate is the share of all these,
    also those that still wait, that are completed. Run times are those of runs that completed
    their job, wait times go from due to started; both include jobs that have been pruned.
    """
    with open_queue() as queue:
        moment = None if since is None else parse_moment(since, now=queue.store.now())
        found = queue.stats(since=moment, queue=queue_name)
        if as_json:
            write_json(found.as_dict())
        else:
            _write(found)


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
            ("Success Rate", "no jobs yet" if rate is None else f"{rate:.2f}%"),
        ]
    )
    write(f"Jobs with timeout configured: {found.timed:,}")
    _write_times("Execution Time Statistics", found.run)
    _write_times("Waiting Time Statistics", found.wait)
    if found.slowest:
        write()
        heading("Top 5 Slowest Jobs")
        for job in found.slowest:
            write(f"{safe(job.id)}: {cut(safe(job.title), LONGEST_COMMAND)} - {job.duration_ms}ms")
    if found.priorities:
        write()
        heading("Priority Distribution")
        for priority, jobs in found.priorities.items():
            write(f"Priority {priority}: {plural(jobs, 'job')}")


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


def _write_times(title: str, times: "Durations") -> None:
    if not times.count or times.average is None:
        return
    write()
    heading(title)
    write_facts(
        [
            ("Average", f"{times.average:.2f}ms"),
            ("Median", _ms(times.median)),
            ("P95", _ms(times.p95)),
            ("P99", _ms(times.p99)),
            ("Min", _ms(times.least)),
            ("Max", _ms(times.most)),
        ]
    )


def _ms(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.0f}ms" if float(value).is_integer() else f"{value:.2f}ms"
