"""Webhooks of a queue: adding, pausing and removing them, and sending a message to see."""

from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time

from queuectl import changes
from queuectl.delivery import (
    Answer,
    UndeliveredError,
    check_secret,
    check_url,
    is_of_a_private_network,
    new_secret,
    send,
)
from queuectl.errors import (
    DuplicateError,
    NotFoundError,
    StateError,
    UsageError,
    about,
    did_you_mean,
    shown,
)
from queuectl.filter import Filter
from queuectl.history import event_of
from queuectl.host import whoami
from queuectl.job import WAITING, Job
from queuectl.request import check_name
from queuectl.scope import keeping_to
from queuectl.store.contract import Store
from queuectl.store.ids import new_ids
from queuectl.values import dataclass, replace
from queuectl.webhook import QUEUE, News, Webhook, message, read_news, tag_of

LONGEST_NAME = 64
"""Characters: the tag of its deliveries has more."""
MOST = 100
"""Webhooks of a queue: each end of a job is compared with all of them."""
MOST_QUEUES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What came of a message that was sent to see."""

    answer: Answer | None
    """What the receiver said, if it said anything."""
    error: str | None
    """Why it said nothing."""
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether it would have been a delivery."""
        return self.answer is not None and self.answer.is_good

    def describe(self) -> str:
        """Say what came back."""
        return self.answer.describe() if self.answer is not None else str(self.error)


class PrivateAddressError(UsageError):
    """A URL at an address that isn't public, for a webhook that may not be there."""


class Webhooks:
    """The webhooks of a queue: `queue.webhooks`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- reading ------------------------------------------------------------------------

    def all(self) -> list[Webhook]:
        """Return all webhooks, by name."""
        return self._store.webhooks.all()

    def get(self, name: str) -> Webhook:
        """Return the webhook of this name; there must be one."""
        return named(name, self.all())

    def deliveries(self, name: str, *, limit: int | None = 50) -> list[Job]:
        """Return the deliveries of a webhook that are still here, newest first."""
        which = Filter(tags=(tag_of(name),))
        return [job for job in self._store.jobs.select(which, limit=limit) if job.webhook == name]

    # -- changing -----------------------------------------------------------------------

    def add(
        self,
        url: str,
        on: "str | Iterable[str]" = (News.DEAD,),
        *,
        name: str | None = None,
        queues: "str | Sequence[str]" = (),
        secret: str | None = None,
        private: bool = False,
        with_data: bool = False,
        via: str = QUEUE,
    ) -> Webhook:
        """Tell a URL of the ends of jobs from now on: `completed`, `failed`, `dead`, `cancelled`.

        Of the jobs of all queues, unless some are named. Its name is the host of the URL, and its
        secret is made, if they aren't given. Deliveries wait in the queue `via`.

        Raises:
            UsageError: Something in it can't be; nothing was stored.
            DuplicateError: There is a webhook of this name.
        """
        new = read_webhook(
            url,
            on,
            name=name,
            queues=queues,
            secret=secret,
            private=private,
            with_data=with_data,
            via=via,
        )
        return self.add_read(new)

    def add_read(self, new: Webhook) -> Webhook:
        """Add a webhook that was read."""
        known = {webhook.name for webhook in self.all()}
        if len(known) >= MOST and new.name not in known:
            raise StateError(f"A queue can have {MOST} webhooks at most.")

        def decide(there: Webhook | None, now: int) -> Webhook:
            if there is not None:
                raise DuplicateError(
                    f"There is a webhook {new.name!r} already; choose another name."
                )
            return replace(new, created_at=now, updated_at=now)

        return self._change(new.name, decide, "webhook", f"{new.name}: {', '.join(new.news)}")

    def pause(self, name: str) -> bool:
        """Tell it nothing until it is resumed; False when it was paused already.

        What ends meanwhile it is never told. Deliveries that wait fail, and are tried again.
        """
        was = self.get(name).paused_at is not None

        def decide(there: Webhook | None, now: int) -> Webhook:
            if there is None:
                raise self._unknown(name)
            if there.paused_at is not None:
                return there
            return replace(there, paused_at=now, paused_by=whoami(), updated_at=now)

        self._change(name, decide, "pause", f"webhook {name}")
        return not was

    def resume(self, name: str) -> bool:
        """Tell it again of what ends from now on; False when it wasn't paused."""
        was = self.get(name).paused_at is not None

        def decide(there: Webhook | None, now: int) -> Webhook:
            if there is None:
                raise self._unknown(name)
            if there.paused_at is None:
                return there
            return replace(there, paused_at=None, paused_by=None, updated_at=now)

        self._change(name, decide, "resume", f"webhook {name}")
        return was

    def remove(self, name: str) -> int:
        """Remove a webhook, and cancel its deliveries that wait; says how many these were."""

        def decide(there: Webhook | None, now: int) -> None:
            if there is None:
                raise self._unknown(name)

        event = event_of(self._store.clock.now(), "rm", detail=f"webhook {name}")
        self._store.webhooks.change(name, decide, event=event)
        which = Filter(tags=(tag_of(name),), states=WAITING)
        left = [job for job in self._store.jobs.select(which, limit=None) if job.webhook == name]
        change = changes.cancelling(f"webhook {name} was removed")
        done: list[changes.Changed | changes.Refused] = []
        # They are a part of it, whichever queue they wait in.
        with keeping_to(()):
            changes.make_named(self._store, left, change, done.append, dry_run=False)
        return sum(isinstance(one, changes.Changed) for one in done)

    def _change(
        self, name: str, decide: Callable[[Webhook | None, int], Webhook], kind: str, detail: str
    ) -> Webhook:
        event = event_of(self._store.clock.now(), kind, detail=detail)
        after = self._store.webhooks.change(name, decide, event=event)
        assert after is not None
        return after

    def _unknown(self, name: str) -> NotFoundError:
        return _unknown(name, [webhook.name for webhook in self.all()])

    # -- trying it ----------------------------------------------------------------------

    def test(self, name: str) -> Tested:
        """Send a message to see, from here and now, and say what came back."""
        webhook = self.get(name)
        body = message("webhook.test", self._store.clock.now(), {"webhook": webhook.name})
        began = monotonic()
        answer = error = None
        try:
            answer = send(
                webhook.url,
                body,
                id=new_ids(1, 12)[0],
                secret=webhook.secret,
                timestamp=int(time()),
                private=webhook.private,
            )
        except UndeliveredError as failed:
            error = failed.advised
        return Tested(answer=answer, error=error, seconds=monotonic() - began)


