"""Jobs that wait for others: linked when they are new, and told when these end, in the transaction.

Who ends a job, or brings it back, holds its row; so does who adds a child to it. Of two who tell a
child, each of another parent, one waits for the other at the row of the child, whose count of
parents says when the last of them lets it go.

Ends are told on and on, as children that are cancelled have children, but not without bounds: what
is left is kept as ends that are yet to be told, and told by the transactions that follow.
"""

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from queuectl.dependencies import IfParentFails, Wanted, read_parent
from queuectl.errors import BadJobError, NotFoundError
from queuectl.job import FINISHED, Job, State
from queuectl.scope import reaches
from queuectl.store.calling_off import CallingOff, end_of
from queuectl.store.changed import GROUPS_AT, ROWS_AT_ONCE, End, Ground, Moves
from queuectl.store.contract import chunks
from queuectl.store.groups import Groups
from queuectl.store.judged import Alike, Edge, Judged, by_parent

TOLD_AT_ONCE = 10_000
"""Children that are told in one transaction."""
ROUNDS_AT_ONCE = 1_000
"""How often one transaction goes on to the children of children that are cancelled."""
PARENTS_AT_ONCE = 500
READ_AHEAD = 1_000
LEAST_AHEAD = 64
"""Jobs that are judged together with those above them, at most, before any of it is written; and
how many at most when that begins."""
EDGES_OF_ONE = 4
"""Edges that are read ahead for each of them."""


class Link(NamedTuple):
    """A new job, and for whom it waits."""

    id: str
    after: Sequence[str]
    after_group: Sequence[str] = ()
    group: str | None = None


