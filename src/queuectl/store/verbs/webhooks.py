"""Verbs about webhooks: whom the ends of jobs are told to."""

from collections.abc import Callable

from queuectl.facts import Event
from queuectl.store.contract import Webhooks
from queuectl.store.idiom import Idiom
from queuectl.store.webhooks import locked, row_of, webhooks_of
from queuectl.webhook import Webhook


class SqlWebhooks(Webhooks):
    """The webhooks of a queue in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

    def all(self) -> list[Webhook]:
        return webhooks_of(self._db.rows(self._sql.WEBHOOKS))

    def change(
        self,
        name: str,
        decide: Callable[[Webhook | None, int], Webhook | None],
        *,
        event: Event | None = None,
    ) -> Webhook | None:
        def change() -> Webhook | None:
            before = locked(self._db, name)
            after = decide(before, self._idiom.time(None))
            if after is None and before is not None:
                self._db.change(self._sql.DROP_WEBHOOK, {"name": name})
            elif after is not None:
                statement = self._sql.ADD_WEBHOOK if before is None else self._sql.CHANGE_WEBHOOK
                self._db.change(statement, row_of(after))
            self._idiom.record([] if event is None or after is before else [event])
            return after

        try:
            return self._db.transact(change)
        finally:
            self._idiom.forget_webhooks()
