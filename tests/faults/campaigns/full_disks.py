"""The disk with the queue on it is filled and freed, again and again, while all are at work."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from queuectl import State
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign, percentile
from tests.faults.enqueuer import enqueue
from tests.support import wait_for

WORKERS = 4
ENQUEUERS = 2
AHEAD = 3
"""So many jobs of an enqueuer are acknowledged before the disk is filled."""
DISK = "32m"
LEASE = 2
"""Seconds. Some of the times are longer."""
NO_SPACE = "no space left"


@campaign(
    row=9,
    about="the disk with the queue on it fills up and is freed again, with everyone at work",
    goal="0 lost acknowledgements, 0 false ones; work resumes by itself within 5 s",
    trials="fills",
    stores=(SQLITE,),
    short={"fills": 2, "jobs": 10, "within_ms": 0},
    long={"fills": 30, "jobs": 40, "within_ms": 5_000},
)
def full_disks(arena: Arena, *, fills: int, jobs: int, within_ms: int) -> None:
    """Fill the disk at a random moment until somebody is told, and see how work goes on."""
    with small_disk(arena) as disk:
        arena.queue.set_setting("heartbeat", f"{LEASE * 1000 // 4}ms")
        arena.queue.set_setting("lease", f"{LEASE}s")
        arena.node(count=WORKERS)
        resumed = [fill_once(arena, disk, n, jobs) for n in range(fills)]
        arena.wait_until_drained()
        arena.check()
        orders = arena.ledger.orders()
        others = [said for said in orders.said if NO_SPACE not in said]
        arena.report.expect(not others, f"enqueuers were told something else: {others[:3]}")
        arena.report.note(
            fills=fills,
            acknowledged=len(orders.acknowledged),
            refused=len(orders.refused),
            unknown=len(orders.unknown),
            node_complaints=arena.log().count(NO_SPACE),
            resumed_ms_p50=round(percentile(resumed, 50) * 1000),
            resumed_ms_most=round(max(resumed) * 1000),
        )
        arena.report.expect(
            not within_ms or max(resumed) * 1000 <= within_ms,
            f"it took {max(resumed):.1f} s until a job was finished again",
        )
        arena.stop_nodes()


def fill_once(arena: Arena, disk: "Disk", number: int, jobs: int) -> float:
    """Fill the disk for a while; return the seconds from freeing it to the next finished job."""
    # Space in the log that could be used again would keep all going without a byte on the disk.
    done = arena.run("db", "vacuum")
    assert done.returncode == 0, done.stderr
    names = [f"e{number}-{n}" for n in range(ENQUEUERS)]
    pause = str(round(arena.random.uniform(0, 0.1), 3))
    enqueuers = [arena.enqueuer(name, jobs, "sleep", pause) for name in names]
    wait_for(lambda: all(_lines(arena, name, "ack") >= AHEAD for name in names), "acknowledgements")
    time.sleep(arena.random.uniform(0, 0.05))
    # Now and then for longer than a lease.
    longest = arena.random.choice([0.3, 0.3, LEASE * 1.5])
    with disk.filled():
        wait_until_refused(arena, disk, number)
        disk.keep_full(arena.random.uniform(0, longest))
        before = _completed(arena)
    freed = time.monotonic()
    # A disk with space takes jobs at once.
    arena.enqueue(f"after-{number}", "true")
    wait_for(lambda: _completed(arena) > before, "a finished job", within=120)
    resumed = time.monotonic() - freed
    for enqueuer in enqueuers:
        enqueuer.join()
    return resumed


def wait_until_refused(arena: Arena, disk: "Disk", number: int) -> None:
    """Enqueue until there is no byte left that could be used for it."""
    path = arena.ledger.orders_of(f"knock{number}")
    with path.open("a", buffering=1) as orders:

        def note(*words: str) -> None:
            print(*words, file=orders)

        for n in range(10_000):
            disk.top_up()
            enqueue(arena.queue, f"knock{number}-{n}", 1, arena.ledger.command("true"), note)
            if _lines(arena, path.name, "refused"):
                return
    raise AssertionError("The disk is full, and takes everything.")


def _lines(arena: Arena, enqueuer: str, word: str) -> int:
    path = arena.ledger.orders_of(enqueuer)
    if not path.exists():
        return 0
    return sum(line.startswith(f"{word} ") for line in path.read_text().splitlines())


def _completed(arena: Arena) -> int:
    return arena.queue.status().states[State.COMPLETED]


class Disk:
    """A small disk that can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    @contextmanager
    def filled(self) -> Iterator[None]:
        """Fill it to the last byte, for a while."""
        self.top_up()
        try:
            yield
        finally:
            self._ballast.unlink()

    def top_up(self) -> None:
        """Take what others have given back."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (2**20, 2**12):
                with suppress(OSError):
                    while file.write(b"\0" * size) == size:
                        continue

    def keep_full(self, seconds: float) -> None:
        """Leave nobody a byte for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.top_up()
            time.sleep(0.01)


@contextmanager
def small_disk(arena: Arena) -> Iterator[Disk]:
    """Have the queue on a disk of its own. The ledger and the logs are elsewhere."""
    folder = arena.folder / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        arena.move_to(str(folder / "queue.db"))
        yield Disk(folder)
    finally:
        arena.queue.close()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
