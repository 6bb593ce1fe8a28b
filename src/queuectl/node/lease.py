"""The node's lease: one row, whatever the number of jobs.

The node's loop renews it when it is awake. A thread with a connection of its own watches, and does
it as soon as the loop is late: it may be busy with something that takes long, or be cut off.

Each renewal tells the guards until when runs may live. If renewals stop, for whatever reason, they
end the runs before the lease does: another node can then never run the same job beside us.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import uniform
from threading import Event, Lock, Thread
from time import clock_gettime, monotonic

from queuectl import __version__
from queuectl.errors import StoreError
from queuectl.guard.wire import Extend
from queuectl.node.config import Config
from queuectl.node.guards import Guards
from queuectl.node.log import Say
from queuectl.store import Store, open_store

EARLY = 0.1
"""The share of a heartbeat by which a loop that is awake anyway renews early."""
LATE = 0.1
"""The share of the time from a heartbeat to the end of runs after which the loop is late."""
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


@dataclass(eq=False, kw_only=True)
class Lease:
    """Keeps a node's lease alive until told to stop, or until it is lost."""

    url: str
    node: str
    clock: int
    until: int
    """When it ends, as far as we know, by that clock of ours."""
    guards: Guards
    config: Config
    wake: Callable[[], None]
    """Rouses the node's loop."""
    say: Say
    outage: bool = False
    """Whether the store couldn't be reached since the last renewal: nobody here is to blame."""
    lost: bool = False

    def __post_init__(self) -> None:
        self._stop = Event()
        self._noting = Lock()
        self._renewals = 0
        self._renewed_at = self._tried_at = monotonic()
        """When it was last renewed, and when the loop last tried; by CLOCK_MONOTONIC."""
        self._thread = Thread(target=self._watch, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to watch that it is renewed."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more."""
        self._stop.set()
        self._thread.join(timeout=5)

    # -- by the loop --------------------------------------------------------------------

    def due_in(self) -> float:
        """Return in how many seconds the loop should renew it; never, once it is lost."""
        heartbeat = self.config.settings.heartbeat / 1000
        return inf if self.lost else max(self._renewed_at, self._tried_at) + heartbeat - monotonic()

    def renew_if_due(self, store: Store) -> bool:
        """Renew it if that is due by now, or nearly so; True if it was renewed."""
        if self.due_in() > EARLY * self.config.settings.heartbeat / 1000:
            return False
        self._tried_at = monotonic()
        try:
            held = self._try(store)
        except StoreError:
            # The thread will try again, from a connection of its own, and say so if that fails.
            return False
        self.lost = not held
        return held

    # -- by the thread ------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            self._renew_when_late()
        finally:
            # Whatever ended it: a node that can't renew must start over.
            if not self._stop.is_set():
                self.lost = True
                self.wake()

    def _renew_when_late(self) -> None:
        store: Store | None = None
        pause = self._late_in()
        while not self._stop.wait(max(0.0, pause)) and not self.lost:
            pause = self._late_in()
            if pause > 0:
                # The loop has done it meanwhile.
                if store is not None:
                    store.close()
                    store = None
                continue
            self._expect_an_answer()
            try:
                # A connection of its own: the lease must not wait behind the node's transactions.
                if store is None:
                    store = open_store(self.url)
                    store.patience = 0.0
                held = self._try(store)
            except StoreError as error:
                self.say(f"The lease could not be renewed: {error}", level="warning")
                pause = (RETRY_LATE if self.is_over else RETRY) * uniform(0.5, 1.5)
                continue
            if not held:
                break
            pause = self._late_in()
        if store is not None:
            store.close()

    def _late_in(self) -> float:
        """Return in how many seconds the loop would be late."""
        lease, heartbeat = self.config.settings.lease, self.config.settings.heartbeat
        late = heartbeat + LATE * (lease - margin(lease) - heartbeat)
        return self._renewed_at + late / 1000 - monotonic()

    # -- by either ----------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it has run out, by our own clock; nobody may have noticed yet."""
        return read(self.clock) >= self.until

    @property
    def age(self) -> float:
        """How many seconds ago it was renewed."""
        return monotonic() - self._renewed_at

    @property
    def holds(self) -> bool:
        """Whether what is claimed now can be run, as far as we know."""
        return not self.lost and not self.ends_runs

    @property
    def ends_runs(self) -> bool:
        """Whether it is so nearly over that the guards start nothing more."""
        return read(self.clock) >= self.until - margin(self.config.settings.lease)

    def tell(self) -> None:
        """Tell the guards until when runs may live; one of them may be new."""
        with self._noting:
            self._tell()

    def _tell(self) -> None:
        until = self.until - margin(self.config.settings.lease)
        self.guards.tell_all([Extend(self.clock, until / 1000)])

    def _try(self, store: Store) -> bool:
        self._expect_an_answer()
        return self.renew(store)

    def _expect_an_answer(self) -> None:
        """Call it an outage until the store answers, unless the lease was over before we asked."""
        self.outage = self.outage or not self.is_over

    def _ask(self, store: Store, lease: int) -> bool:
        """Ask the store to extend it."""
        until, workers = store.clock.steady() + lease, self.config.count
        return store.nodes.renew(self.node, until=until, workers=workers, version=__version__)

    def renew(self, store: Store) -> bool:
        """Renew it once, through this store; False when it is lost."""
        lease, clock, before = self.config.settings.lease, self.clock, self._renewals
        # By our own clock, and from before we ask: whoever takes over counts from a later moment.
        began, asked_at, until_now = read(clock), monotonic(), self.until
        if began >= until_now or not self._ask(store, lease):
            return False
        with self._noting:
            if read(clock) < until_now - margin(lease):
                # An answer that comes later than that didn't save the runs. Nor did one that came
                # to the other of the two a moment before: that has put `until` off, for new ones.
                self.outage = False
            until = began + lease
            if self._renewals != before:
                # Loop and thread did it at once. Which of the two came last, only the store knows.
                until = min(until, self.until)
            self.until = until
            self._renewals += 1
            self._renewed_at = max(self._renewed_at, asked_at)
            self._tell()
        return True
