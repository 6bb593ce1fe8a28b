"""What people have decided about jobs, carried out as a part of one transaction.

A job moves to another state, is edited, has its run ended, is again what it was, or is deleted.
What isn't found as it was when that was decided undoes all of it. Then comes what is kept of it,
and what follows.
"""

from collections.abc import Callable, Mapping, Sequence

from queuectl.action import current_action
from queuectl.errors import NotFoundError, StateError
from queuectl.job import FINISHED, Job, State, Transition
from queuectl.lifecycle import in_line
from queuectl.store.changed import Changed, End, ends_of
from queuectl.store.contract import Decision, Edit, EndRun, Restore, Topic
from queuectl.store.driver import Params
from queuectl.store.idiom import Idiom
from queuectl.store.rows import (
    edited_row,
    fence,
    holding_slots,
    kept,
    restored,
    restored_row,
    transition_row,
)
from queuectl.values import replace


class Decided:
    """What was decided about some jobs, which nobody else can change now."""

    def __init__(
        self,
        idiom: Idiom,
        lock: Callable[[Sequence[int]], dict[int, Job]],
        held: Mapping[int, Job],
        decided: Mapping[int, Decision],
        now: int,
    ) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql
        self._lock = lock
        self._held = held
        self._decided = decided
        self._now = now
        self._moves: dict[int, Transition] = {}
        self._edits: dict[int, Edit] = {}
        self._ends: dict[int, EndRun] = {}
        self._again: dict[int, Job] = {}
        """Jobs as they are to be again."""
        self._gone: list[int] = []
        for seq, decision in decided.items():
            self._sort(seq, decision.to)

    def _sort(self, seq: int, to: Transition | Edit | EndRun | Restore | None) -> None:
        job = self._held[seq]
        match to:
            case Transition():
                self._moves[seq] = to
            case Edit():
                self._edits[seq] = to
                if to.retried is not None:
                    self._moves[seq] = to.retried
            case EndRun():
                self._ends[seq] = to
            case Restore():
                self._again[seq] = restored(job, to.was)
            case None if job.state != State.PROCESSING:
                self._gone.append(seq)

    def carry_out(self) -> None:
        """Do all of it, or raise."""
        for seq, decision in self._decided.items():
            if decision.forget is not None:
                self._forget_steps(self._held[seq], decision.forget)
        self._take_keys()
        rows = [
            fence(self._held[seq])
            | transition_row(to, self._now)
            | {"now": self._now, "was": self._held[seq].state.value}
            for seq, to in self._moves.items()
        ]
        moved = self._db.update(self._sql.APPLY, rows) if rows else set()
        ended = self._end_runs()
        edited = self._edit()
        undone = self._restore()
        self._remove()
        self._check((moved - self._edits.keys()) | ended, [edited, *undone])
        self._record()
        follows = [*self._moved(rows), edited, *undone, self._removed()]
        self._idiom.after_change(*follows)
        if ended:
            self._db.nudge(Topic.CONTROL)

    def _take_keys(self) -> None:
        """Give jobs that come back their unique keys, if nobody else has these."""
        states = {seq: to.state for seq, to in self._moves.items()}
        states |= {seq: job.state for seq, job in self._again.items()}
        back = [self._held[seq] for seq, state in states.items() if state not in FINISHED]
        back = [job for job in back if job.unique_key is not None and job.state in FINISHED]
        if back:
            from queuectl.store.naming import take_again

            take_again(self._db, back, self._now)

    def _check(self, done: set[int], changes: Sequence[Changed]) -> None:
        done = done.union(self._gone, *(change.jobs for change in changes))
        for seq in self._decided.keys() - done:
            job = self._held[seq]
            raise StateError(f"Job {job.id} is {job.state}; that can't be done to it then.")

    # -- one kind after the other -------------------------------------------------------

    def _end_runs(self) -> set[int]:
        rows = [
            fence(self._held[seq]) | {"reason": to.reason, "forced": to.forced, "now": self._now}
            for seq, to in self._ends.items()
        ]
        return self._db.update(self._sql.ASK_CANCEL, rows) if rows else set()

    def _edit(self) -> Changed:
        """Make other jobs of some that wait, each in its place; says which ones it could."""
        if not self._edits:
            return Changed(State.PENDING, ())
        from queuectl.store.placing import placed

        done, left, parked = [], [], []
        last_first = [seq for seq in reversed(self._edits) if self._edits[seq].first]
        front = 0
        for seq in [seq for seq in self._edits if not self._edits[seq].first] + last_first:
            edit, was = self._edits[seq], self._held[seq]
            if edit.retried is not None:
                was = replace(was, state=edit.retried.state)
            job = placed(self._idiom, edit, was, self._now, before=front)
            front = min(front, job.vtime)
            row = edited_row(job, was, self._now)
            if not self._db.change(self._sql.EDIT, row):
                continue
            done.append(seq)
            if job.after != was.after:
                self._idiom.edges.drop(seq, was.after, job.after, self._now)
            if job.parked:
                parked.append(job)
            elif edit.retried is None and (not row["ready"] or _elsewhere(job, was)):
                left.append(was)
        if parked:
            self._idiom.limiting.look_again(parked)
        return Changed(State.PENDING, done, wakes=True, left=holding_slots(left))

    def _restore(self) -> list[Changed]:
        """Have jobs be again what they were; says what follows from that."""
        awake = self._woken()
        found: dict[State, list[int]] = {}
        for seq, job in self._again.items():
            to = replace(job, run_at=min(job.run_at, self._now)) if seq in awake else job
            if to.state in (State.PENDING, State.BLOCKED):
                # Those whom it waits for may have ended meanwhile, or run again.
                to = replace(to, state=in_line(self._held[seq]))
            row = restored_row(to, self._held[seq], self._now)
            if self._db.change(self._sql.RESTORE, row):
                found.setdefault(to.state, []).append(seq)
        return [
            Changed(
                state,
                seqs,
                wakes=state not in FINISHED,
                ends=self._ended(seqs, state),
                again=self._again_open(seqs, state),
                members=self._members(seqs),
                actions=self._actions(seqs),
                at=self._now,
                left=holding_slots(
                    [self._held[seq] for seq in seqs if self._held[seq].state not in FINISHED]
                ),
            )
            for state, seqs in found.items()
        ]

    def _woken(self) -> set[int]:
        """Return those that are to sleep again, though what they slept for has come meanwhile."""
        from queuectl.store.verbs.reports import sleep_of

        slept = [
            seq for seq, job in self._again.items() if job.attempts and job.state == State.PENDING
        ]
        rows = self._db.rows(self._sql.SLEEPS, seqs=self._idiom.bind(slept)) if slept else []
        return {sleep.seq for row in rows if (sleep := sleep_of(*row)).woken}

    def _remove(self) -> None:
        if self._gone:
            self._db.change(self._sql.REMOVE, {"seqs": self._idiom.bind(self._gone)})

    def _forget_steps(self, job: Job, name: str) -> None:
        """Have the next run do a step, and those after it, once more."""
        place = self._db.value(self._sql.PLACE_OF_STEP, seq=job.seq, name=name)
        if place is None:
            raise _no_step(job, name)
        self._db.change(self._sql.FORGET_STEPS, {"seq": job.seq, "place": place})
        self._db.change(self._sql.DROP_SLEEP, {"seq": job.seq})

    # -- what is kept, and what follows -------------------------------------------------

    def _record(self) -> None:
        """Keep the events of changes, some with what the jobs were."""
        edited = [seq for seq in self._edits if self._decided[seq].keeps]
        after = self._lock(edited)
        self._idiom.record(
            [
                replace(each.event, was=kept(self._held[seq], after.get(seq)))
                if each.keeps
                else each.event
                for seq, each in self._decided.items()
                if each.event is not None
            ]
        )

    def _moved(self, rows: Sequence[Params]) -> list[Changed]:
        """Say which jobs came into which states, which of them call hooks, and of which is told."""
        held, may_tell = self._held, self._idiom.may_tell()
        completed = [row["seq"] for row in rows if row["state"] == State.COMPLETED]
        for seq in completed:
            self._set_result(held[seq], self._decided[seq].result)
        hooked = self._lock([seq for seq in completed if held[seq].has_hooks])
        told = self._lock([r["seq"] for r in rows if r["final"] and may_tell(held[r["seq"]])])
        found: dict[tuple[State, bool], list[int]] = {}
        for row in rows:
            found.setdefault((State(row["state"]), row["ready"] == 1), []).append(row["seq"])
        return [
            Changed(
                state,
                seqs,
                wakes=ready,
                ticked=_ticked([held[seq] for seq in seqs if state in FINISHED]),
                left=holding_slots([held[seq] for seq in seqs]),
                hooked=[(hooked[seq], None) for seq in seqs if seq in hooked],
                told=[(told[seq], None) for seq in seqs if seq in told],
                ends=self._ended(seqs, state),
                again=self._again_open(seqs, state),
                members=self._members(seqs),
                actions=self._actions(seqs),
                at=self._now,
            )
            for (state, ready), seqs in found.items()
        ]

    def _ended(self, seqs: Sequence[int], state: State | None) -> Sequence[End]:
        """Return which of these jobs were open, and have ended for those who wait for them."""
        if state is not None and state not in FINISHED:
            return ()
        jobs = [self._held[seq] for seq in seqs if self._held[seq].state not in FINISHED]
        action = current_action()
        return [
            end._replace(action=None if action is None else action.id, was_removed=state is None)
            for end in ends_of(jobs, state or State.CANCELLED, self._now)
        ]

    def _actions(self, seqs: Sequence[int]) -> dict[int, str]:
        """Return what is done to these jobs just now."""
        action = current_action()
        return {} if action is None else dict.fromkeys(seqs, action.id)

    def _members(self, seqs: Sequence[int]) -> list[Job]:
        """Return those of these jobs that are in groups, as they were."""
        return [self._held[seq] for seq in seqs if self._held[seq].group is not None]

    def _again_open(self, seqs: Sequence[int], state: State) -> Sequence[int]:
        """Return which of these jobs were over, and aren't any more for those who wait for them."""
        if state in FINISHED:
            return ()
        jobs = [self._held[seq] for seq in seqs]
        return [job.seq for job in jobs if job.has_children and job.state in FINISHED]

    def _removed(self) -> Changed:
        removed = [self._held[seq] for seq in self._gone]
        return Changed(
            None,
            self._gone,
            ticked=_ticked(removed),
            left=holding_slots(removed),
            ends=self._ended(self._gone, None),
            members=self._members(self._gone),
            actions=self._actions(self._gone),
            at=self._now,
        )

    def _set_result(self, job: Job, result: str | None) -> None:
        """Keep what a job came to that is completed without a run; that of a run gives way."""
        if result is None:
            self._db.change(self._sql.DROP_RESULT, {"seq": job.seq})
            return
        row = {"seq": job.seq, "number": job.attempts, "value": result}
        self._db.change(self._sql.KEEP_RESULT, row)


def _no_step(job: Job, name: str) -> NotFoundError:
    """Say that a step can't be forgotten."""
    return NotFoundError(
        f"Job {job.id} has no step {name!r} that is done.",
        advice=f"queuectl steps {job.id} lists those that are.",
    )


def _elsewhere(job: Job, was: Job) -> bool:
    """Tell whether a job waits in another line than it did."""
    return (job.queue, job.keys) != (was.queue, was.keys)


def _ticked(jobs: Sequence[Job]) -> list[Job]:
    """Return those of these jobs that a schedule has made."""
    return [job for job in jobs if job.tick is not None]
