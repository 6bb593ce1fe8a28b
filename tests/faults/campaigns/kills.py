"""Nodes, guards, jobs, enqueuers and the database server are killed at random moments."""

import os
import re
import signal
import time
from collections.abc import Callable
from itertools import pairwise

from tests.faults.arena import Arena, Enqueuer
from tests.faults.campaign import SQLITE, campaign
from tests.faults.checker import runs_beyond_one
from tests.faults.ledger import Run, uptime
from tests.support import children_of

WORKERS = 4
NODES = 3
ENQUEUERS = 4
SLOW = 3.0
"""Seconds that a run may take from its beginning to its first word, on a busy machine."""
TICK = 0.02
"""Seconds by which two times of the kernel may be apart, and be the same."""
NODE = re.compile(r" (\w+) pid \d+ on ")
Victim = str | int


@campaign(
    row=1,
    about="random SIGKILLs of nodes, guards, jobs, enqueuers and the database server",
    goal="0 acknowledged jobs lost, 0 finished twice, 0 never asked for; no run beyond one but of"
    " what was in flight at a kill",
    trials="kills",
    short={"jobs": 200, "kills": 12},
    long={"jobs": 50_000, "kills": 2_000},
    owns_server=True,
)
def kills(arena: Arena, *, jobs: int, kills: int) -> None:
    """Kill at random while jobs come in and run, until both are through."""
    killer = Killer(arena, jobs)
    while killer.killed < kills or not killer.asked_for_all:
        # As many kills are done as jobs have run, in proportion; then at random a little later.
        if killer.killed < kills and killer.is_due(jobs * killer.killed // (kills + 1)):
            time.sleep(arena.random.expovariate(20))
            killer.strike()
        else:
            time.sleep(0.01)
        killer.replace_the_dead()
    arena.wait_until_drained()
    arena.check()
    runs = arena.ledger.runs()
    arena.report.note(
        jobs=jobs, kills=killer.killed, **killer.done, runs_beyond_one=runs_beyond_one(runs)
    )
    unexplained = [
        f"{before.job} #{after.attempt}"
        for all_ in runs.values()
        for before, after in pairwise(all_)
        if not killer.explains(before, after)
    ]
    arena.report.expect(
        not unexplained, f"runs that no kill of the run before explains: {unexplained}"
    )
    arena.stop_nodes()


class Killer:
    """Kills at random, and puts something new in the place of what it killed."""

    def __init__(self, arena: Arena, jobs: int) -> None:
        self.killed = 0
        self.done: dict[str, int] = {}
        self._hits: list[tuple[float, Victim]] = []
        """When it killed whom: the id of a node, or the pid of a job."""
        self._arena = arena
        self._count, self._count_again = 0, 0.0
        self._jobs = jobs
        self._asked = 0
        """By enqueuers that are over."""
        self._started = 0
        self._enqueuers: dict[Enqueuer, int] = {}
        """Those at work, and how many jobs each is to ask for."""
        for n in range(ENQUEUERS):
            self._enqueue(jobs // ENQUEUERS + (n < jobs % ENQUEUERS))
        self._nodes = [arena.start_node(count=WORKERS) for _ in range(NODES)]

    def strike(self) -> None:
        """Kill something."""
        ways: list[tuple[Callable[[], bool], int]] = [
            (self._kill_node, 20),
            (self._kill_guard, 10),
            (self._kill_job, 60),
            (self._kill_enqueuer, 2),
            (self._kill_server, 0 if self._arena.store == SQLITE else 3),
        ]
        [way] = self._arena.random.choices([w for w, _ in ways], [weight for _, weight in ways])
        if way():
            self.killed += 1
            name = way.__name__.removeprefix("_kill_") + "s_killed"
            self.done[name] = self.done.get(name, 0) + 1

    @property
    def asked_for_all(self) -> bool:
        """Whether as many jobs were asked for as there are to be."""
        return self._asked == self._jobs

    def is_due(self, started: int) -> bool:
        """Tell whether so many jobs have begun, as of a moment ago: counting takes a while, too.

        Not all that was asked for comes to be, so the last kills wait for nothing.
        """
        now = time.monotonic()
        if now > self._count_again:
            self._count = self._arena.ledger.started()
            self._count_again = now + 20 * (time.monotonic() - now)
        return self.asked_for_all or self._count >= started

    def replace_the_dead(self) -> None:
        """Start a node for each that is gone, and an enqueuer for what others left undone."""
        self._nodes = [
            node if node.poll() is None else self._arena.start_node(count=WORKERS)
            for node in self._nodes
        ]
        for enqueuer, many in list(self._enqueuers.items()):
            if enqueuer.is_over:
                del self._enqueuers[enqueuer]
                self._asked += enqueuer.asked
                self._enqueue(many - enqueuer.asked)

    def _enqueue(self, many: int) -> None:
        """Start an enqueuer of so many jobs."""
        if many:
            self._started += 1
            pause = str(round(self._arena.random.uniform(0, 0.02), 3))
            name = f"e{self._started}"
            self._enqueuers[self._arena.enqueuer(name, many, "sleep", pause)] = many

    def explains(self, before: Run, after: Run) -> bool:
        """Tell whether a run was in flight when its node or itself was killed."""
        return any(
            victim in (before.node, before.pid) and before.began - SLOW <= at <= after.began + TICK
            for at, victim in self._hits
        )

    def _any_node(self) -> tuple[int, str]:
        """Return the pid and the id of a node; the id is empty before it has said it."""
        node = self._arena.random.choice(self._nodes)
        said = NODE.search(self._arena.log(self._arena.nodes.index(node)))
        return node.pid, said[1] if said else ""

    def _kill_node(self) -> bool:
        pid, id = self._any_node()
        return self._kill(pid, id)

    def _kill_guard(self) -> bool:
        pid, id = self._any_node()
        killed = [self._kill(guard, id) for guard in children_of(pid)]
        return any(killed)

    def _kill_job(self) -> bool:
        pid, _ = self._any_node()
        jobs = [job for guard in children_of(pid) for job in children_of(guard)]
        if not jobs:
            return False
        job = self._arena.random.choice(jobs)
        return self._kill(job, job)

    def _kill_enqueuer(self) -> bool:
        if not self._enqueuers:
            return False
        return self._kill(self._arena.random.choice(list(self._enqueuers)).process.pid, "")

    def _kill_server(self) -> bool:
        self._arena.own_server.kill()
        self._arena.own_server.start()
        return True

    def _kill(self, pid: int, victim: Victim) -> bool:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self._hits.append((uptime(), victim))
        return True
