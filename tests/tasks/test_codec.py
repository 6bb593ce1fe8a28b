"""Arguments and results as JSON: what comes back is what went in, or it is refused in words."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as some

from queuectl.tasks.codec import MisfitError, codec_of

UserId = NewType("UserId", int)


class Colour(Enum):
    RED = object()
    BLUE = (1, 2)


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: float = 0.0


@dataclass
class Line:
    points: list[Point]
    label: str = ""
    colour: Colour = Colour.RED


@dataclass
class Tree:
    name: str
    children: list["Tree"] = field(default_factory=list)


class Options(TypedDict):
    depth: int
    label: NotRequired[str]


class Struct(msgspec.Struct):
    when: datetime
    size: int = 0


class Model(pydantic.BaseModel):
    price: Decimal
    name: str = ""


KEPT: list[tuple[Any, Any]] = [
    (int, 10**30),
    (float, 1),
    (float, -0.5),
    (bool, True),
    (str, "\x00 \ud800 ü"),
    (None, None),
    (bytes, bytes(range(256))),
    (bytearray, bytearray(b"\xff")),
    (datetime, datetime(2026, 3, 29, 2, 30, 1, 7, tzinfo=UTC)),
    (datetime, datetime(1, 1, 1)),
    (date, date(2026, 2, 28)),
    (time, time(23, 59, 59, 999_999)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (UUID, UUID(int=7)),
    (Decimal, Decimal("0.10")),
    (Path, Path("/tmp/a b")),
    (PurePosixPath, PurePosixPath("x")),
    (Colour, Colour.BLUE),
    (Level, Level.LOW),
    (list[int], [1, 2]),
    (list, [1, "a", None]),
    (Sequence[UUID], [UUID(int=1)]),
    (tuple[int, ...], (1, 2)),
    (tuple[int, str], (1, "a")),
    (tuple[()], ()),
    (set[int], {3, 1}),
    (frozenset[str], frozenset({"a"})),
    (dict[str, int], {"a": 1}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[UUID, bytes], {UUID(int=1): b"x"}),
    (dict[tuple[int, int], str], {(1, 2): "a"}),
    (dict, {"a": [1, {"b": None}]}),
    (int | None, None),
    (int | str, "1"),
    (str | int | None, 1),
    (datetime | date, date(2026, 1, 1)),
    (Literal["a", 1], 1),
    (Annotated[int, "some"], 3),
    (UserId, UserId(4)),
    (Any, {"a": [1, 2.5, "x", None, True]}),
    (Line, Line([Point(1, 2.0)], "l", Colour.BLUE)),
    (Tree, Tree("a", [Tree("b", [Tree("c")])])),
    (Options, {"depth": 1}),
    (Options, {"depth": 1, "label": "x"}),
    (Struct, Struct(datetime(2026, 1, 1, tzinfo=UTC), 3)),
    (Model, Model(price=Decimal("1.50"))),
    (list[Model | None], [None, Model(price=Decimal(1))]),
]


@pytest.mark.parametrize(("annotation", "value"), KEPT, ids=lambda one: str(one)[:40])
def test_what_is_read_is_what_was_written(annotation: Any, value: Any) -> None:
    codec = codec_of(annotation)
    text = json.dumps(codec.encode(value), allow_nan=False)
    read = codec.decode(json.loads(text))
    assert read == value
    assert type(read) in (type(value), float if annotation is float else type(value))


REFUSED: list[tuple[Any, Any, str, str]] = [
    (int, "1", "", "must be int, not str '1'"),
    (int, True, "", "must be int, not bool 'True'"),
    (int, 1.0, "", "must be int, not float '1.0'"),
    (float, float("nan"), "", "must be a number that JSON has, not nan"),
    (float, 10**400, "", "must be a number that a float can hold"),
    (str, b"a", "", "must be str, not bytes"),
    (bytes, "a", "", "must be bytes, not str 'a'"),
    (date, datetime(2026, 1, 1), "", "must be date, not datetime"),
    (Colour, "RED", "", "must be Colour, not str 'RED'"),
    (list[int], [1, "a"], "[1]", "must be int, not str 'a'"),
    (list[int], "ab", "", "must be list of int, not str 'ab'"),
    (set[int], [1], "", "must be set of int, not list '[1]'"),
    (tuple[int, int], (1,), "", "must be tuple of 2, not tuple '(1,)'"),
    (dict[str, int], {"a": "b"}, "['a']", "must be int, not str 'b'"),
    (dict[str, int], {1: 2}, "['1']", "must be str, not int '1'"),
    (int | None, "x", "", "must be int or None, not str 'x'"),
    (Literal["a"], "b", "", "must be one of 'a', not str 'b'"),
    (Line, Line([Point(1), Point("z")]), ".points[1].x", "must be int, not str 'z'"),  # type: ignore[arg-type]
    (Any, object(), "", "must be JSON ("),
    (Any, (1, 2), "", "must be JSON; annotate it"),
    (Any, {1: 2}, "", "must be JSON; annotate it"),
    (str | datetime, datetime(2026, 1, 1), "", "is datetime, but would be read as str"),
    (Model, {"price": "1"}, "", "must be Model, not dict"),
]


@pytest.mark.parametrize(("annotation", "value", "place", "text"), REFUSED)
def test_what_does_not_fit_is_refused(annotation: Any, value: Any, place: str, text: str) -> None:
    with pytest.raises(MisfitError) as caught:
        codec_of(annotation).encode(value)
    assert caught.value.place == place
    assert caught.value.text.startswith(text)


@pytest.mark.parametrize(
    ("annotation", "stored"),
    [
        (UUID, "x"),
        (datetime, "yesterday"),
        (bytes, "%%"),
        (Decimal, 1),
        (Decimal, "x"),
        (timedelta, [1]),
        (Colour, "GREEN"),
        (Colour, []),
        (Line, {"points": [], "weight": 1}),
        (Line, {}),
        (Line, []),
        (Options, {"label": "x"}),
        (Options, {"depth": 1, "more": 2}),
        (Model, {"price": "x"}),
        (Struct, {}),
        (dict[int, int], {"a": 1}),
        (tuple[int, int], [1]),
    ],
)
def test_what_was_stored_by_others_is_not_believed(annotation: Any, stored: Any) -> None:
    with pytest.raises(MisfitError):
        codec_of(annotation).decode(stored)


@pytest.mark.parametrize("annotation", [object, type, open, complex, 3, list[complex]])
def test_a_type_without_json_is_named(annotation: Any) -> None:
    if annotation is object:
        codec_of(annotation)
        return
    with pytest.raises(TypeError, match=r"can't be stored|isn't a type"):
        codec_of(annotation)


_JSON = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.text()
    | some.floats(allow_nan=False, allow_infinity=False),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


@given(_JSON)
def test_json_stays_as_it_is(value: Any) -> None:
    codec = codec_of(Any)
    assert codec.decode(json.loads(json.dumps(codec.encode(value)))) == value


@given(some.dictionaries(some.datetimes(timezones=some.just(UTC)), some.sets(some.binary())))
def test_nested_values_come_back(value: dict[datetime, set[bytes]]) -> None:
    codec = codec_of(dict[datetime, frozenset[bytes]])
    frozen = {when: frozenset(what) for when, what in value.items()}
    try:
        stored = codec.encode(frozen)
    except MisfitError:
        return  # Two that are equal in another zone.
    assert codec.decode(json.loads(json.dumps(stored))) == frozen
