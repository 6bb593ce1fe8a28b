"""A month of schedules in minutes: the store's clock jumps through it while nodes are killed.

The clock goes forward by hours at a time, and back now and then; nodes are killed as they make the
jobs, or all are stopped while the clock jumps, as on a machine that sleeps; rules and zones are
edited, schedules paused and resumed. In the end each schedule is compared with what its rules say,
by `tests/plain_cron.py`, which shares no code with the product.

The jobs bear witness by being there: each says which tick made it. Most are never run, as their
queue is paused; those of schedules whose ticks wait for one another are.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.faults.faketime import JumpingClock
from tests.plain_cron import EPOCH, Plain
from tests.servers.shared import CHECKOUT
from tests.support import wait_for

MONTH = 30 * 86_400
HOUR = 3_600
NODES = 3
PARKED = "parked"
"""A queue that is paused, so that its jobs only wait."""
LATE = 60_000
"""Milliseconds after which a tick with `missed="off"` doesn't come any more."""
CRON = (
    "30 2 * * *",
    "0,20,40 1-3 * * *",
    "*/30 1-3 * * *",
    "10 * * * *",
    "5 */2 * * *",
    "15 23,0 * * *",
    "0 1 1,15 * 0",
    "0 0 * * *",
)
EVERY = {"every 45m": 45 * 60_000, "every 7h": 7 * HOUR * 1000}
SELDOM = ("30 2 * * *", "15 23,0 * * *", "every 7h")
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "UTC",
)
KINDS: Sequence[dict[str, Any]] = (
    {"missed": "all", "overlap": "allow"},
    {"missed": "all", "overlap": "allow", "jitter": "20m"},
    {"missed": "all", "overlap": "all"},
    {"missed": "latest", "overlap": "allow"},
    {"missed": "off", "overlap": "allow"},
)


