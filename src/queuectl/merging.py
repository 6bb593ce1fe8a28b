"""Merging requests: the fields of one laid over those of another, such as defaults for many."""

from collections.abc import Mapping
from typing import Any

from queuectl.fields import by_column

_NAMES = (
    [name for field in same for name in (field.name, *field.also)]
    for same in by_column().values()
    if same[0].kind != "labels"
)
SAME = [
    {"command", "cmd", "argv", "data", "data_base64"},
    *(set(names) for names in _NAMES if len(names) > 1),
    # A state says nothing without its trace.
    {"traceparent", "tracestate"},
]
"""Names that say the same thing in several ways: the stronger one drives out the others."""


def merge_requests(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    """Lay stronger fields over weaker ones: they replace, but tags add up and env merges."""
    result = {**without_rivals(weak, strong), **strong}
    tags = [_tags(fields) for fields in (weak, strong)]
    if all(tags):
        result.pop("tag", None)
        result["tags"] = [*tags[0], *tags[1]]
    env = [fields.get("env") for fields in (weak, strong)]
    if all(isinstance(part, Mapping) for part in env):
        result["env"] = {**env[0], **env[1]}  # type: ignore[dict-item]
    return result


def without_rivals(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weaker fields but for those that stronger ones say too, in whichever way."""
    given = {_plain(name) for name in strong}
    hidden = {name for same in SAME if given.intersection(same) for name in same}
    if "argv" in given:
        # Exact arguments are for no shell.
        hidden.add("shell")
    return {name: value for name, value in weak.items() if _plain(name) not in hidden}


def _tags(fields: Mapping[str, Any]) -> list[Any]:
    tags = fields.get("tags", fields.get("tag"))
    if isinstance(tags, str):
        return [tags]
    return list(tags) if isinstance(tags, list | tuple) else []


def _plain(name: object) -> str:
    return str(name).strip().replace("-", "_")
