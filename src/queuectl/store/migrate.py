"""Brings a schema up to the version this code speaks; never touches a newer one."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from queuectl.errors import StoreTooNewError
from queuectl.store.contract import Topic
from queuectl.store.ids import new_ids
from queuectl.store.migrations import MIGRATIONS

if TYPE_CHECKING:
    from queuectl.store.records import Records

VERSION = "schema_version"
IDENTITY = "identity"
"""What tells the tables of one queue from those of all others."""


def check_version(url: str, version: int, known: int = len(MIGRATIONS)) -> None:
    """Refuse a store that a newer queuectl made."""
    if version > known:
        raise StoreTooNewError(
            f"{url} was made by a newer queuectl (schema {version}; this one knows {known});"
            " upgrade queuectl. Nothing was changed."
        )


def migrate(store: "Records", version: int, migrations: Sequence[str] = MIGRATIONS) -> int:
    """Apply the migrations a store lacks, in the transaction it is called in, if it is in one.

    Returns the version it has then.
    """
    # A newer program may have been here between our first look and this transaction.
    check_version(store.url, version, len(migrations))
    for number, name in enumerate(migrations[version:], version + 1):
        module = import_module(f"queuectl.store.migrations.{name}.{store.dialect.name}")
        store.run_script(module.STATEMENTS)
        if version or number == len(migrations):
            # A schema that is only being made has no version until it is complete.
            store.set_meta(VERSION, str(number))
    if version == 0:
        store.set_meta(IDENTITY, new_ids(1, 16)[0])
    elif version < len(migrations):
        # Nodes of an older queuectl leave then.
        store.nudge(Topic.CONTROL)
    return len(migrations)
