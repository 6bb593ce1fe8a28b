"""A queue in MariaDB or MySQL as a whole: its tables, its state, and the space it takes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from queuectl.errors import StoreError
from queuectl.store.administration import Administration
from queuectl.store.database import Database
from queuectl.store.migrate import migrate
from queuectl.store.mysql.driver import MysqlDriver, parts
from queuectl.store.tables import MAINTAINED

MIGRATE_WITHIN = 60
"""Seconds to wait for somebody else who migrates the same schema."""
_THERE = 1060


class MysqlAdministration(Administration):
    """What is done to the tables of a queue in MariaDB or MySQL as a whole."""

    def __init__(self, db: Database, driver: MysqlDriver) -> None:
        super().__init__(db)
        self._driver = driver

    def schema_version(self) -> int | None:
        there = self.db.rows(self.sql.TABLE_THERE, name=self._driver.prefix + "meta")
        return self.version_in_meta() if there else None

    def migrate(self) -> tuple[int, int]:
        # The lock is the connection's.
        with self.db.session(), self._migrating():
            before = self.schema_version() or 0
            return before, migrate(self.db, before, self._script)

    def _script(self, statements: Sequence[str]) -> None:
        for statement in statements:
            try:
                self.db.script([statement])
            except StoreError as error:
                # Columns that a migration which was cut off has added already; MySQL has no words
                # for adding them only if they aren't there.
                if error.__cause__ is None or parts(error.__cause__)[0] != _THERE:
                    raise

    @contextmanager
    def _migrating(self) -> Iterator[None]:
        """Be the only one: its schema changes can't be part of a transaction."""
        driver = self._driver
        name = f"queuectl.{driver.address.database}.{driver.prefix}"[:64]
        got = self.db.value(self.sql.GET_LOCK, name=name, within=MIGRATE_WITHIN)
        # To change a table one waits for all who are using it.
        self.db.run(f"SET SESSION lock_wait_timeout = {MIGRATE_WITHIN}")
        if got != 1:
            raise StoreError(f"Somebody else has been migrating {driver.url} for too long.")
        try:
            yield
        finally:
            with suppress(StoreError):
                self.db.rows(self.sql.RELEASE_LOCK, name=name)

    def info(self) -> Mapping[str, Any]:
        driver = self._driver
        (row,) = self.db.rows(self.sql.INFO)
        version, flush, packet = row
        size = self.db.value(self.sql.SIZE, n=len(driver.prefix), prefix=driver.prefix)
        return {
            "engine": "mariadb" if driver.is_mariadb else "mysql",
            "engine_version": version,
            "url": driver.url,
            "prefix": driver.prefix,
            "schema_version": self.version_in_meta(),
            "size_bytes": int(size),
            "innodb_flush_log_at_trx_commit": int(flush),
            "max_allowed_packet": int(packet),
        }

    def vacuum(self) -> None:
        for table in MAINTAINED:
            self.db.run(f"OPTIMIZE TABLE {self._driver.prefix}{table}")
