"""Refusing connections that an application hands over and that can't be used."""

from queuectl.errors import StoreError, UsageError


def wrong_connection(needed: str, given: object) -> UsageError:
    """Say that a connection of another kind was handed over."""
    kind = type(given)
    return UsageError(
        f"A {needed} is needed for this queue, not a {kind.__module__}.{kind.__qualname__}."
    )


def check_open(is_open: bool) -> None:
    """Refuse a connection that is closed."""
    if not is_open:
        raise StoreError("That connection is closed.")


def check_same_database(ours: str, theirs: str | None) -> None:
    """Refuse a connection to another database: the job would get into another queue, or none."""
    if theirs != ours:
        where = f"to the database {theirs!r}" if theirs else "to no database"
        raise UsageError(f"That connection is {where}; this queue is in {ours!r}.")
