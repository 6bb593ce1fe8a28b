"""Verbs about what was set: the shared settings, and which queues are paused."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from queuectl.facts import Event, QueueInfo
from queuectl.store.contract import SharedSettings, Topic
from queuectl.store.idiom import Idiom
from queuectl.store.rows import event_row

if TYPE_CHECKING:
    from queuectl.limits import Limits


class SqlSettings(SharedSettings):
    """What was set on a queue in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

    def queues(self) -> list[QueueInfo]:
        return [
            QueueInfo(
                name=name,
                paused_at=paused_at,
                paused_by=paused_by,
                limits=_limits(text),
                closed_until=closed_until,
            )
            for name, paused_at, paused_by, text, closed_until in self._db.rows(self._sql.QUEUES)
        ]

    def set_limits(
        self, queue: str, decide: "Callable[[Limits], Limits]", *, event: Event | None = None
    ) -> "Limits":
        def change() -> "Limits":
            limits = self._idiom.limiting.set(queue, decide)
            self._tell(event, Topic.WORK)
            return limits

        return self._db.atomic(change)

    def set_paused(
        self, queue: str, *, paused: bool, who: str, now: int, event: Event | None = None
    ) -> bool:
        def change() -> bool:
            if paused:
                self._db.change(self._sql.ADD_QUEUE, {"name": queue})
                by = {"name": queue, "who": who, "now": now}
                changed = self._db.change(self._sql.PAUSE, by) > 0
            else:
                changed = self._db.change(self._sql.RESUME, {"name": queue}) > 0
            if changed:
                self._tell(event, Topic.WORK)
            return changed

        return self._db.atomic(change)

    def _tell(self, event: Event | None, topic: Topic) -> None:
        """Keep the event of a change, and wake whom it concerns."""
        if event is not None:
            self._db.insert(self._sql.RECORD, [event_row(event)])
            self._db.nudge(topic)

    def config(self) -> dict[str, str]:
        return dict(self._db.rows(self._sql.CONFIG))

    def set_config(
        self,
        name: str,
        value: str | None,
        *,
        now: int,
        check: Callable[[Mapping[str, str]], None] | None = None,
        event: Event | None = None,
    ) -> None:
        def change() -> None:
            if check is not None:
                others = {key: text for key, text in self.config().items() if key != name}
                check(others if value is None else others | {name: value})
            if value is None:
                self._db.change(self._sql.UNSET_CONFIG, {"name": name})
            else:
                text = {"name": name, "value": value, "now": now}
                self._db.change(self._sql.SET_CONFIG, text)
            self._tell(event, Topic.CONTROL)

        self._db.atomic(change)


def _limits(text: str | None) -> "Limits | None":
    if text is None:
        return None
    from queuectl.limits import limits_of_text

    return limits_of_text(text)
