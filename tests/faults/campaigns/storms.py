"""Many clients meet in the same rows all the time: nobody hears of it, or gets what is taken."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

from queuectl import State
from tests.faults.arena import OPEN, Arena
from tests.faults.campaign import MARIADB, POSTGRES, SERVERS, campaign
from tests.faults.checker import runs_beyond_one
from tests.faults.places import CONFLICTS
from tests.faults.storm import QUEUES
from tests.servers.shared import CHECKOUT
from tests.support import wait_for

LOOKS = ("status", "worker list", "stats", "list --state processing --limit 0")
DEADLOCKS = {
    POSTGRES: "SELECT sum(deadlocks) FROM pg_stat_database",
    MARIADB: "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'",
}
SHOWN = 5


@campaign(
    row=11,
    about="deadlock storm: clients claim, finish, enqueue and count against one another while"
    " nodes work and people look",
    goal="0 errors shown, 0 double claims",
    trials="claims",
    short={"clients": 4, "claims": 400, "nodes": 2, "jobs": 20},
    long={"clients": 16, "claims": 100_000, "nodes": 2, "jobs": 3_000},
    stores=SERVERS,
)
def storms(arena: Arena, *, clients: int, claims: int, nodes: int, jobs: int) -> None:
    """Let the storm pass while nodes run jobs and people look at it; then count."""
    before = deadlocks(arena)
    for _ in range(nodes):
        arena.start_node("--queue", "default", count=4)
    enqueuers = [arena.enqueuer(f"e{n}", jobs // 2, "true") for n in range(2)]
    each, more = divmod(claims, clients)
    with all_of([Client(arena, n, each + (n < more)) for n in range(clients)]) as storm:
        looks = look_until_over(arena, storm)
        wait_for(lambda: all(one.is_over for one in enqueuers), "the enqueuers", within=900)
        wait_for(lambda: is_drained(arena, "default"), "all jobs to be over", within=900)
    arena.check(queue="default")
    arena.stop_nodes()
    beyond = runs_beyond_one(arena.ledger.runs())
    arena.report.expect(beyond == 0, f"{beyond} runs beyond one")
    said = [client.said() for client in storm]
    codes = [client.process.returncode for client in storm]
    arena.report.expect(not any(codes), f"the clients exited with {codes}")
    judge_claims(arena, said)
    shown = [
        *(line for one in said for line in one.other),
        *arena.ledger.orders().said,
        *(line for line in arena.logs().splitlines() if is_of_trouble(line)),
    ]
    arena.report.expect(not shown, f"{len(shown)} errors were shown: {shown[:SHOWN]}")
    arena.report.note(
        clients=clients, jobs_of_nodes=jobs, looks=looks, errors_shown=len(shown),
        deadlocks_the_server_saw=deadlocks(arena) - before,
    )  # fmt: skip


class Client:
    """A process that makes claims, and what it has said."""

    def __init__(self, arena: Arena, number: int, claims: int) -> None:
        self._said = arena.folder / f"client-{number}.said"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.storm", f"client-{number}", str(claims)],
                env=arena.env,
                cwd=CHECKOUT,
                stdout=said,
                stderr=said,
            )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def said(self) -> "Said":
        """Return what it has said."""
        said = Said()
        for line in self._said.read_text().splitlines():
            match line.split():
                case ["got", id, attempt]:
                    said.got.append((id, int(attempt)))
                case ["lost", id, attempt]:
                    said.lost.append((id, int(attempt)))
                case _:
                    said.other.append(line)
        return said


@dataclass(slots=True)
class Said:
    """What a client has said. A claim is an id and an attempt."""

    got: list[tuple[str, int]] = field(default_factory=list)
    lost: list[tuple[str, int]] = field(default_factory=list)
    """Claims that were given to somebody else, too."""
    other: list[str] = field(default_factory=list)


@contextmanager
def all_of(clients: Sequence[Client]) -> Iterator[Sequence[Client]]:
    """Have these clients, and none of them afterwards."""
    try:
        yield clients
    finally:
        for client in clients:
            client.process.kill()
            client.process.wait()


def look_until_over(arena: Arena, storm: Sequence[Client]) -> int:
    """Look at the queue as people do, now and then, and return how often."""
    looks = 0
    for look in cycle(LOOKS):
        done = arena.run(*look.split(), "--json", timeout=300)
        told = (done.returncode, done.stderr)
        arena.report.expect(told == (0, ""), f"{look} came to {told}")
        looks += 1
        if all(client.is_over for client in storm):
            break
        time.sleep(arena.random.expovariate(2))
    return looks


def is_drained(arena: Arena, queue: str) -> bool:
    """Tell whether no job of a queue waits or runs."""
    return not any(arena.queue.list(queue=queue, state=state, limit=1) for state in OPEN)


def judge_claims(arena: Arena, said: "Sequence[Said]") -> None:
    """Compare the claims that clients got with what the queue says."""
    got = Counter(claim for one in said for claim in one.got)
    double = [
        *(claim for claim, times in got.items() if times > 1),
        *(claim for one in said for claim in one.lost),
    ]
    arena.report.note(claims=got.total(), double_claims=len(double))
    arena.report.expect(not double, f"claimed twice: {double[:SHOWN]}")
    jobs = [job for queue in QUEUES for job in arena.queue.list(queue=queue, limit=None)]
    given = {(job.id, attempt) for job in jobs for attempt in range(1, job.attempts + 1)}
    odd = sorted(given ^ got.keys())
    arena.report.expect(not odd, f"claims that one side doesn't know of: {odd[:SHOWN]}")
    stuck = [job.id for job in jobs if job.state == State.PROCESSING]
    arena.report.expect(not stuck, f"claimed, and never let go of: {stuck[:SHOWN]}")


def is_of_trouble(line: str) -> bool:
    """Tell whether a node complains."""
    return bool(CONFLICTS.search(line)) or "Trying again" in line


def deadlocks(arena: Arena) -> int:
    """Return how many deadlocks the server has had to break."""
    assert arena.server is not None
    return int(arena.server.sql(DEADLOCKS[arena.store]))
