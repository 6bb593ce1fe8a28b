"""Many processes enqueue, list and claim at once on SQLite, where only one can write at a time."""

import itertools
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from queuectl import State
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign, percentile

KINDS = ("enqueue", "enqueue", "enqueue", "enqueue by command", "list", "status", "node", "node")
"""Of eight processes, so many are of each kind."""
WORKERS = 2
LARGEST_WAL = 64 * 2**20
LOCKED = ("locked", "busy")
FOR_EVER = 10**9


@campaign(
    row=10,
    about="processes that enqueue, list and claim at once",
    goal='0 visible "locked"; WAL <= 64 MiB; 0 lost',
    trials="calls",
    stores=(SQLITE,),
    short={"processes": 8, "seconds": 1, "most_waiting": 20},
    long={"processes": 32, "seconds": 300, "most_waiting": 400},
)
def crowds(arena: Arena, *, processes: int, seconds: int, most_waiting: int) -> None:
    """Let a crowd at the queue for a while; then see what it was told, and what came of it."""
    kinds = [KINDS[n % len(KINDS)] for n in range(processes)]
    nodes = [arena.start_node(count=WORKERS) for _ in range(kinds.count("node"))]
    barrier = Barrier(arena, most_waiting)
    for n in range(kinds.count("enqueue")):
        arena.enqueuer(f"e{n}", FOR_EVER, "true")
    commands = Commands(arena, [kind for kind in kinds if kind not in {"enqueue", "node"}])
    largest = let_them(arena, barrier, seconds)
    commands.stop()
    barrier.leave_down()
    arena.wait_until_drained()
    arena.check()
    judge(arena, commands, largest)
    arena.report.note(
        processes=processes, seconds=seconds, held_back_seconds=round(barrier.seconds)
    )
    gone = [node.returncode for node in nodes if node.poll() is not None]
    arena.report.expect(not gone, f"nodes ended with {gone}")
    arena.stop_nodes()


def judge(arena: Arena, commands: "Commands", largest: int) -> None:
    """Expect nobody to have been told that something is locked, and a log of moderate size."""
    orders = arena.ledger.orders()
    runs = sum(map(len, arena.ledger.runs().values()))
    many = sum(map(len, commands.took.values()))
    arena.report.note(
        # A run is claimed and finished.
        calls=many + len(orders.acknowledged) + 2 * runs,
        acknowledged=len(orders.acknowledged),
        commands=many,
        runs=runs,
        largest_wal_mib=round(largest / 2**20, 1),
    )
    for name, took in commands.took.items():
        half, most = (round(percentile(took, share) * 1000) for share in (50, 99))
        arena.report.note(**{f"{name}_command_ms_p50": half, f"{name}_command_ms_p99": most})
    arena.report.expect(not orders.said, f"enqueuers were told {orders.said[:3]}")
    arena.report.expect(not commands.failed, f"commands said {commands.failed[:3]}")
    complaints = [line for line in arena.logs().splitlines() if _complains(line)]
    arena.report.expect(not complaints, f"nodes said {complaints[:3]}")
    arena.report.expect(largest <= LARGEST_WAL, f"the WAL had {largest} bytes")


def _complains(text: str) -> bool:
    return any(word in text for word in LOCKED)


class Barrier:
    """Holds enqueuers back when too many jobs wait: nodes have more to do for a job."""

    def __init__(self, arena: Arena, most_waiting: int) -> None:
        self._arena = arena
        self._most = most_waiting
        self._file = arena.folder / "barrier"
        self._since = 0.0
        self.seconds = 0.0
        """How long it was down."""
        arena.extra_env["ENQUEUER_BARRIER"] = str(self._file)

    def mind(self) -> None:
        """Put it down or up, as the number of waiting jobs says."""
        waiting = self._arena.queue.status().states[State.PENDING]
        if waiting > self._most and not self._file.exists():
            self._file.touch()
            self._since = time.monotonic()
        elif waiting < self._most // 2 and self._file.exists():
            self._file.unlink()
            self.seconds += time.monotonic() - self._since

    def leave_down(self) -> None:
        """Let nobody enqueue any more."""
        self._file.write_text("over")


class Commands:
    """Runs commands, as many at once as there are kinds given, each again and again."""

    def __init__(self, arena: Arena, kinds: Sequence[str]) -> None:
        self.took: dict[str, list[float]] = {}
        """The seconds that each has taken, by the name of the command."""
        self.failed: list[str] = []
        """What was said by those that failed, or complained."""
        self._arena = arena
        self._enough = Event()
        self._threads = ThreadPoolExecutor(len(kinds))
        self._loops = [
            self._threads.submit(
                self._enqueue if kind.startswith("enqueue") else self._ask, n, kind
            )
            for n, kind in enumerate(kinds)
        ]

    def stop(self) -> None:
        """Let the last ones end."""
        self._enough.set()
        for loop in self._loops:
            loop.result(600)
        self._threads.shutdown()

    def _ask(self, _: int, kind: str) -> None:
        """List the newest jobs, or count all, until it is enough."""
        arguments = ["list", "--limit", "500"] if kind == "list" else [kind]
        while not self._enough.is_set():
            self._run(*arguments, "--json")

    def _enqueue(self, number: int, _: str) -> None:
        """Enqueue jobs, and write down what is said, until it is enough."""
        command = self._arena.ledger.command("true")
        with self._arena.ledger.orders_of(f"c{number}").open("a", buffering=1) as orders:
            for n in itertools.count():
                if self._enough.is_set():
                    return
                id = f"c{number}-{n}"
                print("ask", id, file=orders)
                done = self._run("enqueue", "--id", id, command, "--quiet")
                print("refused" if done.returncode else "ack", id, file=orders)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        began = time.monotonic()
        done = self._arena.run(*arguments, timeout=600)
        self.took.setdefault(arguments[0], []).append(time.monotonic() - began)
        if done.returncode or _complains(done.stderr):
            self.failed.append(f"{arguments[0]}: {done.returncode}, {done.stderr}")
        return done


def let_them(arena: Arena, barrier: Barrier, seconds: int) -> int:
    """Let all go on for a while, and return how large the write-ahead log was at most."""
    wal = Path(f"{arena.db}-wal")
    largest = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        barrier.mind()
        largest = max(largest, wal.stat().st_size)
        time.sleep(0.02)
    return largest
