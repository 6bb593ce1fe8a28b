"""Reads what a user asks for into a `NewJob`: field names, aliases, types and limits.

JSON, command-line flags and Python keywords all come through here, so they mean the same and
fail with the same sentence. Nothing is stored, nothing is guessed.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from queuectl.bound_values import NAMES, read_bound, read_bounds
from queuectl.errors import BadJobError, BadSettingError, BadTimeError, did_you_mean, shown
from queuectl.fields import KEPT, REQUESTED, by_column
from queuectl.job import TYPE, NewJob
from queuectl.settings import read_value
from queuectl.values import fields
from queuectl.when import LATEST, milliseconds, parse_duration, parse_time

LONGEST_COMMAND = 2**20
LONGEST_ARGUMENT = 128 * 1024 - 1
LONGEST_ENVIRONMENT = 2**20
"""Bytes of all variables of a job: the kernel takes 2 MiB of them and arguments together."""
LONGEST_STDIN = 2**24
LONGEST_DATA = 2**20
LONGEST_ID = 256
LONGEST_NAME = 128
LONGEST_DIGEST = 128
MOST_TAGS = 64
MOST_KEYS = 4
MOST_PARENTS = 10_000
MOST_GROUPS = 100
LARGEST_PRIORITY = 2**31 - 1
LONGEST_SPAN = 3_160_000_000_000
"""A hundred years in milliseconds, and some days."""


SYSTEM_FIELDS = frozenset(field.name for field in KEPT).union(
    "ready completed_at duration last_error locked_by locked_at locked_until retry_at output stdout"
    " stderr".split()
)
"""What queuectl sets, and what other queues call the like."""
_ALIASES = {name: field.name for field in REQUESTED for name in field.also}
_SAME = [[field.name for field in same] for same in by_column().values() if len(same) > 1]
"""Fields that say one thing in several ways."""
_UNIQUE = frozenset(("unique", "unique_until", "unique_for", "on_duplicate", "max_wait"))
BOUND_NAMES = frozenset(NAMES)
_OTHER_WAYS = frozenset(name for names in _SAME for name in names[1:])

Values = dict[str, Any]
"""What is given of a `NewJob`, read and checked: bulk enqueues make the job itself only once."""


def read_request(given: Mapping[str, Any], *, now: int) -> NewJob:
    """Read the fields of one job; raises `BadJobError` with one sentence that names the field."""
    return NewJob(**read_values(given, now=now))


def read_values(given: Mapping[str, Any], *, now: int) -> Values:
    """Read the fields of one job as `read_request` does, but don't make it yet."""
    if len(given) == 1 and isinstance(command := given.get("command"), str):
        # Most say no more, and where they come by the thousand, the rest takes longer than this.
        return {"command": check_command(command)}
    said = by_name(given)
    if not _OTHER_WAYS.isdisjoint(said):
        for names in _SAME:
            _one_of(said, *names)
    values: Values = {}
    try:
        for name, value in said.items():
            field, read = _READERS[name]
            values[field] = read(name, value, now)
        if not BOUND_NAMES.isdisjoint(values):
            _gather_bounds(values)
    except (BadTimeError, BadSettingError) as error:
        raise BadJobError(f"Bad {name}: {error}", field=name) from None
    except BadJobError as error:
        error.field = name
        raise
    if "retry_delay" in values and "backoff" not in values:
        values["backoff"] = read_value("backoff", "fixed")[1]
    _check_work(values)
    if values.get("unique"):
        _check_kept_key(values["unique"], values.get("after_group") or ())
    return values


def _check_kept_key(key: str, after_group: Sequence[str]) -> None:
    from queuectl.dependencies import is_kept_key

    if is_kept_key(key, after_group):
        raise BadJobError(
            f"The unique key {shown(key)} is kept for what runs when a group is over; choose"
            " another.",
            field="unique",
        )


