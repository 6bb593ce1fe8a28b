"""The `config` commands: which settings are in force, where they come from, and changing them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import Group
from queuectl.cli.options import here, json_option, open_queue
from queuectl.cli.render import (
    LEAST_CUT,
    Column,
    is_terminal,
    room,
    say,
    width,
    write,
    write_json,
    write_table,
)
from queuectl.errors import StoreMissingError
from queuectl.queue import Queue
from queuectl.settings import NAMES, Settings, aliases, canonical, describe

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

TABLE = "the config table"
PIDS = "worker_pids"
"""No setting, but asked for like one: the pids of the living nodes."""


class SettingName(click.ParamType):  # type: ignore[type-arg]
    """The name of a setting, or one of its aliases; `-` and `_` are the same."""

    name = "name"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Complete the name, with its sentence where the shell can show it."""
        from click.shell_completion import CompletionItem

        start = incomplete.replace("-", "_")
        return [CompletionItem(n, help=describe(n)) for n in NAMES if n.startswith(start)]


name_argument = click.argument("name", type=SettingName(), metavar="NAME")


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
    rows = [_describe(name, settings, sources) for name in NAMES]
    if as_json:
        write_json(rows)
        return
    shown = [[row["name"], row["text"], _source_shown(row["source"]), row["help"]] for row in rows]
    write_table(_COLUMNS, _wrapped(shown) if is_terminal() else shown)


_COLUMNS = (Column("NAME"), Column("VALUE"), Column("SOURCE"), Column("MEANING", cut=True))


def _source_shown(source: str) -> str:
    return "config set" if source == TABLE else source


def _wrapped(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Give what doesn't fit in the last column rows of its own; what has no room is cut."""
    from textwrap import wrap

    left = room(_COLUMNS, [max(width(row[i]) for row in rows) for i in range(len(_COLUMNS))])
    result = []
    for *cells, meaning in rows:
        first, *more = wrap(meaning, left) if left >= LEAST_CUT else [meaning]
        result += [[*cells, first], *(["", "", "", line] for line in more)]
    return result


def _describe(name: str, settings: Settings, sources: dict[str, str]) -> dict[str, Any]:
    """Describe a setting. `value` is a number where `text`, which is what one types, is one."""
    key = "max_retries" if name == "max_attempts" else name
    text = settings.text(name)
    return {
        "name": name,
        "value": _value(text),
        "text": text,
        "source": sources.get(key, "default"),
        "default": Settings().text(name),
        "aliases": list(aliases(key)) if key == name else [],
        "help": describe(key) if key == name else "Runs a job may take: max_retries + 1.",
    }


def _value(text: str) -> str | int | float:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


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
    """Return the settings and where they come from; without a queue there are no shared ones."""
    try:
        with open_queue() as queue:
            return queue.explain_settings()
    except StoreMissingError:
        return here().settings({})


def _one(name: str) -> dict[str, Any]:
    settings, sources = _in_force()
    return _describe(canonical(name), settings, sources)


def _is_pids(name: str) -> bool:
    return name.strip().lower().replace("-", "_") == PIDS


def _pids() -> dict[str, Any]:
    try:
        with open_queue() as queue:
            pids = [node["pid"] for node in queue.nodes() if node["alive"]]
    except StoreMissingError:
        pids = []
    return {
        "name": PIDS,
        "value": pids,
        "text": ", ".join(map(str, pids)),
        "source": "the living nodes",
        "default": "",
        "aliases": [],
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
    """,
)
@name_argument
@click.argument("value", metavar="VALUE")
def set_setting(name: str, value: str) -> None:
    """Set a setting for all nodes and users of this queue.

    Running nodes take it up at once. What is copied into jobs when they are enqueued
    (max_retries, job_timeout, the backoff) holds for new jobs.
    """
    if _is_pids(name):
        raise click.UsageError(f"{PIDS} can be read, not set: it is who works right now")
    with open_queue(create=True) as queue:
        key, text = queue.set_setting(name, value)
        write(f"Config updated: {key} = {text}")
        _warn_outranked(queue, key)


@config.command(
    "unset",
    examples="""
    queuectl config unset max_retries
    """,
)
@name_argument
def unset(name: str) -> None:
    """Forget what config set has stored, so that the default holds again."""
    with open_queue() as queue:
        key = queue.unset_setting(name)
        write(f"Config updated: {key} unset, its default is {Settings().text(key)}")
        _warn_outranked(queue, key)


def _warn_outranked(queue: Queue, key: str) -> None:
    settings, sources = queue.explain_settings()
    source = sources.get(key, TABLE)
    if source != TABLE:
        say(f"Note: here {key} is {settings.text(key)} all the same, because {source} says so.")
