"""`enqueue --graph`: a file of jobs that name each other, stored in one transaction."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from shlex import quote
from typing import TYPE_CHECKING, Any

from queuectl.cli.bulk import told_existing
from queuectl.cli.feed import Feed, open_feed, read_array
from queuectl.cli.notes import again
from queuectl.cli.options import open_queue
from queuectl.cli.outlet import outlet
from queuectl.cli.program import name_parents
from queuectl.cli.render import plural, safe, say, write, write_json
from queuectl.composing import planned
from queuectl.errors import EXIT_DONE, BadJobError, StoreMissingError
from queuectl.facts import Batch
from queuectl.graphs import Entry, Plan, check_known, plan
from queuectl.merging import merge_requests
from queuectl.request import Values, read_values

if TYPE_CHECKING:
    from queuectl.queue import Queue

MOST_TOLD = 20
"""Jobs that are told one by one."""
MOST_SHOWN = 200
"""Jobs that the tree of a dry run has."""
YAML = (".yaml", ".yml")


def read_graph(path: str) -> list[Entry]:
    """Read the jobs of a file: JSON lines, one JSON array, or YAML by the name of the file."""
    if path.endswith(YAML):
        from queuectl.cli.graph_yaml import read_yaml

        return read_yaml(path)
    with open_feed(path, plain=False, hold=True) as feed:
        lines = list(feed.lines)
        text = b"".join(lines)
        if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            return _read_array(feed, text)
        found = []
        feed.read = partial(_read_line, feed.read)
        for number, line in enumerate(lines, 1):
            fields = feed.parse(number, line)
            if fields is not None:
                found.append(Entry(place=feed.place(number), fields=fields))
        return found


def _read_line(read: Callable[[str], dict[str, Any] | None], line: str) -> dict[str, Any] | None:
    """Read a JSON job; of a line that looks like YAML, the error says what reads that."""
    try:
        return read(line)
    except BadJobError as error:
        if line.lstrip()[:1] in '{["':
            raise
        raise BadJobError(
            f"{str(error).rstrip('.')}; YAML is read from a file whose name ends in .yaml."
        ) from None


def _read_array(feed: Feed, text: bytes) -> list[Entry]:
    try:
        items = read_array(text.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadJobError(f"{feed.name}: it isn't valid UTF-8.") from None
    except BadJobError as error:
        raise BadJobError(f"{feed.name}: {error}") from None
    if items is None:
        raise BadJobError(f"{feed.name}: it must be a JSON array of jobs, or a job on each line.")
    items.name = feed.name
    return [
        Entry(place=items.place(number), fields=items.parse(number, item) or {})
        for number, item in enumerate(items.lines, 1)
    ]


# -- storing ----------------------------------------------------------------------------


def _laid(entries: Sequence[Entry], given: dict[str, Any]) -> list[Entry]:
    """Lay jobs over what options say for all of them."""
    if not given:
        return list(entries)
    return [Entry(place=one.place, fields=merge_requests(given, one.fields)) for one in entries]


def values_of(found: Plan, now: int) -> Iterator[Values]:
    """Read the requests of a graph; errors name the line."""
    for place, request in zip(found.places, found.requests, strict=True):
        try:
            yield read_values(request, now=now)
        except BadJobError as error:
            raise BadJobError(f"{place}: {error.advised}") from None


def put_in_group(entries: Sequence[Entry], given: dict[str, Any]) -> None:
    """Have a graph be a group of a name of its own, unless some of its jobs say otherwise."""
    if given.get("group") is None and entries and not any("group" in one.fields for one in entries):
        from queuectl.groups import new_name

        given["group"] = new_name("graph")


def enqueue(
    queue: "Queue",
    entries: Sequence[Entry],
    given: dict[str, Any],
    last: dict[str, Any] | None = None,
) -> tuple[Batch, Plan]:
    """Store a graph, and a job behind all of it: everything, or nothing."""
    name_parents(queue, given)
    found = planned(queue, _laid(entries, given))
    values = list(values_of(found, queue.now()))
    if last is None or not values:
        return queue.enqueue_read(values), found
    from queuectl.groups import without_following

    values.append(read_values(last, now=queue.now()))
    return without_following(queue.enqueue_read(values)), found


def tell(
    batch: Batch, found: Plan, group: str | None = None, *, quiet: bool, as_json: bool
) -> None:
    """Say what was stored."""
    names = found.named(batch.ids)
    new = len(batch.ids) - len(batch.existing)
    outlet.done = lambda: f"{plural(len(batch.ids), 'job')} stored"
    if as_json:
        told = {"enqueued": new, "ids": list(batch.ids), "names": names, "errors": []}
        there = {"existing": list(batch.existing), "dropped": list(batch.dropped), "group": group}
        write_json(told | {name: found for name, found in there.items() if found})
    elif quiet:
        for id in batch.ids:
            write(safe(id))
    else:
        where = "" if group is None else f" in group {safe(group)}"
        write(f"Enqueued {plural(new, 'job')}{where}{told_existing(batch)}.")
        for name, id in names.items() if len(batch.ids) <= MOST_TOLD else ():
            write(safe(f"{name}: {id}"))
        if batch.ids:
            which = batch.ids[0] if group is None else f"--group {quote(group)}"
            say(f"See it all with: {again(f'graph {which}')}")


def preview(entries: Sequence[Entry], given: dict[str, Any]) -> Plan:
    """Return what would be stored, all of which is checked; jobs have their names as ids."""
    if given.get("after"):
        with open_queue() as queue:
            name_parents(queue, given)
    laid = _laid(entries, given)
    unnamed = (f"(job {number})" for number in count(1))
    missing = [
        str(one.fields.get("name") or next(unnamed)) for one in laid if one.fields.get("id") is None
    ]
    found = plan(laid, lambda _: missing)
    if found.outside:
        known: Collection[str] = ()
        # Where there is no queue yet, there are no jobs.
        with suppress(StoreMissingError), open_queue() as queue:
            known = queue.states([*found.outside])
        check_known(found, known)
    return found


def show(found: Plan, *, quiet: bool, as_json: bool) -> int:
    """Show a graph that would be stored, as a tree."""
    from time import time

    from queuectl.cli.dry_run import show_values
    from queuectl.drawing import tree

    values = list(values_of(found, int(time() * 1000)))
    if as_json:
        return show_values(values, as_json=True, quiet=quiet)
    shown = 0
    for line in tree(_drawn(found)):
        shown += not line.is_again
        if shown > MOST_SHOWN:
            break
        wanted = f" [{line.wanted}]" if line.wanted else ""
        rest = line.where or line.node.titled()
        write(safe(f"{line.branch}{line.node.id}{wanted}  {rest}").rstrip())
    if not quiet:
        if shown > MOST_SHOWN:
            say(f"Only the first {MOST_SHOWN} jobs are shown; --json has all of them.")
        say(f"Would enqueue {plural(len(values), 'job')}; nothing was stored.")
    return EXIT_DONE


def _drawn(found: Plan) -> Any:
    """Return a plan as a graph, with the jobs from elsewhere that it waits for."""
    from queuectl.dependencies import read_parent
    from queuectl.lineage import Graph, Link, Node

    nodes = [Node(id=id, state=None, title="(stored)") for id in found.outside]
    nodes += map(_node, found.requests)
    links = [
        Link(parent=id, child=one["id"], wanted=wanted, came_to=None, is_met=False)
        for one in found.requests
        for id, wanted in map(read_parent, one.get("after", ()))
    ]
    return Graph(id="", nodes=tuple(nodes), links=tuple(links))


def _node(request: dict[str, Any]) -> Any:
    from queuectl.lineage import Node
    from queuectl.titles import own_told

    title, own = _title(request), request.get("parameters")
    told = "" if not own else own_told(title, own, request["id"])
    return Node(id=request["id"], state=None, title=title, own=told)


def _title(request: dict[str, Any]) -> str:
    what = request.get("command") or request.get("cmd") or request.get("argv") or "(data)"
    return re.sub(r"\s+", " ", what if isinstance(what, str) else " ".join(map(str, what)))
