"""Groups as they are stored: found, and held until the transaction is over."""

from collections.abc import Iterable, Sequence
from typing import Any

from queuectl.facts import Group
from queuectl.job import State
from queuectl.store.changed import GROUPS_AT, ROWS_AT_ONCE, End, Ground
from queuectl.store.contract import chunks
from queuectl.values import fields

COLUMNS = tuple(f.name for f in fields(Group))


class Groups:
    """The groups of a queue, as a part of a transaction."""

    def __init__(self, idiom: Ground) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.db.sql

    def ends(self, names: Iterable[str]) -> list[End]:
        """Hold groups, and say how those ended that have; the others are said to be pending."""
        return [
            End(
                GROUPS_AT + seq,
                group.name,
                State.PENDING if group.over_at is None else group.came_to,
                group.over_at or 0,
            )
            for seq, _, _, group in self.hold(sorted(names))
        ]

    def waited_for(self, names: Iterable[str]) -> list[tuple[int, str]]:
        """Return those of these groups for which jobs wait."""
        held = self.hold(sorted(names))
        return [(seq, group.name) for seq, has_children, _, group in held if has_children]

    def blocked(self, seqs: Sequence[int]) -> list[int]:
        """Return the jobs of these groups that wait for others."""
        if not seqs:
            return []
        rows = self._db.rows(self._sql.GROUPS_AT_PLACES, seqs=self._idiom.bind(seqs))
        names = self._idiom.bind([name for (name,) in rows])
        return [seq for (seq,) in self._db.rows(self._sql.BLOCKED_OF_GROUPS, ids=names)]

    def hold(self, names: Sequence[str]) -> list[tuple[int, bool, int | None, Group]]:
        """Hold groups; returns their numbers, whether others wait, and where stopping one is."""
        found = []
        for some in chunks(names, ROWS_AT_ONCE):
            rows = self._db.rows(self._sql.LOCK_GROUPS, ids=self._idiom.bind(some))
            found += [(row[0], bool(row[1]), row[2], group_of(row[3:])) for row in rows]
        return found


def group_of(row: Sequence[Any]) -> Group:
    """Return the group that a row describes."""
    return Group(**dict(zip(COLUMNS, row, strict=True)))
