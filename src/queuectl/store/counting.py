"""How many jobs of groups there are, counted in the transaction that changes them.

Whoever ends one of them, or brings one back, holds the row of the group from then on to the end of
his transaction, so that the last who ends one knows that he is the last.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from queuectl.dependencies import comes_however, why_stopped
from queuectl.errors import StateError
from queuectl.facts import Group
from queuectl.job import WAITING, Job
from queuectl.store.calling_off import CallingOff
from queuectl.store.changed import GROUPS_AT, ROWS_AT_ONCE, End, Ground, Moves
from queuectl.store.contract import chunks
from queuectl.store.edges import Edges
from queuectl.store.groups import COLUMNS, Groups
from queuectl.values import replace

STOPPED_AT_ONCE = 10_000
"""Jobs of a group that are cancelled in one transaction."""
STATES_COUNTED = ("open", "completed", "dead", "cancelled", "unneeded")


class Counting:
    """The counts of groups, as a part of a transaction."""

    def __init__(self, idiom: Ground, edges: Edges) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.db.sql
        self._edges = edges
        self._calling_off = CallingOff(idiom)
        self._groups = Groups(idiom)

    def count(self, moves: Moves, now: int) -> tuple[list[End], list[int], Moves]:
        """Count what has moved; returns groups that are over by that, and those that aren't more.

        And what moves by that in turn: of a group that is stopped, what waits is cancelled.
        """
        names = sorted({*moves.by, *moves.back})
        self._add({name: by for name, by in moves.by.items() if by["joined"]}, now)
        ends: list[End] = []
        again: list[int] = []
        follows = Moves()
        for seq, has_children, stopping, group in self._groups.hold(names):
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
                action = moves.actions.get(group.name)
                ends.append(End(GROUPS_AT + seq, group.name, after.came_to, now, action))
            if after.over_at is None and group.over_at is not None and has_children:
                again.append(GROUPS_AT + seq)
            if stops:
                self._stop(seq, group.name, 0, now, follows)
        return ends, again, follows

    def _add(self, joined: Mapping[str, Mapping[str, int]], now: int) -> None:
        """Make sure that groups are there."""
        for name in sorted(joined):
            self._db.change(self._sql.ADD_GROUP, {"name": name, "now": now})

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
            last = self._clean_ups(waiting, name)
            waiting = [job for job in waiting if job.seq not in last]
            whys = {job.seq: why_stopped(name) for job in waiting}
            ends = self._calling_off.call_off(waiting, whys, now, moves)
            if ends:
                self._edges.settle(ends, moves)
        left = len(seqs) == STOPPED_AT_ONCE
        place = seqs[-1] if left else None
        self._db.change(self._sql.STOP_GROUP, {"seq": seq, "stopping": place})
        self._idiom.has_untold |= left

    def _clean_ups(self, jobs: Sequence[Job], name: str) -> set[int]:
        """Return those that come after others of their group, however these end."""
        some = [job.seq for job in jobs if comes_however(job.after, job.after_group)]
        if not some:
            return set()
        asked = {"seqs": self._idiom.bind(some), "group": name}
        return {seq for (seq,) in self._db.rows(self._sql.AFTER_OWN_GROUP, **asked)}


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
