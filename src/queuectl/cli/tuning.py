"""The options of `worker start` by which one node does otherwise than the settings say."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from queuectl.cli.options import DURATION, with_options
from queuectl.node.config import Tuning

_FOR_DATA = "where neither they nor their queue say it."
_OPTIONS = (
    click.option(
        "--retry-wait",
        type=DURATION,
        metavar="D",
        help=f"Wait so long before each retry of data jobs, {_FOR_DATA}",
    ),
    click.option(
        "--kill-timeout",
        type=DURATION,
        metavar="D",
        help=f"End runs of data jobs that take longer, {_FOR_DATA}",
    ),
    click.option(
        "--kill-interval",
        type=DURATION,
        metavar="D",
        help="Ask a run that is to end again after each such time, whatever the setting says.",
    ),
    click.option(
        "--kill-grace",
        type=DURATION,
        metavar="D",
        help="Kill what is left of a run so long after it was asked to end, whatever the setting"
        " says.",
    ),
    click.option(
        "--expire",
        type=DURATION,
        metavar="D",
        help="Data jobs without an expiry that are older than this aren't run, but dead.",
    ),
    click.option(
        "--poll-interval",
        type=DURATION,
        metavar="D",
        help="Look for news so often, where the database can't tell of them.  [default: 500ms]",
    ),
    click.option(
        "--env",
        "-e",
        "variables",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a variable for all that this node runs; a job's own win. Repeat it.",
    ),
    click.option(
        "--traces",
        is_flag=True,
        help="Make spans of waits and runs, and export them as the variables of OpenTelemetry have"
        " it (OTEL_...).",
    ),
    click.option(
        "--verbose", "-v", is_flag=True, help="Log settings, programs and each commit as well."
    ),
)
_SHORTEST_POLL, _LONGEST_POLL = 10, 60_000


def tuning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; they arrive as one `tuning`."""

    @wraps(command)
    def gather(*args: Any, **given: Any) -> Any:
        names = ("retry_wait", "kill_timeout", "kill_interval", "kill_grace", "expire")
        times = {name: given.pop(name) for name in names}
        tuning = Tuning(
            settings=_settings(times),
            of_data=_of_data(times),
            env=_env(given.pop("variables")),
            poll_interval=_poll_interval(given.pop("poll_interval")),
            verbose=given.pop("verbose"),
            traces=given.pop("traces"),
        )
        return command(*args, tuning=tuning, **given)

    return with_options(gather, _OPTIONS)


def _settings(times: dict[str, int | None]) -> dict[str, Any]:
    from queuectl.settings import SPECS

    found = {}
    for name in ("kill_interval", "kill_grace"):
        if (value := times[name]) is not None:
            try:
                found[name] = SPECS[name].kind.read(value / 1000)
            except ValueError as error:
                option = name.replace("_", "-")
                raise click.UsageError(f"--{option} takes {error}") from None
    return found


def _of_data(times: dict[str, int | None]) -> dict[str, Any]:
    from queuectl.job import Strategy

    found: dict[str, Any] = {}
    if times["retry_wait"] is not None:
        found |= {"backoff": Strategy.FIXED, "retry_delay": times["retry_wait"]}
    if times["kill_timeout"] is not None:
        found["job_timeout"] = times["kill_timeout"]
    if times["expire"] is not None:
        found["expire"] = times["expire"]
    return found


def _poll_interval(value: int | None) -> int | None:
    if value is not None and not _SHORTEST_POLL <= value <= _LONGEST_POLL:
        raise click.UsageError("--poll-interval takes a duration from 10ms to 1m")
    return value


def _env(pairs: Sequence[str]) -> dict[str, str]:
    from queuectl.request import read_some

    env: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--env takes NAME=VALUE, not {pair[:60]!r}")
        env[name] = value
    read: dict[str, str] = read_some({"env": env}).get("env", {}) if env else {}
    return read
