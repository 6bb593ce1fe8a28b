"""What jobs need that no node has at all, in words: labels, and more of a resource than there is.

No clock, no store.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from queuectl.admission import Serving
from queuectl.job import base_handler
from queuectl.resources import (
    DEVICES,
    NOTHING,
    WHOLE,
    Needs,
    needs_of,
    room_of,
    told,
    told_amount,
    told_needs,
)

NAMED = 3


class Shortage(NamedTuple):
    """That jobs of some classes can't be run by any node that there is."""

    handlers: tuple[str, ...]
    text: str
    """A clause for people, such as `no worker has label ssd`."""
    of_labels: bool = False


def is_short(handler: str, nodes: Iterable[Serving]) -> bool:
    """Tell whether nodes would run a job if it needed nothing, but none has what it needs."""
    needs = needs_of(handler)
    if needs == NOTHING:
        return False
    able = [node for node in nodes if node.handles(base_handler(handler))]
    return bool(able) and not any(node.handles(handler) for node in able)


def shortages(handlers: Iterable[str], nodes: Sequence[Serving]) -> list[Shortage]:
    """Say what these nodes lack, of classes that are short of something."""
    found: list[Shortage] = []
    labels: dict[tuple[str, ...], list[str]] = {}
    amounts: dict[str, Needs] = {}
    for handler in handlers:
        needs = needs_of(handler)
        if needs is None:
            text = f"nobody can read what {handler.partition(' ')[0]} is"
            found.append(Shortage((handler,), text))
            continue
        missing = tuple(
            label for label in needs.labels if not any(label in node.labels for node in nodes)
        )
        if missing:
            labels.setdefault(missing, []).append(handler)
        else:
            amounts[handler] = needs
    for names, of_them in labels.items():
        what = f"label{'s' * (len(names) > 1)} {', '.join(names)}"
        found.append(Shortage(tuple(of_them), f"no worker has {what}", of_labels=True))
    if amounts:
        found.append(_too_much(amounts, nodes))
    return found


def _too_much(amounts: dict[str, Needs], nodes: Sequence[Serving]) -> Shortage:
    """Say that no node has so much, and what is the most of it that one has."""
    wanted = list(amounts.values())
    texts = list(dict.fromkeys(map(told_needs, wanted)))
    more = f", nor for {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    text = f"no worker has {'; or '.join(texts[:NAMED])}{more}"
    most = largest(node.resources for node in nodes)
    names = sorted({name for needs in wanted for name, _ in needs.amounts})
    there = [(name, most[name]) for name in names if most.get(name)]
    lacking = [name for name in names if not most.get(name)]
    said = [f"the most that one has is {told(there)}"] if there else []
    said += [f"none has any {', '.join(lacking)}"] if lacking else []
    return Shortage(tuple(amounts), f"{text} ({', and '.join(said)})" if said else text)


def largest(resources: Iterable[str]) -> dict[str, int]:
    """Return the most that any of these nodes has of each resource."""
    most: dict[str, int] = {}
    for one in resources:
        for name, many in room_of(one).totals().items():
            most[name] = max(most.get(name, 0), many)
    return most


def having(handlers: Iterable[str]) -> str:
    """Write the options of `worker start` for a node that has what these classes need."""
    most: dict[str, int] = {}
    labels: dict[str, None] = {}
    for handler in handlers:
        needs = needs_of(handler) or NOTHING
        labels |= dict.fromkeys(needs.labels)
        for name, many in needs.amounts:
            most[name] = max(most.get(name, 0), many)
    words = []
    if most:
        amounts = (f"{name}={_whole(name, many)}" for name, many in sorted(most.items()))
        words.append(f"--resources {','.join(amounts)}")
    words += [f"--label {label}" for label in labels]
    return " ".join(words)


def _whole(name: str, many: int) -> str:
    """Write an amount that a node can have: of devices no share."""
    whole = many + -many % WHOLE if name in DEVICES else many
    return told_amount(name, whole)
