"""The store in PostgreSQL, through psycopg 3.

Works behind PgBouncer in transaction mode: nothing is kept in the session. There, and wherever
notifications don't come through, nodes poll instead of listening.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from select import select
from time import clock_gettime
from typing import Any, TypeVar

import psycopg
from psycopg.pq import PipelineStatus
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
from queuectl.job import Job
from queuectl.store.clock import ELAPSED
from queuectl.store.contract import Claimed, Listener, Suspects, Topic
from queuectl.store.dialects import POSTGRESQL
from queuectl.store.lent import check_open, check_same_database, wrong_connection
from queuectl.store.migrate import migrate
from queuectl.store.notified import Notified
from queuectl.store.polling import PollingListener
from queuectl.store.rows import NEW_COLUMNS, OWN_COLUMNS, NewRow, named
from queuectl.store.server import (
    CONNECT_WITHIN,
    SILENT_FOR,
    ConflictError,
    DisconnectedError,
    ServerStore,
    UnsteadyError,
)
from queuectl.store.sql import Look, no_lease
from queuectl.store.statements import postgresql as statements
from queuectl.store.tables import MAINTAINED
from queuectl.store.transactions import Params, Row
from queuectl.values import replace

T = TypeVar("T")
OLDEST = 130000
"""PostgreSQL 13."""
FOLD_AT = 200
"""How many rows of changed counters there may be before they are added up."""
COPY_FROM = 20
"""How many jobs at once are worth a COPY, which runs the triggers once for all of them."""
_SESSION = (
    f"SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '{SILENT_FOR}s';"
    " SET default_transaction_read_only = off;"
    # Rows that a statement is about are looked up one by one. Before it has statistics, or when it
    # keeps a plan from when there were few, the server would read all jobs to find a handful.
    " SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off"
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


class PostgresStore(ServerStore):
    """A queue in a schema of a PostgreSQL database."""

    secret_variables = ("PGPASSWORD", "PGSSLPASSWORD")
    sql = statements
    CLOCK = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)"
    BEGIN = _BEGIN
    # Who reads one state may think about it for a while, and nobody waits for that.
    SNAPSHOT = (f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_SILENCE.format(60)}",)

    def __init__(self, address: Address, *, create: bool = False, upgrade: bool = False) -> None:
        self.schema = address.namespace or "queuectl"
        self.channel = f"queuectl_{self.schema}"
        self.pooled = False
        dialect = replace(POSTGRESQL, prefix=f'"{self.schema}".')
        super().__init__(address, dialect, create=create, upgrade=upgrade)

    # -- connections --------------------------------------------------------------------

    def _open_connection(self) -> Any:
        db = self._connect_as_asked()
        try:
            if db.info.server_version < OLDEST:
                raise StoreTooOldError(
                    f"{self.url} is PostgreSQL {db.info.server_version // 10000};"
                    f" queuectl needs {OLDEST // 10000} or newer."
                )
            with self._explained():
                self._prepare(db)
        except BaseException:
            self._close_connection(db)
            raise
        return db

    def _connect_as_asked(self) -> Any:
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
        (pid, commit), *_ = self._execute(
            db, "SELECT pg_backend_pid(), current_setting('synchronous_commit')", {}
        )[0]
        # A pooler answers with a number of its own.
        self.pooled = pid != db.info.backend_pid
        if self.pooled:
            db.prepare_threshold = None
            self.BEGIN = f"{_BEGIN}; {_SILENCE.format(SILENT_FOR)}"
            return
        self.BEGIN = _BEGIN
        # Acknowledged means durable, also where the server is set to take its time.
        durable = "; SET synchronous_commit = on" if commit == "off" else ""
        db.execute(_SESSION + durable)

    def _check_lent(self, connection: Any) -> None:
        if not isinstance(connection, psycopg.Connection):
            raise wrong_connection("psycopg.Connection", connection)
        check_open(not connection.closed)
        if connection.info.pipeline_status != PipelineStatus.OFF:
            raise UsageError("That connection is in pipeline mode; enqueue outside of it.")
        check_same_database(self.address.database, connection.info.dbname)

    def _close_connection(self, db: Any) -> None:
        with suppress(psycopg.Error):
            db.close()

    def _execute(self, db: Any, text: str, params: Params) -> tuple[list[Row], int]:
        # Not the connection's own kind of cursor: it may be somebody else's.
        with psycopg.Cursor(db, row_factory=tuple_row) as cursor:
            # What there is no plan for gains nothing by it, and two statements in one can't be.
            planned = params or text.lstrip().startswith(_PLANNED)
            cursor.execute(text, params or None, prepare=None if planned else False)
            # There are rows to fetch; a description of the columns would be made to be thrown away.
            rows = cursor.fetchall() if cursor.rownumber is not None else []
            return rows, cursor.rowcount

    def _execute_many(self, db: Any, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        with psycopg.Cursor(db, row_factory=tuple_row) as cursor:
            cursor.executemany(text, rows)

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        with self._lock, self._explained(), self._db.cursor() as cursor:
            self._check_process()
            self._wrote = True
            text = f"COPY {self.dialect.prefix}{table} ({names}) FROM STDIN"
            with cursor.copy(text) as stream:
                for row in rows:
                    stream.write_row(row)

    @property
    def _driver_error(self) -> type[Exception]:
        return psycopg.Error

    def _in_a_claim(self, claim: Callable[[], Claimed]) -> Claimed:
        return self._in_one_statement(claim)

    def _claim(
        self,
        node: str,
        workers: Sequence[int],
        queues: Sequence[str],
        now: int,
        suspects: Suspects | None,
    ) -> Claimed:
        asked = {
            "node": node,
            "workers": list(workers),
            "limit": len(workers),
            "queues": list(queues),
            "crashes": None if suspects is None else suspects.crashes,
            "since": None if suspects is None else suspects.since,
            "idle": suspects is None or suspects.idle,
            "now": now,
            "heed": now,
        }
        return self._claim_within(asked) if self._depth else self._claim_alone(asked)

    def _claim_alone(self, asked: Params) -> Claimed:
        """Claim in one statement, which is a transaction by itself, if it can do all there is."""
        self._check_process()
        receipt = self._next_receipt()
        try:
            look, jobs = self._ask_for_jobs(self.sql.CLAIM_ALONE, {**receipt, **asked})
        except DisconnectedError as error:
            mine = {"serial": receipt["serial"], "node": asked["node"]}
            found: Claimed = self._settle(mine["serial"], error, partial(self._claimed, mine))
            return found
        if look.has_passed(asked["now"]):
            now = asked["now"] - look.ahead
            return self._atomic(lambda: self._claim_within({**asked, "now": now, "heed": now}))
        return Claimed(jobs, [])

    def _claim_within(self, asked: Params) -> Claimed:
        """Claim as a part of a transaction, and see to what has expired or become due before."""
        buried: list[Job] = []
        look, jobs = self._ask_for_jobs(self.sql.CLAIM_FIRST, asked)
        if look.ahead and jobs:
            raise ConflictError(f"The clock of {self.url} was put back.")
        if look.has_passed(asked["now"]):
            now = asked["now"] - look.ahead
            buried = self._make_way(look, asked["node"], now)
            _, jobs = self._ask_for_jobs(self.sql.CLAIM_FIRST, {**asked, "now": now, "heed": -1})
        self._wrote |= bool(jobs)
        return Claimed(jobs, buried)

    def _ask_for_jobs(self, statement: str, params: Params) -> tuple[Look, list[Job]]:
        asked = clock_gettime(ELAPSED)
        rows, _ = self._ask(self._text(statement), params)
        heard = clock_gettime(ELAPSED)
        if not rows or rows[0][3]:
            raise no_lease(params["node"])
        said, due, expires, _ = rows[0][:4]
        ahead = self._clock.learn(asked=asked, said=int(said), heard=heard)
        jobs = [Job.from_row(row[4:]) for row in rows if row[4] is not None]
        jobs.sort(key=lambda job: (-job.priority, job.seq))
        return Look(ahead=ahead, due=due, expires=expires), jobs

    def _claimed(self, mine: Params, client: str) -> Claimed:
        """Return the jobs of a claim whose answer was lost."""
        return Claimed(self._jobs(self.sql.CLAIMED, client=client, **mine), [])

    def _end_runs(self, rows: Mapping[int, Params]) -> set[int]:
        return self._change_rows(self.sql.FINISH_AND_KEEP, list(rows.values()))

    def _in_one_statement(self, action: Callable[[], T]) -> T:
        with self._lock:
            watched = self.before_commit is not None
            if self._depth or self.pooled or watched or not self._is_quiet():
                return self._atomic(action)
            return self._repeat(action)

    def _is_quiet(self) -> bool:
        """Tell whether the connection is up, as far as one can tell without asking."""
        if self._db is None or self._db.closed or self._clock.is_stale():
            return False
        # A server that speaks without being asked is saying goodbye.
        waiting, _, _ = select([self._db], [], [], 0)
        return not waiting

    def _insert_job(self, row: NewRow) -> int:
        return super()._insert_job(row) if self._depth else self._insert_alone(row)

    def _insert_alone(self, row: NewRow) -> int:
        """Store a job in a statement that is a transaction by itself."""
        self._check_process()
        receipt = self._next_receipt()
        try:
            rows, _ = self._ask(self._text(self.sql.ENQUEUE_ALONE), named(row) | receipt)
        except DisconnectedError as error:
            self._settle(receipt["serial"], error)
            return self._place_of(row[0])
        return int(rows[0][0])

    def _place_of(self, id: str) -> int:
        """Return the place of a job that is stored; 0 if nobody can say, or it is gone again."""
        try:
            job = self.get(id)
        except StoreUnreachableError:
            return 0
        return job.seq if job is not None else 0

    def _insert_jobs(self, rows: Sequence[NewRow]) -> None:
        if len(rows) < COPY_FROM:
            super()._insert_jobs(rows)
            return
        with self._lock, self._explained(), self._db.cursor() as cursor:
            self._wrote = True
            names, values = _filled(rows)
            with cursor.copy(self._text(f"COPY {{jobs}} ({names}) FROM STDIN")) as copy:
                for row in values:
                    copy.write_row(row)

    def _nudge_for_new_jobs(self) -> None:
        # A trigger has told those who listen. Behind a pooler nobody does.
        if self.pooled:
            super()._nudge_for_new_jobs()

    # -- errors -------------------------------------------------------------------------

    def _explain(self, error: Exception) -> Exception:
        assert isinstance(error, psycopg.Error)
        code = error.sqlstate or ""
        said = str(error).partition("\n")[0].rstrip(".")
        if code in ("40001", "40P01", "55P03"):
            return ConflictError(f"Another transaction was in the way at {self.url} ({said}).")
        if code == "23505" and (error.diag.constraint_name or "").startswith("jobs_id"):
            return ConflictError("Somebody else took that id at the same moment.")
        if self._is_cut_off(error, code):
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

    def _is_cut_off(self, error: psycopg.Error, code: str) -> bool:
        if code[:2] == "08" or code in ("57P01", "57P02", "57P03", "57P05", "25P03"):
            return True
        gone = self._db is None or self._db.closed or self._db.broken
        return gone and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)

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

    # -- schema -------------------------------------------------------------------------

    def _schema_version(self) -> int | None:
        rows = self._run(
            "SELECT to_regclass(%(name)s) IS NOT NULL", {"name": f'"{self.schema}".meta'}
        )
        return self._version_in_meta() if rows[0][0] else None

    def migrate(self) -> tuple[int, int]:
        def apply() -> tuple[int, int]:
            # Two at once: the second waits, and finds nothing left to do.
            self._run("SELECT pg_advisory_xact_lock(hashtext(%(name)s))", {"name": self.channel})
            there = self._run(
                "SELECT 1 FROM pg_namespace WHERE nspname = %(name)s", {"name": self.schema}
            )
            if not there:
                self._run(f'CREATE SCHEMA "{self.schema}"', {})
            before = self._schema_version() or 0
            return before, migrate(self, before)

        return self.transact(apply)

    def _write_again(self, statement: str, **params: Any) -> int:
        # Behind a pooler the session isn't ours to prepare; a transaction says what it needs.
        if self.pooled:
            return self._write(statement, **params)
        return super()._write_again(statement, **params)

    # -- wake-ups -------------------------------------------------------------------------

    def _announce(self, topics: set[Topic]) -> None:
        for topic in sorted(topics):
            self._run("SELECT pg_notify(%(channel)s, %(topic)s)", {
                "channel": self.channel, "topic": topic.value,
            })  # fmt: skip

    def _wake(self, topics: set[Topic]) -> None:
        if self.pooled:
            super()._wake(topics)

    def listen(self) -> Listener:
        self._make_companion()
        if self.pooled:
            return PollingListener(self.companion, self._make_companion)
        return Notified(self._connect_as_asked, self.channel)

    # -- the store itself -----------------------------------------------------------------

    def fold(self) -> None:
        if self._value(self.sql.MANY_COUNTS, limit=FOLD_AT) >= FOLD_AT:
            self._write_again(self.sql.FOLD)

    def info(self) -> Mapping[str, Any]:
        (row,) = self._run(
            """
            SELECT current_setting('server_version'), current_setting('fsync'),
                current_setting('synchronous_commit'),
                coalesce(sum(pg_total_relation_size(c.oid)), 0)
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %(schema)s AND c.relkind = 'r'
            """,
            {"schema": self.schema},
        )
        version, fsync, commit, size = row
        return {
            "engine": "postgresql",
            "engine_version": version,
            "url": self.url,
            "schema": self.schema,
            "schema_version": self._version_in_meta(),
            "size_bytes": int(size),
            "fsync": fsync,
            "synchronous_commit": commit,
            "pooled": self.pooled,
        }

    def vacuum(self) -> None:
        skipped: list[str] = []
        hear = skipped.append
        self._db.add_notice_handler(lambda note: hear(note.message_primary or ""))
        for table in MAINTAINED:
            self._run(self._text(f"VACUUM (ANALYZE) {{{table}}}"), {})
        if any("skipping" in text for text in skipped):
            raise StoreDeniedError(f"Only the owner of the tables at {self.url} may vacuum them.")


def _filled(rows: Sequence[NewRow]) -> tuple[str, Iterator[Row]]:
    """Return the columns that any of these jobs has something in, and what they have there.

    Most have few of them, and the server reads and checks what it is sent, value by value.
    """
    # Jobs like one model share all but what they have for themselves.
    models = {id(row[-1]): row[-1] for row in rows}
    own = [0, 1] if all(row[2] is None for row in rows) else [0, 1, 2]
    rest = [
        at for at, _ in enumerate(rows[0][-1]) if any(m[at] is not None for m in models.values())
    ]
    shared = {key: tuple(model[at] for at in rest) for key, model in models.items()}
    first = itemgetter(*own)
    names = [NEW_COLUMNS[at] for at in own] + [NEW_COLUMNS[OWN_COLUMNS + at] for at in rest]
    return ", ".join(names), (first(row) + shared[id(row[-1])] for row in rows)


def _short(text: str) -> str:
    return text.rstrip(".") if len(text) < 200 else text[:200] + "..."
