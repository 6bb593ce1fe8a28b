"""`worker restart`: nodes on this host start again in place, by what is installed now."""

from typing import Any

import click

from queuectl.cli.command import Command
from queuectl.cli.notes import NONE_RUNNING, node_name
from queuectl.cli.options import json_option, open_queue
from queuectl.cli.render import complain, say, write, write_json
from queuectl.errors import EXIT_DONE, EXIT_FAILED

nodes_option = click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="ID",
    help="Only this node (the start of its id will do); repeatable.  [default: all]",
)


@click.command(
    "restart",
    cls=Command,
    examples="""
    queuectl worker restart                   # after an upgrade; running jobs go on
    queuectl worker restart --node 7k2m
    queuectl worker restart --now             # end running jobs and give them back first
    """,
)
@nodes_option
@click.option("--now", is_flag=True, help="End running jobs first, and give them back unharmed.")
@json_option
def restart(nodes: tuple[str, ...], now: bool, as_json: bool) -> int:
    """Restart nodes on this host in place, by the queuectl that is installed now.

    Running jobs go on, the pid stays, and free workers take new jobs within a second. What the
    node makes of it is in its log: if what is installed can't be started, it goes on as it is. It
    is done by a signal, so nodes on other hosts have to be restarted there.
    """
    with open_queue() as queue:
        told = queue.restart_nodes(nodes, now=now)
    if as_json:
        write_json(told)
    elif not told:
        say(NONE_RUNNING)
    for node in () if as_json else told:
        _report(node)
    return EXIT_DONE if all(node["asked"] for node in told) else EXIT_FAILED


def _report(node: dict[str, Any]) -> None:
    name = node_name(node["id"], node["pid"], node["host"])
    if node["asked"]:
        write(f"Asked node {name} to restart.")
    else:
        complain(f"Can't restart node {name}: {node['reason']}.")
