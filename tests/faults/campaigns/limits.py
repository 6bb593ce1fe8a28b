"""Nodes are killed while queues have limits: the jobs count by themselves how many run at once.

One queue has slots, for all its jobs and for each key; each run has to find a lock file that
nobody has. The other has a rate.
"""

import re
import signal
import time
from pathlib import Path
from subprocess import Popen

from tests.faults.arena import Arena
from tests.faults.campaign import campaign, percentile
from tests.faults.ledger import Run, uptime

NODES, WORKERS = 4, 8
SLOTS, KEYS = 3, 5
RATE, BURST = 20, 5
SLOW = 3.0
"""Seconds that a run may take from its beginning to its first word, on a busy machine."""
NODE = re.compile(r" (\w+) pid \d+ on ")
SLOT = """\
# Usage: slot.sh FOLDER COUNT COMMAND ...: runs COMMAND in one of so many slots, if one is free.
folder=$1 count=$2 n=1
shift 2
while [ $n -le $count ]; do
    exec 8>>"$folder/$n"
    flock -n 8
    # 1 is another's lock. One that was killed itself, a moment before its shell is, saw nobody.
    [ $? -eq 1 ] || exec "$@"
    n=$((n + 1))
done
echo "$QUEUECTL_JOB_ID" >>"$folder/over"
exec "$@"
"""


@campaign(
    row=21,
    about="nodes killed while queues have a limit, a limit per key, and a rate",
    goal="never more at once than the limits say, counted by the jobs with locks; no more begun"
    " than the rate and its burst allow; full use again within 2 s",
    trials="kills",
    short={"jobs": 90, "kills": 4, "within_ms": 0},
    long={"jobs": 2_000, "kills": 40, "within_ms": 2_000},
)
def limits(arena: Arena, *, jobs: int, kills: int, within_ms: int) -> None:
    """Kill nodes at random while jobs run, until all of them have."""
    arena.queue.set_setting("lease", "10m")
    _set(arena, "slots", limit=SLOTS, key_limit=1)
    _set(arena, "paced", rates=(f"{RATE}/1s:{BURST}",))
    killer = Killer(arena)
    for n in range(jobs):
        pause = str(round(arena.random.uniform(0, 0.1), 3))
        if n % 3:
            key = f"k{arena.random.randrange(KEYS)}"
            held = killer.slot("slots", SLOTS, *killer.slot(key, 1, "sleep", pause))
            arena.enqueue(f"slots-{n}", *held, queue="slots", keys=[key])
        else:
            arena.enqueue(f"paced-{n}", "true", queue="paced")
    killer.start()
    while killer.killed < kills and not arena.is_drained():
        if arena.ledger.started() * (kills + 1) >= jobs * killer.killed:
            time.sleep(arena.random.expovariate(5))
            killer.strike()
        time.sleep(0.02)
    arena.wait_until_drained()
    arena.check()
    runs = [run for of_job in arena.ledger.runs().values() for run in of_job]
    times = killer.recoveries([run for run in runs if run.job.startswith("slots")])
    arena.report.note(
        jobs=jobs, kills=killer.killed, over=len(killer.over),
        full_again_p95_ms=round(percentile(times, 95)) if times else 0,
    )  # fmt: skip
    arena.report.expect(not killer.over, f"ran beside too many others: {killer.over}")
    begun = sorted(run.began for run in runs if run.job.startswith("paced"))
    too_many = [
        (first, last)
        for first in range(len(begun))
        for last in range(first, len(begun))
        if last - first + 1 > BURST + RATE * (begun[last] - begun[first] + SLOW)
    ]
    arena.report.expect(not too_many, f"more than {RATE} a second: {too_many[:3]}")
    arena.report.expect(
        not within_ms or not times or percentile(times, 95) <= within_ms,
        f"p95 of the time to full use is {percentile(times, 95) if times else 0:.0f} ms",
    )
    arena.stop_nodes()


def _set(arena: Arena, queue: str, **limits: object) -> None:
    from queuectl.limits import read_limits

    arena.queue.store.settings.set_limits(queue, lambda _: read_limits(limits))


class Killer:
    """Kills nodes, starts others for them, and knows when."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._folder = arena.folder / "slots"
        self._folder.mkdir()
        self._script = self._folder / "slot.sh"
        self._script.write_text(SLOT)
        self._nodes: list[Popen[bytes]] = []
        self._hits: dict[str, float] = {}
        """When which node was killed."""
        self.killed = 0

    def slot(self, name: str, count: int, *command: str) -> list[str]:
        """Return a command that needs a slot."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return ["sh", str(self._script), str(folder), str(count), *command]

    def start(self) -> None:
        """Start the nodes."""
        self._nodes = [self._arena.start_node(count=WORKERS) for _ in range(NODES)]

    def strike(self) -> None:
        """Kill a node that has greeted, and start another."""
        place = self._arena.random.randrange(NODES)
        node = self._nodes[place]
        found = NODE.search(self._arena.log(self._arena.nodes.index(node)))
        if found is None:
            return
        self._hits[found[1]] = uptime()
        node.send_signal(signal.SIGKILL)
        node.wait()
        self.killed += 1
        self._nodes[place] = self._arena.start_node(count=WORKERS)

    @property
    def over(self) -> list[str]:
        """The jobs that found no free slot."""
        files: list[Path] = list(self._folder.glob("*/over"))
        return [id for file in files for id in file.read_text().split()]

    def recoveries(self, runs: list[Run]) -> list[float]:
        """Return after how many milliseconds all slots were in use again, after each kill.

        Of kills with too few jobs left for that, nothing is said.
        """
        spans = [(run.began, run.ended or self._hits.get(run.node, run.began)) for run in runs]
        found = []
        for hit in self._hits.values():
            later = sorted(began for began, _ in spans if began >= hit)
            for moment in [hit, *later]:
                if sum(began <= moment <= ended for began, ended in spans) >= SLOTS:
                    found.append((moment - hit) * 1000)
                    break
        return found
