"""Claims of jobs that need something of their node, and the room that is kept for some of them.

What a node has free is said by itself, in its offer: nobody else takes anything of it. Of each line
that it has room for the first jobs are looked at, of others only who might be the next for whom
room is kept. They are chosen as they were seen, then held; if somebody else has one by then, it is
chosen anew.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from queuectl.admission import Admitted, Candidate, Offer, admit_limited, line_up
from queuectl.facts import Reservation
from queuectl.fitting import Neighbour, NodeKeeper, best_node, lined_up
from queuectl.job import NEEDS, Job, read_devices
from queuectl.resources import Holding, Room, Stock, needs_of
from queuectl.store.database import Database
from queuectl.store.driver import Row
from queuectl.store.serving import serving_of
from queuectl.values import replace

ROUNDS = 4
"""How often jobs are chosen anew, if others have some of them."""
MOST_WEIGHED = 32
"""For how many jobs it is found out at most on which node room is to be kept."""


class Stocked:
    """What a claim goes by: what the node has, and for which jobs nodes keep room."""

    def __init__(
        self, db: Database, lines: Mapping[str, Sequence[str]], offer: Offer, node: str, now: int
    ) -> None:
        assert offer.stock is not None
        self._db = db
        self._offer = offer
        self._node = node
        self._now = now
        self._stock = offer.stock
        self._others: list[Neighbour] | None = None
        self._weighed = 0
        self._last: NodeKeeper | None = None
        rows = sorted(db.rows(db.sql.RESERVATIONS))
        self.reservations = [Reservation(seq=seq, node=node, at=at) for seq, node, at, *_ in rows]
        self._taken_places = {one.seq for one in self.reservations if one.node != node}
        self._keeping = {one.node for one in self.reservations if one.node != node}
        mine = [row for row in rows if row[1] == node and row[4] in lines.get(row[3], ())]
        self.first = _reserved(mine[0]) if mine else None
        """The job for which this node keeps room, if that is ready, and for it."""
        self._since = mine[0][2] if mine else 0

    def lines(self, lines: Mapping[str, Sequence[str]]) -> list[tuple[str, str, int]]:
        """Return the lines that matter, each with how many of its jobs do.

        Of those without room, only who is first of them could have room kept for it.
        """
        room, workers = self._stock.room(), len(self._offer.workers)
        heads = 1 + len(self.reservations)
        return [
            (queue, handler, limit)
            for queue, handlers in lines.items()
            for handler in handlers
            if (limit := workers if _fits(handler, room) else heads)
        ]

    def first_in(self, line: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield a line with the job for which room is kept in its place."""
        return lined_up(line, self.first, has_order=self._offer.order is not None)

    def keeper(self) -> NodeKeeper:
        """Return who gives out what the node has, from the beginning."""
        reserved = None if self.first is None else (self.first.seq, self._since)
        self._weighed = 0
        self._last = NodeKeeper(self._stock, self._now, may_keep=self._may_keep, reserved=reserved)
        return self._last

    def _may_keep(self, job: Candidate, stock: Stock) -> bool:
        """Tell whether room is to be kept here for a job that fits nowhere now."""
        if job.seq in self._taken_places or self._weighed >= MOST_WEIGHED:
            return False
        self._weighed += 1
        if self._others is None:
            self._others = self._neighbours()
        me = Neighbour(self._node, self._offer.queues, stock, bool(self._offer.idle))
        best = best_node(job.queue, job.handler, [me, *self._others], self._keeping)
        return best == self._node

    def _neighbours(self) -> list[Neighbour]:
        """Return the other nodes, as they are now; those that are to stop take no jobs."""
        db, sql = self._db, self._db.sql
        held: dict[str, list[Holding]] = {}
        for node, at, handler, devices in db.rows(sql.USING):
            given = {} if devices is None else read_devices(devices)
            if (needs := needs_of(handler)) is not None:
                held.setdefault(node, []).append(Holding(at or 0, needs, given))
        busy: dict[str, int] = dict(db.rows(sql.BUSY))
        taking = [
            (id, workers, serving_of(json.loads(queues)))
            for id, workers, queues in db.rows(sql.TAKING)
            if id != self._node
        ]
        return [
            Neighbour(
                id, serving, Stock(serving.resources, held.get(id, ())), workers > busy.get(id, 0)
            )
            for id, workers, serving in taking
            if serving.has_classes
        ]

    @property
    def last(self) -> NodeKeeper:
        """Who gave out what the node has, the last time."""
        return self._last or self.keeper()


