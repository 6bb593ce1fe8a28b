"""The store in MariaDB or MySQL, through PyMySQL."""

import json
import os
import re
import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from queuectl.address import Address
from queuectl.errors import (
    StoreDeniedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreTooOldError,
    StoreUnreachableError,
    UsageError,
)
from queuectl.guard.output import halves
from queuectl.job import JOB_COLUMNS, State
from queuectl.store.contract import Ended, InLine, Listener, chunks
from queuectl.store.dialects import MYSQL
from queuectl.store.lent import check_open, check_same_database, wrong_connection
from queuectl.store.migrate import migrate
from queuectl.store.mysql_rows import insert_all, update_all
from queuectl.store.polling import PollingListener
from queuectl.store.rows import NewRow, named
from queuectl.store.server import (
    CONNECT_WITHIN,
    SILENT_FOR,
    ConflictError,
    DisconnectedError,
    ServerStore,
    UnsteadyError,
)
from queuectl.store.statements import ForRows
from queuectl.store.statements import mysql as statements
from queuectl.store.tables import MAINTAINED
from queuectl.store.transactions import Params, Row
from queuectl.values import replace

_SEQ, _DATA = JOB_COLUMNS.index("seq"), JOB_COLUMNS.index("data")
KINDS: Mapping[bool, tuple[str, tuple[int, ...]]] = {
    True: ("MariaDB", (10, 6)),
    False: ("MySQL", (8, 0, 29)),
}
"""What it is called, and its oldest version that will do, by whether it is MariaDB."""
MIGRATE_WITHIN = 60
"""Seconds to wait for somebody else who migrates the same schema."""
ROWS_AT_ONCE = 64
"""Rows of one statement. In a longer one, the value of each would be looked for too long."""
SLOTS = 16
"""Over which each counter is spread, as the triggers do it: see the schema."""
SMALL_CHANGE = 64 * 1024
"""Bytes of a packet that the other columns of a row may take."""
READ_WITHIN = 600
"""Seconds after which an answer that doesn't come isn't waited for any more."""
_SESSION = (
    "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
    " innodb_lock_wait_timeout = 10, lock_wait_timeout = 10, time_zone = '+00:00',"
    " sql_select_limit = 18446744073709551615, sql_big_selects = 1,"
    " {isolation} = 'READ-COMMITTED'{more}"
)
_SILENCE_IN_MARIADB = (
    f", idle_transaction_timeout = 60, idle_write_transaction_timeout = {SILENT_FOR}"
)
_CONFLICT = {1213, 1205, 1020, 3572}
_CUT_OFF = {0, 1040, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1317, 1927, 2003}
_CUT_OFF |= {2006, 2013, 2014, 2055, 3169, 4031}
_DENIED = {1044, 1142, 1143, 1227, 1370, 1419, 1410}
_FULL = {3, 1021, 1114, 1041, 1037}
_READ_ONLY = {1290, 1792, 1836}
_THERE = 1060


