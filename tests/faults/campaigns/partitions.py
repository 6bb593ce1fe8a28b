"""Hosts are cut off from the server while jobs run on them, and come back; no two runs overlap."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from subprocess import Popen

from tests.faults.arena import Arena
from tests.faults.campaign import SERVERS, campaign
from tests.faults.gate import Gate
from tests.faults.hosts import Host, Switch, network
from tests.faults.kernel import Runs, live_runs, uptime
from tests.faults.ledger import Run
from tests.faults.losses import spread
from tests.support import wait_for

WORKERS = 4
LONG = "long"
PAUSES = ("0.2", "0.7", "1.5")
"""Of short jobs, so that cuts also come as they are claimed and finished."""


@campaign(
    row=4,
    about="hosts cut off from the server while jobs run on them, both ways or one way",
    goal="0 overlapping runs",
    trials="cuts",
    stores=SERVERS,
    short={"cuts": 3, "hosts": 3, "long_jobs": 4, "short_jobs": 30, "lease_ms": 1_500},
    long={"cuts": 200, "hosts": 8, "long_jobs": 8, "short_jobs": 2_400, "lease_ms": 3_000},
)
def partitions(
    arena: Arena, *, cuts: int, hosts: int, long_jobs: int, short_jobs: int, lease_ms: int
) -> None:
    """Cut off each host again and again, for less or more than its lease, whatever others do."""
    with network(arena) as switch:
        arena.queue.set_setting("heartbeat", f"{lease_ms // 3}ms")
        arena.queue.set_setting("lease", f"{lease_ms}ms")
        gate = Gate(arena.folder / "gate")
        for n in range(long_jobs):
            arena.enqueue(f"{LONG}{n}", *gate.command, priority=10)
        for n, pause in enumerate(PAUSES):
            arena.enqueuer(f"short{n}", short_jobs // len(PAUSES), "sleep", pause)
        cables = [Cable(arena, switch, n, lease_ms / 1000) for n in range(hosts)]
        while sum(cut.mended is not None for cable in cables for cut in cable.cuts) < cuts:
            runs = live_runs()
            for cable in cables:
                cable.turn(runs)
            time.sleep(0.02)
        for cable in cables:
            cable.mend()
        wait_for(lambda: all_are_back(arena, cables), "all hosts to come back")
        gate.open()
        arena.wait_until_drained()
        arena.check()
        tell(arena, cables)
        arena.queue.stop_nodes()
        for cable in cables:
            arena.report.expect(cable.node.wait(120) == 0, f"a node said {cable.host.said()}")


def all_are_back(arena: Arena, cables: Sequence["Cable"]) -> bool:
    """Tell whether there is a living node on every host."""
    alive = {node["host"] for node in arena.queue.nodes() if node["alive"]}
    return alive >= {cable.host.name for cable in cables}


def tell(arena: Arena, cables: Sequence["Cable"]) -> None:
    """Take down how it went."""
    ledger = arena.ledger.runs()
    runs = [run for all_ in ledger.values() for run in all_]
    cuts = [cut for cable in cables for cut in cable.cuts]
    lost = sum(len(cable.host.ids) - 1 for cable in cables)
    arena.report.note(
        cuts=len(cuts), runs_under_cuts=sum(len(cut.runs) for cut in cuts), leases_lost=lost,
        runs=len(runs), overlapping=sum(run.overlapped for run in runs),
        **spread("takeover", [took for cable in cables for took in cable.takeovers(ledger)]),
        **spread("comeback", [took for cable in cables for took in cable.comebacks(runs)]),
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Cut:
    """A time for which a host was cut off."""

    node: str
    """The name of its node by then."""
    runs: Runs
    """What ran on it."""
    at: float
    mended: float | None = None


class Cable:
    """What connects a host to the switch, with a fate of its own."""

    def __init__(self, arena: Arena, switch: Switch, number: int, lease: float) -> None:
        self.cuts: list[Cut] = []
        self.host: Host = switch.host(f"host{number}")
        self.node: Popen[bytes] = self.host.boot(switch.url, "--count", str(WORKERS))
        self._random = arena.random
        self._lease = lease
        self._due = uptime() + self._random.uniform(0, lease)
        self._mend: Callable[[], None] | None = None

    def turn(self, runs: Mapping[str, Runs]) -> None:
        """Cut it, if jobs run on the host, or mend it, if it is time."""
        if uptime() < self._due:
            return
        if self._mend is not None:
            self.mend()
            self._due = uptime() + self._random.uniform(0, self._lease)
        elif (ids := self.host.ids) and runs[ids[-1]]:
            self._cut(ids[-1], runs[ids[-1]])
            self._due = uptime() + self._random.uniform(0, 3 * self._lease)

    def _cut(self, node: str, runs: Runs) -> None:
        host = self.host
        ways = [(host.unplug, host.plug), (host.mute, host.unmute), (host.deafen, host.undeafen)]
        [(cut, self._mend)] = self._random.choices(ways, [2, 1, 1])
        self.cuts.append(Cut(node=node, runs=runs, at=uptime()))
        cut()

    def mend(self) -> None:
        """Mend it if it is cut."""
        if self._mend is not None:
            self._mend()
            self._mend = None
            self.cuts[-1].mended = uptime()

    def takeovers(self, ledger: Mapping[str, Sequence[Run]]) -> Iterator[float]:
        """Return how many milliseconds after a cut each long job it ended ran elsewhere.

        They come first in line, while a short one may have to wait for a free worker.
        """
        mine = set(self.host.ids)
        cut_runs = [(run, cut.at) for cut in self.cuts for run in cut.runs.items()]
        last_cut = {run: at for run, at in cut_runs if run[0].startswith(LONG)}
        for (id, number), at in last_cut.items():
            later = [run for run in ledger.get(id, ()) if run.attempt > number]
            if later and later[0].node not in mine:
                yield (later[0].began - at) * 1000

    def comebacks(self, runs: Sequence[Run]) -> Iterator[float]:
        """Return how many milliseconds after a mend the host ran a job under a new name."""
        mine = set(self.host.ids)
        starts = sorted((run.began, run.node) for run in runs if run.node in mine)
        ends = [cut.at for cut in self.cuts[1:]] + [float("inf")]
        for cut, end in zip(self.cuts, ends, strict=True):
            mended = cut.mended or end
            again = [at for at, node in starts if mended < at < end and node != cut.node]
            if again:
                yield (again[0] - mended) * 1000
