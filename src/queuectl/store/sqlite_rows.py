"""One statement for many rows, in SQLite's words.

What it costs to begin and end a statement, to find out which rows it changed and to bind values by
their names is more than what is done to a row. So the values of many rows are bound in one table,
by their places.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from queuectl.store.transactions import Params, Row

MOST_AT_ONCE = 64
"""Rows in one statement at most."""


class OfRows:
    """A statement about rows. Each number of rows makes another text, which SQLite then knows."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        """Take a rendered statement with `:rows` for the rows, and what it binds of each."""
        self._text = text
        self._row = f"({', '.join('?' * len(names))})"
        self._values: Callable[[Params], Row] = itemgetter(*names)
        self._texts: dict[int, str] = {}

    def for_all(self, rows: Sequence[Params]) -> Iterator[tuple[str, Row]]:
        """Yield texts, each with the values of as many rows as it is for, until all had their turn.

        The numbers are powers of two: they make any other out of a few, and are few themselves.
        """
        start = 0
        while left := len(rows) - start:
            size = min(1 << (left.bit_length() - 1), MOST_AT_ONCE)
            values: list[Any] = list(map(self._values, rows[start : start + size]))
            yield self.text(size), tuple(chain.from_iterable(values))
            start += size

    def text(self, size: int) -> str:
        """Return the statement for so many rows."""
        text = self._texts.get(size)
        if text is None:
            rows = ", ".join([self._row] * size)
            text = self._texts[size] = self._text.replace(":rows", rows)
        return text
