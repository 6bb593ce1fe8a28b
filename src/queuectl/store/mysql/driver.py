"""MariaDB and MySQL, through PyMySQL."""

import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pymysql
from pymysql.constants import CLIENT, SERVER_STATUS
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
from queuectl.store.contract import Listener, chunks
from queuectl.store.dialects import MYSQL
from queuectl.store.driver import ConflictError, DisconnectedError, Params, Row, UnsteadyError
from queuectl.store.lent import check_open, check_same_database, unwrapped, wrong_connection
from queuectl.store.mysql.rows import insert_all, update_all
from queuectl.store.polling import PollingListener
from queuectl.store.servers import CONNECT_WITHIN, SILENT_FOR, ServerDriver
from queuectl.store.statements import ForRows
from queuectl.store.statements import mysql as statements
from queuectl.values import replace

KINDS: Mapping[bool, tuple[str, tuple[int, ...]]] = {
    True: ("MariaDB", (10, 6)),
    False: ("MySQL", (8, 0, 29)),
}
"""What it is called, and its oldest version that will do, by whether it is MariaDB."""
ROWS_AT_ONCE = 64
"""Rows of one statement. In a longer one, the value of each would be looked for too long."""
UNSENT = 64
"""Inserts that are kept at most, until the next statement of their transaction."""
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


MakeForAll = Callable[[str, Iterable[str], Sequence[Params]], tuple[str, Params]]
"""Makes a statement about one row, with the names of its values, one about all of these."""


class _Connection(pymysql.connections.Connection):
    """One of our own, which may keep what nobody waits for until something is asked."""

    def __init__(self, **given: Any) -> None:
        self.unsent: list[str] = []
        """Inserts of this transaction that go in one message with its next statement: to be woken
        for each answer costs both sides more than a small insert."""
        super().__init__(**given)

    @property
    def may_keep(self) -> bool:
        """Whether there is something to come, which ends the transaction at least."""
        return _is_in_transaction(self)

    def take_unsent(self) -> list[str]:
        """Return what was kept, which is somebody else's business from now on."""
        unsent, self.unsent = self.unsent, []
        return unsent

    # Where no certificate is checked none is read, which takes 75 ms.
    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        if sslp:
            checked: ssl.SSLContext = super()._create_ssl_ctx(sslp)  # type: ignore[misc]
            return checked
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


