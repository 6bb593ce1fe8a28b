"""JSON as its standard has it: what Python takes besides, and others can't read, is refused."""

import json
from math import isfinite
from typing import Any

LARGEST = (1 << 63) - 1
"""The largest whole number that all databases hold."""


class OddNumberError(ValueError):
    """It has a number that is none of JSON, or that no float can hold."""


def _no_constant(name: str) -> Any:
    raise OddNumberError(f"{name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise OddNumberError(f"{text[:40]} is too large a number")
    return number


STRICT: dict[str, Any] = {"parse_constant": _no_constant, "parse_float": _finite}
"""What makes a decoder of JSON refuse such numbers."""
read_json = json.JSONDecoder(**STRICT).decode
"""Return what a text says; one that is no JSON is a `ValueError`, or a `RecursionError`."""


def read_stored(text: str) -> Any:
    """Return what JSON says that is stored already; if it is none after all, it is that text."""
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text