class Edges:
    """Who waits for whom, as a part of a transaction."""

    def __init__(self, idiom: Ground) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.db.sql
        self._bind = idiom.bind
        self._of_groups = Groups(idiom)
        self._calling_off = CallingOff(idiom)

    # -- new jobs -----------------------------------------------------------------------

    def find_parents(
        self, links: Sequence[Link], new: Iterable[str], joined: Container[str], now: int
    ) -> dict[str, End | None]:
        """Hold the jobs for which new ones wait, and say how those ended that have.

        Those that are `new` themselves must come before their children, and are None. Groups must
        be there, or be `joined` by new jobs.
        """
        place = {id: at for at, id in enumerate(new)}
        stored: dict[str, str] = {}
        groups: dict[str, str] = {}
        for link in links:
            for parent, _ in map(read_parent, link.after):
                if parent not in place:
                    stored.setdefault(parent, link.id)
                elif place[parent] >= place[link.id]:
                    raise _waits_in_vain(link.id, parent)
            for name, _ in map(read_parent, link.after_group):
                if name == link.group:
                    raise BadJobError(
                        f"Job {link.id} can't wait for the group that it is in.",
                        field="after_group",
                    )
                if name not in joined:
                    groups.setdefault(name, link.id)
        found: dict[str, End | None] = dict.fromkeys(place)
        for some in chunks(sorted(stored), ROWS_AT_ONCE):
            found |= self._hold(some, now)
        _check_found("job", stored, found)
        _check_found("group", groups, self._groups(groups))
        return found

    def _hold(self, ids: Sequence[str], now: int) -> dict[str, End]:
        """Hold jobs, as far as they are there and in reach."""
        held: dict[str, End] = {}
        left = set(ids)
        while left and (rows := self._db.rows(self._sql.PLACES, ids=self._bind(sorted(left)))):
            places: dict[str, int] = dict(rows)
            seqs = self._bind(sorted(places.values()))
            there = self._db.rows(self._sql.LOCK_PARENTS, seqs=seqs)
            same = [row for row in there if places.get(row[0]) == row[1]]
            held |= {
                id: End(seq, id, State(state), now)
                for id, seq, queue, state in same
                if reaches(queue)
            }
            # Some may have been given other places just now.
            left = places.keys() - {id for id, *_ in same}
        return held

    def _groups(self, names: Iterable[str]) -> dict[str, End]:
        """Hold groups, and say how those ended that have."""
        return {end.id: end for end in self._of_groups.ends(names)}

    def link(
        self, links: Sequence[Link], parents: Mapping[str, End | None], now: int, moves: Moves
    ) -> None:
        """Have jobs that were just stored as blocked wait for their parents."""
        places = self._places({link.id for link in links}, parents)
        groups = self._groups({name for link in links for name, _ in _read(link.after_group)})
        rows: list[dict[str, Any]] = []
        over: list[Edge] = []
        for link in links:
            ties = [(places[id], parents[id], id, wanted) for id, wanted in _read(link.after)]
            ties += [
                (end.seq, end, name, wanted)
                for name, wanted in _read(link.after_group)
                for end in [groups[name]]
            ]
            child = places[link.id]
            for seq, end, id, wanted in ties:
                rows.append({"child": child, "parent": seq, "parent_id": id, "wanted": wanted})
                if end is not None and end.state in FINISHED:
                    over.append(Edge(child, end, wanted))
        self._db.insert(self._sql.ADD_EDGES, rows)
        of_jobs = {row["parent"] for row in rows if row["parent"] < GROUPS_AT}
        for some in chunks(sorted(of_jobs), ROWS_AT_ONCE):
            self._db.change(self._sql.HAVE_CHILDREN, {"seqs": self._bind(some)})
        for end in groups.values():
            self._db.change(self._sql.GROUP_HAS_CHILDREN, {"seq": end.seq - GROUPS_AT})
        counts: dict[int, list[int]] = defaultdict(list)
        for link in links:
            counts[len(link.after) + len(link.after_group)].append(places[link.id])
        for count, children in counts.items():
            for some in chunks(children, ROWS_AT_ONCE):
                self._db.change(self._sql.SET_PARENTS, {"count": count, "seqs": self._bind(some)})
        self._check_groups(links, places)
        if ends := self._tell(self._judge(over), now, moves):
            self.settle(ends, moves)

    def _check_groups(self, links: Sequence[Link], places: Mapping[str, int]) -> None:
        """Raise that new jobs wait for others that wait for the end of their own group.

        Among jobs alone there are no such circles: each waits for those that were there before.
        """
        by_group: dict[str, list[int]] = defaultdict(list)
        for link in links:
            if link.group is not None:
                by_group[link.group].append(places[link.id])
        waited_for = self._of_groups.waited_for(by_group)
        for seq, name in waited_for:
            if self._leads_to(by_group[name], GROUPS_AT + seq):
                raise BadJobError(
                    f"Group {name} would wait for itself: some of its new jobs wait for what waits"
                    " for its end.",
                    field="group",
                )

    def _leads_to(self, children: Sequence[int], place: int) -> bool:
        """Tell whether these jobs wait, by whatever way, for what is at a place."""
        seen: set[int] = set()
        some = set(children)
        while some:
            seen |= some
            found: set[int] = set()
            for part in chunks(sorted(some), ROWS_AT_ONCE):
                rows = self._db.rows(self._sql.OPEN_PARENTS, seqs=self._bind(part))
                found.update(parent for (parent,) in rows)
            if place in found:
                return True
            groups = [parent - GROUPS_AT for parent in found if parent >= GROUPS_AT]
            found.update(self._of_groups.blocked(groups))
            some = found - seen
        return False

    def _places(self, new: set[str], parents: Mapping[str, End | None]) -> dict[str, int]:
        places = {id: end.seq for id, end in parents.items() if end is not None}
        wanted = new | (parents.keys() - places.keys())
        for some in chunks(sorted(wanted), ROWS_AT_ONCE):
            places.update(self._db.rows(self._sql.PLACES, ids=self._bind(some)))
        return places

    # -- ends ---------------------------------------------------------------------------

    def settle(self, ends: Sequence[End], moves: Moves, *, kept: bool = False) -> None:
        """Tell all who wait for jobs that these have ended, and so on.

        What is left of that is kept for later; or still is, if the ends were.
        """
        left, known = deque(ends), {end.seq for end in ends} if kept else set()
        now = max(end.at for end in ends)
        room, rounds, reach = TOLD_AT_ONCE, ROUNDS_AT_ONCE, READ_AHEAD if kept else 0
        while left and room > 0 and rounds:
            some = [left.popleft() for _ in range(min(PARENTS_AT_ONCE, len(left)))]
            edges = self._open_edges(some, room + 1)
            is_whole = len(edges) <= room
            if not is_whole:
                left.extendleft(reversed(some))
            judged = self._judge(edges[:room])
            room -= len(edges)
            found = self._judge_below(judged, now, reach, room) if reach and is_whole else 0
            left.extend(self._tell(judged, now, moves, is_whole=is_whole))
            room -= found
            # The longer it goes on, the more is read ahead, as long as that is where it goes on.
            reach = min(max(2 * len(judged.told), LEAST_AHEAD), READ_AHEAD)
            rounds -= 1
        waiting = {end.seq for end in left}
        if done := sorted(known - waiting):
            self._db.change(self._sql.DROP_UNTOLD, {"seqs": self._bind(done)})
        for end in left:
            if end.seq not in known:
                self._db.change(self._sql.ADD_UNTOLD, _kept_row(end))
        self._idiom.has_untold |= bool(left)

    def settle_kept(self, now: int, moves: Moves) -> bool:
        """Go on to tell ends of which not all have been told; says whether there were any."""
        rows = self._db.rows(self._sql.UNTOLD, limit=PARENTS_AT_ONCE)
        if rows:
            ends = [_kept_end(row, now) for row in rows]
            self.settle(ends, moves, kept=True)
        return bool(rows)

    def reopen(self, seqs: Sequence[int]) -> None:
        """Have those wait again who weren't allowed to run by the ends of jobs that run again."""
        bound = {"seqs": self._bind(seqs)}
        # Waits for who tells one of these ends just now: who isn't told of it need not be.
        self._db.change(self._sql.DROP_UNTOLD, bound)
        self._db.change(self._sql.REOPEN_EDGES, bound)

    def _open_edges(self, ends: Sequence[End], limit: int) -> list[Edge]:
        by_seq = {end.seq: end for end in ends}
        rows = self._db.rows(self._sql.OPEN_EDGES, seqs=self._bind(sorted(by_seq)), limit=limit)
        return [Edge(child, by_seq[parent], Wanted(wanted)) for parent, child, wanted in rows]

    def _judge(self, edges: Sequence[Edge]) -> Judged:
        """Hold children, and say what ends mean to them."""
        children: dict[int, IfParentFails] = {}
        for some in chunks(sorted({edge.child for edge in edges}), ROWS_AT_ONCE):
            rows = self._db.rows(self._sql.LOCK_CHILDREN, seqs=self._bind(some))
            children.update((seq, _if_fails(how)) for seq, how in rows)
        judged = Judged()
        for edge in edges:
            if edge.child in children:
                judged.take(edge, children[edge.child])
        over = self._lock(judged.over)
        judged.blocked |= {job.seq: job for job in over if job.state == State.BLOCKED}
        return judged

    def _tell(self, judged: Judged, now: int, moves: Moves, *, is_whole: bool = False) -> list[End]:
        """Tell children of ends; returns the ends of those that are cancelled by that.

        If it `is_whole`, all who wait for these ends were judged.
        """
        for some in judged.alike(is_whole=is_whole):
            self._settle_alike(some)
        self._let_go(judged.fewer, now)
        blocked = sorted(judged.blocked.values(), key=lambda job: job.seq)
        whys = {job.seq: judged.over[job.seq].why for job in blocked}
        actions = {job.seq: judged.over[job.seq].end.action for job in blocked}
        ends = self._calling_off.call_off(blocked, whys, now, moves, actions=actions)
        return [end for end in ends if end.seq not in judged.told]

    def _settle_alike(self, some: Alike) -> None:
        row = {"state": some.state, "met": int(some.is_met)}
        if some.wanted is None:
            row["parent"] = some.parent
            statement, places = self._sql.SETTLE_EDGES, some.children
        else:
            row["wanted"] = some.wanted
            statement, places = self._sql.SETTLE_ALL_EDGES, some.parents
        for part in chunks(places, ROWS_AT_ONCE):
            self._db.change(statement, row | {"seqs": self._bind(part)})

    # -- those that are cancelled by that, many levels at a time --------------------------------

    def _judge_below(self, judged: Judged, now: int, reach: int, room: int) -> int:
        """Judge what the ends of those mean that are to be cancelled, and so on.

        So many jobs further, at most, unless there is no room for their children; returns how many
        of these were judged.
        """
        level = [self._end_in(judged, job, now) for job in judged.blocked.values()]
        level = [end for end in level if judged.blocked[end.seq].has_children]
        if not level:
            return 0
        held = self._hold_below([end.seq for end in level], min(reach, room))
        seqs = sorted({end.seq for end in level} | held.keys())
        rows = self._db.rows(self._sql.OPEN_EDGES, seqs=self._bind(seqs), limit=room + 1)
        if len(rows) > room:
            return 0
        others = {child for _, child, _ in rows} - held.keys()
        jobs = held | {job.seq: job for job in self._lock(others)}
        edges = by_parent(rows)
        count = 0
        while level:
            below: list[End] = []
            for end in sorted(level):
                judged.told.add(end.seq)
                for child, wanted in edges.get(end.seq, ()):
                    if (job := jobs.get(child)) is None:
                        continue
                    count += 1
                    is_over = judged.take(Edge(child, end, wanted), _if_fails(job.if_parent_fails))
                    if is_over and job.state == State.BLOCKED and child not in judged.blocked:
                        judged.blocked[child] = job
                        if child in held:
                            below.append(self._end_in(judged, job, now))
            level = below
        return count

    def _hold_below(self, seqs: Sequence[int], most: int) -> dict[int, Job]:
        """Hold those that are blocked below these, as far as others wait for them, too.

        They are looked for among what was stored soon after these, as most are.
        """
        many = EDGES_OF_ONE * (len(seqs) + most)
        where = {"first": min(seqs), "last": max(seqs) + most, "limit": many}
        edges: dict[int, list[int]] = defaultdict(list)
        for parent, child in self._db.rows(self._sql.EDGES_FROM, **where):
            edges[parent].append(child)
        seen, line = set(seqs), deque(seqs)
        found: list[int] = []
        while line and len(found) < most:
            fresh = [child for child in edges[line.popleft()] if child in edges]
            fresh = [child for child in fresh if child not in seen]
            seen.update(fresh)
            line.extend(fresh)
            found += fresh
        held = self._lock(found)
        return {job.seq: job for job in held if job.state == State.BLOCKED and job.has_children}

    def _end_in(self, judged: Judged, job: Job, now: int) -> End:
        """Return the end of a job that is to be cancelled."""
        edge = judged.over[job.seq]
        return end_of(job, edge.why, now, edge.end.action)

    def drop(self, child: int, before: Sequence[str], after: Sequence[str], now: int) -> None:
        """Have a job wait no longer for some of those that it waits for."""
        gone = {id for id, _ in _read(before)} - {id for id, _ in _read(after)}
        edges = self._db.rows(self._sql.PARENTS, seqs=self._bind([child]))
        dropped = {
            parent: met for _, parent, id, _, _, met in edges if id in gone and parent < GROUPS_AT
        }
        row = {"child": child, "seqs": self._bind(list(dropped))}
        self._db.change(self._sql.DROP_EDGES, row)
        if count := sum(not met for met in dropped.values()):
            self._let_go({child: count}, now)

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

    def _lock(self, seqs: Iterable[int]) -> list[Job]:
        """Hold jobs, and return them as they are."""
        return [
            job
            for some in chunks(sorted(seqs), ROWS_AT_ONCE)
            for job in self._idiom.jobs(self._sql.LOCK_JOBS, seqs=self._bind(some))
        ]