def read_some(given: Mapping[str, Any], *, now: int = 0) -> Values:
    """Read fields as `read_values` does those of a job, though it may not be said what it runs."""
    if {_plain(name) for name in given} & {"command", "cmd", "argv", "data", "data_base64"}:
        return read_values(given, now=now)
    values = read_values({**given, "command": "true"}, now=now) if given else {}
    values.pop("command", None)
    return values


def _gather_bounds(values: Values) -> None:
    """Put what is said of single bounds into all of them."""
    said = {name: values.pop(name) for name in BOUND_NAMES.intersection(values)}
    values["bounds"] = {**values.get("bounds", {}), **said}


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def check_command(command: str) -> str:
    """Return a command that can be stored and run, or raise."""
    return check_text("command", command, longest=LONGEST_COMMAND)


def check_commands(commands: list[str]) -> list[str]:
    """Do the same for several, at once as long as nothing is odd about any of them."""
    if sum(map(len, commands)) <= LONGEST_COMMAND and all(map(str.strip, commands)):
        together = "".join(commands)
        if together.isascii() and "\0" not in together:
            return commands
    return [check_command(command) for command in commands]


def check_request(new: NewJob) -> Values:
    """Return what is given of a request made in Python, or raise as if it had come as fields.

    Times and durations are milliseconds there. What can't be asked for isn't taken over, but for
    the digest of an HTTP request.
    """
    values: Values = {}
    for f in fields(new):
        value = getattr(new, f.name)
        if value is not None and f.name in _KINDS:
            values[f.name] = _checked(f.name, value)
    if new.body_digest is not None:
        values["body_digest"] = check_text("body_digest", new.body_digest, longest=LONGEST_DIGEST)
    _check_work(values)
    return values


def _checked(name: str, value: object) -> Any:
    most = _MOST_MILLISECONDS.get(_KINDS[name])
    if most is not None:
        return _whole(name, value, 0, most)
    if name == "bounds":
        return read_bounds(value, in_milliseconds=True)
    try:
        return _READERS[name][1](name, value, 0)
    except BadSettingError as error:
        raise BadJobError(f"Bad {name}: {error}") from None


def by_name(given: Mapping[str, Any], *, nulls: bool = False) -> dict[str, Any]:
    """Bring the fields to their one true names; two names for one field contradict each other.

    What is null says nothing, and is left out, unless `nulls` are wanted.
    """
    said: dict[str, Any] = {}
    for name, value in given.items():
        key = name if name in _READERS else _field(name)
        if value is None:
            if nulls:
                said.setdefault(key, None)
            continue
        if said.get(key) is not None:
            raise BadJobError(f"The field {key!r} is given twice, once as {name!r}; keep one.")
        said[key] = value
    return said


def current_folder() -> str:
    """Return where we are, which is where jobs run that don't say it themselves."""
    try:
        return check_text("the current folder", os.getcwd(), longest=4096)
    except FileNotFoundError:
        raise BadJobError(
            "The current folder doesn't exist any more; say where with cwd."
        ) from None


_OF_THE_MOMENT = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "TRACEPARENT", "TRACESTATE"))
"""Variables that say where a shell is just now; a trace is a field of its own."""


def _is_pythons_own(locale: str) -> bool:
    """Tell whether Python has set LC_CTYPE for itself, as it does where there is no locale."""
    if locale not in ("C.UTF-8", "C.utf8", "UTF-8"):
        return False
    try:
        with open("/proc/self/environ", "rb") as began_with:
            return b"\0LC_CTYPE=" not in b"\0" + began_with.read()
    except OSError:
        return False


def current_environment(hidden: Sequence[str] = ()) -> dict[str, str]:
    """Return our environment, which goes along with jobs that ask for all of it.

    Left out are `hidden` variables, those that a shell sets anew from moment to moment, and those
    of queuectl, which may have a password or tell of another job.
    """
    env = {
        name: text
        for name, text in os.environ.items()
        if name not in _OF_THE_MOMENT
        and not (name == "LC_CTYPE" and _is_pythons_own(text))
        and name not in hidden
        and not name.startswith(("QUEUECTL_", "_QUEUECTL_"))
    }
    try:
        for name, text in env.items():
            what = f"the variable {name[:60]!r} of this environment"
            check_text(what, name + text, longest=LONGEST_ARGUMENT - 1)
    except BadJobError as error:
        raise BadJobError(
            f"All of the environment can't be kept: {str(error).rstrip('.')}; unset it, or name"
            " with env what the job needs."
        ) from None
    return env


