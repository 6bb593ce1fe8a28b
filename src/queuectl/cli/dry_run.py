"""`enqueue --dry-run`: what would be stored, as far as requests say it themselves."""

from collections.abc import Callable, Iterable
from typing import Any

from queuectl.cli.render import plural, safe, say, write, write_json
from queuectl.errors import EXIT_DONE
from queuectl.fields import REQUESTED
from queuectl.job import DEFAULT_QUEUE
from queuectl.job_json import seconds
from queuectl.parameters import legible
from queuectl.request import Values, current_folder
from queuectl.when import format_duration, iso, local

_KINDS = {field.name: field.kind for field in REQUESTED}
_SHOWN: dict[str, Callable[[Any], Any]] = {
    "time": iso,
    "duration": seconds,
    "limit": seconds,
    "wait": seconds,
    "variables": sorted,
    "strategy": str,
    "bytes": lambda data: f"{len(data):,} bytes",
    "data": lambda data: f"{len(data):,} bytes",
    "parameters": lambda own: {
        name: it if isinstance(it, int) else legible(it) for name, it in own.items()
    },
}
"""How values of these kinds are shown; those of variables are secrets."""


def show_values(requests: Iterable[Values], *, as_json: bool, quiet: bool) -> int:
    """Show requests that were read, each in a line, and how many they are.

    What they leave open is filled in from the queue and the settings when they are stored.
    """
    if as_json:
        jobs = [_told(values) for values in requests]
        write_json({"dry_run": True, "would_enqueue": len(jobs), "jobs": jobs})
        return EXIT_DONE
    count = 0
    for values in requests:
        count += 1
        write(safe(_line(values)))
    if not quiet:
        say(f"Would enqueue {plural(count, 'job')}; nothing was stored.")
    return EXIT_DONE


def _told(values: Values) -> dict[str, Any]:
    told = {"queue": DEFAULT_QUEUE, **values}
    if "cwd" not in told and "type" not in told:
        told["cwd"] = current_folder()
    return {name: _shown(name, value) for name, value in told.items() if value is not None}


def _shown(name: str, value: Any) -> Any:
    form = _SHOWN.get(_KINDS[name])
    if form is not None:
        return form(value)
    return list(value) if isinstance(value, tuple) else value


def _line(values: Values) -> str:
    """Write what would run, with what isn't as usual."""
    line = _title(values)
    if (queue := values.get("queue", DEFAULT_QUEUE)) != DEFAULT_QUEUE:
        line += f" [queue: {queue}]"
    if values.get("priority"):
        line += f" [priority: {values['priority']}]"
    if values.get("timeout"):
        line += f" [timeout: {format_duration(values['timeout'])}]"
    own = {name: it for name, it in values.get("parameters", {}).items() if name != "line"}
    if own:
        line += f" [{', '.join(f'{name}={legible(it)}' for name, it in own.items())}]"
    if after := values.get("after"):
        line += f" [after: {', '.join(after)}]"
    if "run_at" in values:
        line += f" (scheduled for {local(values['run_at'])})"
    elif values.get("delay"):
        line += f" (in {format_duration(values['delay'])})"
    return line


def _title(values: Values) -> str:
    if "command" in values:
        return str(values["command"])
    if "argv" in values:
        from shlex import join

        return join(values["argv"])
    return f"{values['type']} (data)".lstrip()
