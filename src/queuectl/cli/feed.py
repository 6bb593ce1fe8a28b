"""Reads files of jobs: JSON lines or a command per line, with the line's number in every error."""

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from queuectl.errors import BadJobError, UsageError

Fields = dict[str, Any]

SAME = (
    ("command", "argv"),
    ("max_retries", "max_attempts"),
    ("run_at", "run_after", "delay"),
    ("expire", "expires_at"),
    ("timeout", "timeout_ms", "timeout_seconds"),
    ("max_backoff", "max_backoff_seconds"),
)
"""Fields that say the same thing in several ways: the stronger one drives out the others."""


@dataclass(slots=True)
class Feed:
    """A file of jobs: where it came from, its lines, and how many they are (0 if unknown)."""

    name: str
    lines: Iterator[bytes]
    count: int
    read: Callable[[str], Fields | None]
    """Makes the fields of a job from a line; None for a line that has no job."""

    def error(self, number: int, why: object) -> BadJobError:
        """Make the error for a line."""
        return BadJobError(f"{self.name}, line {number}: {why}")

    def parse(self, number: int, line: bytes) -> Fields | None:
        """Return the fields of the job on a line, if it has one; errors name the line."""
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")  # what some editors put first
        try:
            return self.read(line.decode().rstrip("\r\n"))
        except UnicodeDecodeError:
            raise self.error(number, "it isn't valid UTF-8.") from None
        except BadJobError as error:
            raise self.error(number, error) from None


@contextmanager
def open_feed(path: str, *, plain: bool, hold: bool) -> Iterator[Feed]:
    """Open a file of jobs, `-` for stdin: commands when `plain`, else JSON lines.

    With `hold`, what comes from a pipe is read to its end first: a store must not be kept locked
    by somebody who types.
    """
    read = read_line if plain else read_json_line
    if path == "-":
        yield _feed("stdin", sys.stdin.buffer, read, hold=hold)
        return
    with _open(path) as file:
        yield _feed(path, file, read, hold=hold)


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.") from None


def _feed(name: str, file: BinaryIO, read: Callable[[str], Fields | None], *, hold: bool) -> Feed:
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISDIR(mode):
        raise UsageError(f"{name} is a directory, not a file of jobs.")
    if stat.S_ISREG(mode) and file.seekable():
        start = file.tell()
        count = sum(1 for _ in file)
        file.seek(start)
        return Feed(name, iter(file), count, read)
    if hold:
        lines = list(file)
        return Feed(name, iter(lines), len(lines), read)
    return Feed(name, iter(file), 0, read)


def read_line(line: str) -> Fields | None:
    """Read a line of commands; blank lines and those that begin with `#` are skipped."""
    text = line.strip()
    return {"command": line} if text and not text.startswith("#") else None


def read_json_line(line: str) -> Fields | None:
    """Read a line of JSON; blank lines are skipped."""
    return read_json(line) if line.strip() else None


def read_json(text: str, hint: str = "") -> Fields:
    """Read one JSON object; a name that comes twice is an error, as is anything but an object.

    The hint ends the sentence about what isn't JSON at all.
    """
    try:
        value, end = _DECODER.raw_decode(text) if text.startswith("{") else (None, -1)
        if end != len(text):
            # It isn't as plain as most are, or it is wrong: this looks at the blanks around it.
            value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        raise BadJobError(f"Invalid JSON: {error.msg} at {where}{hint}.") from None
    except RecursionError:
        raise BadJobError("Invalid JSON: it is nested too deeply.") from None
    except ValueError as error:  # a number that is too long for Python to read
        raise BadJobError(f"Invalid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise BadJobError(f"A job must be a JSON object such as {_SAMPLE}.")
    return value


_SAMPLE = '{"command": "echo hi"}'


def _pairs(pairs: Sequence[tuple[str, Any]]) -> Fields:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadJobError(f"Invalid JSON: the name {twice[:60]!r} comes twice.")
    return fields


def _no_constant(name: str) -> Any:
    raise BadJobError(f"Invalid JSON: {name} is not a number.")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant)


def overlay(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> Fields:
    """Lay stronger fields over weaker ones: they replace, but tags add up and env merges."""
    given = {name.strip().replace("-", "_") for name in strong}
    hidden = {name for same in SAME if given.intersection(same) for name in same}
    kept = {
        name: value for name, value in weak.items() if name.strip().replace("-", "_") not in hidden
    }
    result = {**kept, **strong}
    tags = [_tags(fields) for fields in (weak, strong)]
    if all(tags):
        result.pop("tag", None)
        result["tags"] = [*tags[0], *tags[1]]
    env = [fields.get("env") for fields in (weak, strong)]
    if all(isinstance(part, Mapping) for part in env):
        result["env"] = {**env[0], **env[1]}  # type: ignore[dict-item]
    return result


def _tags(fields: Mapping[str, Any]) -> list[Any]:
    tags = fields.get("tags", fields.get("tag"))
    if isinstance(tags, str):
        return [tags]
    return list(tags) if isinstance(tags, list | tuple) else []
