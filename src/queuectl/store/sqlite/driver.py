"""SQLite, through APSW, which brings a current SQLite along.

WAL with `synchronous=FULL`: a commit is on the disk when it returns. Every write transaction
begins IMMEDIATE, so it waits for its turn instead of failing half-way. Beside `queue.db` is
`queue.db.d/`, with the output of running jobs and the files whose touch wakes listeners.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from time import CLOCK_MONOTONIC, clock_gettime_ns, monotonic, sleep, time_ns
from typing import Any

import apsw

from queuectl.errors import (
    DuplicateError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    StoreReadOnlyError,
    UsageError,
)
from queuectl.sharing import group_of_file
from queuectl.store import files, migrations
from queuectl.store.contract import Listener, Topic
from queuectl.store.dialects import SQLITE
from queuectl.store.driver import Driver, Params, Row
from queuectl.store.migrate import VERSION, check_version
from queuectl.store.statements import ForRows
from queuectl.store.statements import sqlite as statements

Batches = Callable[[Sequence[Params]], Iterator[tuple[str, Row]]]
"""Says a statement about rows in as few statements as will do, each with its values."""
APPLICATION_ID = 0x51435431
"""Marks the file as ours: "QCT1"."""
PATIENCE = 30.0
"""Seconds to wait for the write lock before giving up."""
WAL_LIMIT = 64 * 2**20


class UnreadableError(StoreCorruptError):
    """A row holds text that isn't valid UTF-8."""


_Looks = tuple[int, int, int]
"""A file as it is: when it was changed, its size, and that of the log beside it."""


class HostClock:
    """The clock of this host, which is that of the database as well."""

    # It is one for all processes of the host, and stands still while the machine sleeps: so a
    # closed lid costs nobody a lease.
    lease_clock = CLOCK_MONOTONIC

    def now(self) -> int:
        return time_ns() // 1_000_000

    def steady(self) -> int:
        return clock_gettime_ns(CLOCK_MONOTONIC) // 1_000_000

    def is_stale(self) -> bool:
        return False

    def learn(self, *, asked: float, said: int, heard: float) -> int:
        return 0


