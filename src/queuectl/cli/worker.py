"""The `worker` commands: starting, stopping and listing nodes and their workers."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import ARGUMENTS, HANDED_OVER, Group
from queuectl.cli.configure import WRITTEN, configuring, file_option, write_options
from queuectl.cli.finish import still_going
from queuectl.cli.handling import handling_options
from queuectl.cli.having import having_options
from queuectl.cli.interrupts import held, truthful
from queuectl.cli.metrics import metrics_option, read_address
from queuectl.cli.notes import NONE_RUNNING, node_name, note_unused
from queuectl.cli.options import (
    DURATION,
    here,
    json_option,
    open_queue,
    quiet_option,
)
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
from queuectl.cli.restart import nodes_option, restart
from queuectl.cli.serving import serving_options
from queuectl.cli.successor import ASKED, answer, start_again
from queuectl.cli.tuning import tuning_options
from queuectl.errors import EXIT_DONE, EXIT_FAILED, UsageError
from queuectl.host import host_identity, is_running
from queuectl.place import near
from queuectl.queue import Queue
from queuectl.when import format_duration, local, parse_time

if TYPE_CHECKING:
    from queuectl.admission import Serving
    from queuectl.facts import Node
    from queuectl.node.config import NodeOptions, Tuning
    from queuectl.node.daemon import Daemon
    from queuectl.node.handover import Handover
    from queuectl.node.programs import Programs
    from queuectl.place import Place

MOST_WORKERS = 10_000
EXIT_PATIENCE = 5.0
"""Seconds a node may take from signing off to being gone."""
NODE_COLOURS = {"alive": "green", "stopping": "yellow", "gone": "red"}


@click.group(
    cls=Group,
    examples="""
    queuectl worker start --count 4
    queuectl worker start --daemon
    queuectl worker list
    queuectl worker restart
    queuectl worker stop
    """,
)
def worker() -> None:
    """Start, stop, restart and list workers.

    Each worker start is a node: one process that runs as many jobs at once as it has workers.
    Any number of nodes may work on one queue.
    """


@worker.command(
    "start",
    examples="""
    queuectl worker start                     # one worker, until Ctrl+C
    queuectl worker start --count 4 --queue mail --queue default
    queuectl worker start --queue mail:3 --queue reports:1   # three to one
    queuectl worker start --queue urgent --queue bulk --in-order
    queuectl worker start --exclude video     # all other queues
    queuectl worker start -c 2 --drain        # run what there is, then exit
    queuectl worker start --daemon node.pid --log node.log
    queuectl worker start --exec ./handle -- --fast      # data jobs: ./handle --fast ID
    queuectl worker start --exec mail=./send --exec photo=./resize
    queuectl worker start --app shop:queue -c 4          # Python tasks of shop.py
    queuectl worker start --serve ./handler              # a program that stays
    queuectl worker start -c 8 --resources cpu=8,mem=32G,gpu=4 --label ssd
    queuectl worker start -c 16 --resources auto         # what there is
    queuectl worker start --metrics 9464      # for Prometheus, at http://127.0.0.1:9464/metrics
    queuectl worker start -f node.toml        # options that worker configure has written
    """,
)
@click.option(
    "--count",
    "-c",
    type=click.IntRange(1, MOST_WORKERS),
    metavar="N",
    help="How many jobs to run at once, whatever the setting workers says.  [default: what it "
    "says, which is 1]",
)
@serving_options
@having_options
@handling_options
@tuning_options
@click.option(
    "--daemon",
    is_flag=False,
    flag_value="",
    metavar="[PIDFILE]",
    help="Go on in the background; keep the pid in PIDFILE if one is given. The log is "
    "DATABASE.d/logs/NODE.log, unless --log says otherwise.",
)
@click.option(
    "--reload",
    is_flag=True,
    help="Start again whenever a file of Python below this directory changes: for development.",
)
@click.option("--drain", is_flag=True, help="Exit when nothing is left to do.")
@click.option(
    "--backoff-base",
    type=float,
    metavar="B",
    help="Wait B, B**2, B**3 ... seconds before retries, whatever jobs and settings say.",
)
@metrics_option
@click.option(
    "--log",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the log to FILE too, which is rotated.  [default: stderr only; with --daemon "
    "DATABASE.d/logs/NODE.log]",
)
@click.option("--log-json", is_flag=True, help="Write log lines as JSON.")
@click.option(
    "--json", "as_json", is_flag=True, help="With --daemon: print its pid, id and log as JSON."
)
@click.pass_context
def start(
    ctx: click.Context,
    count: int | None,
    serving: "Serving",
    programs: "Programs",
    reload: bool,
    tuning: "Tuning",
    daemon: str | None,
    drain: bool,
    backoff_base: float | None,
    metrics: str | None,
    log: str | None,
    log_json: bool,
    as_json: bool,
) -> int:
    """Start a node, which runs jobs until it is stopped.

    Ctrl+C (or SIGTERM) lets running jobs finish, and no new ones start. A second one ends the
    running jobs and gives them back unharmed; a third exits at once. SIGQUIT does at once what
    the second one does. SIGUSR1 restarts the node while its jobs go on, as worker restart does.

    Among the queues that it serves, priority decides, then who came first, unless shares or
    --in-order are given: then priority decides within each queue. What a queue can't use goes to
    the others.

    Every node runs commands. Data jobs, which queuectl push adds, are run by nodes that have a
    program for their type, and Python tasks by those that have their --app; the others leave them
    alone. Programs of --app, --serve and --run stay, one for each worker, and run one job after
    the other.
    """
    if as_json and daemon is None:
        raise click.UsageError("--json is for --daemon; --log-json writes the log as JSON")
    served_at = None if metrics is None else read_address(metrics)
    if WRITTEN in ctx.meta:
        return write_options(ctx)

    from queuectl.guard import tree
    from queuectl.node.signals import outlive_orders

    handover: Handover | None = ctx.meta.get(HANDED_OVER)
    handed = None
    if handover is not None:
        # As it was called before, by its script: the process became Python itself.
        tree.name_process("queuectl")
        handed = handover.handed
    if daemon is None and handed is None:
        outlive_orders()

    from queuectl.node.config import NodeOptions
    from queuectl.node.start import run
    from queuectl.settings import read_value

    if backoff_base is not None:
        backoff_base = read_value("backoff_base", backoff_base)[1]
    if served_at is not None:
        from queuectl.metrics import check_installed

        check_installed()
    if programs.shared_by > 1:
        count = (count or 1) * programs.shared_by
    options = NodeOptions(
        place=near(here()),
        count=count,
        queues=serving,
        programs=programs,
        tuning=tuning,
        drain=drain,
        backoff_base=backoff_base,
        reload=reload,
        metrics=served_at,
        log=log,
        log_json=log_json,
        pidfile=daemon or None,
        again=start_again(ctx.meta[ARGUMENTS], daemon=daemon is not None),
        handed=handed,
    )
    if tuning.traces:
        _check_traces()
    if ctx.meta.get(ASKED):
        return answer(options)
    if handover is None:
        # Closed again before a daemon leaves: no connection may be carried across a fork.
        with open_queue(create=True) as queue:
            note_unused(queue, serving.named)
    if daemon is None:
        return run(options)
    return _start_daemon(options, is_one=handover is not None and handover.daemon, as_json=as_json)


start.params.append(file_option())
worker.add_command(configuring(start))


def _check_traces() -> None:
    """See that there is what spans are made with, and something that exports them."""
    try:
        from queuectl.node.traces import check
    except ImportError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise UsageError(
            "--traces needs OpenTelemetry: pip install opentelemetry-sdk"
            " opentelemetry-exporter-otlp"
        ) from None
    check()


def _start_daemon(options: "NodeOptions", *, is_one: bool, as_json: bool) -> int:
    """Go on in the background; `is_one` says that this process is there already."""
    from queuectl.node.daemon import detach, go_on, pidfile
    from queuectl.node.membership import new_id
    from queuectl.node.signals import outlive_orders
    from queuectl.node.start import run

    # Chosen here, so that its log has its name from the first line on.
    id = new_id()

    def work(daemon: "Daemon") -> int:
        if options.handed is None:
            outlive_orders()
        with pidfile(options.pidfile):
            return run(_with_log(replace(options, id=id, to_terminal=False), daemon))

    if is_one:
        return go_on(work)
    with held():
        pid = detach(work)
        log = os.path.abspath(options.log or _own_log(options.place, id))
        if as_json:
            write_json({"pid": pid, "node": id, "log": log})
        else:
            write(f"Started a node in the background (PID: {pid}).")
            say(f"Its log is {log}")
    return EXIT_DONE


def _with_log(options: "NodeOptions", daemon: "Daemon") -> "NodeOptions":
    """Return what a node in the background needs: a log, also for when it is started again."""
    log, again = options.log, options.again
    if log is None:
        log = _own_log(options.place, options.id or "")
        again = again and again.with_log(log)
    daemon.log_to(log)
    return replace(options, log=log, again=again, ready=daemon.ready)


def _own_log(place: "Place", node: str) -> str:
    from queuectl.node.logfiles import log_of, make_folders

    with Queue(place=place) as queue:
        make_folders(queue)
        return log_of(queue, node)


@worker.command(
    "stop",
    examples="""
    queuectl worker stop                      # all nodes; waits for their running jobs
    queuectl worker stop --timeout 1m
    queuectl worker stop --node 7k2m --force  # end its jobs and give them back
    queuectl worker stop --timeout 1m --json  # who stopped, and who didn't yet
    """,
)
@nodes_option
@click.option(
    "--timeout",
    "-t",
    type=DURATION,
    metavar="D",
    help="Wait no longer than this, then exit with 1; the nodes go on stopping.",
)
@click.option("--force", "-f", is_flag=True, help="End running jobs and give them back unharmed.")
@json_option
def stop(nodes: tuple[str, ...], timeout: int | None, force: bool, as_json: bool) -> int:
    """Stop nodes, on this host or any other, and wait until they are gone.

    Their running jobs are waited for, however long they take, also those that are paused until
    somebody resumes them. With --force they are ended instead, and run again later; that uses up no
    retry.
    """
    with open_queue() as queue, truthful(queue):
        known = {node.id: node for node in queue.registered_nodes()}
        asked = queue.stop_nodes(nodes, force=force)
        waiting = _Waiting(queue, [known[id] for id in asked if id in known], talk=not as_json)
        if not waiting.open:
            return _none_stopped(as_json)
        waiting.greet()
        try:
            code = _wait_stopped(queue, waiting, timeout)
            _see_exit(waiting.stopped)
        finally:  # also after Ctrl+C
            if as_json:
                write_json(waiting.as_dict())
    return code


def _none_stopped(as_json: bool) -> int:
    if as_json:
        write_json({"stopped": [], "stopping": []})
    else:
        say(NONE_RUNNING)
    return EXIT_DONE


def _wait_stopped(queue: Queue, waiting: "_Waiting", timeout: int | None) -> int:
    """Wait until the nodes are gone; returns the exit code, which is 1 when time is over."""
    seconds = None if timeout is None else timeout / 1000
    try:
        with still_going("The nodes go on stopping; queuectl worker list shows them."):
            queue.wait_until(waiting.remaining, timeout=seconds)
    except TimeoutError:
        waiting.clear()
        complain(
            f"Still there after {format_duration(timeout or 0)}: {waiting.summary()}; "
            "running jobs are finished first, or use --force to end them and give them back."
        )
        return EXIT_FAILED
    finally:
        waiting.clear()
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


def _identity(node: "Node") -> dict[str, Any]:
    return {"id": node.id, "host": node.host, "pid": node.pid}


class _Waiting:
    """Nodes that were asked to stop, and what they still do."""

    def __init__(self, queue: Queue, nodes: Sequence["Node"], *, talk: bool) -> None:
        self.queue = queue
        self.open = list(nodes)
        self.stopped: list[Node] = []
        self.talk = talk
        self.jobs: dict[str, list[str]] = {}
        self._said = ""

    def greet(self) -> None:
        """Say who was asked."""
        for node in self.open if self.talk else ():
            say(f"Asked node {node_name(node.id, node.pid, node.host)} to stop.")

    def remaining(self) -> int:
        """Count the nodes that aren't gone yet; says who went and what is waited for."""
        living = {node.id for node in self.queue.living_nodes()}
        for node in [node for node in self.open if node.id not in living]:
            self.clear()
            self.open.remove(node)
            self.stopped.append(node)
            if self.talk:
                write(safe(f"Stopped node {node_name(node.id, node.pid, node.host)}."))
        self.jobs = {node.id: [job.id for job in self.queue.held(node.id)] for node in self.open}
        if any(self.jobs.values()):
            self._say(f"Waiting for {self.summary()}.{self._paused()}")
        return len(self.open)

    def _paused(self) -> str:
        """Say which of their jobs are paused, so that their nodes wait for somebody."""
        pauses = self.queue.pauses()
        paused = [
            job.id for node in self.open for job in self.queue.held(node.id) if job.seq in pauses
        ]
        return f" Paused, to be resumed first: {', '.join(paused)}." if paused else ""

    def summary(self) -> str:
        """Say which nodes are left and which jobs they run."""
        return "; ".join(_busy(node.id, self.jobs.get(node.id, [])) for node in self.open)

    def as_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Describe who is gone, and who isn't yet and what that one runs."""
        return {
            "stopped": [_identity(node) for node in self.stopped],
            "stopping": [
                _identity(node) | {"jobs": self.jobs.get(node.id, [])} for node in self.open
            ],
        }

    def _say(self, text: str) -> None:
        if text == self._said or not self.talk:
            return
        self._said = text
        if not is_terminal(sys.stderr):
            say(text)
            return
        from queuectl.cli.widths import cut

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


