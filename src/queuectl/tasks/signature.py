"""The arguments of a function as one JSON object, by the names of its parameters, and back."""

import inspect
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, get_type_hints

from queuectl.errors import BadJobError, UsageError
from queuectl.tasks.codec import Codec, MisfitError, codec_of

LONGEST_DATA = 1 << 20
"""Bytes of the arguments of a job, and of a result."""
_SPREAD = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


class Parameter(NamedTuple):
    """One parameter of a function."""

    name: str
    kind: Any
    codec: Codec


class Signature:
    """What a function takes and returns."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        """Look at a function; raises `UsageError` if its arguments can't be stored."""
        self._name = name
        try:
            self._signature = inspect.signature(function)
            hints = get_type_hints(function, include_extras=True)
        except (NameError, TypeError, ValueError) as error:
            raise UsageError(f"The annotations of task {name} can't be read: {error}.") from None
        self._parameters = {
            parameter.name: Parameter(
                parameter.name, parameter.kind, self._codec(parameter.name, hints)
            )
            for parameter in self._signature.parameters.values()
        }
        self._returns = self._codec("return", hints)
        self.names = frozenset(self._parameters)
        self.defaults = {
            parameter.name: parameter.default
            for parameter in self._signature.parameters.values()
            if parameter.default is not inspect.Parameter.empty
        }
        """What is passed for parameters that nothing is given for."""

    def _codec(self, what: str, hints: Mapping[str, Any]) -> Codec:
        try:
            return codec_of(hints.get(what, Any))
        except TypeError as error:
            which = "what it returns" if what == "return" else f"parameter {what!r}"
            raise UsageError(f"Task {self._name}: {which}: {error}.") from None

    # -- arguments ----------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by the names of their parameters, or raise `BadJobError`."""
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise BadJobError(f"Task {self._name} can't be called like that: {error}.") from None

    def write(self, bound: Mapping[str, Any]) -> str:
        """Write bound arguments as JSON, or raise `BadJobError`."""
        written = {}
        for name, value in bound.items():
            parameter = self._parameters[name]
            try:
                written[name] = _over(parameter, parameter.codec.encode, value)
            except MisfitError as error:
                where = f"{name}{error.place}"
                raise BadJobError(f"Task {self._name}: {where} {error.text}.") from None
        text = json.dumps(written, ensure_ascii=False, separators=(",", ":"))
        if len(text.encode("utf-8", "surrogatepass")) > LONGEST_DATA:
            raise BadJobError(
                f"Task {self._name}: the arguments take more than {LONGEST_DATA:,} bytes;"
                " pass the name of a file."
            )
        return text

    def read(
        self, written: Any, *, is_sole: bool = False
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Read what `write` has written, maybe when the function was another; or `MisfitError`.

        If it `is_sole`, it is the one argument itself, such as what a hook is told.
        """
        if is_sole:
            if (sole := self.sole()) is None:
                raise MisfitError("it doesn't take one argument, as hooks are given")
            written = {sole: written}
        if not isinstance(written, dict):
            raise MisfitError("the arguments must be an object")
        if unknown := sorted(written.keys() - self._parameters.keys()):
            raise MisfitError(f"it has no parameter {unknown[0]!r}")
        bound = inspect.BoundArguments(self._signature, OrderedDict())
        for name, parameter in self._parameters.items():
            if name in written:
                try:
                    value = _over(parameter, parameter.codec.decode, written[name])
                except MisfitError as error:
                    raise MisfitError(f"{name}{error.place} {error.text}") from None
                is_all = parameter.kind is inspect.Parameter.VAR_POSITIONAL
                bound.arguments[name] = tuple(value) if is_all else value
            elif parameter.kind not in _SPREAD and (
                self._signature.parameters[name].default is inspect.Parameter.empty
            ):
                raise MisfitError(f"{name} is missing")
        return bound.args, bound.kwargs

    def sole(self) -> str | None:
        """Return the name of the parameter that takes a sole argument; None if none can."""
        try:
            bound = self._signature.bind(None)
        except TypeError:
            return None
        name = next(iter(bound.arguments))
        return None if self._parameters[name].kind in _SPREAD else name

    # -- arguments that are looked at -----------------------------------------------------

    def arguments(self, written: Any) -> dict[str, Any]:
        """Read written arguments by their names, as many as there are; or raise `MisfitError`."""
        return {
            name: _over(self._parameters[name], self._parameters[name].codec.decode, value)
            for name, value in written.items()
        }

    def written_part(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Write some arguments as `write` does; or raise `BadJobError`."""
        try:
            bound = self._signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise BadJobError(f"Task {self._name} can't be called like that: {error}.") from None
        return dict(json.loads(self.write(bound)))

    def whole(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """Return written arguments with the defaults of those that are missing."""
        left = {n: value for n, value in self.defaults.items() if n not in written}
        return {**self._written_defaults(left), **written}

    def _written_defaults(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in values.items():
            # A default needn't be what the annotation says.
            with suppress(BadJobError):
                found |= json.loads(self.write({name: value}))
        return found

    # -- results ------------------------------------------------------------------------

    def write_result(self, value: Any) -> str:
        """Write what a function returned as JSON, or raise `MisfitError`."""
        if value is None:
            return "null"
        text = json.dumps(self._returns.encode(value), ensure_ascii=False, separators=(",", ":"))
        if (
            len(text) > LONGEST_DATA // 4
            and len(text.encode(errors="surrogatepass")) > LONGEST_DATA
        ):
            raise MisfitError(f"takes more than {LONGEST_DATA:,} bytes; return the name of a file")
        return text

    def read_result(self, value: Any) -> Any:
        """Make what a function returned of its JSON, or raise `MisfitError`."""
        return None if value is None else self._returns.decode(value)


def _over(parameter: Parameter, step: Callable[[Any], Any], value: Any) -> Any:
    """Write or read the value of a parameter; one that takes the rest has several."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return [step(one) for one in value]
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return {name: step(one) for name, one in value.items()}
    return step(value)
