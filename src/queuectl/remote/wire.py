"""Values as JSON and back, by their annotations: what goes between a `Queue` and a server.

What is None is left out, and what isn't known is passed over: so a client and a server of two
versions understand each other as far as they have the same in common.
"""

import base64
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from queuectl import errors
from queuectl.errors import QueuectlError, UsageError, shown
from queuectl.jsontext import LARGEST
from queuectl.values import names_of, needed_of

Seen = Callable[[Any], Any]
"""Returns what of a value somebody may see."""


class MisfitError(UsageError):
    """What was sent isn't what is wanted there."""


class Form(NamedTuple):
    """How values of one type are written and read, and what JSON that is."""

    write: Callable[[Any, Seen], Any]
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]


def write(annotation: Any, value: Any, seen: Seen = lambda value: value) -> Any:
    """Make JSON of a value; `seen` has a say on each that has fields."""
    return form_of(annotation).write(value, seen)


def read(annotation: Any, value: Any) -> Any:
    """Make a value of JSON again; a `MisfitError` says what can't be."""
    return form_of(annotation).read(value)


@cache
def form_of(annotation: Any) -> Form:
    """Return the form of a type."""
    if (plain := _PLAIN.get(annotation)) is not None:
        return plain
    kind, args = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Union, types.UnionType):
        return _choice(args)
    if not isinstance(kind, type):
        raise TypeError(f"{annotation!r} has no form")
    if issubclass(kind, StrEnum):
        return _word(kind)
    if issubclass(kind, QueuectlError):
        return _ERROR
    if names_of(kind):
        return _with_fields(kind)
    if issubclass(kind, Mapping):
        return _mapping(*args)
    if issubclass(kind, tuple) and args[-1] is not Ellipsis:
        return _row(args)
    if issubclass(kind, Collection | Iterator):
        return _items(tuple if issubclass(kind, tuple) else list, args[0])
    raise TypeError(f"{annotation!r} has no form")


# -- what JSON has itself ---------------------------------------------------------------


def _simple(name: str, *kinds: type, schema: Mapping[str, Any]) -> Form:
    def read(value: Any) -> Any:
        if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
            return value
        raise _misfit(name, value)

    return Form(lambda value, seen: value, read, schema)


def _misfit(wanted: str, value: object) -> MisfitError:
    return MisfitError(f"There must be {wanted}, not {shown(value)}.")


def _read_whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return value
    raise _misfit("a whole number of 64 bits at most", value)


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise _misfit("base64", value) from None


_PLAIN: dict[Any, Form] = {
    Any: Form(lambda value, seen: value, lambda value: value, {}),
    str: _simple("text", str, schema={"type": "string"}),
    int: Form(lambda value, seen: value, _read_whole, {"type": "integer"}),
    float: _simple("a number", int, float, schema={"type": "number"}),
    bool: _simple("true or false", bool, schema={"type": "boolean"}),
    type(None): _simple("null", type(None), schema={"type": "null"}),
    bytes: Form(
        lambda value, seen: base64.b64encode(value).decode(),
        _read_bytes,
        {"type": "string", "contentEncoding": "base64"},
    ),
}


def _word(kind: type[StrEnum]) -> Form:
    def read(value: Any) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            raise _misfit(f"one of {', '.join(kind)}", value) from None

    return Form(lambda value, seen: str(value), read, {"type": "string", "enum": [*kind]})


def _choice(args: tuple[Any, ...]) -> Form:
    """Make the form of a value or None; or of several that JSON has itself."""
    forms = [form_of(arg) for arg in args if arg is not type(None)]
    may_be_none = len(forms) < len(args)
    if len(forms) > 1 and any(arg not in _PLAIN for arg in args):
        raise TypeError(f"which of {args} it is can't be told")

    def write(value: Any, seen: Seen) -> Any:
        return None if value is None else forms[0].write(value, seen)

    def read(value: Any) -> Any:
        if value is None and may_be_none:
            return None
        for form in forms:
            try:
                return form.read(value)
            except MisfitError:
                if form is forms[-1]:
                    raise
        return None

    schemas = [form.schema for form in forms]
    return Form(write, read, {"anyOf": [*schemas, {"type": "null"}] if may_be_none else schemas})


