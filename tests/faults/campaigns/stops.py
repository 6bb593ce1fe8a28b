"""Nodes are stopped (SIGSTOP) for longer than their lease, and go on when others have their jobs.

What is stopped is chosen at random: the node alone, its guard alone, both, or both with all their
jobs, as when a machine freezes. Only a guard that is stopped alone costs no lease: its node goes
on renewing, so nobody may take its jobs over.

**Stale writes.** All that the queue says of the runs of a stopped node is taken down when others
have them and the node still sleeps. It must be the same at the end. Each run prints its number
and its node, so no output can pass for another's. Many first runs end by themselves while their
node is stopped: it wakes with a success in its hands that must not count any more.

**Overlaps.** A stopped process isn't dead: it holds the lock of the ledger, and counts as alive
here. All nodes are on one host, where whoever takes over has to kill first. So the lock must be
free whenever a newer run begins, and nothing is forgiven.

**Stranded.** A node that is stopped in the middle of a transaction holds locks in the store that
nobody else can take from it. No one takes over then; it is woken after a while, and counted.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from random import Random
from subprocess import Popen

from queuectl import Attempt, Job, State
from tests.faults.arena import Arena, Enqueuer
from tests.faults.campaign import campaign
from tests.support import children_of, wait_for

WORKERS = 2
"""So many workers each victim has."""
TAKING_OVER = 8
"""So many has the one node that is never stopped."""
BATCH = 12
"""So many jobs are enqueued at once, whenever fewer than that wait."""
PATIENCE = 3
"""Leases after which a node that holds the store's locks is woken."""


@campaign(
    row=5,
    about="SIGSTOPs of nodes, guards and jobs for longer than the lease, then SIGCONT",
    goal="0 stale writes accepted",
    trials="stops",
    short={"stops": 4, "victims": 4, "lease_ms": 1_000},
    long={"stops": 200, "victims": 10, "lease_ms": 2_000},
)
def stops(arena: Arena, *, stops: int, victims: int, lease_ms: int) -> None:
    """Stop nodes at random while jobs run, let others take over, and wake them."""
    arena.extra_env = {
        "QUEUECTL_LEASE": f"{lease_ms}ms",
        "QUEUECTL_HEARTBEAT": f"{lease_ms // 4}ms",
    }
    work = Work(arena, lease_ms / 1000)
    arena.start_node(count=TAKING_OVER)
    ways = Ways(arena.random)
    all_ = [Victim(arena, lease_ms / 1000, ways) for _ in range(victims)]
    left = stops
    try:
        while left or not all(victim.phase is Phase.AWAKE for victim in all_):
            work.supply()
            names = {node["pid"]: node["id"] for node in arena.queue.nodes()}
            for victim in all_:
                left -= victim.step(names.get(victim.process.pid), may_stop=left > 0)
            time.sleep(0.02)
    finally:
        for victim in all_:
            victim.go_on()
    arena.wait_until_drained()
    arena.check()
    _judge(arena, all_)
    arena.stop_nodes()


class Work:
    """Sees to it that there is always something to run."""

    def __init__(self, arena: Arena, lease: float) -> None:
        self._arena = arena
        self._lease = lease
        self._batches: list[Enqueuer] = []

    def supply(self) -> None:
        """Have some more enqueued when little is left."""
        if self._batches and not self._batches[-1].is_over:
            return
        if self._arena.queue.status().states.get(State.PENDING, 0) < BATCH:
            # By a process of its own: it may have to wait for a lock that a stopped node holds.
            name = f"batch{len(self._batches)}"
            self._batches.append(self._arena.enqueuer(name, BATCH, "sh", "-c", self._script()))

    def _script(self) -> str:
        # Some are short, so that nodes are stopped while they start something, too.
        chance = self._arena.random
        first = 0.0 if chance.random() < 0.3 else chance.uniform(0, 1.5 * self._lease)
        later = chance.uniform(0, 0.3 * self._lease)
        return (
            'echo "$QUEUECTL_ATTEMPT $QUEUECTL_NODE";'
            f" if [ $QUEUECTL_ATTEMPT -gt 1 ]; then sleep {later:.2f}; else sleep {first:.2f}; fi"
        )


class Phase(Enum):
    """What a victim is in."""

    COMING = auto()
    """It starts, or was woken, and isn't registered (anew) yet."""
    AWAKE = auto()
    STOPPED = auto()


class Way(Enum):
    """What is stopped."""

    NODE = "the node"
    GUARD = "the guard"
    BOTH = "the node and its guard"
    ALL = "the node, its guard and its jobs"


class Ways:
    """The ways in random order, each as often as the others."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._deck: list[Way] = []

    def draw(self) -> Way:
        """Return the next one."""
        self._deck = self._deck or self._chance.sample(list(Way), len(Way))
        return self._deck.pop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the queue said of a run of a node that slept, when another node had its job."""

    attempt: Attempt
    output: bytes
    job: Job | None
    """The job, if it was completed by then."""