class Stocking:
    """Claims where jobs need something, each as a part of a transaction."""

    def __init__(
        self,
        db: Database,
        first_of_lines: Callable[[Sequence[tuple[str, str, int]], int], list[Candidate]],
        begin_runs: Callable[[Sequence[Candidate], Sequence[int], str, int], list[Job]],
        admit: Callable[..., Admitted],
    ) -> None:
        self._db = db
        self._sql = db.sql
        self._first_of_lines = first_of_lines
        self._begin_runs = begin_runs
        self._admit = admit
        self._bind = db.driver.dialect.bind_list

    def claim(
        self,
        queues: Mapping[str, str | None],
        lines: Mapping[str, Sequence[str]],
        offer: Offer,
        node: str,
        now: int,
    ) -> tuple[list[Job], bool]:
        """Begin runs of what fits, and say whether anything waits for room."""
        stocked = Stocked(self._db, lines, offer, node, now)
        wanted = stocked.lines(lines)
        line, workers = self._choose(queues, wanted, stocked, offer, node, now)
        jobs = self._give(self._begin_runs(line, workers, node, now), stocked.last)
        self._keep_room(stocked, {job.seq for job in jobs}, node, now)
        return jobs, stocked.last.waits

    def _choose(
        self,
        queues: Mapping[str, str | None],
        wanted: Sequence[tuple[str, str, int]],
        stocked: Stocked,
        offer: Offer,
        node: str,
        now: int,
    ) -> tuple[list[Candidate], list[int]]:
        """Return which jobs begin, held and with all that is stored of them, and who runs each."""
        if any(limits is not None for limits in queues.values()):
            # Nobody else claims from these queues meanwhile.
            handlers: dict[str, list[str]] = {queue: [] for queue in queues}
            for queue, handler, _ in wanted:
                handlers[queue].append(handler)
            found = self._admit(queues, handlers, offer, node, now, stocked)
            return self._hold(found.taken, found.workers)
        gone: set[int] = set()
        for _ in range(ROUNDS):
            lines: dict[str, list[Candidate]] = {}
            for job in self._first_of_lines(wanted, now):
                if job.seq not in gone:
                    lines.setdefault(job.queue, []).append(job)
            for of_queue in lines.values():
                of_queue.sort(key=lambda job: job.place_in_queue)
            line = stocked.first_in(line_up(lines, offer))
            chosen = admit_limited(line, offer, now, {}, node, stocked.keeper())
            held, workers = self._hold(chosen.taken, chosen.workers)
            if len(held) == len(chosen.taken):
                break
            gone |= {job.seq for job in chosen.taken} - {job.seq for job in held}
        return held, workers

    def _hold(
        self, chosen: Sequence[Candidate], workers: Sequence[int]
    ) -> tuple[list[Candidate], list[int]]:
        """Keep others from changing these jobs, as far as nobody else holds them."""
        seqs = self._bind(sorted(job.seq for job in chosen))
        rows = self._db.rows(self._sql.LOCK_LINE, seqs=seqs) if chosen else []
        stored = {row[0]: row for row in rows}
        pairs = [
            (job._replace(row=stored[job.seq]), worker)
            for job, worker in zip(chosen, workers, strict=True)
            if job.seq in stored
        ]
        return [job for job, _ in pairs], [worker for _, worker in pairs]

    def _give(self, jobs: list[Job], keeper: NodeKeeper) -> list[Job]:
        """Write down which devices runs have, and return their jobs with these."""
        changed = {
            job.seq: given
            for job in jobs
            if (given := dict(keeper.devices.get(job.seq, {}))) != job.devices
        }
        for seq, given in changed.items():
            text = json.dumps(given) if given else None
            self._db.change(self._sql.SET_DEVICES, {"seq": seq, "devices": text})
        return [
            replace(job, devices=changed[job.seq]) if job.seq in changed else job for job in jobs
        ]

    def _keep_room(self, stocked: Stocked, begun: set[int], node: str, now: int) -> None:
        """Have the node keep room for one job at most, and none for what has begun."""
        kept = stocked.last.kept
        if over := sorted(begun & {one.seq for one in stocked.reservations}):
            self._db.change(self._sql.UNRESERVE, {"seqs": self._bind(over)})
        known = any(
            one.node == node and kept is not None and one.seq == kept.seq
            for one in stocked.reservations
        )
        if known:
            return
        self._db.change(self._sql.UNRESERVE_NODE, {"node": node})
        if kept is not None:
            if kept.seq not in {one.seq for one in stocked.reservations}:
                # That of a node which is to stop may still be there.
                self._db.change(self._sql.UNRESERVE, {"seqs": self._bind([kept.seq])})
            self._db.change(self._sql.RESERVE, {"seq": kept.seq, "node": node, "at": now})


def _fits(handler: str, room: Room) -> bool:
    """Tell whether there is room for jobs of a line."""
    if not handler.startswith(NEEDS):
        return True
    needs = needs_of(handler)
    return needs is not None and room.fits(needs)


def _reserved(row: Row) -> Candidate:
    """Return the job of a reservation."""
    seq, _, _, queue, handler, priority, crashes, run_at, vtime, keys = row
    named = () if keys is None else tuple(json.loads(keys))
    return Candidate(priority, seq, crashes, run_at, vtime, None, queue, named, handler)
