"""A job as JSON has it: what `--json`, tables and hooks are told of it. Only ever extend it."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from queuectl.facts import Pause
from queuectl.fields import FIELDS
from queuectl.job import SHELL, Job
from queuectl.limits import at_once_of, given_keys
from queuectl.parameters import legible
from queuectl.when import iso


def moment(ms: int | None) -> str | None:
    """Write a stored time for `--json`; None stays None."""
    return None if ms is None else iso(ms)


def seconds(ms: int | None) -> float | int | None:
    """Write a stored duration in seconds, whole where it is whole."""
    if ms is None:
        return None
    return ms // 1000 if ms % 1000 == 0 else ms / 1000


def _amounts(needs: str) -> dict[str, int | float]:
    from queuectl.resources import as_object

    return as_object(needs)


_FIRST = (
    "id queue state command argv task data priority attempts failures crashes max_retries timeout"
    " run_at created_at updated_at started_at finished_at duration_ms exit_code error reason node"
    " worker cwd tags after unique_key expires_at"
).split()
"""The fields that `--json` began with; those that came later follow them."""
_FORMS: dict[str, Callable[[Any], Any]] = {
    "arguments": list,
    "bounds": lambda bounds: {
        name: seconds(value) if name == "cpu_time" else value for name, value in bounds.items()
    },
    "labels": list,
    "keys": list,
    "parents": list,
    "needs": _amounts,
    "required": list,
    "devices": lambda devices: {name: list(found) for name, found in devices.items()},
    "groups": list,
    "parameters": lambda own: {
        name: it if isinstance(it, int) else legible(it) for name, it in own.items()
    },
    "duration": seconds,
    "limit": lambda ms: seconds(ms) or None,
    "state": str,
    "strategy": str,
    "time": iso,
    "variables": sorted,
    "wait": seconds,
}
"""What makes a value of JSON of one of these kinds; others are that already."""
KINDS = {field.name: field.kind for field in FIELDS if field.is_shown}
_SHOWN = tuple(dict.fromkeys((*_FIRST, *KINDS)))
_FORMED = [(name, _FORMS[kind]) for name, kind in KINDS.items() if kind in _FORMS]
_values = attrgetter(*_SHOWN)


def job_dict(job: Job, pause: Pause | None = None) -> dict[str, Any]:
    """Describe a job with the names and forms of the public interface, and the pause of its run."""
    told = dict(zip(_SHOWN, _values(job), strict=True))
    for name, form in _FORMED:
        if (value := told[name]) is not None:
            told[name] = form(value)
    told["task"] = job.task if job.type is None else None
    told["data"], base64 = _data(job)
    told["shell"] = None if job.command is None else job.shell or SHELL
    told["schedule"] = job.schedule
    told["scheduled_for"] = moment(job.planned)
    told["paused_at"] = None if pause is None else moment(pause.at)
    told["paused_by"] = None if pause is None else pause.who
    told["held"] = job.is_held
    told["hook"] = None if job.hook is None else job.hook.partition(" ")[0]
    told["hook_of"] = job.hook_of
    told["type"], told["data_base64"] = job.type, base64
    told["trace_id"] = job.trace_id
    told["keys"], told["at_once"] = list(given_keys(job.keys)), at_once_of(job.keys)
    return told


def _data(job: Job) -> tuple[str | None, str | None]:
    """Return the data of a job as text or, if it isn't text, as base64.

    What was kept of a job put aside may hold secrets.
    """
    if job.task is None or job.data is None:
        return None, None
    try:
        return job.data.decode(), None
    except UnicodeDecodeError:
        from base64 import b64encode

        return None, b64encode(job.data).decode()
