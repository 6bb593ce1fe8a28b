"""How a database does what is hot: storing, claiming and ending jobs, and adding up counters.

This is the way that every SQL database can go. A database that has a better one says so in an
`Idiom` of its own, in its folder.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from queuectl.errors import LeaseLostError
from queuectl.facts import Event
from queuectl.job import NEEDS, Job, State
from queuectl.store.changed import Changed, End, Moves, ends_of, moves_of
from queuectl.store.contract import Ended, Topic, Turned
from queuectl.store.database import Database
from queuectl.store.driver import Params, Row
from queuectl.store.rows import (
    NewRow,
    all_columns,
    buried_job,
    claimed_job,
    death_of,
    event_row,
    fence,
    in_line,
    named,
    transition_row,
)
from queuectl.store.statements.shared import NEW_COLUMNS
from queuectl.values import dataclass, replace

if TYPE_CHECKING:
    from queuectl.admission import Admitted, Candidate, Offer, Serving
    from queuectl.job import Outcome
    from queuectl.store.counting import Counting
    from queuectl.store.edges import Edges
    from queuectl.store.limiting import Limiting
    from queuectl.store.stocking import Stocking
    from queuectl.webhook import Webhook

PROMOTED_AT_ONCE = 10_000
BURIED_AT_ONCE = 1_000
WEBHOOKS_HOLD = 1.0
"""Seconds for which it is known which webhooks there are: to ask at each end would cost all those
who have none."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a claim finds when it begins."""

    ahead: int
    """How far our idea of the store's clock was ahead of it."""
    due: int | None
    expires: int | None
    """When the next waiting job becomes due, and when the next expires."""
    opens: int | None
    """When the next key may go on whose rate was used up."""
    lines: Sequence[Row]
    """Those that have ready jobs and aren't closed: queue, its limits, and handler."""

    def is_clear(self, now: int) -> bool:
        """Tell whether nothing has to be seen to first: so what was seen is how things are."""
        times = (self.due, self.expires, self.opens)
        return not self.ahead and all(at is None or at > now for at in times)


