"""Nodes get all that people send, and are told to stop, at random moments of their lives.

Stop is SIGTERM or SIGINT, once, twice or three times, or SIGQUIT. Before that, every other node
gets some that don't stop it, in a row: SIGUSR1 and SIGHUP, by which it is restarted, with its runs
or without, SIGUSR2, and such that mean nothing.

Each trial has a node and a queue of its own, with nothing in it, with short jobs, with long ones,
or with such that ignore SIGTERM. The first signal comes at any moment from the start of the
process on; so some nodes are still starting up, and know nothing of jobs yet. Those are killed by
it, or, while the interpreter itself is starting, end by a KeyboardInterrupt. The later signals
come when the node has said that it heeds the one before, or, in every other trial, whenever they
come: a node may then take several for one.

How often a node was told to stop is taken from what it says itself. What must hold then:

    once      it exits with 0 when its runs have ended; each of them is the last of its job
    twice     it exits with 0, kill_grace later at most; runs were completed, or released unharmed
    3 times   it exits with 130 at once; runs were completed, released or lost
    SIGQUIT   as twice

A node that was restarted without its runs has another name since. Under the ones before, runs were
completed, or released unharmed. One that is told to stop while it starts anew, and so has nothing,
is killed by it, as at its first start.

Nothing of it is left behind in any case: the lock of a job in the ledger is free when nothing of
its run lives any more.
"""

import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tests.faults.arena import Arena
from tests.faults.campaign import campaign, percentile
from tests.faults.ledger import Run, uptime
from tests.support import PATIENCE, children_of, is_gone

AT_ONCE = 5
"""So many nodes live at the same time."""
WORKERS = 3
GRACE = 0.5
"""Seconds of kill_grace."""
HEEDED = (
    "finishing|stopping;",
    "releasing|stopping at once;|not starting again",
    "exiting at once",
)
"""What a node says to the first, the second and the third signal. One that was about to start
anew has released its runs before the first one comes."""
DETOURS = {
    signal.SIGUSR1: 4,
    signal.SIGHUP: 2,
    **dict.fromkeys((signal.SIGUSR2, signal.SIGALRM, signal.SIGTSTP, signal.SIGIO), 1),
}
"""What doesn't stop a node, and how often it is sent beside the others."""
ANEW = "Nothing is left running; starting again."
"""What a node says last that is restarted without its runs."""
UP = r" (\w+) pid \d+ on "
"""What it says first, with its name."""
INTERRUPTED = 130
STARTING = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGQUIT, INTERRUPTED}
"""How a node exits that catches no signals yet, unless the interpreter itself isn't up: with 1."""
DROPPED = "Exception ignored in"
FATES = {1: ("exited",), 2: ("exited", "released"), 3: ("exited", "released", "lost")}
"""What may become of the runs of a node that heeded so many signals."""
ANY = FATES[3]
"""What may become of those of a node that heeded none: that it didn't is told by itself."""


@campaign(
    row=15,
    about="SIGTERM, SIGINT, SIGQUIT, restarts by SIGUSR1 and SIGHUP, and others, at random moments",
    goal="exits in time; 0 lost; drained jobs not re-run",
    trials="stops",
    short={"stops": 8, "within_ms": 0},
    long={"stops": 300, "within_ms": 2_000},
)
def signals(arena: Arena, *, stops: int, within_ms: int) -> None:
    """Start nodes, tell them to stop, and look at what they leave."""
    arena.extra_env = {"QUEUECTL_KILL_GRACE": f"{GRACE}s"}
    todo = [Trial(arena, number) for number in range(stops)]
    alive: list[Trial] = []
    done: list[Trial] = []
    while todo or alive:
        while todo and len(alive) < AT_ONCE:
            alive.append(todo.pop(0))
            alive[-1].begin()
        for trial in alive:
            trial.step()
        done += [trial for trial in alive if trial.is_over]
        alive = [trial for trial in alive if not trial.is_over]
        time.sleep(0.005)
    _judge_exits(arena, done, within_ms)
    # What was given back, or lost with its node, is run now.
    arena.start_node(count=4 * WORKERS)
    arena.wait_until_drained()
    arena.check()
    _judge_runs(arena, done)
    arena.stop_nodes()


class Kind(Enum):
    """What a node finds in its queue: how many jobs, that take how long."""

    IDLE = (0, 0.0, 0.0)
    SHORT = (20, 0.0, 0.05)
    LONG = (4, 0.3, 1.5)
    STUBBORN = (3, 0.3, 1.5)


