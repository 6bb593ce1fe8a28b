"""The node's lease: one row, renewed by a thread of its own, whatever the number of jobs.

Each renewal tells the guard until when runs may live. If renewals stop, for whatever reason, the
guard ends the runs before the lease does: another node can then never run the same job beside us.
"""

from collections.abc import Callable
from random import uniform
from threading import Event, Thread
from time import clock_gettime

from queuectl.errors import StoreError
from queuectl.node.guards import Guards
from queuectl.store import Store, open_store

RETRY = 0.2
"""Seconds until a renewal that failed is tried again, give or take a half."""
RETRY_LATE = 1.0
"""The same once there is no lease to save: then it only costs."""


def margin(lease: int) -> int:
    """How many milliseconds before the end of a lease its runs are killed."""
    return min(1_000, lease // 5)


def read(clock: int) -> int:
    """Return what a clock of this host says, in milliseconds."""
    return int(clock_gettime(clock) * 1000)


class Lease:
    """Keeps a node's lease alive until told to stop, or until it is lost."""

    def __init__(
        self,
        *,
        url: str,
        node: str,
        clock: int,
        until: int,
        guards: Callable[[], Guards],
        settings: Callable[[], tuple[int, int]],
        wake: Callable[[], None],
        trouble: Callable[[str], None],
    ) -> None:
        """`settings` gives (lease, heartbeat) in milliseconds; `wake` rouses the node's loop.

        `until` is when the lease that there is ends, by that clock of ours.
        """
        self._url = url
        self._node = node
        self._clock = clock
        self._until = until
        self._guards = guards
        self._settings = settings
        self._wake = wake
        self._trouble = trouble
        self._stop = Event()
        self.lost = False
        self.outage = False
        """Whether the store couldn't be reached since the last renewal: nobody here is to blame."""
        self._thread = Thread(target=self._keep, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _keep(self) -> None:
        try:
            self._renew_until_told()
        finally:
            # Whatever ended it: a node that can't renew must start over.
            if not self._stop.is_set():
                self.lost = True
                self._wake()

    def _renew_until_told(self) -> None:
        pause = self._settings()[1] / 1000
        store: Store | None = None
        while not self._stop.wait(pause):
            pause = self._settings()[1] / 1000
            # Until an answer comes. If we are late ourselves, the store isn't to blame for that.
            self.outage = self.outage or not self.is_over
            try:
                # A connection of its own: the lease must not wait behind the node's transactions.
                if store is None:
                    store = open_store(self._url)
                    store.patience = 0.0
                held = self.renew(store)
            except StoreError as error:
                self._trouble(f"the lease could not be renewed: {error}")
                pause = (RETRY_LATE if self.is_over else RETRY) * uniform(0.5, 1.5)
                continue
            if not held:
                break
        if store is not None:
            store.close()

    @property
    def is_over(self) -> bool:
        """Whether it has run out, by our own clock; the thread may not have noticed yet."""
        return read(self._clock) >= self._until

    @property
    def ends_runs(self) -> bool:
        """Whether it is so nearly over that the guards start nothing more."""
        return read(self._clock) >= self._until - margin(self._settings()[0])

    def renew(self, store: Store) -> bool:
        """Renew it once, through this store; False when it is lost."""
        lease, clock = self._settings()[0], self._clock
        # By our own clock, and from before we ask: whoever takes over counts from a later moment.
        began = read(clock)
        if began >= self._until or not store.renew(self._node, until=store.steady() + lease):
            return False
        if read(clock) < self._until - margin(lease):
            # An answer that comes later than that didn't save the runs.
            self.outage = False
        self._until = began + lease
        extend(self._guards(), clock, self._until - margin(lease))
        return True


def extend(guards: Guards, clock: int, until: int) -> None:
    """Tell the guards until when runs may live, in milliseconds of that clock."""
    guards.tell_all([("lease", clock, until / 1000)])
