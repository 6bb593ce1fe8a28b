"""Connections are cut around COMMIT: of those who enqueue, and of nodes that claim and finish."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from random import Random

from queuectl import Queue, State
from queuectl.errors import QueuectlError, StoreUnsettledError
from tests.faults.arena import OPEN, Arena, Enqueuer
from tests.faults.campaign import SERVERS, campaign
from tests.faults.checker import runs_beyond_one
from tests.faults.places import Place
from tests.servers import HOST
from tests.servers.proxy import Moment, Proxy
from tests.support import wait_for

WORKERS = 4
BACKLOG = 100
"""No more jobs are asked for while so many wait."""
AROUND_COMMIT: tuple[Moment, ...] = ("before", "during", "after")
STUCK_AFTER = 150.0
"""Seconds within which all jobs must be over, once nobody cuts any more."""
ANY = "any"
"""At any moment, whatever is under way."""


@campaign(
    row=6,
    about="connection cuts around COMMIT (enqueue, claim, finish) and at any moment, with and"
    " without a time in which nobody gets in again",
    goal="0 duplicate ids, 0 lost acknowledgements, 0 jobs stuck, each job run once",
    trials="cuts",
    short={"cuts": 14, "links": 1, "batch": 12, "longest_ms": 200},
    long={"cuts": 500, "links": 3, "batch": 100, "longest_ms": 6_000},
    stores=SERVERS,
)
def cuts(arena: Arena, *, cuts: int, links: int, batch: int, longest_ms: int) -> None:
    """Cut the links to some enqueuers and to some nodes, while jobs come in and run."""
    with ExitStack() as stack:
        every = [stack.enter_context(bad_link(arena, longest_ms)) for _ in range(2 * links)]
        to_enqueuers, to_nodes = every[:links], every[links:]
        for link in to_nodes:
            link.start_node()
        sources: list[Source] = []
        for n, link in enumerate(to_enqueuers):
            sources += [Named(arena, f"named{n}", link.url), Nameless(arena, f"not{n}", link.url)]
        wait_for(lambda: len(arena.queue.nodes()) == links, "the nodes")
        cut_while_busy(arena, every, sources, cuts, batch)
        wait_for(lambda: all(source.is_idle for source in sources), "the enqueuers", within=300)
        for source in sources:
            source.close()
        stuck = still_open_after(arena, STUCK_AFTER)
        arena.report.expect(not stuck, f"stuck: {stuck}")
        arena.check()
        arena.stop_nodes()
    report(arena, to_enqueuers, to_nodes)


def cut_while_busy(
    arena: Arena, links: "Sequence[BadLink]", sources: "Sequence[Source]", cuts: int, batch: int
) -> None:
    """Cut all links at once, so often in all; meanwhile there are always jobs to run."""
    share, more = divmod(cuts, len(links))
    with ThreadPoolExecutor(len(links)) as pool:
        cutters = [pool.submit(link.cut, share + (n < more)) for n, link in enumerate(links)]
        while not all(cutter.done() for cutter in cutters):
            if arena.queue.status().states.get(State.PENDING, 0) < BACKLOG:
                for source in sources:
                    if source.is_idle:
                        source.enqueue(batch)
            time.sleep(0.02)
        for cutter in cutters:
            cutter.result()


def still_open_after(arena: Arena, seconds: float) -> dict[str, int]:
    """Wait for all jobs to be over, and return how many aren't, by their state."""
    with suppress(AssertionError):
        wait_for(arena.is_drained, within=seconds)
    states = arena.queue.status().states
    return {str(state): states[state] for state in OPEN if states.get(state)}


def report(arena: Arena, to_enqueuers: "Sequence[BadLink]", to_nodes: "Sequence[BadLink]") -> None:
    """Tell what was done, and what came of it."""
    enqueues, turns = (
        sum((link.done for link in links), Counter[str]()) for links in (to_enqueuers, to_nodes)
    )
    done = enqueues + turns
    orders, runs = arena.ledger.orders(), arena.ledger.runs()
    beyond = runs_beyond_one(runs)
    arena.report.expect(beyond == 0, f"{beyond} runs beyond one")
    arena.report.note(
        cuts=done.total(), cuts_of_enqueuers=enqueues.total(), cuts_of_nodes=turns.total(),
        **{f"{moment}_commit": done[moment] for moment in AROUND_COMMIT}, at_any_moment=done[ANY],
        then_shut_out=sum(link.shut_out for link in (*to_enqueuers, *to_nodes)),
        acknowledged=len(orders.acknowledged), told_no=len(orders.refused),
        told_that_nobody_knows=len(orders.unknown), ran=len(runs), runs_beyond_one=beyond,
    )  # fmt: skip


