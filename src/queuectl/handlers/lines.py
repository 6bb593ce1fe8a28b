"""The protocol between a node and a handler: lines of JSON, each with a word that says what it is.

A node writes to the handler's stdin, and reads what it writes to stdout. First comes a greeting,
`{"hello": 1, ...}`, with the version of the protocol; the handler answers `{"ready": 1}`. Then come
jobs, `{"job": 7, "id": ..., "data": ...}`: 7 is the number of the run, by which all that follows
names it. Several may come before the first is done: they are run in their order.

The handler says `{"began": 7}`, and in the end `{"done": 7}` or `{"failed": 7, "error": ...}`; with
`"next": 8` in that it says that it begins the next one.
On `{"stop": 7, "why": ...}` it should come to an end; it is killed if it doesn't. At the end of
its stdin it finishes what it has, and exits. docs/handlers.md has all of it, with examples.
"""

import json
from typing import Any

VERSION = 1
MOST_AHEAD = 255
"""Jobs that a handler is handed besides the one that it runs, at most."""
SHOWN_AFTER = 0.5
"""Seconds after which what a job writes can be followed."""
LONGEST_RESULT = 1 << 20
"""Bytes of what a job comes to, as JSON."""
LONGEST_LINE = 8 << 20
"""Bytes; whoever writes more doesn't speak the protocol."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
quoted = json.encoder.encode_basestring
"""Writes text as a string of JSON."""


class NoLineError(Exception):
    """What was read isn't a line of the protocol."""


def line(message: dict[str, Any]) -> bytes:
    """Write a message."""
    if len(message) == 1 and "done" in message:
        # Most ends are no more than that.
        return b'{"done":%d}\n' % message["done"]
    return as_bytes(f"{_encode(message)}\n")


def raw_line(message: dict[str, Any], name: str, value: str) -> bytes:
    """Write a message, with one more field whose value is JSON already."""
    return as_bytes(f'{_encode(message)[:-1]},"{name}":{value}}}\n')


def as_bytes(text: str) -> bytes:
    """Write text that is JSON."""
    # Lone surrogates can't be written; as JSON escapes them, they are read as what they were.
    return text.encode("utf-8", "backslashreplace")


class Reader:
    """Turns what arrives, cut anywhere, into messages."""

    def __init__(self, longest: int | None = LONGEST_LINE) -> None:
        """Take lines of so many bytes; None is of any length."""
        self._longest = longest
        self._rest = b""

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """Take bytes in and return the messages that are now complete, or raise `NoLineError`."""
        if b"\n" not in chunk:
            self._rest += chunk
            if self._longest is not None and len(self._rest) > self._longest:
                raise NoLineError(f"a line of more than {self._longest:,} bytes")
            return []
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        return _read([one for one in whole if one.strip()])


def _read(whole: list[bytes]) -> list[dict[str, Any]]:
    """Read lines; all at once, as that takes a third of the time."""
    found: list[dict[str, Any]]
    try:
        found = json.loads(b"[%s]" % b",".join(whole))
    except (ValueError, RecursionError):
        found = []
    if len(found) != len(whole) or not all(type(one) is dict for one in found):
        found = [_read_one(one) for one in whole]
    return found


def _read_one(text: bytes) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        shown = text[:80].decode("utf-8", "replace")
        raise NoLineError(f"this line isn't an object of JSON: {shown}")
    return message
