"""Which jobs somebody means, and in which order they are wanted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from queuectl.errors import UsageError, shown
from queuectl.job import DUE, State
from queuectl.request import check_sought
from queuectl.values import dataclass
from queuectl.when import milliseconds

if TYPE_CHECKING:
    from datetime import datetime

Names = str | Sequence[str]
"""One name, or several."""
BOUNDS = "since", "until", "finished_since", "finished_before", "due_since", "due_before"
"""The times in a filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs a listing or a bulk command means. Empty fields don't restrict.

    A single state, queue, tag, type or key is one, and several may come as any list.
    What no filter can mean is a `UsageError`: a bulk command must not find other jobs because of
    it, nor silently none.
    """

    states: tuple[State, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """All of these."""
    types: tuple[str, ...] = ()
    """Types of data jobs, of which a job has one; empty for data without a type."""
    keys: tuple[str, ...] = ()
    """All of these: what limits count by."""
    groups: tuple[str, ...] = ()
    """Of which a job is in one."""
    text: str = ""
    """A part of the id, command, arguments, error or reason; ASCII letters in any case."""
    since: "int | datetime | None" = None
    until: "int | datetime | None" = None
    """Bounds on when it was enqueued. A time without a zone is local; a number, milliseconds."""
    finished_since: "int | datetime | None" = None
    finished_before: "int | datetime | None" = None
    """Bounds on when it was completed, dead or cancelled."""
    due_since: "int | datetime | None" = None
    due_before: "int | datetime | None" = None
    """Bounds on when it is due, for jobs that wait: from now on, those whose time has yet to come.
    """

    def __post_init__(self) -> None:
        """Check what was given, and make tuples of names."""
        settled: dict[str, tuple[str, ...]] = {
            "states": tuple(map(_state, _several("states", self.states))),
            "queues": tuple(check_sought("queue", q) for q in _several("queues", self.queues)),
            "tags": tuple(check_sought("a tag", t) for t in _several("tags", self.tags)),
            "types": tuple(check_sought("a type", t) for t in _several("types", self.types)),
            "keys": tuple(check_sought("a key", k) for k in _several("keys", self.keys)),
            "groups": tuple(check_sought("a group", g) for g in _several("groups", self.groups)),
        }
        for name, names in settled.items():
            object.__setattr__(self, name, names)
        if not isinstance(self.text, str):
            raise UsageError(f"text must be text, not {shown(self.text)}.")
        for name in BOUNDS:
            if (at := getattr(self, name)) is not None:
                milliseconds(at)


def _several(name: str, given: object) -> Iterable[Any]:
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, bytes | Mapping):
        return given
    raise UsageError(f"{name} must be one name or a list of them, not {shown(given)}.")


def _state(name: Any) -> State:
    try:
        return State(name)
    except ValueError:
        raise UsageError(
            f"There is no state {shown(name)}; use one of {', '.join(State)}."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a listing means. Empty fields don't restrict."""

    who: str = ""
    """A part of who did it; ASCII letters in any case."""
    kind: str = ""
    text: str = ""
    """A part of the detail; ASCII letters in any case."""
    since: "int | datetime | None" = None
    until: "int | datetime | None" = None
    """Bounds on when it was done. A time without a zone is local; a number, milliseconds."""

    def __post_init__(self) -> None:
        """Check what was given."""
        for name in ("who", "kind", "text"):
            if not isinstance(value := getattr(self, name), str):
                raise UsageError(f"{name} must be text, not {shown(value)}.")
        for name in ("since", "until"):
            if (at := getattr(self, name)) is not None:
                milliseconds(at)


def due_bounds(word: str | None, now: int) -> dict[str, int]:
    """Return what a filter says for jobs that wait for their time (`later`), or for none (`now`).

    With None it says nothing.
    """
    if word is None:
        return {}
    if word not in DUE:
        raise UsageError(f"due is one of {', '.join(DUE)}, not {shown(word)}.")
    return {"due_since": now + 1} if word == "later" else {"due_before": now + 1}


ANY_EVENT = EventFilter()


@dataclass(frozen=True, slots=True)
class Sort:
    """A column of jobs to sort by. Jobs that have nothing there come last, either way."""

    column: str
    descending: bool = False
