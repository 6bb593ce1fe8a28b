"""Verbs about what was set: the shared settings, and queues: paused, limited, renamed, removed."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from queuectl.facts import Event, QueueInfo, QueueUse
from queuectl.job import State
from queuectl.store.contract import SharedSettings, Topic
from queuectl.store.driver import ConflictError
from queuectl.store.idiom import Idiom
from queuectl.store.rows import counted, event_row
from queuectl.values import replace

if TYPE_CHECKING:
    from queuectl.limits import Limits
    from queuectl.schedule import Schedule


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

    def rename_queue(
        self,
        old: str,
        new: str,
        *,
        check: Callable[[QueueUse, QueueUse], None],
        event: Event | None = None,
    ) -> QueueUse:
        names = {"old": old, "new": new}

        def rename() -> QueueUse:
            # One after the other, and none while rollups are merged. Then in the order of ticks:
            # schedules, what is set on queues, jobs.
            self._db.rows(self._sql.HOLD_ROLLUPS)
            schedules = self._schedules_of(old)
            self._db.rows(self._sql.LOCK_LIMITS, ids=self._idiom.bind(sorted([old, new])))
            use = self._use(old, schedules)
            check(use, self._use(new))
            self._redirect(schedules, new)
            self._redirect_webhooks(old, new)
            self._drop(new)
            for statement in (
                self._sql.RENAME_QUEUE,
                self._sql.RENAME_KEYS,
                self._sql.RENAME_ROLLUPS,
                self._sql.DROP_ROLLUPS,
            ):
                self._db.change(statement, names)
            self._rename_jobs(old, new)
            self._tell(event, Topic.WORK)
            return use

        return self._db.atomic(rename)

    def _rename_jobs(self, old: str, new: str) -> None:
        """Move all jobs, also those that came, or whose runs ended, since they were counted."""
        state: str | None = ""
        while state is not None:
            if state == State.PROCESSING:
                raise ConflictError(f"A job of queue {old!r} was started meanwhile.")
            self._db.change(self._sql.RENAME_JOBS, {"old": old, "new": new})
            state = self._db.value(self._sql.LEFT_IN_QUEUE, queue=old)

    def remove_queue(
        self, name: str, *, check: Callable[[QueueUse], None], event: Event | None = None
    ) -> None:
        def remove() -> None:
            self._db.rows(self._sql.LOCK_LIMITS, ids=self._idiom.bind([name]))
            check(self._use(name))
            self._drop(name)
            self._tell(event, Topic.WORK)

        self._db.atomic(remove)

    def _drop(self, queue: str) -> None:
        self._db.change(self._sql.DROP_QUEUE, {"name": queue})
        self._db.change(self._sql.DROP_KEYS_OF, {"name": queue})

    def _use(self, name: str, schedules: "Sequence[Schedule] | None" = None) -> QueueUse:
        """Return all that there is of a queue."""
        states: Counter[State] = Counter()
        for count in counted(self._db.rows(self._sql.COUNTS)):
            if count.queue == name and count.jobs:
                states[count.state] += count.jobs
        infos = [info for info in self.queues() if info.name == name]
        naming = self._schedules_of(name) if schedules is None else schedules
        return QueueUse(
            name=name,
            states=states,
            info=infos[0] if infos else None,
            schedules=tuple(schedule.name for schedule in naming),
        )

    def _schedules_of(self, queue: str) -> "list[Schedule]":
        """Return the schedules that name a queue; nobody else changes them for now."""
        from queuectl.store.schedules import locked, schedule_of

        found = [schedule_of(row) for row in self._db.rows(self._sql.SCHEDULES)]
        naming = [one for one in found if one.request.get("queue") == queue]
        held = [locked(self._db, one.name) for one in naming]
        return [one for one in held if one is not None and one.request.get("queue") == queue]

    def _redirect(self, schedules: "Sequence[Schedule]", queue: str) -> None:
        """Have the jobs of schedules go into another queue."""
        from queuectl.store.schedules import row_of

        for one in schedules:
            after = replace(one, request={**one.request, "queue": queue})
            self._db.change(self._sql.CHANGE_SCHEDULE, row_of(after))

    def _redirect_webhooks(self, old: str, new: str) -> None:
        """Have webhooks that name a queue name it as it is called then."""
        rows = self._db.rows(self._sql.WEBHOOKS)
        if not rows:
            return
        from queuectl.store.webhooks import locked, row_of, webhooks_of
        from queuectl.webhook import renamed

        for known in webhooks_of(rows):
            if renamed(known, old, new) != known:
                held = locked(self._db, known.name)
                if held is not None:
                    self._db.change(self._sql.CHANGE_WEBHOOK, row_of(renamed(held, old, new)))
        self._idiom.forget_webhooks()

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
