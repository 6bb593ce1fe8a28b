"""What jobs and enqueuers saw, written by themselves into files that the product knows nothing of.

Each job has a file of its own, to which every run of it appends, synced to disk:

    start ATTEMPT UPTIME PID NODE      it runs
    end ATTEMPT UPTIME PID NODE        it came to its end
    overlap ATTEMPT UPTIME PID NODE    another run of the same job is alive right now

The file is locked by a run and all that it started, for as long as any of them lives. So two live
runs are seen for certain, whatever the clocks say. The times are the kernel's, in seconds since
it booted: no clock that jumps matters.

Each enqueuer has a file, too:

    ask ID          it is about to enqueue
    ack ID          it was told that the job is safe
    refused ID      it was told that there is no such job
    unknown ID      it was told that nobody knows
    said ID TEXT    what the error was
"""

import fcntl
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WITNESS = """\
# Usage: witness.sh FOLDER [COMMAND ...]: bears witness that COMMAND is run for a job.
file=$1/$QUEUECTL_JOB_ID
shift
exec 9>>"$file"
say() {
    read -r uptime _ </proc/uptime
    echo "$1 $QUEUECTL_ATTEMPT $uptime $$ $QUEUECTL_NODE" >&9
    sync -d "$file"
}
flock -n 9
# 1 is another's lock. One that was killed itself, a moment before its shell is, saw nobody.
[ $? -ne 1 ] || say overlap
say start
"$@"
code=$?
say end
exit $code
"""


@dataclass(slots=True, kw_only=True)
class Run:
    """A run of a job, by its own account."""

    job: str
    attempt: int
    began: float
    pid: int
    node: str
    """The node that started it."""
    ended: float | None = None
    overlapped: bool = False
    """Another run of the same job was alive when it began."""


@dataclass(slots=True)
class Orders:
    """What enqueuers asked for, and what they were told."""

    asked: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    """The errors, each after the id that it is about."""
    doubled: set[str] = field(default_factory=set)
    """Ids that were acknowledged more than once."""


def uptime() -> float:
    """Return the time by the clock of the ledger."""
    return float(Path("/proc/uptime").read_text().split()[0])


class Ledger:
    """The files of one campaign."""

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        self._orders = folder / "orders"
        self._script = folder / "witness.sh"
        for path in (self._runs, self._orders):
            path.mkdir(parents=True, exist_ok=True)
        self._script.write_text(WITNESS)

    def command(self, *command: str) -> str:
        """Return the shell command of a job that bears witness of its runs, and does something."""
        return "exec " + shlex.join(["sh", str(self._script), str(self._runs), *command])

    def orders_of(self, enqueuer: str) -> Path:
        """Return the file in which an enqueuer writes what it asked for and was told."""
        return self._orders / enqueuer

    def runs_of(self, job: str) -> list[Run]:
        """Return the runs of a job so far, in the order in which they began."""
        path = self._runs / job
        return list(_runs(path)) if path.exists() else []

    def is_alive(self, job: str) -> bool:
        """Tell whether anything of a run lives. Ask only when nobody starts another meanwhile."""
        path = self._runs / job
        if not path.exists():
            return False
        with path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def runs(self) -> dict[str, list[Run]]:
        """Return the runs of every job that has run."""
        return {path.name: list(_runs(path)) for path in self._runs.iterdir()}

    def started(self) -> int:
        """Return how many jobs have begun to run; quick."""
        return sum(1 for _ in self._runs.iterdir())

    def orders(self) -> Orders:
        """Return what all enqueuers asked for."""
        orders = Orders()
        for path in self._orders.iterdir():
            for line in path.read_text(errors="replace").splitlines():
                _take(orders, line.split(" ", 2))
        return orders


def _runs(path: Path) -> Iterator[Run]:
    runs: list[Run] = []
    overlapped = False
    for line in path.read_text().splitlines():
        what, attempt, uptime, pid, node = line.split()
        if what == "overlap":
            overlapped = True
        elif what == "start":
            runs.append(
                Run(
                    job=path.name,
                    attempt=int(attempt),
                    began=float(uptime),
                    pid=int(pid),
                    node=node,
                    overlapped=overlapped,
                )
            )
            overlapped = False
        else:
            _run_of(runs, int(attempt), int(pid)).ended = float(uptime)
    yield from runs


def _run_of(runs: Sequence[Run], attempt: int, pid: int) -> Run:
    return next(run for run in reversed(runs) if (run.attempt, run.pid) == (attempt, pid))


def _take(orders: Orders, words: list[str]) -> None:
    # A line that was cut short by a kill says nothing.
    match words:
        case ["ask", id]:
            orders.asked.add(id)
        case ["ack", id]:
            if id in orders.acknowledged:
                orders.doubled.add(id)
            orders.acknowledged.add(id)
        case ["refused", id]:
            orders.refused.add(id)
        case ["unknown", id]:
            orders.unknown.add(id)
        case ["said", id, text]:
            orders.said.append(f"{id}: {text}")
