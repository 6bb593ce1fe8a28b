"""Verbs about runs: claiming jobs, ending their runs, and what a node has in its hands."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from queuectl.admission import Offer, Serving
from queuectl.facts import Event, Pause, Reservation, Use
from queuectl.job import ANY_HANDLER, FINISHED, JOB_COLUMNS, Job, State, read_devices
from queuectl.scope import reaches
from queuectl.store.changed import Changed, ends_of
from queuectl.store.contract import DecidePauses, Ended, Outlook, Over, Runs, Topic, Turned
from queuectl.store.idiom import Idiom
from queuectl.store.rollups import Tally
from queuectl.store.rows import death_of, ended_job, ended_row, fence, output_row, storable
from queuectl.values import replace

_followed: Callable[[Any], tuple[Any, ...]] = itemgetter(
    *map(JOB_COLUMNS.index, "tick on_success on_failure on_dead group has_children".split())
)
"""What a job must have any of, if more is to follow from the end of its run than its own state."""


class SqlRuns(Runs):
    """The runs of jobs in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

    def turn(
        self, node: str, over: Over | None, offer: Offer | None, *, now: int | None = None
    ) -> Turned:
        if over is not None:
            return self._db.atomic(lambda: self._turn(node, over, offer, self._idiom.time(now)))
        if offer is not None and offer.workers:
            return self._idiom.claim(node, offer, now)
        return Turned()

    def _turn(self, node: str, over: Over, offer: Offer | None, now: int) -> Turned:
        ended = self._end(node, over, now)
        if offer is None or not offer.workers:
            return ended
        claimed = self._idiom.claim(node, offer, now)
        return claimed._replace(ends=ended.ends, lost=ended.lost)

    def rescue(
        self,
        node: str,
        plan: Callable[[Sequence[Job], int], Over],
        *,
        beat: int | None = None,
        registered: bool = True,
    ) -> Turned | None:
        def rescue() -> Turned | None:
            # First, as it waits for a claim that may still be under way; then we see its jobs.
            if not self._strike(node, beat, registered=registered):
                return None
            now = self._idiom.time(None)
            return self._end(node, plan(self.held(node), now), now)

        return self._db.atomic(rescue)

    def _strike(self, node: str, beat: int | None, *, registered: bool) -> bool:
        if not registered:
            return any(job.node == node for job in self.held(None))
        if beat is None:
            self._db.change(self._sql.FORGET, {"id": node})
            return True
        return self._db.change(self._sql.FORGET_SILENT, {"id": node, "beat": beat}) > 0

    def outlook(self, queues: Serving | None = None) -> Outlook:
        asked: dict[str, object] = {"now": self._idiom.time(None)}
        statement = self._sql.OUTLOOK
        if queues is not None and queues.has_lines:
            statement, asked = self._sql.OUTLOOK_LINES, asked | self._idiom.handled(queues)
        rows = self._db.rows(statement, **asked)
        ready = any(name is not None and (queues is None or name in queues) for *_, name in rows)
        if ready and queues is not None and queues.has_classes:
            # There may be jobs only that need more than it has.
            lines = self._idiom.lines(queues, self._idiom.time(None))
            ready = any(queues.takes(queue, handler) for queue, _, handler in lines)
        due, expires, *opens, _ = rows[0]
        return Outlook(ready, due, expires, min(filter(None, opens), default=None))

    def using(self) -> list[Use]:
        return [
            Use(
                node=node,
                at=at or 0,
                handler=handler,
                devices={} if devices is None else read_devices(devices),
            )
            for node, at, handler, devices in self._db.rows(self._sql.USING)
        ]

    def reservations(self) -> list[Reservation]:
        rows = sorted(self._db.rows(self._sql.RESERVATIONS))
        return [Reservation(seq=seq, node=node, at=at) for seq, node, at, *_ in rows]

    def before(self, job: Job, limit: int) -> int:
        place: dict[str, object] = {"priority": job.priority, "vtime": job.vtime, "seq": job.seq}
        place |= {"queue": job.queue, "handler": job.handler, "limit": limit}
        count: int = self._db.value(self._sql.BEFORE, **place)
        return count

    def lines(self, limit: int) -> dict[tuple[str, str], int]:
        found = self._idiom.lines(Serving(handlers=(ANY_HANDLER,)), self._idiom.time(None))
        return {
            (queue, handler): self._db.value(
                self._sql.LINE_LENGTH, queue=queue, handler=handler, limit=limit
            )
            for queue, _, handler in found
            if handler
        }

    def opens_at(self, queue: str, key: str) -> int | None:
        at: int | None = self._db.value(self._sql.OPENS_AT, queue=queue, name=key)
        return at

    def oldest(self, queue: str, priorities: Sequence[int], *, limit: int) -> int | None:
        found: list[int | None] = []
        handler: str | None = ""
        while handler is not None:
            line = {"queue": queue, "handler": handler}
            found += [
                self._db.value(self._sql.OLDEST, **line, priority=priority, limit=limit)
                for priority in priorities
            ]
            handler = self._db.value(self._sql.NEXT_HANDLER, **line)
        return min((at for at in found if at is not None), default=None)

    def busy(self) -> dict[str, int]:
        return dict(self._db.rows(self._sql.BUSY))

    def held(self, node: str | None, *, to_cancel: bool = False) -> list[Job]:
        if node is None:
            return self._idiom.jobs(self._sql.STRAYS)
        if not storable(node):
            return []
        return self._idiom.jobs(self._sql.TO_CANCEL if to_cancel else self._sql.HELD, node=node)

    # -- pausing runs -------------------------------------------------------------------

    def pauses(self) -> list[Pause]:
        return [_pause(*row) for row in self._db.rows(self._sql.PAUSES)]

    def set_paused(
        self, jobs: Sequence[Job], decide: DecidePauses, *, now: int | None = None
    ) -> set[int]:
        if not jobs:
            return set()
        return self._db.transact(lambda: self._set_paused([job.seq for job in jobs], decide, now))

    def _set_paused(self, seqs: Sequence[int], decide: DecidePauses, now: int | None) -> set[int]:
        # Whoever holds a job keeps its run from being ended meanwhile.
        found = self._idiom.jobs(self._sql.LOCK_JOBS, seqs=self._idiom.bind(seqs))
        jobs = {job.seq: job for job in found if reaches(job.queue)}
        rows = self._db.rows(self._sql.PAUSES_OF, seqs=self._idiom.bind(seqs))
        known = [_pause(*row) for row in rows]
        paused = {p.seq: p for p in known if p.seq in jobs and p.is_of(jobs[p.seq])}
        events = decide(jobs, paused, self._idiom.time(now))
        if not events:
            return set()
        self._db.change(self._sql.DROP_PAUSES, {"seqs": self._idiom.bind(list(events))})
        for seq in events.keys() - paused.keys():
            self._db.change(self._sql.ADD_PAUSE, _pause_row(jobs[seq], events[seq]))
        self._idiom.record(list(events.values()))
        self._db.nudge(Topic.CONTROL)
        return set(events)

    # -- ending runs --------------------------------------------------------------------

    def _end(self, node: str, over: Over, now: int) -> Turned:
        """Release what never began, and finish what did."""
        stuck = self._release(over.unstarted, now) if over.unstarted else []

        def asked() -> dict[int, Job]:
            return {job.seq: job for job in self.held(node, to_cancel=True)}

        ends = self._asleep(over.judge(stuck, asked, now))
        fitting = [self._idiom.fit(end) for end in ends]
        late = set(map(id, self._finish(fitting))) if ends else set()
        lost = [end for end, fits in zip(ends, fitting, strict=True) if id(fits) in late]
        if over.note is not None:
            self._note(over, stuck, ends, lost, now)
        return Turned(ends=ends, lost=lost)

    def _asleep(self, ends: Sequence[Ended]) -> Sequence[Ended]:
        """Return how runs ended, now that nothing can wake those that sleep behind our back."""
        tired = [end.job.seq for end in ends if end.if_asleep is not None]
        if not tired:
            return ends
        from queuectl.store.verbs.sleeps import SqlSleeps

        found = SqlSleeps(self._idiom).find(tired, lock=True)
        return [
            end.if_asleep(sleep)
            if end.if_asleep is not None
            and (sleep := found.get(end.job.seq)) is not None
            and sleep.number == end.job.attempts
            else end
            for end in ends
        ]

    def _note(
        self,
        over: Over,
        stuck: Sequence[Job],
        ends: Sequence[Ended],
        lost: Sequence[Ended],
        now: int,
    ) -> None:
        """Keep what whoever ends runs has to say about them."""
        note = over.note
        assert note is not None
        kept = {job.seq for job in stuck}
        late = set(map(id, lost))
        told: list[tuple[Job, Ended | None]] = [
            (job, None) for job in over.unstarted if job.seq not in kept
        ]
        told += [(end.job, end) for end in ends if id(end) not in late]
        events = [note(job, end, now) for job, end in told]
        self._idiom.record([event for event in events if event is not None])

    def _finish(self, ends: Sequence[Ended]) -> list[Ended]:
        first: dict[int, Ended] = {}
        for end in ends:
            first.setdefault(end.job.seq, end)
        lost = self._finish_apart(list(first.values()))
        if lost:
            lost = self._finish_parents(lost)
        if len(first) < len(ends):
            # Of several ends of one job, each finds what the one before has left.
            lost += self._finish([end for end in ends if end is not first[end.job.seq]])
        return lost

    def _finish_parents(self, lost: Sequence[Ended]) -> list[Ended]:
        """Finish runs of jobs for which others wait since these were claimed; returns the rest."""
        childless = [end for end in lost if not end.job.has_children]
        seqs = self._idiom.bind([end.job.seq for end in childless])
        found = self._idiom.jobs(self._sql.LOCK_JOBS, seqs=seqs) if childless else []
        parents = {job.seq for job in found if job.has_children}
        by_seq = {
            end.job.seq: replace(end, job=replace(end.job, has_children=True))
            for end in childless
            if end.job.seq in parents
        }
        if by_seq:
            late = {end.job.seq for end in self._finish_apart(list(by_seq.values()))}
            by_seq = {seq: end for seq, end in by_seq.items() if seq not in late}
        return [end for end in lost if end.job.seq not in by_seq]

    def _finish_apart(self, ends: Sequence[Ended]) -> list[Ended]:
        """Finish runs of as many jobs."""
        rows = {end.job.seq: ended_row(end) for end in ends}
        finished = self._idiom.end_runs(rows)
        tally = Tally()
        done: dict[State, list[Ended]] = {}
        for end in ends:
            if end.job.seq not in finished:
                continue
            tally.add(end)
            done.setdefault(end.transition.state, []).append(end)
            if end.output.stdout or end.output.stderr:
                self._db.change(self._sql.KEEP_OUTPUT, output_row(end))
            if end.result is not None and end.transition.state == State.COMPLETED:
                row = {"seq": end.job.seq, "number": end.job.attempts, "value": end.result}
                self._db.change(self._sql.KEEP_RESULT, row)
        if finished:
            tally.count_for_ever()
            self._db.insert(self._sql.ADD_ROLLUPS, list(tally.rows()))
        may_tell, asked = self._idiom.may_tell(), self._asked(done)
        self._idiom.after_change(
            *(self._changed(state, some, rows, may_tell, asked) for state, some in done.items())
        )
        return [end for end in ends if end.job.seq not in finished]

    def _asked(self, done: Mapping[State, Sequence[Ended]]) -> dict[int, tuple[str, str]]:
        """Return why, and as which action, somebody has asked for the ends of runs, if so.

        Whoever ends a run wasn't there when that was asked: the event of it is what tells.
        """
        over = [
            end
            for state, ends in done.items()
            for end in ends
            if state == State.CANCELLED or (state in FINISHED and end.job.cancel_reason is not None)
            if end.job.has_children or end.job.group is not None
        ]
        if not over:
            return {}
        ids = self._idiom.bind([end.job.id for end in over])
        rows = self._db.rows(self._sql.LAST_REQUESTS, ids=ids)
        found = {job: (why, action) for job, why, action in rows if action is not None}
        return {
            end.job.seq: found[end.job.id]
            for end in over
            if end.job.id in found
            # That of an earlier run isn't meant.
            and found[end.job.id][0] in (end.transition.reason, end.job.cancel_reason)
        }

    def _changed(
        self,
        state: State,
        ends: Sequence[Ended],
        rows: Mapping[int, Mapping[str, Any]],
        may_tell: Callable[[Job], bool],
        asked: Mapping[int, tuple[str, str]],
    ) -> Changed:
        """Tell what follows of jobs that came into the same state by the ends of their runs."""
        is_over = state in FINISHED
        # Of most jobs nothing does, so that they are looked at once.
        some = [end for end in ends if any(_followed(end.job))]
        return Changed(
            state,
            [end.job.seq for end in ends],
            _events(ends, state),
            wakes=not is_over and any(rows[end.job.seq]["ready"] == 1 for end in ends),
            ticked=[end.job for end in some if is_over and end.job.tick is not None],
            left=[end.job for end in ends],
            hooked=[(ended_job(end), end.outcome) for end in some if end.job.has_hooks],
            told=[(ended_job(end), end.outcome) for end in ends if may_tell(end.job)],
            ends=[
                one._replace(action=_action_of(end, asked))
                for end in some
                if is_over and end.job.has_children
                for one in ends_of([end.job], state, end.settled_at)
            ],
            actions={seq: action for seq, (_, action) in asked.items()},
            members=[end.job for end in some if end.job.group is not None],
            at=ends[0].settled_at,
        )

    def _release(self, jobs: Sequence[Job], now: int) -> list[Job]:
        """Put claimed jobs back in line, and return those that couldn't be."""
        rows = [fence(job) | {"node": job.node, "now": now} for job in jobs]
        back = self._db.update(self._sql.PUT_BACK, rows)
        left = [job for job in jobs if job.seq in back]
        self._idiom.after_change(
            Changed(
                State.PENDING,
                list(back),
                wakes=bool(back),
                left=left,
                unstarted=True,
                members=[job for job in left if job.group is not None],
                at=now,
            )
        )
        return [job for job in jobs if job.seq not in back]


def _action_of(end: Ended, asked: Mapping[int, tuple[str, str]]) -> str | None:
    """Return the action that a job ended by, if it ended for the reason that was said then."""
    why, action = asked.get(end.job.seq, (None, None))
    return action if end.transition.reason is not None and end.transition.reason == why else None


def _pause(seq: int, number: int, at: int, who: str) -> Pause:
    return Pause(seq=seq, number=number, at=at, who=who)


def _pause_row(job: Job, event: Event) -> dict[str, object]:
    """Describe the pause of the run that a job has; it never seems to be from before that run."""
    at = max(event.at, job.started_at or 0)
    return {"seq": job.seq, "number": job.attempts, "at": at, "who": event.who}


def _events(ends: Sequence[Ended], state: State) -> list[Event]:
    """Return what is kept of runs whose jobs came into this state by their ends."""
    deaths = [_death(end) for end in ends] if state == State.DEAD else []
    return deaths + [end.event for end in ends if end.event is not None]


def _death(end: Ended) -> Event:
    """Return the event of a job that died of the end of its run."""
    return death_of(end.job, end.transition.reason, at=end.settled_at, node=end.job.node)