@campaign(
    row=20,
    about="a month of schedules, with nodes killed and stopped, clocks put back and forth, and"
    " edits",
    goal="every tick comes as its rule says: none is missing, none comes twice, none is made up",
    trials="ticks",
    short={"schedules": 2 * len(KINDS), "jumps": 4, "kills": 2, "edits": 4},
    long={"schedules": 200, "jumps": 150, "kills": 60, "edits": 200},
    owns_server=True,
)
def ticks(arena: Arena, *, schedules: int, jumps: int, kills: int, edits: int) -> None:
    """Live through a month, and compare."""
    arena.queue.pause(PARKED)
    with a_clock(arena) as clock, a_planner(arena) as planner:
        month = Month(arena, clock, planner)
        month.begin(schedules)
        steps = [*["kill"] * kills, *["edit"] * edits, *["back"] * (jumps // 4 + 1)]
        of_each: list[list[str]] = [[] for _ in range(jumps)]
        for step in steps:
            arena.random.choice(of_each).append(step)
        lengths = [arena.random.expovariate(1) for _ in range(jumps)]
        for length, some in zip(lengths, of_each, strict=True):
            month.jump(round(MONTH * length / sum(lengths)), some)
        month.end()
        arena.report.note(**month.judge(), jumps=jumps, kills=kills, edits=edits)
        arena.stop_nodes()


@contextmanager
def a_clock(arena: Arena) -> Iterator[JumpingClock]:
    """Yield the clock of the store, at the beginning of a month with a change of clocks in it."""
    clock = JumpingClock(arena.folder if arena.server is None else arena.own_server.folder, "store")
    year = datetime.now(UTC).year + 1
    begin = arena.random.choice(
        [datetime(year, 3, 7, tzinfo=UTC), datetime(year, 10, 18, tzinfo=UTC)]
    )
    clock.jump(round((begin - datetime.now(UTC)).total_seconds()))
    if arena.store == SQLITE:
        # Nothing of it may be of another time: the nodes, and whoever changes schedules.
        arena.extra_env = clock.env
        yield clock
        return
    server = arena.own_server
    server.env = clock.env
    server.restart()
    # Nodes ask the server's clock often: it doesn't jump by hours each second in life.
    (arena.folder / "sitecustomize.py").write_text(
        "import queuectl.store.clock\nqueuectl.store.clock.STALE = 0.2\n"
    )
    arena.extra_env = {"PYTHONPATH": str(arena.folder)}
    try:
        yield clock
    finally:
        arena.stop_nodes()
        server.env = {}
        server.restart()


def a_planner(arena: Arena) -> subprocess.Popen[str]:
    """Start who changes schedules; it ends when its stdin does."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.planner"],
        env=arena.env,
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@dataclass(slots=True)
class Stretch:
    """A time in which a schedule has one rule and isn't paused."""

    rule: str
    zone: str
    anchor: int
    begin: int
    """Its ticks come after this."""
    sure_from: int
    sure: int = 0
    """Those between these two must have come; of the others until `end` nobody knows."""
    end: int = 0
    looks: list[int] = field(default_factory=list, repr=False)
    """Until when all that was due had come, at each look."""

    def ticks(self) -> list[int]:
        """Return all that its rule says, in order."""
        return [tick for tick in self._all() if self.begin < tick <= self.end]

    def last(self, until: int) -> int:
        """Return the last of them that isn't later than this; 0 if there is none."""
        return max((tick for tick in self.ticks() if tick <= until), default=0)

    def _all(self) -> Sequence[int]:
        if self.rule in EVERY:
            interval = EVERY[self.rule]
            return range(self.anchor + interval, self.end + 1, interval)
        return planned(self.rule, self.zone, self.begin // 86_400_000, self.end // 86_400_000)


@cache
def planned(rule: str, zone: str, first: int, last: int) -> Sequence[int]:
    """Return the ticks of five fields, from one day of UTC to the end of another."""
    begin, end = (EPOCH + timedelta(days=day) for day in (first, last + 1))
    return Plain(rule).ticks(ZoneInfo(zone), begin, end)


class Planned:
    """A schedule, and what must become of it."""

    def __init__(self, name: str, kind: dict[str, Any], rule: str, zone: str) -> None:
        self.name = name
        self.kind = kind
        self.rule = rule
        self.zone = zone
        self.paused = False
        self.stretches: list[Stretch] = []

    @property
    def slack(self) -> int:
        """Milliseconds by which its ticks may come later."""
        return 20 * 60_000 if "jitter" in self.kind else 0

    def go_on(self, state: dict[str, int]) -> None:
        """Take down that it has this rule from now on, and that nothing of before comes.

        Before is what the clock shows, and the last tick that came, if the clock was put back.
        """
        begin = max([state["changed"], *(one.last(one.sure) for one in self.stretches)])
        sure_from = max([state["changed"], *(one.last(one.end) for one in self.stretches)])
        self.stretches.append(Stretch(self.rule, self.zone, state["anchor"], begin, sure_from))

    def look(self, at: int) -> None:
        """Take down that all that was due has come."""
        there = self.stretches[-1]
        if not self.paused and at - self.slack > there.sure:
            there.sure = there.end = at - self.slack
            there.looks.append(there.sure)

    def over(self, shown: int) -> None:
        """Take down the latest time that was shown while it had its rule and wasn't paused."""
        self.stretches[-1].end = max(self.stretches[-1].sure, shown)


class Month:
    """What happens in it."""

    def __init__(self, arena: Arena, clock: JumpingClock, planner: subprocess.Popen[str]) -> None:
        self._arena = arena
        self._random = arena.random
        self._clock = clock
        self._schedules: dict[str, Planned] = {}
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._suspends = 0
        self._is_back = False
        self._shown = 0
        """The latest time that the clock showed before it was put back."""
        self._planner = planner

    def _ask(self, verb: str, *args: Any, **keywords: Any) -> Any:
        """Have the planner do something, and return its answer."""
        assert self._planner.stdin
        assert self._planner.stdout
        print(json.dumps([verb, args, keywords]), file=self._planner.stdin, flush=True)
        return json.loads(self._planner.stdout.readline())

    def begin(self, many: int) -> None:
        """Add the schedules, and start the nodes."""
        for n in range(many):
            kind = KINDS[n % len(KINDS)]
            rule = self._random.choice(SELDOM if kind["overlap"] == "all" else (*CRON, *EVERY))
            zone = self._random.choice(ZONES)
            if n in (0, len(KINDS)):
                # At half past two in Berlin: a time that is skipped or repeated in this month.
                rule, zone = CRON[0], ZONES[0]
            one = Planned(f"s{n}", kind, rule, zone)
            queue = "default" if kind["overlap"] == "all" else PARKED
            one.go_on(
                self._ask("add", one.name, rule, "true", tz=one.zone, queue=queue, cwd="/", **kind)
            )
            self._schedules[one.name] = one
        for _ in range(NODES):
            self._start()

    def _start(self) -> None:
        # The lease is longer than any machine stalls, and much shorter than a jump.
        clock = self._arena.extra_env
        self._arena.extra_env = clock | {"QUEUECTL_LEASE": "30s", "QUEUECTL_HEARTBEAT": "500ms"}
        self._nodes.append(self._arena.start_node(count=4))
        self._arena.extra_env = clock

    def jump(self, seconds: int, some: Sequence[str]) -> None:
        """Go forward, do some harm meanwhile, and wait until all that is due has come."""
        if self._random.random() < 1 / 8:
            self._suspends += 1
            self._signal(signal.SIGSTOP)
            self._clock.jump(seconds)
            self._signal(signal.SIGCONT)
        else:
            self._clock.jump(seconds)
        for _ in range(some.count("kill")):
            time.sleep(self._random.uniform(0, 1.5))
            victim = self._nodes.pop(self._random.randrange(len(self._nodes)))
            victim.kill()
            victim.wait()
            self._start()
        for _ in range(some.count("back")):
            back = self._random.randrange(60, 5 * HOUR)
            self._is_back, self._shown = True, round(self._clock.now())
            self._clock.jump(-back)
            time.sleep(self._random.uniform(0, 1.5))
            if self._random.random() < 1 / 2 and "edit" in some:
                self._look()
                self._edit()
            self._clock.jump(back)
            self._is_back = False
        self._look()
        for _ in range(some.count("edit")):
            self._edit()
            self._look()

    def _signal(self, number: int) -> None:
        for node in self._nodes:
            node.send_signal(number)

    def _look(self) -> None:
        """Wait until all that is due has come."""
        at = wait_for(lambda: self._ask("quiet"), "all ticks that are due to come", within=90)
        # While the clock is back, more than that may have come.
        for one in self._schedules.values() if not self._is_back else ():
            one.look(at)

    def _edit(self) -> None:
        """Change a schedule, of which nothing is due now."""
        one = self._random.choice(list(self._schedules.values()))
        if one.paused:
            one.paused = False
            one.go_on(self._ask("resume", one.name))
        elif self._random.random() < 1 / 3:
            one.over(max(self._shown, self._ask("pause", one.name)["changed"]))
            one.paused = True
        else:
            before = (one.rule, one.zone)
            if one.kind["overlap"] != "all":
                one.rule = self._random.choice((*CRON, *EVERY))
            one.zone = self._random.choice(ZONES)
            state = self._ask("edit", one.name, rule=one.rule, tz=one.zone)
            if (one.rule, one.zone) != before:
                one.over(max(self._shown, state["changed"]))
                one.go_on(state)

    def end(self) -> None:
        """Come to the end of the month."""
        self._look()
        for name, one in self._schedules.items():
            if not one.paused:
                one.over(self._ask("pause", name)["changed"])

    def judge(self) -> dict[str, int]:
        """Compare the jobs that are there with what the rules say; return what was counted."""
        made: dict[str, Counter[int]] = {name: Counter() for name in self._schedules}
        late: dict[str, int] = Counter()
        for job in self._arena.queue.list(limit=None):
            assert job.schedule is not None
            assert job.planned is not None
            made[job.schedule][job.planned] += 1
            late[job.schedule] = max(late[job.schedule], job.created_at - job.planned)
        for name, one in self._schedules.items():
            for promise in broken(one, made[name], late[name]):
                self._arena.report.broken.append(f"{name} ({one.kind}): {promise}")
        said = self._arena.logs()
        self._arena.report.expect("Traceback" not in said, f"a node said {said[-2000:]}")
        return {
            "schedules": len(made),
            "ticks": sum(map(len, made.values())),
            "nodes_stopped_together": self._suspends,
        }


def broken(one: Planned, made: Counter[int], late: int) -> Iterator[str]:
    """Yield what isn't as the rules of a schedule say."""
    if twice := sorted(tick for tick, many in made.items() if many > 1):
        yield f"came twice: {shown(twice)}"
    known = {tick for there in one.stretches for tick in there.ticks()}
    if made_up := sorted(made.keys() - known):
        yield f"no rule says {shown(made_up)}, but {one.stretches}"
    wanted: set[int] = set()
    for there in one.stretches:
        sure = [tick for tick in there.ticks() if there.sure_from < tick <= there.sure]
        if one.kind["missed"] == "all":
            wanted |= set(sure)
        elif one.kind["missed"] == "latest":
            before = ([tick for tick in sure if tick <= look] for look in there.looks)
            wanted |= {found[-1] for found in before if found}
    if missing := sorted(wanted - made.keys()):
        yield f"never came: {shown(missing)}, though {one.stretches}"
    if one.kind["missed"] == "off" and late > LATE:
        yield f"one came {late} ms late"


def shown(ticks: Sequence[int]) -> str:
    """Write the first of some instants, and how many there are."""
    first = ", ".join(
        f"{EPOCH + timedelta(milliseconds=tick):%m-%d %H:%M:%S}" for tick in ticks[:3]
    )
    return first if len(ticks) <= 3 else f"{first} and {len(ticks) - 3} more"
