"""How statements run: one connection, one transaction at a time, wake-ups when it is over.

A database brings the six primitives at the top. What it must do when it loses a transaction or
the connection, it does in `_repeat` and `_commit`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import getpid
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar

from queuectl.errors import StoreError, StoreUnsettledError
from queuectl.store.contract import Store, Topic
from queuectl.store.dialects import Dialect
from queuectl.store.statements import ForRows

T = TypeVar("T")
Params = Mapping[str, Any]
Row = tuple[Any, ...]


class Transactions(Store):
    """A store that speaks SQL over one connection."""

    dialect: Dialect
    sql: ModuleType
    """All statements, in the words of this database: a module of `statements`."""
    _db: Any

    def __init__(self) -> None:
        self._lock = RLock()
        self._depth = 0
        self._nudges: set[Topic] = set()
        self._texts: dict[str, str] = {}
        self._pid = getpid()
        self._lent = False
        """Whether the connection in use is somebody else's."""

    # -- what a database must bring -----------------------------------------------

    @abstractmethod
    def _run(self, text: str, params: Params) -> list[Row]:
        """Run a rendered statement and return its rows; errors come out as `StoreError`s."""

    @abstractmethod
    def _change(self, text: str, params: Params) -> int:
        """Run a rendered statement and return how many rows it changed or found unchanged."""

    @abstractmethod
    def _change_many(self, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        """Run a rendered statement for each of these rows, in this order."""

    @abstractmethod
    def _change_rows(self, statement: ForRows, rows: Sequence[Params]) -> set[int]:
        """Run an UPDATE of jobs for all of these rows; returns the places of those it changed."""

    @abstractmethod
    def _insert_rows(self, statement: ForRows, rows: Sequence[Params]) -> None:
        """Run an INSERT for all of these rows."""

    @abstractmethod
    def _begin(self) -> None:
        """Begin a transaction that may write."""

    @abstractmethod
    def _commit(self) -> None:
        """Make it durable."""

    @abstractmethod
    def _rollback(self) -> None:
        """Undo it; must not raise."""

    @abstractmethod
    def _check_lent(self, connection: Any) -> None:
        """Raise a `UsageError` if a connection of somebody else's can't be used."""

    def _announce(self, topics: set[Topic]) -> None:
        """Have the listeners woken by the commit itself, where the database can do that."""

    @abstractmethod
    def _wake(self, topics: set[Topic]) -> None:
        """Wake the listeners now, outside of any transaction."""

    def _repeat(self, attempt: Callable[[], T]) -> T:
        """Make attempts at a transaction until one succeeds or there is no hope."""
        return attempt()

    # -- statements -----------------------------------------------------------------

    def _text(self, statement: str) -> str:
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = self.dialect.render(statement)
        return text

    def _rows(self, statement: str, **params: Any) -> list[Row]:
        return self._run(self._text(statement), params)

    def _value(self, statement: str, **params: Any) -> Any:
        rows = self._run(self._text(statement), params)
        return rows[0][0] if rows else None

    def _write(self, statement: str, **params: Any) -> int:
        return self._atomic(lambda: self._change(self._text(statement), params))

    def _write_again(self, statement: str, **params: Any) -> int:
        """Run one statement that may safely run twice, and so needs no transaction around it."""
        return self._in_one_statement(lambda: self._change(self._text(statement), params))

    def _check_process(self) -> None:
        if self._pid != getpid():
            raise StoreError("This queue was opened before a fork; open it anew in the child.")

    # -- transactions -----------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            yield from self._inner() if self._depth else self._outer()

    def transact(self, action: Callable[[], T]) -> T:
        with self._lock:
            if self._depth:
                with self.transaction():
                    return action()
            return self._repeat(lambda: self._attempt(action))

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

    def _atomic(self, action: Callable[[], T]) -> T:
        """Be in a transaction, without a part of it that can fail by itself.

        For verbs that write much: under a savepoint, SQLite keeps every page they touch.
        """
        with self._lock:
            return action() if self._depth else self.transact(action)

    def _in_one_statement(self, action: Callable[[], T]) -> T:
        """Do what takes no more than one statement, durably."""
        return self._atomic(action)

    def _outer(self) -> Iterator[None]:
        self._begin()
        self._depth = 1
        try:
            yield
            if self._nudges:
                self._announce(self._nudges)
            if self.before_commit is not None:
                self.before_commit()
            self._commit()
        except BaseException:
            self._nudges.clear()
            self._rollback()
            raise
        finally:
            self._depth = 0
        if self._nudges:
            topics, self._nudges = self._nudges, set()
            self._wake(topics)

    def _inner(self) -> Iterator[None]:
        """Part of a transaction that can fail by itself, if whoever called it handles that."""
        name = f"level{self._depth}"
        self._run(f"SAVEPOINT {name}", {})
        self._depth += 1
        try:
            yield
            self._run(f"RELEASE SAVEPOINT {name}", {})
        except BaseException:
            # A database in trouble may have undone everything already; the outer part finds out.
            with suppress(StoreError):
                self._run(f"ROLLBACK TO SAVEPOINT {name}", {})
                self._run(f"RELEASE SAVEPOINT {name}", {})
            raise
        finally:
            self._depth -= 1

    @contextmanager
    def borrowed(self, connection: Any) -> Iterator[None]:
        self._check_lent(connection)
        with self._lock:
            if self._depth:
                raise StoreError("The queue is in a transaction of its own; end that first.")
            mine, self._db = self._db, connection
            self._depth, self._lent = 1, True
            try:
                yield
            finally:
                topics, self._nudges = self._nudges, set()
                self._depth, self._lent = 0, False
                self._db = mine
        # Too early for some, but it costs nothing and makes those who look do it more closely.
        self._wake(topics)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See one state of the store in several reads. Databases override it where it matters."""
        with self._lock:
            yield

    def nudge(self, topic: Topic) -> None:
        with self._lock:
            if self._depth:
                self._nudges.add(topic)
            else:
                self._announce({topic})
                self._wake({topic})
