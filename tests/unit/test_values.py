"""Values behave as the standard frozen dataclass with slots does."""

import copy
import dataclasses
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from queuectl import values
from queuectl.job import Exited, NewJob, TimedOut
from queuectl.values import dataclass, field, fields, in_order, replace, rowclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """One of ours."""

    name: str
    size: int = 3
    seen: int = field(default=0, compare=False)
    secret: str = field(default="", repr=False)
    env: Mapping[str, str] = field(default_factory=dict)

    kind = "a constant"

    @property
    def double(self) -> int:
        """Two of it."""
        return self.size * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One of ours that puts right what it is given."""

    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))


def test_what_is_given_can_be_put_right() -> None:
    one = Settled(names=["a"])  # type: ignore[arg-type]
    assert one.names == ("a",)
    assert replace(one, names=["b"]) == Settled(names=("b",))  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(one)) == one


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """The same, made by the standard library."""

    name: str
    size: int = 3
    seen: int = dataclasses.field(default=0, compare=False)
    secret: str = dataclasses.field(default="", repr=False)
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)


@rowclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A value that is a row."""

    name: str
    size: int = 3
    seen: int = field(default=0, compare=False)
    secret: str = field(default="", repr=False)

    kind = "a constant"

    @property
    def double(self) -> int:
        """Two of it."""
        return self.size * 2


def test_it_is_what_is_under_test() -> None:
    assert values.dataclass is not dataclasses.dataclass
    assert values.rowclass is not dataclasses.dataclass


def test_fields_get_what_is_given_and_their_defaults() -> None:
    value = Mine(name="a", secret="s")
    assert (value.name, value.size, value.seen, value.secret, value.env) == ("a", 3, 0, "s", {})
    assert value.double == 6
    assert value.kind == "a constant"
    assert Mine(name="a").env is not Mine(name="a").env
    row = Row(secret="s", name="a")
    assert (row.name, row.size, row.seen, row.secret) == ("a", 3, 0, "s")
    assert (row.double, row.kind) == (6, "a constant")


@pytest.mark.parametrize(
    ("positional", "named"),
    [
        pytest.param((), {}, id="one is lacking"),
        pytest.param((), {"name": "a", "sise": 1}, id="one is unknown"),
        pytest.param((), {"sise": 1}, id="one is lacking, one unknown"),
        pytest.param(("a",), {}, id="by place"),
    ],
)
def test_wrong_arguments_are_type_errors(
    positional: tuple[Any, ...], named: dict[str, Any]
) -> None:
    for kind in (Mine, Row, Theirs):
        with pytest.raises(TypeError):
            kind(*positional, **named)


def test_by_place_where_that_is_allowed() -> None:
    assert Exited(3) == Exited(code=3)
    for positional, named in (((1, 2), {}), ((1,), {"code": 1})):
        with pytest.raises(TypeError):
            Exited(*positional, **named)
    match TimedOut(5):
        case TimedOut(after):
            assert after == 5