class Idiom:
    """The way that every SQL database can go."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.sql = db.sql
        self.unlimited: set[str] = set()
        """Queues that had no limits when somebody here last claimed from them."""
        self.has_untold = False
        """Whether a transaction from here has left ends that not all children have been told."""

    @cached_property
    def limiting(self) -> "Limiting":
        """What limits make of all this; most queues have none."""
        from queuectl.store.limiting import Limiting

        return Limiting(self.db, self.first_ready)

    @cached_property
    def stocking(self) -> "Stocking":
        """What jobs that need something make of all this; most need nothing."""
        from queuectl.store.stocking import Stocking

        return Stocking(self.db, self.first_of_lines, self.begin_runs, self._admit_limited)

    def _admit_limited(self, *asked: Any) -> "Admitted":
        return self.limiting.admit(*asked)

    @cached_property
    def edges(self) -> "Edges":
        """Which jobs wait for others; most do for none."""
        from queuectl.store.edges import Edges

        return Edges(self)

    @cached_property
    def counting(self) -> "Counting":
        """How many jobs of groups there are; most jobs are in none."""
        from queuectl.store.counting import Counting

        return Counting(self, self.edges)

    # -- storing ------------------------------------------------------------------------

    def insert_job(self, row: NewRow) -> int:
        """Store a job whose id is free, and return its place in the line."""
        return int(self.db.returning(self.sql.ENQUEUE_RETURNING, named(row))[0][0])

    def insert_jobs(self, rows: Sequence[NewRow]) -> None:
        """Store jobs whose ids are free, in this order."""
        self.db.each(self.enqueue_row, [all_columns(row) for row in rows])

    @cached_property
    def enqueue_row(self) -> str:
        """The statement that stores one job, of whose columns each has its place."""
        return self.enqueue_rows(1)

    def enqueue_rows(self, jobs: int) -> str:
        """Return the statement that stores so many jobs at once."""
        row = f"({', '.join('?' * len(NEW_COLUMNS))})"
        return f"{self.sql.ENQUEUE}{', '.join([row] * jobs)}"

    # -- claiming: candidates, policy, fenced begin -----------------------------------------

    def claim(self, node: str, offer: "Offer", now: int | None) -> Turned:
        """Give ready jobs to workers, all or nothing."""
        return self.db.atomic(lambda: self.claim_within(node, offer, self.time(now)))

    def claim_within(self, node: str, offer: "Offer", now: int) -> Turned:
        """Claim as a part of a transaction."""
        from queuectl.admission import admit

        look = self._look(node, offer.queues, now)
        # No job is due, and none has expired, by a clock that was put back a moment ago.
        now -= look.ahead
        buried: list[Job] = []
        ready = look.lines
        if not look.is_clear(now):
            buried = self._make_way(look, node, now)
            ready = self.lines(offer.queues, now)
        queues: dict[str, str | None] = {}
        lines: dict[str, list[str]] = {}
        classes = False
        for name, limits, handler in ready:
            if name in offer.queues:
                if handler.startswith(NEEDS):
                    if offer.stock is None or not offer.queues.handles(handler):
                        continue
                    classes = True
                queues[name] = limits
                lines.setdefault(name, []).append(handler)
        limited = {name for name, limits in queues.items() if limits is not None}
        workers: Sequence[int]
        self.unlimited |= queues.keys()
        self.unlimited -= limited
        if classes:
            jobs, waits = self.stocking.claim(queues, lines, offer, node, now)
            return Turned(jobs, buried, limited=bool(limited), waits=waits)
        if limited:
            line, workers, _ = self.limiting.admit(queues, lines, offer, node, now)
        else:
            line = admit(self.candidates(lines, offer, now), offer, now)
            workers = offer.workers
        jobs = self.begin_runs(line, workers, node, now)
        return Turned(jobs, buried, limited=bool(limited))

    def _look(self, node: str, serving: "Serving", now: int) -> Look:
        """Check a node's lease, and see what there is to do for a claim."""
        asked = {"id": node, "steady": self.db.driver.clock.steady(), "now": now}
        statement = self.sql.LOOK
        if serving.has_lines:
            statement, asked = self.sql.LOOK_LINES, asked | self.handled(serving)
        rows, ahead = self.db.here.timed(statement, asked)
        if not rows:
            raise no_lease(node)
        _, due, expires, opens, *_ = rows[0]
        return Look(ahead, due, expires, opens, [row[4:] for row in rows if row[4] is not None])

    def lines(self, serving: "Serving", now: int) -> list[Row]:
        """Return the lines that have ready jobs for a node: queue, its limits, and handler."""
        if not serving.has_lines:
            return self.db.rows(self.sql.READY_QUEUES, now=now)
        return self.db.rows(self.sql.READY_LINES, now=now, **self.handled(serving))

    def handled(self, serving: "Serving") -> dict[str, object]:
        """Name the handlers of a node to a statement: some by themselves, and a range of them."""
        from queuectl.job import ANY_HANDLER, ANY_TYPE, TYPE

        first = last = ""
        named = serving.handlers
        if ANY_HANDLER in named:
            first, last, named = "\x01", "\U0010ffff", ()
        elif ANY_TYPE in named:
            first, last = TYPE, TYPE[:-1] + chr(ord(TYPE[-1]) + 1)
            named = tuple(name for name in named if not name.startswith(TYPE))
        if serving.has_classes and not first.startswith("\x01"):
            # Both ranges are one, as nothing is between them.
            first, last = NEEDS, last or NEEDS[:-1] + chr(ord(NEEDS[-1]) + 1)
        named = named if serving.no_commands else ("", *named)
        return {"handlers": self.bind([*named]), "first_handler": first, "last_handler": last}

    def _keep_lease(self, node: str) -> None:
        """Keep others from striking the node out before the claim is committed."""
        if self.db.driver.remote and not self.db.rows(self.sql.KEEP_LEASE, id=node):
            raise no_lease(node)

    def _make_way(self, look: Look, node: str, now: int) -> list[Job]:
        """See to the jobs that have expired or become due; returns those that are dead now."""
        buried: list[Job] = []
        if look.expires is not None and look.expires <= now:
            buried = self._bury_expired(node, now)
        if look.due is not None and look.due <= now:
            self._promote(now)
        if look.opens is not None and look.opens <= now:
            self.limiting.open_keys(now)
        return buried

    def _promote(self, now: int) -> None:
        due = [seq for (seq,) in self.db.rows(self.sql.DUE, now=now, limit=PROMOTED_AT_ONCE)]
        if due:
            self.db.change(self.sql.PROMOTE, {"seqs": self.bind(due)})
            self.after_change(Changed(State.PENDING, due))

    def _bury_expired(self, node: str, now: int) -> list[Job]:
        from queuectl.lifecycle import expired

        late = self.jobs(self.sql.EXPIRED, now=now, limit=BURIED_AT_ONCE)
        changes = [(job, expired(job)) for job in late]
        rows = [
            fence(job) | transition_row(to, now) | {"now": now, "was": job.state.value}
            for job, to in changes
        ]
        gone = self.db.update(self.sql.APPLY, rows) if rows else set()
        buried = [buried_job(job, to, now) for job, to in changes if job.seq in gone]
        buried.sort(key=lambda job: job.seq)
        self.after_burial(buried, now, node)
        return buried

    def candidates(
        self, lines: Mapping[str, Sequence[str]], offer: "Offer", now: int
    ) -> "list[Candidate]":
        """Return the first ready jobs over all of these queues and handlers, held for this claim.

        The lines are the handlers of which a queue has ready jobs.
        """
        from queuectl.admission import Candidate

        if sum(map(len, lines.values())) == 1:
            [(queue, [handler])] = lines.items()
            rows = self.first_ready(queue, handler, len(offer.workers), now)
            return [Candidate._make((*in_line(row), row, queue, (), handler)) for row in rows]
        return self.first_of(lines, offer, now, self.sql.READY)

    def first_of(
        self, lines: Mapping[str, Sequence[str]], offer: "Offer", now: int, statement: str
    ) -> "list[Candidate]":
        """Return the first of several lines, of which a statement finds those of each."""
        from queuectl.admission import Candidate, first_in_line, one_line

        limit, found = len(offer.workers), {}
        for queue, handlers in lines.items():
            of_queue = []
            for handler in handlers:
                asked = {"queue": queue, "handler": handler, "limit": limit, "now": now}
                of_queue.append([Candidate(*row) for row in self.db.rows(statement, **asked)])
            found[queue] = one_line(of_queue, limit)
        return first_in_line(found, offer)

    def first_ready(self, queue: str, handler: str, limit: int, now: int) -> list[Row]:
        """Return all that is stored of the first ready jobs of a line, held for this claim."""
        asked = {"queue": queue, "handler": handler, "limit": limit, "now": now}
        return self.db.rows(self.sql.READY_WHOLE, **asked)

    def begin_runs(
        self, line: "Sequence[Candidate]", workers: Sequence[int], node: str, now: int
    ) -> list[Job]:
        """Begin runs of these jobs, as far as they are still ready, if the lease holds."""
        jobs = self._begin_runs(line, workers, {"node": node, "now": now}) if line else []
        if jobs:
            self._keep_lease(node)
        return jobs

    def first_of_lines(
        self, lines: "Sequence[tuple[str, str, int]]", now: int
    ) -> "list[Candidate]":
        """Return the first ready jobs of lines, each up to a limit of its own; nobody holds them.

        A line is given as its queue, its handler and this limit.
        """
        from queuectl.admission import Candidate

        return [
            Candidate._make((*row, None, queue, (), handler))
            for queue, handler, limit in lines
            for row in self.db.rows(
                self.sql.READY_UNLOCKED, queue=queue, handler=handler, limit=limit, now=now
            )
        ]

    def _begin_runs(
        self, line: "Sequence[Candidate]", workers: Sequence[int], same: Params
    ) -> list[Job]:
        """Begin a run of each of these jobs that is still ready, and return them as they are then.

        They are read first, so that nothing is begun that can't be read.
        """
        found = {job.seq: job.row for job in line if job.row is not None}
        if not found:
            found = self._whole([job.seq for job in line])
        runs = [
            {"seq": job.seq, "worker": worker, **same}
            for job, worker in zip(line, workers, strict=False)
            if job.seq in found
        ]
        begun = self.db.update(self.sql.CLAIM, runs) if runs else set()
        jobs = [claimed_job(found[run["seq"]], run) for run in runs if run["seq"] in begun]
        self.after_change(Changed(State.PROCESSING, [job.seq for job in jobs]))
        return jobs

    def _whole(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Read jobs, in this order."""
        by_seq = {row[0]: row for row in self.db.rows(self.sql.JOBS_AT, seqs=self.bind(seqs))}
        return {seq: by_seq[seq] for seq in seqs if seq in by_seq}

    # -- ending -------------------------------------------------------------------------

    def end_runs(self, rows: Mapping[int, Params]) -> set[int]:
        """End the runs of the jobs at these places that still have them, and keep a record."""
        finished = self.db.update(self.sql.FINISH, list(rows.values()))
        if finished:
            kept = [row for seq, row in rows.items() if seq in finished]
            self.db.insert(self.sql.KEEP_ATTEMPTS, kept)
        return finished

    def fit(self, end: Ended) -> Ended:
        """Return the end of a run as the database can take it."""
        return end

    # -- whatever was done ----------------------------------------------------------------------

    def after_change(self, *changes: Changed) -> None:
        """See to what follows from changed states, in the transaction that changes them.

        Every change of a state comes by here, but for a claim that is one statement: from that,
        nothing follows.
        """
        self.follow(*changes)
        again = [seq for change in changes for seq in change.again]
        ends = [end for change in changes for end in change.ends]
        moves = moves_of(changes)
        if again or ends or moves is not None:
            now = max((change.at for change in changes if change.at is not None), default=None)
            self.spread(ends, again, moves, self.time(now))

    def spread(
        self, ends: Sequence[End], again: Sequence[int], moves: Moves | None, now: int
    ) -> None:
        """See to what ends of jobs, and that some run again, mean to children and groups.

        And what the ends of these mean to others, and so on.
        """
        moves = Moves() if moves is None else moves
        while ends or again or moves:
            if again:
                self.edges.reopen(again)
            if ends:
                self.edges.settle(ends, moves)
            ends, again = [], []
            if moves:
                ends, again, moves = self.counting.count(moves, now)

    def settle(self) -> bool:
        """Go on with what a transaction has left of that; says whether there was anything."""
        moves, now = Moves(), self.time(None)
        self.has_untold = False
        found = self.edges.settle_kept(now, moves)
        found = self.counting.go_on_stopping(now, moves) or found
        self.spread([], [], moves, now)
        return found

    def follow(self, *changes: Changed) -> None:
        """See to all that follows, but for what it means to the children of jobs."""
        wakes = False
        for change in changes:
            self.record(change.events)
            wakes = wakes or (change.wakes and self.must_tell(change))
            if change.ticked:
                self._end_ticks(change)
            left = [job for job in change.left if job.keys or job.queue not in self.unlimited]
            if left and self.limiting.leave(left, unstarted=change.unstarted):
                wakes = True
        if hooked := [one for change in changes for one in change.hooked]:
            self._call_hooks(hooked)
        if told := [one for change in changes for one in change.told]:
            self._tell(told)
        if wakes:
            self.wake()

    def wake(self) -> None:
        """Have nodes look for work."""
        self.db.nudge(Topic.WORK)

    def _end_ticks(self, change: Changed) -> None:
        from queuectl.store.schedules import end_of_job

        for job in change.ticked:
            end_of_job(self.db, job, change.to)

    def _call_hooks(self, over: "Sequence[tuple[Job, Outcome | None]]") -> None:
        from queuectl.store.hooks import call_hooks

        if made := call_hooks(self.db, self.insert_jobs, over):
            self.after_change(Changed(State.PENDING, (), made, wakes=True, new=True))

    def after_burial(self, jobs: Sequence[Job], now: int, node: str | None) -> None:
        """See to what follows from jobs that are dead without a run."""
        deaths = [death_of(job, job.reason, at=now, node=node) for job in jobs]
        ticked = [job for job in jobs if job.tick is not None]
        seqs = [job.seq for job in jobs]
        hooked = [(job, None) for job in jobs if job.has_hooks]
        may_tell = self.may_tell()
        told = [(job, None) for job in jobs if may_tell(job)]
        self.after_change(
            Changed(
                State.DEAD,
                seqs,
                deaths,
                ticked=ticked,
                left=jobs,
                hooked=hooked,
                told=told,
                ends=ends_of(jobs, State.DEAD, now),
                members=[replace(job, state=State.PENDING) for job in jobs if job.group],
                at=now,
            )
        )

    def must_tell(self, change: Changed) -> bool:
        """Tell whether nodes hear of a change that they should look at from us only."""
        return True

    def record(self, events: Sequence[Event]) -> None:
        """Keep events, in their order."""
        if events:
            self.db.insert(self.sql.RECORD, [event_row(event) for event in events])

    # -- telling webhooks ---------------------------------------------------------------

    _webhooks: "Sequence[Webhook]" = ()
    _webhooks_read = -WEBHOOKS_HOLD

    def may_tell(self) -> Callable[[Job], bool]:
        """Return what says whether a webhook may want to hear what becomes of a job.

        Of webhooks that others have added it knows a second later.
        """
        if monotonic() - self._webhooks_read >= WEBHOOKS_HOLD:
            rows = self.db.rows(self.sql.WEBHOOKS)
            self._webhooks = _webhooks_of(rows) if rows else ()
            self._webhooks_read = monotonic()
        known = self._webhooks
        if not known:
            return _nobody
        return lambda job: job.webhook is not None or any(one.hears(job.queue) for one in known)

    def forget_webhooks(self) -> None:
        """Ask at the next end which webhooks there are: they have changed."""
        self._webhooks_read = -WEBHOOKS_HOLD

    def _tell(self, over: "Sequence[tuple[Job, Outcome | None]]") -> None:
        from queuectl.store.webhooks import tell

        made, events = tell(self.db, self.insert_jobs, self._webhooks, over)
        if made or events:
            self.after_change(Changed(State.PENDING, (), events, wakes=made, new=True))

    # -- counters -----------------------------------------------------------------------

    def fold(self) -> None:
        """Add up the counters that writers left beside each other so as not to wait in line."""
        self.db.write(self.sql.DROP_EMPTY_COUNTS)

    # -- what all of these need ---------------------------------------------------------------

    def time(self, given: int | None) -> int:
        """Return the time that was given, or that it is."""
        return self.db.driver.clock.now() if given is None else given

    def jobs(self, statement: str, **params: object) -> list[Job]:
        """Run a statement that reads jobs."""
        return [Job.from_row(row) for row in self.db.rows(statement, **params)]

    def bind(self, items: Sequence[object]) -> object:
        """Make a value of a list."""
        return self.db.driver.dialect.bind_list(items)


def _nobody(job: Job) -> bool:
    """Say that no webhook wants to hear of any job."""
    return False


def _webhooks_of(rows: Sequence[Row]) -> "Sequence[Webhook]":
    from queuectl.store.webhooks import webhooks_of

    return webhooks_of(rows)


def no_lease(node: str) -> LeaseLostError:
    """Say that a node was struck out."""
    return LeaseLostError(f"Node {node} has no lease any more; it can't claim jobs.")
