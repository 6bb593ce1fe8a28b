"""Migrations made for tests: what later versions of the schema might bring.

A process becomes a later queuectl by `install`; a command does by an environment with `variables`.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from queuectl import SCHEMA_VERSION
from queuectl.errors import StoreError
from queuectl.store import migrations
from queuectl.store.migrate import VERSION
from queuectl.store.sqlstore import SqlStore

CHECKOUT = Path(__file__).parents[2]
ADDED = "later{n}"
"""The column that the n-th of them adds to the jobs."""
_SCRIPTS = {
    "sqlite": (
        "ALTER TABLE jobs ADD COLUMN later{n} TEXT DEFAULT 'new'",
        "CREATE TABLE extras{n} (seq INTEGER PRIMARY KEY) STRICT",
    ),
    "postgresql": (
        "ALTER TABLE @jobs ADD COLUMN later{n} text DEFAULT 'new'",
        "CREATE TABLE @extras{n} (seq bigint PRIMARY KEY)",
    ),
    # Where schema changes can't be undone, each statement may run twice.
    "mysql": (
        "ALTER TABLE @jobs ADD COLUMN later{n} VARCHAR(9) DEFAULT 'new'",
        "CREATE TABLE IF NOT EXISTS @extras{n} (seq BIGINT PRIMARY KEY)",
    ),
}
_SITE = "from tests.contract.later import install\ninstall({extra})\n"


def script(dialect: str, n: int = 1) -> list[str]:
    """Return the statements of one of them."""
    return [text.format(n=n) for text in _SCRIPTS[dialect]]


def install(extra: int = 1) -> None:
    """Make this process one of a queuectl that is later by so many migrations."""
    for n in range(1, extra + 1):
        name = f"m9{n:03}_later"
        package = ModuleType(name)
        package.__path__ = []
        sys.modules[f"{migrations.__name__}.{name}"] = package
        for dialect in _SCRIPTS:
            module = ModuleType(dialect)
            module.STATEMENTS = tuple(script(dialect, n))  # type: ignore[attr-defined]
            if dialect == "sqlite":
                module.AS_IF = {f"extras{n}": "seq"}  # type: ignore[attr-defined]
            sys.modules[f"{migrations.__name__}.{name}.{dialect}"] = module
        migrations.MIGRATIONS += (name,)


def take_back(store: SqlStore) -> None:
    """Take away what the first of them brought, as far as it is there."""
    found = "SELECT {} FROM @{} WHERE 1 = 0"
    for probe, undo in (
        (found.format("seq", "extras1"), "DROP TABLE @extras1"),
        (found.format("later1", "jobs"), "ALTER TABLE @jobs DROP COLUMN later1"),
    ):
        with suppress(StoreError):
            store.db.script([probe])
            store.db.script([undo])
    store.administration.set_meta(VERSION, str(SCHEMA_VERSION))


def uninstall() -> None:
    """Be what this process was before."""
    migrations.MIGRATIONS = tuple(n for n in migrations.MIGRATIONS if not n.endswith("_later"))


def variables(folder: Path, extra: int = 1) -> Mapping[str, str]:
    """Return variables by which commands become such ones; `folder` gets what they need."""
    (folder / "sitecustomize.py").write_text(_SITE.format(extra=extra))
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(CHECKOUT)])}
