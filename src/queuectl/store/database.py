"""The connections of a store: as many as threads use it at once, each lent while it is needed.

What a thread does inside a transaction is done on one connection. Otherwise each call takes
whichever is free, and a thread that is alone always gets the same one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Condition, local
from typing import Any, TypeVar

from queuectl.errors import StoreError
from queuectl.store.contract import Topic
from queuectl.store.driver import Driver, Params, Row
from queuectl.store.session import Session
from queuectl.store.statements import ForRows

T = TypeVar("T")
MOST_SESSIONS = 8
"""Connections that one store has at most; more threads wait for each other."""


class Database:
    """What the verbs of a store run their statements on."""

    before_commit: Callable[[], None] | None = None
    """Called just before each commit, if somebody sets it: from then on, things may be stored."""
    patience: float = 5.0
    """Seconds to wait for a server that has gone away before saying so."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.sql: Any = driver.sql
        self._idle: list[Session] = []
        self._made = 0
        self.waiting = 0
        """How many threads wait for a session."""
        self._free = Condition()
        self._mine = local()
        self._closed = False

    # -- sessions -----------------------------------------------------------------------

    @property
    def mine(self) -> Session | None:
        """The session that this thread is using."""
        found: Session | None = getattr(self._mine, "session", None)
        return found

    @property
    def here(self) -> Session:
        """The session that this thread is using, inside of one."""
        session = self.mine
        assert session is not None, "this is done inside of a session"
        return session

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Let this thread have a session to itself."""
        mine = self.mine
        if mine is not None:
            yield mine
            return
        session = self._take()
        try:
            yield session
        finally:
            self._give_back(session)

    def _take(self) -> Session:
        """Give this thread a session that is free, or wait for one."""
        self.check_open()
        try:
            session = self._idle.pop()
        except IndexError:
            session = self._make_or_wait()
        self._mine.session = session
        return session

    def _make_or_wait(self) -> Session:
        with self._free:
            # First, as whoever gives one back looks for us only then.
            self.waiting += 1
            try:
                while True:
                    self.check_open()
                    # Others, who don't wait, may be quicker: that one is there is no promise.
                    with suppress(IndexError):
                        return self._idle.pop()
                    if self._made < MOST_SESSIONS:
                        self._made += 1
                        return Session(self, self.driver)
                    self._free.wait()
            finally:
                self.waiting -= 1

    def _give_back(self, session: Session) -> None:
        self._mine.session = None
        self._idle.append(session)
        if self._closed:
            self.close()
        elif self.waiting:
            with self._free:
                self._free.notify()

    @contextmanager
    def borrowed(self, connection: Any) -> Iterator[None]:
        """Do everything inside on a connection that isn't ours, as part of its transaction."""
        lent = self.driver.lend(connection)
        if self.mine is not None:
            raise StoreError("The queue is in a transaction of its own; end that first.")
        session = self._mine.session = Session(self, self.driver, lent=lent)
        try:
            with session.whole():
                yield
        finally:
            self._mine.session = None
        # Too early for some, but it costs nothing and makes those who look do it more closely.
        self.driver.wake(session.take_nudges())

    def check_open(self) -> None:
        """Refuse to go on after the end."""
        if self._closed:
            raise StoreError("This queue was closed; open it anew.")

    def close(self) -> None:
        """Let go of all connections, those in use as soon as they aren't any more."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().drop(politely=True)
        if self.waiting:
            with self._free:
                self._free.notify_all()

    # -- statements ---------------------------------------------------------------------

    def _on_session(self, do: Callable[..., T], *args: Any) -> T:
        mine: Session | None = getattr(self._mine, "session", None)
        if mine is not None:
            return do(mine, *args)
        session = self._take()
        try:
            return do(session, *args)
        finally:
            self._give_back(session)

    def rows(self, statement: str, **params: Any) -> list[Row]:
        """Run a statement that writes nothing, and return its rows."""
        return self._on_session(Session.rows, statement, params)

    def value(self, statement: str, **params: Any) -> Any:
        """Run a statement, and return the first value of its first row; None without one."""
        rows = self._on_session(Session.rows, statement, params)
        return rows[0][0] if rows else None

    def returning(self, statement: str, params: Params) -> list[Row]:
        """Run a statement that writes, and return its rows."""
        return self._on_session(Session.returning, statement, params)

    def change(self, statement: str, params: Params | Row) -> int:
        """Run a statement that writes, and return how many rows it changed or found unchanged."""
        return self._on_session(Session.change, statement, params)

    def each(self, statement: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        """Run a statement for each of these rows, in this order."""
        self._on_session(Session.each, statement, rows)

    def update(self, statement: ForRows, rows: Sequence[Params]) -> set[int]:
        """Run an UPDATE of jobs for all of these rows; returns the places of those it changed."""
        return self._on_session(Session.update, statement, rows)

    def insert(self, statement: ForRows, rows: Sequence[Params]) -> None:
        """Run an INSERT for all of these rows."""
        self._on_session(Session.insert, statement, rows)

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert whole rows into a table, in the transaction it is called in."""
        self._on_session(Session.load, table, columns, rows)

    def run(self, text: str, **params: Any) -> list[Row]:
        """Run a text in the database's own words, and return its rows."""
        return self._on_session(Session.run, text, params)

    def write(self, statement: str, **params: Any) -> int:
        """Run one statement as a transaction of its own, unless there is one."""
        return self.atomic(lambda: self.change(statement, params))

    def again(self, statement: str, **params: Any) -> int:
        """Run one statement that may safely run twice, and so needs no transaction around it."""
        return self._on_session(Session.again, statement, params)

    def script(self, statements: Sequence[str]) -> None:
        """Run statements of a schema, in the transaction it is called in."""
        for statement in statements:
            self._on_session(Session.execute, self.driver.dialect.render_schema(statement))

    # -- transactions -------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside one durable write: all of it or nothing. May be nested."""
        with self.session() as session, session.transaction():
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the database in several reads."""
        with self.session() as session, session.snapshot():
            yield

    def transact(self, action: Callable[[], T]) -> T:
        """Do something as one durable write, and do it again if the database says so."""
        done: T = self._on_session(Session.transact, action)
        return done

    def atomic(self, action: Callable[[], T]) -> T:
        """Be in a transaction, without a part of it that can fail by itself."""
        done: T = self._on_session(Session.atomic, action)
        return done

    def alone(self, action: Callable[[], T]) -> T:
        """Do what takes no more than one statement, durably."""
        done: T = self._on_session(Session.alone, action)
        return done

    def nudge(self, topic: Topic) -> None:
        """Wake the listeners, after the current transaction if there is one."""
        self._on_session(Session.nudge, topic)
