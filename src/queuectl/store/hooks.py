"""The jobs of hooks: made in the transaction that ends others, with few statements for many."""

from collections.abc import Callable, Sequence

from queuectl.facts import Event
from queuectl.hooks import called_for
from queuectl.host import whoami
from queuectl.job import Job, NewJob, Outcome
from queuectl.store.contract import LONGEST_PIECE
from queuectl.store.database import Database
from queuectl.store.ids import free_ids
from queuectl.store.rows import NewRow, new_rows


def call_hooks(
    db: Database,
    insert_jobs: Callable[[Sequence[NewRow]], None],
    over: Sequence[tuple[Job, Outcome | None]],
) -> list[Event]:
    """Make the jobs that ends call for, whatever their queues allow; returns what is kept of it.

    The jobs that have ended are given as they are now, each with what its run came to.
    """
    found = [(job, new) for job, outcome in over for new in called_for(job, outcome)]
    if not found:
        return []
    bind = db.driver.dialect.bind_list
    ids = free_ids(
        [str(new.id) for _, new in found],
        lambda wanted: [id for id, _ in db.rows(db.sql.STATES, ids=bind(wanted))],
    )
    named = list(zip(ids, found, strict=True))
    insert_jobs(
        [
            new_rows([(id, new.command, None, None, new)], job.updated_at)[0]
            for id, (job, new) in named
        ]
    )
    _add_inputs(db, {id: new for id, (_, new) in named})
    who = whoami()
    return [
        Event(at=job.updated_at, kind="hook", job=job.id, node=job.node, who=who, detail=id)
        for id, (job, _) in named
    ]


def _add_inputs(db: Database, hooks: dict[str, NewJob]) -> None:
    """Keep what hooks find on stdin, in pieces that every server takes."""
    fed = [id for id, hook in hooks.items() if hook.stdin is not None]
    if not fed:
        return
    rows = db.rows(db.sql.PLACES, ids=db.driver.dialect.bind_list(fed))
    pieces = [
        (seq, start, data[start : start + LONGEST_PIECE])
        for id, seq in rows
        for data in [hooks[id].stdin or b""]
        for start in range(0, len(data), LONGEST_PIECE)
    ]
    db.load("inputs", ("seq", "start", "data"), pieces)