class MysqlDriver(ServerDriver):
    """A queue in tables with a common prefix in a MariaDB or MySQL database."""

    sql = statements
    # By this name: `pymysql.err` is another module once Django has imported it as MySQLdb.
    errors = pymysql.MySQLError
    begins = ("START TRANSACTION READ WRITE",)
    sees_one_state = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION READ ONLY",
    )

    def __init__(self, address: Address) -> None:
        self.prefix = "queuectl_" if address.namespace is None else address.namespace
        self.is_mariadb = True
        self.packet = 0
        """How many bytes the server takes at once."""
        super().__init__(address, replace(MYSQL, prefix=self.prefix))

    # -- connections --------------------------------------------------------------------

    def connect(self) -> Any:
        db = self._connect_as_asked()
        try:
            self._check_server(str(db.server_version))
            # MySQL knows no such limit for transactions, only for sessions.
            more = _SILENCE_IN_MARIADB if self.is_mariadb else ", wait_timeout = 60"
            isolation = "tx_isolation" if self.is_mariadb else "transaction_isolation"
            self.execute(db, _SESSION.format(isolation=isolation, more=more), {})
            self.packet = int(self.rows(db, statements.PACKET, {})[0][0])
        except pymysql.MySQLError as error:
            self.disconnect(db)
            raise self.explain(error, db) from error
        except BaseException:
            self.disconnect(db)
            raise
        return db

    def _connect_as_asked(self) -> Any:
        given = self._arguments()
        try:
            db: Any = _Connection(defer_connect=True, **given)
            # One that accepts a connection must also greet; what comes later may take its time.
            later, db._read_timeout = db._read_timeout, db.connect_timeout
            db.connect(self._socket(db) if not db.unix_socket else None)
            db._read_timeout = later
        except pymysql.MySQLError as error:
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

    def lend(self, connection: Any) -> Any:
        connection = unwrapped(connection)
        if not isinstance(connection, pymysql.connections.Connection):
            raise wrong_connection("pymysql.connections.Connection", connection)
        check_open(bool(connection.open))
        with connection.cursor(Cursor) as cursor:
            cursor.execute(statements.DATABASE)
            ((database,),) = cursor.fetchall()
        check_same_database(self.address.database, database)
        return connection

    def has_begun(self, db: Any) -> bool:
        return not db.get_autocommit() or _is_in_transaction(db)

    def disconnect(self, db: Any, *, politely: bool = False) -> None:
        with suppress(pymysql.MySQLError, OSError):
            if politely:
                # With a farewell, or the server notes that we were cut off.
                db.close()
            else:
                db._force_close()

    # -- statements ---------------------------------------------------------------------

    def execute(self, db: Any, text: str, params: Params) -> tuple[list[Row], int]:
        return self._answers(db, [self._mogrified(db, text, params)])[0]

    def each(self, db: Any, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        self._answers(db, [])
        with db.cursor(Cursor) as cursor:
            cursor.executemany(text, rows)

    def load(self, db: Any, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        from queuectl.store.statements import whole

        self.each(db, whole.load(self.prefix + table, columns, "%s"), list(rows))

    def update(self, db: Any, statement: ForRows, rows: Sequence[Params]) -> set[int] | None:
        texts = list(self._for_rows(db, update_all, statement, rows))
        changed = sum(count for _, count in self._answers(db, texts))
        if changed == len(rows):
            return {row["seq"] for row in rows}
        # Which of them weren't changed, it doesn't say.
        return None if changed or len(rows) > 1 else set()

    def insert(self, db: Any, statement: ForRows, rows: Sequence[Params]) -> None:
        for text in self._for_rows(db, insert_all, statement, rows):
            if not (isinstance(db, _Connection) and db.may_keep):
                self._answers(db, [text])
                continue
            db.unsent.append(text)
            if len(db.unsent) > UNSENT or len(text) > self.packet // 16:
                self._answers(db, [])

    def rollback(self, db: Any, to: str | None = None) -> None:
        if isinstance(db, _Connection):
            db.take_unsent()
        super().rollback(db, to)

    def _mogrified(self, db: Any, text: str, params: Params) -> str:
        """Put values into a statement."""
        with db.cursor(Cursor) as cursor:
            done: str = cursor.mogrify(text, params or None)
            return done

    def _for_rows(
        self, db: Any, make: MakeForAll, statement: ForRows, rows: Sequence[Params]
    ) -> Iterator[str]:
        """Make statements of one about rows, of which each is for as many as it can be for."""
        text, names = self.text(statement), statement.names
        for part in self._portions(names, rows):
            yield self._mogrified(db, *make(text, names, part))

    def _portions(self, names: Sequence[str], rows: Sequence[Params]) -> Iterable[Sequence[Params]]:
        """Return rows in portions that fit into a packet each."""
        if "detail" not in names:
            return chunks(rows, ROWS_AT_ONCE)
        # What an event tells may be as long as a job.
        portions: list[list[Params]] = [[]] if rows else []
        size = 0
        for row in rows:
            own = len(row["detail"] or "") + len(row["was"] or "")
            is_full = len(portions[-1]) == ROWS_AT_ONCE or size + own > self.packet // 16
            if portions[-1] and is_full:
                portions.append([])
                size = 0
            portions[-1].append(row)
            size += own
        return portions

    def _answers(self, db: Any, texts: Sequence[str]) -> list[tuple[list[Row], int]]:
        """Run statements behind what is unsent, in one message if it isn't too long.

        Returns what these are answered with: rows, and how many they changed. On a connection of
        somebody else's a message may be of one statement only.
        """
        is_ours = isinstance(db, _Connection)
        kept = db.take_unsent() if is_ours else []
        texts = [*kept, *texts]
        is_short = is_ours and sum(map(len, texts)) < self.packet // 8
        found: list[tuple[list[Row], int]] = []
        with db.cursor(Cursor) as cursor:
            for message in [";".join(texts)] if is_short and texts else texts:
                cursor.execute(message)
                found.append(_answer(cursor))
                while cursor.nextset():
                    found.append(_answer(cursor))
        return found[len(kept) :]

    # -- errors -------------------------------------------------------------------------

    def explain(self, error: Exception, db: Any) -> Exception:
        code, said = parts(error)
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
        code, said = parts(error)
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

    # -- wake-ups -----------------------------------------------------------------------

    def listen(self, version: Callable[[], int]) -> Listener:
        self.make_companion()
        return PollingListener(self.companion, self.make_companion)


def _is_in_transaction(db: Any) -> bool:
    return bool(db.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


def _answer(cursor: Cursor) -> tuple[list[Row], int]:
    """Return the rows of a statement, and how many it has changed."""
    return [] if cursor.description is None else list(cursor.fetchall()), int(cursor.rowcount)


def parts(error: BaseException) -> tuple[int, str]:
    """Return the number and the words of an error."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = str(error.args[1]) if len(error.args) > 1 else str(error)
    return code, said.rstrip(".")
