"""What a node takes in: whether there may be work, when to look again, and who gets a job."""

from collections.abc import Sequence
from math import inf

from queuectl.admission import Offer, Suspects
from queuectl.lifecycle import ROOM_WITHIN
from queuectl.node.caution import Caution
from queuectl.node.config import Config
from queuectl.node.crew import Crew
from queuectl.node.membership import Membership
from queuectl.node.orders import Orders
from queuectl.node.runs import Run
from queuectl.store.contract import Outlook, Store


class Intake:
    """Says whether the node may claim, and for which workers; it is told what comes and goes."""

    def __init__(
        self,
        store: Store,
        *,
        queues: Sequence[str],
        config: Config,
        member: Membership,
        crew: Crew,
        orders: Orders,
    ) -> None:
        self._store = store
        self._queues = queues
        self._config = config
        self._member = member
        self._crew = crew
        self._orders = orders
        self._caution = Caution()
        self.may_be_work = True
        """Whether a claim may give us something."""
        self.next_due: int | None = None
        """When to look for work again, by the store's clock: a job becomes due then, or expires."""
        self._held_up = False
        """Whether jobs were ready that the last claim didn't give us."""

    # -- what may be claimed ------------------------------------------------------------

    @property
    def may_claim(self) -> bool:
        """Whether nothing keeps the node from claiming: a stop, a lost lease, or caution."""
        return (
            not self._orders.takes_no_more
            and self._member.may_claim
            and not self._caution.forbids(
                self._crew.running.values(), self._config.policy.suspicious
            )
        )

    @property
    def wants_more(self) -> bool:
        """Whether it is time to claim: there may be work, and the workers need some."""
        return self.may_be_work and self._crew.workers.hungry and self.may_claim

    def offer(self) -> Offer:
        """Return what we have room for: the workers to claim a job for, and which we get alone."""
        workers: list[int] = []
        if self.may_be_work and self.may_claim:
            workers = self._caution.few(self._crew.workers.wanted())
        crashes, idle = self._config.policy.suspicious, not self._crew.running
        return Offer(workers, self._queues, Suspects(crashes, patience=ROOM_WITHIN, idle=idle))

    # -- when to look again -------------------------------------------------------------

    def looks_in(self) -> float:
        """Return in how many seconds a job becomes due that somebody has time for."""
        if self.next_due is None or not self._crew.workers.idle or not self.may_claim:
            return inf
        return (self.next_due - self._store.clock.now()) / 1000

    def resumes_in(self) -> float:
        """Return in how many seconds a host that couldn't start anything tries again."""
        return self._caution.resumes_in()

    # -- what is known of the work ------------------------------------------------------

    def work_came(self) -> None:
        """Hear that there may be work."""
        self.may_be_work = True

    def nothing_more(self) -> None:
        """Hear that a claim gave us less than we asked for."""
        self.may_be_work = False

    def due_at(self, at: int | None) -> None:
        """Hear when a job is due that is in line again after its run: nobody will tell us then."""
        if at is not None and (self.next_due is None or at < self.next_due):
            self.next_due = at

    def watch_clock(self) -> None:
        """Notice that a job has become due."""
        if self.next_due is not None and self.next_due <= self._store.clock.now():
            self.next_due = None
            self.may_be_work = True

    def look(self) -> None:
        """See whether there is work, if somebody has time for it."""
        self.may_be_work = True
        if self._crew.workers.idle:
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
        return self._store.runs.outlook(self._queues)

    def _foresee(self, outlook: Outlook) -> tuple[bool, int | None]:
        """Return whether a claim would find something, and if not, when it may."""
        if outlook.ready:
            return True, None
        at = outlook.changes_at
        return at is not None and at <= self._store.clock.now(), at

    def try_held_up(self) -> None:
        """Ask again for jobs that we weren't given: once they have waited long enough, we are."""
        if self._held_up:
            self.may_be_work = True

    # -- how the last runs went ---------------------------------------------------------

    def run_over(self, run: Run) -> None:
        """Hear that a run is over."""
        if run.began is not None:
            self._caution.went_well()
        if not self._crew.running:
            # Now there is room for a job that gets the whole node.
            self.try_held_up()

    def unable(self) -> bool:
        """Hear that nothing can be started here, and pause; True if that is news."""
        self.may_be_work = True
        return self._caution.pause()
