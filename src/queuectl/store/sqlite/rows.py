"""One statement for many rows, in SQLite's words.

What it costs to begin and end a statement, to find out which rows it changed and to bind values by
their names is more than what is done to a row. So the values of many rows are bound in one table,
by their places.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, compress, count, islice
from operator import itemgetter
from typing import Any

from queuectl.store.driver import Params, Row
from queuectl.store.statements.shared import SAID

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


class Alike:
    """A statement that stores new jobs which share all they don't have each for itself.

    What they share is bound only once. A column that none of them has isn't named: to leave it
    empty is cheaper than to bind that it is. Some say something else where nothing is said.
    """

    def __init__(self, text: str, columns: str) -> None:
        """Take the beginning of a rendered statement, and the columns that it names."""
        self._text = text
        self._columns = columns
        self._names = columns.split(", ")
        self._texts: dict[tuple[int, Row], str] = {}
        self._said = [name in SAID for name in self._names]

    def statement(self, own: Sequence[Row], shared: Row) -> tuple[str, Row]:
        """Return a text and its values, for columns with what each has and what all of them have.

        The columns follow each other as they are named.
        """
        jobs = len(own[0])
        given = [column for column in own if any(column)]
        said = self._said[len(own) :]
        is_named = [value is not None or it for value, it in zip(shared, said, strict=True)]
        values = list(compress(shared, is_named))
        at, apart = len(values), len(given)
        values += [None] * (apart * jobs)
        for start, column in enumerate(given, at):
            values[start::apart] = column
        named = (*(column in given for column in own), *is_named)
        text = self._texts.get((jobs, named))
        if text is None:
            text = self._texts[jobs, named] = self._make(jobs, named, apart)
        return text, tuple(values)

    def _make(self, jobs: int, named: Row, apart: int) -> str:
        names = list(compress(self._names, named))
        shared = [f"?{n}" for n in range(1, len(names) - apart + 1)]
        own = (f"?{n}" for n in count(len(shared) + 1))
        rows = (", ".join([*islice(own, apart), *shared]) for _ in range(jobs))
        begun = self._text.replace(self._columns, ", ".join(names))
        return begun + ", ".join(f"({row})" for row in rows)
