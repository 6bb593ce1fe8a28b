"""All SQL by which jobs are stored, claimed and ended, with a module per database.

What is hot, or what a database says in its own way, stands whole in the module of that database:
`sqlite`, `postgresql`, `mysql`. The rest is in `shared`, whose few holes a `Dialect` fills. Each
database's module has both, so a store finds every statement in its own.

In all of them `{jobs}`, `{attempts}` and their like are the names of tables, `{job_columns}` are
all columns of a job, and values are bound as `:name`. Whoever puts a table, and values, in their
places can paste a statement into a client.
"""

from collections.abc import Iterable

KEPT_WORDS = ("keys", "group")
"""Names of columns that are words of some database."""


def columns(names: Iterable[str]) -> str:
    """List columns; a word that some database keeps for itself is quoted."""
    return ", ".join(f'"{name}"' if name in KEPT_WORDS else name for name in names)


class ForRows(str):
    """A statement about many rows at once; `names` are the values that it takes of each."""

    __slots__ = ("names",)
    names: tuple[str, ...]


def for_rows(names: str, text: str) -> ForRows:
    """Make a statement about rows, each with the values of these names."""
    statement = ForRows(text)
    statement.names = tuple(names.split())
    return statement
