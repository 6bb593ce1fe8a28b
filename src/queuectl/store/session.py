"""One connection and the transaction on it: repeats, receipts, cuts, and wake-ups when it is over.

A transaction that the server refuses because of another one is done again; one that the
connection was lost in was undone, and is done again too. When the connection is lost around
COMMIT nobody knows, so each transaction leaves a receipt: a numbered row of this client's that is
there if and only if it was committed. Whoever looks for it first waits for a transaction that may
still be at it, and strikes a number that isn't there: a transaction that comes even later can't
leave it any more. So the answer is final. (An embedded database has no such doubts.)
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from os import getpid
from time import clock_gettime, monotonic, sleep
from typing import Any, Protocol, TypeVar

from queuectl.errors import (
    StateError,
    StoreBusyError,
    StoreError,
    StoreUnreachableError,
    StoreUnsettledError,
)
from queuectl.store.clock import ELAPSED
from queuectl.store.contract import Topic
from queuectl.store.driver import ConflictError, DisconnectedError, Driver, Params, Row
from queuectl.store.statements import ForRows

T = TypeVar("T")
BUSY_FOR = 30.0
"""Seconds to go on trying when other transactions are in the way."""


class Sessions(Protocol):
    """Whose session it is: what all sessions of a database have in common."""

    before_commit: Callable[[], None] | None
    patience: float

    def check_open(self) -> None:
        """Refuse to go on after the end."""

    def session(self) -> AbstractContextManager["Session"]:
        """Let this thread have a session to itself."""


class Session:
    """A connection, used by one thread at a time."""

    def __init__(self, database: Sessions, driver: Driver, *, lent: Any = None) -> None:
        """Take the database whose connection it is; or one that was lent, in a transaction."""
        self._database = database
        self._driver = driver
        self.db: Any = lent
        """The connection itself, as the driver knows it; None while there is none."""
        self.depth = 0 if lent is None else 1
        """How many transactions we are in: one, and the parts of it that can fail by themselves."""
        self.one_by_one = False
        """Whether rows are changed one by one, as it couldn't be told which of many were."""
        self._lent = lent is not None
        self.wrote = False
        """Whether there is something to commit."""
        self._nudges: set[Topic] = set()
        self._pid = getpid()
        self._client = ""
        self._serial = 0
        self.held: dict[Any, Any] = {}
        """What this transaction knows of rows that it has locked: nobody else changes them."""
        self.seen: Any = None
        """What `changed` has seen of the database."""

    # -- connections --------------------------------------------------------------------

    def connect(self) -> None:
        """Connect anew."""
        self.drop()
        self.db = self._driver.connect()

    def drop(self, *, politely: bool = False) -> None:
        """Disconnect, unless the connection is somebody else's."""
        if self._lent:
            return
        db, self.db = self.db, None
        if db is not None and self._pid == getpid():
            self._driver.disconnect(db, politely=politely and not self.depth)

    def _reconnect(self) -> None:
        """Connect again; a server that is away for a moment is waited for, with jitter."""
        self._database.check_open()
        deadline = monotonic() + self._database.patience
        while True:
            try:
                self.connect()
            except StoreUnreachableError:
                if monotonic() >= deadline:
                    raise
                pause()
            else:
                return

    def _check_process(self) -> None:
        if self._pid != getpid():
            raise StoreError("This queue was opened before a fork; open it anew in the child.")

    # -- statements ---------------------------------------------------------------------

    def rows(self, statement: str, params: Params) -> list[Row]:
        """Run a statement that writes nothing, and return its rows."""
        return self._do(self._driver.rows, self._driver.text(statement), params)

    def returning(self, statement: str, params: Params) -> list[Row]:
        """Run a statement that writes, and return its rows."""
        found = self._do(self._driver.rows, self._driver.text(statement), params)
        self.wrote |= bool(found)
        return found

    def change(self, statement: str, params: Params | Row) -> int:
        """Run a statement that writes, and return how many rows it changed or found unchanged."""
        count = self._do(self._driver.change, self._driver.text(statement), params)
        self.wrote |= bool(count)
        return count

    def each(self, statement: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        """Run a statement for each of these rows, in this order."""
        self.wrote = True
        self._do(self._driver.each, self._driver.text(statement), rows)

    def update(self, statement: ForRows, rows: Sequence[Params]) -> set[int]:
        """Run an UPDATE of jobs for all of these rows; returns the places of those it changed."""
        changed: set[int] = set()
        for part in [[row] for row in rows] if self.one_by_one else [rows]:
            found = self._do(self._driver.update, statement, part)
            if found is None:
                self.one_by_one = True
                raise ConflictError(f"Jobs at {self._driver.url} have changed meanwhile.")
            changed |= found
        self.wrote |= bool(changed)
        return changed

    def insert(self, statement: ForRows, rows: Sequence[Params]) -> None:
        """Run an INSERT for all of these rows."""
        self.wrote = True
        self._do(self._driver.insert, statement, rows)

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert whole rows into a table."""
        self.wrote = True
        self._do(self._driver.load, table, columns, rows)

    def run(self, text: str, params: Params) -> list[Row]:
        """Run a text in the database's own words, and return its rows."""
        return self._do(self._driver.rows, text, params)

    def execute(self, text: str) -> None:
        """Run a text in the database's own words that changes something."""
        self.wrote = True
        self._do(self._driver.change, text, {})

    def ask(self, action: Callable[..., T], *args: Any) -> T:
        """Have the driver do something on this connection, as it is."""
        if self.db is None:
            raise DisconnectedError(f"The connection to {self._driver.url} was lost.")
        try:
            return action(self.db, *args)
        except self._driver.errors as error:
            raise self._explained(error) from error
        except UnicodeEncodeError as error:
            raise StoreError(f"The connection can't carry the text: {error}.") from None
        except StoreError:
            raise
        except BaseException:
            if self._driver.remote:
                # One in the middle of an answer is useless.
                self.drop()
            raise

    def _explained(self, error: Exception) -> Exception:
        explained = self._driver.explain(error, self.db)
        if isinstance(explained, DisconnectedError):
            self.drop()
        if self._lent and isinstance(explained, ConflictError):
            # It isn't ours to try again.
            return StateError(str(explained))
        return explained

    def _do(self, action: Callable[..., T], *args: Any) -> T:
        """Have the driver do something; outside of transactions, a lost connection is made anew."""
        self._check_process()
        if self._driver.may_move and not self._lent:
            self._move()
        if self.depth:
            return self.ask(action, *args)
        if self.db is None:
            self._reconnect()
        try:
            return self.ask(action, *args)
        except DisconnectedError:
            # Between two questions the server may have gone and come back.
            self._reconnect()
            return self.ask(action, *args)

    def _move(self) -> None:
        """Use another connection, if the driver says so."""
        db = self._driver.current(self.db)
        if db is not self.db:
            self.db, self.seen = db, None

    # -- transactions -------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside one durable write: all of it or nothing. May be nested."""
        yield from self._inner() if self.depth else self._outer()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Do all of something on a lent connection or, if it fails, nothing.

        Its transaction stays usable. If it is in none, this is one.
        """
        if self._driver.has_begun(self.db):
            with self.transaction():
                yield
            return
        for statement in self._driver.begins:
            self.ask(self._driver.change, statement, {})
        try:
            yield
            self.ask(self._driver.change, "COMMIT", {})
        except BaseException:
            self._rollback()
            raise

    def transact(self, action: Callable[[], T]) -> T:
        """Do something as one durable write, and do it again if the database says so."""
        if self.depth:
            with self.transaction():
                return action()
        return self._repeat(lambda: self._attempt(action))

    def atomic(self, action: Callable[[], T]) -> T:
        """Be in a transaction, without a part of it that can fail by itself.

        For verbs that write much: under a savepoint, SQLite keeps every page they touch.
        """
        return action() if self.depth else self.transact(action)

    def alone(self, action: Callable[[], T]) -> T:
        """Do what takes no more than one statement, durably; that leaves its receipt by itself."""
        self._check_process()
        watched = self._database.before_commit is not None
        if self.depth or watched or not self._driver.can_be_alone(self.db):
            return self.atomic(action)
        return self._repeat(action)

    def again(self, statement: str, params: Params) -> int:
        """Run one statement that may safely run twice, and so needs no transaction around it."""
        if self.depth:
            return self.change(statement, params)
        if self._driver.pooled or self._database.before_commit is not None:
            # Behind a pooler the session isn't ours to prepare; a transaction says what it needs.
            return self.transact(lambda: self.change(statement, params))
        self._driver.check_place()
        return self._repeat(lambda: self.change(statement, params))

    def _attempt(self, action: Callable[[], T]) -> T:
        result: Any = None
        try:
            with self.transaction():
                result = action()
        except StoreUnsettledError as error:
            error.result = result
            raise
        done: T = result
        return done

    def _repeat(self, attempt: Callable[[], T]) -> T:
        """Make attempts at a transaction until one succeeds or there is no hope."""
        began = monotonic()
        tries = 0
        while True:
            try:
                return attempt()
            except ConflictError as error:
                if monotonic() - began > BUSY_FOR:
                    raise StoreBusyError(
                        f"Other transactions at {self._driver.url} were in the way for too long;"
                        " try again in a moment."
                    ) from error
                pause(0.0, min(0.002 * 2**tries, 0.2))
            except DisconnectedError:
                if tries and monotonic() - began > self._database.patience:
                    raise
                self._reconnect()
            tries += 1

    def _outer(self) -> Iterator[None]:
        self._begin()
        self.depth = 1
        try:
            yield
            if self._nudges:
                self.ask(self._driver.announce, self._nudges)
            if self._database.before_commit is not None:
                self._database.before_commit()
            self._commit()
        except BaseException:
            self._nudges.clear()
            self._rollback()
            raise
        finally:
            self.depth = 0
        if self._nudges:
            topics, self._nudges = self._nudges, set()
            self._driver.wake(topics)

    def _inner(self) -> Iterator[None]:
        """Part of a transaction that can fail by itself, if whoever called it handles that."""
        name = f"level{self.depth}"
        self.ask(self._driver.change, f"SAVEPOINT {name}", {})
        self.depth += 1
        try:
            yield
            self.ask(self._driver.change, f"RELEASE SAVEPOINT {name}", {})
        except BaseException:
            # A database in trouble may have undone everything already; the outer part finds out.
            self.held.clear()
            with suppress(StoreError):
                self.ask(self._driver.rollback, name)
                self.ask(self._driver.change, f"RELEASE SAVEPOINT {name}", {})
            raise
        finally:
            self.depth -= 1

    def _begin(self) -> None:
        self._driver.check_place()
        if self._driver.clock.is_stale():
            self.read_clock()
        self._start(self._driver.begins)
        self.wrote = False
        self.held.clear()

    def _start(self, statements: Sequence[str]) -> None:
        """Begin a transaction. Since the last one the server may have gone and come back."""

        def begin(db: Any) -> None:
            for statement in statements:
                self._driver.change(db, statement, {})

        self._do(begin)

    def _rollback(self) -> None:
        # In a child that was forked inside a transaction it isn't ours to undo.
        if self.db is not None and self._pid == getpid():
            with suppress(StoreError):
                self.ask(self._driver.rollback)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the database in several reads."""
        if self.depth:
            yield
            return
        self._start(self._driver.sees_one_state)
        self.depth = 1
        try:
            yield
        finally:
            self.depth = 0
            self._rollback()

    # -- commits that are cut off ---------------------------------------------------------

    def _commit(self) -> None:
        if not self.wrote or not self._driver.remote:
            self.ask(self._driver.change, "COMMIT", {})
        else:
            receipt = self.next_receipt()
            try:
                self._commit_with(receipt)
            except DisconnectedError as error:
                self.settle(receipt["serial"], error)
        self.one_by_one = False

    def next_receipt(self) -> dict[str, Any]:
        """Return what the next commit leaves."""
        if not self._client:
            self._client = _new_client()
        self._serial += 1
        return {"client": self._client, "serial": self._serial, "now": self._driver.clock.now()}

    def _commit_with(self, receipt: Params) -> None:
        """Leave a receipt and commit, in one message."""
        # The client's name is of our own making, and the others are numbers.
        values = {**receipt, "client": f"'{receipt['client']}'"}
        text = self._driver.text(self._driver.sql.LEAVE_RECEIPT) % values
        self.ask(self._driver.change, f"{text}; COMMIT", {})

    def settle(
        self, serial: int, error: DisconnectedError, recall: Callable[[str], Any] | None = None
    ) -> Any:
        """Find out what became of a commit; raises if it was undone, or if nobody can say.

        `recall` reads what it came to, by the name under which this client left its receipt.
        """
        deadline = monotonic() + self._database.patience
        client = self._client
        while True:
            try:
                committed = self.was_committed(client, serial)
                result = recall(client) if committed and recall is not None else None
            except (ConflictError, StoreUnreachableError) as trouble:
                if monotonic() < deadline:
                    pause()
                    continue
                # Later commits leave their receipts elsewhere, so that this question stays open.
                self._client = _new_client()
                raise self._unsettled(client, serial, recall) from trouble
            if not committed:
                raise error
            return result

    def _unsettled(
        self, client: str, serial: int, recall: Callable[[str], Any] | None
    ) -> StoreUnsettledError:
        def committed() -> bool:
            # Whoever asks may be another thread, with another session.
            with self._database.session() as session:
                came_through = session.was_committed(client, serial)
            if came_through and recall is not None:
                doubt.result = recall(client)
            return came_through

        doubt = StoreUnsettledError(
            f"The connection to {self._driver.url} was lost while committing, and it can't be asked"
            " now whether that came through; look before you try again.",
            committed=committed,
        )
        return doubt

    def was_committed(self, client: str, serial: int) -> bool:
        """Tell whether a client's transaction was committed; if not, it never will be."""
        driver, sql = self._driver, self._driver.sql
        if self.db is None:
            self._reconnect()
        try:
            mine = {"client": client, "serial": serial, "now": driver.clock.now()}
            for statement in driver.begins:
                self.ask(driver.change, statement, {})
            self.ask(driver.change, driver.text(sql.STRIKE_RECEIPT), mine)
            rows = self.ask(driver.rows, driver.text(sql.RECEIPT), mine)
            self.ask(driver.change, "COMMIT", {})
        except StoreError:
            self.drop()
            raise
        return bool(rows) and int(rows[0][0]) >= serial

    # -- clocks and wake-ups --------------------------------------------------------------

    def read_clock(self) -> None:
        """Ask the database for its time."""

        def ask(_: Any) -> None:
            self.timed(self._driver.sql.CLOCK, {})

        self._do(ask)

    def timed(self, statement: str, params: Params) -> tuple[list[Row], int]:
        """Run a statement whose rows begin with the database's time; says how far we ran ahead.

        On this connection, as it is: what was asked may have been done when the answer is lost.
        """
        asked = clock_gettime(ELAPSED)
        rows = self.ask(self._driver.rows, self._driver.text(statement), params)
        heard = clock_gettime(ELAPSED)
        if not rows or rows[0][0] is None:
            return rows, 0
        ahead = self._driver.clock.learn(asked=asked, said=int(rows[0][0]), heard=heard)
        return rows, ahead

    def nudge(self, topic: Topic) -> None:
        """Wake the listeners, after the current transaction if there is one."""
        if self.depth:
            self._nudges.add(topic)
        else:
            if self._driver.remote:
                self._do(self._driver.announce, {topic})
            self._driver.wake({topic})

    def take_nudges(self) -> set[Topic]:
        """Return whom to wake once the transaction on a lent connection may be over."""
        topics, self._nudges = self._nudges, set()
        return topics


def pause(least: float = 0.05, most: float = 0.3) -> None:
    """Wait a little, with jitter so that those who wait don't march in step."""
    from random import uniform

    sleep(uniform(least, most))


def _new_client() -> str:
    from queuectl.store.ids import new_ids

    return new_ids(1, 16)[0]
