"""The store itself: opening, making and migrating its schema, and what differs by database of that.

Each database has an `Administration` of its own, in its folder.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from queuectl.store.database import Database
from queuectl.store.migrate import VERSION


class Administration(ABC):
    """What is done to a store as a whole."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.sql = db.sql

    def meta(self, name: str) -> str | None:
        """Return what the store knows about itself under a name."""
        value = self.db.value(self.sql.META, name=name)
        return None if value is None else str(value)

    def set_meta(self, name: str, value: str) -> None:
        """Set what the store knows about itself."""
        self.db.again(self.sql.SET_META, name=name, value=value)

    def version_in_meta(self) -> int:
        """Return the version of the schema; 0 when there is none that makes sense."""
        text = self.meta(VERSION)
        return int(text) if text is not None and text.isdecimal() else 0

    @abstractmethod
    def schema_version(self) -> int | None:
        """Return which schema there is; None when there is none."""

    @abstractmethod
    def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date, whoever else is at it; says from and to which version."""

    @abstractmethod
    def info(self) -> Mapping[str, Any]:
        """Describe the store: engine, version, size, durability."""

    def verify(self) -> list[str]:
        """Check integrity; returns what is wrong, one sentence each."""
        from queuectl.store.verify import verify_rows

        return verify_rows(self.db)

    @abstractmethod
    def vacuum(self) -> None:
        """Give unused space back to the filesystem."""
