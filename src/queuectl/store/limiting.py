"""Claims from queues that have limits, the room that ended runs leave, and the places of new jobs.

Whoever decides about such a queue holds its row until the transaction is over: so nobody counts
runs while somebody else begins some. Jobs whose key has no room are parked under it, out of the
index that claims go by, and are brought back by whoever makes room.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress, groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from queuectl.admission import Admitted, Candidate, Offer, admit_limited, line_up, one_line
from queuectl.job import NEEDS, Job, NewJob, distinct
from queuectl.limits import (
    UNLIMITED,
    Gate,
    Limits,
    Meters,
    Shares,
    Who,
    limits_of_text,
    own_keys,
    refunded,
    sharing_key,
)
from queuectl.store.database import Database
from queuectl.store.driver import Row
from queuectl.store.rows import NewRow, asked_for, in_line, keys_in, with_vtimes

if TYPE_CHECKING:
    from queuectl.store.crowding import Displaced, Succession
    from queuectl.store.stocking import Stocked

ROUNDS = 6
"""How often a claim parks jobs and looks for others before it takes what it has."""
DEEPEST = 1_000
"""How many jobs of a queue it looks at, and parks, at once."""
OPENED_AT_ONCE = 100


class Limiting:
    """What limits make of claims, ends and new jobs, each as a part of a transaction."""

    def __init__(
        self, db: Database, first_ready: Callable[[str, str, int, int], Sequence[Row]]
    ) -> None:
        self._db = db
        self._first_ready = first_ready
        self._sql = db.sql
        self._bind = db.driver.dialect.bind_list
        self._slotted: set[str] = set()
        """Queues that had slots when somebody here claimed from them."""

    # -- claiming -----------------------------------------------------------------------

    def admit(
        self,
        queues: Mapping[str, str | None],
        handlers: Mapping[str, Sequence[str]],
        offer: Offer,
        node: str,
        now: int,
        stocked: "Stocked | None" = None,
    ) -> Admitted:
        """Return who may begin of the ready jobs of these queues, and park those who can't soon.

        The queues come with their limits, as text, and with the handlers of which they have jobs
        for this node: limits are of a queue, whoever handles its jobs. What the node has for those
        that need something is `stocked`.
        """
        limited = {name for name, text in queues.items() if text is not None}
        # Those of which runs have ended in this turn are held already.
        known = self._db.here.held
        rows = [known.pop(name) for name in sorted(limited & known.keys())]
        rows += self._hold(limited - {name for name, *_ in rows})
        held = {name: (_read(text), vtime) for name, text, vtime, _ in rows}
        before = {name: (vtime, closed) for name, _, vtime, closed in rows}
        running: dict[str, list[tuple[Who, Sequence[str]]]] = {}
        depth = len(offer.workers)
        for _ in range(ROUNDS):
            # The first are most often all that is needed: they are read whole, at once.
            whole = depth == len(offer.workers)
            lines = {
                name: self._ready(name, handlers[name], depth, now, whole=whole) for name in queues
            }
            for name, (limits, _) in held.items():
                if name not in running and (limits.has_slots or _have_limits(lines[name])):
                    running[name] = self._running(name)
            gates = {
                name: Gate(
                    limits,
                    running.get(name, ()),
                    self._meters(name, limits, lines[name]),
                    vtime,
                    now,
                )
                for name, (limits, vtime) in held.items()
            }
            line: Iterable[Candidate] = line_up(lines, offer)
            keeper = None
            if stocked is not None:
                line, keeper = stocked.first_in(line), stocked.keeper()
            admitted = admit_limited(line, offer, now, gates, node, keeper)
            self._park(admitted.parked, gates)
            if not admitted.parked or len(admitted.taken) == len(offer.workers):
                break
            depth = min(8 * depth, DEEPEST)
        self._slotted |= running.keys()
        self._write(gates, before)
        return admitted

    def _hold(self, names: Collection[str]) -> list[Row]:
        ids = self._bind(sorted(names))
        return self._db.rows(self._sql.LOCK_LIMITS, ids=ids) if names else []

    def _running(self, queue: str) -> list[tuple[Who, Sequence[str]]]:
        rows = self._db.rows(self._sql.TAKEN_SLOTS, queue=queue)
        return [((node, worker), _keys(text)) for node, worker, text in rows]

    def _meters(
        self, queue: str, limits: Limits, jobs: Iterable[Candidate | Job]
    ) -> dict[str, Meters]:
        """Return until when the rates of a queue, and of the keys of these jobs, are used."""
        keys = {key for job in jobs for key in job.keys} if limits.key_rates else set()
        if not limits.rates and not keys:
            return {}
        names = self._bind(["", *sorted(keys)])
        rows = self._db.rows(self._sql.METERS, queue=queue, ids=names)
        return {key: json.loads(meters) for key, meters in rows}

    def _ready(
        self, queue: str, handlers: Sequence[str], limit: int, now: int, *, whole: bool
    ) -> list[Candidate]:
        lines = [self._line(queue, handler, limit, now, whole=whole) for handler in handlers]
        # Of jobs that need something, the first may be in want of it.
        needy = any(handler.startswith(NEEDS) for handler in handlers)
        return one_line(lines, limit * len(lines) if needy else limit)

    def _line(
        self, queue: str, handler: str, limit: int, now: int, *, whole: bool
    ) -> list[Candidate]:
        if whole:
            rows = self._first_ready(queue, handler, limit, now)
            return [
                Candidate._make((*in_line(row), row, queue, _keys(keys_in(row)), handler))
                for row in rows
            ]
        asked = {"queue": queue, "handler": handler, "limit": limit, "now": now}
        rows = self._db.rows(self._sql.READY_LIMITED, **asked)
        return [Candidate._make((*line, None, queue, _keys(text), handler)) for *line, text in rows]

    def _park(self, parked: Sequence[tuple[Candidate, str]], gates: Mapping[str, Gate]) -> None:
        """Park jobs; others may take the room of keys that one can't use as another key is full."""
        if not parked:
            return
        self._db.update(self._sql.PARK, [{"parked": key, "seq": job.seq} for job, key in parked])
        for queue, gate in gates.items():
            for key, opens_at in gate.opening.items():
                self._open_at(queue, key, opens_at)
        free = {
            (job.queue, key)
            for job, full in parked
            for key in job.keys
            if key != full and gates[job.queue].room_of(key)
        }
        for queue, key in sorted(free):
            self._bring_back(queue, key, gates[queue].room_of(key))

    def _write(
        self, gates: Mapping[str, Gate], before: Mapping[str, tuple[int, int | None]]
    ) -> None:
        for name, gate in gates.items():
            if (gate.vtime, gate.closed_until) != before[name]:
                state = {"name": name, "vtime": gate.vtime, "closed": gate.closed_until}
                self._db.change(self._sql.SET_GATE, state)
            self._set_meters(name, gate.charged)
            for key in sorted(gate.charged):
                if key and self._first_parked(name, key, 1):
                    self._open_at(name, key, gate.opens_next(key))

    def _set_meters(self, queue: str, meters: Mapping[str, Meters]) -> None:
        for key, used in sorted(meters.items()):
            until = int(max(used.values(), default=0)) + 1
            row = {"queue": queue, "name": key, "meters": json.dumps(used), "used_until": until}
            self._db.change(self._sql.SET_METERS, row)

    def _open_at(self, queue: str, key: str, at: int) -> None:
        row = {"queue": queue, "name": key, "opens": at}
        self._db.change(self._sql.SET_OPENING, row)

    def open_keys(self, now: int) -> None:
        """Bring back jobs whose keys had used up their rates and may go on."""
        due = self._db.rows(self._sql.OPENING, now=now, limit=OPENED_AT_ONCE)
        held = {name: _read(text) for name, text, *_ in self._hold({queue for queue, _ in due})}
        for queue, key in due:
            self._db.change(self._sql.OPENED, {"queue": queue, "name": key})
            rates = held.get(queue, UNLIMITED).key_rates
            self._bring_back(queue, key, max((rate.burst for rate in rates), default=1))

    # -- making room --------------------------------------------------------------------

    def leave(self, jobs: Sequence[Job], *, unstarted: bool = False) -> bool:
        """Have others take the room of jobs that don't run any more; says if there are any.

        Of those whose runs never began, what their rates were charged is given back.
        """
        wake = False
        for queue in sorted({job.queue for job in jobs}):
            of_it = [job for job in jobs if job.queue == queue]
            frees_keys = _have_limits(of_it)
            if self._db.driver.remote and queue not in self._slotted:
                # Whom it doesn't concern needn't wait for whoever holds the queue.
                found = self._db.rows(self._sql.LIMITS, name=queue)
                leaves = found and _leaves(_read(found[0][0]), unstarted=unstarted)
                if not (leaves or frees_keys):
                    continue
            for _, text, vtime, closed in self._hold([queue]):
                limits = _read(text)
                if not (frees_keys or _leaves(limits, unstarted=unstarted)):
                    continue
                self._db.here.held[queue] = queue, text, vtime, None
                if closed is not None:
                    self._db.change(
                        self._sql.SET_GATE, {"name": queue, "vtime": vtime, "closed": None}
                    )
                    wake = True
                keys = Counter(key for job in of_it for key in job.keys)
                if unstarted and (limits.rates or limits.key_rates):
                    self._refund(queue, limits, of_it, keys)
                counts_keys = frees_keys or limits.counts_keys
                if counts_keys and keys and self._next_parked(queue, "") is not None:
                    for key, count in sorted(keys.items()):
                        wake = self._bring_back(queue, key, count) or wake
        return wake

    def _refund(
        self, queue: str, limits: Limits, jobs: Sequence[Job], keys: Mapping[str, int]
    ) -> None:
        """Give back what rates were charged for runs that never began."""
        counts = {"": len(jobs), **keys}
        back = {
            key: refunded(limits.key_rates if key else limits.rates, used, counts[key])
            for key, used in self._meters(queue, limits, jobs).items()
        }
        self._set_meters(queue, back)

    def _bring_back(self, queue: str, key: str, most: int) -> bool:
        """Make jobs ready that wait for room of a key, the first in line.

        So many of each handler: whom a node takes that has only one of them isn't known here.
        """
        found = self._first_parked(queue, key, min(most, DEEPEST))
        if found:
            self._db.change(self._sql.UNPARK, {"seqs": self._bind(found)})
        return bool(found)

    def _first_parked(self, queue: str, key: str, limit: int) -> list[int]:
        found: list[int] = []
        handler: str | None = ""
        while handler is not None:
            where = {"queue": queue, "parked": key, "handler": handler}
            rows = self._db.rows(self._sql.FIRST_PARKED, **where, limit=limit)
            found += [seq for (seq,) in rows]
            handler = self._db.value(self._sql.NEXT_PARKED_HANDLER, **where)
        return found

    def mend(self, now: int) -> bool:
        """Bring back what waits for a key that has room, whoever forgot to; says if there was any.

        Nothing does, as far as is known: each change that makes room sees to it. And open what is
        closed for longer than it can be, since the clock was put back.
        """
        mended = False
        for queue, text in self._db.rows(self._sql.LIMITED):
            late = {"name": queue, "before": now + _read(text).longest}
            mended = self._db.change(self._sql.OPEN_LATE, late) > 0 or mended
            mended = self._db.change(self._sql.OPEN_LATE_KEYS, late | {"now": now}) > 0 or mended
            key = self._next_parked(queue, "")
            if key is None:
                continue
            self._hold([queue])
            mended = self._fill(queue, _read(text), self._keys_from(queue, key)) or mended
        return mended

    def _keys_from(self, queue: str, key: str | None) -> Iterator[str]:
        """Yield the keys that jobs of a queue wait for, from one on."""
        while key is not None:
            yield key
            key = self._next_parked(queue, key)

    def _next_parked(self, queue: str, after: str) -> str | None:
        key: str | None = self._db.value(self._sql.NEXT_PARKED, queue=queue, parked=after)
        return key

    def _fill(self, queue: str, limits: Limits, keys: Iterable[str]) -> bool:
        """Bring back as many as these keys have room for; says if there are any."""
        gate = Gate(limits, self._running(queue), {}, 0, 0)
        waiting = {name for (name,) in self._db.rows(self._sql.CLOSED_KEYS, queue=queue)}
        found = False
        for key in keys:
            if (room := gate.room_of(key)) and key not in waiting:
                found = self._bring_back(queue, key, room) or found
        return found

    def look_again(self, parked: Sequence[Job]) -> None:
        """Bring back who waits for the keys that these jobs wait for, if there is room by now.

        Whoever makes room passes over jobs that are held just then, such as these.
        """
        for name, text, *_ in self._hold({job.queue for job in parked}):
            keys = {job.parked for job in parked if job.queue == name and job.parked}
            self._fill(name, _read(text), sorted(keys))

    # -- new jobs -----------------------------------------------------------------------

    def place_new(
        self,
        rows: Sequence[NewRow],
        models: Sequence[NewJob],
        succession: "Succession | None" = None,
    ) -> "tuple[Sequence[NewRow], list[Displaced]]":
        """Give those of new jobs their places that have keys, or whose queues have limits.

        Who isn't let in is noted in the succession of those that replace others.
        """
        shared = distinct(models)
        limited = {id(model) for model in shared if model.has_limits}
        if len(limited) == len(shared):
            return self.place(rows, succession)
        which = [id(model) in limited for model in models]
        placed, displaced = self.place(list(compress(rows, which)), succession)
        fresh = iter(placed)
        found = [next(fresh) if it else row for row, it in zip(rows, which, strict=True)]
        return found, displaced

    def place(
        self, rows: Sequence[NewRow], succession: "Succession | None" = None
    ) -> "tuple[list[NewRow], list[Displaced]]":
        """Give new jobs their places in the shares of their queues.

        And say which jobs, of these or of others, have to go for them, and why. A queue that takes
        no more is a `QueueFullError`.
        """
        from queuectl.store.crowding import Crowding, Succession

        succession = succession or Succession()
        shares: dict[str, Shares] = {}
        crowds: dict[str, Crowding] = {}
        # Most often they share all of this.
        alike = [list(some) for _, some in groupby(rows, key=itemgetter(-1))]
        asked = [asked_for(row) for row, *_ in alike]
        for queue in sorted({queue for queue, _ in asked}):
            first = {sharing_key(keys) for name, keys in asked if name == queue}
            shares[queue], limits = self._hold_new(queue, first)
            if limits.bounds_line:
                crowds[queue] = Crowding(self._db, queue, limits)
        before = {queue: dict(share.keys) for queue, share in shares.items()}
        placed: list[NewRow] = []
        for some, (queue, keys) in zip(alike, asked, strict=True):
            placed += with_vtimes(some, shares[queue].places(keys, len(some)))
            if queue in crowds:
                for id, *_ in some:
                    if not crowds[queue].add(id, keys, succession.before(id)):
                        succession.dropped.add(id)
        for queue, share in shares.items():
            self._keep_shares(queue, before[queue], share.keys)
        return placed, [one for crowd in crowds.values() for one in crowd.displaced]

    def seat(self, queue: str, keys: Sequence[str]) -> int:
        """Give a job that comes into a queue, or to another key, its place."""
        shares, _ = self._hold_new(queue, {sharing_key(keys)})
        before = dict(shares.keys)
        place = shares.place(keys)
        self._keep_shares(queue, before, shares.keys)
        return place

    def _hold_new(self, queue: str, keys: Collection[str]) -> tuple[Shares, Limits]:
        """Hold a queue that gets new jobs; returns who gives them their places, and its limits.

        From the first key on, its jobs share by their keys.
        """
        held = self._hold([queue])
        if not held:
            self._db.change(self._sql.ADD_QUEUE, {"name": queue})
            held = self._hold([queue])
        [(_, text, vtime, _)] = held
        if text is None:
            self._db.change(self._sql.SET_LIMITS, {"name": queue, "limits": "{}"})
        limits = _read(text)
        names = self._bind(sorted(keys))
        rows = self._db.rows(self._sql.SHARES, queue=queue, ids=names)
        return Shares(limits, vtime, dict(rows)), limits

    def _keep_shares(self, queue: str, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Write down how far the keys of a queue have come."""
        for key in sorted(after):
            if before.get(key) != after[key]:
                row = {"queue": queue, "name": key, "vtime": after[key]}
                self._db.change(self._sql.SET_SHARE, row)

    # -- by hand ------------------------------------------------------------------------

    def set(self, queue: str, decide: Callable[[Limits], Limits]) -> Limits:
        """Set the limits of a queue. What waits for the old ones is looked at anew."""
        self._db.change(self._sql.ADD_QUEUE, {"name": queue})
        [(_, text, *_)] = self._hold([queue])
        limits = decide(_read(text))
        text = json.dumps(limits.as_dict(), ensure_ascii=False)
        self._db.change(self._sql.SET_LIMITS, {"name": queue, "limits": text})
        self._db.change(self._sql.OPENED_ALL, {"queue": queue})
        self._db.change(self._sql.UNPARK_ALL, {"queue": queue})
        return limits


def _have_limits(jobs: Iterable[Candidate | Job]) -> bool:
    """Tell whether some of these jobs have keys with limits of their own."""
    return any(own_keys(keys) for keys in {job.keys for job in jobs})


def _leaves(limits: Limits, *, unstarted: bool) -> bool:
    """Tell whether others gain something when runs of a queue are over."""
    return limits.has_slots or (unstarted and bool(limits.rates or limits.key_rates))


def _keys(text: str | None) -> tuple[str, ...]:
    return tuple(map(str, json.loads(text))) if text else ()


def _read(text: str | None) -> Limits:
    return limits_of_text(text) if text else UNLIMITED