@dataclass(slots=True)
class Sent:
    """A signal, and when it was sent."""

    number: signal.Signals
    at: float


class Trial:
    """A node, and the signals that it gets."""

    def __init__(self, arena: Arena, number: int) -> None:
        chance = arena.random
        self._arena = arena
        self._queue = f"q{number}"
        self._plan = chance.choices([signal.SIGTERM, signal.SIGINT], k=1 + number % 3)
        if number % 6 == 3:
            self._plan = [signal.SIGQUIT]
        self._early = chance.random() < 0.25
        """Whether the first signal doesn't wait until the node is up."""
        self._detours: list[signal.Signals] = []
        if not self._early and number % 2 == 0:
            self._detours = chance.choices(
                list(DETOURS), list(DETOURS.values()), k=chance.randint(1, 6)
            )
        self._blind = chance.random() < 0.5
        """Whether the others don't wait until the one before is heeded."""
        first = chance.uniform(0, 0.5 if self._early else 1.0)
        self._pauses = [first, *(chance.uniform(0, 0.3) for _ in self._plan[1:])]
        # Who shall get a third signal must still have something to do after the second.
        weights = ([1, 1, 1, 1], [1, 2, 4, 4], [1, 1, 2, 8])[number % 3]
        [kind] = chance.choices(list(Kind), weights)
        self._jobs = list(self._enqueue(kind))
        self._guards: set[int] = set()
        self.sent: list[Sent] = []
        """Those that Python dropped left out."""
        self._dropped = 0
        self.exited: float | None = None
        self.left_behind = 0.0
        """Seconds from its exit until nothing of it was left."""
        self.is_over = False

    def _enqueue(self, kind: Kind) -> Iterator[str]:
        many, shortest, longest = kind.value
        for n in range(many):
            id = f"{self._queue}-{n}"
            sleep = f"sleep {self._arena.random.uniform(shortest, longest):.2f}"
            script = f"trap '' TERM; {sleep}" if kind is Kind.STUBBORN else sleep
            self._arena.enqueue(id, "sh", "-c", script, queue=self._queue)
            yield id

    def begin(self) -> None:
        """Start the node."""
        self._number = len(self._arena.nodes)
        self.process = self._arena.start_node("--queue", self._queue, count=WORKERS)
        self._since = uptime() if self._early else None
        self._began = uptime()

    @property
    def said(self) -> str:
        """What the node has said so far."""
        return self._arena.log(self._number)

    @property
    def names(self) -> list[str]:
        """The names that it has worked under, the last one last."""
        return list(dict.fromkeys(re.findall(UP, self.said)))

    @property
    def name(self) -> str | None:
        """The name that it works under, once it is up."""
        return self.names[-1] if self.names else None

    @property
    def starts_anew(self) -> bool:
        """Whether it was restarted without its runs, and isn't up again."""
        _, anew, since = self.said.rpartition(ANEW)
        return bool(anew) and not re.search(UP, since)

    @property
    def heeded(self) -> int:
        """How far it has gone with stopping, since it was last started without runs."""
        since = self.said.rpartition(ANEW)[2]
        return max((n for n, word in enumerate(HEEDED, 1) if re.search(word, since)), default=0)

    def step(self) -> None:
        """Do what is due."""
        if self.exited is not None:
            self._clear_up()
        elif self.process.poll() is not None:
            self.exited = uptime()
            told = bool(self.sent)
            self._arena.report.expect(told, f"{self} ended, and wasn't told to: {self.said[-500:]}")
        elif uptime() - self._began > PATIENCE:
            self._arena.report.broken.append(f"{self} didn't exit: {self.said[-500:]}")
            self.process.kill()
        else:
            self._forget_dropped()
            if len(self.sent) < len(self._plan):
                self._proceed()

    def _forget_dropped(self) -> None:
        """Send those again that came amid one of the first imports: Python says so and goes on."""
        if self.said.count(DROPPED) > self._dropped:
            self._dropped += 1
            self.sent.pop()

    def _proceed(self) -> None:
        """Send the next signal, some time after what it waits for."""
        if self._since is None and self._may_go_on():
            self._since = uptime()
        if self._since is None:
            return
        if self._detours:
            if self._arena.random.random() < 0.05:
                self._guards.update(children_of(self.process.pid))
                self.process.send_signal(self._detours.pop())
            self._since = uptime()
        elif uptime() >= self._since + self._pauses[len(self.sent)]:
            self._guards.update(children_of(self.process.pid))
            self.sent.append(Sent(self._plan[len(self.sent)], uptime()))
            self.process.send_signal(self.sent[-1].number)
            self._since = uptime() if self._blind else None

    def _may_go_on(self) -> bool:
        return self.name is not None if not self.sent else self.heeded >= len(self.sent)

    def _clear_up(self) -> None:
        """Wait until nothing of it is left."""
        assert self.exited is not None
        self.left_behind = uptime() - self.exited
        left = not all(map(is_gone, self._guards)) or any(
            map(self._arena.ledger.is_alive, self._jobs)
        )
        if left and self.left_behind < PATIENCE:
            return
        self._arena.report.expect(not left, f"{self} left something behind")
        self.is_over = True

    @property
    def late(self) -> float:
        """Seconds from the signal that it heeded last, or the end of its last run, to its exit."""
        assert self.exited is not None
        if not self.sent:
            return 0.0
        told = self.sent[min(len(self.sent), max(1, self.heeded)) - 1].at
        if self.heeded == 1:
            told = max([told, *(run.ended or told for run in self._runs())])
        return self.exited - told

    def _runs(self) -> Iterator[Run]:
        for job in self._jobs:
            yield from self._arena.ledger.runs_of(job)

    def __str__(self) -> str:
        names = " ".join(sent.number.name for sent in self.sent)
        return f"node {self.name or 'without a name'} of {self._queue} ({names})"


