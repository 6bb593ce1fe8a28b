"""What a driver does: it knows the client library of one database, and nothing of jobs.

Its functions take the connection to use, and errors of the library come out as they are; `Session`
has them explained.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

from queuectl.errors import StoreBusyError, StoreUnreachableError
from queuectl.store.clock import Clock
from queuectl.store.contract import Listener, Topic
from queuectl.store.dialects import Dialect
from queuectl.store.statements import ForRows

Params = Mapping[str, Any]
Row = tuple[Any, ...]


class ConflictError(StoreBusyError):
    """Another transaction was in the way; this one was undone and can be tried again."""


class DisconnectedError(StoreUnreachableError):
    """The connection was lost; a transaction that wasn't being committed is undone."""


class UnsteadyError(StoreUnreachableError):
    """The server is there, but can't take us in at this moment: it starts, stops or recovers."""


class Driver(ABC):
    """One database, spoken to through its client library."""

    url: str
    """Where it is, without secrets."""
    dialect: Dialect
    sql: ModuleType
    """All statements, in the words of this database: a module of `statements`."""
    clock: Clock
    remote: ClassVar[bool] = True
    """Whether a connection may be lost around a commit: then commits leave receipts."""
    errors: ClassVar[type[Exception]]
    """What all errors of the library are."""
    begins: Sequence[str]
    """Begin a transaction that may write; each statement sees what is committed by then."""
    sees_one_state: Sequence[str]
    """Begin one in which all statements see the same, and none writes."""
    pooled: bool = False
    """Whether a pooler gives each transaction another connection of the server's."""
    may_move: bool = False
    """Whether a connection must be looked after (`current`) before it is used."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def text(self, statement: str) -> str:
        """Return a statement in this database's words."""
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = self.dialect.render(statement)
        return text

    # -- connections --------------------------------------------------------------------

    @abstractmethod
    def connect(self) -> Any:
        """Connect; a database that can't be used is a `StoreError` that says why."""

    @abstractmethod
    def disconnect(self, db: Any, *, politely: bool = False) -> None:
        """Disconnect; must not raise. `politely`, if it isn't in the middle of something."""

    def current(self, db: Any) -> Any:
        """Return the connection to use instead of this one."""
        return db

    def check_place(self) -> None:
        """Raise if what is about to be written would be read by nobody."""
        return

    @abstractmethod
    def lend(self, connection: Any) -> Any:
        """Return how a connection of somebody else's is used; a `UsageError` if it can't be."""

    @abstractmethod
    def has_begun(self, db: Any) -> bool:
        """Tell whether a connection of somebody else's is in a transaction, or begins one."""

    # -- statements ---------------------------------------------------------------------

    @abstractmethod
    def rows(self, db: Any, text: str, params: Params) -> list[Row]:
        """Run a rendered statement and return its rows."""

    @abstractmethod
    def change(self, db: Any, text: str, params: Params | Row) -> int:
        """Run a rendered statement and return how many rows it changed or found unchanged."""

    @abstractmethod
    def each(self, db: Any, text: str, rows: Sequence[Params] | Sequence[Row]) -> None:
        """Run a rendered statement for each of these rows, in this order."""

    @abstractmethod
    def update(self, db: Any, statement: ForRows, rows: Sequence[Params]) -> set[int] | None:
        """Run an UPDATE of jobs for all of these rows; returns the places of those it changed.

        None if some weren't changed and it can't be told which. Of a single row it always can.
        """

    @abstractmethod
    def insert(self, db: Any, statement: ForRows, rows: Sequence[Params]) -> None:
        """Run an INSERT for all of these rows."""

    @abstractmethod
    def load(self, db: Any, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Insert whole rows into a table."""

    def rollback(self, db: Any, to: str | None = None) -> None:
        """Undo a transaction, if there is one; or what was done in it since a savepoint."""
        self.change(db, "ROLLBACK" if to is None else f"ROLLBACK TO SAVEPOINT {to}", {})

    def can_be_alone(self, db: Any) -> bool:
        """Tell whether a statement can be a transaction by itself, with its receipt inside."""
        return False

    @abstractmethod
    def explain(self, error: Exception, db: Any) -> Exception:
        """Turn an error of the library into a sentence."""

    # -- wake-ups, and what is on this host ---------------------------------------------------

    @property
    @abstractmethod
    def companion(self) -> str:
        """The folder of this queue on this host: output of running jobs, and a doorbell."""

    @abstractmethod
    def make_companion(self) -> None:
        """Make that folder, for those who may use the queue, and those above it if need be."""

    @abstractmethod
    def listen(self, version: Callable[[], int]) -> Listener:
        """Start hearing about changes.

        `version` tells by another number that another connection has committed something, where
        a database has such a number.
        """

    def announce(self, db: Any, topics: set[Topic]) -> None:
        """Have the listeners woken by the commit itself, where the database can do that."""
        return

    @abstractmethod
    def wake(self, topics: set[Topic]) -> None:
        """Wake the listeners now, outside of any transaction."""
