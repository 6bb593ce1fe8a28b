"""Brings a schema up to the version this code speaks; never touches a newer one."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from queuectl.errors import StoreTooNewError, StoreTooOldError
from queuectl.store.contract import Topic
from queuectl.store.ids import new_ids
from queuectl.store.migrations import BASELINE, current, since

if TYPE_CHECKING:
    from queuectl.store.database import Database

Script = Callable[[Sequence[str]], None]
"""Runs statements of a schema."""
VERSION = "schema_version"
COPY = "copy"
"""The note in `meta` of a store that is being filled with a copy of another."""
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


def migrate(db: "Database", version: int, script: Script | None = None) -> int:
    """Apply the migrations a database lacks, in the transaction it is called in, if it is in one.

    Returns the version it has then. `script` runs the statements, if that isn't the usual way.
    """
    run = script or db.script
    # A newer program may have been here between our first look and this transaction.
    check_version(db.driver.url, version)
    lacking = since(version)
    for number, name in enumerate(lacking, current() - len(lacking) + 1):
        module = import_module(f"queuectl.store.migrations.{name}.{db.driver.dialect.name}")
        run(module.STATEMENTS)
        if version or number == current():
            # A schema that is only being made has no version until it is complete.
            db.again(db.sql.SET_META, name=VERSION, value=str(number))
    if version == 0:
        db.again(db.sql.SET_META, name=IDENTITY, value=new_ids(1, 16)[0])
    elif lacking:
        # Nodes of an older queuectl leave then.
        db.nudge(Topic.CONTROL)
    return current()
