"""Webhooks as rows, and the deliveries that are made in the transactions that end jobs.

Nobody asks at each end whether there are webhooks: what there was is known for a second. Only if
one of those wants to hear of an end, what there is then is read in the transaction that ends the
job.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from queuectl.facts import Event
from queuectl.job import Job, NewJob, Outcome
from queuectl.store.database import Database
from queuectl.store.driver import Row
from queuectl.store.rows import NewRow, new_rows, with_values
from queuectl.store.statements.around import WEBHOOK
from queuectl.values import replace
from queuectl.webhook import News, Webhook, delivery_of, hearers, wants_no_more

_COLUMNS = WEBHOOK.split(", ")
GONE = "webhook {name}: its receiver answered 410 Gone"


def tell(
    db: Database,
    insert_jobs: Callable[[Sequence[NewRow]], None],
    known: Sequence[Webhook],
    over: Sequence[tuple[Job, Outcome | None]],
) -> tuple[bool, list[Event]]:
    """Make the deliveries that ends call for; says if there are any, and what is kept of it.

    The jobs that have ended are given as they are now, each with what its run came to. A delivery
    whose receiver is gone pauses its webhook.
    """
    concerned = [
        (job, outcome)
        for job, outcome in over
        if wants_no_more(job, outcome) or hearers(known, job, outcome)
    ]
    if not concerned:
        return False, []
    found = {webhook.name: webhook for webhook in webhooks_of(db.rows(db.sql.WEBHOOKS))}
    events = []
    for job, outcome in concerned:
        gone = found.get(wants_no_more(job, outcome) or "")
        if gone is not None and gone.paused_at is None:
            found[gone.name], event = _paused(db, gone, job)
            events.append(event)
    made = [
        _row(delivery_of(webhook, job, outcome), job.updated_at)
        for job, outcome in concerned
        for webhook in hearers(found.values(), job, outcome)
    ]
    if made:
        insert_jobs(made)
    return bool(made), events


def _row(new: NewJob, now: int) -> NewRow:
    """Describe a delivery: unlike other data jobs, every node can run it."""
    (row,) = new_rows([(None, None, None, None, new)], now)
    return with_values(row, handler="")


def _paused(db: Database, webhook: Webhook, job: Job) -> tuple[Webhook, Event]:
    now = job.updated_at
    after = replace(webhook, paused_at=now, paused_by="queuectl", updated_at=now)
    db.change(db.sql.CHANGE_WEBHOOK, row_of(after))
    detail = GONE.format(name=webhook.name)
    event = Event(at=now, kind="pause", job=None, node=job.node, who="queuectl", detail=detail)
    return after, event


def locked(db: Database, name: str) -> Webhook | None:
    """Return a webhook that nobody else changes until the transaction is over."""
    return next(iter(webhooks_of(db.rows(db.sql.LOCK_WEBHOOK, name=name))), None)


def webhooks_of(rows: Sequence[Row]) -> list[Webhook]:
    """Return what rows hold."""
    return [_webhook(dict(zip(_COLUMNS, row, strict=True))) for row in rows]


def _webhook(values: dict[str, Any]) -> Webhook:
    values["news"] = tuple(News(word) for word in json.loads(values["news"]))
    values["queues"] = tuple(json.loads(values["queues"]))
    values["private"] = bool(values["private"])
    values["with_data"] = bool(values["with_data"])
    return Webhook(**values)


def row_of(webhook: Webhook) -> dict[str, Any]:
    """Return what goes into the columns of a webhook."""
    row = {name: getattr(webhook, name) for name in _COLUMNS}
    return row | {
        "news": json.dumps(webhook.news),
        "queues": json.dumps(webhook.queues, ensure_ascii=False),
        "private": int(webhook.private),
        "with_data": int(webhook.with_data),
    }
