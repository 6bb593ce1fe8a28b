"""Every setting: its name, type, default, aliases and meaning; and where its value comes from.

Flag > environment (`QUEUECTL_…`) > `queuectl.toml` (nearest, upwards) > `config` table > default.
`-` and `_` are the same in names. `max_attempts` counts runs: another way to say `max_retries`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from queuectl.errors import BadSettingError, BadTimeError, nearest, shown
from queuectl.job import SHELL, Strategy
from queuectl.sizes import format_size, parse_size
from queuectl.values import dataclass, field, fields
from queuectl.when import format_duration, parse_duration

FILE_NAME = "queuectl.toml"
LARGEST_INT = 2**31 - 1
LONGEST_PROGRAM = 1_000


@dataclass(frozen=True, slots=True)
class Kind:
    """What a setting may be."""

    read: Callable[[object], Any]
    """Makes a value of what somebody gave; a `ValueError` says what it takes instead."""
    write: Callable[[Any], str]
    """Writes a value the way a person would type it."""
    choices: tuple[str, ...] = ()
    """The texts that it may be, where they are few."""


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _integer(low: int, high: int = LARGEST_INT) -> Kind:
    def read(value: object) -> int:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError("a whole number")
        try:
            number = int(value) if isinstance(value, (int, float)) else int(str(value).strip())
        except (ValueError, OverflowError):
            raise ValueError("a whole number") from None
        if not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return Kind(read, _plain)


def _number(low: float, high: float) -> Kind:
    wanted = f"a number from {low:g} to {high:g}"

    def read(value: object) -> float:
        if isinstance(value, bool):
            raise ValueError(wanted)
        try:
            number = float(value) if isinstance(value, (int, float)) else float(str(value))
        except (ValueError, OverflowError):
            raise ValueError(wanted) from None
        if not low <= number <= high:
            raise ValueError(wanted)
        return number

    return Kind(read, _plain)


def _duration(low: int = 0, high: int | None = None) -> Kind:
    def read(value: object) -> int:
        if not isinstance(value, (str, int, float)):
            raise ValueError("a duration such as 30s, 5m or 1h30m")
        try:
            ms = parse_duration(value)
        except BadTimeError:
            raise ValueError("a duration such as 30s, 5m or 1h30m") from None
        if ms < low:
            raise ValueError(f"a duration of at least {format_duration(low)}")
        if high is not None and ms > high:
            raise ValueError(f"a duration of at most {format_duration(high)}")
        return ms

    return Kind(read, format_duration)


def _size(low: int, high: int) -> Kind:
    def read(value: object) -> int:
        size = parse_size(value)
        if not low <= size <= high:
            raise ValueError(f"a size from {format_size(low)} to {format_size(high)}")
        return size

    return Kind(read, format_size)


def _read_strategy(value: object) -> Strategy:
    try:
        return Strategy(str(value).strip().lower())
    except ValueError:
        raise ValueError("one of exponential, linear, fixed") from None


_STRATEGY = Kind(_read_strategy, str, choices=tuple(Strategy))
_SWITCHES = {"true": True, "yes": True, "on": True, "1": True}
_SWITCHES |= {"false": False, "no": False, "off": False, "0": False}


def _read_switch(value: object) -> bool:
    found = _SWITCHES.get(str(value).strip().lower())
    if found is None:
        raise ValueError("true or false")
    return found


_SWITCH = Kind(_read_switch, lambda on: "true" if on else "false", choices=("true", "false"))


def _read_program(value: object) -> str:
    text = value.strip() if isinstance(value, str) else ""
    # Options are a common mistake, and would be looked for as a part of the name.
    has_options = any(word.startswith("-") for word in text.split())
    if not text or not text.isprintable() or has_options or len(text) > LONGEST_PROGRAM:
        raise ValueError("the name or path of one program, without options")
    return text


class Taken(StrEnum):
    """What takes a change of a setting up."""

    AT_ONCE = "at once"
    RUNS = "new runs"
    JOBS = "new jobs"


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of a setting, besides its default."""

    kind: Kind
    help: str
    """The sentence that explains it."""
    aliases: tuple[str, ...] = ()
    """The other names it answers to."""
    taken: Taken = Taken.AT_ONCE


def _setting(default: Any, kind: Kind, help: str, **more: Any) -> Any:
    return field(default=default, metadata={"spec": Spec(kind, help, **more)})


