"""A webhook: which ends of jobs it tells of, in which words, and the jobs that deliver that.

Facts in, a decision out: no clock, no store. A store makes these jobs in the transaction that ends
the other one.
"""

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from queuectl.delivery import GONE
from queuectl.hooks import Occasion, occasions
from queuectl.job import FINISHED, WEBHOOK, Exited, Job, NewJob, Outcome, State, Strategy
from queuectl.job_json import job_dict
from queuectl.values import dataclass, field, replace
from queuectl.when import iso

QUEUE = "webhooks"
"""The queue of deliveries, unless a webhook names another."""
RETRIES = 13
BACKOFF_BASE = 4.0
LONGEST_WAIT = 12 * 3_600_000
"""Waits of 4 s, 16 s, 64 s, ... and then of half a day each: three days in all."""
TIMEOUT = 60_000
"""Milliseconds after which a delivery is killed that should have given up by itself."""
LONGEST_TEXT = 1_000
"""Characters of a text, or of all in a list, that are told of."""
LONGEST_DATA = 64 * 1024
"""Bytes of data that are told of, if they are at all."""


class News(StrEnum):
    """What a webhook can tell of."""

    COMPLETED = "completed"
    """The job is completed."""
    FAILED = "failed"
    """A run of it failed, timed out or crashed, and there will be another."""
    DEAD = "dead"
    """It is dead, whatever of."""
    CANCELLED = "cancelled"
    """It was called off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Whom the ends of jobs are told to."""

    name: str
    url: str
    news: tuple[News, ...]
    """What is told."""
    queues: tuple[str, ...] = ()
    """Of which queues; none is all."""
    via: str = QUEUE
    """The queue in which its deliveries wait."""
    secret: str = field(repr=False)
    """What messages are signed with."""
    private: bool = False
    """Whether it may be at an address that isn't public."""
    with_data: bool = False
    """Whether the data of data jobs are told."""
    paused_at: int | None = None
    paused_by: str | None = None
    created_at: int
    updated_at: int

    def hears(self, queue: str) -> bool:
        """Tell whether it is told of jobs of a queue."""
        return not self.queues or queue in self.queues


def renamed(webhook: Webhook, old: str, new: str) -> Webhook:
    """Return a webhook that means a queue by its new name."""
    queues = tuple(new if queue == old else queue for queue in webhook.queues)
    return replace(webhook, queues=queues, via=new if webhook.via == old else webhook.via)


def news_of(state: State, outcome: Outcome | None) -> News | None:
    """Say what there is to tell of a job that came into a state, by a run unless that is None."""
    if state in FINISHED:
        return News(state.value)
    return News.FAILED if Occasion.FAILURE in occasions(state, outcome) else None


def hearers(webhooks: Iterable[Webhook], job: Job, outcome: Outcome | None) -> list[Webhook]:
    """Return those that are told of what a job, which is given as it is now, came to.

    One that is paused isn't, and of a delivery nobody is.
    """
    news = news_of(job.state, outcome)
    if news is None or job.webhook is not None:
        return []
    return [
        webhook
        for webhook in webhooks
        if webhook.paused_at is None and news in webhook.news and webhook.hears(job.queue)
    ]


def wants_no_more(job: Job, outcome: Outcome | None) -> str | None:
    """Return the webhook whose receiver has just said that it is gone, if one has."""
    return job.webhook if outcome == Exited(GONE) else None


def delivery_of(webhook: Webhook, job: Job, outcome: Outcome | None) -> NewJob:
    """Return the job that tells a webhook of what a job, as it is now, came to."""
    news = news_of(job.state, outcome)
    assert news is not None
    code = None if outcome is None else getattr(outcome, "code", None)
    return NewJob(
        type=WEBHOOK + webhook.name,
        data=payload(job, news, with_data=webhook.with_data),
        queue=webhook.via,
        hook=f"{news} {job.attempts} {'-' if code is None else code} {job.id}",
        tags=(tag_of(webhook.name),),
        timeout=TIMEOUT,
        max_retries=RETRIES,
        backoff=Strategy.EXPONENTIAL,
        backoff_base=BACKOFF_BASE,
        max_backoff=LONGEST_WAIT,
    )


def tag_of(name: str) -> str:
    """Return the tag of all deliveries of a webhook."""
    return WEBHOOK + name


def payload(job: Job, news: News, *, with_data: bool = False) -> bytes:
    """Write what is told of a job, as it is now: small, and without secrets."""
    told = {name: _short(value) for name, value in job_dict(job).items()}
    told["data"] = told["data_base64"] = None
    if with_data and len(job.data or b"") <= LONGEST_DATA:
        whole = job_dict(job)
        told |= {name: whole[name] for name in ("data", "data_base64")}
    return message(f"job.{news}", job.updated_at, told)


def message(type: str, at: int, data: dict[str, Any]) -> bytes:
    """Write a message, in the shape that the Standard Webhooks specification recommends."""
    whole = {"type": type, "timestamp": iso(at), "data": data}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def _short(value: Any) -> Any:
    """Cut what is long; what was cut ends in an ellipsis."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"
    if not isinstance(value, list):
        return value
    kept: list[Any] = []
    room = LONGEST_TEXT
    for item in map(_short, value):
        room -= len(str(item))
        if room < 0:
            return [*kept, "…"]
        kept.append(item)
    return kept


def order_of(webhook: Webhook, job: Job) -> bytes:
    """Write what a delivery finds on its stdin: to whom, what, and how it is signed."""
    order = {
        "url": webhook.url,
        "secret": webhook.secret,
        "private": webhook.private,
        "id": job.id,
        "body": (job.data or b"").decode("utf-8", "replace"),
    }
    return json.dumps(order).encode()


def read_news(words: Sequence[str]) -> tuple[News, ...]:
    """Return what is to be told, in its own order; a word that is none is a `ValueError`."""
    chosen = {News(word) for word in words}
    return tuple(news for news in News if news in chosen)
