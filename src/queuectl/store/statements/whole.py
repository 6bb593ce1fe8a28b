"""Statements about whole tables, whichever: reading by the key, counting, deleting.

Names are quoted: some are words that a database keeps for itself.
"""

from collections.abc import Sequence

from queuectl.store.tables import Table


def page(table: Table, what: Sequence[str], *, behind: bool) -> str:
    """Read columns in the order of the key; `behind` one that is bound as `:key0` and so on."""
    return _page(table, ", ".join(map(_quoted, what)), behind=behind)


def page_of_sizes(table: Table, *, behind: bool) -> str:
    """Read how many bytes the wide columns of each row have."""
    size = " + ".join(f"coalesce(octet_length({_quoted(name)}), 0)" for name in table.wide)
    return _page(table, size, behind=behind)


def _page(table: Table, what: str, *, behind: bool) -> str:
    where = f"WHERE {_behind(table.key)} " if behind else ""
    order = ", ".join(map(_quoted, table.key))
    return f"SELECT {what} FROM {{{table.name}}} {where}ORDER BY {order} LIMIT :limit"


def _behind(key: Sequence[str]) -> str:
    """Say that a row comes after a key, in words for which every database uses the index."""
    condition = f"{_quoted(key[-1])} > :key{len(key) - 1}"
    for n in reversed(range(len(key) - 1)):
        name = _quoted(key[n])
        condition = f"({name} > :key{n} OR ({name} = :key{n} AND {condition}))"
    return condition if len(key) == 1 else f"{_quoted(key[0])} >= :key0 AND {condition}"


def count(table: Table) -> str:
    """Count the rows."""
    return f"SELECT count(*) FROM {{{table.name}}}"


def highest(table: Table) -> str:
    """Find the highest number that was given out."""
    return f"SELECT max(seq) FROM {{{table.name}}}"


def delete(table: Table) -> str:
    """Delete the row with a key."""
    same = " AND ".join(f"{_quoted(name)} = :key{n}" for n, name in enumerate(table.key))
    return f"DELETE FROM {{{table.name}}} WHERE {same}"


def load(table: str, columns: Sequence[str], place: str) -> str:
    """Insert a row into a table, whose name is given as it is; each value is bound at a `place`."""
    names, places = ", ".join(map(_quoted, columns)), ", ".join([place] * len(columns))
    return f"INSERT INTO {table} ({names}) VALUES ({places})"


def load_stream(table: str, columns: Sequence[str]) -> str:
    """Insert rows that come as a stream, into a table whose name is given as it is."""
    return f"COPY {table} ({', '.join(map(_quoted, columns))}) FROM STDIN"


def _quoted(name: str) -> str:
    return f'"{name}"'
