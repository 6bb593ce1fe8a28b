"""`enqueue --graph`: a file of jobs that name each other, stored in one transaction."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any

from queuectl.cli.feed import Feed, open_feed, read_array
from queuectl.cli.notes import again
from queuectl.cli.options import open_queue
from queuectl.cli.outlet import outlet
from queuectl.cli.program import name_parents
from queuectl.cli.render import plural, safe, say, write, write_json
from queuectl.composing import planned
from queuectl.errors import EXIT_DONE, BadJobError, StoreMissingError, UsageError, how_to_install
from queuectl.facts import Batch
from queuectl.graphs import Entry, Plan, check_known, plan
from queuectl.merging import merge_requests
from queuectl.request import Values, read_values

if TYPE_CHECKING:
    from queuectl.queue import Queue

MOST_TOLD = 20
"""Jobs that are told one by one."""
YAML = (".yaml", ".yml")


def read_graph(path: str) -> list[Entry]:
    """Read the jobs of a file: JSON lines, one JSON array, or YAML by the name of the file."""
    if path.endswith(YAML):
        return _read_yaml(path)
    with open_feed(path, plain=False, hold=True) as feed:
        lines = list(feed.lines)
        text = b"".join(lines)
        if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            return _read_array(feed, text)
        found = []
        for number, line in enumerate(lines, 1):
            fields = feed.parse(number, line)
            if fields is not None:
                found.append(Entry(place=feed.place(number), fields=fields))
        return found


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


# -- YAML -------------------------------------------------------------------------------


def _read_yaml(path: str) -> list[Entry]:
    """Read a list of jobs, or a mapping of names to jobs."""
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise UsageError(
            f"To read {path} takes PyYAML; install it {how_to_install('yaml')}, or write JSON."
        ) from None
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.") from None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return []
        value = loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        why = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadJobError(f"{path}{where}: invalid YAML: {why}.") from None
    _check_keys(path, node)
    return [*_yaml_entries(path, node, value)]


def _yaml_entries(path: str, node: Any, value: Any) -> Iterator[Entry]:
    if isinstance(value, dict):
        for (key, _), (name, job) in zip(node.value, value.items(), strict=True):
            place = f"{path}, line {key.start_mark.line + 1}"
            fields = _yaml_job(place, job)
            if fields.get("name", name) != name:
                raise BadJobError(f"{place}: it has two names, {name!r} and {fields['name']!r}.")
            yield Entry(place=place, fields={"name": name, **fields})
    elif isinstance(value, list):
        for item, job in zip(node.value, value, strict=True):
            place = f"{path}, line {item.start_mark.line + 1}"
            yield Entry(place=place, fields=_yaml_job(place, job))
    else:
        raise BadJobError(f"{path}: it must be a list of jobs, or names with a job each.")


def _yaml_job(place: str, job: Any) -> dict[str, Any]:
    if isinstance(job, str):
        return {"command": job}
    if not isinstance(job, dict):
        raise BadJobError(f"{place}: a job must be a command, or fields such as command: make.")
    return {str(name): value for name, value in job.items()}


def _check_keys(path: str, node: Any) -> None:
    """Raise that a name comes twice, of which YAML would take the last."""
    tables = [node, *(node.value if node.id == "sequence" else [])]
    tables += [job for _, job in node.value] if node.id == "mapping" else []
    for table in tables:
        seen: set[str] = set()
        for key, _ in table.value if table.id == "mapping" else ():
            if key.id == "scalar" and key.value in seen:
                line = key.start_mark.line + 1
                raise BadJobError(f"{path}, line {line}: the name {key.value!r} comes twice.")
            seen.add(key.value if key.id == "scalar" else "")


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
    ids = {one["id"]: id for one, id in zip(found.requests, batch.ids, strict=False)}
    names = {name: ids.get(id, id) for name, id in found.names.items()}
    outlet.done = lambda: f"{plural(len(batch.ids), 'job')} stored"
    if as_json:
        told = {"enqueued": len(batch.ids), "ids": list(batch.ids), "names": names, "errors": []}
        there = {"existing": list(batch.existing), "dropped": list(batch.dropped), "group": group}
        write_json(told | {name: found for name, found in there.items() if found})
    elif quiet:
        for id in batch.ids:
            write(safe(id))
    else:
        where = "" if group is None else f" in group {safe(group)}"
        write(f"Enqueued {plural(len(batch.ids), 'job')}{where}.")
        for name, id in names.items() if len(batch.ids) <= MOST_TOLD else ():
            write(safe(f"{name}: {id}"))
        if batch.ids:
            say(f"See it all with: {again(f'graph {batch.ids[0]}')}")


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
    for line in tree(_drawn(found)):
        wanted = f" [{line.wanted}]" if line.wanted else ""
        rest = line.where or line.node.titled()
        write(safe(f"{line.branch}{line.node.id}{wanted}  {rest}").rstrip())
    if not quiet:
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