class MysqlStore(ServerStore):
    """A queue in tables with a common prefix in a MariaDB or MySQL database."""

    secret_variables = ("MYSQL_PWD",)
    sql = statements
    CLOCK = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
    BEGIN = "START TRANSACTION READ WRITE"
    SNAPSHOT = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION READ ONLY",
    )

    def __init__(self, address: Address, *, create: bool = False, upgrade: bool = False) -> None:
        self.prefix = "queuectl_" if address.namespace is None else address.namespace
        self.is_mariadb = True
        self._packet = 0
        dialect = replace(MYSQL, prefix=self.prefix)
        super().__init__(address, dialect, create=create, upgrade=upgrade)

    # -- connections --------------------------------------------------------------------

    def _open_connection(self) -> Any:
        db = self._connect_as_asked()
        try:
            self._check_server(str(db.server_version))
            with self._explained():
                # MySQL knows no such limit for transactions, only for sessions.
                more = _SILENCE_IN_MARIADB if self.is_mariadb else ", wait_timeout = 60"
                isolation = "tx_isolation" if self.is_mariadb else "transaction_isolation"
                self._execute(db, _SESSION.format(isolation=isolation, more=more), {})
                self._packet = int(self._execute(db, "SELECT @@max_allowed_packet", {})[0][0][0])
        except BaseException:
            self._close_connection(db)
            raise
        return db

    def _connect_as_asked(self) -> Any:
        given = self._arguments()
        try:
            db: Any = pymysql.connect(defer_connect=True, **given)
            # One that accepts a connection must also greet; what comes later may take its time.
            later, db._read_timeout = db._read_timeout, db.connect_timeout
            db.connect(self._socket(db) if not db.unix_socket else None)
            db._read_timeout = later
        except pymysql.err.MySQLError as error:
            raise self._explain_connecting(error) from error
        except OSError as error:
            raise self._unreachable(error.strerror or str(error)) from error
        except TypeError as error:
            name = str(error).rpartition("argument ")[2]
            raise UsageError(f"{self.url} has an option that can't be used: {name}.") from None
        except ValueError as error:
            raise UsageError(f"{self.url} has an option that can't be used: {error}.") from None
        return db

    def _arguments(self) -> dict[str, Any]:
        address = self.address
        given: dict[str, Any] = dict(address.options)
        for name in ("port", "connect_timeout", "read_timeout", "write_timeout"):
            if name in given:
                given[name] = int(given[name])
        defaults = os.path.expanduser("~/.my.cnf")
        if os.path.exists(defaults) and address.password is None:
            given.setdefault("read_default_file", defaults)
        if address.user:
            given["user"] = address.user
        if address.password is not None:
            # As bytes: the driver would take it for latin-1.
            given["password"] = address.password.encode()
        elif os.environ.get("MYSQL_PWD"):
            given.setdefault("password", os.environ["MYSQL_PWD"])
        if address.host:
            given["host"] = address.host
        if address.port is not None:
            given["port"] = address.port
        return {
            "connect_timeout": CONNECT_WITHIN,
            "read_timeout": READ_WITHIN,
            "write_timeout": READ_WITHIN,
            **given,
            "database": address.database,
            "charset": "utf8mb4",
            "autocommit": True,
            # Rows found, not rows changed: a fence that matches is a fence that matches. And
            # several statements in one message: to be woken for each answer costs more than it.
            "client_flag": CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
        }

    def _socket(self, db: Any) -> socket.socket:
        """Make a connection on which a peer that vanished is noticed within seconds."""
        sock = socket.create_connection((db.host, db.port), db.connect_timeout)
        sock.settimeout(None)
        for name, value in (
            ("TCP_KEEPIDLE", 5),
            ("TCP_KEEPINTVL", 2),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 10_000),
            ("TCP_NODELAY", 1),
        ):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return sock

    def _check_server(self, version: str) -> None:
        self.is_mariadb = "mariadb" in version.lower()
        # MariaDB greets old clients as 5.5.5-10.11.6-MariaDB.
        text = version.removeprefix("5.5.5-") if self.is_mariadb else version
        found = tuple(int(n) for n in re.findall(r"\d+", text)[:3])
        name, oldest = KINDS[self.is_mariadb]
        if found < oldest:
            raise StoreTooOldError(
                f"{self.url} is {name} {'.'.join(map(str, found))}; queuectl needs"
                f" {'.'.join(map(str, oldest))} or newer."
            )
        if not self.is_mariadb:
            self.dialect = replace(self.dialect, collation="COLLATE utf8mb4_0900_bin")

    def _check_lent(self, connection: Any) -> None:
        if not isinstance(connection, pymysql.connections.Connection):
            raise wrong_connection("pymysql.connections.Connection", connection)
        check_open(bool(connection.open))
        with connection.cursor(Cursor) as cursor:
            cursor.execute("SELECT DATABASE()")
            ((database,),) = cursor.fetchall()
        check_same_database(self.address.database, database)

    def _close_connection(self, db: Any) -> None:
        with suppress(pymysql.err.MySQLError, OSError):
            # Without a farewell: the connection may be in the middle of something.
            db._force_close()

    def _execute(self, db: Any, text: str, params: Params) -> tuple[list[Row], int]:
        with db.cursor(Cursor) as cursor:
            count = cursor.execute(text, params or None)
            rows = list(cursor.fetchall()) if cursor.description is not None else []
            return rows, int(count)

    def _execute_many(self, db: Any, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        with db.cursor(Cursor) as cursor:
            cursor.executemany(text, rows)

    @property
    def _driver_error(self) -> type[Exception]:
        return pymysql.err.MySQLError

    # -- errors -------------------------------------------------------------------------

    def _explain(self, error: Exception) -> Exception:
        code, said = _parts(error)
        if code in _CONFLICT:
            return ConflictError(f"Another transaction was in the way at {self.url} ({said}).")
        if code == 1062 and "jobs_id_key" in said:
            return ConflictError("Somebody else took that id at the same moment.")
        if code in _CUT_OFF:
            return DisconnectedError(f"The connection to {self.url} was lost ({said}).")
        if code in _DENIED:
            return StoreDeniedError(
                f"{self.url} denies a right that is needed ({said}).",
                advice="see the grants in the guide, or run `queuectl doctor`.",
            )
        if code in _FULL:
            return StoreFullError(f"The server of {self.url} is full ({said}).")
        if code in _READ_ONLY:
            return StoreReadOnlyError(f"{self.url} can only be read ({said}).")
        return StoreError(f"{self.url}: {said}.")

    def _explain_connecting(self, error: Exception) -> StoreError:
        code, said = _parts(error)
        user = self.address.user or "the current user"
        if code == 1045:
            return StoreDeniedError(f"{self.url} refuses the password of {user}, or its host.")
        if code == 1049:
            return StoreDeniedError(f"{self.url}: there is no database {self.address.database}.")
        if code == 1044:
            return StoreDeniedError(f"{self.url} doesn't let {user} into that database.")
        if code == 1040:
            return StoreUnreachableError(
                f"{self.url} has no connection left; raise max_connections."
            )
        if code in (1130, 1129):
            return StoreDeniedError(f"{self.url} doesn't let this host in.")
        unsteady = code == 1053 or (code == 2013 and "timed out" not in said)
        return self._unreachable(said, UnsteadyError if unsteady else StoreUnreachableError)

    def _unreachable(self, said: str, kind: type[StoreError] = StoreUnreachableError) -> StoreError:
        return kind(
            f"{self.url} can't be reached ({said}); is the server up, and the address right?"
        )

    # -- schema -------------------------------------------------------------------------

    def _schema_version(self) -> int | None:
        rows = self._run(
            "SELECT 1 FROM information_schema.tables"
            " WHERE table_schema = DATABASE() AND table_name = %(name)s",
            {"name": self.prefix + "meta"},
        )
        return self._version_in_meta() if rows else None

    def migrate(self) -> tuple[int, int]:
        with self._migrating():
            before = self._schema_version() or 0
            return before, migrate(self, before)

    def run_script(self, statements: Sequence[str]) -> None:
        for statement in statements:
            try:
                super().run_script([statement])
            except StoreError as error:
                # Columns that a migration which was cut off has added already; MySQL has no words
                # for adding them only if they aren't there.
                if (
                    not isinstance(error.__cause__, Exception)
                    or _parts(error.__cause__)[0] != _THERE
                ):
                    raise

    @contextmanager
    def _migrating(self) -> Iterator[None]:
        """Be the only one: its schema changes can't be part of a transaction."""
        name = f"queuectl.{self.address.database}.{self.prefix}"[:64]
        got = self._run("SELECT GET_LOCK(%(n)s, %(t)s)", {"n": name, "t": MIGRATE_WITHIN})
        # To change a table one waits for all who are using it.
        self._run(f"SET SESSION lock_wait_timeout = {MIGRATE_WITHIN}", {})
        if got[0][0] != 1:
            raise StoreError(f"Somebody else has been migrating {self.url} for too long.")
        try:
            yield
        finally:
            with suppress(StoreError):
                self._run("SELECT RELEASE_LOCK(%(name)s)", {"name": name})

    def close(self) -> None:
        with self._lock:
            if self._pid == os.getpid() and self._db is not None and not self._depth:
                # With a farewell, or the server notes that we were cut off.
                with suppress(pymysql.err.MySQLError, OSError):
                    self._db.close()
                self._db = None
        super().close()

    # -- what it says in another way ------------------------------------------------------

    def _keep_lease(self, node: str) -> None:
        self._check_lease(self.sql.KEEP_LEASE, node)

    def _first_ready(self, queues: Sequence[str], limit: int, now: int) -> list[InLine]:
        found: list[InLine] = []
        for queue in self._ready_queues(queues):
            rows = self._rows(self.sql.READY_UNLOCKED, queue=queue, limit=limit, now=now)
            found += [InLine(*row) for row in rows]
        found.sort(key=lambda job: (-job.priority, job.seq))
        found = found[:limit]
        stored = self._lock_ready([job.seq for job in found])
        if len(stored) == len(found):
            return [job._replace(row=stored[job.seq]) for job in found]
        # Others claim at the same time: look again, and pass over what they have locked.
        return super()._first_ready(queues, limit, now)

    def _lock_ready(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Lock jobs that are still ready, as far as nobody else has; returns them by their seq."""
        if not seqs:
            return {}
        stored = {}
        for text, data in self._rows(self.sql.LOCK_READY, seqs=self._list(seqs)):
            # A job that fills a packet by itself doesn't fit into one as JSON, and is NULL.
            if text is not None:
                row = json.loads(text)
                row.insert(_DATA, data)
                stored[row[_SEQ]] = tuple(row)
        return stored

    _singly = False

    def _change_rows(self, statement: ForRows, rows: Sequence[Params]) -> set[int]:
        if self._singly or len(rows) == 1:
            return {row["seq"] for row in rows if self._count_changed(statement, [row])}
        if self._count_changed(statement, rows) == len(rows):
            return {row["seq"] for row in rows}
        # Which of them weren't changed, it doesn't say. The next time each is changed by itself.
        self._singly = True
        raise ConflictError(f"Jobs at {self.url} have changed meanwhile.")

    def _count_changed(self, statement: ForRows, rows: Sequence[Params]) -> int:
        text, names = self._text(statement), statement.names
        return self._change_all(
            [update_all(text, names, part) for part in chunks(rows, ROWS_AT_ONCE)]
        )

    def _insert_rows(self, statement: ForRows, rows: Sequence[Params]) -> None:
        text, names = self._text(statement), statement.names
        self._change_all([insert_all(text, names, part) for part in chunks(rows, ROWS_AT_ONCE)])

    def _change_all(self, statements: Sequence[tuple[str, Params]]) -> int:
        """Run several statements, in one message if it isn't too long; count the changed rows."""
        with self._lock:
            self._check_process()
            if self._db is None:
                raise DisconnectedError(f"The connection to {self.url} was lost.")
            with self._explained(), self._db.cursor(Cursor) as cursor:
                texts = [cursor.mogrify(text, params or None) for text, params in statements]
                short = sum(map(len, texts)) < self._packet // 8
                changed = 0
                for message in [";".join(texts)] if short else texts:
                    changed += int(cursor.execute(message))
                    while cursor.nextset():
                        changed += int(cursor.rowcount)
        self._wrote |= bool(changed)
        return changed

    def _commit(self) -> None:
        super()._commit()
        self._singly = False

    def _insert_job(self, row: NewRow) -> int:
        if self.is_mariadb:
            return super()._insert_job(row)
        self._change(self._text(self.sql.ENQUEUE_ONE), named(row))
        (job,) = self._jobs(self.sql.GET, id=row[0])
        return job.seq

    def _end_runs(self, rows: Mapping[int, Params]) -> set[int]:
        if self._singly or len(rows) == 1:
            return super()._end_runs(rows)
        ended = self._change_rows(self.sql.FINISH_COUNTED, list(rows.values()))
        self._insert_rows(self.sql.KEEP_ATTEMPTS, list(rows.values()))
        if moved := _moved(rows.values(), slot=self._db.thread_id() % SLOTS):
            self._insert_rows(self.sql.ADD_COUNTS, moved)
        return ended

    def finish(self, ends: Sequence[Ended]) -> list[Ended]:
        fitting = {id(end): self._fit(end) for end in ends}
        lost = {id(end) for end in super().finish(list(fitting.values()))}
        return [end for end in ends if id(fitting[id(end)]) in lost]

    def _fit(self, end: Ended) -> Ended:
        """Cut out the middle of output that the server wouldn't take in one piece."""
        # Written as text, odd bytes take two.
        room = (self._packet // 2 - SMALL_CHANGE) // 2
        out, err = end.output.stdout, end.output.stderr
        if len(out) <= room and len(err) <= room:
            return end
        output = replace(
            end.output, stdout=_without_middle(out, room), stderr=_without_middle(err, room)
        )
        return replace(end, output=output)

    def fold(self) -> None:
        self._atomic(self._fold)

    def _fold(self) -> None:
        """Bring counters that are spread over several slots together, as far as nobody has them."""
        first: dict[tuple[Any, ...], int] = {}
        for queue, state, priority, slot, jobs, timed in self._rows(self.sql.SPREAD):
            key = {"queue": queue, "state": state, "priority": priority}
            here = first.setdefault((queue, state, priority), slot)
            if here == slot and (jobs or timed):
                continue
            if here != slot:
                moved = {**key, "slot": here, "jobs": jobs, "timed": timed}
                if not self._change(self._text(self.sql.ADD_COUNT), moved):
                    del first[queue, state, priority]
                    continue
            else:
                del first[queue, state, priority]
            self._change(self._text(self.sql.DROP_COUNT), {**key, "slot": slot})

    def listen(self) -> Listener:
        self._make_companion()
        return PollingListener(self.companion, self._make_companion)

    # -- the store itself -----------------------------------------------------------------

    def info(self) -> Mapping[str, Any]:
        version, flush, packet = self._run(
            "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@max_allowed_packet", {}
        )[0]
        size = self._run(
            "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables"
            " WHERE table_schema = DATABASE() AND LEFT(table_name, %(n)s) = %(prefix)s",
            {"n": len(self.prefix), "prefix": self.prefix},
        )[0][0]
        return {
            "engine": "mariadb" if self.is_mariadb else "mysql",
            "engine_version": version,
            "url": self.url,
            "prefix": self.prefix,
            "schema_version": self._version_in_meta(),
            "size_bytes": int(size),
            "innodb_flush_log_at_trx_commit": int(flush),
            "max_allowed_packet": int(packet),
        }

    def vacuum(self) -> None:
        for table in MAINTAINED:
            self._run(self._text(f"OPTIMIZE TABLE {{{table}}}"), {})


def _moved(rows: Iterable[Params], *, slot: int) -> list[Params]:
    """Return by how much ended runs move the counters; jobs that ran were counted as pending."""
    moved: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        timed = bool(row["timeout"])
        for state, sign in ((State.PENDING.value, -1), (row["state"], 1)):
            counter = moved[row["queue"], state, row["priority"]]
            counter[0] += sign
            counter[1] += sign * timed
    names = ("queue", "state", "priority", "slot", "jobs", "timed")
    return [
        dict(zip(names, (*key, slot, jobs, timed), strict=True))
        for key, (jobs, timed) in sorted(moved.items())
        if jobs or timed
    ]


def _without_middle(data: bytes, room: int) -> bytes:
    if len(data) <= room:
        return data
    # Halves, as everywhere: whoever shows them says how much is missing between the two.
    head, tail = halves(room)
    return data[:head] + data[len(data) - tail :]


def _parts(error: Exception) -> tuple[int, str]:
    """Return the number and the words of an error."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = str(error.args[1]) if len(error.args) > 1 else str(error)
    return code, said.rstrip(".")