def with_environment(whole: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return a whole environment with more variables laid over it, if it isn't too long."""
    together = {**whole, **env}
    _check_environment("the whole environment", together)
    return together


def _check_environment(name: str, env: Mapping[str, str]) -> None:
    size = sum(len(key.encode()) + len(text.encode()) + 2 for key, text in env.items())
    if size > LONGEST_ENVIRONMENT:
        raise BadJobError(
            f"{name} has {size:,} bytes in all; at most {LONGEST_ENVIRONMENT:,} can be handed to"
            " a program."
        )


_MEANT = {
    "finally": 'said with "after", as "ID:any"',
    **dict.fromkeys(("depends", "parents", "wait_for"), 'called "after"'),
}
"""What fields of other programs, and options that aren't fields, are here."""


def _field(name: str) -> str:
    key = str(name).strip().replace("-", "_")
    key = _ALIASES.get(key, key)
    if key in _READERS:
        return key
    if key in SYSTEM_FIELDS:
        raise BadJobError(f"The field {shown(name)} is set by queuectl only; leave it out.")
    if (meant := _MEANT.get(key)) is not None:
        raise BadJobError(f"Unknown field {shown(name)}; that is {meant}.")
    hint = did_you_mean(key, _READERS, f"valid fields: {', '.join(sorted(_READERS))}.")
    raise BadJobError(f"Unknown field {shown(name)}; {hint}")


def _one_of(said: Mapping[str, Any], *names: str) -> None:
    found = [name for name in names if name in said]
    if len(found) > 1:
        raise BadJobError(
            f"{' and '.join(found)} say the same thing twice; give one of them.", field=found[-1]
        )


def _check_work(values: Values) -> None:
    if "data" in values or "type" in values:
        _check_data(values)
    elif ("command" in values) == ("argv" in values):
        if "command" not in values:
            raise BadJobError(
                "A job needs a command, or a program (argv), or data.", field="command"
            )
        raise BadJobError("A job has either a command or an argv; give one of them.", field="argv")
    if not _UNIQUE.isdisjoint(values):
        _check_unique(values)
    if "shell" in values and "argv" in values:
        raise BadJobError(
            "A program with its arguments runs without a shell; leave shell out.", field="shell"
        )
    if values.get("needs") or values.get("requires"):
        _check_class(values)
    if "max_fails" in values and "group" not in values:
        raise BadJobError("max_fails is about a group; give that, too.", field="max_fails")
    if "tracestate" in values and "traceparent" not in values:
        raise BadJobError("A tracestate goes with a trace; give its traceparent, too.")


def _check_class(values: Values) -> None:
    """See that what a job needs can be a line of its own."""
    from queuectl.resources import AmountError, class_of

    try:
        class_of(values.get("needs"), values.get("requires") or ())
    except AmountError as error:
        raise BadJobError(f"needs and requires can't be {error}.", field="needs") from None


def _check_data(values: Values) -> None:
    """Check a data job: what is done with its data is up to the workers."""
    if "data" not in values:
        raise BadJobError(
            "A type is that of data; give data, too, even if it is empty.", field="data"
        )
    for name in ("command", "argv"):
        if name in values:
            raise BadJobError(f"A job has either data or a {name}; give one of them.", field="data")
    for name, why in _NOT_OF_DATA.items():
        if values.get(name) is not None:
            raise BadJobError(f"{why}; leave {name} out.", field=name)
    values.setdefault("type", "")


_NOT_OF_DATA = {
    "stdin": "The data of a job is what its program finds on stdin",
    "shell": "Data is for a program that the worker knows, and no shell",
}


def _check_unique(values: Values) -> None:
    if "unique" not in values:
        said = next(name for name in values if name in _UNIQUE)
        raise BadJobError(f"{said} is about a unique key; give that, too, as unique.", field=said)
    if values.get("on_duplicate") == "debounce":
        if "id" in values:
            raise BadJobError(
                "What is debounced keeps the id that it has; leave id out.", field="id"
            )
    elif "max_wait" in values:
        raise BadJobError(
            "max_wait is for on_duplicate debounce; leave one out, or give both.", field="max_wait"
        )


def check_text(name: str, value: object, *, longest: int, blank: bool = False) -> str:
    """Return valid text that can be stored and handed to a program, or raise."""
    if not isinstance(value, str):
        raise BadJobError(f"{name} must be text, not {type(value).__name__}.")
    if "\0" in value:
        raise BadJobError(f"{name} contains a NUL byte, which no program can be given.")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise BadJobError(f"{name} contains bytes that aren't valid UTF-8.") from None
    if size > longest:
        raise BadJobError(f"{name} is {size:,} bytes long; at most {longest:,} are allowed.")
    if not blank and (not value or value.isspace()):
        raise BadJobError(f"{name} is empty.")
    return value


def check_sought(name: str, value: object) -> str:
    """Return a name to look for. It may be any that can be stored, also by hand."""
    return check_text(name, value, longest=LONGEST_COMMAND, blank=True)


def check_name(name: str, value: object, *, longest: int = LONGEST_NAME) -> str:
    """Return a one-line printable name, such as a queue's or a tag's."""
    text = check_text(name, value, longest=longest * 4)
    if len(text) > longest:
        raise BadJobError(f"{name} has {len(text)} characters; at most {longest} are allowed.")
    if not text.isprintable() or text != text.strip():
        raise BadJobError(f"{name} must be printable, without spaces around it: {text[:60]!r}.")
    return text


def _arguments(name: str, value: object, now: int) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise BadJobError(f"{name} must be a list of texts: the program, then its arguments.")
    texts = tuple(
        check_text(f"{name}[{i}]", item, longest=LONGEST_ARGUMENT, blank=i > 0)
        for i, item in enumerate(value)
    )
    if sum(len(text.encode()) + 1 for text in texts) > LONGEST_COMMAND:
        raise BadJobError(f"{name} is longer than {LONGEST_COMMAND:,} bytes in all.")
    return texts


def _whole(name: str, value: object, low: int, high: int) -> int:
    number = _as_int(value)
    if number is None:
        raise BadJobError(f"{name} must be a whole number, not {shown(value)}.")
    if not low <= number <= high:
        raise BadJobError(f"{name} must be from {low} to {high}, not {shown(value)}.")
    return number


def _as_int(value: object) -> int | None:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_duration(name: str, value: object) -> int:
    """Return how many milliseconds a duration is that somebody gave as `name`."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise BadJobError(f"{name} must be a duration such as 30, '30s' or '1h30m'.")
    return parse_duration(value)


def plain(value: object) -> object:
    """Return the seconds of a timedelta, and everything else as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def _time(name: str, value: object, now: int) -> int:
    if isinstance(value, datetime):
        moment = _timestamp(name, value)
    elif isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadJobError(f"{name} must be a time such as '+5m' or '2030-01-31T09:00:00Z'.")
    elif isinstance(value, int):
        seconds = value if 0 <= value < LATEST else 1_900_000_000
        raise BadJobError(
            f"{name} must be text such as '+5m' or '@{seconds}' (seconds since 1970)."
        )
    else:
        moment = parse_time(value, now=now)
    return min(max(moment, 0), LATEST)


def _timestamp(name: str, value: datetime) -> int:
    try:
        return milliseconds(value)
    except BadTimeError:
        raise BadJobError(f"{name} is outside the years 1970 to 9999: {value}.") from None


def _setting(name: str, value: object, now: int) -> Any:
    return read_value(name, plain(value))[1]


def _folder(name: str, value: object, now: int) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    path = check_text(name, value, longest=4096)
    return os.path.normpath(path if os.path.isabs(path) else f"{current_folder()}/{path}")


def _variables(name: str, value: object, now: int) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise BadJobError(f"{name} must map names to texts, such as {{'LANG': 'C'}}.")
    env: dict[str, str] = {}
    for key, text in value.items():
        variable = check_text(f"a name in {name}", key, longest=1024)
        if "=" in variable:
            raise BadJobError(f"A name in {name} can't contain '=': {variable[:60]!r}.")
        if variable.startswith("QUEUECTL_"):
            raise BadJobError(f"{variable[:60]} is set by queuectl only; choose another name.")
        env[variable] = check_text(
            f"{name}[{variable[:60]}]", text, longest=LONGEST_ARGUMENT - 1024, blank=True
        )
    _check_environment(name, env)
    return env


def _flag(name: str, value: object, now: int) -> bool:
    if not isinstance(value, bool):
        raise BadJobError(f"{name} must be true or false, not {shown(value)}.")
    return value


def _bytes(name: str, value: object, now: int) -> bytes:
    if isinstance(value, str):
        try:
            return _check_stdin(name, value.encode())
        except UnicodeEncodeError:
            raise BadJobError(f"{name} contains text that isn't valid UTF-8.") from None
    if not isinstance(value, bytes | bytearray | memoryview):
        raise BadJobError(f"{name} must be text or bytes, not {type(value).__name__}.")
    return _check_stdin(name, bytes(value))


def _base64(name: str, value: object, now: int) -> bytes:
    from base64 import b64decode

    text = check_text(name, value, longest=2 * LONGEST_STDIN, blank=True)
    try:
        return _check_stdin(name, b64decode("".join(text.split()), validate=True))
    except ValueError:
        raise BadJobError(f"{name} isn't valid base64.") from None


def _check_stdin(name: str, data: bytes) -> bytes:
    if len(data) > LONGEST_STDIN:
        raise BadJobError(
            f"{name} has {len(data):,} bytes; at most {LONGEST_STDIN:,} are kept with a job, so let"
            " its command read a file."
        )
    return data


def _type(name: str, value: object, now: int) -> str:
    if value == "":
        return ""
    text = check_name(name, value)
    if text == "*" or "=" in text:
        raise BadJobError(f"A {name} can't be * or contain '=': {shown(text)}.")
    return text


def _data(name: str, value: object, now: int) -> bytes:
    return check_data_size(name, _bytes(name, value, now))


def _data_base64(name: str, value: object, now: int) -> bytes:
    return check_data_size(name, _base64(name, value, now))


def check_data_size(name: str, data: bytes) -> bytes:
    """Return the data of a job; more than is kept with one is an error."""
    if len(data) > LONGEST_DATA:
        raise BadJobError(
            f"{name} has {len(data):,} bytes; at most {LONGEST_DATA:,} are kept with a job, so push"
            " the name of a file."
        )
    return data


def _parameters(name: str, value: object, now: int) -> dict[str, str | int]:
    from queuectl.parameters import check_all

    return check_all(name, value)


def _labels(name: str, value: object, now: int) -> tuple[str, ...]:
    items: Iterable[object]
    if isinstance(value, str):
        items = [value]
    elif isinstance(value, Sequence):
        items = value
    else:
        raise BadJobError(f"{name} must be a list of texts.")
    tags = tuple(dict.fromkeys(map(_tag, items)))
    if len(tags) > MOST_TAGS:
        raise BadJobError(f"A job can have at most {MOST_TAGS} tags, not {len(tags)}.")
    return tags


def _tag(value: object) -> str:
    tag = check_name("a tag", value)
    if "," in tag:
        # Where tags are shown, commas stand between them.
        raise BadJobError(
            f"A tag can't contain a comma: {shown(tag)}.", advice="give --tag twice for two tags."
        )
    return tag


def check_key(value: object) -> str:
    """Return a key that people may give; those with limits of their own are made by queuectl."""
    key = check_name("a key", value)
    if key.startswith("%"):
        raise BadJobError(
            f"A key can't begin with %: {shown(key)}.", advice="to bound an array, use --at-once."
        )
    return key


def _at_once(name: str, value: object, now: int) -> str:
    """Read how many of those with a name may run at once, such as `4 nightly`."""
    from queuectl.limits import MOST

    number, space, rest = str(value).partition(" ")
    if not isinstance(value, str) or not space or not number.isascii() or not number.isdecimal():
        raise BadJobError(f"{name} must be a number and a name, such as '4 nightly'.")
    most = _whole(name, number, 1, MOST)
    return f"{most} {check_name(name, rest, longest=LONGEST_NAME - 12)}"


def _keys(name: str, value: object, now: int) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, Sequence):
        raise BadJobError(f"{name} must be a list of texts.")
    keys = tuple(dict.fromkeys(check_key(item) for item in given))
    if len(keys) > MOST_KEYS:
        raise BadJobError(f"A job can have at most {MOST_KEYS} keys, not {len(keys)}.")
    return keys


