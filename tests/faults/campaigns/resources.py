"""Nodes of different sizes are killed while jobs of random needs run, which count what they use.

Each machine has a folder of lock files: one for each part of its cores, memory and licenses, and
one for each quarter of a device. A run takes as many as its job needs, of its devices those that
it was told; if somebody has them, there was more in use than there is. After that, jobs run
undisturbed, and how well the nodes are used is compared with a simulation in which each node always
takes the largest job that fits.
"""

import heapq
import os
import random
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import Popen

from tests.faults.arena import Arena
from tests.faults.campaign import campaign
from tests.support import children_of, wait_for

MACHINES: Mapping[str, Mapping[str, float]] = {
    "a": {"cpu": 4, "mem": 8},
    "b": {"cpu": 8, "mem": 16, "gpu": 2},
    "c": {"cpu": 16, "mem": 48, "gpu": 4, "license": 2},
    "d": {"cpu": 12, "mem": 32, "license": 1},
}
"""What each has; memory in GiB."""
LARGEST = {"cpu": 16.0, "mem": 48.0, "gpu": 4.0}
PARTS = {"cpu": 2, "mem": 1, "gpu": 4, "license": 1}
"""How many locks one of each has."""
WORKERS = 24
GREETED = re.compile(r" pid \d+ on ")
COUNT = """\
import fcntl, os, sys

folder, needs, *command = sys.argv[1:]
machine = os.path.join(folder, os.environ["MACHINE"])
held, over = [], []


def take(count, names):
    for name in names:
        if not count:
            return True
        file = open(os.path.join(machine, name), "a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        os.set_inheritable(file.fileno(), True)
        held.append(file)
        count -= 1
    return not count


for part in needs.split(","):
    name, count = part.split(":")
    count = int(count)
    if name != "gpu":
        if not take(count, [one for one in os.listdir(machine) if one.startswith(f"{name}-")]):
            over.append(part)
        continue
    told = os.environ["CUDA_VISIBLE_DEVICES"]
    devices = told.split(",")
    if told != os.environ["QUEUECTL_GPU"] or len(set(devices)) != max(1, count // 4):
        over.append(f"{part} on {told}")
    for device in devices:
        if not take(min(count, 4), [f"gpu-{device}-{n}" for n in range(4)]):
            over.append(f"{part} on {told}")
if over:
    with open(os.path.join(folder, "over"), "a") as file:
        print(os.environ["QUEUECTL_JOB_ID"], os.environ["MACHINE"], *over, file=file)
os.execvp(command[0], command)
"""


@campaign(
    row=28,
    about="nodes of different sizes killed while jobs of random needs run; then undisturbed ones",
    goal="never more in use than a node has, and no device given to two, counted by the jobs with"
    " locks; nodes used at least 0.9 as well as by best fit; the largest job begins within twice"
    " the longest run ahead of it",
    trials="kills",
    short={"jobs": 40, "kills": 3, "measured": 24, "percent": 0},
    long={"jobs": 2_000, "kills": 50, "measured": 500, "percent": 90},
)
def resources(arena: Arena, *, jobs: int, kills: int, measured: int, percent: int) -> None:
    """Kill nodes while jobs run, until all have; then let others run in peace."""
    arena.queue.set_setting("lease", "10m")
    machines = Machines(arena)
    chance = arena.random
    for n in range(jobs):
        machines.enqueue(f"k{n}", some_needs(chance), chance.uniform(0.05, 0.4))
    machines.start()
    killed = 0
    while killed < kills and not arena.is_drained():
        if arena.ledger.started() * (kills + 1) >= jobs * killed:
            killed += machines.strike()
        time.sleep(0.02)
    arena.wait_until_drained()
    arena.report.note(jobs=jobs, kills=killed, over=len(machines.over))
    arena.report.expect(not machines.over, f"used more than there is: {machines.over[:5]}")
    machines.stop()
    if measured:
        _measure(arena, machines, measured, percent)
    arena.check()
    arena.report.expect(not machines.over, f"used more than there is: {machines.over[:5]}")
    arena.stop_nodes()


def some_needs(chance: random.Random) -> dict[str, float]:
    """Make up what a job needs."""
    needs: dict[str, float] = {"cpu": chance.choice([0.5, 1, 1, 1, 2, 2, 3, 4, 6, 8])}
    if chance.random() < 0.7:
        needs["mem"] = chance.choice([1, 1, 2, 4, 8])
    if chance.random() < 0.2:
        needs["gpu"] = chance.choice([0.25, 0.5, 0.5, 1, 1, 2])
    if chance.random() < 0.05:
        needs["license"] = 1
    return needs


