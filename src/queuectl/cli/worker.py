"""The `worker` commands: starting, stopping and listing nodes and their workers."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import DB, Group
from queuectl.cli.moments import moment
from queuectl.cli.options import DURATION, json_option, open_queue, quiet_option
from queuectl.cli.render import (
    Column,
    complain,
    is_terminal,
    plural,
    safe,
    say,
    terminal_width,
    write,
    write_json,
    write_table,
)
from queuectl.errors import EXIT_DONE, EXIT_FAILED, StoreMissingError
from queuectl.host import host_identity, is_running
from queuectl.queue import Queue
from queuectl.when import format_duration, parse_time

if TYPE_CHECKING:
    from queuectl.node.node import NodeOptions
    from queuectl.place import Place
    from queuectl.store.contract import Node

MOST_WORKERS = 10_000
EXIT_PATIENCE = 5.0
"""Seconds a node may take from signing off to being gone."""
NONE_RUNNING = "No workers are running."
NODE_COLOURS = {"alive": "green", "stopping": "yellow", "dead": "red"}


@click.group(
    cls=Group,
    examples="""
    queuectl worker start --count 4
    queuectl worker start --daemon
    queuectl worker list
    queuectl worker stop
    """,
)
def worker() -> None:
    """Start, stop and list workers.

    Each worker start is a node: one process that runs as many jobs at once as it has workers.
    Any number of nodes may work on one queue.
    """


@worker.command(
    "start",
    examples="""
    queuectl worker start                     # one worker, until Ctrl+C
    queuectl worker start --count 4 --queue mail --queue default
    queuectl worker start -c 2 --drain        # run what there is, then exit
    queuectl worker start --daemon node.pid --log node.log
    """,
)
@click.option(
    "--count",
    "-c",
    type=click.IntRange(1, MOST_WORKERS),
    metavar="N",
    help="How many jobs to run at once.  [default: the setting workers, which is 1]",
)
@click.option(
    "--queue",
    "-Q",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Serve only this queue; repeatable.  [default: all]",
)
@click.option(
    "--daemon",
    is_flag=False,
    flag_value="",
    metavar="[PIDFILE]",
    help="Go on in the background; keep the pid in PIDFILE if one is given. The log is "
    "DATABASE.d/node.log, unless --log says otherwise.",
)
@click.option("--drain", is_flag=True, help="Exit when nothing is left to do.")
@click.option(
    "--backoff-base",
    type=float,
    metavar="B",
    help="Wait B, B**2, B**3 ... seconds before retries, whatever jobs and settings say.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the log to FILE too, which is rotated.  [default: stderr only; with --daemon "
    "DATABASE.d/node.log]",
)
@click.option("--log-json", is_flag=True, help="Write log lines as JSON.")
@click.pass_context
def start(
    ctx: click.Context,
    count: int | None,
    queues: tuple[str, ...],
    daemon: str | None,
    drain: bool,
    backoff_base: float | None,
    log: str | None,
    log_json: bool,
) -> int:
    """Start a node, which runs jobs until it is stopped.

    Ctrl+C (or SIGTERM) lets running jobs finish, and no new ones start. A second one ends the
    running jobs and gives them back unharmed; a third exits at once.
    """
    from queuectl.node.interrupts import die_of_interrupts

    if daemon is None:
        die_of_interrupts()

    from queuectl.node.node import NodeOptions, run
    from queuectl.place import find_place
    from queuectl.request import check_name
    from queuectl.settings import read_value

    if backoff_base is not None:
        backoff_base = read_value("backoff_base", backoff_base)[1]
    options = NodeOptions(
        place=find_place(ctx.meta.get(DB)),
        count=count,
        queues=tuple(dict.fromkeys(check_name("A queue's name", name) for name in queues)),
        drain=drain,
        backoff_base=backoff_base,
        log=log,
        log_json=log_json,
        pidfile=daemon or None,
    )
    return run(options) if daemon is None else _start_daemon(options)


def _start_daemon(options: "NodeOptions") -> int:
    from queuectl.node.daemon import Daemon, detach, pidfile
    from queuectl.node.node import run

    def work(daemon: Daemon) -> int:
        log = options.log or _default_log(options.place)
        daemon.log_to(log)
        with pidfile(options.pidfile):
            return run(replace(options, log=log, to_terminal=False, ready=daemon.ready))

    pid = detach(work)
    write(f"Started a node in the background (PID: {pid}).")
    say(f"Its log is {os.path.abspath(options.log or _default_log(options.place))}")
    return EXIT_DONE


def _default_log(place: "Place") -> str:
    with Queue(place=place) as queue:
        folder = os.path.dirname(queue.store.spool_root())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, "node.log")


@worker.command(
    "stop",
    examples="""
    queuectl worker stop                      # all nodes; waits for their running jobs
    queuectl worker stop --timeout 1m
    queuectl worker stop --node 7k2m --force  # end its jobs and give them back
    """,
)
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="ID",
    help="Only this node (the start of its id will do); repeatable.  [default: all]",
)
@click.option(
    "--timeout",
    "-t",
    type=DURATION,
    metavar="D",
    help="Wait no longer than this, then exit with 1; the nodes go on stopping.",
)
@click.option("--force", "-f", is_flag=True, help="End running jobs and give them back unharmed.")
def stop(nodes: tuple[str, ...], timeout: int | None, force: bool) -> int:
    """Stop nodes, on this host or any other, and wait until they are gone.

    Their running jobs are waited for, however long they take. With --force they are ended
    instead, and run again later; that uses up no retry.
    """
    try:
        queue = open_queue()
    except StoreMissingError:
        say(NONE_RUNNING)
        return EXIT_DONE
    with queue:
        known = {node.id: node for node in queue.store.nodes()}
        asked = queue.stop_nodes(nodes, force=force)
        waiting = _Waiting(queue, [known[id] for id in asked if id in known])
        if not waiting.open:
            say(NONE_RUNNING)
            return EXIT_DONE
        for node in waiting.open:
            say(f"Asked {_name(node)} to stop.")
        try:
            queue.wait_until(waiting.remaining, timeout=None if timeout is None else timeout / 1000)
        except TimeoutError:
            waiting.clear()
            complain(
                f"Still there after {format_duration(timeout or 0)}: {waiting.summary()}; "
                "running jobs are finished first, or use --force to end them and give them back."
            )
            return EXIT_FAILED
        finally:
            waiting.clear()
    _see_exit([known[id] for id in asked if id in known])
    return EXIT_DONE


def _see_exit(nodes: Sequence["Node"]) -> None:
    """Give processes on this host that have signed off the moment they need to be gone.

    Then the pidfile is free for the next start, and the log is complete.
    """
    from time import monotonic, sleep

    deadline = monotonic() + EXIT_PATIENCE
    for node in nodes:
        while (
            node.boot == host_identity()
            and is_running(node.pid, node.pid_start)
            and monotonic() < deadline
        ):
            sleep(0.005)


def _name(node: "Node") -> str:
    return f"node {node.id} (PID: {node.pid}, host: {node.host})"


class _Waiting:
    """Nodes that were asked to stop, and what they still do."""

    def __init__(self, queue: Queue, nodes: Sequence["Node"]) -> None:
        self.queue = queue
        self.open = list(nodes)
        self.jobs: dict[str, list[str]] = {}
        self._said = ""

    def remaining(self) -> int:
        """Count the nodes that aren't gone yet; says who went and what is waited for."""
        living = {node.id for node in self.queue.store.nodes() if self.queue.is_alive(node)}
        for node in [node for node in self.open if node.id not in living]:
            self.clear()
            self.open.remove(node)
            write(safe(f"Stopped {_name(node)}."))
        self.jobs = {
            node.id: [job.id for job in self.queue.store.held(node.id)] for node in self.open
        }
        if any(self.jobs.values()):
            self._say(f"Waiting for {self.summary()}.")
        return len(self.open)

    def summary(self) -> str:
        """Say which nodes are left and which jobs they run."""
        return "; ".join(_busy(node.id, self.jobs.get(node.id, [])) for node in self.open)

    def _say(self, text: str) -> None:
        if text == self._said:
            return
        self._said = text
        if not is_terminal(sys.stderr):
            say(text)
            return
        from queuectl.cli.render import cut

        sys.stderr.write("\r\x1b[K" + cut(safe(text), terminal_width() - 1))
        sys.stderr.flush()

    def clear(self) -> None:
        """Wipe the line that is refreshed on a terminal."""
        if self._said and is_terminal(sys.stderr):
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._said = ""


