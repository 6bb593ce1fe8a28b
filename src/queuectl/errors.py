"""The error tree. Every error is one sentence for a person and knows its exit code.

What only helps somebody at a command line, such as the name of a command, is its `advice`; the
sentence itself makes sense in a program as well.

QueuectlError                    1   anything queuectl can explain
├── UsageError                   2   the request itself is wrong
│   ├── BadTimeError             2   a time or duration that can't be read
│   ├── BadSettingError          2   an unknown setting, or a value it can't take
│   └── BadJobError              2   a job that can't be stored as asked
├── StuckError                   1   what is waited for waits in vain itself
├── TaskFailedError              1   a job whose result was waited for has none
├── NotFoundError                3   no such job, node, attempt or queue
├── StateError                   4   the thing exists but is in the wrong state
│   ├── DuplicateError           4   the id is taken
│   ├── QueueFullError           4   the queue takes no more jobs
│   └── LeaseLostError           4   a run that is no longer ours tried to write
└── StoreError                   5   the store can't be used
    ├── StoreMissingError        5   there is no queue there yet
    ├── StoreBusyError           5   somebody held the lock for too long
    ├── StoreFullError           5   no space left
    ├── StoreReadOnlyError       5   it may be read but not written
    ├── StoreCorruptError        5   it is damaged, or not a queuectl store
    ├── StoreTooNewError         5   a newer queuectl made it
    ├── StoreTooOldError         5   it must be migrated first, or its server is too old
    ├── StoreUnreachableError    5   no server answers, or the connection was lost
    │   └── StoreUnsettledError  5   ... while committing: it may or may not have come through
    └── StoreDeniedError         5   the server refuses us, or the file is somebody else's
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

__all__ = [
    "BadJobError",
    "BadSettingError",
    "BadTimeError",
    "DuplicateError",
    "LeaseLostError",
    "NotFoundError",
    "QueueFullError",
    "QueuectlError",
    "StateError",
    "StoreBusyError",
    "StoreCorruptError",
    "StoreDeniedError",
    "StoreError",
    "StoreFullError",
    "StoreMissingError",
    "StoreReadOnlyError",
    "StoreTooNewError",
    "StoreTooOldError",
    "StoreUnreachableError",
    "StoreUnsettledError",
    "StuckError",
    "TaskFailedError",
    "UsageError",
]

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_STATE = 4
EXIT_STORE = 5
EXIT_INTERRUPTED = 130


def shown(value: object, longest: int = 60, *, as_json: bool = True) -> str:
    """Write a value for an error sentence: short, and whatever it is.

    What was asked for in JSON is written so, unless it was a Python program that said it.
    """
    try:
        text = _as_json(value) if as_json and _is_json(value) else str(value)
    except ValueError:
        # Python refuses to write integers of thousands of digits.
        return "a number of thousands of digits"
    return repr(text if len(text) <= longest else text[: longest - 3] + "...")


def _is_json(value: object) -> bool:
    """Tell whether Python writes something otherwise than whoever has sent it."""
    return value is None or isinstance(value, bool | dict | list)


def _as_json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


def how_to_install(extra: str) -> str:
    """Say how an extra is installed: from a clone, as others have our name on PyPI."""
    return f"in a clone of queuectl: pip install '.[{extra}]'"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that looks most like one that isn't; None if none does."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6
) -> str:
    """Write the end of a sentence about a name that isn't known: the nearest, or `otherwise`."""
    near = nearest(name, known, cutoff=cutoff)
    return otherwise if near is None else f"did you mean {near!r}?"


class QueuectlError(Exception):
    """Something queuectl can explain in one sentence."""

    exit_code: ClassVar[int] = EXIT_FAILED

    def __init__(self, text: str = "", *, advice: str = "", field: str = "") -> None:
        """`advice` ends the sentence on the command line: it names a command or option.

        `field` is the name of what is wrong about a request, where it is one thing.
        """
        super().__init__(text)
        self.advice = advice
        self.field = field

    @property
    def alone(self) -> str:
        """The sentence about one of many requests, others of which may have been stored."""
        return str(self).replace("; nothing was enqueued", "")

    @property
    def advised(self) -> str:
        """The sentence for somebody at a command line."""
        return f"{str(self).rstrip('.')}; {self.advice}" if self.advice else str(self)


class UsageError(QueuectlError):
    """The request itself is wrong; nothing was changed."""

    exit_code = EXIT_USAGE


@contextmanager
def about(field: str) -> Iterator[None]:
    """Have errors of what is read meanwhile say which field of a request they are about."""
    try:
        yield
    except UsageError as error:
        error.field = error.field or field
        raise


class BadTimeError(UsageError):
    """A time or duration that can't be read."""


class BadSettingError(UsageError):
    """An unknown setting, or a value the setting can't take."""


class BadJobError(UsageError):
    """A job that can't be stored as asked."""


class StuckError(QueuectlError):
    """Of what is waited for, all that is left waits in vain itself, until somebody repairs it."""


class TaskFailedError(QueuectlError):
    """A job whose result was waited for has none: it is dead, or was cancelled."""


class NotFoundError(QueuectlError):
    """No job, node, attempt or queue answers to that name."""

    exit_code = EXIT_NOT_FOUND


class StateError(QueuectlError):
    """The thing exists, but its state doesn't allow what was asked."""

    exit_code = EXIT_STATE


class DuplicateError(StateError):
    """The id is taken; the job that has it is untouched."""


class QueueFullError(StateError):
    """A queue, or a key, takes no more jobs, as its limits say."""


class LeaseLostError(StateError):
    """A node or run whose lease is gone tried to write; nothing was changed."""


class StoreError(QueuectlError):
    """The store can't be used."""

    exit_code = EXIT_STORE


class StoreMissingError(StoreError):
    """There is no queue at that place yet."""


class StoreBusyError(StoreError):
    """Another process held the write lock for longer than we wait."""


class StoreFullError(StoreError):
    """There is no space left for the store; nothing was acknowledged."""


class StoreReadOnlyError(StoreError):
    """The store may be read, but not written, by this user."""


class StoreCorruptError(StoreError):
    """The store is damaged, or it isn't a queuectl store."""


class StoreTooNewError(StoreError):
    """A newer queuectl made this store; it is left alone."""


class StoreTooOldError(StoreError):
    """The schema or the server is older than what this queuectl needs."""


class StoreUnreachableError(StoreError):
    """No server answers, or the connection to it was lost; what was begun is undone."""


class StoreUnsettledError(StoreUnreachableError):
    """The connection was lost while committing, and the server can't be asked what came of it."""

    def __init__(self, text: str, committed: Callable[[], bool] = lambda: False) -> None:
        """`committed` asks again; it raises a `StoreError` while the server still can't say."""
        super().__init__(text)
        self.committed = committed
        self.result: Any = None
        """What the transaction returned, which counts if it was committed."""


class StoreDeniedError(StoreError):
    """The server refuses us (password, database or grants), or somebody else's file does."""
