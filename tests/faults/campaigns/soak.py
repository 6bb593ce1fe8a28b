"""A node works at half of what it can do for a long time, and needs no more than it did at first.

Jobs don't bear witness here: a file for each of a million would fill the disk. That none is lost
is told by the numbers: each job that was enqueued is completed, dead or cancelled in the end, by
the statistics, which survive pruning.
"""

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from queuectl import State
from queuectl.errors import NotFoundError, StateError
from tests.faults.arena import OPEN, Arena
from tests.faults.campaign import SQLITE, campaign
from tests.support import children_of, wait_for

WORKERS = 8
RETENTION = 60
"""Seconds that finished jobs are kept."""
TIDIED = 75
"""Seconds after which a job that is past its retention is pruned: once a minute, and some."""
TICK = 0.1
MOST_WAITING = 5
"""Seconds' worth of jobs that may wait; with more, this machine is too busy for the load."""
CANCEL_AFTER = 0.2
LARGEST_WAL = 64 * 2**20
KINDS: Sequence[tuple[int, dict[str, Any]]] = (
    (700, {"command": "true"}),
    (100, {"command": "exit 3", "max_retries": 1}),
    (20, {"command": "exec sleep 60", "timeout": 0.2, "max_retries": 0}),
    (140, {"command": "seq 1000"}),
    (10, {"command": "seq 20000 >&2"}),
)
"""What is enqueued, and how often in a thousand; the rest is cancelled, running or waiting."""
CANCELLED: Sequence[tuple[int, dict[str, Any]]] = (
    (10, {"command": "exec sleep 60"}),
    (20, {"command": "true", "delay": "1h"}),
)


@campaign(
    row=18,
    about="a node at half load, with failures, timeouts, output, cancelling and pruning",
    goal="memory drift <= 5 %, descriptors +- 0, WAL and tables bounded by retention; 0 lost",
    trials="jobs",
    short={"seconds": 2, "rounds": 1, "heap": 40, "drift_percent": 0},
    long={
        "seconds": 3_600,
        "rounds": 12,
        "heap": 200,
        "drift_percent": 5,
    },
    stores=[SQLITE],
)
def soak(arena: Arena, *, seconds: int, rounds: int, heap: int, drift_percent: int) -> None:
    """Find out how much a node can do, let it do half of that, and watch what it needs.

    What it can do is found out anew in each round: the machine may have other work, too.
    """
    for name in ("retention", "dlq-retention", "events-retention"):
        arena.queue.set_setting(name, f"{RETENTION}s")
    arena.queue.set_setting("heartbeat", "1s")
    node = arena.node("--log", str(arena.folder / "rotated.log"), count=WORKERS)
    watch = Watch(arena, node.pid)
    load = Load(arena, heap)
    part = seconds / rounds
    rates = [load.full_rate(min(10.0, part / 4))]
    watch.wait_until_idle()
    watch.wait_until_renewed()
    before = watch.descriptors()
    steady(load, watch, rate=rates[0] / 2, since=0, seconds=part)
    for n in range(1, rounds):
        rates.append(load.full_rate(min(10.0, part / 4)))
        steady(load, watch, rate=rates[n] / 2, since=part * n, seconds=part)
    watch.wait_until_idle()
    full = max(rates)
    arena.report.note(
        jobs=load.enqueued,
        full_rate=f"{min(rates):.0f} .. {full:.0f}",
        rate=f"{min(rates) / 2:.0f} .. {full / 2:.0f}",
        held_back_seconds=round(load.held_back, 1),
    )
    watch.judge_memory(seconds, drift_percent)
    watch.judge_descriptors(before)
    watch.judge_disk()
    # Half of the time at the full rate, at most: then it was being found out.
    bound = full * 0.75 * (RETENTION + TIDIED) + full * MOST_WAITING + 2 * heap
    watch.judge_tables(round(bound))
    load.judge()
    done = arena.run("db", "check", timeout=600)
    arena.report.expect(done.returncode == 0, f"db check: {done.stdout}{done.stderr}")
    arena.stop_nodes()