class SqliteDriver(Driver):
    """A queue in an SQLite file."""

    dialect = SQLITE
    sql = statements
    clock = HostClock()
    remote = False
    errors = apsw.Error
    begins = ("BEGIN IMMEDIATE",)
    sees_one_state = ("BEGIN DEFERRED",)
    is_absent = False
    """Whether there is no file yet, for somebody who only reads."""

    def __init__(self, path: str, *, patience: float = PATIENCE) -> None:
        super().__init__()
        self.path = os.path.abspath(os.path.expanduser(path))
        self.url = f"sqlite:{self.path}"
        self.read_only = False
        self._patience = patience
        self._file: tuple[int, int] | None = None
        self._still: _Looks | None = None
        """How the file looked when it was opened as one that nobody writes; else None."""
        self._for_rows: dict[str, Batches] = {}

    # -- connections --------------------------------------------------------------------

    def connect(self) -> apsw.Connection:
        """Connect to the file, and see that it is a queue of ours before anything is changed."""
        if self.is_absent and not self._is_made():
            return self._connect_to_nothing()
        self.is_absent = False
        db = self._open()
        status = os.stat(self.path)
        file = (status.st_dev, status.st_ino)
        try:
            if self._file not in (None, file):
                self.check_place()
            self._file = file
            with self._explained(db):
                self._settle_in(db)
        except BaseException:
            db.close()
            raise
        return db

    def _open(self) -> apsw.Connection:
        self.read_only = not files.is_writable(self.path)
        if self.read_only and not os.access(self.path, os.R_OK):
            raise _denied(self.path) or StoreMissingError(f"{self.path} is gone.")
        with self._explained(None):
            if self.read_only:
                db = self._open_to_read()
            else:
                db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_handler(_Patience(self._patience).wait)
        # Plans don't depend on what is bound. Or a statement with a LIMIT is planned each time.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return db

    def _open_to_read(self) -> apsw.Connection:
        """Open what may not be written. Without a log beside it nobody is writing either, yet."""
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        seen = self._looks()
        self._still = seen if not seen[2] else None
        self.may_move = self._still is not None
        return apsw.Connection(files.uri(self.path, immutable=not seen[2]), flags=flags)

    def _connect_to_nothing(self) -> apsw.Connection:
        """Connect to an empty queue in memory, until there is a file."""
        self._still = self._looks()
        self.may_move = True
        db = apsw.Connection(":memory:")
        for name in migrations.since(0):
            module = import_module(f"queuectl.store.migrations.{name}.sqlite")
            for statement in module.STATEMENTS:
                db.execute(self.dialect.render_schema(statement))
        version = {"name": VERSION, "value": str(migrations.current())}
        db.execute(self.text(self.sql.SET_META), version)
        return db

    def _settle_in(self, db: apsw.Connection) -> None:
        # In this order: whoever creates the tables sets the id in the same transaction.
        has_tables = _value(db, self.sql.TABLES_THERE)
        if has_tables and _value(db, "PRAGMA application_id") != APPLICATION_ID:
            raise StoreCorruptError(f"{self.path} isn't a queuectl database; it was left alone.")
        if has_tables:
            check_version(self.url, self.version(db))
        if self.read_only:
            self._read_as_if_new(db)
        else:
            self._set_pragmas(db)

    def _set_pragmas(self, db: apsw.Connection) -> None:
        mode = _value(db, "PRAGMA journal_mode")
        if mode != "wal":
            # A copy restored by hand may have lost it; without WAL readers would block writers.
            mode = self._switch_to_wal(db)
        if mode != "wal":
            raise StoreError(
                f"{self.path} can't use write-ahead logging here (journal mode {mode});"
                " put it on a local disk."
            )
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        db.execute("PRAGMA temp_store = MEMORY")

    def _switch_to_wal(self, db: apsw.Connection) -> str:
        """Switch the journal mode. SQLite doesn't wait for others here by itself, so we do."""
        patience = _Patience(self._patience)
        tries = 0
        while True:
            try:
                return str(_value(db, "PRAGMA journal_mode = WAL"))
            except apsw.BusyError:
                if not patience.wait(tries):
                    raise
                tries += 1

    def _read_as_if_new(self, db: apsw.Connection) -> None:
        """Let a file that we can't upgrade look as if it were, to this connection only."""
        there = {name for (name,) in db.execute(self.text(self.sql.TABLES))}
        missing: dict[str, list[str]] = {}
        for name in migrations.since(self.version(db)):
            module = import_module(f"queuectl.store.migrations.{name}.sqlite")
            for table, columns in module.AS_IF.items():
                missing.setdefault(table, []).extend(columns.split())
        for table, names in missing.items():
            columns = ", ".join(f"NULL AS {name}" for name in names)
            rest = f"*, {columns} FROM main.{table}" if table in there else f"{columns} WHERE 0"
            db.execute(f"CREATE TEMP VIEW {table} AS SELECT {rest}")

    def version(self, db: apsw.Connection) -> int:
        """Return the version of the schema."""
        found = None
        with suppress(apsw.SQLError):
            found = _value(db, self.text(self.sql.META), {"name": VERSION})
        if found is None or not str(found).isdecimal() or not int(found):
            raise StoreCorruptError(f"{self.path} has no schema version; it was left alone.")
        return int(found)

    def disconnect(self, db: apsw.Connection, *, politely: bool = False) -> None:
        db.close()

    def current(self, db: apsw.Connection) -> apsw.Connection:
        """Open a file anew that nobody wrote when it was opened, if somebody has since."""
        if db is None or not db.get_autocommit():
            return db
        if self.is_absent:
            if not self._is_made():
                return db
            self.is_absent = False
        elif self._looks() == self._still:
            return db
        self._still, self.may_move, self._file = None, False, None
        db.close()
        return self.connect()

    def _is_made(self) -> bool:
        """Tell whether there is a file by now, with tables: who makes it commits them at once."""
        if not os.path.exists(self.path):
            return False
        try:
            with closing(apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)) as db:
                return bool(_value(db, self.sql.TABLES_THERE))
        except (apsw.BusyError, apsw.CantOpenError):
            return False
        except apsw.Error:
            # What is wrong with it is told by whoever connects to it.
            return True

    def _looks(self) -> _Looks:
        """Return what changes when somebody writes to the file."""
        changed, size = files.looks(self.path)
        return changed, size, files.looks(self.path + "-wal")[1]

    def check_place(self) -> None:
        """Notice that the file was deleted or replaced: what we write now, nobody will read."""
        if self.is_absent or self._file is None:
            return
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            raise StoreMissingError(f"{self.path} was deleted while it was in use.") from None
        if (there.st_dev, there.st_ino) != self._file:
            raise StoreMissingError(f"{self.path} was replaced while it was in use.")

    def lend(self, connection: Any) -> Any:
        from queuectl.store.lent import check_open, unwrapped, wrong_connection

        connection = unwrapped(connection)
        if type(connection).__module__ == "sqlite3":
            raise UsageError(
                "A sqlite3.Connection can't be shared: Python's own copy of SQLite would undo the"
                " locks of this one. Use apsw; or keep the queue in another file than your tables,"
                " and enqueue after the commit."
            )
        if not isinstance(connection, apsw.Connection):
            raise wrong_connection("apsw.Connection", connection)
        try:
            path = connection.filename
        except apsw.ConnectionClosedError:
            path = ""
        check_open(bool(path))
        if os.path.realpath(path) != os.path.realpath(self.path):
            raise UsageError(f"That connection is to another file than {self.path}.")
        return _Plain(connection)

    def has_begun(self, db: apsw.Connection) -> bool:
        return not db.get_autocommit()

    # -- statements ---------------------------------------------------------------------

    def rows(self, db: apsw.Connection, text: str, params: Params) -> list[Row]:
        try:
            return db.execute(text, params).fetchall()
        except UnicodeDecodeError:
            raise UnreadableError(
                f"{self.path} holds text that isn't valid UTF-8, written by another program;"
                " workers put such jobs aside, or mend it with that program."
            ) from None

    def change(self, db: apsw.Connection, text: str, params: Params | Row) -> int:
        db.execute(text, params)
        return db.changes()

    def each(self, db: apsw.Connection, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        db.executemany(text, rows)

    def update(
        self, db: apsw.Connection, statement: ForRows, rows: Sequence[Params]
    ) -> set[int] | None:
        changed = 0
        for text, values in self._of_rows(statement)(rows):
            db.execute(text, values)
            changed += db.changes()
        if changed == len(rows):
            return {row["seq"] for row in rows}
        # Which of them weren't changed takes more to say than all else, and is seldom asked.
        return None if changed or len(rows) > 1 else set()

    def insert(self, db: apsw.Connection, statement: ForRows, rows: Sequence[Params]) -> None:
        for text, values in self._of_rows(statement)(rows):
            db.execute(text, values)

    def load(
        self, db: apsw.Connection, table: str, columns: Sequence[str], rows: Iterable[Row]
    ) -> None:
        from queuectl.store.statements import whole

        db.executemany(whole.load(table, columns, "?"), rows)

    def _of_rows(self, statement: ForRows) -> Batches:
        known = self._for_rows.get(statement)
        if known is None:
            from queuectl.store.sqlite.rows import OfRows

            of_rows = OfRows(self.text(statement), statement.names)
            known = self._for_rows[statement] = of_rows.for_all
        return known

    def rollback(self, db: apsw.Connection, to: str | None = None) -> None:
        if not db.get_autocommit():
            db.execute("ROLLBACK" if to is None else f"ROLLBACK TO SAVEPOINT {to}")

    def can_be_alone(self, db: Any) -> bool:
        # It is a transaction by itself, and waits for the lock as BEGIN IMMEDIATE does.
        self.check_place()
        return True

    # -- errors -------------------------------------------------------------------------

    @contextmanager
    def _explained(self, db: Any) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self.explain(error, db) from error

    def explain(self, error: Exception, db: Any) -> StoreError | DuplicateError:
        for kind, make in _SENTENCES:
            if isinstance(error, kind):
                return make(self.path, error)
        if isinstance(error, apsw.ConstraintError) and "jobs.id" in str(error):
            return DuplicateError("That id is taken.", field="id")
        return StoreError(f"{self.path}: {error}.")

    # -- wake-ups -----------------------------------------------------------------------

    def listen(self, version: Callable[[], int]) -> Listener:
        from queuectl.store.sqlite.wake import listen

        files.refuse_network(self.path)
        return listen(self.path, self.companion, version, self.make_companion)

    def wake(self, topics: set[Topic]) -> None:
        # While there is no file, there is no folder either in which somebody could listen.
        if not self.is_absent:
            files.touch(self.companion, topics, self.make_companion)

    @property
    def companion(self) -> str:
        return self.path + ".d"

    def make_companion(self) -> None:
        # The same people may use both.
        files.make_folder(self.companion, group_of_file(self.path))


class _Plain:
    """A connection of somebody else's, whose rows come as they are whatever its owner does."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, text: str, params: Any = None) -> apsw.Cursor:
        cursor = self._connection.cursor()
        cursor.row_trace = lambda _, row: row
        return cursor.execute(text, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _Patience:
    """Waits for a lock, with jitter so that the waiting don't march in step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = 0.0

    def wait(self, tries: int) -> bool:
        """Wait a little; False when that has been going on for too long."""
        if tries == 0:
            self._since = monotonic()
        elif monotonic() - self._since > self._seconds:
            return False
        from random import random

        sleep(min(0.0005 * 1.5 ** min(tries, 10), 0.02) * (0.5 + random()))
        return True


def _value(db: apsw.Connection, text: str, params: Any = None) -> Any:
    rows = db.execute(text, params).fetchall()
    return rows[0][0] if rows else None


def _denied(path: str) -> StoreError | None:
    from queuectl.store.access import denied

    return denied(path)


def _busy(path: str, error: apsw.Error) -> StoreError:
    return StoreBusyError(
        f"{path} stayed locked by another process for too long; try again in a moment."
    )


def _full(path: str, error: apsw.Error) -> StoreError:
    return StoreFullError(f"There is no space left for {path}; free some. Nothing was changed.")


def _read_only(path: str, error: apsw.Error) -> StoreError:
    return _denied(path) or StoreReadOnlyError(
        f"{path} can't be written ({error}); check its filesystem. Nothing was changed."
    )


def _corrupt(path: str, error: apsw.Error) -> StoreError:
    return StoreCorruptError(
        f"{path} is damaged or isn't a database ({error}); it was left alone,"
        " restore a backup of it."
    )


def _cannot_open(path: str, error: apsw.Error) -> StoreError:
    return _denied(path) or StoreError(
        f"{path} can't be opened ({error}); check the path and who may read it."
    )


def _io(path: str, error: apsw.Error) -> StoreError:
    return StoreError(
        f"The disk failed while using {path} ({error}); check the disk and its space."
    )


_SENTENCES: Sequence[tuple[type[apsw.Error], Callable[[str, apsw.Error], StoreError]]] = (
    (apsw.BusyError, _busy),
    (apsw.LockedError, _busy),
    (apsw.FullError, _full),
    (apsw.ReadOnlyError, _read_only),
    (apsw.NotADBError, _corrupt),
    (apsw.CorruptError, _corrupt),
    (apsw.CantOpenError, _cannot_open),
    (apsw.IOError, _io),
)
