"""What a run tells of itself, and in which words: its result, and how far it has come.

Runs know by their environment where that goes. Nothing is there until a run writes it.
"""

import os
import re
from collections.abc import Mapping

from queuectl.errors import StateError, UsageError, shown

LONGEST_RESULT = 1 << 20
"""Bytes that a result can have."""
LONGEST_NOTE = 200
"""Characters of a line of progress that are kept."""
RESULT, PROGRESS = "QUEUECTL_RESULT", "QUEUECTL_PROGRESS"
"""The variables that name the files in which a run tells it."""
_PERCENT = r"([0-9]{1,3}(?:\.[0-9]*)?)%?"


def place_of(variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the file in which the run that we are in tells something; it is an error in none."""
    path = environment.get(variable)
    if not path:
        raise StateError("This works only inside a job: a worker tells its jobs where to write it.")
    return path


def sleep_mark(environment: Mapping[str, str] = os.environ) -> str:
    """Return the file by which a run says that its job may sleep; it is an error in none."""
    return place_of(RESULT, environment).removesuffix(".result") + ".sleep"


def check_result(data: bytes) -> str:
    """Return a result as it is stored; anything but JSON of 1 MiB at most is a `UsageError`."""
    if len(data) > LONGEST_RESULT:
        raise UsageError("A result can have 1 MiB at most; write the rest into a file of its own.")
    return check_json(data, "The result")


def check_json(data: bytes, what: str) -> str:
    """Return JSON as it is stored; anything else, or more than 1 MiB, is a `UsageError`."""
    from queuectl.jsontext import read_json

    if len(data) > LONGEST_RESULT:
        raise UsageError(f"{what} can have 1 MiB at most.")
    try:
        text = data.decode().strip()
        read_json(text)
    except (ValueError, RecursionError) as error:
        why = "it is empty" if not data.strip() else _why(error)
        raise UsageError(f"{what} is no JSON: {why}.") from None
    return text


def _why(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "it is no UTF-8"
        case RecursionError():
            return "it goes too deep"
        case _:
            return str(error)


def check_percent(text: str) -> str:
    """Return how far a run has come, in percent, as it was written; else it is a `UsageError`."""
    if not (match := re.fullmatch(_PERCENT, text, re.ASCII)) or float(match[1]) > 100:
        raise UsageError(f"{shown(text)} is no percentage; write a number from 0 to 100.")
    return match[1]


def read_progress(line: str) -> tuple[float | None, str]:
    """Read a line that a run wrote about itself: a percentage, a note, or both."""
    text = "".join(sign if sign.isprintable() else " " for sign in line).strip()
    first, _, rest = text.partition(" ")
    try:
        percent = float(check_percent(first))
    except UsageError:
        return None, text[:LONGEST_NOTE]
    return percent, rest.strip()[:LONGEST_NOTE]
