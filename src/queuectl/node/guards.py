"""The guards of a node, and which of them looks after which worker.

To start a process takes a guard a moment in which it can do nothing else. With short jobs one
guard would be what all workers wait for, so two of them share the workers.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING

from queuectl.guard.board import number_of
from queuectl.node.link import Guard, GuardLostError

if TYPE_CHECKING:
    from queuectl.guard.wire import Message
    from queuectl.node.handover import HandedGuard

MOST = 2
"""More of them would each have less to do than they cost."""
RETRIES = (0.1, 0.5, 1.0, 2.0)
"""Seconds until a guard that didn't start is started again."""


class Guards:
    """All guards of a node; each worker has one of them, and keeps it."""

    def __init__(self, hidden: Collection[str]) -> None:
        """There are none yet. Jobs don't get to see `hidden` variables."""
        self._guards: list[Guard] = []
        self._hidden = hidden

    def start(self, workers: int) -> None:
        """Start as many as these workers are worth."""
        count = min(MOST, workers, _cores())
        self._guards = [Guard.launch(hidden=self._hidden) for _ in range(count)]
        try:
            for guard in self:
                guard.wait_until_ready()
        except GuardLostError:
            self.close()
            raise

    def inherit(self, handed: "Sequence[HandedGuard]") -> None:
        """Go on with those of the program before us in this process."""
        self._guards = [Guard.inherit(guard) for guard in handed]

    def __iter__(self) -> Iterator[Guard]:
        return iter(tuple(self._guards))

    def __len__(self) -> int:
        return len(self._guards)

    def of(self, worker: int) -> Guard:
        """Return the guard of a worker."""
        return self._guards[number_of(worker, len(self._guards)) - 1]

    def number(self, guard: Guard) -> int:
        """Return which of them this is, counted from one."""
        return 1 + self._guards.index(guard)

    def pids(self) -> set[int]:
        """Return their processes."""
        return {guard.pid for guard in self._guards}

    def tell_all(self, messages: "Sequence[Message]") -> None:
        """Tell all of them something. Who is gone has no runs; the node's loop notices."""
        for guard in self:
            with suppress(GuardLostError):
                guard.send(messages)

    def replace(self, lost: Guard) -> Guard:
        """Put a new guard in the place of one that is gone, and don't give up at once."""
        for pause in (*RETRIES, None):
            try:
                new = Guard.start(hidden=self._hidden)
                break
            except (GuardLostError, OSError):
                if pause is None:
                    raise
                # The runs of the other guards go on meanwhile.
                sleep(pause)
        self._guards[self._guards.index(lost)] = new
        return new

    def close(self) -> None:
        """Let them kill what still runs, all at once, and end."""
        for guard in self:
            guard.hang_up()
        for guard in self:
            guard.close()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