def _parents(name: str, value: object, now: int) -> tuple[str, ...]:
    from queuectl.dependencies import Wanted, each_parent, parent_text, read_parent

    parents: dict[str, str] = {}
    for item in each_parent(value):
        named = getattr(item, "id", item)
        if not isinstance(named, str):
            raise BadJobError(f"{name} must be a list of ids of jobs, not {shown(item)}.")
        id, wanted = read_parent(named) if named is item else (named, Wanted.OK)
        check_name("the id of a parent", id, longest=LONGEST_ID)
        if parents.setdefault(id, text := parent_text(id, wanted)) != text:
            raise BadJobError(f"{name} names {shown(id)} twice, in two ways; keep one.")
    if len(parents) > MOST_PARENTS:
        raise BadJobError(
            f"A job can wait for at most {MOST_PARENTS:,} others, not {len(parents):,}.",
            advice="put them into a group, and let it wait for that.",
        )
    return tuple(parents.values())


def _groups(name: str, value: object, now: int) -> tuple[str, ...]:
    from queuectl.dependencies import Wanted, parent_text, read_parent

    given = [value] if isinstance(value, str) else value
    if not isinstance(given, Sequence):
        raise BadJobError(f"{name} must be a list of names of groups.")
    groups: dict[str, str] = {}
    for item in given:
        if not isinstance(item, str):
            raise BadJobError(f"{name} must be a list of names of groups, not {shown(item)}.")
        group, wanted = read_parent(item)
        check_name("the name of a group", group)
        if wanted == Wanted.FAIL:
            raise BadJobError(f"{name} can be ok or any, not fail: {shown(item)}.")
        if groups.setdefault(group, text := parent_text(group, wanted)) != text:
            raise BadJobError(f"{name} names {shown(group)} twice, in two ways; keep one.")
    if len(groups) > MOST_GROUPS:
        raise BadJobError(f"A job can wait for at most {MOST_GROUPS} groups, not {len(groups)}.")
    return tuple(groups.values())


