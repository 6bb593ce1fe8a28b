"""Claiming: whether the node may claim jobs now, for which workers, and when to look again.

A stop, a lease that is nearly over, and caution keep it from claiming. A host that can't start
anything leaves jobs to others, and tries with one job now and then. A job that one more crash would
bury is a suspect: it gets the node for itself, so that no other job dies of its crashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic

from queuectl.admission import Offer, Order, Serving, Suspects
from queuectl.job import Job
from queuectl.lifecycle import ROOM_WITHIN
from queuectl.node.config import Config
from queuectl.node.crew import Crew
from queuectl.node.membership import Membership
from queuectl.node.orders import Orders
from queuectl.node.runs import Run
from queuectl.resources import Stock
from queuectl.store.contract import Outlook, Store

ALONE_FOR = 60.0
"""Seconds that a suspect keeps the node for itself."""
RETRY = 0.5
"""Seconds until a host that couldn't start a run tries again, at first."""
LONGEST_RETRY = 30.0
"""Seconds after which it tries again at the latest."""


@dataclass(eq=False, kw_only=True)
class Claiming:
    """Says whether the node may claim, and for which workers; it is told what comes and goes."""

    store: Store
    queues: Serving
    config: Config
    member: Membership
    crew: Crew
    orders: Orders
    predecessors: set[str] = field(default_factory=set)
    """Nodes of this host that were dead when we began, and whose runs may still be here."""
    may_be_work: bool = True
    """Whether a claim may give us something."""
    next_due: int | None = None
    """When to look for work again, by the store's clock: a job becomes due then, or expires."""
    limited: bool = False
    """Whether the last claim asked limits, or found jobs that have no room here: then the end of a
    run may make some."""
    _held_up: bool = False
    """Whether jobs were ready that the last claim didn't give us."""
    _unable_until: float = 0.0
    """Until then nothing is claimed, since nothing can be started here."""
    _unable: int = 0
    """How often in a row that was so."""
    _order: Order | None = None

    def __post_init__(self) -> None:
        if self.queues.weights or self.queues.in_order:
            from queuectl.precedence import order_of

            self._order = order_of(self.queues)

    # -- what may be claimed ------------------------------------------------------------

    @property
    def may_claim(self) -> bool:
        """Whether nothing keeps the node from claiming."""
        return (
            not self.orders.takes_no_more
            and self.member.lease.holds
            and self._unable_until <= monotonic()
            and not self._runs_suspect()
        )

    def _runs_suspect(self) -> bool:
        """Tell whether a job runs that gets the whole node, for now."""
        running = self.crew.running
        if len(running) != 1:
            return False
        [run] = running.values()
        is_suspect = run.job.crashes >= self.config.policy.suspicious
        return is_suspect and monotonic() - run.claimed < ALONE_FOR

    @property
    def wants_more(self) -> bool:
        """Whether it is time to claim: there may be work, and the workers need some."""
        return self.may_be_work and self.crew.workers.hungry and self.may_claim

    def offer(self) -> Offer:
        """Return what we have room for: the workers to claim a job for, and which we get alone."""
        workers: list[int] = []
        if self.may_be_work and self.may_claim:
            workers = self.crew.workers.wanted()
            if self._unable:
                # One job is enough to find out whether it can be started now.
                workers = workers[:1]
        crashes, idle = self.config.policy.suspicious, not self.crew.running
        suspects = Suspects(crashes, patience=ROOM_WITHIN, idle=idle)
        idle_workers = self.crew.workers.without_work
        return Offer(workers, self.queues, suspects, idle_workers, self._order, self._stock())

    def _stock(self) -> Stock | None:
        """Return what the node has, and what its runs have of it: all that aren't gone yet."""
        if not self.queues.has_classes or self.predecessors:
            # What we have may be what they had: their runs use it until they are gone.
            return None
        return Stock(self.queues.resources, self.crew.holdings())

    def took(self, jobs: Sequence[Job]) -> None:
        """Hear which jobs a claim gave us, in their order: some queues had their turns."""
        if self._order is not None:
            self._order.took(job.queue for job in jobs)

    # -- when to look again -------------------------------------------------------------

    def looks_in(self) -> float:
        """Return in how many seconds a job becomes due that somebody has time for."""
        if self.next_due is None or not self.crew.workers.idle or not self.may_claim:
            return inf
        return (self.next_due - self.store.clock.now()) / 1000

    def resumes_in(self) -> float:
        """Return in how many seconds a host that couldn't start anything tries again."""
        left = self._unable_until - monotonic()
        return left if left > 0 else inf

    # -- what is known of the work ------------------------------------------------------

    def due_at(self, at: int | None) -> None:
        """Hear when a job is due that is in line again after its run: nobody will tell us then."""
        if at is not None and (self.next_due is None or at < self.next_due):
            self.next_due = at

    def watch_clock(self) -> None:
        """Notice that a job has become due."""
        if self.next_due is not None and self.next_due <= self.store.clock.now():
            self.next_due = None
            self.may_be_work = True

    def look(self) -> None:
        """See whether there is work, if somebody has time for it."""
        self.may_be_work = True
        if self.crew.workers.idle:
            self.may_be_work, self.next_due = self._foresee(self._outlook())

    def ask_what_next(self) -> None:
        """Find out why there was no more to claim."""
        self._held_up = True
        outlook = self._outlook()
        self._held_up, self.next_due = self._foresee(outlook)
        if self._held_up:
            # What is due meanwhile may come before what holds us up.
            self.next_due = outlook.due

    def _outlook(self) -> Outlook:
        return self.store.runs.outlook(self.queues)

    def _foresee(self, outlook: Outlook) -> tuple[bool, int | None]:
        """Return whether a claim would find something, and if not, when it may."""
        if outlook.ready:
            return True, None
        at = outlook.changes_at
        return at is not None and at <= self.store.clock.now(), at

    def try_held_up(self) -> None:
        """Ask again for jobs that we weren't given: once they have waited long enough, we are."""
        if self._held_up:
            self.may_be_work = True

    # -- how the last runs went ---------------------------------------------------------

    def run_over(self, run: Run) -> None:
        """Hear that a run is over."""
        if run.began is not None:
            self._unable = 0
        if self.limited:
            self.may_be_work = True
        if not self.crew.running:
            # Now there is room for a job that gets the whole node.
            self.try_held_up()

    def pause(self) -> bool:
        """Leave jobs to others for a while, as nothing can be started here; True if it is news."""
        self.may_be_work = True
        now = monotonic()
        news = self._unable_until <= now
        if news:
            self._unable = min(self._unable + 1, 10)
        self._unable_until = now + min(RETRY * 2 ** (self._unable - 1), LONGEST_RETRY)
        return news
