"""Verbs about what was set: the shared settings, and which queues are paused."""

from queuectl.facts import QueueInfo
from queuectl.store.contract import SharedSettings
from queuectl.store.database import Database


class SqlSettings(SharedSettings):
    """What was set on a queue in an SQL database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql

    def queues(self) -> list[QueueInfo]:
        return [
            QueueInfo(name=name, paused_at=paused_at, paused_by=paused_by)
            for name, paused_at, paused_by in self._db.rows(self._sql.QUEUES)
        ]

    def set_paused(self, queue: str, *, paused: bool, who: str, now: int) -> bool:
        if not paused:
            return self._db.write(self._sql.RESUME, name=queue) > 0

        def pause() -> bool:
            self._db.change(self._sql.ADD_QUEUE, {"name": queue})
            return self._db.change(self._sql.PAUSE, {"name": queue, "who": who, "now": now}) > 0

        return self._db.atomic(pause)

    def config(self) -> dict[str, str]:
        return dict(self._db.rows(self._sql.CONFIG))

    def set_config(self, name: str, value: str | None, *, now: int) -> None:
        if value is None:
            self._db.write(self._sql.UNSET_CONFIG, name=name)
        else:
            self._db.write(self._sql.SET_CONFIG, name=name, value=value, now=now)
