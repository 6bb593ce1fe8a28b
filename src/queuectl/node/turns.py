"""A node's commits: each finishes all runs that ended and claims jobs for its workers.

A store that can't be reached is borne with: what ended is kept until it can be written. When
nobody knows whether a commit came through, nothing else is written until that is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from random import uniform
from time import monotonic
from typing import NamedTuple, get_args

from queuectl.admission import Offer
from queuectl.errors import StoreError, StoreMissingError, StoreUnsettledError
from queuectl.job import Job, Outcome, Released
from queuectl.node import runs
from queuectl.node.config import Config
from queuectl.node.membership import Membership
from queuectl.node.runs import Run
from queuectl.store.contract import Asked, Ended, Over, Store, Turned

LINGER = 0.005
"""Seconds that the end of a run waits for others, to be written down with them, while no worker
has to wait for that. At a store that takes longer for a commit, twice as long as that ..."""
LONGEST_LINGER = 0.02
"""... but no longer than this."""
RETRY = 0.5
"""Seconds until a commit that the store refused is tried again, at first."""
LONGEST_RETRY = 5.0
"""Seconds after which it is tried again at the latest."""
_WEIGHT = 0.2
"""How much the last commit counts for the time that one takes."""


class Turn(NamedTuple):
    """One commit that came through: what it was about, and what it came to."""

    now: int
    over: tuple[Run, ...]
    """Runs whose end it stored."""
    asked: int
    """For how many workers it asked for jobs."""
    result: Turned


SUCCESS = "success"
"""What a run came to that completed its job. An exit code that isn't 0 is `exited`."""


@dataclass(slots=True)
class Done:
    """What a node has done since it was started, or restarted. Another thread may read it."""

    ended: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            (SUCCESS, *(kind.name for kind in get_args(Outcome))), 0
        )
    )
    """Runs whose ends are stored, by what they came to."""
    claimed: int = 0
    commits: int = 0
    seconds: float = 0.0
    """How long all these commits took."""
    refused: int = 0
    """Commits of which the store said that they didn't come through, or didn't say what became."""

    def add(self, turned: Turned) -> None:
        """Count what a commit stored."""
        self.claimed += len(turned.jobs)
        for ends, count in (turned.ends, 1), (turned.lost, -1):
            for end in ends:
                name = SUCCESS if end.outcome == runs.SUCCESS else end.outcome.name
                self.ended[name] += count


class TurnTaker:
    """Makes the node's commits: knows what waits for the next one, and how the last ones went."""

    def __init__(self, store: Store, member: Membership, config: Config) -> None:
        self._store = store
        self._member = member
        self._config = config
        self.ended: list[Run] = []
        """Runs that are over, and not yet written down as such."""
        self._since = 0.0
        """When the first of these ended."""
        self._doubt: StoreUnsettledError | None = None
        self._about: tuple[tuple[Run, ...], int] = ((), 0)
        """What the last commit was about: runs that are over, and how many workers were offered."""
        self._retry_at = 0.0
        self.refusals = 0
        """How often in a row the store has refused a commit."""
        self._unfolded = False
        """Whether there were commits since counters were last added up."""
        self.takes = 0.0
        """Seconds that a commit takes, lately."""
        self.done = Done()

    @property
    def pending(self) -> bool:
        """Whether something isn't written down yet, or may not be."""
        return bool(self.ended) or self._doubt is not None

    def add(self, run: Run) -> None:
        """Take in a run that is over."""
        if not self.ended:
            self._since = monotonic()
        self.ended.append(run)

    def due_in(self, *, claiming: bool, lingers: bool) -> float:
        """Return in how many seconds a commit is wanted.

        With `lingers`, the workers have enough to do, and more ends will come for the same commit.
        """
        now = monotonic()
        if claiming or self._doubt is not None:
            wait = 0.0
        elif self.ended:
            wait = self._since + self._linger - now if lingers else 0.0
        else:
            wait = inf
        return max(self._retry_at - now, wait)

    @property
    def _linger(self) -> float:
        return min(max(LINGER, 2 * self.takes), LONGEST_LINGER)

    def take(self, offer: Offer) -> Turn | None:
        """Make one commit, if there is something to do; or learn what became of the last one."""
        if self._doubt is not None:
            committed, result = self._doubt.committed(), self._doubt.result
            self._doubt = None
            if committed:
                return self._made(result)
        if not self.ended and not offer.workers:
            return None
        over = tuple(self.ended)
        self._about = over, len(offer.workers)
        self._unfolded = True
        began = monotonic()
        # A claim that ends nothing is a transaction by itself, and quicker alone.
        turned = self._store.runs.turn(self._member.id, self._over(over) if over else None, offer)
        took = monotonic() - began
        self.takes += (took - self.takes) * _WEIGHT
        self.done.commits += 1
        self.done.seconds += took
        return self._made(turned)

    def _made(self, turned: Turned) -> Turn:
        self.done.add(turned)
        return Turn(self._store.clock.now(), *self._about, turned)

    def _over(self, over: tuple[Run, ...]) -> Over:
        def judge(stuck: Sequence[Job], asked: Asked, now: int) -> list[Ended]:
            # What can't be released has been cancelled meanwhile, or isn't ours any more.
            rest = [run for run in over if not run.unstarted or run.job in stuck]
            return self._ends(rest, asked, now)

        return Over([run.job for run in over if run.unstarted], judge)

    def _ends(self, over: Sequence[Run], asked: Asked, now: int) -> list[Ended]:
        """Decide what becomes of the jobs whose runs are over."""
        if any(not run.job.cancel_reason for run in over if run.outcome != runs.SUCCESS):
            # Somebody may have asked to cancel a run just as it failed: then it isn't retried.
            wanted = asked()
            for run in over:
                if (job := wanted.get(run.job.seq)) is not None:
                    runs.with_cancel(run, job)
        return [runs.finish(run, self._config, now=now, host=self._member.host) for run in over]

    def settle(self, turn: Turn) -> None:
        """Be done with the runs whose ends are stored."""
        done = {id(run) for run in turn.over}
        self.ended = [run for run in self.ended if id(run) not in done]

    def fold(self) -> None:
        """Have counters added up, if there were commits since."""
        if self._unfolded:
            self._unfolded = False
            self._store.tidy()

    def be_patient(self, error: StoreError) -> None:
        """Try again a little later; with jitter, so that many nodes don't come back as one."""
        if isinstance(error, StoreMissingError):
            raise error
        self.done.refused += 1
        if isinstance(error, StoreUnsettledError):
            self._doubt = error
        pause = min(RETRY * 2**self.refusals, LONGEST_RETRY)
        self.refusals = min(self.refusals + 1, 10)
        self._retry_at = monotonic() + pause * uniform(0.5, 1.0)

    def release_all(self) -> Turn:
        """Release all our jobs that nobody has taken over, and leave the register."""
        over = tuple(self.ended)
        mine = {run.job.seq for run in over}

        def plan(held: Sequence[Job], now: int) -> Over:
            # Others were claimed in a commit whose answer never came: they were never started.
            unknown = [
                Run(job=job, spool=self._member.spool, claimed=0, outcome=Released())
                for job in held
                if job.seq not in mine
            ]
            return Over(judge=lambda _, asked, now: self._ends([*over, *unknown], asked, now))

        turned = self._store.runs.rescue(self._member.id, plan)
        assert turned is not None
        # What was claimed in doubt was given up with the rest.
        self._doubt = None
        self._about = over, 0
        return self._made(turned)
