"""Jobs that wait for others: linked when they are new, and told when these end, in the transaction.

Who ends a job, or brings it back, holds its row; so does who adds a child to it. Of two who tell a
child, each of another parent, one waits for the other at the row of the child, whose count of
parents says when the last of them lets it go.

Ends are told on and on, as children that are cancelled have children, but not without bounds: what
is left is kept as ends that are yet to be told, and told by the transactions that follow.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from queuectl.dependencies import (
    IfParentFails,
    Verdict,
    Wanted,
    read_parent,
    verdict,
    why_cancelled,
)
from queuectl.errors import BadJobError, NotFoundError
from queuectl.facts import Event
from queuectl.host import whoami
from queuectl.job import FINISHED, Job, State
from queuectl.lifecycle import cancelled
from queuectl.scope import reaches
from queuectl.store.contract import chunks
from queuectl.store.rows import fence, kept, transition_row

if TYPE_CHECKING:
    from queuectl.store.idiom import Idiom

TOLD_AT_ONCE = 10_000
"""Children that are told in one transaction."""
ROUNDS_AT_ONCE = 1_000
"""How often one transaction goes on to the children of children that are cancelled."""
PARENTS_AT_ONCE = 500
ROWS_AT_ONCE = 5_000


class End(NamedTuple):
    """A job that has ended, as those are told who wait for it."""

    seq: int
    id: str
    state: State
    at: int
    action: str | None = None
    """What this is a part of, if somebody did it by hand."""
    was_removed: bool = False


class _Edge(NamedTuple):
    """A child that is told of an end."""

    child: int
    end: End
    wanted: Wanted


class Link(NamedTuple):
    """A new job, and for whom it waits."""

    id: str
    after: Sequence[str]


class Edges:
    """Who waits for whom, as a part of a transaction."""

    def __init__(self, idiom: "Idiom") -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.db.sql
        self._bind = idiom.bind

    # -- new jobs -----------------------------------------------------------------------

    def find_parents(
        self, links: Sequence[Link], new: Iterable[str], now: int
    ) -> dict[str, End | None]:
        """Hold the jobs for which new ones wait, and say how those ended that have.

        Those that are `new` themselves must come before their children.
        """
        place = {id: at for at, id in enumerate(new)}
        stored: dict[str, str] = {}
        for link in links:
            for parent, _ in map(read_parent, link.after):
                if parent not in place:
                    stored.setdefault(parent, link.id)
                elif place[parent] >= place[link.id]:
                    raise _waits_in_vain(link.id, parent)
        found: dict[str, End | None] = dict.fromkeys(place)
        for some in chunks(sorted(stored), ROWS_AT_ONCE):
            for id, seq, queue, state in self._db.rows(
                self._sql.LOCK_PARENTS, ids=self._bind(some)
            ):
                if reaches(queue):
                    found[id] = End(seq, id, State(state), now)
        for parent, child in stored.items():
            if parent not in found:
                raise NotFoundError(
                    f"There is no job {parent!r} for {child} to wait for; nothing was enqueued."
                )
        return found

    def link(self, links: Sequence[Link], parents: Mapping[str, End | None], now: int) -> None:
        """Have jobs that were just stored as blocked wait for their parents."""
        places = self._places({link.id for link in links}, parents)
        rows: list[dict[str, Any]] = []
        over: list[_Edge] = []
        for link in links:
            child = places[link.id]
            for parent, wanted in map(read_parent, link.after):
                seq, end = places[parent], parents[parent]
                rows.append({"child": child, "parent": seq, "parent_id": parent, "wanted": wanted})
                if end is not None and end.state in FINISHED:
                    over.append(_Edge(child, end, wanted))
        self._db.insert(self._sql.ADD_EDGES, rows)
        for some in chunks(sorted({row["parent"] for row in rows}), ROWS_AT_ONCE):
            self._db.change(self._sql.HAVE_CHILDREN, {"seqs": self._bind(some)})
        counts: dict[int, list[int]] = defaultdict(list)
        for link in links:
            counts[len(link.after)].append(places[link.id])
        for count, children in counts.items():
            for some in chunks(children, ROWS_AT_ONCE):
                self._db.change(self._sql.SET_PARENTS, {"count": count, "seqs": self._bind(some)})
        # They have no children yet.
        self._tell(over, now)

    def _places(self, new: set[str], parents: Mapping[str, End | None]) -> dict[str, int]:
        places = {id: end.seq for id, end in parents.items() if end is not None}
        wanted = new | (parents.keys() - places.keys())
        for some in chunks(sorted(wanted), ROWS_AT_ONCE):
            places.update(self._db.rows(self._sql.PLACES, ids=self._bind(some)))
        return places

    # -- ends ---------------------------------------------------------------------------

    def settle(self, ends: Sequence[End], *, kept: bool = False) -> None:
        """Tell all who wait for jobs that these have ended, and so on.

        What is left of that is kept for later; or still is, if the ends were.
        """
        left, known = deque(ends), {end.seq for end in ends} if kept else set()
        now = max(end.at for end in ends)
        room, rounds = TOLD_AT_ONCE, ROUNDS_AT_ONCE
        while left and room > 0 and rounds:
            some = [left.popleft() for _ in range(min(PARENTS_AT_ONCE, len(left)))]
            edges = self._open_edges(some, room + 1)
            if len(edges) > room:
                left.extendleft(reversed(some))
            left.extend(self._tell(edges[:room], now))
            room -= len(edges)
            rounds -= 1
        waiting = {end.seq for end in left}
        if done := sorted(known - waiting):
            self._db.change(self._sql.DROP_UNTOLD, {"seqs": self._bind(done)})
        for end in left:
            if end.seq not in known:
                row = {"seq": end.seq, "id": end.id, "state": end.state, "action": end.action}
                self._db.change(self._sql.ADD_UNTOLD, row)
        self._idiom.has_untold = bool(left)

    def settle_kept(self, now: int) -> bool:
        """Go on to tell ends of which not all have been told; says whether there were any."""
        rows = self._db.rows(self._sql.UNTOLD, limit=PARENTS_AT_ONCE)
        self._idiom.has_untold = False
        if rows:
            ends = [End(seq, id, State(state), now, action) for seq, id, state, action in rows]
            self.settle(ends, kept=True)
        return bool(rows)

    def reopen(self, seqs: Sequence[int]) -> None:
        """Have those wait again who weren't allowed to run by the ends of jobs that run again."""
        bound = {"seqs": self._bind(seqs)}
        # Waits for who tells one of these ends just now: who isn't told of it need not be.
        self._db.change(self._sql.DROP_UNTOLD, bound)
        self._db.change(self._sql.REOPEN_EDGES, bound)

    def _open_edges(self, ends: Sequence[End], limit: int) -> list[_Edge]:
        by_seq = {end.seq: end for end in ends}
        rows = self._db.rows(self._sql.OPEN_EDGES, seqs=self._bind(sorted(by_seq)), limit=limit)
        return [_Edge(child, by_seq[parent], Wanted(wanted)) for parent, child, wanted in rows]

    def _tell(self, edges: Sequence[_Edge], now: int) -> list[End]:
        """Tell children of ends; returns the ends of those that are cancelled by that."""
        children: dict[int, IfParentFails] = {}
        for some in chunks(sorted({edge.child for edge in edges}), ROWS_AT_ONCE):
            rows = self._db.rows(self._sql.LOCK_CHILDREN, seqs=self._bind(some))
            children.update((seq, IfParentFails(how or IfParentFails.BLOCK)) for seq, how in rows)
        settled: dict[tuple[int, State, bool], list[int]] = defaultdict(list)
        fewer: Counter[int] = Counter()
        over: dict[int, _Edge] = {}
        for edge in edges:
            if edge.child not in children:
                continue
            said = verdict(edge.wanted, edge.end.state, children[edge.child])
            is_met = said == Verdict.MET
            settled[edge.end.seq, edge.end.state, is_met].append(edge.child)
            if is_met:
                fewer[edge.child] += 1
            elif said == Verdict.OVER:
                over.setdefault(edge.child, edge)
        for (parent, state, is_met), told in settled.items():
            row = {"parent": parent, "state": state, "met": int(is_met)}
            for some in chunks(told, ROWS_AT_ONCE):
                self._db.change(self._sql.SETTLE_EDGES, row | {"seqs": self._bind(some)})
        self._let_go(fewer, now)
        return self._cancel(over, now)

    def _let_go(self, fewer: Mapping[int, int], now: int) -> None:
        """Have so many parents less keep these from running."""
        by_count: dict[int, list[int]] = defaultdict(list)
        for child, count in fewer.items():
            by_count[count].append(child)
        for count, some in sorted(by_count.items()):
            for part in chunks(sorted(some), ROWS_AT_ONCE):
                row = {"count": count, "now": now, "seqs": self._bind(part)}
                self._db.change(self._sql.LET_GO, row)
        if fewer:
            self._idiom.wake()

    def _cancel(self, over: Mapping[int, _Edge], now: int) -> list[End]:
        """Cancel those of these children that are blocked."""
        from queuectl.store.idiom import Changed

        jobs = [job for some in chunks(sorted(over), ROWS_AT_ONCE) for job in self._lock(some)]
        jobs = [job for job in jobs if job.state == State.BLOCKED]
        if not jobs:
            return []
        to = {job.seq: cancelled(job, _why(over[job.seq])) for job in jobs}
        rows = [
            fence(job) | transition_row(to[job.seq], now) | {"now": now, "was": job.state.value}
            for job in jobs
        ]
        gone = self._db.update(self._sql.APPLY, rows)
        jobs = [job for job in jobs if job.seq in gone]
        after = {
            job.seq: job for some in chunks(sorted(gone), ROWS_AT_ONCE) for job in self._lock(some)
        }
        events = [_event(job, after[job.seq], over[job.seq], now) for job in jobs]
        may_tell = self._idiom.may_tell()
        self._idiom.follow(
            Changed(
                State.CANCELLED,
                [job.seq for job in jobs],
                events,
                ticked=[job for job in jobs if job.tick is not None],
                told=[(after[job.seq], None) for job in jobs if may_tell(job)],
            )
        )
        return [
            End(job.seq, job.id, State.CANCELLED, now, over[job.seq].end.action)
            for job in jobs
            if job.has_children
        ]

    def _lock(self, seqs: Sequence[int]) -> list[Job]:
        return self._idiom.jobs(self._sql.LOCK_JOBS, seqs=self._bind(seqs))


def _why(edge: _Edge) -> str:
    if edge.end.was_removed:
        return f"its parent {edge.end.id} was removed"
    return why_cancelled(edge.end.id, edge.wanted, edge.end.state)


def _event(before: Job, after: Job, edge: _Edge, now: int) -> Event:
    """Return what is kept of a child that was cancelled; by hand, together with what did it."""
    is_by_hand = edge.end.action is not None
    return Event(
        at=now,
        kind="cancel",
        job=before.id,
        node=None,
        who=whoami(),
        detail=_why(edge),
        action=edge.end.action,
        was=kept(before, after) if is_by_hand and before.tick is None else None,
    )


def _waits_in_vain(child: str, parent: str) -> BadJobError:
    if child == parent:
        return BadJobError(f"Job {child} can't wait for itself.", field="after")
    return BadJobError(
        f"Job {child} waits for {parent}, which comes after it; enqueue that first.", field="after"
    )
