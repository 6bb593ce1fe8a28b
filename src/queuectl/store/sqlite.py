"""The embedded store: one SQLite file, through APSW, which brings a current SQLite along.

WAL with `synchronous=FULL`: a commit is on the disk when it returns. Every write transaction
begins IMMEDIATE, so it waits for its turn instead of failing half-way. Beside `queue.db` is
`queue.db.d/`, with the output of running jobs and the files whose touch wakes listeners.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from importlib import import_module
from itertools import chain
from time import CLOCK_MONOTONIC, clock_gettime_ns, monotonic, sleep, time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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
from queuectl.facts import Node, Progress
from queuectl.job import DEFAULT_QUEUE, Job
from queuectl.sharing import group_of, group_of_file
from queuectl.store import access, files, migrations
from queuectl.store.contract import Claimed, Listener, Topic
from queuectl.store.dialects import SQLITE
from queuectl.store.ids import new_ids
from queuectl.store.lent import check_open, wrong_connection
from queuectl.store.migrate import check_version, migrate
from queuectl.store.rows import NewRow, all_columns, death_of
from queuectl.store.sql import SqlStore
from queuectl.store.statements import ForRows
from queuectl.store.statements import sqlite as statements
from queuectl.store.transactions import Params, Row

if TYPE_CHECKING:
    from queuectl.store.sqlite_rows import Alike

T = TypeVar("T")
Batches = Callable[[Sequence[Params]], Iterator[tuple[str, Row]]]
"""Says a statement about rows in as few statements as will do, each with its values."""
APPLICATION_ID = 0x51435431
"""Marks the file as ours: "QCT1"."""
PATIENCE = 30.0
"""Seconds to wait for the write lock before giving up."""
WAL_LIMIT = 64 * 2**20
READ_AT_ONCE = 5_000
"""Jobs whose text is looked at in one go."""
ROWS_AT_ONCE = 100
"""New jobs in one statement of a bulk enqueue. Their values must be fewer than 32,767."""


class UnreadableError(StoreCorruptError):
    """A row holds text that isn't valid UTF-8."""


class _Looks(NamedTuple):
    """The file as it is now: when it was changed, its size, and that of the log beside it."""

    changed: int
    size: int
    log: int