DAY = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. Sizes are bytes, durations milliseconds."""

    max_retries: int = _setting(
        3,
        _integer(0),
        "Retries after a failed run; 2 means up to 3 runs. Copied into the job.",
        taken=Taken.JOBS,
    )
    backoff: Strategy = _setting(
        Strategy.EXPONENTIAL,
        _STRATEGY,
        "How waits grow: exponential (base ** k seconds), linear (k * retry_delay) or fixed.",
        aliases=("backoff_strategy",),
        taken=Taken.JOBS,
    )
    backoff_base: float = _setting(
        2.0,
        _number(1, 1e9),
        "Base of the exponential backoff: 2 waits 2, 4, 8 ... seconds.",
        taken=Taken.JOBS,
    )
    retry_delay: int = _setting(
        2_000,
        _duration(),
        "The step of the linear and fixed backoff.",
        aliases=("job_retry_delay",),
        taken=Taken.JOBS,
    )
    max_backoff: int = _setting(
        300_000,
        _duration(),
        "No wait for a retry is longer than this.",
        aliases=("max_backoff_seconds",),
        taken=Taken.JOBS,
    )
    jitter: float = _setting(
        0.0, _number(0, 1), "Spread each wait by up to this share, so retries don't come at once."
    )
    job_timeout: int = _setting(
        0,
        _duration(),
        "Time a run may take before it is killed; 0 is no limit.",
        aliases=("timeout",),
        taken=Taken.JOBS,
    )
    expire: int = _setting(
        0, _duration(), "A job not started within this time is dead; 0 is never.", taken=Taken.JOBS
    )
    shell: str = _setting(
        SHELL,
        Kind(_read_program, str),
        "The program that reads commands. Copied into the job.",
        taken=Taken.JOBS,
    )
    env_all: bool = _setting(
        False,
        _SWITCH,
        "Jobs get the whole environment of whoever enqueues them, not that of the worker.",
        taken=Taken.JOBS,
    )
    max_crashes: int = _setting(
        3, _integer(1), "A job whose runs were lost with their worker this often is dead."
    )
    kill_grace: int = _setting(
        5_000,
        _duration(0, DAY),
        "Time between SIGTERM and SIGKILL when a run is ended.",
        taken=Taken.RUNS,
    )
    kill_interval: int = _setting(
        60_000,
        _duration(100, DAY),
        "A run that is being ended is asked again after each such time, until kill_grace is over.",
        taken=Taken.RUNS,
    )
    output_limit: int = _setting(
        2**20,
        _size(0, 2**29),
        "Bytes kept of each output stream of a run, half head, half tail.",
        taken=Taken.RUNS,
    )
    workers: int = _setting(
        1,
        _integer(1, 10_000),
        "Workers of each node that was started without --count.",
        aliases=("max_concurrent_jobs", "concurrency"),
    )
    lease: int = _setting(
        15_000,
        _duration(1_000, DAY),
        "A node silent for this long is taken for dead.",
        aliases=("lock_lease_seconds",),
    )
    heartbeat: int = _setting(
        5_000,
        _duration(100, DAY),
        "How often a node renews its lease; at most half of it.",
        aliases=("worker_heartbeat_interval",),
    )
    retention: int = _setting(
        0, _duration(), "Completed and cancelled jobs are pruned at this age; 0 keeps them."
    )
    dlq_retention: int = _setting(0, _duration(), "Dead jobs are pruned at this age; 0 keeps them.")
    events_retention: int = _setting(
        0,
        _duration(),
        "Events (who did what, deaths, rescues, prunings) are pruned at this age; 0 keeps them.",
    )
    emitted_retention: int = _setting(
        0,
        _duration(),
        "What was emitted is pruned at this age, unless a job waits for it; 0 keeps it.",
    )
    log_size: int = _setting(
        10 * 2**20, _size(2**10, 2**40), "A node's log file is rotated at this size."
    )
    log_files: int = _setting(
        5, _integer(0, 1000), "Rotated log files kept beside the current one."
    )
    log_retention: int = _setting(
        30 * DAY,
        _duration(),
        "Logs of background nodes that are gone are deleted at this age; 0 keeps them.",
    )

    def check(self) -> "Settings":
        """Return itself, or raise where two settings contradict each other."""
        if self.heartbeat * 2 > self.lease:
            raise BadSettingError(
                f"heartbeat ({format_duration(self.heartbeat)}) must be at most half of lease "
                f"({format_duration(self.lease)}); set lease higher or heartbeat lower."
            )
        return self

    def text(self, name: str) -> str:
        """Write one value the way a person would type it."""
        name = canonical(name)
        if name == "max_attempts":
            return str(self.max_retries + 1)
        return SPECS[name].kind.write(getattr(self, name))


SPECS: dict[str, Spec] = {f.name: f.metadata["spec"] for f in fields(Settings)}
"""What is known of each setting."""
NAMES = tuple(SPECS)
_ALIASES = {alias: name for name, spec in SPECS.items() for alias in spec.aliases}
_ALIASES |= {"default_max_tries": "max_attempts"}


def canonical(name: str, also: Sequence[str] = ()) -> str:
    """Return the one true name of a setting, or raise naming the nearest valid one.

    `also` are other names that would be valid in its place.
    """
    key = _key(name)
    if key is not None:
        return key
    near = nearest(_spelt(name), [*NAMES, *_ALIASES, "max_attempts", *also])
    valid = ", ".join(sorted([*NAMES, *also]))
    hint = f"did you mean {near}?" if near else f"there are {valid}."
    raise BadSettingError(f"There is no setting {name!r}; {hint}")


def _key(name: str) -> str | None:
    """Return the one true name of a setting; None when there is none of that name."""
    if not isinstance(name, str):
        raise BadSettingError(f"The name of a setting must be text, not {shown(name)}.")
    key = _ALIASES.get(_spelt(name), _spelt(name))
    return key if key in SPECS or key == "max_attempts" else None


def _spelt(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def read_value(name: str, value: object, also: Sequence[str] = ()) -> tuple[str, Any]:
    """Return (canonical name, typed value); `max_attempts` comes back as `max_retries`."""
    key = canonical(name, also)
    if key == "max_attempts":
        return "max_retries", _read(name, value, _integer(1)) - 1
    return key, _read(name, value, SPECS[key].kind)


def _read(name: str, value: object, kind: Kind) -> Any:
    try:
        return kind.read(value)
    except ValueError as error:
        raise BadSettingError(f"{name} takes {error}, not {shown(value)}.") from None


def write_value(name: str, value: object) -> tuple[str, str]:
    """Return (canonical name, text) for the config table; checks the value first."""
    key, typed = read_value(name, value)
    return key, Settings(**{key: typed}).text(key)


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings, by the words a person would use for it."""

    source: str
    values: Mapping[str, object]
    also: tuple[str, ...] = ()
    """What else could stand there besides settings."""

    def check(self) -> None:
        """Raise what is wrong with it: a name that no setting has, or a value it can't take."""
        for name, value in self.values.items():
            _within(self, name, value)


