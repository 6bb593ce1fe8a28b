"""`dataclass` for values, made without generating code.

The standard one writes source for each class and compiles it, which was a fifth of what a short
command costs. This one gives all classes the same methods, which go through the fields. It makes
what `dataclasses.dataclass(frozen=True, slots=True)` makes, `__post_init__` included, type checkers
take it for that, and `dataclasses.replace`, `fields` and `asdict` can be used on what it made.

`rowclass` is the same for values that are rows of a table: each *is* the tuple of what is in its
fields. To make one of dozens of fields takes a tenth of the time, as they aren't filled one by one.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = [
    "dataclass",
    "field",
    "fields",
    "in_order",
    "names_of",
    "needed_of",
    "quicken",
    "replace",
    "rowclass",
]

try:
    # What a namedtuple reads its fields with: in a third of the time that a property takes.
    from _collections import _tuplegetter as _reader  # type: ignore[import-not-found]
except ImportError:

    def _reader(place: int, doc: str | None) -> Any:
        return property(itemgetter(place), doc=doc)


T = TypeVar("T")
_MISSING: Any = object()


class _Field:
    """What is known of a field; the arguments mean what they mean to `dataclasses.field`."""

    __slots__ = ("compare", "default", "default_factory", "metadata", "name", "repr")

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Callable[[], Any] | None = None,
        compare: bool = True,
        repr: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = ""
        self.default = default
        self.default_factory = default_factory
        self.compare = compare
        self.repr = repr
        self.metadata = metadata or {}


def in_order(kind: type[T], values: Iterable[Any]) -> T:
    """Make a value of what is in its fields, all of them in their order: for those who make many.

    Names take three times as long.
    """
    made: Any
    if issubclass(kind, tuple):
        made = _row_in_order(kind, values)
    else:
        made = kind.__new__(kind)
        for set_field, value in zip(made._setters_, values, strict=True):
            set_field(made, value)
    return made  # type: ignore[no-any-return]


def _replace_in_row(row: Any, changes: dict[str, Any]) -> Any:
    """Make a row like another one, of which a few values are others."""
    values = list(row)
    for name, value in changes.items():
        if name not in row._places_:
            raise TypeError(f"{type(row).__name__}() has no field {name!r}")
        values[row._places_[name]] = value
    return tuple.__new__(type(row), values)


def _row_in_order(kind: Any, values: Iterable[Any]) -> Any:
    made = tuple.__new__(kind, values)
    if len(made) != len(kind._values_):
        wanted = len(kind._values_)
        raise ValueError(f"{kind.__name__} takes {wanted} arguments in order, not {len(made)}")
    return made


def names_of(kind: Any) -> list[str]:
    """Return the names of the fields of a class of values, or of a named tuple; none of others."""
    if (known := getattr(kind, "_values_", None)) is not None:
        return [spec.name for spec in known]
    return list(getattr(kind, "_fields", ()))


def needed_of(kind: Any) -> list[str]:
    """Return the names of those that have no default."""
    if (known := getattr(kind, "_values_", None)) is not None:
        return [s.name for s in known if s.default is _MISSING and s.default_factory is None]
    return [name for name in kind._fields if name not in kind._field_defaults]


def quicken(*kinds: Any) -> None:
    """Generate code for the making of such values after all: for a process that makes thousands."""
    for kind in kinds:
        known: list[_Field] = kind._values_
        assert not any(spec.default_factory for spec in known)
        assert not hasattr(kind, "__post_init__")
        names = [spec.name for spec in known]
        scope: dict[str, Any] = {f"usual_{spec.name}": spec.default for spec in known}
        given = (
            spec.name if spec.default is _MISSING else f"{spec.name}=usual_{spec.name}"
            for spec in known
        )
        marker = [] if kind.__match_args__ else ["*"]
        if issubclass(kind, tuple):
            scope["made_of"] = tuple.__new__
            lines = [f"def __new__({', '.join(['kind', *marker, *given])}):"]
            lines += [f"    return made_of(kind, ({', '.join(names)},))"]
        else:
            lines = [f"def __init__({', '.join(['self', *marker, *given])}):"]
            lines += [f"    set_{name}(self, {name})" for name in names]
            scope |= {f"set_{n}": set_ for n, set_ in zip(names, kind._setters_, strict=True)}
        exec("\n".join(lines), scope)
        name = "__new__" if issubclass(kind, tuple) else "__init__"
        setattr(kind, name, scope[name])


def _dataclass(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type[Any]], Any]:
    assert frozen and slots, "what may change is for the standard dataclass"

    def make(cls: type[Any]) -> Any:
        known = [_read_field(cls, name) for name in cls.__annotations__]
        names = tuple(spec.name for spec in known)
        made = _made_anew(cls, {"__slots__": names} | _description(known, kw_only))
        made._setters_ = [vars(made)[name].__set__ for name in names]
        made.__init__ = _initializer(made, known, kw_only)
        return made

    return make


def _rowclass(*, frozen: bool, slots: bool, kw_only: bool) -> Callable[[type[Any]], Any]:
    assert frozen and slots and kw_only, "a row can't be changed, and its fields have names"

    def make(cls: type[Any]) -> Any:
        known = [_read_field(cls, name) for name in cls.__annotations__]
        readers = {spec.name: _reader(n, None) for n, spec in enumerate(known)}
        more = {
            "__slots__": (),
            "__new__": _row_of_names,
            "__eq__": _is_equal_row,
            "__ne__": _is_other_row,
            "__reduce__": _reduce_row,
            "_places_": {spec.name: at for at, spec in enumerate(known)},
        }
        return _made_anew(cls, readers | more | _description(known, kw_only), of=(tuple,))

    return make


def _row_of_names(kind: Any, /, **given: Any) -> Any:
    usual = {spec.name: spec.default for spec in kind._values_ if spec.default is not _MISSING}
    values = usual | given
    names = [spec.name for spec in kind._values_]
    if values.keys() != set(names):
        wrong = ", ".join(sorted(values.keys() ^ set(names)))
        raise TypeError(f"{kind.__name__}() lacks a field, or has none of this name: {wrong}")
    return tuple.__new__(kind, map(values.__getitem__, names))


def _is_equal_row(self: Any, other: Any) -> bool:
    # Never left to the other: it may be a tuple, and equal as such.
    return other.__class__ is self.__class__ and _equals(self, other)


def _is_other_row(self: Any, other: Any) -> bool:
    return not _is_equal_row(self, other)


def _reduce_row(self: Any) -> tuple[Any, ...]:
    return _row_in_order, (self.__class__, tuple(self))


def _description(known: list[_Field], kw_only: bool) -> dict[str, Any]:
    """Return what a class says of its fields."""
    compared = (spec.name for spec in known if spec.compare)
    return {
        "__match_args__": () if kw_only else tuple(spec.name for spec in known),
        "_values_": known,
        "_compared_": staticmethod(attrgetter(*compared)),
        "__dataclass_fields__": _StandardFields(),
    }


def _read_field(cls: type[Any], name: str) -> _Field:
    given = vars(cls).get(name, _MISSING)
    spec = given if isinstance(given, _Field) else _Field(default=given)
    spec.name = name
    return spec


def _made_anew(cls: type[Any], more: dict[str, Any], of: tuple[type, ...] = ()) -> Any:
    """Make the class once more: slots are laid out as a class is made, in place of the defaults."""
    left_out = {"__dict__", "__weakref__", *more["__slots__"]}
    namespace = {name: value for name, value in vars(cls).items() if name not in left_out}
    return type(cls.__name__, of or cls.__bases__, _METHODS | namespace | more)


def _initializer(made: Any, known: list[_Field], kw_only: bool) -> Callable[..., None]:
    names = [spec.name for spec in known]
    setters: dict[str, Any] = dict(zip(names, made._setters_, strict=True))
    defaults = {spec.name: spec.default for spec in known if spec.default is not _MISSING}
    factories = {
        spec.name: spec.default_factory for spec in known if spec.default_factory is not None
    }

    settle = vars(made).get("__post_init__")

    def fill(self: Any, *positional: Any, **given: Any) -> None:
        if positional:
            if (
                kw_only
                or len(positional) > len(names)
                or not given.keys().isdisjoint(names[: len(positional)])
            ):
                raise TypeError(f"{made.__name__}() takes its fields by name")
            given.update(zip(names, positional, strict=False))
        values = defaults | given if defaults else given
        for name, new in factories.items():
            if name not in given:
                values[name] = new()
        try:
            for name, value in values.items():
                setters[name](self, value)
        except KeyError:
            raise TypeError(f"{made.__name__}() has no field {name!r}") from None
        if len(values) != len(setters):
            lacking = ", ".join(repr(name) for name in names if name not in values)
            raise TypeError(f"{made.__name__}() lacks {lacking}")
        if settle is not None:
            settle(self)

    return fill


def _refuse_change(self: Any, name: str, value: object = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared_(self) == self._compared_(other)


def _hash(self: Any) -> int:
    return hash(self._compared_(self))


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in self._values_ if f.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, spec.name) for spec in self._values_]


def _set_state(self: Any, state: list[Any]) -> None:
    for set_field, value in zip(self._setters_, state, strict=True):
        set_field(self, value)


def _fields(of: Any) -> tuple[_Field, ...]:
    return tuple(of._values_)


def _replace(value: Any, **changes: Any) -> Any:
    if isinstance(value, tuple):
        return _replace_in_row(value, changes)
    kept = {
        spec.name: getattr(value, spec.name) for spec in value._values_ if spec.name not in changes
    }
    return value.__class__(**kept, **changes)


class _StandardFields:
    """What the standard module looks for in a dataclass, made when it looks."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Any]:
        from dataclasses import MISSING, field, make_dataclass

        made = make_dataclass(
            owner.__name__,
            [
                (
                    spec.name,
                    owner.__annotations__[spec.name],
                    field(
                        default=MISSING if spec.default is _MISSING else spec.default,
                        default_factory=spec.default_factory or MISSING,
                        compare=spec.compare,
                        repr=spec.repr,
                        metadata=spec.metadata,
                    ),
                )
                for spec in owner._values_
            ],
            kw_only=True,
        )
        owner.__dataclass_fields__ = made.__dataclass_fields__  # type: ignore[attr-defined]
        found: dict[str, Any] = owner.__dataclass_fields__
        return found


_METHODS: dict[str, Any] = {
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_change,
    "__eq__": _equals,
    "__hash__": _hash,
    "__repr__": _repr,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
    "__replace__": _replace,
}

if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
    from dataclasses import dataclass as rowclass
else:
    dataclass, field, fields, replace = _dataclass, _Field, _fields, _replace
    rowclass = _rowclass
