"""Being told by PostgreSQL that something has happened: LISTEN on a connection of its own."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any

import psycopg

from queuectl.errors import StoreError
from queuectl.store.contract import Listener, Topic

RECONNECT_EVERY = 2.0
"""Seconds between tries to listen again."""

_TOPICS = {topic.value.encode(): topic for topic in Topic}


class Notified(Listener):
    """Told by the server. While the connection is lost it says so by asking for looks."""

    def __init__(self, connect: Callable[[], Any], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._selector = DefaultSelector()
        self._db: Any = None
        self._retry = 0.0
        self._listen()

    def _listen(self) -> None:
        db = self._connect()
        with suppress(psycopg.Error):
            db.execute(f'LISTEN "{self._channel}"')
            self._selector.register(db.fileno(), EVENT_READ)
            self._db = db
            self.told = True
            return
        _close(db)

    def fileno(self) -> int:
        # It stays the same when the connection behind it changes.
        found: int = self._selector.fileno()
        return found

    def heard(self) -> set[Topic]:
        if self._db is None:
            return self._listen_again()
        try:
            return set(self._notes())
        except psycopg.Error:
            self._lose()
            return set(Topic)

    def _notes(self) -> Iterator[Topic]:
        # What the connection's own `notifies()` does besides, a job would wait for.
        self._db.pgconn.consume_input()
        while note := self._db.pgconn.notifies():
            if topic := _TOPICS.get(note.extra):
                yield topic

    def _lose(self) -> None:
        db, self._db = self._db, None
        self.told = False
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
        _close(db)
        self._retry = monotonic()

    def _listen_again(self) -> set[Topic]:
        if monotonic() < self._retry:
            return set()
        self._retry = monotonic() + RECONNECT_EVERY
        try:
            self._listen()
        except StoreError:
            return set()
        # Whatever was said meanwhile was missed.
        return set(Topic)

    def expect(self) -> None:
        return

    def disregard(self) -> None:
        return

    def recheck_in(self) -> float | None:
        return None if self._db is not None else max(0.0, self._retry - monotonic())

    def close(self) -> None:
        if self._db is not None:
            self._lose()
        self._selector.close()


def _close(db: Any) -> None:
    with suppress(psycopg.Error):
        db.close()
