"""Reads files and arrays of jobs, with the number of the line or element in every error; and stdin.

A file has a JSON job or a command per line.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO

from queuectl.errors import BadJobError, UsageError
from queuectl.jsontext import STRICT, OddNumberError
from queuectl.request import LONGEST_DATA, LONGEST_STDIN
from queuectl.sizes import format_size

Fields = dict[str, Any]


@dataclass(slots=True)
class Feed:
    """A file of jobs: where it came from, its lines, and how many they are (0 if unknown)."""

    name: str
    lines: Iterator[Any]
    count: int
    read: Callable[[str], Fields | None]
    """Makes the fields of a job from a line; None for a line that has no job."""
    unit: str = "line"
    """What it consists of."""

    def error(self, number: int, why: object) -> BadJobError:
        """Make the error for a line."""
        return BadJobError(f"{self.place(number)}: {why}")

    def place(self, number: int) -> str:
        """Name a line."""
        return f"{self.name}, {self.unit} {number}"

    def parse(self, number: int, line: Any) -> Fields | None:
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
        yield _feed("stdin", our_stdin(), read, hold=hold)
        return
    with open_file(path) as file:
        yield _feed(path, file, read, hold=hold)


class Items(Feed):
    """Jobs that were given as one JSON array."""

    def parse(self, number: int, line: Any) -> Fields | None:
        if isinstance(line, dict):
            return line
        raise self.error(number, _no_object(line))


def _no_object(item: Any) -> str:
    if isinstance(item, str):
        # To Python, a list of texts is one program with its arguments.
        return f"a text could be a command or an argument; write an object such as {_SAMPLE}."
    return f"a job must be a JSON object such as {_SAMPLE}."


_ARRAY = r"""\s*\[(?:\{|\s+\{\s*(?:["'}]|\w+\s*:|$))"""
"""How an array of objects begins, quotes forgotten or not. `[ {a,b} ]` is for a shell."""


def read_array(text: str, hint: str = "") -> Feed | None:
    """Return the jobs in a JSON array; None for a text that isn't one, but a command of the shell.

    What begins like an array of objects isn't meant for a shell, and must be right.
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        items = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        if re.match(_ARRAY, text):
            raise _not_json(error, hint) from None
        return None
    return Items("the array", iter(items), len(items), read_json, "element")


def read_stdin(path: str) -> bytes:
    """Read what a job shall find on stdin from a file, `-` for ours."""
    return _read_some(path, LONGEST_STDIN, "let its command read a file: COMMAND < FILE")


def read_data(path: str) -> bytes:
    """Read the data of a job from a file, `-` for our stdin."""
    return _read_some(path, LONGEST_DATA, "push the name of a file")


def _read_some(path: str, most: int, instead: str) -> bytes:
    with nullcontext(our_stdin()) if path == "-" else open_file(path) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise UsageError(f"{path} can't be read: {error.strerror}.") from None
    if len(data) > most:
        raise UsageError(
            f"{'stdin' if path == '-' else path} has more than {format_size(most)}, the"
            f" most that is kept with a job; {instead}."
        )
    return data


def our_stdin() -> BinaryIO:
    """Return our stdin, if there is one."""
    # Closed ones are replaced by the null device, which the original isn't.
    if sys.stdin is None or sys.__stdin__ is None:
        raise UsageError("There is no stdin to read from; give a file.")
    return sys.stdin.buffer


def open_file(path: str) -> BinaryIO:
    """Open a file that somebody has named, to read it."""
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


def read_json(text: str, hint: str = "", *, no_object: str | None = None) -> Fields:
    """Read one JSON object; a name that comes twice is an error, as is anything but an object.

    The hint ends the sentence about what isn't JSON at all; the other says what it has to be,
    if that isn't a job.
    """
    try:
        value, end = _DECODER.raw_decode(text) if text.startswith("{") else (None, -1)
        if end != len(text):
            # It isn't as plain as most are, or it is wrong: this looks at the blanks around it.
            value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(error, hint) from None
    if not isinstance(value, dict):
        raise BadJobError(no_object or f"A job must be a JSON object such as {_SAMPLE}.")
    return value


def _not_json(error: Exception, hint: str) -> BadJobError:
    """Say what is wrong with a text that should be JSON."""
    if isinstance(error, json.JSONDecodeError):
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}"
        return BadJobError(f"Invalid JSON: {error.msg} at {where}{hint}.")
    if isinstance(error, RecursionError):
        return BadJobError("Invalid JSON: it is nested too deeply.")
    if isinstance(error, OddNumberError):
        return BadJobError(f"Invalid JSON: {error}.")
    # The one thing left: Python doesn't read numbers of thousands of digits.
    return BadJobError("Invalid JSON: it has a number of thousands of digits.")


_SAMPLE = '{"command": "echo hi"}'


def _pairs(pairs: Sequence[tuple[str, Any]]) -> Fields:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadJobError(f"Invalid JSON: the name {twice[:60]!r} comes twice.")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, **STRICT)
