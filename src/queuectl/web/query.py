"""Reads the query of a request by the parameters that its route knows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from queuectl.errors import UsageError, did_you_mean, shown
from queuectl.jsontext import LARGEST
from queuectl.web.route import Param


def read_names(given: Mapping[str, str]) -> dict[str, str]:
    """Return what stands in a path where its route has names."""
    try:
        return {name: _clean(unquote(text, errors="strict")) for name, text in given.items()}
    except UnicodeDecodeError:
        raise UsageError("A name in the path isn't UTF-8.") from None


def _clean(text: str) -> str:
    """Return a text unless it has what no database keeps in one."""
    if "\0" in text:
        raise UsageError(f"There can't be a NUL in {shown(text)}.")
    return text


def read_query(params: Sequence[Param], given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return what a query says, by name; what isn't known, or can't be read, is an error."""
    known = {param.name: param for param in params}
    said: dict[str, Any] = {}
    for name, text in given:
        param = known.get(name)
        if param is None:
            hint = did_you_mean(name, known, f"it takes {', '.join(known) or 'none'}.")
            raise UsageError(f"There is no parameter {shown(name)} here; {hint}")
        value = _read(param, _clean(text))
        if param.many:
            said.setdefault(name, []).append(value)
        elif name in said:
            raise UsageError(f"The parameter {name!r} is given twice.")
        else:
            said[name] = value
    return said


def _read(param: Param, text: str) -> Any:
    kind = param.schema.get("type")
    if kind == "boolean":
        if text not in ("true", "false"):
            raise UsageError(f"{param.name} is true or false, not {shown(text)}.")
        return text == "true"
    if kind in ("integer", "number"):
        return _number(param, text)
    choices = param.schema.get("enum")
    if choices is not None and text not in choices:
        raise UsageError(f"{param.name} is one of {', '.join(choices)}, not {shown(text)}.")
    return text


def _number(param: Param, text: str) -> float | int:
    try:
        value = int(text) if param.schema["type"] == "integer" else float(text)
    except ValueError:
        raise UsageError(f"{param.name} is a number, not {shown(text)}.") from None
    least, most = param.schema.get("minimum"), param.schema.get("maximum", LARGEST)
    # A number that is none fits nowhere.
    if (least is not None and not value >= least) or (most is not None and not value <= most):
        raise UsageError(f"{param.name} is a number from {least} to {most}, not {shown(text)}.")
    return value
