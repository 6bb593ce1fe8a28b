"""What stores on a database server share: connections that break, commits left in doubt, clocks.

A transaction that the server refuses because of another one is done again; one that the
connection was lost in was undone, and is done again too. When the connection is lost around
COMMIT nobody knows, so each transaction leaves a receipt: a numbered row of this client's that is
there if and only if it was committed. Whoever looks for it first waits for a transaction that may
still be at it, and strikes a number that isn't there: a transaction that comes even later can't
leave it any more. So the answer is final.
"""

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from random import uniform
from time import clock_gettime, monotonic, sleep
from typing import Any, TypeVar

from queuectl.address import Address
from queuectl.errors import (
    StateError,
    StoreBusyError,
    StoreError,
    StoreMissingError,
    StoreTooOldError,
    StoreUnreachableError,
    StoreUnsettledError,
)
from queuectl.facts import Node, Progress
from queuectl.place import default_path
from queuectl.store import files
from queuectl.store.clock import ELAPSED, clock_of
from queuectl.store.contract import Topic
from queuectl.store.dialects import Dialect
from queuectl.store.ids import new_ids
from queuectl.store.migrate import IDENTITY, check_version
from queuectl.store.migrations import current
from queuectl.store.sql import Look, SqlStore
from queuectl.store.statements import ForRows
from queuectl.store.transactions import Params, Row

