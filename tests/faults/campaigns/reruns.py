"""Nodes are killed, some together with their guards; others on the same host run their jobs again.

In every wave some of the nodes are killed at once, and at least one is left. Only when all is well
again are new ones started: a node looks around as it starts, and the time is what others need.
"""

import os
import shlex
import signal
import time
from contextlib import suppress
from subprocess import Popen

from tests.faults.arena import Arena
from tests.faults.campaign import campaign, percentile
from tests.faults.gate import Gate
from tests.faults.kernel import live_runs, uptime
from tests.faults.losses import Loss, spread
from tests.support import children_of, is_gone, wait_for


@campaign(
    row=2,
    about="nodes killed while jobs run: the time until another on the same host runs them again",
    goal="p99 <= 2 s; 0 orphans",
    trials="kills",
    short={"kills": 3, "nodes": 3, "jobs": 6, "within_ms": 0},
    long={"kills": 300, "nodes": 6, "jobs": 12, "within_ms": 2_000},
)
def reruns(arena: Arena, *, kills: int, nodes: int, jobs: int, within_ms: int) -> None:
    """Kill nodes in waves, and see what becomes of their jobs."""
    # It is by the death of the process that a node is found dead, not by its lease.
    arena.queue.set_setting("lease", "10m")
    host = OneHost(arena, nodes, jobs)
    losses: list[Loss] = []
    while len(losses) < kills:
        losses += host.wave(kills - len(losses))
    arena.check()
    arena.stop_nodes()
    times = [took for loss in losses for took in loss.times]
    arena.report.note(
        kills=len(losses), guards_killed_too=host.guards_killed, runs_lost=len(times),
        **spread("rerun", times), orphans=host.orphans,
    )  # fmt: skip
    arena.report.expect(not host.orphans, f"{host.orphans} orphans were alive after the re-runs")
    arena.report.expect(
        not within_ms or percentile(times, 99) <= within_ms,
        f"p99 of the time to re-run is {percentile(times, 99):.0f} ms",
    )


class OneHost:
    """The nodes on this host, each of which could run all the jobs of a wave."""

    def __init__(self, arena: Arena, nodes: int, jobs: int) -> None:
        self.guards_killed = 0
        self.orphans = 0
        self._arena = arena
        self._many = nodes
        self._jobs = jobs
        self._nodes: dict[str, Popen[bytes]] = {}
        self._waves = 0

    def wave(self, most: int) -> list[Loss]:
        """Kill some nodes that have jobs at a random moment, and see them run again."""
        self._fill_up()
        gate = self._enqueue()
        time.sleep(self._arena.random.uniform(0, 1))
        runs = live_runs()
        busy = sorted(node for node in self._nodes if runs[node])
        # Sometimes one is left alone, which is when it takes longest.
        many = min(most, len(busy), self._arena.random.randint(1, self._many - 1))
        victims = {id: self._nodes.pop(id) for id in self._arena.random.sample(busy, many)}
        losses = [Loss.of(id, runs[id], uptime()) for id in victims]
        guards = self._kill(list(victims.values()))
        for loss in losses:
            wait_for(lambda: loss.look(self._arena.ledger), f"{loss.left} to run again")  # noqa: B023
        alive = live_runs()
        self.orphans += sum(len(alive[id]) for id in victims)
        wait_for(lambda: all(map(is_gone, guards)), "the guards of dead nodes to end")
        gate.open()
        self._arena.wait_until_drained()
        return losses

    def _fill_up(self) -> None:
        """Start a node for each that is missing."""
        missing = self._many - len(self._nodes)
        for process in [self._arena.start_node(count=self._jobs) for _ in range(missing)]:
            id = wait_for(lambda: self._id_of(process), "a node that registers")  # noqa: B023
            self._nodes[id] = process

    def _id_of(self, process: Popen[bytes]) -> str | None:
        assert process.poll() is None, self._arena.logs()
        known = (node["id"] for node in self._arena.queue.nodes() if node["pid"] == process.pid)
        return next(known, None)

    def _enqueue(self) -> Gate:
        """Have jobs run on all nodes, which end when the gate is opened."""
        self._waves += 1
        gate = Gate(self._arena.folder / f"gate{self._waves}")
        # Each leaves something outside its session, which must be gone as well.
        script = f"setsid sleep 3600 & exec {shlex.join(gate.command)}"
        for n in range(self._jobs):
            self._arena.enqueue(f"wave{self._waves}-{n}", "sh", "-c", script)
        wait_for(self._all_run, "all jobs to run")
        return gate

    def _all_run(self) -> bool:
        runs = live_runs()
        return self._jobs == sum(len(runs[node]) for node in self._nodes)

    def _kill(self, nodes: list[Popen[bytes]]) -> list[int]:
        """Kill nodes, some with their guards; return all guards."""
        guards = {node.pid: children_of(node.pid) for node in nodes}
        for node in nodes:
            node.kill()
            if self._arena.random.random() < 1 / 3:
                self.guards_killed += 1
                for guard in guards[node.pid]:
                    with suppress(ProcessLookupError):
                        os.kill(guard, signal.SIGKILL)
        for node in nodes:
            node.wait()
        return [guard for some in guards.values() for guard in some]
