"""`status`: the queue at a glance, once or again and again."""

import sys
from collections.abc import Sequence
from shlex import quote
from time import sleep
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import Command
from queuectl.cli.interrupts import raised
from queuectl.cli.notes import again
from queuectl.cli.options import DURATION, json_option, open_queue
from queuectl.cli.render import (
    STATE_COLOURS,
    Column,
    fact_lines,
    is_terminal,
    paint,
    plural,
    safe,
    table,
    terminal_height,
    write_json,
    write_lines,
)
from queuectl.job import DEFAULT_QUEUE, State
from queuectl.when import ago, ahead, format_duration, local

if TYPE_CHECKING:
    from queuectl.queue import Queue
    from queuectl.report import Status

CLEAR = "\x1b[H\x1b[J"
HIDE, UNHIDE = "\x1b[?25l", "\x1b[?25h"
SHORTEST_INTERVAL = 100
NAMED = 3
"""Paused jobs, or stopped groups, that are named, of many."""
GROUPS = 100
"""Of very many groups, so many of the newest are looked at."""

EXAMPLES = """
queuectl status
queuectl status --watch          # again every second, until Ctrl+C
queuectl status --watch 5s
queuectl status --json | jq .states.dead
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.option(
    "--watch",
    "-w",
    "interval",
    type=DURATION,
    is_flag=False,
    flag_value="1s",
    metavar="[INTERVAL]",
    help="Show it again every so often; a second if not said otherwise.",
)
@json_option
def status(interval: int | None, as_json: bool) -> None:
    """Show counts, queues and workers at a glance.

    Workers that run short jobs have their next ones at hand. Those count as processing, too, so
    that there can be more of them than busy workers.
    """
    if interval is not None and as_json:
        raise click.UsageError("--json prints one value, so --watch can't be with it")
    with open_queue() as queue:
        if as_json:
            told = [one | {"id": job} for job, one in _progress(queue).items()]
            write_json(queue.status().as_dict() | {"progress": told})
        elif interval is None:
            write_lines(describe(queue))
        else:
            with raised():
                _watch(queue, max(interval, SHORTEST_INTERVAL))


def _watch(queue: "Queue", interval: int) -> None:
    """Draw the status again and again; elsewhere than on a terminal, print one after the other."""
    terminal = is_terminal()
    every = format_duration(interval)
    try:
        if terminal:
            sys.stdout.write(HIDE)
        while True:
            lines = describe(queue)
            now = local(queue.now())
            if terminal:
                sys.stdout.write(CLEAR)
                end = ["", paint(f"{now}, every {every}; Ctrl+C ends it", "dim")]
                lines = [*lines[: max(terminal_height() - len(end) - 1, 1)], *end]
            else:
                lines += ["", now, ""]
            write_lines(lines)
            sys.stdout.flush()
            sleep(interval / 1000)
    finally:
        if terminal:
            sys.stdout.write(UNHIDE)
            sys.stdout.flush()


def describe(queue: "Queue") -> list[str]:
    """Return the lines of the status."""
    found = queue.status()
    now = queue.now()
    lines = [*_states(found), ""]
    if set(found.queues) - {DEFAULT_QUEUE} or found.paused:
        lines += [*_queues(found), ""]
    lines += _workers(found, now)
    lines += _paused_jobs(found)
    lines += _stopped_groups(queue)
    if found.states[State.PROCESSING]:
        lines += _told(queue)
    facts = [("Next scheduled", _due(found, now)), ("Held", _held(found)), ("Database", found.url)]
    lines += ["", *fact_lines(facts)]
    return lines


def _states(found: "Status") -> list[str]:
    shown = [state for state in State if found.states[state] or state != State.BLOCKED]
    rows = [(state.value, f"{found.states[state]:,}") for state in shown]
    rows.append(("total", f"{found.total:,}"))
    return table([Column("STATE", styles=STATE_COLOURS), Column("JOBS", right=True)], rows)


def _queues(found: "Status") -> list[str]:
    """Return a row per queue, with a column for every state that occurs."""
    states = [state for state in State if any(counts[state] for counts in found.queues.values())]
    columns = [Column("QUEUE", least=10)]
    columns += [
        Column(state.value.upper(), right=True, drop=_DROP.get(state, 0)) for state in states
    ]
    rows = [
        [name, *(f"{counts[state]:,}" for state in states), _paused(name, found)]
        for name, counts in found.queues.items()
    ]
    return table([*columns, Column("")], rows)


_DROP = {State.CANCELLED: 1, State.COMPLETED: 2, State.BLOCKED: 3, State.FAILED: 4}
"""What is least missed of a queue where a terminal is narrow."""


def _paused(name: str, found: "Status") -> str:
    return "paused" if name in found.paused else ""


def _workers(found: "Status", now: int) -> list[str]:
    alive = [node for node in found.nodes if node["alive"]]
    if not alive:
        start = safe(" ".join(filter(None, ("queuectl worker start", _having(found)))))
        lines = [f"Workers are {paint('STOPPED', 'red')}; start some with: {start}"]
    else:
        workers = plural(sum(node["workers"] for node in alive), "worker")
        busy = sum(node["running"] for node in alive)
        state = paint("RUNNING", "green")
        lines = [f"Workers are {state}: {workers} on {plural(len(alive), 'node')}, {busy} busy"]
    if found.nodes:
        lines += table(_NODE_COLUMNS, [_node(node, now) for node in found.nodes])
    if alive and found.unserved:
        from queuectl.explain import served

        jobs = plural(sum(found.unserved.values()), "job")
        what = f"{jobs} can't run: no worker serves {', '.join(found.unserved)}"
        options = " ".join(f"--queue {quote(served(name))}" for name in found.unserved)
        lines += ["", safe(f"{what}; start one with: queuectl worker start {options}")]
    if found.unhandled:
        lines += _unhandled(found, alive)
    return lines


def _having(found: "Status") -> str:
    """Write the options of `worker start` for what waiting jobs need, if they need something."""
    if not found.handlers:
        return ""
    from queuectl.shortage import having

    return having(found.handlers)


def _unhandled(found: "Status", alive: "Sequence[dict[str, Any]]") -> list[str]:
    """Say which jobs no node can run, for want of a program, or of what they need."""
    from queuectl.explain import NAMED, handling
    from queuectl.job import told_handler
    from queuectl.report import serving_of
    from queuectl.shortage import is_short, shortages

    nodes = [serving_of(node) for node in alive if not node["stopping"]]
    short = [handler for handler in found.unhandled if is_short(handler, nodes)]
    missing = [handler for handler in found.unhandled if handler not in short]
    said = [(one.handlers, one.text, one.handlers) for one in shortages(short, nodes)]
    if missing:
        named = ", ".join(map(told_handler, missing[:NAMED]))
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        text = f"no worker handles {named}{more}"
        said.insert(0, (tuple(missing), text, tuple(missing[:NAMED])))
    lines: list[str] = []
    for handlers, text, start in said:
        jobs = plural(sum(found.unhandled[one] for one in handlers), "job")
        what = f"{jobs} can't run: {text}; start one with: queuectl {handling(start)}"
        lines += ["", safe(what)]
    return lines


def _progress(queue: "Queue") -> dict[str, dict[str, Any]]:
    """Return how far jobs that run say that they have come, by their ids."""
    from queuectl.report import progress_dict

    found = queue.running_progress()
    jobs = queue.list(state=State.PROCESSING, limit=None) if found else []
    return {job.id: progress_dict(found[job.seq]) or {} for job in jobs if job.seq in found}


def _told(queue: "Queue") -> list[str]:
    """Return a table of the running jobs that tell how far they have come."""
    rows = [
        (id, "" if (share := one["percent"]) is None else f"{share:.3g}%", one["note"])
        for id, one in _progress(queue).items()
    ]
    return ["", *table(_TOLD_COLUMNS, rows)] if rows else []


_TOLD_COLUMNS = (
    Column("JOB", least=12),
    Column("PROGRESS", right=True),
    Column("", least=16, is_sentence=True),
)


def _paused_jobs(found: "Status") -> list[str]:
    """Return a line that names the jobs which run, but stand still."""
    if not found.paused_jobs:
        return []
    ids = [job.id for job, _ in found.paused_jobs]
    named = ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")
    who = found.paused_jobs[0][1] if len(ids) == 1 else None
    by = "" if who is None else f" by {who.who} since {local(who.at)}"
    return ["", safe(f"{plural(len(ids), 'running job')} paused{by}: {named}")]


def _stopped_groups(queue: "Queue") -> list[str]:
    """Return a line that names groups which were stopped, and how to start one again."""
    stopped = [group for group in queue.groups.newest(GROUPS) if group.stopped_at is not None]
    if not stopped:
        return []
    names = [group.name for group in stopped[:NAMED]]
    more = f" and {len(stopped) - NAMED} more" if len(stopped) > NAMED else ""
    what = f"Too many jobs are dead, so these groups were stopped: {', '.join(names)}{more}"
    return ["", safe(f"{what}; start one again with: {again(f'retry --group {quote(names[0])}')}")]


_NODE_COLUMNS = (
    Column("NODE", least=8),
    Column("HOST", least=10, drop=2),
    Column("PID", right=True),
    Column("BUSY", right=True),
    Column("UP", right=True),
    Column("QUEUES", least=10, drop=1),
    Column("", least=16, wrap=True),
)


def _node(node: dict[str, Any], now: int) -> tuple[str, ...]:
    from queuectl.report import serving_of
    from queuectl.when import parse_time

    started = parse_time(node["started_at"], now=now)
    return (
        node["id"],
        node["host"],
        str(node["pid"]),
        f"{node['running']}/{node['workers']}",
        ago(now - started),
        str(serving_of(node)),
        _condition(node),
    )


def _condition(node: dict[str, Any]) -> str:
    if not node["alive"]:
        return "gone; its jobs are taken over by the next worker"
    return "stopping" if node["stopping"] else ""


def _held(found: "Status") -> str | None:
    if not found.held:
        return None
    return f"{plural(sum(found.held.values()), 'job')} in {', '.join(sorted(found.held))}"


def _due(found: "Status", now: int) -> str | None:
    if found.next_due is None:
        return None
    if found.next_due <= now:
        return f"{local(found.next_due)} (due {ago(now - found.next_due)} ago)"
    return ahead(found.next_due, now)