T = TypeVar("T")
CONNECT_WITHIN = 5
"""Seconds a server has to answer."""
SILENT_FOR = 3
"""Seconds a transaction that writes may fall silent before the server ends it. Others wait for
what it has locked: when its host has vanished, those who would take over its jobs."""
BUSY_FOR = 30.0
"""Seconds to go on trying when other transactions are in the way."""
GLANCE = 0.1
"""Seconds between two times that `changed` answers yes: it can't know."""
KEEP_RECEIPTS = 24 * 3_600_000
"""Milliseconds after which nobody can be in doubt about a commit any more."""
_READING = ("SELECT", "WITH", "SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "START", "SET")


class ConflictError(StoreBusyError):
    """Another transaction was in the way; this one was undone and can be tried again."""


class DisconnectedError(StoreUnreachableError):
    """The connection was lost; a transaction that wasn't being committed is undone."""


class UnsteadyError(StoreUnreachableError):
    """The server is there, but can't take us in at this moment: it starts, stops or recovers."""


class ServerStore(SqlStore):
    """A queue in the tables of a database server."""

    CLOCK: str
    """Asks the server for its time in milliseconds."""
    BEGIN: str
    """Begins a transaction in which each statement sees what is committed by then."""
    SNAPSHOT: Sequence[str]
    """Begins one in which all statements see the same, and none writes."""

    def __init__(
        self, address: Address, dialect: Dialect, *, create: bool = False, upgrade: bool = False
    ) -> None:
        super().__init__()
        self.address = address
        self.url = address.public
        self.dialect = dialect
        self._db: Any = None
        self._client = new_ids(1, 16)[0]
        self._serial = 0
        self._wrote = False
        self._told = 0.0
        self._identity: str | None = None
        self._closed = False
        self._clock = clock_of(f"{address.dialect}://{address.hosts}")
        self._watched: dict[str, tuple[int, float]] = {}
        self._watched_at = 0.0
        self._connect_first()
        try:
            self._open(create=create, upgrade=upgrade)
        except BaseException:
            self._drop()
            raise

    # -- what a driver must bring -----------------------------------------------------

    @abstractmethod
    def _open_connection(self) -> Any:
        """Connect; a server that can't be used is a `StoreError` that says why."""

    @abstractmethod
    def _close_connection(self, db: Any) -> None:
        """Disconnect; must not raise."""

    @abstractmethod
    def _execute(self, db: Any, text: str, params: Params) -> tuple[list[Row], int]:
        """Run a statement on a connection: rows, and how many it changed."""

    @abstractmethod
    def _execute_many(self, db: Any, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        """Run a statement for each of these rows."""

    @abstractmethod
    def _explain(self, error: Exception) -> Exception:
        """Turn an error of the driver into a sentence."""

    @property
    @abstractmethod
    def _driver_error(self) -> type[Exception]:
        """What errors of the driver have in common."""

    @abstractmethod
    def _schema_version(self) -> int | None:
        """Return which schema there is; None when there is none."""

    # -- opening ----------------------------------------------------------------------

    def _open(self, *, create: bool, upgrade: bool) -> None:
        self._read_clock()
        # Tables without a version are still being made, or somebody was cut off making them.
        version = self._schema_version() or None
        if version is not None:
            check_version(self.url, version)
        if version == current() or (upgrade and version is not None):
            return
        if version is None and create:
            # Somebody may have been faster.
            self.is_new = self.migrate()[0] == 0
        elif version is None:
            raise StoreMissingError(
                f"There is no queue at {self.url} yet.", advice="`queuectl db init` makes it."
            )
        else:
            raise StoreTooOldError(
                f"The queue at {self.url} has schema {version}, this queuectl needs {current()}.",
                advice="run `queuectl db migrate` first.",
            )

    @property
    def identity(self) -> str:
        if self._identity is None:
            # The tables got it when they were made.
            self._identity = str(self._value(self.sql.META, name=IDENTITY) or "unnamed")
        return self._identity

    def _connect(self) -> None:
        self._drop()
        self._db = self._open_connection()

    def _connect_first(self) -> None:
        """Connect; nobody there is an error at once, but one that is about to be there isn't."""
        deadline = monotonic() + self.patience
        while True:
            try:
                self._connect()
            except UnsteadyError:
                if monotonic() >= deadline:
                    raise
                sleep(uniform(0.05, 0.3))
            else:
                return

    def _reconnect(self) -> None:
        """Connect again; a server that is away for a moment is waited for, with jitter."""
        if self._closed:
            raise StoreError("This queue was closed; open it anew.")
        deadline = monotonic() + self.patience
        while True:
            try:
                self._connect()
            except StoreUnreachableError:
                if monotonic() >= deadline:
                    raise
                sleep(uniform(0.05, 0.3))
            else:
                return

    def _drop(self) -> None:
        if self._lent:
            return
        db, self._db = self._db, None
        if db is not None:
            self._close_connection(db)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._pid == os.getpid():
                self._drop()

    # -- statements -------------------------------------------------------------------

    def _run(self, text: str, params: Params) -> list[Row]:
        return self._do(text, params)[0]

    def _change(self, text: str, params: Params) -> int:
        return self._do(text, params)[1]

    def _change_many(self, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        with self._lock, self._explained():
            self._check_process()
            self._wrote = True
            self._execute_many(self._db, text, rows)

    def _change_rows(self, statement: ForRows, rows: Sequence[Params]) -> set[int]:
        found = self._run(self._text(statement), {"rows": self._table(statement, rows)})
        if found:
            # Its first word needn't tell.
            self._wrote = True
        return {seq for (seq,) in found}

    def _insert_rows(self, statement: ForRows, rows: Sequence[Params]) -> None:
        self._change(self._text(statement), {"rows": self._table(statement, rows)})

    def _table(self, statement: ForRows, rows: Sequence[Params]) -> str:
        """Make one text of the values that a statement is about."""
        names = statement.names
        columns = [f"{name}_" for name in names]
        return json.dumps(
            [dict(zip(columns, map(row.__getitem__, names), strict=True)) for row in rows],
            ensure_ascii=False,
        )

    def _do(self, text: str, params: Params) -> tuple[list[Row], int]:
        with self._lock:
            self._check_process()
            if self._depth:
                return self._ask(text, params)
            if self._db is None:
                self._reconnect()
            try:
                return self._ask(text, params)
            except DisconnectedError:
                # Between two questions the server may have gone and come back.
                self._reconnect()
                return self._ask(text, params)

    def _ask(self, text: str, params: Params) -> tuple[list[Row], int]:
        if self._db is None:
            raise DisconnectedError(f"The connection to {self.url} was lost.")
        with self._explained():
            rows, count = self._execute(self._db, text, params)
        if count and not text.lstrip().startswith(_READING):
            self._wrote = True
        return rows, count

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Explain what the driver raises; a connection in the middle of an answer is useless."""
        try:
            yield
        except self._driver_error as error:
            explained = self._explain(error)
            if isinstance(explained, DisconnectedError):
                self._drop()
            if self._lent and isinstance(explained, ConflictError):
                # It isn't ours to try again.
                raise StateError(str(explained)) from error
            raise explained from error
        except UnicodeEncodeError as error:
            raise StoreError(f"The connection can't carry the text: {error}.") from None
        except BaseException:
            self._drop()
            raise

    def _write_again(self, statement: str, **params: Any) -> int:
        if self._depth:
            return self._change(self._text(statement), params)
        return self._repeat(lambda: self._change(self._text(statement), params))

    # -- transactions -----------------------------------------------------------------

    def _repeat(self, attempt: Callable[[], T]) -> T:
        busy_until = monotonic() + BUSY_FOR
        lost_until = monotonic() + self.patience
        tries = 0
        while True:
            try:
                return attempt()
            except ConflictError as error:
                if monotonic() > busy_until:
                    raise StoreBusyError(
                        f"Other transactions at {self.url} were in the way for too long;"
                        " try again in a moment."
                    ) from error
                sleep(uniform(0, min(0.002 * 2**tries, 0.2)))
            except DisconnectedError:
                if tries and monotonic() > lost_until:
                    raise
                self._reconnect()
            tries += 1

    def _begin(self) -> None:
        if self._clock.is_stale():
            self._read_clock()
        self._start([self.BEGIN])
        self._wrote = False

    def _start(self, statements: Sequence[str]) -> None:
        """Begin a transaction. Since the last one the server may have gone and come back."""
        self._check_process()
        if self._db is None:
            self._reconnect()
        try:
            for statement in statements:
                self._ask(statement, {})
        except DisconnectedError:
            self._reconnect()
            for statement in statements:
                self._ask(statement, {})

    def _commit(self) -> None:
        if not self._wrote:
            self._ask("COMMIT", {})
            return
        receipt = self._next_receipt()
        try:
            self._commit_with(receipt)
        except DisconnectedError as error:
            self._settle(receipt["serial"], error)

    def _next_receipt(self) -> dict[str, Any]:
        self._serial += 1
        return {"client": self._client, "serial": self._serial, "now": self.now()}

    def _commit_with(self, receipt: Params) -> None:
        """Leave a receipt and commit, in one message."""
        # The client's name is of our own making, and the others are numbers.
        values = {**receipt, "client": f"'{receipt['client']}'"}
        self._ask(f"{self._text(self.sql.LEAVE_RECEIPT) % values}; COMMIT", {})

    def _settle(
        self, serial: int, error: DisconnectedError, recall: Callable[[str], Any] | None = None
    ) -> Any:
        """Find out what became of a commit; raises if it was undone, or if nobody can say.

        `recall` reads what it came to, by the name under which this client left its receipt.
        """
        deadline = monotonic() + self.patience
        client = self._client
        while True:
            try:
                committed = self._was_committed(client, serial)
                result = recall(client) if committed and recall is not None else None
            except (ConflictError, StoreUnreachableError) as trouble:
                if monotonic() < deadline:
                    sleep(uniform(0.05, 0.3))
                    continue
                # Later commits leave their receipts elsewhere, so that this question stays open.
                self._client = new_ids(1, 16)[0]
                raise self._unsettled(client, serial, recall) from trouble
            if not committed:
                raise error
            return result

    def _unsettled(
        self, client: str, serial: int, recall: Callable[[str], Any] | None
    ) -> StoreUnsettledError:
        def committed() -> bool:
            came_through = self._was_committed(client, serial)
            if came_through and recall is not None:
                doubt.result = recall(client)
            return came_through

        doubt = StoreUnsettledError(
            f"The connection to {self.url} was lost while committing, and it can't be asked now"
            " whether that came through; look before you try again.",
            committed=committed,
        )
        return doubt

    def _was_committed(self, client: str, serial: int) -> bool:
        with self._lock:
            if self._db is None:
                self._reconnect()
            try:
                self._ask(self.BEGIN, {})
                mine = {"client": client, "serial": serial, "now": self.now()}
                self._ask(self._text(self.sql.STRIKE_RECEIPT), mine)
                rows, _ = self._ask(self._text(self.sql.RECEIPT), mine)
                self._ask("COMMIT", {})
            except StoreError:
                self._drop()
                raise
            return bool(rows) and int(rows[0][0]) >= serial

    def _rollback(self) -> None:
        if self._db is None or self._pid != os.getpid():
            return
        with suppress(StoreError):
            self._ask("ROLLBACK", {})

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        with self._lock:
            if self._depth:
                yield
                return
            yield from self._see_one_state()

    def _see_one_state(self) -> Iterator[None]:
        self._start(self.SNAPSHOT)
        self._depth = 1
        try:
            yield
        finally:
            self._depth = 0
            self._rollback()

    # -- clocks and leases ----------------------------------------------------------------

    def _read_clock(self) -> None:
        asked = clock_gettime(ELAPSED)
        rows, _ = self._do(self.CLOCK, {})
        self._clock.learn(asked=asked, said=int(rows[0][0]), heard=clock_gettime(ELAPSED))

    def _look(self, node: str) -> Look:
        asked = clock_gettime(ELAPSED)
        said, due, expires = self._check_lease(self.sql.LOOK, node)
        ahead = self._clock.learn(asked=asked, said=int(said), heard=clock_gettime(ELAPSED))
        return Look(ahead=ahead, due=due, expires=expires)

    def now(self) -> int:
        return self._clock.now()

    def steady(self) -> int:
        return self._clock.now()

    def lease_clock(self) -> int:
        # A host that sleeps can't renew, and others take over: so its sleep must count.
        return ELAPSED

    def nodes(self) -> list[Node]:
        self._watched_at = clock_gettime(ELAPSED)
        found = super().nodes()
        now = clock_gettime(ELAPSED)
        watched = self._watched
        # Since when has each of them been as it is now? Told from watching, not by their clocks.
        self._watched = {
            node.id: watched[node.id]
            if node.id in watched and watched[node.id][0] == node.beat
            else (node.beat, now)
            for node in found
        }
        return found

    def lapsed(self, node: Node) -> bool:
        beat, since = self._watched.get(node.id, (None, 0.0))
        if beat != node.beat:
            return False
        return node.lease <= 0 or (self._watched_at - since) * 1000 > node.lease

    def changed(self) -> bool:
        self._check_process()
        if monotonic() - self._told < GLANCE:
            return False
        self._told = monotonic()
        if self._clock.is_stale():
            self._read_clock()
        return True

    # -- what is on this host ---------------------------------------------------------------

    @property
    def companion(self) -> str:
        """The folder of this queue on this host: output of running jobs, and a doorbell."""
        home = os.path.dirname(default_path(os.environ))
        return os.path.join(home, "servers", self.identity)

    def spool_root(self) -> str:
        return os.path.join(self.companion, "spool")

    def make_spool_root(self) -> str:
        self._make_companion()
        files.make_folder(self.spool_root())
        return self.spool_root()

    def _make_companion(self) -> None:
        home = os.path.dirname(os.path.dirname(self.companion))
        try:
            os.makedirs(os.path.dirname(home), exist_ok=True)
        except OSError as error:
            raise StoreError(f"{home} can't be made: {error.strerror}.") from None
        for folder in (home, os.path.dirname(self.companion), self.companion):
            files.make_folder(folder)

    def _wake(self, topics: set[Topic]) -> None:
        files.touch(self.companion, topics, self._make_companion)

    # -- the store itself ---------------------------------------------------------------------

    def coarsen(self, *, now: int) -> None:
        super().coarsen(now=now)
        self._write_again(self.sql.DROP_RECEIPTS, before=now - KEEP_RECEIPTS)

    def verify(self) -> list[str]:
        from queuectl.store.verify import verify_rows

        return verify_rows(lambda text: self._run(self._text(text), {}))

    def backup(self, path: str, progress: Progress | None = None) -> None:
        from queuectl.store.copying import copy
        from queuectl.store.sqlite import SqliteStore

        files.create_private(path)
        target = SqliteStore(path, create=True)
        try:
            copy(self, target, progress)
        finally:
            target.close()
            with suppress(OSError):
                # Nobody has worked there.
                os.rmdir(target.companion)