def read_webhook(
    url: str,
    on: "str | Iterable[str]",
    *,
    name: str | None = None,
    queues: "str | Sequence[str]" = (),
    secret: str | None = None,
    private: bool = False,
    with_data: bool = False,
    via: str = QUEUE,
) -> Webhook:
    """Return a webhook as somebody asks for it; a `UsageError` if it can't be."""
    names = (queues,) if isinstance(queues, str) else tuple(dict.fromkeys(queues))
    if len(names) > MOST_QUEUES:
        raise UsageError(f"A webhook can be told of {MOST_QUEUES} queues by name at most.")
    with about("url"):
        check_url(url)
        if not private and is_of_a_private_network(_host(url)):
            raise PrivateAddressError(
                f"{_host(url)} is no public address, where nothing is sent to",
                advice="--allow-private lets it be there.",
            )
    with about("on"):
        news = _news(on)
    with about("name"):
        name = name or _host(url)[:LONGEST_NAME]
        check_name("The name of a webhook", name, longest=LONGEST_NAME)
    with about("queues"):
        queues = tuple(check_name("queue", queue) for queue in names)
    return Webhook(
        url=url,
        news=news,
        name=name,
        queues=queues,
        via=check_name("queue", via),
        secret=new_secret() if secret is None else check_secret(secret),
        private=private,
        with_data=with_data,
        created_at=0,
        updated_at=0,
    )


def _news(on: "str | Iterable[str]") -> tuple[News, ...]:
    words = [word.strip() for word in (on.split(",") if isinstance(on, str) else on)]
    known = ", ".join(News)
    if not any(words):
        raise UsageError(f"Say what a webhook is told of: {known}.")
    for word in words:
        if word not in list(News):
            hint = did_you_mean(word, map(str, News), f"there are {known}.")
            raise UsageError(f"A webhook can't be told of {shown(word)}; {hint}")
    return read_news(words)


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname or ""


def webhook_dict(webhook: Webhook, *, with_secret: bool = False) -> dict[str, object]:
    """Describe a webhook for `--json`; its secret only for who asks for that."""
    from queuectl.job_json import moment

    told: dict[str, object] = {
        "name": webhook.name,
        "url": webhook.url,
        "on": [str(news) for news in webhook.news],
        "queues": list(webhook.queues),
        "via": webhook.via,
        "allow_private": webhook.private,
        "data": webhook.with_data,
        "paused": webhook.paused_at is not None,
        "paused_at": moment(webhook.paused_at),
        "paused_by": webhook.paused_by,
        "created_at": moment(webhook.created_at),
        "updated_at": moment(webhook.updated_at),
    }
    return told | ({"secret": webhook.secret} if with_secret else {})


def delivery_dict(job: Job) -> dict[str, object]:
    """Describe a delivery for `--json`."""
    from queuectl.job_json import moment

    return {
        "id": job.id,
        "job": job.hook_of,
        "state": str(job.state),
        "attempts": job.attempts,
        "error": job.error,
        "created_at": moment(job.created_at),
        "finished_at": moment(job.finished_at),
    }


def tested_dict(name: str, tested: Tested) -> dict[str, object]:
    """Describe for `--json` what came of a message that was sent to see."""
    answer = tested.answer
    return {
        "name": name,
        "delivered": tested.is_good,
        "status": None if answer is None else answer.status,
        "reason": None if answer is None else answer.reason,
        "answer": None if answer is None else answer.text,
        "error": tested.error,
        "duration_ms": round(tested.seconds * 1000),
    }


def named(name: str, known: Iterable[Webhook]) -> Webhook:
    """Return the webhook of this name among those; it must be there."""
    by_name = {webhook.name: webhook for webhook in known}
    if name not in by_name:
        raise _unknown(name, by_name)
    return by_name[name]


def _unknown(name: str, known: Iterable[str]) -> NotFoundError:
    return NotFoundError(
        f"There is no webhook {shown(name)}.",
        advice=did_you_mean(str(name), known, "see queuectl hook list."),
    )