def _measure(arena: Arena, machines: "Machines", jobs: int, percent: int) -> None:
    """Have jobs run that are all there from the beginning, the largest at a third of them."""
    needs = [some_needs(arena.random) for _ in range(jobs)]
    needs[jobs // 3] = LARGEST
    for n, one in enumerate(needs):
        machines.enqueue(f"m{n}", one, arena.random.uniform(0.5, 2.0))
    machines.start()
    arena.wait_until_drained()
    runs = [arena.ledger.runs_of(f"m{n}") for n in range(jobs)]
    spans = [(of_job[-1].began, of_job[-1].ended or of_job[-1].began) for of_job in runs]
    lasted = [ended - began for began, ended in spans]
    took = max(ended for _, ended in spans) - min(began for began, _ in spans)
    share = round(100 * best_fit(needs, lasted) / took)
    ahead = max(began for began, _ in spans[: jobs // 3])
    waited = spans[jobs // 3][0] - ahead
    longest = max(lasted)
    arena.report.note(
        measured=jobs,
        percent_of_best_fit=share,
        largest_waited_s=round(max(waited, 0.0), 2),
        longest_run_s=round(longest, 2),
    )
    arena.report.expect(share >= percent, f"used {share} % as well as by best fit")
    arena.report.expect(
        waited <= 2 * longest, f"the largest began {waited:.1f} s after all that came before it"
    )


def best_fit(needs: Sequence[Mapping[str, float]], lasts: Sequence[float]) -> float:
    """Return how long it would take if each node always began the largest job that fits.

    Devices are counted only, as if any parts of them made a whole.
    """
    free = {name: dict(has) for name, has in MACHINES.items()}
    waiting = list(range(len(needs)))
    over: list[tuple[float, int, str]] = [(0.0, -1, name) for name in MACHINES]
    now = 0.0
    while over:
        now, ended, machine = heapq.heappop(over)
        left = free[machine]
        if ended >= 0:
            for name, many in needs[ended].items():
                left[name] += many
        while True:
            fitting = [
                n
                for n in waiting
                if all(left.get(name, 0) >= many for name, many in needs[n].items())
            ]
            if not fitting:
                break
            has = MACHINES[machine]
            best = max(
                fitting, key=lambda n: max(many / has[name] for name, many in needs[n].items())
            )
            waiting.remove(best)
            for name, many in needs[best].items():
                left[name] -= many
            heapq.heappush(over, (now + lasts[best], best, machine))
    assert not waiting
    return now


class Machines:
    """What there is, in lock files, and the nodes on it."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._folder = arena.folder / "machines"
        self._script = arena.folder / "count.py"
        self._script.write_text(COUNT)
        self._nodes: dict[str, Popen[bytes]] = {}
        for machine, has in MACHINES.items():
            folder = self._folder / machine
            folder.mkdir(parents=True)
            for name, many in has.items():
                for path in _locks(folder, name, many):
                    path.touch()

    def enqueue(self, id: str, needs: Mapping[str, float], lasts: float) -> None:
        """Enqueue a job that counts what it uses."""
        parts = ",".join(f"{name}:{int(many * PARTS[name])}" for name, many in needs.items())
        asked = {name: f"{many}G" if name == "mem" else many for name, many in needs.items()}
        count = [sys.executable, "-I", "-S", str(self._script), str(self._folder), parts]
        self._arena.enqueue(id, *count, "sleep", str(round(lasts, 3)), needs=asked)

    def start(self) -> None:
        """Start a node on each machine, and wait until all of them are there."""
        for machine in MACHINES:
            self._start(machine)
        for machine in MACHINES:
            wait_for(lambda: self._has_greeted(machine), "a greeting")  # noqa: B023

    def _start(self, machine: str) -> None:
        has = MACHINES[machine]
        amounts = (f"{name}={many}{'G' * (name == 'mem')}" for name, many in has.items())
        self._nodes[machine] = self._arena.start_node(
            "--resources", ",".join(amounts), "--env", f"MACHINE={machine}", count=WORKERS
        )

    def _has_greeted(self, machine: str) -> bool:
        number = self._arena.nodes.index(self._nodes[machine])
        return GREETED.search(self._arena.log(number)) is not None

    def strike(self) -> int:
        """Kill a node, a guard of one, or a job; says whether there was anything to kill."""
        machine = self._arena.random.choice([*MACHINES])
        node = self._nodes[machine]
        if not self._has_greeted(machine):
            return 0
        guards = children_of(node.pid)
        chance = self._arena.random.random()
        if chance < 0.6:
            node.send_signal(signal.SIGKILL)
            node.wait()
            # Whoever starts a machine's node anew waits until the one before is gone altogether.
            wait_for(lambda: not any(map(_is_alive, guards)), "the end of its guards")
            self._start(machine)
            return 1
        if chance < 0.75 and guards:
            return _kill(self._arena.random.choice(guards))
        runs = [run for guard in guards for run in children_of(guard)]
        return _kill(self._arena.random.choice(runs)) if runs else 0

    def stop(self) -> None:
        """Stop all nodes."""
        for node in self._nodes.values():
            node.terminate()
        for node in self._nodes.values():
            node.wait(120)

    @property
    def over(self) -> list[str]:
        """What runs say that found somebody else in their place."""
        path = self._folder / "over"
        return path.read_text().splitlines() if path.exists() else []


def _locks(folder: Path, name: str, many: float) -> list[Path]:
    if name == "gpu":
        return [folder / f"gpu-{at}-{n}" for at in range(int(many)) for n in range(4)]
    return [folder / f"{name}-{n}" for n in range(int(many * PARTS[name]))]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _kill(pid: int) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1