class Victim:
    """A node that is stopped and woken again and again."""

    def __init__(self, arena: Arena, lease: float, ways: Ways) -> None:
        self.process: Popen[bytes] = arena.start_node(count=WORKERS)
        self.phase = Phase.COMING
        self.stops: list[Way] = []
        self.stranded = 0
        self.evidence: list[Evidence] = []
        self._arena = arena
        self._lease = lease
        self._ways = ways
        self._name: str | None = None
        self._due = 0.0
        """When it is stopped or woken next; while it is stopped, not before."""
        self._stopped_at = 0.0
        self._frozen: Sequence[int] = ()
        self._held: Sequence[Job] = ()

    def step(self, name: str | None, *, may_stop: bool) -> bool:
        """Do what is due, given the name that it is registered under; True if that was a stop."""
        assert self.process.poll() is None, f"a node ended by itself: {self._arena.logs()[-2000:]}"
        match self.phase:
            case Phase.COMING if name is not None and name != self._name:
                self._name = name
                self.phase = Phase.AWAKE
                self._due = time.monotonic() + self._arena.random.uniform(0, self._lease)
            case Phase.AWAKE if name != self._name:
                # It lost its lease by itself: another one held the store's locks for too long.
                self.phase = Phase.COMING
            case Phase.AWAKE if may_stop and time.monotonic() >= self._due:
                self._stop()
                return True
            case Phase.STOPPED if time.monotonic() >= self._due and self._has_lost(name):
                self._wake(taken_over=name is None)
        return False

    def _stop(self) -> None:
        way = self._ways.draw()
        node = self.process.pid
        guards = children_of(node)
        self._frozen = {
            Way.NODE: [node],
            Way.GUARD: guards,
            Way.BOTH: [node, *guards],
            Way.ALL: list(_family(node)),
        }[way]
        _signal(self._frozen, signal.SIGSTOP)
        wait_for(lambda: all(map(_is_still, self._frozen)), "the processes to be stopped")
        self.stops.append(way)
        self.phase = Phase.STOPPED
        self._stopped_at = time.monotonic()
        # When it wakes, its jobs may wait, run or be completed elsewhere.
        self._due = self._stopped_at + self._lease * self._arena.random.uniform(1.1, 2.5)
        running = self._arena.queue.list(state=State.PROCESSING, limit=None)
        self._held = [job for job in running if job.node == self._name]

    def _has_lost(self, name: str | None) -> bool:
        """Tell whether others have its jobs, or it is time to give up waiting for that."""
        if self.stops[-1] is Way.GUARD or name is None:
            return True
        return time.monotonic() > self._stopped_at + PATIENCE * self._lease + 2

    def _wake(self, *, taken_over: bool) -> None:
        if taken_over:
            self.evidence += filter(None, map(self._evidence, self._held))
        elif self.stops[-1] is not Way.GUARD:
            self.stranded += 1
        self.go_on()
        self.phase = Phase.COMING
        if self.stops[-1] is Way.GUARD and not taken_over:
            self._name = None  # It keeps the name that it has.

    def go_on(self) -> None:
        """Let everything go on that is stopped."""
        _signal(self._frozen, signal.SIGCONT)
        self._frozen = ()

    def _evidence(self, held: Job) -> Evidence | None:
        kept = self._arena.queue.attempts(held.id)
        attempt = next((one for one in kept if one.number == held.attempts), None)
        if attempt is None:
            return None
        job = self._arena.queue.get(held.id)
        return Evidence(
            attempt=attempt,
            output=self._arena.queue.output(held.id, attempt.number).stdout,
            job=job if job.state is State.COMPLETED else None,
        )


def _judge(arena: Arena, victims: Sequence[Victim]) -> None:
    """Compare what was taken down with what the queue says now, and the ledger with its runs."""
    evidence = [one for victim in victims for one in victim.evidence]
    ways = [way for victim in victims for way in victim.stops]
    runs = arena.ledger.runs()
    refused = sum(1 for all_ in runs.values() for run in all_ if run.ended and run is not all_[-1])
    arena.report.note(
        stops=len(ways),
        **{f"stops_of_{way.name.lower()}": ways.count(way) for way in Way},
        stranded=sum(victim.stranded for victim in victims),
        jobs=len(runs),
        runs_taken_over=len(evidence),
        taken_over_and_completed_by_others=sum(1 for one in evidence if one.job),
        successes_refused=refused,
    )
    for one in evidence:
        _expect_untouched(arena, one)
    for job in arena.queue.list(limit=None):
        _expect_own_output(arena, job)


def _expect_untouched(arena: Arena, was: Evidence) -> None:
    id, number = was.attempt.job, was.attempt.number
    now = next(one for one in arena.queue.attempts(id) if one.number == number)
    arena.report.expect(
        now == was.attempt, f"a stale write: {id} #{number} was {was.attempt}, and now is {now}"
    )
    arena.report.expect(
        arena.queue.output(id, number).stdout == was.output,
        f"stale output was written: {id} #{number}",
    )
    if was.job is not None:
        job = arena.queue.get(id)
        arena.report.expect(job == was.job, f"a stale write: {was.job} is now {job}")


def _expect_own_output(arena: Arena, job: Job) -> None:
    kept = arena.queue.attempts(job.id)
    said = arena.queue.output(job.id).stdout.decode()
    ran = {run.attempt: run.node for run in arena.ledger.runs_of(job.id)}
    arena.report.expect(
        said == f"{job.attempts} {ran.get(job.attempts)}\n",
        f"{job.id} shows the output of another run than #{job.attempts}: {said!r}",
    )
    for attempt in kept:
        # A run that was ended before it began isn't in the ledger.
        arena.report.expect(
            ran.get(attempt.number, attempt.node) == attempt.node,
            f"{job.id} #{attempt.number} was run by {ran.get(attempt.number)}, not {attempt.node}",
        )
    lost = sum(1 for attempt in kept if attempt.outcome == "lost")
    arena.report.expect(
        (job.failures, job.crashes) == (0, lost),
        f"{job.id} has {job.failures} failures and {job.crashes} crashes after {lost} lost runs",
    )


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _is_still(pid: int) -> bool:
    """Tell whether a process is stopped, or gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in children_of(pid):
        yield from _family(child)
