"""An SQLite file as a whole: opening and making it, its state, and copies of it."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import apsw

from queuectl.facts import Progress
from queuectl.sharing import group_of_file
from queuectl.store import files, migrations
from queuectl.store.administration import Administration
from queuectl.store.database import Database
from queuectl.store.migrate import migrate
from queuectl.store.sqlite.driver import APPLICATION_ID, PATIENCE, SqliteDriver
from queuectl.store.sqlite.idiom import SqliteIdiom
from queuectl.store.sqlstore import SqlStore


def open_file(
    path: str, *, create: bool = False, absent: bool = False, patience: float = PATIENCE
) -> SqlStore:
    """Open the queue in a file. One that is `absent` is empty, until somebody makes it."""
    driver = SqliteDriver(path, patience=patience)
    driver.is_absent = absent
    is_new = False if absent else files.prepare(driver.path, create=create)
    db = Database(driver)
    idiom = SqliteIdiom(db)
    administration = SqliteAdministration(db, idiom, driver)
    try:
        if not absent:
            administration.open()
    except BaseException:
        db.close()
        raise
    return SqlStore(db, idiom, administration, path=driver.path, is_new=is_new)


class SqliteAdministration(Administration):
    """What is done to an SQLite file as a whole."""

    def __init__(self, db: Database, idiom: SqliteIdiom, driver: SqliteDriver) -> None:
        super().__init__(db)
        self._idiom = idiom
        self._driver = driver
        self._found_version = 0

    def open(self) -> None:
        """Make the tables, if there are none, or bring them up to date."""
        self._found_version = self.schema_version() or 0
        if self._driver.read_only:
            return
        if not self._found_version:
            self._create()
            # A copy that is only read gets no folder: whoever needs one makes it.
            self._driver.make_companion()
        elif migrations.since(self._found_version):
            with self.db.transaction():
                migrate(self.db, self.version_in_meta())

    def _create(self) -> None:
        with self.db.transaction():
            # Somebody may have been faster.
            if not self.db.rows(self.sql.TABLES_THERE):
                migrate(self.db, 0)
                self.db.script([f"PRAGMA application_id = {APPLICATION_ID}"])

    def schema_version(self) -> int | None:
        with self.db.session() as session:
            there = session.rows(self.sql.TABLES_THERE, {})
            return self._driver.version(session.db) if there else None

    def migrate(self) -> tuple[int, int]:
        # It was done when the file was opened.
        return self._found_version, self.version_in_meta()

    def info(self) -> Mapping[str, Any]:
        def pragma(name: str) -> Any:
            return self.db.run(f"PRAGMA {name}")[0][0]

        from queuectl.store import access

        path = self._driver.path
        gid = group_of_file(path)
        return {
            "engine": "sqlite",
            "engine_version": apsw.sqlite_lib_version(),
            "path": path,
            "schema_version": self.schema_version(),
            "shared_with": None if gid is None else access.group_name(gid),
            "size_bytes": files.looks(path)[1],
            "wal_bytes": files.looks(path + "-wal")[1],
            "free_bytes": pragma("freelist_count") * pragma("page_size"),
            "journal_mode": pragma("journal_mode"),
            "synchronous": {0: "off", 1: "normal", 2: "full", 3: "extra"}[pragma("synchronous")],
        }

    def verify(self) -> list[str]:
        broken = [str(row[0]) for row in self.db.run("PRAGMA integrity_check") if row[0] != "ok"]
        if odd := sum(1 for _ in self._idiom.unreadable()):
            broken.append(
                f"{odd} waiting jobs hold text that isn't valid UTF-8; workers put them aside."
            )
        return broken + super().verify()

    def vacuum(self) -> None:
        self.db.run("VACUUM")
        self.db.run("PRAGMA wal_checkpoint(TRUNCATE)")


def copy_file(db: Database, path: str, progress: Progress | None) -> None:
    """Write a copy of the whole file while everything goes on."""
    # One read transaction for all of it: writers go on, and can't make it start over.
    with db.session() as session, session.snapshot(), closing(apsw.Connection(path)) as target:
        session.rows(db.sql.TABLES_THERE, {})
        session.ask(_copy, target, progress)


def _copy(db: apsw.Connection, target: apsw.Connection, progress: Progress | None) -> None:
    with target.backup("main", db, "main") as copy:
        while not copy.done:
            copy.step(256)
            if progress is not None:
                progress(copy.page_count - copy.remaining, copy.page_count)
