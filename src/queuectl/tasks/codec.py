"""Values as JSON and back, by their annotations: what arguments and results of tasks are stored as.

An annotation becomes a `Codec` once. What isn't annotated, or is `Any`, must be JSON as it is.
Nothing is ever unpickled, and no name of a class is stored: the annotation says what it was.
"""

import base64
import dataclasses
import json
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

from queuectl.errors import shown

Step = Callable[[Any], Any]


class MisfitError(Exception):
    """A value isn't what its annotation says. `place` leads to it, such as `.lines[3]`."""

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.place = place


class Codec(NamedTuple):
    """How values of one type are written and read."""

    name: str
    """What they are, for a sentence."""
    encode: Step
    """Makes JSON of a value, or raises `MisfitError`."""
    decode: Step
    """Makes the value of JSON again, or raises `MisfitError`."""


def codec_of(annotation: Any) -> Codec:
    """Return the codec of a type; raises `TypeError` for one whose values can't be stored."""
    return _cached(annotation) if _is_hashable(annotation) else _make(annotation)


@lru_cache(maxsize=4096)
def _cached(annotation: Any) -> Codec:
    return _make(annotation)


# -- JSON as it is ----------------------------------------------------------------------


def _shown(value: object) -> str:
    return shown(value, 40, as_json=False)


def _misfit(wanted: str, value: object) -> MisfitError:
    return MisfitError(f"must be {wanted}, not {type(value).__name__} {_shown(value)}")


def _one_of(name: str, *kinds: type) -> Codec:
    """Make the codec of what JSON has itself. A bool is no number."""

    def check(value: Any) -> Any:
        if type(value) in kinds:
            return value
        if isinstance(value, kinds) and not isinstance(value, bool | Enum):
            return kinds[-1](value)
        raise _misfit(name, value)

    return Codec(name, check, check)


