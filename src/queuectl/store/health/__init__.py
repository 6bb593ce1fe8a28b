"""How a store is: its engine, settings, rights, files, tables, and who works with it.

`common` has what all databases share, and a module for each database what is its own. `examine`
is for a store that can't even be opened. Nothing is changed, and no password is shown.
"""

from importlib import import_module

from queuectl.store.contract import Store
from queuectl.store.health.findings import Finding, Level
from queuectl.store.sqlstore import SqlStore

__all__ = ["Finding", "Level", "check_store"]


def check_store(store: Store) -> list[Finding]:
    """Look at the engine, its settings, rights and files; changes nothing, reads no jobs."""
    assert isinstance(store, SqlStore)
    module = import_module(f"queuectl.store.health.{store.db.driver.dialect.name}")
    found: list[Finding] = module.check(store)
    return found
