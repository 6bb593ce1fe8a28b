"""Wall clocks jump by an hour, to and fro, while nodes run: of the hosts, and of the server.

On SQLite the clock of the host is the clock of the store. On a server each host has its own, and
none of them matters but the server's.

What is judged is the history of the store's clock, which only this campaign moves. A job is early
if that clock never showed its time between enqueue and start. One whose time had come, and that
starts after the clock was put back, isn't early; it is counted.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from queuectl import Job, State
from tests.faults import checker
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.faults.faketime import JumpingClock, uptime
from tests.support import wait_for

HOUR = 3_600
HOSTS = 2
WORKERS = 4
LONG = 3
"""So many jobs run all the time, with a timeout that is shorter than a jump."""
NEAR = 10
"""Seconds: much less than an hour, and much more than it takes to read a clock."""
PARKED = "parked"
"""A queue that is paused: its jobs wait until they expire."""


@campaign(
    row=12,
    about="clocks of hosts and servers jump by an hour, back or forth",
    goal="0 leases expire early, 0 jobs start, expire or time out before their time by the"
    " store's clock",
    trials="jumps",
    short={"jumps": 5, "jobs": 20},
    long={"jumps": 100, "jobs": 600},
    owns_server=True,
)
def clocks(arena: Arena, *, jumps: int, jobs: int) -> None:
    """Let clocks jump while jobs come due, expire and run."""
    with jumping_clocks(arena) as (store, hosts):
        day = Day(arena, store, hosts)
        day.begin()
        for n, (clock, seconds) in enumerate(some_jumps(arena.random, jumps, store, hosts)):
            clock.jump(seconds)
            day.enqueue_some(n, jobs * (n + 1) // jumps - jobs * n // jumps)
            time.sleep(arena.random.expovariate(8))
            day.look_around()
        day.end()
        arena.report.note(jumps=jumps, **day.judge())


def some_jumps(
    random: Random, many: int, store: JumpingClock, hosts: list[JumpingClock]
) -> list[tuple[JumpingClock, int]]:
    """Return jumps in any order: as many of the store's clock as of others, back as forth."""
    whose = [(store, -HOUR), (store, HOUR), (None, -HOUR), (None, HOUR)]
    jumps = [whose[n % len(whose)] for n in range(many)]
    random.shuffle(jumps)
    return [(clock or random.choice(hosts), seconds) for clock, seconds in jumps]


@contextmanager
def jumping_clocks(arena: Arena) -> Iterator[tuple[JumpingClock, list[JumpingClock]]]:
    """Yield the clock of the store and those of the hosts; a server lives by its own until then."""
    if arena.store == SQLITE:
        clock = JumpingClock(arena.folder, "host")
        yield clock, [clock] * HOSTS
        return
    server = arena.own_server
    store = JumpingClock(server.folder, "server")
    server.env = store.env
    server.restart()
    try:
        yield store, [JumpingClock(arena.folder, f"host{n}") for n in range(HOSTS)]
    finally:
        arena.stop_nodes()
        server.env = {}
        server.restart()