def steady(load: "Load", watch: "Watch", *, rate: float, since: float, seconds: float) -> None:
    """Enqueue at an even rate, and look every now and then what is needed for it."""
    every = min(2.0, seconds / 50)
    began = due = sampled = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        if now >= sampled:
            sampled += every
            if watch.sample(since + now - began) > load.heap + rate * MOST_WAITING:
                # Not the node's fault, but no load that it could be judged by either.
                load.held_back += 1
                due = now + 1
        if now > due + 1:
            # This process came late.
            load.held_back += now - due
            due = now
        if now >= due:
            many = round((now - due + TICK) * rate)
            due += many / rate
            load.enqueue(many)
        load.cancel_due()
        watch.look_at_wal()
        time.sleep(TICK / 2)
    load.cancel_due(all_=True)
    watch.sample(since + seconds)


class Load:
    """What is enqueued and cancelled, and how much of it."""

    def __init__(self, arena: Arena, heap: int) -> None:
        self.heap = heap
        """So many jobs wait while it is found out how many can be done."""
        self.enqueued = 0
        self.held_back = 0.0
        """Seconds in which nothing was enqueued, because too much was left."""
        self._cancelled_waiting = 0
        self._arena = arena
        self._to_cancel: deque[tuple[float, str]] = deque()

    def full_rate(self, seconds: float) -> float:
        """Return how many jobs can be done in a second, by trying."""
        began, before = time.monotonic(), self.enqueued - self._open()
        while (done := self.enqueued - self._open() - before) < WORKERS or (
            time.monotonic() < began + seconds
        ):
            self.enqueue(self.heap - self._open())
            self.cancel_due()
            time.sleep(TICK / 5)
        took = time.monotonic() - began
        self.cancel_due(all_=True)
        return done / took

    def enqueue(self, many: int) -> None:
        """Enqueue some jobs of each kind."""
        if many <= 0:
            return
        kinds = [*KINDS, *CANCELLED]
        weights = [weight for weight, _ in kinds]
        chosen = self._arena.random.choices([kind for _, kind in kinds], weights, k=many)
        ids = self._arena.queue.enqueue_many(chosen).ids
        self.enqueued += len(ids)
        doomed = [kind for _, kind in CANCELLED]
        when = time.monotonic() + CANCEL_AFTER
        for id, kind in zip(ids, chosen, strict=True):
            if kind in doomed:
                self._to_cancel.append((when, id))

    def cancel_due(self, *, all_: bool = False) -> None:
        """Cancel what was enqueued to be cancelled, a little later."""
        while self._to_cancel and (all_ or self._to_cancel[0][0] <= time.monotonic()):
            _, id = self._to_cancel.popleft()
            try:
                job = self._arena.queue.cancel(id)
            except (StateError, NotFoundError):
                continue
            # One that runs is counted by its node, when it has ended.
            self._cancelled_waiting += job.state == State.CANCELLED

    def judge(self) -> None:
        """Expect each job that was enqueued to have come to one end."""
        stats = self._arena.queue.stats()
        ended = {state: stats.runs.get(state, 0) for state in ("completed", "dead", "cancelled")}
        self._arena.report.note(**stats.runs, cancelled_before_they_ran=self._cancelled_waiting)
        ends = sum(ended.values()) + self._cancelled_waiting
        self._arena.report.expect(
            ends == self.enqueued, f"{self.enqueued} jobs were enqueued, but {ends} came to an end"
        )

    def _open(self) -> int:
        return open_jobs(self._arena)


