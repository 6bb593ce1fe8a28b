"""The `config` commands: which settings are in force, where they come from, and changing them."""

from typing import Any

import click

from queuectl.cli.command import Group
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import node_name
from queuectl.cli.options import json_option, open_queue
from queuectl.cli.render import Column, plural, say, write, write_json, write_table
from queuectl.queue import Queue
from queuectl.settings import NAMES, SPECS, Settings, Taken, canonical
from queuectl.views import TABLE, setting_dict

PIDS = "worker_pids"
"""No setting, but asked for like one: the pids of the living nodes."""


name_argument = click.argument("name", metavar="NAME")


@click.group(
    cls=Group,
    examples="""
    queuectl config list
    queuectl config set max_retries 5
    queuectl config get backoff-base
    QUEUECTL_MAX_RETRIES=0 queuectl enqueue "make"
    """,
)
def config() -> None:
    """Show and change settings.

    A flag outranks the environment (QUEUECTL_MAX_RETRIES=5), which outranks queuectl.toml (the
    nearest, upwards), which outranks what config set has stored in the queue for all its nodes
    and users, which outranks the default.
    """


@config.command(
    "list",
    examples="""
    queuectl config list
    queuectl config list --json
    """,
)
@json_option
def list_settings(as_json: bool) -> None:
    """List all settings: value, who says so, meaning."""
    settings, sources = _in_force()
    rows = [setting_dict(name, settings, sources) for name in NAMES]
    if as_json:
        write_json(rows)
        return
    write_table(_COLUMNS, ([row["name"], row["text"], row["source"], row["help"]] for row in rows))


_COLUMNS = (
    Column("NAME"),
    Column("VALUE", least=11),
    Column("SOURCE", least=10),
    Column("MEANING", least=16, wrap=True, drop=1),
)


@config.command(
    "get",
    examples="""
    queuectl config get max_retries
    queuectl config get max_retries -q        # the bare value
    queuectl config get worker_pids           # of the nodes that live
    """,
)
@name_argument
@json_option
@click.option("--quiet", "-q", is_flag=True, help="Print the bare value.")
def get(name: str, as_json: bool, quiet: bool) -> None:
    """Print the value of a setting that is in force here."""
    found = _pids() if _is_pids(name) else _one(name)
    if as_json:
        write_json(found)
    elif quiet:
        write(found["text"])
    else:
        write(f"{found['name']} = {found['text']}".rstrip())


def _in_force() -> tuple[Settings, dict[str, str]]:
    """Return the settings and where they come from."""
    with open_queue() as queue:
        return queue.explain_settings()


def _one(name: str) -> dict[str, Any]:
    settings, sources = _in_force()
    return setting_dict(canonical(name), settings, sources)


def _is_pids(name: str) -> bool:
    return name.strip().lower().replace("-", "_") == PIDS


def _pids() -> dict[str, Any]:
    with open_queue() as queue:
        pids = [node["pid"] for node in queue.nodes() if node["alive"]]
    return {
        "name": PIDS,
        "value": pids,
        "text": ", ".join(map(str, pids)),
        "source": "the living nodes",
        "default": "",
        "aliases": [],
        "takes_effect": Taken.AT_ONCE.value,
        "help": "The processes of the nodes that live; see queuectl worker list.",
    }


@config.command(
    "set",
    # Lets `set jitter -1` through to the sentence that says what jitter takes.
    context_settings={"ignore_unknown_options": True},
    examples="""
    queuectl config set max_retries 3
    queuectl config set backoff_base 2
    queuectl config set job-timeout 10m
    queuectl config set retention 7d
    queuectl config set max_retries 5 --json
    """,
)
@name_argument
@click.argument("value", metavar="VALUE")
@json_option
def set_setting(name: str, value: str, as_json: bool) -> None:
    """Set a setting for all nodes and users of this queue.

    Running nodes take it up at once: also the number of workers, but for nodes that were started
    with --count. What is copied into jobs when they are enqueued (max_retries, job_timeout, the
    backoff) holds for new jobs. What takes a change up is said after it.
    """
    if _is_pids(name):
        raise click.UsageError(f"{PIDS} can be read, not set: it is who works right now")
    with open_queue(create=True) as queue, truthful(queue):
        before = _workers(queue)
        key, text = queue.set_setting(name, value)
        _tell(queue, key, text, f"{key} = {text}", before, as_json=as_json)


@config.command(
    "unset",
    examples="""
    queuectl config unset max_retries
    queuectl config unset max_retries --json
    """,
)
@name_argument
@json_option
def unset(name: str, as_json: bool) -> None:
    """Forget what config set has stored, so that the default holds again."""
    with open_queue() as queue, truthful(queue):
        before = _workers(queue)
        key = queue.unset_setting(name)
        done = f"{key} unset, its default is {Settings().text(key)}"
        _tell(queue, key, None, done, before, as_json=as_json)


def _workers(queue: Queue) -> dict[str, int]:
    """Return how many workers each node has."""
    return {node.id: node.workers for node in queue.registered_nodes()}


def _tell(
    queue: Queue, key: str, stored: str | None, done: str, before: dict[str, int], *, as_json: bool
) -> None:
    """Say what was done, what takes the change up, and what doesn't."""
    if as_json:
        # With what is in force here: something else may outrank what is stored.
        write_json(setting_dict(key, *queue.explain_settings()) | {"stored": stored})
        return
    write(f"Config updated: {done}")
    if key == "workers":
        _say_who_follows(queue, before)
    elif SPECS[key].taken in _FOLLOWS:
        say(_FOLLOWS[SPECS[key].taken])
    elif any(node["alive"] for node in queue.nodes()):
        say("Running nodes take it up at once.")
    _warn_outranked(queue, key)


_FOLLOWS = {
    Taken.JOBS: "It holds for jobs that are enqueued from now on; all others keep what they have.",
    Taken.RUNS: "It holds for runs that start from now on.",
}


def _say_who_follows(queue: Queue, before: dict[str, int]) -> None:
    """Say which running nodes have the new number of workers, and which keep their own."""
    following, others = queue.followers()
    for node in following:
        # One that had that number before may have it from elsewhere, and not follow at all.
        since = "already" if before.get(node.id) == node.workers else "now"
        name = node_name(node.id, node.pid, node.host)
        say(f"Node {name} has {plural(node.workers, 'worker')} {since}.")
    for node in others:
        name = node_name(node.id, node.pid, node.host)
        say(
            f"Node {name} keeps its {plural(node.workers, 'worker')}: it has its number from"
            " --count, its environment or its queuectl.toml."
        )


def _warn_outranked(queue: Queue, key: str) -> None:
    settings, sources = queue.explain_settings()
    source = sources.get(key, TABLE)
    if source != TABLE:
        say(f"Note: here {key} is {settings.text(key)} all the same, because {source} says so.")
