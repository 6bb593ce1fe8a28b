"""Durable state behind a URL: `contract` says what a store does, `open_store` picks one."""

import os
from typing import TYPE_CHECKING

from queuectl.address import SCHEMES, is_server, read_address
from queuectl.errors import StateError, StoreMissingError, UsageError
from queuectl.store.contract import Store
from queuectl.store.migrate import COPY

if TYPE_CHECKING:
    from queuectl.store.sqlstore import SqlStore

__all__ = ["Store", "file_of", "open_store"]


def open_store(
    url: str,
    *,
    create: bool = False,
    absent_ok: bool = False,
    upgrade: bool = False,
    unfinished: bool = False,
) -> "SqlStore":
    """Open the store a URL names; a plain path is an SQLite file.

    With `create`, a store that doesn't exist is made; without, it is a `StoreMissingError`, or
    with `absent_ok`, and if it would be a file, an empty one until somebody makes it. With
    `upgrade`, a server's schema may be older than this code: it is about to be migrated. With
    `unfinished`, it may hold a part of a copy, which is a `StateError` otherwise.
    """
    store = _open(url, create=create, absent_ok=absent_ok, upgrade=upgrade)
    try:
        if not unfinished:
            _refuse_unfinished(store)
    except BaseException:
        store.close()
        raise
    return store


def file_of(url: str) -> str | None:
    """Return the path of the file that a store is in; None if it is on a server."""
    if is_server(url):
        return None
    scheme, colon, rest = url.partition(":")
    path = rest if colon and scheme == "sqlite" else url
    return os.path.abspath(os.path.expanduser(_sqlite_path(path)))


def _open(url: str, *, create: bool, absent_ok: bool, upgrade: bool) -> "SqlStore":
    if is_server(url):
        return _open_server(url, create=create, upgrade=upgrade)
    scheme, colon, rest = url.partition(":")
    if not colon or len(scheme) < 2 or "/" in scheme or scheme == "sqlite":
        path = rest if colon and scheme == "sqlite" else url
        return _open_file(_sqlite_path(path), create=create, absent_ok=absent_ok)
    if scheme in SCHEMES:
        raise UsageError(f"The URL of a server begins with {scheme}:// and two slashes.")
    raise UsageError(
        f"A queue can't be at a URL that begins with {scheme}:; use a file path, sqlite:PATH,"
        " postgresql://... or mysql://... ."
    )


def _open_file(path: str, *, create: bool, absent_ok: bool) -> "SqlStore":
    from queuectl.store.sqlite.administration import open_file

    try:
        return open_file(path, create=create)
    except StoreMissingError:
        if create or not absent_ok:
            raise
    return open_file(path, absent=True)


def _open_server(url: str, *, create: bool, upgrade: bool) -> "SqlStore":
    address = read_address(url)
    from queuectl.store.opening import open_server

    try:
        return open_server(address, create=create, upgrade=upgrade)
    except ModuleNotFoundError as error:
        extra = {"psycopg": "'psycopg[binary]'", "pymysql": "PyMySQL"}.get(error.name or "")
        if extra is None:
            raise
        raise UsageError(f"{address.scheme} URLs need a driver: pip install {extra}") from None


def _refuse_unfinished(store: "SqlStore") -> None:
    """Refuse a store that isn't a queue yet, because a copy to it was cut short."""
    note = store.administration.meta(COPY)
    if note is not None:
        import json

        raise StateError(
            f"{store.url} holds an unfinished copy of {json.loads(note)['source']}.",
            advice="run that `queuectl db copy` again to finish it.",
        )


def _sqlite_path(path: str) -> str:
    """Read the path of `sqlite:PATH`, `sqlite:///PATH` (absolute) and `sqlite://PATH`."""
    if path.startswith("//"):
        path = path[2:]
    if "\0" in path or not path.isprintable():
        # Surrogates stand for bytes that aren't UTF-8, which SQLite takes in no path.
        raise UsageError(f"{path!r} can't be the path of a database; choose a plain one.")
    if not path:
        raise UsageError("The database needs a path, such as sqlite:jobs.db.")
    return path
