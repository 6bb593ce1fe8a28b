"""Who is still let in: what is sent for long is sent only as long as that holds."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from queuectl.access import OF_PROXY, Grant
from queuectl.errors import StoreError
from queuectl.web.threads import Threads

if TYPE_CHECKING:
    from queuectl.queue import Queue

LOOK_EVERY = 1.0
"""Seconds between two times that it is asked whether grants still hold."""


class Standing:
    """Watches the grants of those for whom something goes on, in the loop."""

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        self._watched: dict[str, set[asyncio.Event]] = {}
        """By the ids of grants, what is set when one doesn't hold any more."""
        self._of: Counter[str] = Counter()
        self._thread = Threads("standing", 1)

    def start(self) -> None:
        """Begin to watch."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    def count(self, grant: Grant) -> int:
        """Return how much goes on for somebody."""
        return self._of[grant.root]

    @contextmanager
    def watched(self, grant: Grant) -> Iterator[asyncio.Event]:
        """Yield what is set if a grant ends meanwhile."""
        over = asyncio.Event()
        self._watched.setdefault(grant.id, set()).add(over)
        self._of[grant.root] += 1
        try:
            yield over
        finally:
            self._of[grant.root] -= 1
            if not self._of[grant.root]:
                del self._of[grant.root]
            self._watched[grant.id].discard(over)
            if not self._watched[grant.id]:
                del self._watched[grant.id]

    async def end_of(self, grant: Grant) -> None:
        """Return when a grant has ended."""
        with self.watched(grant) as over:
            await over.wait()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if not self._watched:
                continue
            # Whoever can't be asked after now is asked after next time.
            with suppress(StoreError):
                good = await self._thread.run(self._queue.access.good_ones)
                for id, events in self._watched.items():
                    if id not in good and not id.startswith(OF_PROXY):
                        for over in events:
                            over.set()
