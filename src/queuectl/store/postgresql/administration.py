"""A queue in PostgreSQL as a whole: its schema, its state, and the space it takes."""

from collections.abc import Mapping
from typing import Any

from queuectl.errors import StoreDeniedError
from queuectl.store.administration import Administration
from queuectl.store.database import Database
from queuectl.store.migrate import migrate
from queuectl.store.postgresql.driver import PostgresDriver
from queuectl.store.tables import MAINTAINED


class PostgresAdministration(Administration):
    """What is done to a schema of a PostgreSQL database as a whole."""

    def __init__(self, db: Database, driver: PostgresDriver) -> None:
        super().__init__(db)
        self._driver = driver

    def schema_version(self) -> int | None:
        there = self.db.value(self.sql.TABLE_THERE, name=f'"{self._driver.schema}".meta')
        return self.version_in_meta() if there else None

    def migrate(self) -> tuple[int, int]:
        schema = self._driver.schema

        def apply() -> tuple[int, int]:
            # Two at once: the second waits, and finds nothing left to do.
            self.db.rows(self.sql.BE_THE_ONLY_ONE, name=self._driver.channel)
            if not self.db.rows(self.sql.SCHEMA_THERE, name=schema):
                self.db.run(f'CREATE SCHEMA "{schema}"')
            before = self.schema_version() or 0
            return before, migrate(self.db, before)

        return self.db.transact(apply)

    def info(self) -> Mapping[str, Any]:
        (row,) = self.db.rows(self.sql.INFO, schema=self._driver.schema)
        version, fsync, commit, size = row
        return {
            "engine": "postgresql",
            "engine_version": version,
            "url": self._driver.url,
            "schema": self._driver.schema,
            "schema_version": self.version_in_meta(),
            "size_bytes": int(size),
            "fsync": fsync,
            "synchronous_commit": commit,
            "pooled": self._driver.pooled,
        }

    def vacuum(self) -> None:
        skipped: list[str] = []
        with self.db.session() as session:
            session.rows(self.sql.INFO, {"schema": self._driver.schema})
            session.db.add_notice_handler(lambda note: skipped.append(note.message_primary or ""))
            for table in MAINTAINED:
                session.run(f"VACUUM (ANALYZE) {self._driver.dialect.prefix}{table}", {})
        if any("skipping" in text for text in skipped):
            url = self._driver.url
            raise StoreDeniedError(f"Only the owner of the tables at {url} may vacuum them.")
