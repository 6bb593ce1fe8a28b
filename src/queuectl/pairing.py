"""Elements of an array or a sweep that wait for those of another, one for one.

Pure: each is found by what it has to itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from queuectl.dependencies import Wanted, parent_text
from queuectl.errors import UsageError
from queuectl.parameters import INDEX, Parameters, legible

Key = tuple[str, ...]


class Element(NamedTuple):
    """A job of an array or a sweep: its id, and what it has to itself."""

    id: str
    parameters: Parameters


def pair(
    requests: Sequence[Mapping[str, Any]],
    elements: Iterable[Element],
    group: str,
    wanted: Wanted = Wanted.OK,
) -> list[dict[str, Any]]:
    """Have each of these requests wait for the element of a group that is its own.

    That is the one with which it has all parameters in common that all of them have; if there are
    none but the numbers, the one with its number. Each has exactly one, or it is a `UsageError`.
    """
    others = list(elements)
    if len(others) != len(requests):
        raise UsageError(
            f"Group {group} has {len(others):,} elements, and these are {len(requests):,}: each"
            " waits for one of its own; nothing was enqueued.",
            advice=_ALL_OF_THEM.format(group),
        )
    key = _key([request.get("parameters") or {} for request in requests], others)
    ids: dict[Key, str] = {}
    for other in others:
        if key(other.parameters) in ids:
            raise UsageError(
                f"Group {group} has several elements with {_told(key(other.parameters))}; nothing"
                " was enqueued.",
                advice=_ALL_OF_THEM.format(group),
            )
        ids[key(other.parameters)] = other.id
    return [_waiting(request, key, ids, group, wanted) for request in requests]


_ALL_OF_THEM = "with --after-group {}, each waits for all of them."


def _key(own: Sequence[Parameters], others: Sequence[Element]) -> Callable[[Parameters], Key]:
    """Return what knows an element by what all of them have to themselves."""
    names = set(own[0]) if own else set()
    for parameters in (*own, *(other.parameters for other in others)):
        names.intersection_update(parameters)
    known = sorted(names - {INDEX}) or [INDEX]
    return lambda parameters: tuple([f"{name}={parameters.get(name)}" for name in known])


def _waiting(
    request: Mapping[str, Any],
    key: Callable[[Parameters], Key],
    ids: dict[Key, str],
    group: str,
    wanted: Wanted,
) -> dict[str, Any]:
    """Return a request that waits for its element as well, which is nobody else's then."""
    mine = key(request.get("parameters") or {})
    id = ids.pop(mine, None)
    if id is None:
        raise UsageError(
            f"Group {group} has no element with {_told(mine)} for one of these to wait for; nothing"
            " was enqueued.",
            advice=_ALL_OF_THEM.format(group),
        )
    after = request.get("after") or ()
    first = [after] if isinstance(after, str) else [*after]
    return {**request, "after": [*first, parent_text(id, wanted)]}


def _told(key: Key) -> str:
    return ", ".join(map(legible, key))
