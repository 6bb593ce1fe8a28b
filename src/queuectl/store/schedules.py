"""Schedules as rows, and what the end of a job means to the one that made it."""

import json
from typing import Any

from queuectl.facts import Event
from queuectl.job import Job, State
from queuectl.parameters import is_plain
from queuectl.schedule import Missed, Overlap, Schedule, after_end
from queuectl.store.contract import Topic
from queuectl.store.database import Database
from queuectl.store.driver import Row
from queuectl.store.rows import event_row
from queuectl.store.statements.around import SCHEDULE

_COLUMNS = SCHEDULE.split(", ")


def end_of_job(db: Database, job: Job, state: State | None) -> None:
    """Have a schedule go on after a job of its, in the transaction that ends that."""
    name = job.schedule
    before = None if name is None else locked(db, name)
    if before is None:
        return
    now = db.driver.clock.now()
    after = after_end(before, job.seq, state, now)
    if after == before:
        return
    db.change(db.sql.CHANGE_SCHEDULE, row_of(after))
    if after.paused_at != before.paused_at:
        detail = f"schedule {name}: {after.failures} jobs in a row died"
        paused = Event(at=now, kind="pause", job=None, node=None, who="queuectl", detail=detail)
        db.insert(db.sql.RECORD, [event_row(paused)])
    if after.next_at != before.next_at:
        db.nudge(Topic.CONTROL)


def locked(db: Database, name: str) -> Schedule | None:
    """Return a schedule that nobody else changes until the transaction is over."""
    rows = db.rows(db.sql.LOCK_SCHEDULE, name=name)
    return schedule_of(rows[0]) if rows else None


def schedule_of(row: Row) -> Schedule:
    """Return what a row holds."""
    values: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    values["request"] = json.loads(values["request"])
    values["missed"] = Missed(values["missed"])
    values["overlap"] = Overlap(values["overlap"])
    return Schedule(**values)


def row_of(schedule: Schedule) -> dict[str, Any]:
    """Return what goes into the columns of a schedule."""
    row = {name: getattr(schedule, name) for name in _COLUMNS}
    request = json.dumps(dict(schedule.request), ensure_ascii=False)
    if not is_plain(request):
        # Parameters may stand for bytes that no store has as they are.
        request = json.dumps(dict(schedule.request))
    return row | {
        "request": request,
        "missed": schedule.missed.value,
        "overlap": schedule.overlap.value,
    }