def _if_fails(name: str, value: object, now: int) -> str:
    from queuectl.dependencies import IfParentFails

    return _choice(name, value, IfParentFails)


def _is_none(value: object) -> bool:
    """Tell whether somebody says that there is none: an empty text or list, or `none`."""
    one = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
    return one in ("", "none", [], ())


def _needs(name: str, value: object, now: int) -> str | None:
    from queuectl.resources import AmountError, Needs, read_needs

    if _is_none(value):
        return None
    try:
        return str(Needs(read_needs(value))) or None
    except AmountError as error:
        raise BadJobError(f"{name} can't be {error}.") from None


def _required(name: str, value: object, now: int) -> tuple[str, ...]:
    from queuectl.resources import AmountError, read_labels

    if _is_none(value):
        return ()
    try:
        return read_labels(value)
    except AmountError as error:
        raise BadJobError(f"{name} can't be {error}.") from None


def _until(name: str, value: object, now: int) -> str:
    from queuectl.uniqueness import Until

    return _choice(name, value, Until)


def _collision(name: str, value: object, now: int) -> str:
    from queuectl.uniqueness import OnDuplicate

    return _choice(name, value, OnDuplicate)


def _choice(name: str, value: object, kind: type[StrEnum]) -> str:
    try:
        return kind(str(value))
    except ValueError:
        raise BadJobError(f"{name} must be one of {', '.join(kind)}, not {shown(value)}.") from None


