"""Hosts lose their power; others take over what ran on them, when the lease is over."""

import time

from tests.faults.arena import Arena
from tests.faults.campaign import SERVERS, campaign, percentile
from tests.faults.gate import Gate
from tests.faults.hosts import Host, Switch, network
from tests.faults.kernel import live_runs, uptime
from tests.faults.losses import Loss, spread
from tests.support import wait_for

WORKERS = 4


@campaign(
    row=3,
    about="hosts die and renew no more: the time until others run their jobs",
    goal="p99 <= lease + 5 s",
    trials="dead_hosts",
    stores=SERVERS,
    short={"dead_hosts": 2, "hosts": 3, "at_once": 2, "jobs": 4, "lease_ms": 1_500, "slack_ms": 0},
    long={
        "dead_hosts": 100, "hosts": 10, "at_once": 4, "jobs": 20, "lease_ms": 3_000,
        "slack_ms": 5_000,
    },
)  # fmt: skip
def takeovers(
    arena: Arena,
    *,
    dead_hosts: int,
    hosts: int,
    at_once: int,
    jobs: int,
    lease_ms: int,
    slack_ms: int,
) -> None:
    """Let hosts die while jobs run on them, some at a time, and boot them again later."""
    with network(arena) as switch:
        arena.queue.set_setting("heartbeat", f"{lease_ms // 3}ms")
        arena.queue.set_setting("lease", f"{lease_ms}ms")
        gate = Gate(arena.folder / "gate")
        town = Town(arena, switch, hosts)
        for n in range(jobs):
            arena.enqueue(f"job{n}", *gate.command)
        while len(town.losses) < dead_hosts:
            if town.away() < at_once:
                time.sleep(arena.random.uniform(0, 0.5))
                town.kill_one()
            else:
                time.sleep(0.05)
        wait_for(lambda: not town.away(), "the last takeovers")
        gate.open()
        arena.wait_until_drained()
        arena.check()
    times = [took for loss in town.losses for took in loss.times]
    arena.report.note(
        dead_hosts=len(town.losses), lease_ms=lease_ms, runs_lost=len(times),
        **spread("takeover", times),
    )  # fmt: skip
    limit = lease_ms + slack_ms
    arena.report.expect(
        not slack_ms or percentile(times, 99) <= limit,
        f"p99 of the time to take over is {percentile(times, 99):.0f} ms, not {limit}",
    )


class Town:
    """Hosts that die and are booted again."""

    def __init__(self, arena: Arena, switch: Switch, hosts: int) -> None:
        self.losses: list[Loss] = []
        self._arena = arena
        self._switch = switch
        self._hosts = [switch.host(f"host{n}") for n in range(hosts)]
        self._dead: dict[Host, Loss] = {}
        self._booting: set[Host] = set()
        for host in self._hosts:
            self._boot(host)

    def kill_one(self) -> None:
        """Let a host die on which jobs run, if there is one."""
        runs = live_runs()
        up = [host for host in self._hosts if host not in self._dead.keys() | self._booting]
        if busy := [host for host in up if runs[host.ids[-1]]]:
            host = self._arena.random.choice(busy)
            node = host.ids[-1]
            loss = Loss.of(node, runs[node], uptime())
            host.crash()
            self.losses.append(loss)
            self._dead[host] = loss

    def away(self) -> int:
        """Return how many hosts are dead or booting; boot those whose jobs all run elsewhere."""
        for host, loss in list(self._dead.items()):
            if loss.look(self._arena.ledger):
                del self._dead[host]
                host.plug()
                self._boot(host)
        for host in list(self._booting):
            if host.is_up:
                self._booting.remove(host)
            elif host.gave_up:
                # A service manager would start it again, too.
                self._boot(host)
        return len(self._dead) + len(self._booting)

    def _boot(self, host: Host) -> None:
        self._booting.add(host)
        host.boot(self._switch.url, "--count", str(WORKERS))
