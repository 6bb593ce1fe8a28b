"""Groups: jobs that are waited for together, counted in the transaction that changes them.

Whoever ends one of them, or brings one back, holds the row of the group from then on to the end of
his transaction, so that the last who ends one knows that he is the last.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from queuectl.dependencies import group_end, is_unneeded
from queuectl.errors import StateError
from queuectl.facts import Group
from queuectl.job import FINISHED, WAITING, Job, State
from queuectl.store.contract import chunks
from queuectl.store.edges import GROUPS_AT, ROWS_AT_ONCE, End
from queuectl.values import fields, replace

if TYPE_CHECKING:
    from queuectl.store.idiom import Idiom

STOPPED_AT_ONCE = 10_000
"""Jobs of a group that are cancelled in one transaction."""
STATES_COUNTED = ("open", "completed", "dead", "cancelled", "unneeded")
COLUMNS = tuple(f.name for f in fields(Group))


class Moves:
    """By how much the counts of groups change."""

    def __init__(self) -> None:
        self.by: dict[str, Counter[str]] = defaultdict(Counter)
        self.bounds: dict[str, int] = {}
        """How many jobs of a group may be dead, as new ones say."""
        self.back: set[str] = set()
        """Groups of which jobs wait again whose runs have ended."""

    def __bool__(self) -> bool:
        return bool(self.by or self.back)

    def join(self, group: str, jobs: int, max_fails: int | None) -> None:
        """Note that a group gets new jobs."""
        self.by[group].update(joined=jobs, jobs=jobs, open=jobs)
        if max_fails is not None:
            self.bounds[group] = max_fails

    def move(self, jobs: Iterable[Job], to: State | None, *, unneeded: bool = False) -> None:
        """Note that jobs of groups, as they were before, came into a state, or were removed."""
        for job in jobs:
            if job.group is None:
                continue
            was_open, is_open = job.state not in FINISHED, to is not None and to not in FINISHED
            if was_open and is_open:
                if job.state == State.PROCESSING:
                    self.back.add(job.group)
                continue
            count = self.by[job.group]
            count["open" if was_open else job.state.value] -= 1
            if job.state == State.CANCELLED and is_unneeded(job.reason):
                count["unneeded"] -= 1
            if to is None:
                count["jobs"] -= 1
            else:
                count["open" if is_open else to.value] += 1
            if unneeded:
                count["unneeded"] += 1
            if is_open:
                count["again"] += 1


class Groups:
    """The groups of a queue, as a part of a transaction."""

    def __init__(self, idiom: "Idiom") -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.db.sql

    def count(self, moves: Moves, now: int) -> tuple[list[End], list[int], Moves]:
        """Count what has moved; returns groups that are over by that, and those that aren't more.

        And what moves by that in turn: of a group that is stopped, what waits is cancelled.
        """
        names = sorted({*moves.by, *moves.back})
        self._add({name: by for name, by in moves.by.items() if by["joined"]}, now)
        ends: list[End] = []
        again: list[int] = []
        follows = Moves()
        for seq, has_children, stopping, group in self._hold(names):
            after = _counted(group, moves.by.get(group.name, Counter()), now)
            if group.name in moves.bounds:
                after = replace(after, max_fails=moves.bounds[group.name])
            if after.dead > group.dead:
                after = _stopped(after, now)
            is_back = group.name in moves.back and after.stopped_at is not None
            stops = is_back or (after.stopped_at is not None and group.stopped_at is None)
            if after.stopped_at is None:
                stopping = None
            elif stops:
                stopping = 0
            self._write(seq, stopping, after)
            if after.over_at is not None and group.over_at is None and has_children:
                ends.append(End(GROUPS_AT + seq, group.name, group_end(after), now))
            if after.over_at is None and group.over_at is not None and has_children:
                again.append(GROUPS_AT + seq)
            if stops:
                self._stop(seq, group.name, 0, now, follows)
        return ends, again, follows

    def _add(self, joined: Mapping[str, Mapping[str, int]], now: int) -> None:
        """Make sure that groups are there."""
        for name in sorted(joined):
            self._db.change(self._sql.ADD_GROUP, {"name": name, "now": now})

    def find(self, names: Iterable[str]) -> list[tuple[int, Group]]:
        """Hold groups, and return them with their numbers."""
        return [(seq, group) for seq, _, _, group in self._hold(sorted(names))]

    def waited_for(self, names: Iterable[str]) -> list[tuple[int, str]]:
        """Return those of these groups for which jobs wait."""
        held = self._hold(sorted(names))
        return [(seq, group.name) for seq, has_children, _, group in held if has_children]

    def blocked(self, seqs: Sequence[int]) -> list[int]:
        """Return the jobs of these groups that wait for others."""
        if not seqs:
            return []
        rows = self._db.rows(self._sql.GROUPS_AT_PLACES, seqs=self._idiom.bind(seqs))
        names = self._idiom.bind([name for (name,) in rows])
        return [seq for (seq,) in self._db.rows(self._sql.BLOCKED_OF_GROUPS, ids=names)]

    def _hold(self, names: Sequence[str]) -> list[tuple[int, bool, int | None, Group]]:
        found = []
        for some in chunks(names, ROWS_AT_ONCE):
            rows = self._db.rows(self._sql.LOCK_GROUPS, ids=self._idiom.bind(some))
            found += [(row[0], bool(row[1]), row[2], group_of(row[3:])) for row in rows]
        return found

    def _write(self, seq: int, stopping: int | None, group: Group) -> None:
        row = {name: getattr(group, name) for name in COLUMNS if name not in ("name", "made_at")}
        self._db.change(self._sql.COUNT_GROUP, {**row, "seq": seq, "stopping": stopping})

    # -- groups that are stopped --------------------------------------------------------

    def go_on_stopping(self, now: int, moves: Moves) -> bool:
        """Go on to cancel what waits of groups that were stopped; says whether there are any."""
        rows = self._db.rows(self._sql.STOPPING)
        for seq, name, after in rows:
            self._stop(seq, name, after, now, moves)
        return bool(rows)

    def _stop(self, seq: int, name: str, after: int, now: int, moves: Moves) -> None:
        """Cancel jobs of a group that wait, behind a place in the line, as many as go at once."""
        where = {"group": name, "after": after, "limit": STOPPED_AT_ONCE}
        seqs = [found for (found,) in self._db.rows(self._sql.WAITING_OF_GROUP, **where)]
        for some in chunks(seqs, ROWS_AT_ONCE):
            jobs = self._idiom.jobs(self._sql.LOCK_JOBS, seqs=self._idiom.bind(some))
            waiting = [job for job in jobs if job.state in WAITING and job.group == name]
            why = f"its group {name} was stopped: too many of its jobs are dead"
            whys = {job.seq: why for job in waiting}
            ends = self._idiom.edges.call_off(waiting, whys, now, moves)
            if ends:
                self._idiom.edges.settle(ends, moves)
        left = len(seqs) == STOPPED_AT_ONCE
        place = seqs[-1] if left else None
        self._db.change(self._sql.STOP_GROUP, {"seq": seq, "stopping": place})
        self._idiom.has_untold |= left


def group_of(row: Sequence[Any]) -> Group:
    """Return the group that a row describes."""
    return Group(**dict(zip(COLUMNS, row, strict=True)))


def _counted(group: Group, by: Mapping[str, int], now: int) -> Group:
    """Return a group whose counts have moved; it isn't stopped any more if jobs run again."""
    if by.get("joined") and group.stopped_at is not None:
        raise StateError(
            f"Group {group.name} was stopped; it takes no more jobs.",
            advice=f"queuectl retry --group {group.name} starts it again.",
        )
    counts = {name: getattr(group, name) + by.get(name, 0) for name in ("jobs", *STATES_COUNTED)}
    after = replace(group, **counts)
    if by.get("again"):
        after = replace(after, stopped_at=None)
    if after.open > 0:
        return replace(after, over_at=None)
    if group.over_at is None and by:
        return replace(after, over_at=now, rounds=group.rounds + 1)
    return after


def _stopped(group: Group, now: int) -> Group:
    """Return a group that is stopped if too many of its jobs are dead and others aren't over."""
    is_full = group.max_fails is not None and group.dead >= group.max_fails
    if is_full and group.stopped_at is None and group.open:
        return replace(group, stopped_at=now)
    return group
