"""The parts of a `Queue` behind a server: schedules, limits, and who may come in."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from queuectl.access import Grant, check_name
from queuectl.enqueueing import Enqueuer, Request
from queuectl.explain import Reason
from queuectl.facts import Group
from queuectl.grants import Access
from queuectl.groups import Asked, Groups
from queuectl.job import Job
from queuectl.limits import Limits
from queuectl.lineage import Along, Relative, Roots
from queuectl.queue_limits import KeyUse, QueueLimits
from queuectl.remote.calls import Calls
from queuectl.schedule import POLICY, Schedule
from queuectl.schedules import Schedules, plain_fields
from queuectl.store.contract import Tick
from queuectl.values import replace
from queuectl.webhook import Webhook
from queuectl.webhooks import Tested, Webhooks
from queuectl.when import iso, milliseconds

MOST_DELIVERIES = 1_000
"""Deliveries that one answer has at most."""


class RemoteGroups(Groups):
    """The groups of a queue behind a server."""

    def __init__(self, queue: Asked, ask: Calls) -> None:
        self._queue = queue
        self._ask = ask

    def named(self, names: Sequence[str]) -> list[Group]:
        return self._ask.groups_named([*names])

    def newest(self, limit: int = 50, *, before: str | None = None) -> list[Group]:
        return self._ask.newest_groups(limit, before)

    def like(self, prefix: str, *, limit: int = 50) -> list[str]:
        return self._ask.groups_like(prefix, limit)

    def unknown(self, names: Sequence[str]) -> list[str]:
        return self._ask.unknown_groups([*names]) if names else []

    def why(self, name: str) -> list[Reason]:
        return self._ask.why_group(name)

    def running(self) -> dict[str, int]:
        return self._ask.running_groups()

    def stuck(self, names: Sequence[str]) -> list[str]:
        return self._ask.stuck_groups([*names]) if names else []

    def roots(self, name: str) -> Roots:
        return self._ask.roots_of_group(name)

    def children(self, name: str, *, limit: int = 1_000) -> list[Relative]:
        return self._ask.children_of_group(name, limit)

    def taken_along(self, name: str, *, limit: int = 10_000) -> Along:
        return self._ask.along_with_group(name, limit)


class RemoteSchedules(Schedules):
    """The schedules of a queue behind a server."""

    def __init__(self, ask: Calls) -> None:
        self._ask = ask

    def all(self) -> list[Schedule]:
        return self._ask.schedules()

    def next(self, name: str, count: int = 1) -> list[int]:
        return self._ask.next_ticks(name, count)

    def ticks(self, name: str, limit: int = 10) -> list[Tick]:
        return self._ask.ticks(name, limit)

    def add(self, name: str, rule: str, what: Request | None = None, **given: Any) -> Schedule:
        return self._make(name, rule, what, given, draft=False)

    def draft(self, name: str, rule: str, what: Request | None = None, **given: Any) -> Schedule:
        return self._make(name, rule, what, given, draft=True)

    def _make(
        self, name: str, rule: str, what: Request | None, given: dict[str, Any], *, draft: bool
    ) -> Schedule:
        own = {word: given.pop(word) for word in POLICY if word in given}
        job = {**({} if what is None else Enqueuer.as_fields(what)), **given}
        return self._ask.add_schedule(name, rule, plain_fields(job), plain_fields(own), draft)

    def edit(self, name: str, **changes: Any) -> Schedule:
        what = changes.pop("what", None)
        given = {} if what is None else {"what": plain_fields(Enqueuer.as_fields(what))}
        return self._ask.edit_schedule(name, {**plain_fields(changes), **given})

    def pause(self, name: str) -> bool:
        return self._ask.pause_schedule(name)

    def resume(self, name: str) -> bool:
        return self._ask.resume_schedule(name)

    def remove(self, name: str) -> None:
        self._ask.remove_schedule(name)

    def run(self, name: str) -> Job:
        return self._ask.run_schedule(name)

    def backfill(
        self,
        name: str,
        begin: str | int | datetime,
        end: str | int | datetime,
        *,
        dry_run: bool = False,
    ) -> list[int]:
        return self._ask.backfill(name, _moment(begin), _moment(end), dry_run)


class RemoteLimits(QueueLimits):
    """What the queues behind a server allow."""

    def __init__(self, ask: Calls) -> None:
        self._ask = ask

    def all(self) -> dict[str, Limits]:
        return self._ask.limits()

    def keys(self, name: str) -> list[KeyUse]:
        return self._ask.keys(name)

    def set(self, name: str, **changes: Any) -> Limits:
        return self._ask.set_limits(name, plain_fields(changes))

    def clear(self, name: str) -> None:
        self._ask.clear_limits(name)


class RemoteAccess(Access):
    """Who may do what over HTTP, as the server knows it."""

    def __init__(self, ask: Calls) -> None:
        self._ask = ask

    def tokens(self) -> list[Grant]:
        return self._ask.tokens()

    def add_token(
        self,
        name: str,
        roles: str | Iterable[str],
        *,
        queues: Sequence[str] = (),
        expires: str | int | float | timedelta | datetime | None = None,
        maker: Grant | None = None,
    ) -> tuple[Grant, str]:
        # Whoever asks is the maker, and the server knows who that is.
        several = [roles] if isinstance(roles, str) else [str(role) for role in roles]
        until: Any = expires
        if isinstance(expires, timedelta):
            until = expires.total_seconds()
        elif isinstance(expires, datetime):
            until = iso(milliseconds(expires))
        return self._ask.add_token(check_name(name), several, [*queues], until)

    def remove_token(self, name: str) -> list[Grant]:
        return self._ask.remove_token(name)

    def sessions(self) -> list[Grant]:
        return self._ask.sessions()

    def remove_session(self, id: str) -> Grant:
        return self._ask.remove_session(id)

    def remove_sessions(self, of: str | None = None) -> list[Grant]:
        return self._ask.remove_sessions(of)


class RemoteWebhooks(Webhooks):
    """The webhooks of a queue behind a server, which doesn't tell their secrets."""

    def __init__(self, ask: Calls) -> None:
        self._ask = ask

    def all(self) -> list[Webhook]:
        return self._ask.webhooks()

    def deliveries(self, name: str, *, limit: int | None = 50) -> list[Job]:
        return self._ask.deliveries(name, MOST_DELIVERIES if limit is None else limit)

    def add_read(self, new: Webhook) -> Webhook:
        asked = {
            "url": new.url,
            "on": [*new.news],
            "queues": [*new.queues],
            "secret": new.secret,
            "allow_private": new.private,
            "data": new.with_data,
            "via": new.via,
        }
        return replace(self._ask.add_webhook(new.name, asked), secret=new.secret)

    def pause(self, name: str) -> bool:
        return self._ask.pause_webhook(name)

    def resume(self, name: str) -> bool:
        return self._ask.resume_webhook(name)

    def remove(self, name: str) -> int:
        return self._ask.remove_webhook(name)

    def test(self, name: str) -> Tested:
        return self._ask.test_webhook(name)


def _moment(value: str | int | datetime) -> str | int:
    return milliseconds(value) if isinstance(value, datetime) else value