def _hook(name: str, value: object, now: int) -> str:
    """Read a hook, which is a command, `type:NAME`, or a task; an empty one stands for none."""
    if value is False or value == "none":
        return ""
    text = check_text(name, getattr(value, "as_hook", value), longest=LONGEST_COMMAND)
    if text.startswith(TYPE):
        if text == TYPE:
            raise BadJobError(f"{name} needs the name of a type after {TYPE}, such as {TYPE}mail.")
        _type(f"type of {name}", text.removeprefix(TYPE), now)
    return text


def _traceparent(name: str, value: object, now: int) -> str:
    from queuectl.tracecontext import read_parent

    found = read_parent(value) if isinstance(value, str) else None
    if found is None:
        raise BadJobError(
            f"{name} must be as W3C Trace Context has it, such as"
            f" 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, not {shown(value)}."
        )
    return str(found)


def _tracestate(name: str, value: object, now: int) -> str:
    from queuectl.tracecontext import LONGEST_STATE, read_state

    found = read_state(value) if isinstance(value, str) else None
    if found is None:
        raise BadJobError(
            f"{name} must be a list of NAME=VALUE of at most {LONGEST_STATE} characters, as W3C"
            f" Trace Context has it, not {shown(value)}."
        )
    return found


_READ: dict[str, Callable[[str, object, int], Any]] = {
    "text": lambda name, value, _: check_text(name, value, longest=LONGEST_COMMAND),
    "arguments": _arguments,
    "id": lambda name, value, _: check_name(name, value, longest=LONGEST_ID),
    "name": lambda name, value, _: check_name(name, value),
    "integer": lambda name, value, _: _whole(name, value, -LARGEST_PRIORITY - 1, LARGEST_PRIORITY),
    "count": lambda name, value, _: _whole(name, value, 0, LARGEST_PRIORITY),
    "runs": lambda name, value, _: _whole(name, value, 1, LARGEST_PRIORITY) - 1,
    "number": _setting,
    "time": _time,
    "duration": lambda name, value, _: read_duration(name, value),
    "milliseconds": lambda name, value, _: parse_duration(_whole(name, value, 0, LATEST) / 1000),
    "limit": lambda name, value, _: read_duration(name, value),
    "wait": _setting,
    "strategy": _setting,
    "folder": _folder,
    "program": _setting,
    "variables": _variables,
    "flag": _flag,
    "bytes": _bytes,
    "base64": _base64,
    "type": _type,
    "data": _data,
    "data_base64": _data_base64,
    "labels": _labels,
    "keys": _keys,
    "parents": _parents,
    "groups": _groups,
    "parameters": _parameters,
    "at_once": _at_once,
    "if_fails": _if_fails,
    "needs": _needs,
    "required": _required,
    "until": _until,
    "collision": _collision,
    "hook": _hook,
    "bounds": lambda name, value, _: read_bounds(value),
    "bound": lambda name, value, _: read_bound(name, value),
    "bounds_list": lambda name, value, _: read_bound(name, value),
    "trace": _traceparent,
    "trace_state": _tracestate,
}
"""What reads a value of a kind: it takes the name of the field, the value, and the time."""
_READERS = {field.name: (field.gives or field.name, _READ[field.kind]) for field in REQUESTED}
_KINDS = {field.name: field.kind for field in REQUESTED}
_MOST_MILLISECONDS = {
    "time": LATEST,
    "duration": LONGEST_SPAN,
    "limit": LONGEST_SPAN,
    "wait": LONGEST_SPAN,
}