class SqliteStore(SqlStore):
    """A queue in an SQLite file."""

    dialect = SQLITE
    sql = statements
    one_host = True
    _db: apsw.Connection
    _still: "_Looks | None" = None
    """How the file looked when it was opened as one that nobody writes; else None."""

    def __init__(self, path: str, *, create: bool = False, patience: float = PATIENCE) -> None:
        super().__init__()
        self.path = os.path.abspath(os.path.expanduser(path))
        self.url = f"sqlite:{self.path}"
        self.companion = self.path + ".d"
        self._patience = patience
        self._seen_version = -1
        self._found_version = 0
        self._for_rows: dict[str, Batches] = {}
        self._prepare(create=create)
        self._attach()

    @property
    def identity(self) -> str:
        return self.url

    # -- opening ----------------------------------------------------------------------

    def _prepare(self, *, create: bool) -> None:
        """Make sure that there is a file."""
        self.is_new = files.prepare(self.path, create=create)

    def _attach(self) -> None:
        """Connect to the file, and see that it is a queue of ours."""
        self._db = self._connect()
        status = os.stat(self.path)
        self._file = (status.st_dev, status.st_ino)
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    def _connect(self) -> apsw.Connection:
        self._read_only = not files.is_writable(self.path)
        if self._read_only and not os.access(self.path, os.R_OK):
            raise access.denied(self.path) or StoreMissingError(f"{self.path} is gone.")
        with self._explained():
            if self._read_only:
                db = self._connect_to_read()
            else:
                db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_handler(self._wait_for_lock)
        # Plans don't depend on what is bound. Or a statement with a LIMIT is planned each time.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return db

    def _connect_to_read(self) -> apsw.Connection:
        """Open what may not be written. Without a log beside it nobody is writing either, yet."""
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        seen = self._looks()
        self._still = seen if not seen.log else None
        return apsw.Connection(files.uri(self.path, immutable=not seen.log), flags=flags)

    def _looks(self) -> "_Looks":
        """Return what changes when somebody writes to the file."""
        changed, size = files.looks(self.path)
        return _Looks(changed, size, files.looks(self.path + "-wal")[1])

    def _look_again(self) -> None:
        """Open a file anew that nobody wrote when it was opened, if somebody has since."""
        if self._db.get_autocommit() and self._looks() != self._still:
            self._db.close()
            self._db = self._connect()
            self._seen_version = -1
            self._read_as_if_new()

    def _open(self) -> None:
        """Find out whose file it is before anything is changed, then make it ready."""
        with self._explained():
            # In this order: whoever creates the tables sets the id in the same transaction.
            tables = self._run("SELECT count(*) FROM sqlite_schema", {})[0][0]
            ours = self._run("PRAGMA application_id", {})[0][0] == APPLICATION_ID
            if tables and not ours:
                raise StoreCorruptError(
                    f"{self.path} isn't a queuectl database; it was left alone."
                )
            if tables:
                self._found_version = self._version()
                check_version(self.url, self._found_version)
            if self._read_only:
                self._read_as_if_new()
                return
            self._set_pragmas()
            if tables:
                # A copy that is only read gets no folder: whoever needs one makes it.
                self._upgrade()
            else:
                self._create()
                self._make_companion()

    def _set_pragmas(self) -> None:
        mode = self._db.execute("PRAGMA journal_mode").fetchall()[0][0]
        if mode != "wal":
            # A copy restored by hand may have lost it; without WAL readers would block writers.
            mode = self._switch_to_wal()
        if mode != "wal":
            raise StoreError(
                f"{self.path} can't use write-ahead logging here (journal mode {mode});"
                " put it on a local disk."
            )
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        self._db.execute("PRAGMA temp_store = MEMORY")

    def _switch_to_wal(self) -> str:
        """Switch the journal mode. SQLite doesn't wait for others here by itself, so we do."""
        tries = 0
        while True:
            try:
                return str(self._db.execute("PRAGMA journal_mode = WAL").fetchall()[0][0])
            except apsw.BusyError:
                if not self._wait_for_lock(tries):
                    raise
                tries += 1

    def _create(self) -> None:
        with self.transaction():
            # Somebody may have been faster.
            if not self._run("SELECT 1 FROM sqlite_schema LIMIT 1", {}):
                migrate(self, 0)
                self.run_script([f"PRAGMA application_id = {APPLICATION_ID}"])

    def _upgrade(self) -> None:
        if migrations.since(self._version()):
            with self.transaction():
                migrate(self, self._version())

    def _read_as_if_new(self) -> None:
        """Let a file that we can't upgrade look as if it were, to this connection only."""
        for name in migrations.since(self._version()):
            module = import_module(f"queuectl.store.migrations.{name}.sqlite")
            self.run_script(getattr(module, "AS_IF", ()))

    def _version(self) -> int:
        version = self._version_in_meta()
        if not version:
            raise StoreCorruptError(f"{self.path} has no schema version; it was left alone.")
        return version

    # -- statements and transactions ----------------------------------------------------

    def _run(self, text: str, params: Params) -> list[Row]:
        with self._lock:
            self._check_process()
            if self._still is not None:
                self._look_again()
            try:
                return self._cursor().execute(text, params).fetchall()
            except apsw.Error as error:
                raise self._explain(error) from error
            except UnicodeDecodeError:
                raise UnreadableError(
                    f"{self.path} holds text that isn't valid UTF-8, written by another program;"
                    " workers put such jobs aside, or mend it with that program."
                ) from None

    def _cursor(self) -> "apsw.Cursor | apsw.Connection":
        if not self._lent:
            return self._db
        # Its owner may have rows made into something else.
        cursor = self._db.cursor()
        cursor.row_trace = lambda _, row: row
        return cursor

    def _change(self, text: str, params: Params | Row) -> int:
        with self._lock:
            self._check_process()
            try:
                self._db.execute(text, params)
                return self._db.changes()
            except apsw.Error as error:
                raise self._explain(error) from error

    def _change_many(self, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        with self._lock:
            self._check_process()
            try:
                self._db.executemany(text, rows)
            except apsw.Error as error:
                raise self._explain(error) from error

    def _change_rows(self, statement: ForRows, rows: Sequence[Params]) -> set[int]:
        changed: set[int] = set()
        with self._lock:
            self._check_process()
            try:
                for text, values in self._of_rows(statement)(rows):
                    changed.update(seq for (seq,) in self._cursor().execute(text, values))
            except apsw.Error as error:
                raise self._explain(error) from error
        return changed

    def _insert_rows(self, statement: ForRows, rows: Sequence[Params]) -> None:
        with self._lock:
            for text, values in self._of_rows(statement)(rows):
                self._change_many(text, [values])

    def _of_rows(self, statement: ForRows) -> Batches:
        known = self._for_rows.get(statement)
        if known is None:
            from queuectl.store.sqlite_rows import OfRows

            of_rows = OfRows(self._text(statement), statement.names)
            known = self._for_rows[statement] = of_rows.for_all
        return known

    def _in_a_claim(self, claim: Callable[[], Claimed]) -> Claimed:
        def claim_what_is_text() -> Claimed:
            try:
                return claim()
            except UnreadableError:
                # Another program wrote it. One odd job must not stop the others.
                aside = self._put_aside(self.now())
                jobs, buried = claim()
                return Claimed(jobs, aside + buried)

        return super()._in_a_claim(claim_what_is_text)

    def _put_aside(self, now: int) -> list[Job]:
        """Bury the waiting jobs that hold what isn't text; it stays in their rows."""
        unreadable = list(self._unreadable())
        for seq, id, queue in unreadable:
            name = _decoded(id) or self._free_id(f"unreadable-{seq}")
            where = _decoded(queue) or DEFAULT_QUEUE
            params = {"seq": seq, "id": name, "queue": where, "now": now}
            self._change(self._text(self.sql.PUT_ASIDE), params)
        # The name of a queue may have been what couldn't be read.
        self._change(self._text(self.sql.DROP_EMPTY_COUNTS), {})
        buried = self._jobs(self.sql.JOBS_AT, seqs=self._list([seq for seq, _, _ in unreadable]))
        self.record_all([death_of(job, job.reason, at=now, node=None) for job in buried])
        return buried

    def _unreadable(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield places in the line, ids and queues of waiting jobs that hold what isn't text."""
        after = -(2**63)
        while rows := self._rows(self.sql.TEXTS, after=after, limit=READ_AT_ONCE):
            yield from (row[:1] + row[2:] for row in rows if _decoded(row[1]) is None)
            after = rows[-1][0]

    def _free_id(self, wanted: str) -> str:
        return f"{wanted}-{new_ids(1, 6)[0]}" if self.states([wanted]) else wanted

    def _in_one_statement(self, action: Callable[[], T]) -> T:
        if self.before_commit is not None:  # which is no moment of its own in a single statement
            return self._atomic(action)
        # It is a transaction by itself, and waits for the lock as BEGIN IMMEDIATE does.
        with self._lock:
            self._check_place()
            return action()

    def _insert_job(self, row: NewRow) -> int:
        # Cheaper than to have it returned. Triggers don't change what this says.
        with self._lock:
            self._change(self._enqueue_row, all_columns(row))
            return self._db.last_insert_rowid()

    def _insert_jobs(self, rows: Sequence[NewRow]) -> None:
        # A statement that writes one row costs as much as the row: so it writes many at once.
        full = len(rows) - len(rows) % ROWS_AT_ONCE
        for start in range(0, full, ROWS_AT_ONCE):
            self._insert_block(rows[start : start + ROWS_AT_ONCE])
        super()._insert_jobs(rows[full:])

    def _insert_block(self, rows: Sequence[NewRow]) -> None:
        """Write as many jobs as go into one statement."""
        *own, rests = zip(*rows, strict=True)
        rest = rests[0]
        if rests.count(rest) == len(rows):
            text, values = self._alike.statement(own, rest)
            self._change_many(text, [values])
        else:
            every = chain.from_iterable(map(all_columns, rows))
            self._change_many(self._enqueue_block, [tuple(every)])

    @cached_property
    def _enqueue_block(self) -> str:
        return self._enqueue_text(ROWS_AT_ONCE)

    @cached_property
    def _alike(self) -> "Alike":
        from queuectl.store.sqlite_rows import Alike

        return Alike(self._text(self.sql.ENQUEUE), self.sql.NEW_JOB)

    def _begin(self) -> None:
        self._check_place()
        self._run("BEGIN IMMEDIATE", {})

    def _commit(self) -> None:
        self._run("COMMIT", {})

    def _rollback(self) -> None:
        # In a child that was forked inside a transaction it isn't ours to undo.
        if self._pid == os.getpid() and not self._db.get_autocommit():
            self._db.execute("ROLLBACK")

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        with self._lock:
            if self._depth:
                yield
                return
            self._run("BEGIN DEFERRED", {})
            try:
                yield
            finally:
                self._rollback()

    def _check_lent(self, connection: Any) -> None:
        if not isinstance(connection, apsw.Connection):
            # Another copy of SQLite in this process would undo the locks of this one.
            raise wrong_connection("apsw.Connection", connection)
        try:
            path = connection.filename
        except apsw.ConnectionClosedError:
            path = ""
        check_open(bool(path))
        if os.path.realpath(path) != os.path.realpath(self.path):
            raise UsageError(f"That connection is to another file than {self.path}.")

    def _check_place(self) -> None:
        """Notice that the file was deleted or replaced: what we write now, nobody will read."""
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            raise StoreMissingError(f"{self.path} was deleted while it was in use.") from None
        if (there.st_dev, there.st_ino) != self._file:
            raise StoreMissingError(f"{self.path} was replaced while it was in use.")

    def _wait_for_lock(self, tries: int) -> bool:
        """Wait a little for the lock, with jitter so that the waiting don't march in step."""
        if tries == 0:
            self._waiting_since = monotonic()
        elif monotonic() - self._waiting_since > self._patience:
            return False
        from random import random

        sleep(min(0.0005 * 1.5 ** min(tries, 10), 0.02) * (0.5 + random()))
        return True

    _waiting_since = 0.0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._explain(error) from error

    def _explain(self, error: apsw.Error) -> StoreError | DuplicateError:
        """Turn an SQLite error into a sentence."""
        for kind, make in _SENTENCES:
            if isinstance(error, kind):
                return make(self.path, error)
        if isinstance(error, apsw.ConstraintError) and "jobs.id" in str(error):
            return DuplicateError("That id is taken.")
        return StoreError(f"{self.path}: {error}.")

    # -- clocks and wake-ups --------------------------------------------------------------

    def now(self) -> int:
        return time_ns() // 1_000_000

    def steady(self) -> int:
        # All nodes are on this host, where CLOCK_MONOTONIC is one for all processes. It stands
        # still while the machine sleeps, so a closed lid costs nobody a lease.
        return clock_gettime_ns(CLOCK_MONOTONIC) // 1_000_000

    def lease_clock(self) -> int:
        return CLOCK_MONOTONIC

    def is_elsewhere(self, node: Node) -> bool:
        # What it runs writes beside the database that it works on.
        folder = os.path.dirname(os.path.dirname(node.spool))
        try:
            return folder.endswith(".d") and not os.path.samefile(folder[:-2], self.path)
        except OSError:
            return False

    def listen(self) -> Listener:
        from queuectl.store.wake import listen

        files.refuse_network(self.path)
        return listen(self.path, self.companion, self._data_version, self._make_companion)

    def _wake(self, topics: set[Topic]) -> None:
        files.touch(self.companion, topics, self._make_companion)

    def _make_companion(self) -> None:
        """Make the folder beside the file: the same people may use both."""
        files.make_folder(self.companion, group_of_file(self.path))

    def changed(self) -> bool:
        self._check_place()
        before, self._seen_version = self._seen_version, self._data_version()
        return before != self._seen_version

    def _data_version(self) -> int:
        """Return a number; it is another one when another connection has changed something."""
        return int(self._run("PRAGMA data_version", {})[0][0])

    # -- the store itself -------------------------------------------------------------------

    def info(self) -> Mapping[str, Any]:
        def pragma(name: str) -> Any:
            return self._run(f"PRAGMA {name}", {})[0][0]

        return {
            "engine": "sqlite",
            "engine_version": apsw.sqlite_lib_version(),
            "path": self.path,
            "schema_version": self._version(),
            "shared_with": self._shared_with(),
            "size_bytes": files.looks(self.path)[1],
            "wal_bytes": files.looks(self.path + "-wal")[1],
            "free_bytes": pragma("freelist_count") * pragma("page_size"),
            "journal_mode": pragma("journal_mode"),
            "synchronous": {0: "off", 1: "normal", 2: "full", 3: "extra"}[pragma("synchronous")],
        }

    def _shared_with(self) -> str | None:
        """Return the name of the group that may use the file, besides its owner."""
        gid = group_of_file(self.path)
        return None if gid is None else access.group_name(gid)

    def verify(self) -> list[str]:
        from queuectl.store.verify import verify_rows

        broken = [str(row[0]) for row in self._run("PRAGMA integrity_check", {}) if row[0] != "ok"]
        if odd := sum(1 for _ in self._unreadable()):
            broken.append(
                f"{odd} waiting jobs hold text that isn't valid UTF-8; workers put them aside."
            )
        return broken + verify_rows(lambda text: self._run(self._text(text), {}))

    def migrate(self) -> tuple[int, int]:
        # It was done when the file was opened.
        return self._found_version, self._version()

    def backup(self, path: str, progress: Progress | None = None) -> None:
        files.create_private(path)
        # One read transaction for the whole copy: writers go on, and can't make it start over.
        with self._explained(), self._snapshot(), closing(apsw.Connection(path)) as target:
            self._run("SELECT 1 FROM sqlite_schema LIMIT 1", {})
            with target.backup("main", self._db, "main") as copy:
                while not copy.done:
                    copy.step(256)
                    if progress is not None:
                        progress(copy.page_count - copy.remaining, copy.page_count)

    def vacuum(self) -> None:
        self._run("VACUUM", {})
        self._run("PRAGMA wal_checkpoint(TRUNCATE)", {})

    def spool_root(self) -> str:
        return os.path.join(self.companion, "spool")

    def make_spool_root(self) -> str:
        self._make_companion()
        files.make_folder(self.spool_root(), group_of(self.companion))
        return self.spool_root()

    def share(self, group: str) -> None:
        from queuectl.store.shared import find_group, share

        share(self.path, find_group(group))

    def close(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                self._db.close()


def _decoded(text: bytes) -> str | None:
    """Return text, or None for bytes that aren't."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _busy(path: str, error: apsw.Error) -> StoreError:
    return StoreBusyError(
        f"{path} stayed locked by another process for too long; try again in a moment."
    )


def _full(path: str, error: apsw.Error) -> StoreError:
    return StoreFullError(f"There is no space left for {path}; free some. Nothing was changed.")


def _read_only(path: str, error: apsw.Error) -> StoreError:
    return access.denied(path) or StoreReadOnlyError(
        f"{path} can't be written ({error}); check its filesystem. Nothing was changed."
    )


def _corrupt(path: str, error: apsw.Error) -> StoreError:
    return StoreCorruptError(
        f"{path} is damaged or isn't a database ({error}); it was left alone,"
        " restore a backup of it."
    )


def _cannot_open(path: str, error: apsw.Error) -> StoreError:
    return access.denied(path) or StoreError(
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