def layered(layers: Sequence[Layer]) -> tuple[Settings, dict[str, str]]:
    """Merge layers, the strongest first, into settings and a map from name to source."""
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        found: dict[str, str] = {}
        for name, value in layer.values.items():
            key, typed = _within(layer, name, value)
            if key in found:
                raise BadSettingError(
                    f"{layer.source} sets both {found[key]} and {name}, which are the same "
                    "setting; keep one of them."
                )
            found[key] = name
            if key not in merged:
                merged[key] = typed
                sources[key] = layer.source
    return Settings(**merged).check(), sources


def _within(layer: Layer, name: str, value: object) -> tuple[str, Any]:
    try:
        return read_value(name, value, layer.also)
    except BadSettingError as error:
        raise BadSettingError(f"In {layer.source}: {error}") from None


RESERVED_ENVIRONMENT = frozenset(
    "db db_path toml color debug complete token plain_http"
    " job_id attempt queue worker node run owner schedule scheduled_for result progress"
    " parents group handover hook hook_of hook_attempt hook_exit_code type"
    " index line line_stem line_name line_folder line_name_stem".split()
)
"""`QUEUECTL_…` names that aren't settings: what people set besides, what jobs are told, and what we
tell our own processes."""


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Read `QUEUECTL_MAX_RETRIES` and its like; names of no setting are left out."""
    values = {name: text for name, text in _queuectl_variables(environ) if _key(name) is not None}
    return Layer("the environment", values)


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each `QUEUECTL_…` variable that means nothing to us.

    It may be misspelt, or be another program's: so it is no error.
    """
    return tuple(
        _unknown_variable(name)
        for name, _ in _queuectl_variables(environ)
        if _key(name) is None and name not in RESERVED_ENVIRONMENT
    )


def _unknown_variable(name: str) -> str:
    near = nearest(name, [*NAMES, *_ALIASES, "max_attempts", *sorted(RESERVED_ENVIRONMENT)])
    hint = f"; did you mean QUEUECTL_{near.upper()}?" if near else "."
    return f"QUEUECTL_{name.upper()} means nothing to queuectl, and is ignored{hint}"


def _queuectl_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for variable, text in environ.items():
        # What begins with one more underscore is a shell's, for completion.
        if variable.startswith("QUEUECTL_") and not variable.startswith("QUEUECTL__"):
            yield variable.removeprefix("QUEUECTL_").lower(), text


def find_file(start: str, environ: Mapping[str, str]) -> str | None:
    """Find the nearest `queuectl.toml` from `start` upwards (or the one `QUEUECTL_TOML` names)."""
    if named := environ.get("QUEUECTL_TOML"):
        return named
    folder = os.path.abspath(start)
    while True:
        candidate = os.path.join(folder, FILE_NAME)
        if os.path.isfile(candidate):
            return candidate
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def read_file(path: str) -> dict[str, object]:
    """Read a `queuectl.toml`: flat keys, `db` among them."""
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise BadSettingError(f"{path} can't be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettingError(f"{path} isn't valid TOML: {error}.") from None
    except RecursionError:
        raise BadSettingError(f"{path} isn't valid TOML: it is nested too deeply.") from None
    except ValueError:
        # The one thing left: Python doesn't read numbers of thousands of digits.
        raise BadSettingError(f"{path} has a number of thousands of digits.") from None
    return content
