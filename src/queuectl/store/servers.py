"""What the drivers of servers share: a clock from afar, rows as JSON, a folder on each host."""

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from queuectl.address import Address
from queuectl.errors import StoreError
from queuectl.place import default_path
from queuectl.store import files
from queuectl.store.clock import clock_of
from queuectl.store.contract import Topic
from queuectl.store.dialects import Dialect
from queuectl.store.driver import Driver, Params, Row
from queuectl.store.statements import ForRows

CONNECT_WITHIN = 5
"""Seconds a server has to answer."""
SILENT_FOR = 3
"""Seconds a transaction that writes may fall silent before the server ends it. Others wait for
what it has locked: when its host has vanished, those who would take over its jobs."""


class ServerDriver(Driver):
    """A queue in the tables of a database server."""

    def __init__(self, address: Address, dialect: Dialect) -> None:
        super().__init__()
        self.address = address
        self.url = address.public
        self.dialect = dialect
        self.clock = clock_of(f"{address.dialect}://{address.hosts}")
        self.identify: Callable[[], str]
        """Says what names the queue among all that a host may know."""

    @property
    def companion(self) -> str:
        home = os.path.dirname(default_path(os.environ))
        return os.path.join(home, "servers", self.identify())

    @abstractmethod
    def execute(self, db: Any, text: str, params: Params) -> tuple[list[Row], int]:
        """Run a statement on a connection: rows, and how many it changed."""

    def rows(self, db: Any, text: str, params: Params) -> list[Row]:
        return self.execute(db, text, params)[0]

    def change(self, db: Any, text: str, params: Any) -> int:
        return self.execute(db, text, params)[1]

    def update(self, db: Any, statement: ForRows, rows: Sequence[Params]) -> set[int] | None:
        table = {"rows": _table(statement, rows)}
        return {seq for (seq,) in self.rows(db, self.text(statement), table)}

    def insert(self, db: Any, statement: ForRows, rows: Sequence[Params]) -> None:
        self.execute(db, self.text(statement), {"rows": _table(statement, rows)})

    def wake(self, topics: set[Topic]) -> None:
        files.touch(self.companion, topics, self.make_companion)

    def make_companion(self) -> None:
        home = os.path.dirname(os.path.dirname(self.companion))
        try:
            os.makedirs(os.path.dirname(home), exist_ok=True)
        except OSError as error:
            raise StoreError(f"{home} can't be made: {error.strerror}.") from None
        for folder in (home, os.path.dirname(self.companion), self.companion):
            files.make_folder(folder)


def _table(statement: ForRows, rows: Sequence[Params]) -> str:
    """Make one text of the values that a statement is about."""
    columns = [(f"{name}_", name) for name in statement.names]
    # A server reads it letter by letter. What isn't there is NULL.
    told = [
        {column: value for column, name in columns if (value := row[name]) is not None}
        for row in rows
    ]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))
