"""Many ask for a job with one and the same unique key at once: some are killed, some cut off."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from queuectl import State
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.faults.campaigns.cuts import AROUND_COMMIT
from tests.faults.places import Place
from tests.servers import HOST
from tests.servers.proxy import Proxy
from tests.servers.shared import CHECKOUT
from tests.support import wait_for

POLICIES = ("return", "reject", "replace", "debounce")


@campaign(
    row=22,
    about="enqueuers of one unique key at once, some killed, and, on a server, some cut off around"
    " COMMIT",
    goal="one job has the key, and everybody who was told of one was told of that",
    trials="rounds",
    short={"askers": 8, "rounds": 12, "links": 2},
    long={"askers": 64, "rounds": 200, "links": 4},
)
def doubles(arena: Arena, *, askers: int, rounds: int, links: int) -> None:
    """Have all of them ask at once, round by round, each for a key of its own."""
    with ExitStack() as stack:
        crowd = Crowd(arena, stack, askers, links)
        for n in range(rounds):
            how = arena.random.choice(POLICIES)
            key = f"{how}-{n}"
            said = crowd.ask(how, key)
            judge(arena, how, key, said)
        arena.report.note(
            rounds=rounds, askers=askers, asked=crowd.asked, killed=crowd.killed, cuts=crowd.cuts,
            **{f"told_{word}": many for word, many in sorted(crowd.told.items())},
        )  # fmt: skip
    done = arena.run("db", "check", timeout=600)
    arena.report.expect(done.returncode == 0, f"db check: {done.stdout}{done.stderr}")


def judge(arena: Arena, how: str, key: str, said: Sequence[str]) -> None:
    """Compare what askers were told with what there is."""
    jobs = arena.queue.list(tag=key, limit=None)
    open_ = [job.id for job in jobs if job.state == State.PENDING]
    told = Counter(line.split()[1] for line in said if line.startswith("id "))
    if told or any(line == "unknown" for line in said):
        arena.report.expect(len(open_) <= 1, f"{key}: {len(open_)} jobs have it: {open_}")
    arena.report.expect(bool(open_) or not told, f"{key}: lost; told of {told}")
    there = {job.id for job in jobs}
    arena.report.expect(not told.keys() - there, f"{key}: told of {told}, there are {there}")
    if how != "replace":
        arena.report.expect(len(jobs) <= 1, f"{key}: {len(jobs)} jobs")
    if how == "reject":
        arena.report.expect(told.total() <= 1, f"{key}: {told.total()} were told that it is theirs")


class Crowd:
    """Processes that ask at once; those that are killed are replaced."""

    def __init__(self, arena: Arena, stack: ExitStack, askers: int, links: int) -> None:
        self._arena = arena
        self._stack = stack
        self._proxies: list[Proxy] = []
        self._place: Place | None = None
        if arena.store != SQLITE:
            assert arena.server is not None
            self._place = Place(kind=arena.store, port=arena.server.port, url=arena.url)
            port = self._place.port
            self._proxies = [stack.enter_context(Proxy(HOST, port)) for _ in range(links)]
        self._made = 0
        self._askers = [self._start() for _ in range(askers)]
        self.asked = self.killed = 0
        self.told: Counter[str] = Counter()

    @property
    def cuts(self) -> int:
        """How many connections were cut at a commit."""
        return sum(proxy.fired for proxy in self._proxies)

    def _start(self) -> "Asker":
        url = self._arena.url
        if self._place is not None:
            url = self._place.through(self._proxies[self._made % len(self._proxies)].port)
        self._made += 1
        asker = Asker(self._arena, self._made, url)
        self._stack.callback(asker.end)
        return asker

    def ask(self, how: str, key: str) -> list[str]:
        """Have all of them ask for a key at once; returns what they were told."""
        wait_for(lambda: all(a.is_free for a in self._askers), "the askers", within=600)
        for proxy in self._proxies:
            if self._place is not None and self._arena.random.random() < 0.7:
                moment = self._arena.random.choice(AROUND_COMMIT)
                proxy.cut_when(self._place.commit, when=moment, shut=False)
        for asker in self._askers:
            asker.ask(f"{how} {key}")
        self.asked += len(self._askers)
        victims = self._arena.random.sample(self._askers, max(1, len(self._askers) // 16))
        time.sleep(self._arena.random.expovariate(50))
        for victim in victims:
            victim.kill()
            self.killed += 1
        said = [a.answer() for a in self._askers if a not in victims]
        self.told.update(line.split()[0] for line in said)
        self._askers = [self._start() if a in victims else a for a in self._askers]
        return said


class Asker:
    """A process that asks for jobs."""

    def __init__(self, arena: Arena, number: int, url: str) -> None:
        self._said: Path = arena.folder / f"asker-{number}.said"
        self._asked = 0
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.asker"],
                env=arena.env | {"QUEUECTL_DB": url},
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
            )

    def _lines(self) -> list[str]:
        return self._said.read_text().splitlines()

    @property
    def is_free(self) -> bool:
        """Whether it has answered everything so far."""
        assert self._process.poll() is None, self._said.read_text()
        return len(self._lines()) > self._asked

    def ask(self, line: str) -> None:
        """Have it ask for something."""
        self._asked += 1
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), f"{line}\n".encode())

    def answer(self) -> str:
        """Wait for what it was told."""
        wait_for(lambda: self.is_free, "an answer", within=600)
        return self._lines()[-1]

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def end(self) -> None:
        """Let go of it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.poll() is None:
            self._process.wait(600)