def open_jobs(arena: Arena) -> int:
    """Return how many jobs wait or run."""
    states = arena.queue.status().states
    return sum(states[state] for state in OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is needed at a moment. Memory is in bytes."""

    at: float
    """Seconds since the start."""
    node_resident: int
    node_proportional: int
    guard_resident: int
    guard_proportional: int
    node_descriptors: int
    guard_descriptors: int
    spool_files: int
    database: int
    jobs: int
    waiting: int


class Watch:
    """Watches what the node, its guards and the store need, from outside."""

    def __init__(self, arena: Arena, node: int) -> None:
        self.arena = arena
        self._node = node
        self._guards = wait_for(lambda: children_of(node), "a guard")
        info = json.loads(arena.run("db", "info", "--json").stdout)
        self._spool = Path(info["files"]) / "spool"
        self._wal = Path(f"{arena.db}-wal")
        self._largest_wal = 0
        self._samples: list[Sample] = []
        self._most_rows: dict[str, int] = {}
        self._rows_taken = time.monotonic()

    def wait_until_idle(self) -> None:
        """Wait until all jobs are over, and the node has nothing left to do."""
        wait_for(lambda: open_jobs(self.arena) == 0, "all jobs to be over", within=600)
        wait_for(lambda: not any(map(children_of, self._guards)), "the last runs to end")

    def wait_until_renewed(self) -> None:
        """Wait until the node has renewed its lease, for which it opens the store once more."""
        seen = self._seen()
        wait_for(lambda: self._seen() != seen, "a renewal")

    def _seen(self) -> Any:
        [node] = self.arena.queue.nodes()
        return node["seen_at"]

    def descriptors(self) -> tuple[int, int]:
        """Return how many descriptors the node and its guards have, once that doesn't change."""

        def now() -> tuple[int, int]:
            return _descriptors(self._node), sum(map(_descriptors, self._guards))

        def steady() -> tuple[int, int] | None:
            first = now()
            time.sleep(0.1)
            return first if first == now() else None

        return wait_for(steady, "an unchanging number of descriptors")

    def sample(self, at: float) -> int:
        """Take down what is needed right now, and return how many jobs wait or run."""
        states = self.arena.queue.status().states
        waiting = sum(states[state] for state in OPEN)
        sample = Sample(
            at=round(at, 1),
            node_resident=_memory(self._node, "Rss"),
            node_proportional=_memory(self._node, "Pss"),
            guard_resident=sum(_memory(guard, "Rss") for guard in self._guards),
            guard_proportional=sum(_memory(guard, "Pss") for guard in self._guards),
            node_descriptors=_descriptors(self._node),
            guard_descriptors=sum(map(_descriptors, self._guards)),
            spool_files=self._outputs(),
            database=self.arena.db.stat().st_size if self.arena.store == SQLITE else 0,
            jobs=sum(states.values()),
            waiting=waiting,
        )
        self._samples.append(sample)
        with (self.arena.folder / "samples.jsonl").open("a") as file:
            print(json.dumps(asdict(sample)), file=file)
        if time.monotonic() > self._rows_taken + 30:
            self._take_rows()
        return waiting

    def _outputs(self) -> int:
        """Count the files with output; empty ones wait for the next run."""
        files = (path for end in ("out", "err") for path in self._spool.rglob(f"*.{end}"))
        return sum(_size(path) > 0 for path in files)

    def look_at_wal(self) -> None:
        """Take down the size of the write-ahead log."""
        if self.arena.store == SQLITE:
            self._largest_wal = max(self._largest_wal, self._wal.stat().st_size)

    def judge_memory(self, seconds: int, drift_percent: int) -> None:
        """Expect as much memory to be needed at the end as after the first tenth."""
        # On a machine that stands still for a moment, a tenth may be too short for a sample.
        first = [s for s in self._samples if seconds * 0.1 <= s.at < seconds * 0.2]
        last = [s for s in self._samples if s.at >= seconds * 0.9]
        first = first or self._samples[:1]
        for who in ("node", "guard"):
            for how in ("resident", "proportional"):
                name = f"{who}_{how}"
                then, now = (median(getattr(s, name) for s in some) for some in (first, last))
                drift = 100 * (now - then) / then
                self.arena.report.note(
                    **{
                        f"{name}_mib": f"{then / 2**20:.2f} .. {now / 2**20:.2f}",
                        f"{name}_drift_percent": round(drift, 2),
                    }
                )
                # What is shared with others counts for less or more when they come and go.
                self.arena.report.expect(
                    not drift_percent or how == "proportional" or drift <= drift_percent,
                    f"the {who}'s memory grew by {drift:.1f} %",
                )

    def judge_descriptors(self, before: tuple[int, int]) -> None:
        """Expect the node and its guard to have as many descriptors as before, and no files."""
        after = self.descriptors()
        files = self._outputs()
        self.arena.report.note(
            descriptors_before=" + ".join(map(str, before)),
            descriptors_after=" + ".join(map(str, after)),
            most_descriptors=max(s.node_descriptors + s.guard_descriptors for s in self._samples),
            most_spool_files=max(s.spool_files for s in self._samples),
        )
        self.arena.report.expect(after == before, f"descriptors: {before} at first, then {after}")
        self.arena.report.expect(files == 0, f"{files} files of output are left")

    def judge_disk(self) -> None:
        """Expect the write-ahead log and the node's own log to stay within their limits."""
        logs = sum(path.stat().st_size for path in self.arena.folder.glob("rotated.log*"))
        self.arena.report.note(log_mib=round(logs / 2**20, 1))
        self.arena.report.expect(logs <= 61 * 2**20, f"the node's log takes {logs} bytes")
        if self.arena.store == SQLITE:
            largest = self._largest_wal
            self.arena.report.note(
                largest_wal_mib=round(largest / 2**20, 1),
                largest_database_mib=round(max(s.database for s in self._samples) / 2**20, 1),
                last_database_mib=round(self._samples[-1].database / 2**20, 1),
            )
            self.arena.report.expect(largest <= LARGEST_WAL, f"the WAL had {largest} bytes")

    def judge_tables(self, bound: int) -> None:
        """Expect no more jobs than come in within the time that they are kept."""
        if self.arena.store == SQLITE:
            self._take_rows()
        most = max(s.jobs for s in self._samples)
        rows = {f"most_{table}": many for table, many in self._most_rows.items()}
        self.arena.report.note(
            most_waiting=max(s.waiting for s in self._samples),
            bound_of_jobs=bound,
            **(rows | {"most_jobs": most}),
        )
        self.arena.report.expect(most <= bound, f"{most} jobs are kept, more than {bound}")
        # A job that fails once runs twice.
        attempts = self._most_rows.get("attempts", 0)
        self.arena.report.expect(
            attempts <= 2 * bound, f"{attempts} attempts are kept, more than {2 * bound}"
        )
        # Of a hundred jobs three are cancelled and about twelve die; of the prunings there are few.
        events = self._most_rows.get("events", 0)
        self.arena.report.expect(
            events <= bound // 5 + 100, f"{events} events are kept of at most {bound} jobs"
        )

    def _take_rows(self) -> None:
        """Count the rows of all tables; in a process of its own, for the sake of file locks."""
        self._rows_taken = time.monotonic()
        if self.arena.store == SQLITE:
            counter = [sys.executable, "-c", COUNT_ROWS, str(self.arena.db)]
            done = subprocess.run(counter, capture_output=True, text=True, check=True, timeout=60)
            for table, many in json.loads(done.stdout).items():
                self._most_rows[table] = max(many, self._most_rows.get(table, 0))


COUNT_ROWS = """
import json, sqlite3, sys
db = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True, timeout=30)
tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
count = "SELECT count(*) FROM "
print(json.dumps({name: db.execute(count + name).fetchone()[0] for name in tables}))
"""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # Its run is over, and it was renamed.


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _memory(pid: int, kind: str) -> int:
    """Return a kind of memory of a process, in bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    [line] = [line for line in text.splitlines() if line.startswith(f"{kind}:")]
    return int(line.split()[1]) * 1024