@pytest.mark.parametrize("value", [Mine(name="a"), Row(name="a")], ids=["ours", "row"])
def test_nothing_can_be_changed(value: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.size = 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.size
    with pytest.raises(AttributeError):
        value.more = 4
    assert not hasattr(value, "__dict__")


def test_equal_are_those_of_one_kind_with_equal_fields_that_count() -> None:
    assert Mine(name="a", seen=1) == Mine(name="a", seen=2)
    assert Mine(name="a") != Mine(name="b")
    theirs: Any = Theirs(name="a")
    assert Mine(name="a") != theirs
    assert Row(name="a", seen=1) == Row(name="a", seen=2)
    assert Row(name="a") != Row(name="b")
    bare: Any = ("a", 3, 0, "")
    assert Row(name="a") != bare
    assert hash(Row(name="a", seen=1)) == hash(Row(name="a", seen=2))
    other: Any = TimedOut(0)
    assert Exited(0) != other
    assert hash(Exited(7)) == hash(Exited(7))
    with pytest.raises(TypeError):
        hash(Mine(name="a"))


def test_repr_leaves_secrets_out() -> None:
    given: dict[str, Any] = {"name": "a", "secret": "hush", "seen": 5}
    assert repr(Mine(**given)) == repr(Theirs(**given)).replace("Theirs", "Mine")
    assert repr(Row(**given)) == "Row(name='a', size=3, seen=5)"


def test_copies_and_pickles_are_equal() -> None:
    for value in (NewJob(command="true", env={"A": "b"}, tags=("x",)), Row(name="a", seen=4)):
        for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert copied == value
            assert type(copied) is type(value)
            assert copied is not value


def test_replace_makes_a_changed_copy() -> None:
    value = Mine(name="a", seen=4)
    changed = replace(value, size=9)
    assert (changed.name, changed.size, changed.seen) == ("a", 9, 4)
    assert value.size == 3
    with pytest.raises(TypeError):
        replace(value, sise=9)  # type: ignore[call-arg]
    assert replace(Row(name="a", seen=4), size=9) == Row(name="a", size=9)


def test_in_order_takes_all_fields_by_their_place() -> None:
    assert in_order(Mine, ["a", 1, 2, "s", {}]) == Mine(name="a", size=1, seen=2, secret="s")
    for wrong in (["a", 1, 2, "s"], ["a", 1, 2, "s", {}, 5]):
        with pytest.raises(ValueError, match="argument"):
            in_order(Mine, wrong)
    assert in_order(Row, ["a", 1, 2, "s"]) == Row(name="a", size=1, seen=2, secret="s")
    for wrong in (["a", 1, 2], ["a", 1, 2, "s", 5]):
        with pytest.raises(ValueError, match="argument"):
            in_order(Row, wrong)


def test_fields_are_known_by_name() -> None:
    assert [f.name for f in fields(Mine)] == [f.name for f in dataclasses.fields(Theirs)]


def test_the_standard_functions_take_it_for_a_dataclass() -> None:
    value = Mine(name="a", seen=4)
    assert dataclasses.is_dataclass(Mine)
    assert dataclasses.asdict(value) == dataclasses.asdict(Theirs(name="a", seen=4))
    assert dataclasses.replace(value, size=9) == replace(value, size=9)
    row = Row(name="a", seen=4)
    assert dataclasses.asdict(row) == {"name": "a", "size": 3, "seen": 4, "secret": ""}
    assert dataclasses.replace(row, size=9) == replace(row, size=9)
    for mine, theirs in zip(dataclasses.fields(Mine), dataclasses.fields(Theirs), strict=True):
        assert (mine.name, mine.default, mine.compare) == (
            theirs.name,
            theirs.default,
            theirs.compare,
        )


def test_quickened_values_are_made_as_before() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        name: str
        size: int = 3

    @dataclass(frozen=True, slots=True)
    class Placed:
        name: str
        tags: tuple[str, ...] = ("a",)

    @rowclass(frozen=True, slots=True, kw_only=True)
    class InRow:
        name: str
        size: int = 3

    before = Named(name="x"), Placed("x"), InRow(name="x")
    values.quicken(Named, Placed, InRow)
    assert (Named(name="x"), Placed("x"), InRow(name="x")) == before
    assert (InRow(name="x", size=4).size, replace(InRow(name="y"), name="z").name) == (4, "z")
    assert (Named(name="x", size=4).size, Placed("x", ("b",)).tags) == (4, ("b",))
    assert replace(Placed(name="y"), name="z") == Placed("z")
    wrongs: list[Callable[[], object]] = [
        lambda: Named("x"),  # type: ignore[call-arg]
        lambda: InRow("x"),  # type: ignore[call-arg]
        lambda: Named(),  # type: ignore[call-arg]
        lambda: Placed("x", ("b",), 1),  # type: ignore[call-arg]
    ]
    for wrong in wrongs:
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(dataclasses.FrozenInstanceError):
        before[0].name = "other"  # type: ignore[misc]