def _plain(value: Any) -> Any:
    """Check that a value is JSON as it is, and return a copy."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MisfitError(f"must be JSON ({error})") from None
    copy = json.loads(text)
    if copy != value:
        raise MisfitError("must be JSON; annotate it to have keys or tuples kept as they are")
    return copy


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _misfit("a number", value)
    try:
        number = float(value)
    except OverflowError:
        raise _misfit("a number that a float can hold", value) from None
    if number - number != 0:
        raise MisfitError(f"must be a number that JSON has, not {number}")
    return number


def _none(value: Any) -> None:
    if value is not None:
        raise _misfit("None", value)


_ANY = Codec("JSON", _plain, lambda value: value)
_SIMPLE: dict[Any, Codec] = {
    Any: _ANY,
    object: _ANY,
    None: Codec("None", _none, _none),
    type(None): Codec("None", _none, _none),
    bool: _one_of("bool", bool),
    int: _one_of("int", int),
    str: _one_of("str", str),
    float: Codec("float", _finite, _finite),
}


# -- values that are written as text --------------------------------------------------------


def _by_text(kind: type, write: Step, read: Step) -> Codec:
    """Make the codec of a type that is stored as text, or as a number."""
    name = kind.__name__

    def encode(value: Any) -> Any:
        if not isinstance(value, kind) or (kind is date and isinstance(value, datetime)):
            raise _misfit(name, value)
        return write(value)

    def decode(value: Any) -> Any:
        try:
            return read(value)
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError):
            raise _misfit(name, value) from None

    return Codec(name, encode, decode)


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decimal(text: str) -> Decimal:
    if not isinstance(text, str):
        raise TypeError
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError from None


def _datetime(text: str) -> datetime:
    if len(text) <= len("2026-01-01"):
        raise ValueError  # A date would be read as its midnight.
    return datetime.fromisoformat(text)


def _text_of_bytes(data: Any) -> str:
    return base64.b64encode(data).decode()


_SIMPLE |= {
    datetime: _by_text(datetime, datetime.isoformat, _datetime),
    date: _by_text(date, date.isoformat, date.fromisoformat),
    time: _by_text(time, time.isoformat, time.fromisoformat),
    timedelta: _by_text(
        timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: timedelta(days=parts[0], seconds=parts[1], microseconds=parts[2]),
    ),
    UUID: _by_text(UUID, str, UUID),
    Decimal: _by_text(Decimal, str, _decimal),
    bytes: _by_text(bytes, _text_of_bytes, _bytes_of),
    bytearray: _by_text(bytearray, _text_of_bytes, lambda text: bytearray(_bytes_of(text))),
}


# -- annotations ------------------------------------------------------------------------


def _make(annotation: Any) -> Codec:
    simple = _SIMPLE.get(annotation) if _is_hashable(annotation) else None
    if simple is not None:
        return simple
    origin = get_origin(annotation)
    if origin is Annotated:
        return codec_of(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _union(get_args(annotation))
    if origin is Literal:
        return _literal(get_args(annotation))
    if isinstance(annotation, TypeVar):
        return codec_of(annotation.__bound__ or Any)
    if hasattr(annotation, "__supertype__"):
        return codec_of(annotation.__supertype__)
    kind = origin or annotation
    if not isinstance(kind, type):
        raise TypeError(f"{annotation!r} isn't a type whose values can be stored")
    return _of_class(kind, get_args(annotation))


def _is_hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


def _of_class(kind: type, args: tuple[Any, ...]) -> Codec:
    foreign = _foreign(kind)
    if foreign is not None:
        return foreign
    if issubclass(kind, Enum):
        return _enum(kind)
    if issubclass(kind, PurePath):
        return _by_text(kind, str, kind)
    if is_typeddict(kind):
        return _typed_dict(kind)
    if dataclasses.is_dataclass(kind):
        return _fields(kind, [f.name for f in dataclasses.fields(kind) if f.init])
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _fields(kind, list(kind._fields))
    if issubclass(kind, tuple):
        return _tuple(args)
    if issubclass(kind, Mapping) or kind is MutableMapping:
        return _mapping(*(args or (str, Any)))
    if issubclass(kind, set | frozenset):
        return _items(kind, args[0] if args else Any)
    if issubclass(kind, Collection) and not issubclass(kind, str | bytes):
        return _items(list, args[0] if args else Any)
    raise TypeError(f"values of type {kind.__name__} can't be stored as JSON")


def _at(place: str, step: Step, value: Any) -> Any:
    """Take a step at a part of a value; who fails there says where that is."""
    try:
        return step(value)
    except MisfitError as error:
        raise MisfitError(error.text, place + error.place) from None


def _items(kind: Callable[[Iterable[Any]], Any], item: Any) -> Codec:
    """Make the codec of a list, or of a set, whose items are alike."""
    inner = codec_of(item)
    name = f"{getattr(kind, '__name__', 'list')} of {inner.name}"
    ordered = kind is list

    def encode(value: Any) -> list[Any]:
        right = isinstance(value, list | tuple) if ordered else isinstance(value, set | frozenset)
        if not right:
            raise _misfit(name, value)
        made = [_at(f"[{at}]", inner.encode, one) for at, one in enumerate(value)]
        return made if ordered else sorted(made, key=json.dumps)

    def decode(value: Any) -> Any:
        if not isinstance(value, list):
            raise _misfit(name, value)
        return kind(_at(f"[{at}]", inner.decode, one) for at, one in enumerate(value))

    return Codec(name, encode, decode)


def _tuple(args: tuple[Any, ...]) -> Codec:
    if not args or (len(args) == 2 and args[1] is Ellipsis):
        inner = _items(list, args[0] if args else Any)
        return Codec(inner.name, inner.encode, lambda value: tuple(inner.decode(value)))
    parts = [codec_of(arg) for arg in args if arg != ()]
    name = f"tuple of {len(parts)}"

    def check(value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(parts):
            raise _misfit(name, value)
        return enumerate(zip(parts, value, strict=True))

    def encode(value: Any) -> list[Any]:
        return [_at(f"[{at}]", part.encode, one) for at, (part, one) in check(value)]

    def decode(value: Any) -> tuple[Any, ...]:
        return tuple(_at(f"[{at}]", part.decode, one) for at, (part, one) in check(value))

    return Codec(name, encode, decode)


def _mapping(key: Any, item: Any) -> Codec:
    """Make the codec of a mapping. Keys that JSON doesn't have are written as they are, as text."""
    keys, items = codec_of(key), codec_of(item)
    name = f"dict of {items.name}"

    def encode(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _misfit(name, value)
        made = {}
        for one, what in value.items():
            written = _at(f"[{_shown(one)}]", keys.encode, one)
            text = written if isinstance(written, str) else json.dumps(written)
            made[text] = _at(f"[{_shown(one)}]", items.encode, what)
        if len(made) < len(value):
            raise MisfitError("has keys that are written alike")
        return made

    def decode(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _misfit(name, value)
        return {
            _at(f"[{text!r}]", _key_of, text): _at(f"[{text!r}]", items.decode, what)
            for text, what in value.items()
        }

    def _key_of(text: str) -> Any:
        try:
            return keys.decode(text)
        except MisfitError:
            try:
                return keys.decode(json.loads(text))
            except ValueError:
                raise _misfit(keys.name, text) from None

    return Codec(name, encode, decode)


def _enum(kind: type[Enum]) -> Codec:
    """Make the codec of an enum, whose members are written by name: values may be anything."""

    def encode(value: Any) -> str:
        if not isinstance(value, kind):
            raise _misfit(kind.__name__, value)
        return str(value.name)

    def decode(value: Any) -> Enum:
        try:
            return kind[value]
        except (KeyError, TypeError):
            raise _misfit(f"a name of {kind.__name__}", value) from None

    return Codec(kind.__name__, encode, decode)


def _literal(values: tuple[Any, ...]) -> Codec:
    name = f"one of {', '.join(map(repr, values))}"

    def check(value: Any) -> Any:
        for known in values:
            if known == value and type(known) is type(value):
                return value
        raise _misfit(name, value)

    for one in values:
        if not isinstance(one, str | int | bool | None):
            raise TypeError(f"the literal {one!r} can't be stored as JSON")
    return Codec(name, check, check)


def _union(args: tuple[Any, ...]) -> Codec:
    """Make the codec of a choice. What would be read as another type than it was is refused."""
    choices = [codec_of(arg) for arg in args]
    name = " or ".join(choice.name for choice in choices)

    def decode_by(value: Any) -> tuple[Codec, Any]:
        for choice in choices:
            try:
                return choice, choice.decode(value)
            except MisfitError:
                continue
        raise _misfit(name, value)

    def encode(value: Any) -> Any:
        for choice in choices:
            try:
                made = choice.encode(value)
            except MisfitError:
                continue
            if len(choices) > 2 or choice is not choices[0]:
                reader, read = decode_by(made)
                if reader is not choice and read != value:
                    raise MisfitError(f"is {choice.name}, but would be read as {reader.name}")
            return made
        raise _misfit(name, value)

    return Codec(name, encode, lambda value: decode_by(value)[1])


# -- classes with fields --------------------------------------------------------------------


def _fields(kind: Any, names: list[str]) -> Codec:
    """Make the codec of a class that is made of its fields, by their names."""
    parts: dict[str, Codec] = {}

    def known() -> dict[str, Codec]:
        # Late, as a class may have fields of its own kind.
        if not parts:
            hints = get_type_hints(kind, include_extras=True)
            parts.update((name, codec_of(hints.get(name, Any))) for name in names)
        return parts

    def encode(value: Any) -> dict[str, Any]:
        if not isinstance(value, kind):
            raise _misfit(kind.__name__, value)
        return {
            name: _at(f".{name}", part.encode, getattr(value, name))
            for name, part in known().items()
        }

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(kind.__name__, value)
        found = known()
        if unknown := sorted(value.keys() - found.keys()):
            raise MisfitError(f"has no {unknown[0]!r} (a field of {kind.__name__} once?)")
        made = {name: _at(f".{name}", found[name].decode, one) for name, one in value.items()}
        try:
            return kind(**made)
        except (TypeError, ValueError) as error:
            raise MisfitError(f"makes no {kind.__name__}: {error}") from None

    return Codec(kind.__name__, encode, decode)


def _typed_dict(kind: Any) -> Codec:
    hints: dict[str, Codec] = {}
    required = frozenset(kind.__required_keys__)

    def known() -> dict[str, Codec]:
        if not hints:
            hints.update((n, codec_of(_bare(h))) for n, h in get_type_hints(kind).items())
        return hints

    def by(step: str) -> Step:
        def go(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise _misfit(kind.__name__, value)
            found = known()
            if wrong := sorted(set(value) ^ (required | (set(value) & found.keys()))):
                raise MisfitError(f"has no, or too much of, {wrong[0]!r} of {kind.__name__}")
            return {n: _at(f"[{n!r}]", getattr(found[n], step), one) for n, one in value.items()}

        return go

    return Codec(kind.__name__, by("encode"), by("decode"))


def _bare(hint: Any) -> Any:
    """Take `Required` and `NotRequired` off a hint."""
    return get_args(hint)[0] if str(get_origin(hint)).endswith("Required") else hint


def _foreign(kind: type) -> Codec | None:
    """Make the codec of a class of msgspec or pydantic, if whoever uses it has imported these."""
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and issubclass(kind, msgspec.Struct):
        return _by_library(
            kind,
            lambda value: json.loads(msgspec.json.encode(value)),
            lambda value: msgspec.json.decode(json.dumps(value).encode(), type=kind),
            msgspec.MsgspecError,
        )
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        return _by_library(
            kind,
            lambda value: value.model_dump(mode="json"),
            lambda value: kind.model_validate_json(json.dumps(value)),  # type: ignore[attr-defined]
            pydantic.ValidationError,
        )
    return None


def _by_library(kind: type, write: Step, read: Step, errors: type[Exception]) -> Codec:
    def encode(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _misfit(kind.__name__, value)
        return write(value)

    def decode(value: Any) -> Any:
        try:
            return read(value)
        except errors as error:
            said = str(error).partition("\n")[0]
            raise MisfitError(f"makes no {kind.__name__}: {said}") from None

    return Codec(kind.__name__, encode, decode)
