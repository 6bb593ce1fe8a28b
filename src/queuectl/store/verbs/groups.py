"""Verbs about groups: reading how they are counted."""

from collections import Counter
from collections.abc import Sequence

from queuectl.facts import Edge, Group
from queuectl.store.changed import GROUPS_AT
from queuectl.store.contract import Groups, chunks
from queuectl.store.groups import group_of
from queuectl.store.idiom import Idiom
from queuectl.store.rows import storable
from queuectl.store.verbs.jobs import edge_of

NEWEST = 2**62
NAMED_AT_ONCE = 1_000


class SqlGroups(Groups):
    """The groups of jobs in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

    def named(self, names: Sequence[str]) -> list[Group]:
        known = sorted({name for name in names if storable(name)})
        return [
            group_of(row)
            for some in chunks(known, NAMED_AT_ONCE)
            for row in self._db.rows(self._sql.GROUPS_NAMED, ids=self._idiom.bind(some))
        ]

    def newest(self, limit: int, *, before: str | None = None) -> list[Group]:
        place = NEWEST
        if before is not None:
            place = self._db.value(self._sql.PLACE_OF_GROUP, name=before) or 0
        rows = self._db.rows(self._sql.GROUPS, before=place, limit=limit)
        return [group_of(row) for row in rows]

    def like(self, prefix: str, limit: int = 10) -> list[str]:
        if not storable(prefix):
            return []
        span = {"prefix": prefix, "beyond": prefix + "\U0010ffff", "limit": limit}
        return [name for (name,) in self._db.rows(self._sql.GROUPS_LIKE, **span)]

    def running(self) -> dict[str, int]:
        rows = self._db.rows(self._sql.RUNNING_OF_GROUPS)
        return dict(Counter(name for (name,) in rows if name is not None))

    def children(self, name: str, *, limit: int) -> list[Edge]:
        if not storable(name):
            return []
        asked = {"name": name, "groups_at": GROUPS_AT, "limit": limit}
        rows = self._db.rows(self._sql.CHILDREN_OF_GROUP, **asked)
        return [edge_of(*row) for row in sorted(rows)]
