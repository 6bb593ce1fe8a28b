"""Requests for jobs in the form in which they are sent: read here, and read again there."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from queuectl.enqueueing import Enqueuer, Request
from queuectl.errors import UsageError
from queuectl.fields import REQUESTED
from queuectl.job import NewJob, Strategy
from queuectl.merging import merge_requests
from queuectl.request import Values, check_request, read_values
from queuectl.when import iso

_KINDS = {field.name: field.kind for field in REQUESTED}
_SPANS = ("duration", "limit", "wait", "milliseconds")
_TIMES = frozenset(field.name for field in REQUESTED if field.kind == "time")
_BYTES = ("data", "bytes")


def read(what: Request | None, fields: Mapping[str, Any], now: Callable[[], int]) -> Values:
    """Read what somebody asks for; the clock of the queue is asked if a time is in it."""
    if isinstance(what, NewJob):
        if fields:
            raise UsageError("A NewJob is complete; keywords can't be added to it.")
        return check_request(what)
    given = {**({} if what is None else Enqueuer.as_fields(what)), **fields}
    says_when = any(name.lower().replace("-", "_") in _WHEN for name in given)
    return read_values(given, now=now() if says_when else 0)


_WHEN = _TIMES | {name for field in REQUESTED if field.kind == "time" for name in field.also}


def read_several(
    what: Iterable[Request], under: Mapping[str, Any], now: Callable[[], int]
) -> Iterator[Values]:
    """Read several requests, laid over the fields that hold for all of them."""
    if isinstance(what, str | bytes | Mapping | NewJob):
        raise UsageError("enqueue_many takes several jobs, such as a list; enqueue takes one.")
    if "id" in under:
        raise UsageError("An id is for a single job; of several, each says its own.")
    for number, item in enumerate(what, 1):
        try:
            laid = merge_requests(under, Enqueuer.as_fields(item)) if under else item
            yield read(laid, {}, now)
        except UsageError as error:
            raise type(error)(f"Job number {number:,}: {error}", advice=error.advice) from None


def written(values: Values) -> dict[str, Any]:
    """Write a request that was read as JSON has it; all that is said in it is absolute."""
    said: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        kind = _KINDS[name]
        if kind in _SPANS:
            said[name] = f"{value}ms"
        elif kind in _BYTES:
            from base64 import b64encode

            said[f"{name}_base64"] = b64encode(value).decode()
        elif kind == "time":
            said[name] = iso(value)
        elif isinstance(value, tuple):
            said[name] = list(value)
        else:
            said[name] = str(value) if isinstance(value, Strategy) else value
    return said