def _busy(node: str, jobs: Sequence[str], most: int = 10) -> str:
    if not jobs:
        return f"node {node}"
    names = ", ".join(jobs[:most]) + (", ..." if len(jobs) > most else "")
    return f"node {node} with {plural(len(jobs), 'job')} ({names})"


@worker.command(
    "list",
    examples="""
    queuectl worker list
    queuectl worker list --json
    """,
)
@json_option
@quiet_option
def list_nodes(as_json: bool, quiet: bool) -> None:
    """List nodes: where they run, how many workers they have, how many are busy."""
    with open_queue() as queue:
        nodes = [node | {"state": _state(node)} for node in queue.nodes()]
    if as_json:
        write_json(nodes)
    elif quiet:
        for node in nodes:
            write(node["id"])
    elif nodes:
        _write_nodes(nodes)
    else:
        say(NONE_RUNNING)


def _state(node: dict[str, Any]) -> str:
    if not node["alive"]:
        return "dead"
    return "alive" if node["stopping"] is None else "stopping"


def _write_nodes(nodes: Sequence[dict[str, Any]]) -> None:
    columns = [
        Column("NODE"),
        Column("STATE", styles=NODE_COLOURS),
        Column("HOST"),
        Column("PID", right=True),
        Column("WORKERS", right=True),
        Column("RUNNING", right=True),
        Column("SINCE"),
        Column("QUEUES", cut=True),
    ]
    rows = (
        [
            node["id"],
            node["state"],
            node["host"],
            str(node["pid"]),
            str(node["workers"]),
            str(node["running"]),
            moment(parse_time(node["started_at"], now=0)),
            ", ".join(node["queues"]) or "all",
        ]
        for node in nodes
    )
    write_table(columns, rows)
