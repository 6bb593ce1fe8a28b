"""One statement for many rows, in MySQL's own words.

A table made of one bound JSON text, as PostgreSQL gets it, would cost it more than all else it
does for the rows. So numbers stand in the statement itself, and so do texts of nothing but letters
and digits; others are bound one by one. Where all rows have the same value it is there once.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from queuectl.store.driver import Params


def update_all(text: str, names: Iterable[str], rows: Sequence[Params]) -> tuple[str, Params]:
    """Make an UPDATE of the job at one place an UPDATE of those at all of them."""
    bound: dict[str, Any] = {}
    columns = {name: _column(name, rows, bound) for name in names}
    places = columns["seq"]
    words = {name: _choice(places, column) for name, column in columns.items()}
    words["seq"] = ", ".join(places)
    return text.replace("seq = %(seq)s", "seq IN (%(seq)s)") % words, bound


def insert_all(text: str, names: Iterable[str], rows: Sequence[Params]) -> tuple[str, Params]:
    """Make an INSERT of one row an INSERT of all of them."""
    bound: dict[str, Any] = {}
    columns = [_column(name, rows, bound) for name in names]
    one = ", ".join(f"%({name})s" for name in names)
    return text.replace(one, "), (".join(map(", ".join, zip(*columns, strict=True)))), bound


def _column(name: str, rows: Sequence[Params], bound: dict[str, Any]) -> list[str]:
    """Return the words for the values that rows have under a name."""
    values = [row[name] for row in rows]
    if values.count(values[0]) == len(values):
        return [_word(values[0], bound)] * len(values)
    return [_word(value, bound) for value in values]


def _word(value: Any, bound: dict[str, Any]) -> str:
    if value is None:
        return "NULL"
    if type(value) is int:
        return str(value)
    if type(value) is str and value.isascii() and value.isalnum():
        return f"'{value}'"
    name = f"value{len(bound)}"
    bound[name] = value
    return f"%({name})s"


def _choice(places: Sequence[str], column: Sequence[str]) -> str:
    """Choose the value of the row for the job that is being changed."""
    if column.count(column[0]) == len(column):
        return column[0]
    pairs = zip(places, column, strict=True)
    return f"CASE seq {' '.join(f'WHEN {place} THEN {value}' for place, value in pairs)} END"