def _judge_exits(arena: Arena, trials: Sequence[Trial], within_ms: int) -> None:
    """Look at how each node exited, and how long it took."""
    arena.report.note(stops=len(trials))
    for heeded, words in enumerate(("while_starting", "after_one", "after_two", "after_three")):
        some = [trial for trial in trials if trial.heeded == heeded]
        arena.report.note(**{f"exits_{words}": len(some)})
        if not some:
            continue
        times = [1000 * trial.late for trial in some]
        arena.report.note(
            **{
                f"exit_{words}_p50_ms": round(percentile(times, 50)),
                f"exit_{words}_max_ms": round(max(times)),
            }
        )
        limit = within_ms + (1000 * GRACE if heeded == 2 else 0)
        arena.report.expect(
            not within_ms or max(times) <= limit, f"an exit {words} took {max(times):.0f} ms"
        )
        for trial in some:
            code = trial.process.returncode
            arena.report.expect(_is_good(trial), f"{trial} exited with {code} {words}")
            unheeded = heeded or trial.name is None or trial.starts_anew
            arena.report.expect(unheeded, f"{trial} heeded no signal")
    arena.report.note(left_behind_max_ms=round(1000 * max(trial.left_behind for trial in trials)))


def _is_good(trial: Trial) -> bool:
    """Tell whether the exit code is the right one."""
    code = trial.process.returncode
    match trial.heeded:
        case 0:
            return code in STARTING or (code == 1 and "KeyboardInterrupt" in trial.said)
        case 3:
            return bool(code == INTERRUPTED)
        case _:
            return bool(code == 0)


def _judge_runs(arena: Arena, trials: Sequence[Trial]) -> None:
    """Look at what became of the runs of each node, in the ledger and in the queue."""
    # Under an earlier name, or without having come up again, it gave back what it had.
    heeded = {name: 2 for trial in trials for name in trial.names}
    heeded |= {t.names[-1]: t.heeded for t in trials if t.names and not t.starts_anew}
    for id, runs in arena.ledger.runs().items():
        for run in runs:
            if heeded.get(run.node) == 1:
                good = run.ended is not None and run is runs[-1]
                arena.report.expect(good, f"{id} #{run.attempt} of a drained node was run again")
    for job in arena.queue.list(limit=None):
        kept = arena.queue.attempts(job.id)
        for attempt in kept:
            fates = FATES.get(heeded.get(attempt.node, 1), ANY)
            arena.report.expect(
                attempt.outcome in fates,
                f"{job.id} #{attempt.number} was {attempt.outcome}, not {' or '.join(fates)}",
            )
        lost = sum(1 for attempt in kept if attempt.outcome == "lost")
        arena.report.expect(
            (job.failures, job.crashes) == (0, lost),
            f"{job.id} has {job.failures} failures, and {job.crashes} crashes after {lost} lost",
        )
