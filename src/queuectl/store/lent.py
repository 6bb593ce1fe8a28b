"""Connections that an application hands over: finding that of the client library, and refusing."""

import sys
from typing import Any

from queuectl.errors import StoreError, UsageError


def unwrapped(given: Any) -> Any:
    """Return the connection of the client library behind one of SQLAlchemy or Django.

    Nothing is imported for it: who hands one over has done so. Others are returned as they are.
    """
    if (session := sys.modules.get("sqlalchemy.orm")) is not None:
        if isinstance(given, session.scoped_session):
            given = given()
        if isinstance(given, session.Session):
            # From here on it is in a transaction, as it is with each statement.
            given = given.connection()
    if (engine := sys.modules.get("sqlalchemy.engine")) is not None and isinstance(
        given, engine.Connection
    ):
        if not given.in_transaction():
            given.begin()
        return given.connection.driver_connection
    if (asyncio := sys.modules.get("sqlalchemy.ext.asyncio")) is not None and isinstance(
        given, asyncio.AsyncSession | asyncio.AsyncConnection
    ):
        raise UsageError(
            "The queue can't be part of the transaction of an async connection of SQLAlchemy;"
            " use a sync one in a thread, or enqueue after the commit."
        )
    if (django := sys.modules.get("django.db")) is not None:
        return _of_django(django, given)
    return given


def _of_django(django: Any, given: Any) -> Any:
    proxy = sys.modules["django.utils.connection"].ConnectionProxy
    if isinstance(given, proxy):
        given = django.connections[given._alias]
    # Without a connection of its own there is no such module.
    base = sys.modules.get("django.db.backends.base.base")
    if base is None or not isinstance(given, base.BaseDatabaseWrapper):
        return given
    # What its own cursors do before each statement.
    given.ensure_connection()
    given.validate_no_broken_transaction()
    return given.connection


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
