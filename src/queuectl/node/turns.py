"""A node's commits: each finishes all runs that ended and claims jobs for its workers.

A store that can't be reached is borne with: what ended is kept until it can be written. When
nobody knows whether a commit came through, nothing else is written until that is known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from random import uniform
from time import monotonic
from typing import Any

from queuectl.errors import StoreError, StoreMissingError, StoreUnsettledError
from queuectl.job import Job, Released
from queuectl.node import runs
from queuectl.node.config import Config
from queuectl.node.membership import Membership
from queuectl.node.runs import Run
from queuectl.store.contract import Claimed, Ended, Store, Suspects

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The result of one commit: runs whose end is stored, and jobs to run."""

    now: int
    asked: int
    """For how many workers jobs were asked for."""
    over: tuple[Run, ...]
    ends: list[Ended]
    lost: list[Ended]
    jobs: list[Job]
    buried: list[Job] = field(default_factory=list)
    """Jobs that were found dead while others were claimed."""


def _as_it_is(turn: Any) -> Turn:
    known: Turn = turn
    return known


class Turns:
    """The node's commits: what waits for the next one, and how the last ones went."""

    def __init__(
        self,
        store: Store,
        member: Membership,
        *,
        queues: Sequence[str],
        config: Config,
    ) -> None:
        self._store = store
        self._member = member
        self._queues = queues
        self._config = config
        self.ended: list[Run] = []
        """Runs that are over, and not yet written down as such."""
        self._since = 0.0
        """When the first of these ended."""
        self._doubt: StoreUnsettledError | None = None
        self._doubtful: Callable[[Any], Turn] = _as_it_is
        """Makes a turn of what a commit in doubt came to."""
        self._retry_at = 0.0
        self.refusals = 0
        """How often in a row the store has refused a commit."""
        self._unfolded = False
        """Whether there were commits since counters were last added up."""
        self.takes = 0.0
        """Seconds that a commit takes, lately."""

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

    def take(self, workers: Sequence[int], suspects: Callable[[int], Suspects]) -> Turn | None:
        """Make one commit, if there is something to do; or learn what became of the last one."""
        if self._doubt is not None:
            committed, result = self._doubt.committed(), self._doubt.result
            self._doubt = None
            if committed:
                return self._doubtful(result)
        if not self.ended and not workers:
            return None
        over = tuple(self.ended)
        self._unfolded = True
        began = monotonic()
        if over:
            self._doubtful = _as_it_is
            turn = self._store.transact(lambda: self._commit(over, workers, suspects))
        else:
            turn = self._claim_only(workers, suspects)
        self.takes += (monotonic() - began - self.takes) * _WEIGHT
        return turn

    def _claim_only(self, workers: Sequence[int], suspects: Callable[[int], Suspects]) -> Turn:
        """Make a turn that ends nothing: a claim is a transaction by itself, and quicker alone."""
        now = self._store.now()

        def made(claimed: Claimed) -> Turn:
            return Turn(now=now, asked=len(workers), over=(), ends=[], lost=[], **claimed._asdict())

        self._doubtful = made
        return made(
            self._store.runs.claim(
                self._member.id, workers, self._queues, now=now, suspects=suspects(now)
            )
        )

    def _commit(
        self, over: tuple[Run, ...], workers: Sequence[int], suspects: Callable[[int], Suspects]
    ) -> Turn:
        now = self._store.now()
        unstarted = [run.job for run in over if run.unstarted]
        kept = self._store.runs.put_back(unstarted, now=now)
        # What can't be released has been cancelled meanwhile, or isn't ours any more.
        ends = self._ends([run for run in over if not run.unstarted or run.job in kept], now)
        lost = self._store.runs.finish(ends)
        claimed = self._store.runs.claim(
            self._member.id, workers, self._queues, now=now, suspects=suspects(now)
        )
        return Turn(
            now=now, asked=len(workers), over=over, ends=ends, lost=lost, **claimed._asdict()
        )

    def _ends(self, over: Sequence[Run], now: int) -> list[Ended]:
        """Decide what becomes of the jobs whose runs are over."""
        if any(not run.job.cancel_reason for run in over if run.outcome != runs.SUCCESS):
            # Somebody may have asked to cancel a run just as it failed: then it isn't retried.
            asked = {
                job.seq: job.cancel_reason for job in self._store.runs.to_cancel(self._member.id)
            }
            for run in over:
                if (reason := asked.get(run.job.seq)) is not None:
                    runs.with_cancel(run, reason)
        policy, host = self._config.policy, self._member.host
        limit = self._config.settings.output_limit
        return [runs.finish(run, now=now, policy=policy, limit=limit, host=host) for run in over]

    def settle(self, turn: Turn) -> None:
        """Be done with the runs whose ends are stored."""
        done = {id(run) for run in turn.over}
        self.ended = [run for run in self.ended if id(run) not in done]

    def fold(self) -> None:
        """Have counters added up, if there were commits since."""
        if self._unfolded:
            self._unfolded = False
            self._store.history.fold()

    def be_patient(self, error: StoreError) -> None:
        """Try again a little later; with jitter, so that many nodes don't come back as one."""
        if isinstance(error, StoreMissingError):
            raise error
        if isinstance(error, StoreUnsettledError):
            self._doubt = error
        pause = min(RETRY * 2**self.refusals, LONGEST_RETRY)
        self.refusals = min(self.refusals + 1, 10)
        self._retry_at = monotonic() + pause * uniform(0.5, 1.0)

    def release_all(self) -> Turn:
        """Release all our jobs that nobody has taken over, and leave the register."""
        turn = self._store.transact(self._release_all)
        # What was claimed in doubt was given up with the rest.
        self._doubt = None
        return turn

    def _release_all(self) -> Turn:
        # First, as it waits for a claim of ours that may still be under way; then we see its jobs.
        self._store.nodes.forget(self._member.id)
        now = self._store.now()
        over = tuple(self.ended)
        ends = self._ends(over, now)
        mine = {run.job.seq for run in over}
        for job in self._store.runs.held(self._member.id):
            if job.seq not in mine:
                # Claimed in a commit whose answer never came: it was never started.
                run = Run(job=job, spool=self._member.spool, claimed=0, outcome=Released())
                ends += self._ends([run], now)
        lost = self._store.runs.finish(ends)
        return Turn(now=now, asked=0, over=over, ends=ends, lost=lost, jobs=[])
