"""Whose turn it is among the queues of a node: by shares, or in strict order.

Facts in, a decision out: no clock, no store. A claim asks for the order of those that are ready,
which changes nothing; what the claim came to is told afterwards. Of a queue, each keeps its line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm
from typing import TypeVar

from queuectl.admission import Order, Serving

T = TypeVar("T")


class InOrder:
    """All jobs of a queue before any of the next."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def arrange(self, lines: Mapping[str, Sequence[T]]) -> Iterator[T]:
        """Yield the jobs of one queue after the other."""
        for name in self._names:
            yield from lines.get(name, ())

    def took(self, queues: Iterable[str]) -> None:
        """Nothing follows from it."""


class ByShare:
    """Each queue as much as its weight says, while others have jobs as well.

    It is start-time fair queueing: a job takes its queue the further the less that weighs, and who
    has come least far is next. One that had no jobs for a while goes on where the others are: it
    neither lost its share nor saved it up.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        whole = lcm(*weights.values())
        self._steps = {name: whole // weight for name, weight in weights.items()}
        self._places = dict.fromkeys(weights, 0)
        """How far each has come."""
        self._now = 0
        """How far the last that had its turn had come before."""

    def arrange(self, lines: Mapping[str, Sequence[T]]) -> Iterator[T]:
        """Yield the jobs of these queues by their shares, after those that were taken before."""
        places, now = dict(self._places), self._now
        heads = {name: list(reversed(lines[name])) for name in self._steps if lines.get(name)}
        while heads:
            name = min(heads, key=lambda name: max(places[name], now))
            yield heads[name].pop()
            if not heads[name]:
                del heads[name]
            now = max(places[name], now)
            places[name] = now + self._steps[name]

    def took(self, queues: Iterable[str]) -> None:
        """Move on the queues that had their turns."""
        for name in queues:
            self._now = max(self._places[name], self._now)
            self._places[name] = self._now + self._steps[name]


def order_of(serving: Serving) -> Order | None:
    """Return the order in which a node takes jobs of its queues; None if it has none of its own."""
    if len(serving.names) < 2:
        return None
    if serving.weights:
        return ByShare(dict(zip(serving.names, serving.weights, strict=True)))
    return InOrder(serving.names) if serving.in_order else None