worker.add_command(restart)


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
        nodes = [
            node | {"state": _state(node), "log": _log_here(queue, node["id"])}
            for node in queue.nodes()
        ]
    if as_json:
        write_json(nodes)
    elif quiet:
        for node in nodes:
            write(node["id"])
    elif nodes:
        _write_nodes(nodes)
        _say_logs([node["log"] for node in nodes if node["log"]])
    else:
        say(NONE_RUNNING)


def _log_here(queue: Queue, node: str) -> str | None:
    """Return the log that a node in the background keeps on this host, if there is one."""
    from queuectl.address import is_remote
    from queuectl.node.logfiles import log_of

    if is_remote(queue.url):
        return None
    log = log_of(queue, node)
    return log if os.path.exists(log) else None


def _say_logs(logs: Sequence[str]) -> None:
    if len(logs) == 1:
        say(f"The log is {logs[0]}")
    elif logs:
        say(f"Logs are in {os.path.dirname(logs[0])}")


def _state(node: dict[str, Any]) -> str:
    if not node["alive"]:
        return "gone"
    return "alive" if node["stopping"] is None else "stopping"


def _handles(node: dict[str, Any]) -> str:
    """Name the types of data that a node has programs for."""
    from queuectl.job import ANY_TYPE, told_handler

    names = [told_handler(one) for one in node["handlers"] if one != ANY_TYPE]
    return "all types" if ANY_TYPE in node["handlers"] else ", ".join(names)


def _write_nodes(nodes: Sequence[dict[str, Any]]) -> None:
    from queuectl.report import serving_of, used_text

    handles = any(node["handlers"] for node in nodes)
    has = any(node.get("resources") for node in nodes)
    labelled = any(node.get("labels") for node in nodes)
    columns = [
        Column("NODE", least=8),
        Column("STATE", styles=NODE_COLOURS),
        Column("HOST", least=10),
        Column("PID", right=True),
        Column("WORKERS", right=True),
        Column("RUNNING", right=True),
        Column("SINCE", drop=1),
        Column("QUEUES", least=10, drop=2),
        *([Column("HANDLES", least=10, drop=2)] if handles else []),
        *([Column("USED", least=12)] if has else []),
        *([Column("LABELS", least=6, drop=2)] if labelled else []),
    ]
    rows = (
        [
            node["id"],
            node["state"],
            node["host"],
            str(node["pid"]),
            str(node["workers"]),
            str(node["running"]),
            local(parse_time(node["started_at"], now=0)),
            str(serving_of(node)),
            *([_handles(node)] if handles else []),
            *([used_text(node)] if has else []),
            *([", ".join(node.get("labels", ()))] if labelled else []),
        ]
        for node in nodes
    )
    write_table(columns, rows)