class Day:
    """What happens while the clocks jump."""

    def __init__(self, arena: Arena, store: JumpingClock, hosts: list[JumpingClock]) -> None:
        self._arena = arena
        self._random = arena.random
        self._store = store
        self._hosts = hosts
        self._asked: dict[str, float] = {}
        """When each job was asked for, by the time since the machine booted."""
        self._expired: set[str] = set()
        self._overdue = 0
        self._over = arena.folder / "over"

    def begin(self) -> None:
        """Start the nodes, and jobs that run until the end."""
        arena = self._arena
        arena.queue.pause(PARKED)
        for host in self._hosts:
            # The lease is longer than any machine stalls, and much shorter than a jump.
            arena.extra_env = host.env | {"QUEUECTL_LEASE": "30s", "QUEUECTL_HEARTBEAT": "500ms"}
            arena.start_node(count=WORKERS)
        self._check_clocks()
        until_over = f"while [ ! -e {self._over} ]; do sleep 0.1; done"
        commands = [arena.ledger.command("sh", "-c", until_over)] * LONG
        self._enqueue(
            {f"long-{n}": {"command": command, "timeout": "30m"}
             for n, command in enumerate(commands)}
            | {"late": {"command": "sleep 1000", "timeout": "1s", "max_retries": 0}}
        )  # fmt: skip
        wait_for(lambda: arena.ledger.started() == LONG, "the long jobs to run")

    def enqueue_some(self, n: int, many: int) -> None:
        """Enqueue jobs that are due in a moment or in an hour or two, and some that expire then."""
        witness = self._arena.ledger.command("true")
        self._enqueue(
            {f"due-{n}-{k}": {"command": witness, "delay": self._some_time()} for k in range(many)}
            | {f"parked-{n}": {"command": "true", "queue": PARKED, "expire": self._some_time()}}
        )

    def look_around(self) -> None:
        """See that nobody is taken for dead, and that nothing has expired too early."""
        arena = self._arena
        overdue = [node["id"] for node in arena.queue.nodes() if not node["alive"]]
        self._overdue += bool(overdue)
        if arena.store == SQLITE:
            # On a server it only looks so until the next renewal; who rescues has watched longer.
            arena.report.expect(not overdue, f"nodes taken for dead after a jump: {overdue}")
        for job in arena.queue.list(queue=PARKED, state=State.DEAD, limit=None):
            if job.id not in self._expired:
                self._expired.add(job.id)
                self._expect_reached(job, "expired", job.expires_at, uptime())

    def end(self) -> None:
        """Let the store's clock jump over all that is still to come, and end."""
        arena = self._arena
        self._check_clocks()
        self._over.touch()
        jobs = arena.queue.list(limit=None)
        last = max(max(job.run_at, job.expires_at or 0) for job in jobs)
        self._store.jump(max(0, round(last - self._store.now()) // 1000) + HOUR)
        self._enqueue({"last": {"command": arena.ledger.command("true")}})
        arena.wait_until_drained()
        self.look_around()

    def judge(self) -> dict[str, int]:
        """Compare what was seen with the history of the store's clock; return what was counted."""
        arena = self._arena
        jobs = {job.id: job for job in arena.queue.list(limit=None)}
        runs, orders = arena.ledger.runs(), arena.ledger.orders()
        arena.report.broken += [
            *checker.nothing_is_lost(orders, jobs),
            *checker.nothing_is_made_up(orders, jobs, runs),
            *checker.no_runs_overlap(runs),
            *checker.none_dies_unheard(arena.queue, jobs),
        ]
        put_back = 0
        for id, [run, *more] in runs.items():
            job = jobs[id]
            good = job.state == State.COMPLETED and not more and job.attempts == 1
            arena.report.expect(good, f"{id} ran {1 + len(more)} times: {job}")
            self._expect_reached(job, "started", job.run_at, run.began)
            put_back += not self._store.had_reached(job.run_at, since=run.began, until=run.began)
        late = jobs["late"]
        arena.report.expect("timed out" in str(late.reason), f"a late job ended as {late}")
        said = arena.logs()
        for word in (" rescued", "lease was lost", "Traceback"):
            arena.report.expect(word not in said, f"a node said {word}: {said[-2000:]}")
        arena.stop_nodes()
        return {
            "jobs": len(jobs),
            "delayed_jobs_run": sum(id.startswith("due-") for id in runs),
            "jobs_expired": len(self._expired),
            "started_after_the_clock_was_put_back": put_back,
            "looks_at_nodes_that_seemed_overdue": self._overdue,
        }

    def _some_time(self) -> str:
        if self._random.random() < 0.4:
            return f"{self._random.randrange(50, 3_000)}ms"
        return f"{self._random.randrange(1, 150)}m"

    def _enqueue(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Enqueue by the command, on a host: it sees the clocks as anybody there would."""
        arena = self._arena
        arena.extra_env = self._random.choice(self._hosts).env
        self._asked |= dict.fromkeys(jobs, uptime())
        with arena.ledger.orders_of("day").open("a") as orders:
            print(*(f"ask {id}" for id in jobs), sep="\n", file=orders, flush=True)
            subprocess.run(
                arena.command("enqueue", "-q", "--file", "-"),
                input="".join(json.dumps({"id": id, **job}) + "\n" for id, job in jobs.items()),
                env=arena.env,
                cwd=arena.folder,
                text=True,
                stdout=subprocess.DEVNULL,
                timeout=120,
                check=True,
            )
            print(*(f"ack {id}" for id in jobs), sep="\n", file=orders, flush=True)

    def _expect_reached(self, job: Job, what: str, due: int | None, until: float) -> None:
        reached = due and self._store.had_reached(due, since=self._asked[job.id], until=until)
        self._arena.report.expect(
            reached, f"{job.id} {what} before its time by the store's clock: {due}"
        )

    def _check_clocks(self) -> None:
        """See that those who live by these clocks see what we think they see."""
        seen = {host: self._date(host) for host in self._hosts}
        server = self._arena.server
        if server is not None:
            epoch = "extract(epoch FROM now())"
            ask = epoch if self._arena.store != "mariadb" else "unix_timestamp()"
            seen[self._store] = float(server.sql(f"SELECT {ask}"))
        for clock, seconds in seen.items():
            assert abs(seconds - clock.now() / 1000) < NEAR, "a clock isn't faked"

    def _date(self, host: JumpingClock) -> float:
        env = self._arena.env | host.env
        return float(subprocess.check_output(["date", "+%s.%N"], env=env, timeout=60))
