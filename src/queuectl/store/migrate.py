"""Brings a schema up to the version this code speaks; never touches a newer one."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from queuectl.errors import StoreTooNewError
from queuectl.store import statements as sql
from queuectl.store.migrations import MIGRATIONS

if TYPE_CHECKING:
    from queuectl.store.sql import SqlStore

VERSION = "schema_version"


def check_version(url: str, version: int, known: int = len(MIGRATIONS)) -> None:
    """Refuse a store that a newer queuectl made."""
    if version > known:
        raise StoreTooNewError(
            f"{url} was made by a newer queuectl (schema {version}; this one knows {known});"
            " upgrade queuectl. Nothing was changed."
        )


def migrate(store: "SqlStore", version: int, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Apply the migrations a store lacks, in the transaction it is called in."""
    # A newer program may have been here between our first look and this transaction.
    check_version(store.url, version, len(migrations))
    if version == 0:
        store.run_script([store.dialect.render(sql.META_TABLE)])
    for name in migrations[version:]:
        module = import_module(f"queuectl.store.migrations.{name}")
        store.run_script(getattr(module, store.dialect.name.upper()))
    store.set_meta(VERSION, str(len(migrations)))
