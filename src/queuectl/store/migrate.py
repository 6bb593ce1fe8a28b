"""Brings a schema up to the version this code speaks; never touches a newer one."""

from importlib import import_module
from typing import TYPE_CHECKING

from queuectl.errors import StoreTooNewError, StoreTooOldError
from queuectl.store.contract import Topic
from queuectl.store.ids import new_ids
from queuectl.store.migrations import BASELINE, current, since

if TYPE_CHECKING:
    from queuectl.store.records import Records

VERSION = "schema_version"
IDENTITY = "identity"
"""What tells the tables of one queue from those of all others."""


def check_version(url: str, version: int) -> None:
    """Refuse a store that a newer queuectl made, or one of before the first release."""
    if version > current():
        raise StoreTooNewError(
            f"{url} was made by a newer queuectl (schema {version}; this one knows {current()});"
            " upgrade queuectl. Nothing was changed."
        )
    if 0 < version < BASELINE:
        raise StoreTooOldError(
            f"{url} was made before the first release (schema {version}); it can't be used now.",
            advice="finish its jobs with the version that made it, and begin with a new queue.",
        )


def migrate(store: "Records", version: int) -> int:
    """Apply the migrations a store lacks, in the transaction it is called in, if it is in one.

    Returns the version it has then.
    """
    # A newer program may have been here between our first look and this transaction.
    check_version(store.url, version)
    lacking = since(version)
    for number, name in enumerate(lacking, current() - len(lacking) + 1):
        module = import_module(f"queuectl.store.migrations.{name}.{store.dialect.name}")
        store.run_script(module.STATEMENTS)
        if version or number == current():
            # A schema that is only being made has no version until it is complete.
            store.set_meta(VERSION, str(number))
    if version == 0:
        store.set_meta(IDENTITY, new_ids(1, 16)[0])
    elif lacking:
        # Nodes of an older queuectl leave then.
        store.nudge(Topic.CONTROL)
    return current()