class BadLink:
    """A network between some clients and the server, which fails now and then."""

    def __init__(self, arena: Arena, place: Place, proxy: Proxy, longest: float) -> None:
        self._arena = arena
        self._place = place
        self._proxy = proxy
        self._random = Random(arena.random.random())
        self._longest = longest
        self.url = place.through(proxy.port)
        self.done: Counter[str] = Counter()
        """How often it was cut, and when."""
        self.shut_out = 0
        """How often nobody got in again for a while."""

    def start_node(self) -> None:
        """Start a node that has no other way to the server."""
        self._arena.extra_env["QUEUECTL_DB"] = self.url
        self._arena.start_node(count=WORKERS)
        del self._arena.extra_env["QUEUECTL_DB"]

    def cut(self, times: int) -> None:
        """Cut it so often, each time when its clients are at work again."""
        while self.done.total() < times:
            time.sleep(self._random.expovariate(20))
            moment = self._random.choice((*AROUND_COMMIT, None))
            shut = self._random.random() < 0.4
            if moment is None:
                self._cut_now(shut)
            else:
                self._cut_at_commit(moment, shut)
            if shut:
                self.shut_out += 1
                time.sleep(self._outage())
                self._proxy.refuse(False)

    def _cut_now(self, shut: bool) -> None:
        wait_for(lambda: self._proxy.connections, "somebody to cut off", within=300)
        time.sleep(self._random.expovariate(50))
        connected = self._proxy.connections
        if shut:
            self._proxy.refuse()
        self._proxy.cut()
        self.done[ANY] += connected > 0

    def _cut_at_commit(self, moment: Moment, shut: bool) -> None:
        fired = self._proxy.fired
        self._proxy.cut_when(self._place.commit, when=moment, shut=shut)
        wait_for(lambda: self._proxy.fired > fired, "a commit to cut off", within=300)
        self.done[moment] += 1

    def _outage(self) -> float:
        """Return for how many seconds nobody gets in; seldom for longer than clients wait."""
        if self._random.random() < 0.05:
            return self._longest
        return self._random.uniform(0.02, min(0.5, self._longest))


@contextmanager
def bad_link(arena: Arena, longest_ms: int) -> Iterator[BadLink]:
    """Have a link to the server that can be cut."""
    assert arena.server is not None
    place = Place(kind=arena.store, port=arena.server.port, url=arena.url)
    with Proxy(HOST, place.port) as proxy:
        yield BadLink(arena, place, proxy, longest_ms / 1000)


class Named:
    """Enqueues jobs under ids of its own, in processes of their own."""

    def __init__(self, arena: Arena, name: str, url: str) -> None:
        self._arena = arena
        self._name = name
        self._url = url
        self._started: list[Enqueuer] = []

    @property
    def is_idle(self) -> bool:
        """Whether it has done what it was asked for."""
        return not self._started or self._started[-1].is_over

    def enqueue(self, many: int) -> None:
        """Begin to enqueue so many."""
        name = f"{self._name}-{len(self._started)}"
        self._started.append(self._arena.enqueuer(name, many, "true", url=self._url))

    def close(self) -> None:
        """Be done. Whatever went wrong with a process comes to light."""
        for enqueuer in self._started:
            enqueuer.join()


class Nameless:
    """Enqueues jobs and leaves it to the queue to name them; a tag tells which request it was.

    The ledger learns of them in the end, when it can be said which id each request led to. Of an
    id that no request accounts for, the checker says that nobody has asked for it.
    """

    def __init__(self, arena: Arena, name: str, url: str) -> None:
        self._arena = arena
        self._name = name
        self._queue = Queue(url)
        self._command = arena.ledger.command("true")
        self._pool = ThreadPoolExecutor(1)
        self._work: Future[None] | None = None
        self._asked = 0
        self._told: dict[str, str] = {}
        """The id by the tag, for what was acknowledged."""
        self._unknown: set[str] = set()
        self._refused: dict[str, str] = {}
        """What the error was, by the tag."""

    @property
    def is_idle(self) -> bool:
        """Whether it has done what it was asked for."""
        return self._work is None or self._work.done()

    def enqueue(self, many: int) -> None:
        """Begin to enqueue so many."""
        self._work = self._pool.submit(self._enqueue, many)

    def _enqueue(self, many: int) -> None:
        for _ in range(many):
            tag = f"{self._name}-{self._asked}"
            self._asked += 1
            try:
                self._told[tag] = self._queue.enqueue(self._command, tags=[tag]).id
            except StoreUnsettledError:
                self._unknown.add(tag)
            except QueuectlError as error:
                self._refused[tag] = str(error)

    def close(self) -> None:
        """Tell the ledger which ids it was told, or could not be told."""
        self._pool.shutdown()
        if self._work is not None:
            self._work.result()
        self._queue.close()
        with self._arena.ledger.orders_of(self._name).open("w") as orders:
            for id in self._told.values():
                print(f"ask {id}\nack {id}", file=orders)
            for tag in self._unknown:
                found = self._arena.queue.list(tag=tag, limit=1)
                for id in [job.id for job in found]:
                    print(f"ask {id}\nunknown {id}", file=orders)
            for tag, error in self._refused.items():
                print(f"refused {tag}\nsaid {tag} {error}", file=orders)


Source = Named | Nameless