def _kept_row(end: End) -> dict[str, Any]:
    """Describe an end of which not all have been told."""
    how = "removed" if end.was_removed else "unneeded" if end.was_unneeded else None
    row = {"seq": end.seq, "id": end.id, "state": end.state, "action": end.action}
    return row | {"how": how}


def _kept_end(row: Sequence[Any], now: int) -> End:
    """Return the end that a row describes."""
    seq, id, state, action, how = row
    told = {"was_removed": how == "removed", "was_unneeded": how == "unneeded"}
    return End(seq, id, State(state), now, action, **told)


def _if_fails(how: str | None) -> IfParentFails:
    return IfParentFails(how or IfParentFails.BLOCK)


def _read(names: Sequence[str]) -> list[tuple[str, Wanted]]:
    return [read_parent(name) for name in names]


def _check_found(what: str, wanted: Mapping[str, str], found: Container[str]) -> None:
    for name, child in wanted.items():
        if name not in found:
            raise NotFoundError(
                f"There is no {what} {name!r} for {child} to wait for; nothing was enqueued."
            )


def _waits_in_vain(child: str, parent: str) -> BadJobError:
    if child == parent:
        return BadJobError(f"Job {child} can't wait for itself.", field="after")
    return BadJobError(
        f"Job {child} waits for {parent}, which comes after it; enqueue that first.", field="after"
    )
