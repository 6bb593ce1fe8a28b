"""`graph`: the jobs around a job, as a tree, or for Graphviz, Mermaid and programs."""

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from queuectl.cli.command import Command
from queuectl.cli.notes import again
from queuectl.cli.options import JOB_ID, json_option, open_queue
from queuectl.cli.render import (
    STATE_COLOURS,
    is_terminal,
    paint,
    safe,
    say,
    shorten,
    terminal_width,
    write_json,
    write_lines,
)

if TYPE_CHECKING:
    from queuectl.lineage import Graph

FORMATS = ("tree", "dot", "mermaid", "json")
LIMIT = 200
"""Jobs that are shown, unless another number is asked for."""
MOST = 250_000


@click.command(
    cls=Command,
    examples="""
    queuectl graph 7f3k                        # all that must end before it, and waits for it
    queuectl graph 7f3k --format dot > graph.dot    # dot -Tsvg draws it
    queuectl graph 7f3k --format mermaid
    queuectl graph 7f3k --json
    queuectl graph --group nightly             # all jobs of a group
    """,
)
@click.argument("id", type=JOB_ID, required=False, metavar="[ID]")
@click.option("--group", metavar="NAME", help="The jobs of this group instead.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="tree",
    help="How it is written.  [default: tree]",
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(0),
    default=LIMIT,
    metavar="N",
    help=f"So many jobs, the nearest; 0 for {MOST:,}.  [default: {LIMIT}]",
)
@json_option
def graph(id: str | None, group: str | None, form: str, limit: int, as_json: bool) -> None:
    """Show what a job waits for, and what waits for it, as a graph.

    In the tree, jobs stand below those that they wait for. One that waits for several stands below
    the first of them, and is only named again below the others. What a job wants of the one above
    it is said if it isn't that it completes. A job for which others wait in vain is marked as the
    root cause, and these stand below it. Below the 20th level, jobs have their level before them
    in place of more indentation. With --group, it is the jobs of a group.
    """
    if (id is None) == (group is None):
        raise click.UsageError("Give either the id of a job, or --group NAME")
    if as_json and form not in ("tree", "json"):
        raise click.UsageError(f"Give either --json or --format {form}, not both")
    with open_queue() as queue:
        if group is not None:
            found = queue.graph_of_group(group, limit=limit or MOST)
        else:
            found = queue.graph_of(id or "", limit=limit or MOST)
    if as_json or form == "json":
        from queuectl.report import graph_dict

        write_json(graph_dict(found))
    else:
        write_lines(_lines(found, form))
    if not found.is_whole:
        which = found.id if group is None else f"--group {quote(group)}"
        more = again(f"graph {which} --limit 0")
        say(f"There are more than {len(found.nodes):,} jobs; see them with: {more}")


def _lines(found: "Graph", form: str) -> Iterable[str]:
    from queuectl import drawing

    if form == "dot":
        return map(safe, drawing.dot(found))
    if form == "mermaid":
        return map(safe, drawing.mermaid(found))
    return _tree(found)


def _tree(found: "Graph") -> Iterator[str]:
    from queuectl.drawing import ROOT_CAUSE, tree
    from queuectl.lineage import blockage

    known = blockage(found)
    most = terminal_width() if is_terminal() else None
    for line in tree(found, known):
        branch, node, wanted = line.branch, line.node, line.wanted
        state = "open" if node.is_group and node.state is None else str(node.state or "gone")
        name = safe(node.id)
        mark = f" ({ROOT_CAUSE})" if node.id in known.roots else ""
        head = f"{branch}{name}{f' [{wanted}]' if wanted else ''} {state}{mark}"
        rest = line.where or safe(node.titled())
        if most is not None:
            rest = shorten(rest, max(most - len(head) - 2, 0))
        shown = paint(name, "bold") if node.id == found.id else name
        painted = f"{branch}{shown}{f' [{wanted}]' if wanted else ''} "
        told = f"{paint(state, STATE_COLOURS.get(state, 'dim'))}{paint(mark, 'bold')}"
        yield f"{painted}{told}  {rest}".rstrip()
