"""Hears from a server that something has changed, so that nobody who waits has to ask all the time.

It is a stream of events, read in a thread of its own. A stream that breaks is made again, from
where it was; a server that gives none is asked now and then, as one that can't tell.
"""

from collections.abc import Iterator
from threading import Event, Thread

from queuectl.errors import QueuectlError, StoreUnreachableError
from queuectl.remote.http import FIRST_PAUSE, LONGEST_PAUSE, Client, LostError, Message, Reply


class News:
    """Tells whether anything has changed since it was asked last, inside a `with`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = Event()
        self._over = Event()
        self._reply: Reply | None = None
        self._thread = Thread(target=self._listen, name="news", daemon=True)

    def __enter__(self) -> "News":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if (reply := self._reply) is not None:
            reply.hang_up()

    def changed(self) -> bool:
        """Tell whether something has changed."""
        found = self._changed.is_set()
        self._changed.clear()
        return found

    def _listen(self) -> None:
        pause, last = FIRST_PAUSE, None
        while not self._over.is_set():
            try:
                for message in self._events(last):
                    last, pause = message.id or last, FIRST_PAUSE
                    if message.name in ("event", "status", "reset"):
                        self._changed.set()
            except (LostError, StoreUnreachableError):
                pass
            except QueuectlError:
                # Such as a token that is only for some queues: then it is asked each second.
                return
            # Something may have happened while nobody told.
            self._changed.set()
            self._over.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _events(self, last: str | None) -> Iterator[Message]:
        self._reply = self._client.stream("/live", last)
        return self._reply.events()