# -- what is made of several -----------------------------------------------------------------


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _misfit("a list", value)
    return value


def _items(kind: Callable[[Any], Any], item: Any) -> Form:
    form = form_of(item)
    return Form(
        lambda value, seen: [form.write(one, seen) for one in value],
        lambda value: kind(map(form.read, _list_of(value))),
        {"type": "array", "items": form.schema},
    )


def _row(args: tuple[Any, ...]) -> Form:
    forms = [form_of(arg) for arg in args]

    def read(value: Any) -> tuple[Any, ...]:
        if len(_list_of(value)) != len(forms):
            raise _misfit(f"a list of {len(forms)}", value)
        return tuple(form.read(one) for form, one in zip(forms, value, strict=True))

    return Form(
        lambda value, seen: [f.write(one, seen) for f, one in zip(forms, value, strict=True)],
        read,
        {"type": "array", "minItems": len(forms), "maxItems": len(forms)},
    )


def _mapping(key: Any = str, item: Any = Any) -> Form:
    """Make the form of a mapping; numbers are written as text where they are keys."""
    keys, items = form_of(key), form_of(item)

    def read_key(text: str) -> Any:
        try:
            return int(text) if key is int else keys.read(text)
        except ValueError:
            raise _misfit("a whole number", text) from None

    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _misfit("an object", value)
        return {read_key(text): items.read(one) for text, one in value.items()}

    return Form(
        lambda value, seen: {str(name): items.write(one, seen) for name, one in value.items()},
        read,
        {"type": "object", "additionalProperties": items.schema},
    )


def _with_fields(kind: Any) -> Form:
    """Make the form of a value that is made of its fields, by their names."""
    hints = _hints(kind)
    parts = {name: form_of(hints[name]) for name in names_of(kind)}
    needed = dict.fromkeys(needed_of(kind))

    def write(value: Any, seen: Seen) -> dict[str, Any]:
        value = seen(value)
        pairs = ((name, getattr(value, name)) for name in parts)
        return {name: parts[name].write(one, seen) for name, one in pairs if one is not None}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit("an object", value)
        given = {name: parts[name].read(one) for name, one in value.items() if name in parts}
        # What has no default, and was left out, was None.
        return kind(**needed | given)

    return Form(write, read, {"type": "object", "description": f"A {kind.__name__}."})


def _hints(kind: Any) -> dict[str, Any]:
    """Return the annotations of a class, those included that are imported for type checkers.

    Times are numbers here.
    """
    from queuectl.admission import Serving
    from queuectl.limits import Limits

    known = {"Serving": Serving, "Limits": Limits, "datetime": int}
    return get_type_hints(kind, localns=known)


# -- errors -----------------------------------------------------------------------------


def error_dict(error: QueuectlError) -> dict[str, str]:
    """Describe an error so that it can be made again."""
    kind = next(k for k in type(error).__mro__ if k.__name__ in errors.__all__)
    return {"error": kind.__name__, "text": str(error), "advice": error.advice}


def error_of(said: Mapping[str, Any]) -> QueuectlError:
    """Make an error of what was said of it."""
    name, text, advice = (str(said.get(key) or "") for key in ("error", "text", "advice"))
    kind = getattr(errors, name) if name in errors.__all__ else QueuectlError
    made: QueuectlError = kind(text)
    made.advice = advice
    return made


def _read_error(value: Any) -> QueuectlError:
    if not isinstance(value, dict):
        raise _misfit("an error", value)
    return error_of(value)


_ERROR = Form(lambda value, seen: error_dict(value), _read_error, {"type": "object"})
