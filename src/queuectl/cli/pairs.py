"""NAME=VALUE, as options take it: fields of a job that are changed, and filters."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from queuectl.cli.options import MOMENT, STATES, Wanted
from queuectl.errors import did_you_mean
from queuectl.fields import REQUESTED

_LISTS = ("labels", "keys", "required")
_KINDS = {name: field.kind for field in REQUESTED for name in (field.name, *field.also)}
FILTERS = ("state", "queue", "tag", "type", "key", "due", "text", "since", "until")
"""What `--where` takes."""


def fields_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the fields that pairs give; tags and keys may be given again and again."""
    given: dict[str, Any] = {}
    for pair in pairs:
        name, value = _split(pair, "timeout=1h")
        variable = name.partition(".")[2] if name.startswith("env.") else ""
        kind = _KINDS.get(name)
        if variable:
            given.setdefault("env", {})[variable] = value
        elif kind == "variables":
            raise click.UsageError("Give variables one by one, such as env.LANG=C")
        elif kind in _LISTS:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise click.UsageError(f"{name} is given twice")
        else:
            given[name] = _arguments(value) if kind == "arguments" else value
    return given


def _arguments(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        raise click.UsageError(
            'argv is a JSON array: the program, then its arguments, as in \'["ls", "-l"]\''
        ) from None


def wanted_of(pairs: Sequence[str]) -> Wanted:
    """Return which jobs pairs mean, as the options of other commands do."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, value = _split(pair, "queue=mail")
        name = "text" if name == "search" else name
        if name not in FILTERS:
            hint = did_you_mean(name, FILTERS, f"use one of {', '.join(FILTERS)}.")
            raise click.UsageError(f"Jobs can't be chosen by {name!r}; {hint}")
        found.setdefault(name, []).append(value)
    states = [
        state for text in found.get("state", ()) for state in STATES.convert(text, None, None)
    ]
    since, until = (_once(found, name) for name in ("since", "until"))
    return Wanted(
        states=tuple(dict.fromkeys(states)),
        queues=tuple(found.get("queue", ())),
        tags=tuple(found.get("tag", ())),
        types=tuple(found.get("type", ())),
        keys=tuple(found.get("key", ())),
        due=_once(found, "due"),
        text=_once(found, "text") or "",
        since=None if since is None else MOMENT.convert(since, None, None),
        until=None if until is None else MOMENT.convert(until, None, None),
    )


def _once(found: Mapping[str, Sequence[str]], name: str) -> str | None:
    given = found.get(name, [])
    if len(given) > 1:
        raise click.UsageError(f"{name} is given twice")
    return given[0] if given else None


def _split(pair: str, example: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{pair!r} isn't NAME=VALUE, such as {example}")
    name = name.strip()
    return (name if name.startswith("env.") else name.lower().replace("-", "_")), value
