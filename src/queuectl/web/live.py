"""What happens, told to whoever listens: one reader of the store, however many dashboards are open.

The reader is a thread that sleeps while nobody listens. It looks twice a second whether the store
has changed, and tells all listeners: how things stand (`status`), and what was done (`event`, whose
ids are the places of events, so that nothing is missed over a reconnect).
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import suppress
from threading import Event as Flag
from threading import RLock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from queuectl.errors import QueuectlError, StoreMissingError
from queuectl.job import FINISHED
from queuectl.report import event_dict

if TYPE_CHECKING:
    from queuectl.facts import Event
    from queuectl.queue import Queue

LOOK_EVERY = 0.5
"""Seconds between two looks at the store."""
LOOK_SOON = 0.05
"""The same while somebody waits for the end of a job."""
ASK_ANYWAY = 1.0
"""Seconds after which it is asked anew in any case whether jobs are finished."""
LOOK_ANYWAY = 5.0
"""Seconds after which things are told anew in any case: times pass, nodes fall silent."""
QUIET = 15.0
"""Seconds after which listeners are told that we are still there."""
MOST_LISTENERS = 2_000
MOST_WAITING = 1_000
"""Requests that wait for the end of a job."""
MOST_BEHIND = 64
"""What a listener may leave unread. One that is further behind begins anew."""
MOST_MISSED = 1_000
"""Events that are told again to who comes back. More, and it is told to look for itself."""


def message(name: str, data: Any, id: str | None = None) -> bytes:
    """Write an event of a stream."""
    lines = [f"event: {name}", *([] if id is None else [f"id: {id}"])]
    return "\n".join([*lines, f"data: {json.dumps(data)}", "", ""]).encode()


COMMENT = b": still here\n\n"
LOOKS_A_SECOND = 100
"""How often all dashboards together may ask for what is new. Of many, each asks less often."""
LEAST_PACE = 2


class Listener:
    """Somebody who listens."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_BEHIND)

    def put(self, text: bytes | None) -> None:
        """Tell something, from the loop; None is the end."""
        if self._told.full():
            while not self._told.empty():
                self._told.get_nowait()
            self._told.put_nowait(None)
        else:
            self._told.put_nowait(text)

    async def hear(self) -> AsyncIterator[bytes]:
        """Yield what is told, until the end."""
        while (text := await self._told.get()) is not None:
            yield text


