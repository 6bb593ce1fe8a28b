"""PostgreSQL, through psycopg 3.

Works behind PgBouncer in transaction mode: nothing is kept in the session. There, and wherever
notifications don't come through, nodes poll instead of listening.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from select import select
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from queuectl.address import Address
from queuectl.errors import (
    QueuectlError,
    StoreDeniedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreTooOldError,
    StoreUnreachableError,
    UsageError,
)
from queuectl.store.contract import Listener, Topic
from queuectl.store.dialects import POSTGRESQL
from queuectl.store.driver import ConflictError, DisconnectedError, Params, Row, UnsteadyError
from queuectl.store.lent import check_open, check_same_database, unwrapped, wrong_connection
from queuectl.store.polling import PollingListener
from queuectl.store.postgresql.notified import Notified
from queuectl.store.servers import CONNECT_WITHIN, SILENT_FOR, ServerDriver
from queuectl.store.statements import postgresql as statements
from queuectl.values import replace

OLDEST = 130000
"""PostgreSQL 13."""
_SESSION = (
    f"SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '{SILENT_FOR}s';"
    " SET default_transaction_read_only = off;"
    # Rows that a statement is about are looked up one by one. Before it has statistics, or when it
    # keeps a plan from when there were few, the server would read all jobs to find a handful.
    " SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;"
    # A walk along the lines is taken for one of thousands of steps, and compiled, each time anew:
    # that takes a hundred times as long as the claim of which it is a part.
    " SET jit = off"
)
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_PLANNED = ("SELECT", "WITH")
_SILENCE = "SET LOCAL idle_in_transaction_session_timeout = '{}s'"
_UNSTEADY = (
    "starting up",
    "shutting down",
    "recovery mode",
    "not yet accepting connections",
    "server closed the connection",
    "Connection reset by peer",
    "during SSL exchange",
)
"""What is said of a server that will take us in a moment later."""


class PostgresDriver(ServerDriver):
    """A queue in a schema of a PostgreSQL database."""

    sql = statements
    errors = psycopg.Error
    # Who reads one state may think about it for a while, and nobody waits for that.
    sees_one_state = (f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_SILENCE.format(60)}",)

    def __init__(self, address: Address) -> None:
        self.schema = address.namespace or "queuectl"
        self.channel = f"queuectl_{self.schema}"
        self.begins = (_BEGIN,)
        super().__init__(address, replace(POSTGRESQL, prefix=f'"{self.schema}".'))

    # -- connections --------------------------------------------------------------------

    def connect(self) -> Any:
        db = self.connect_as_asked()
        try:
            if db.info.server_version < OLDEST:
                raise StoreTooOldError(
                    f"{self.url} is PostgreSQL {db.info.server_version // 10000};"
                    f" queuectl needs {OLDEST // 10000} or newer."
                )
            self._prepare(db)
        except psycopg.Error as error:
            explained = self.explain(error, db)
            self.disconnect(db)
            raise explained from error
        except BaseException:
            self.disconnect(db)
            raise
        return db

    def connect_as_asked(self) -> Any:
        address = self.address
        given: dict[str, Any] = {
            "connect_timeout": CONNECT_WITHIN,
            "application_name": "queuectl",
            "client_encoding": "utf8",
            # A peer that vanished without a word is noticed within seconds.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        }
        given |= address.options
        if address.user:
            given["user"] = address.user
        if address.password is not None:
            given["password"] = address.password
        hosts = address.hosts
        try:
            return psycopg.connect(
                f"postgresql://{hosts}/", dbname=address.database, autocommit=True, **given
            )
        except psycopg.ProgrammingError as error:
            raise self._bad_option(error) from None
        except psycopg.Error as error:
            raise self._explain_connecting(error) from error

    def _prepare(self, db: Any) -> None:
        """Find out whether the session is ours alone, and make it safe if it is."""
        ((pid, commit),) = self.rows(db, statements.WHO_SERVES, {})
        # A pooler answers with a number of its own.
        self.pooled = pid != db.info.backend_pid
        if self.pooled:
            db.prepare_threshold = None
            self.begins = (f"{_BEGIN}; {_SILENCE.format(SILENT_FOR)}; SET LOCAL jit = off",)
            return
        self.begins = (_BEGIN,)
        # Acknowledged means durable, also where the server is set to take its time.
        durable = "; SET synchronous_commit = on" if commit == "off" else ""
        db.execute(_SESSION + durable)

    def disconnect(self, db: Any, *, politely: bool = False) -> None:
        with suppress(psycopg.Error):
            db.close()

    def lend(self, connection: Any) -> Any:
        connection = unwrapped(connection)
        if not isinstance(connection, psycopg.Connection):
            raise wrong_connection("psycopg.Connection", connection)
        check_open(not connection.closed)
        if connection.info.pipeline_status != PipelineStatus.OFF:
            raise UsageError("That connection is in pipeline mode; enqueue outside of it.")
        check_same_database(self.address.database, connection.info.dbname)
        return connection

    def has_begun(self, db: Any) -> bool:
        return not db.autocommit or db.info.transaction_status != TransactionStatus.IDLE

    # -- statements ---------------------------------------------------------------------

    def execute(self, db: Any, text: str, params: Params) -> tuple[list[Row], int]:
        # What there is no plan for gains nothing by it, and two statements in one can't be.
        planned = params or text.lstrip().startswith(_PLANNED)
        query, names = _numbered(text) if params else (text.encode(), ())
        # Not the connection's own kind of cursor: it may be somebody else's.
        with psycopg.RawCursor(db, row_factory=tuple_row) as cursor:
            given = [params[name] for name in names] if params else None
            cursor.execute(query, given, prepare=None if planned else False)
            # There are rows to fetch; a description of the columns would be made to be thrown away.
            rows = cursor.fetchall() if cursor.rownumber is not None else []
            return rows, cursor.rowcount

    def each(self, db: Any, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        with psycopg.Cursor(db, row_factory=tuple_row) as cursor:
            cursor.executemany(text, rows)

    def load(self, db: Any, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        from queuectl.store.statements import whole

        text = whole.load_stream(self.dialect.prefix + table, columns)
        with db.cursor() as cursor, cursor.copy(text) as stream:
            for row in rows:
                stream.write_row(row)

    def can_be_alone(self, db: Any) -> bool:
        if self.pooled or db is None or db.closed or self.clock.is_stale():
            return False
        # A server that speaks without being asked is saying goodbye.
        waiting, _, _ = select([db], [], [], 0)
        return not waiting

    # -- errors -------------------------------------------------------------------------

    def explain(self, error: Exception, db: Any) -> Exception:
        assert isinstance(error, psycopg.Error)
        code = error.sqlstate or ""
        said = str(error).partition("\n")[0].rstrip(".")
        if code in ("40001", "40P01", "55P03"):
            return ConflictError(f"Another transaction was in the way at {self.url} ({said}).")
        if code == "23505" and (error.diag.constraint_name or "").startswith("jobs_id"):
            return ConflictError("Somebody else took that id at the same moment.")
        if _is_cut_off(error, code, db):
            return DisconnectedError(f"The connection to {self.url} was lost ({said}).")
        if code == "42501":
            return StoreDeniedError(
                f"{self.url} denies a right that is needed ({said}).",
                advice="see the grants in the guide, or run `queuectl doctor`.",
            )
        if code in ("53100", "53200"):
            return StoreFullError(f"The server of {self.url} is full ({said}).")
        if code == "25006" or (code == "0A000" and "during recovery" in said):
            return StoreReadOnlyError(
                f"{self.url} can only be read: it is a standby, or set to read-only ({said})."
            )
        return StoreError(f"{self.url}: {said}.")

    def _bad_option(self, error: psycopg.Error) -> UsageError:
        return UsageError(f"{self.url} has an option that can't be used: {error}.")

    def _explain_connecting(self, error: psycopg.Error) -> QueuectlError:
        text = str(error).strip()
        # Indented lines are hints of the driver.
        lines = [line for line in text.splitlines() if not line.startswith("\t")]
        fatal = next((line for line in lines if "FATAL:" in line), None)
        said = (fatal or (lines or [""])[-1]).removeprefix("connection failed: ")
        user = self.address.user or "the current user"
        cause = said.rpartition("FATAL:")[2].strip()
        for mark, sentence in (
            ("password authentication failed", f"refuses the password of {user}"),
            ("no password supplied", f"wants a password for {user}: in the URL or in ~/.pgpass"),
            ("does not exist", f"says: {cause}"),
            ("no pg_hba.conf entry", "doesn't let this host in; see its pg_hba.conf"),
            ("permission denied for database", f"doesn't let {user} into that database"),
        ):
            if mark in text:
                return StoreDeniedError(f"{self.url} {sentence}.")
        if said.startswith("invalid "):
            return self._bad_option(error)
        if "too many clients" in text or "remaining connection slots" in text:
            return StoreUnreachableError(
                f"{self.url} has no connection left; raise max_connections, or use a pooler."
            )
        kind = UnsteadyError if any(mark in text for mark in _UNSTEADY) else StoreUnreachableError
        return kind(
            f"{self.url} can't be reached ({_short(said)});"
            " is the server up, and the address right?"
        )

    # -- wake-ups -----------------------------------------------------------------------

    def listen(self, version: Callable[[], int]) -> Listener:
        self.make_companion()
        if self.pooled:
            return PollingListener(self.companion, self.make_companion)
        return Notified(self.connect_as_asked, self.channel)

    def announce(self, db: Any, topics: set[Topic]) -> None:
        for topic in sorted(topics):
            told = {"channel": self.channel, "topic": topic.value}
            self.rows(db, self.text(statements.NOTIFY), told)

    def wake(self, topics: set[Topic]) -> None:
        if self.pooled:
            super().wake(topics)


@lru_cache(1_000)
def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbers for the names of its values, and these in that order.

    The library does that, too, but of the longest statements, which are those of claims, each time.
    """
    places: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else places.setdefault(name, f"${len(places) + 1}")

    return re.sub(r"%(?:%|\((\w+)\)s)", number, text).encode(), tuple(places)


def _is_cut_off(error: psycopg.Error, code: str, db: Any) -> bool:
    if code[:2] == "08" or code in ("57P01", "57P02", "57P03", "57P05", "25P03"):
        return True
    gone = db is None or db.closed or db.broken
    return gone and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def _short(text: str) -> str:
    return text.rstrip(".") if len(text) < 200 else text[:200] + "..."
