"""Cancelling jobs because of others, as a part of a transaction."""

from collections.abc import Mapping, Sequence

from queuectl.dependencies import is_unneeded
from queuectl.facts import Event
from queuectl.host import whoami
from queuectl.job import Job, State
from queuectl.lifecycle import cancelled
from queuectl.store.changed import Changed, End, Ground, Moves
from queuectl.store.rows import buried_job, fence, holding_slots, kept, transition_row


class CallingOff:
    """Cancels jobs that wait, and sees to what follows but for their children."""

    def __init__(self, idiom: Ground) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.db.sql

    def call_off(
        self,
        jobs: Sequence[Job],
        whys: Mapping[int, str],
        now: int,
        moves: Moves,
        *,
        actions: Mapping[int, str | None] | None = None,
    ) -> list[End]:
        """Cancel jobs that wait, and are held, for these reasons; returns which have children."""
        if not jobs:
            return []
        actions = actions or {}
        to = {job.seq: cancelled(job, whys[job.seq]) for job in jobs}
        rows = [
            fence(job) | transition_row(to[job.seq], now) | {"now": now, "was": job.state.value}
            for job in jobs
        ]
        gone = self._db.update(self._sql.APPLY, rows)
        jobs = [job for job in jobs if job.seq in gone]
        after = {job.seq: buried_job(job, to[job.seq], now) for job in jobs}
        may_tell = self._idiom.may_tell()
        for unneeded in (False, True):
            some = [job for job in jobs if is_unneeded(whys[job.seq]) == unneeded]
            moves.move(some, State.CANCELLED, unneeded=unneeded, actions=actions)
        self._idiom.follow(
            Changed(
                State.CANCELLED,
                [job.seq for job in jobs],
                [_event(job, after[job.seq], actions.get(job.seq), now) for job in jobs],
                ticked=[job for job in jobs if job.tick is not None],
                left=holding_slots(job for job in jobs if job.state != State.BLOCKED),
                told=[(after[job.seq], None) for job in jobs if may_tell(job)],
            )
        )
        return [
            end_of(job, whys[job.seq], now, actions.get(job.seq))
            for job in jobs
            if job.has_children
        ]


def end_of(job: Job, why: str, now: int, action: str | None) -> End:
    """Return what those are told who wait for a job that is cancelled for a reason."""
    return End(job.seq, job.id, State.CANCELLED, now, action, was_unneeded=is_unneeded(why))


def _event(before: Job, after: Job, action: str | None, now: int) -> Event:
    """Return what is kept of a job that was called off; by hand, together with what did it."""
    is_by_hand = action is not None
    return Event(
        at=now,
        kind="cancel",
        job=before.id,
        node=None,
        who=whoami(),
        detail=after.reason,
        action=action,
        was=kept(before, after) if is_by_hand and before.tick is None else None,
    )