class Live:
    """Reads the store for all who listen."""

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        # A signal may end us while we have it.
        self._lock = RLock()
        self._listeners: set[Listener] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where all of them are told: one call, however many they are."""
        self._pace = LEAST_PACE
        self._wanted = Flag()
        self._ends = Flag()
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}
        """Who waits for the ends of jobs, by their ids."""
        self._unasked = False
        """Whether somebody waits for a job of which we haven't asked yet."""
        self._status: dict[str, Any] | None = None
        self._last: int | None = None
        """The place of the last event that was told."""
        self._thread = Thread(target=self._read, name="live", daemon=True)

    def start(self) -> None:
        """Be there for listeners: read, once somebody listens. Called in their loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        self._staying = self._loop.create_task(self._stay())

    async def _stay(self) -> None:
        """Show listeners that we are there, and tell them how often they may ask."""
        while True:
            await asyncio.sleep(QUIET)
            with self._lock:
                listeners = list(self._listeners)
            before, self._pace = self._pace, _pace(len(listeners))
            same = before == self._pace
            _put(listeners, COMMENT if same else message("pace", {"seconds": self._pace}))

    def stop(self) -> None:
        """Tell all listeners that it is over."""
        self._ends.set()
        self._wanted.set()
        self._send_away()

    def _send_away(self) -> None:
        """End what all listeners hear, and what anybody waits for."""
        with self._lock:
            self._tell(None, locked=True)
            for id in list(self._awaited):
                self._let_go(id)

    @property
    def is_full(self) -> bool:
        """Whether nobody else can listen."""
        return len(self._listeners) >= MOST_LISTENERS

    @property
    def is_crowded(self) -> bool:
        """Whether nobody else can wait for a job."""
        return sum(map(len, self._awaited.values())) >= MOST_WAITING

    async def listen(self, since: int | None) -> AsyncGenerator[bytes]:
        """Yield what happens from now on; before that, what happened since the event `since`."""
        loop = asyncio.get_running_loop()
        listener = Listener()
        missed = await loop.run_in_executor(None, self._join, listener, since)
        try:
            for text in missed:
                yield text
            async for text in listener.hear():
                yield text
        finally:
            with self._lock:
                self._listeners.discard(listener)

    async def finished(self, id: str, seconds: float) -> None:
        """Wait until a job is finished, or gone, or so many seconds have passed."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._awaited.setdefault(id, []).append(over)
            self._unasked = True
        self._wanted.set()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(over, seconds)
        finally:
            with self._lock:
                left = self._awaited.get(id, [])
                if over in left:
                    left.remove(over)
                if not left:
                    self._awaited.pop(id, None)

    def _join(self, listener: Listener, since: int | None) -> list[bytes]:
        """Have somebody listen from here on; returns what is to be told first."""
        with self._lock:
            # While we hold this, the reader tells nothing: what it has told, we find.
            if self._last is None:
                self._last = self._newest()
            missed = [] if since is None else self._between(since, self._last)
            self._listeners.add(listener)
            status = self._status
            pace = max(self._pace, _pace(len(self._listeners)))
        self._wanted.set()
        told = [b"retry: 2000\n\n"]
        if missed is None:
            told.append(message("reset", {}, str(self._last)))
        else:
            told += map(_told, missed)
            if since is None:
                # From now on whoever comes back says from where.
                told.append(message("here", {}, str(self._last)))
        told.append(message("pace", {"seconds": pace}))
        if status is not None:
            told.append(message("status", status))
        return told

    # -- the reader ---------------------------------------------------------------------

    def _read(self) -> None:
        looked = asked = 0.0
        changed = False
        while not self._ends.is_set():
            if not self._listeners and not self._awaited:
                self._rest()
                looked = asked = 0.0
            now = monotonic()
            try:
                changed = self._queue.changed() or changed
                if self._awaited and (changed or self._unasked or now - asked >= ASK_ANYWAY):
                    asked = now
                    self._ask()
                if self._listeners and (
                    (changed and now - looked >= LOOK_EVERY) or now - looked >= LOOK_ANYWAY
                ):
                    looked, changed = now, False
                    self._look()
            except StoreMissingError:
                # Whoever comes back is told so.
                self._send_away()
            except QueuectlError as error:
                self._tell(message("trouble", {"detail": error.advised}))
                self._ends.wait(LOOK_EVERY)
            changed = changed and bool(self._listeners)
            self._ends.wait(LOOK_SOON if self._awaited else LOOK_EVERY)

    def _rest(self) -> None:
        """Sleep until somebody listens, or waits."""
        self._wanted.clear()
        self._status = None
        if not self._listeners and not self._awaited:
            self._wanted.wait()

    def _ask(self) -> None:
        """Tell those who wait for jobs that are finished."""
        with self._lock:
            self._unasked = False
            ids = list(self._awaited)
        states = self._queue.states(ids)
        with self._lock:
            for id in ids:
                if states.get(id) in (None, *FINISHED):
                    self._let_go(id)

    def _let_go(self, id: str) -> None:
        for over in self._awaited.pop(id, ()):
            with suppress(RuntimeError):
                over.get_loop().call_soon_threadsafe(_resolve, over)

    def _look(self) -> None:
        status = self._queue.status().as_dict()
        with self._lock:
            newest = self._newest()
            before = newest if self._last is None else self._last
            news = self._between(before, newest)
            self._last = newest
            if news is None:
                self._tell(message("reset", {}, str(newest)), locked=True)
            for event in news or ():
                self._tell(_told(event), locked=True)
            if status != self._status:
                self._status = status
                self._tell(message("status", status), locked=True)

    def _tell(self, text: bytes | None, *, locked: bool = False) -> None:
        if not locked:
            with self._lock:
                self._tell(text, locked=True)
            return
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there any more
                self._loop.call_soon_threadsafe(_put, list(self._listeners), text)

    def _newest(self) -> int:
        return next((event.seq for event in self._queue.iterate_events(limit=1)), 0)

    def _between(self, after: int, upto: int) -> "list[Event] | None":
        """Return the events behind one place, up to another, the oldest first; None: too many."""
        found: list[Event] = []
        for event in self._queue.iterate_events():
            if event.seq <= after:
                break
            if event.seq <= upto:
                found.append(event)
            if len(found) > MOST_MISSED:
                return None
        return found[::-1]


def _put(listeners: "Iterable[Listener]", text: bytes | None) -> None:
    for listener in listeners:
        listener.put(text)


def _pace(listeners: int) -> int:
    """Return how many seconds a dashboard waits between two looks, if so many are open."""
    return max(LEAST_PACE, -(-listeners // LOOKS_A_SECOND))


def _resolve(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)


def _told(event: "Event") -> bytes:
    return message("event", event_dict(event), str(event.seq))
