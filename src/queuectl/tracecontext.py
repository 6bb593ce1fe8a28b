"""W3C Trace Context: of which trace something is a part, as `traceparent` and `tracestate` say it.

What isn't as https://www.w3.org/TR/trace-context/ has it is None; nothing is guessed.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

LONGEST_STATE = 512
"""Characters of a `tracestate` that are kept: so many everybody has to pass on."""
MOST_MEMBERS = 32
SAMPLED = 0x01
_KNOWN_FLAGS = 0x03
"""Whether it is sampled, and whether its id is random. The others are to be passed on as 0."""
_PARENT = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KEY = "[a-z0-9][a-z0-9_*/@-]{0,255}"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER = re.compile(f"({_KEY})={_VALUE}")


class SpanId(NamedTuple):
    """Which span of which trace is meant, in the letters of a `traceparent`; that is its text."""

    trace: str
    span: str
    flags: int = 0

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags:02x}"


class Trace(NamedTuple):
    """What is passed on of a trace: the span that others become children of, and a state."""

    parent: SpanId
    state: str | None = None

    def named(self, names: tuple[str, str] = ("traceparent", "tracestate")) -> dict[str, str]:
        """Return it under the names of its fields, or of variables."""
        fields = {names[0]: str(self.parent)}
        return fields if self.state is None else fields | {names[1]: self.state}


VARIABLES = ("TRACEPARENT", "TRACESTATE")
"""Under which a program finds the trace that it is a part of."""


def read_parent(text: str) -> SpanId | None:
    """Read a `traceparent`; of a later version, what this one has of it."""
    found = _PARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    if not trace.strip("0") or not span.strip("0"):
        return None
    known = _KNOWN_FLAGS if version == "00" else SAMPLED
    return SpanId(trace, span, int(flags, 16) & known)


def read_state(text: str) -> str | None:
    """Read a `tracestate`, which says something; one that is too long to be kept is wrong, too."""
    if len(text) > LONGEST_STATE:
        return None
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    found = [_MEMBER.fullmatch(member) for member in members]
    keys = {match[1] for match in found if match is not None}
    if not members or len(members) > MOST_MEMBERS or len(keys) < len(members):
        return None
    return ",".join(members)


def read_trace(parent: str | None, state: str | None) -> Trace | None:
    """Read both; a state that is wrong is left out."""
    if parent is None or (known := read_parent(parent)) is None:
        return None
    return Trace(known, None if state is None else read_state(state))


def trace_of(environment: Mapping[str, str]) -> Trace | None:
    """Return the trace that a program with this environment is a part of."""
    return read_trace(*map(environment.get, VARIABLES))
