"""The crew of a node: its workers, and the runs they have.

The node gives it jobs, and is told of each run that is over. How they are run is the business of
the runner: see `runner.py`.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from queuectl.guard import wire
from queuectl.job import NEEDS, Job
from queuectl.node import runs
from queuectl.node.config import Config
from queuectl.node.handover import HandedGuard, HandedNode, HandedRun
from queuectl.node.log import Say, printable
from queuectl.node.membership import Membership
from queuectl.node.runner import Runner
from queuectl.node.runs import Handled, LostRun, Run, TooOld
from queuectl.node.workers import Workers
from queuectl.resources import Holding, needs_of
from queuectl.tracecontext import Trace, read_trace
from queuectl.values import replace

if TYPE_CHECKING:
    from queuectl.node.traces import Traces


class Hooks(Protocol):
    """What the node does when something happens to a run."""

    def on_begun(self, run: Run) -> None:
        """A run has begun, or is about to: nothing is in line before it."""

    def on_over(self, run: Run) -> None:
        """A run is over, or will never begin."""

    def on_unable(self, why: str) -> None:
        """Nothing can be started on this host."""


@dataclass(eq=False, kw_only=True)
class Crew:
    """The workers and their runs. The node's loop polls, and hands on what is ready."""

    runner: Runner
    member: Membership
    config: Config
    hooks: Hooks
    say: Say
    traces: "Traces | None" = None
    """What makes spans of runs, if that is wanted."""
    running: dict[int, Run] = field(default_factory=dict)
    """Runs that the runner has: those that go on, and those in line."""
    _begun: list[Run] = field(default_factory=list)
    """Those whose turn it is since a moment ago."""
    _last_run: int = 0

    def __post_init__(self) -> None:
        self.workers = Workers(self.config.count)

    def resize(self) -> None:
        """Have another number of workers from now on; runs that go on do so to their end."""
        count = self.config.count
        self.workers.resize(count)
        self.release_waiting(beyond=count)

    def holdings(self) -> list[Holding]:
        """Return what runs have of the node: those that are being ended have it, too."""
        return [
            Holding(run.job.started_at or 0, needs, run.job.devices)
            for run in self.running.values()
            if run.job.handler.startswith(NEEDS) and (needs := needs_of(run.job.handler))
        ]

    # -- at a restart -------------------------------------------------------------------

    def inherit(self, handed: HandedNode, jobs: Sequence[Job]) -> bool:
        """Go on with the runs of the program before us; these jobs the node has.

        False if the runs are of other jobs: then they are ended, and the crew begins anew.
        """
        self._last_run = handed.last_run
        self.runner.inherit(handed.guards)
        held = {(job.seq, job.attempts): job for job in jobs}
        if held.keys() != {(run.seq, run.attempt) for run in handed.runs}:
            self.runner.close()
            self.runner.open()
            return False
        for run in handed.runs:
            # Whoever looks for cancels finds this one, and asks for its end, perhaps once more.
            job = replace(held[run.seq, run.attempt], cancel_reason=None, forced=None)
            self.running[run.number] = Run(
                job=job,
                spool=self.member.spool,
                claimed=run.claimed,
                prepared=tuple(run.prepared),
                logged=True,
                paused=None,
            )
            self.workers.begin(run.worker, run.number, monotonic())
        return True

    @property
    def settled(self) -> bool:
        """Whether there is nothing in line, and the runner has passed on all that it was told."""
        return not self.workers.has_line and self.runner.settled

    def hand_over(self) -> tuple[int, list[HandedGuard], list[HandedRun]]:
        """Return what the next program of this process needs to go on with all of it."""
        handed = [
            HandedRun(
                number=number,
                seq=run.job.seq,
                attempt=run.job.attempts,
                worker=run.job.worker or 0,
                claimed=run.claimed,
                prepared=list(run.prepared),
            )
            for number, run in self.running.items()
        ]
        return self._last_run, self.runner.hand_over(), handed

    # -- orders -------------------------------------------------------------------------

    def begin(self, jobs: Sequence[Job]) -> None:
        """Have runs of these jobs started, each as soon as its worker is free."""
        claimed, spool = monotonic(), self.member.spool
        new: dict[int, Run] = {}
        for job in jobs:
            self._last_run += 1
            run = Run(job=job, spool=spool, claimed=claimed, trace=self._trace_of(job))
            self.running[self._last_run] = new[self._last_run] = run
            if self.workers.begin(job.worker or 0, self._last_run, claimed):
                self._begun.append(run)
        old = [
            TooOld(number, oldest)
            for number, run in new.items()
            if (oldest := self.config.too_old(run.job)) is not None
        ]
        for late in old:
            del new[late.run]
        for report in (*old, *self.runner.start(new)):
            self._report(report)
        # The first runs are under way while this is put into words.
        self._tell_begun()

    def _trace_of(self, job: Job) -> Trace | None:
        """Return what a run is told of its trace: its own span, if there will be one."""
        if self.traces is not None:
            return self.traces.told(job)
        return None if job.traceparent is None else read_trace(job.traceparent, job.tracestate)

    def _tell_begun(self) -> None:
        """Tell of the runs whose turn it is, but not of those that were over before they began."""
        for run in self._begun:
            if run.outcome is None or run.began is not None:
                self.hooks.on_begun(run)
        self._begun.clear()

    def stop(self, numbers: Iterable[int], how: str) -> None:
        """Ask runs to end, and kill them when their grace is over."""
        self.runner.stop(self._runs(numbers), how)

    def kill(self, numbers: Iterable[int], how: str) -> None:
        """Kill runs at once."""
        self.runner.kill(self._runs(numbers), how)

    def release(self, numbers: Iterable[int]) -> None:
        """Have runs not started; those that have begun go on."""
        self.runner.release(self._runs(numbers))

    def release_waiting(self, beyond: int = 0) -> None:
        """Release all jobs in line, of the workers with higher numbers."""
        self.release(self.workers.waiting(beyond))

    def release_unstarted(self) -> None:
        """Release all jobs that haven't begun: those in line, and those that are paused before."""
        self.release({*self.workers.waiting(), *self.paused})

    @property
    def paused(self) -> dict[int, Run]:
        """The runs that stand still, or aren't started, because somebody wants that."""
        return {number: run for number, run in self.running.items() if run.paused}

    def set_paused(self, number: int, *, paused: bool) -> bool:
        """Have a run stand still, or go on; False if it does already, as far as we know."""
        run = self.running[number]
        if run.paused == paused:
            return False
        known, run.paused = run.paused is not None, paused
        if paused:
            self.runner.pause({number: run})
        else:
            self.runner.resume({number: run})
            # It may be in line behind one that takes long.
            self.workers.look_at = monotonic()
        return known

    def held_up_in(self) -> float:
        """Return in how many seconds to look for runs that are held up."""
        return self.workers.look_at - monotonic()

    def release_held_up(self) -> None:
        """Release jobs that wait behind one that takes long, but for those that are paused."""
        held_up = self.workers.held_up(monotonic())
        self.release([number for number in held_up if not self.running[number].paused])

    def _runs(self, numbers: Iterable[int]) -> dict[int, Run]:
        return {number: self.running[number] for number in numbers}

    # -- reports ------------------------------------------------------------------------

    def hear(self, ready: Collection[int]) -> None:
        """Take in what the runner hears; `ready` are the descriptors that have something."""
        for message in self.runner.hear(ready, self.running):
            match message:
                case (
                    wire.Ended()
                    | wire.NotStarted()
                    | wire.Unable()
                    | wire.Released()
                    | LostRun()
                    | Handled()
                ):
                    self._report(message)
                case wire.Trouble(number, text):
                    id = printable(self.running[number].job.id)
                    self.say(f"Job {id}: {text}", level="warning")
        self._tell_begun()

    def _report(self, report: "wire.Report | LostRun | Handled | TooOld") -> None:
        """Note what became of a run."""
        number = report.run
        run = self.running.pop(number)
        settings = self.config.settings_of(run.job)
        runs.read_report(run, report, settings, outage=self.member.lease.outage)
        follower = self.workers.end(run.job.worker or 0, number, monotonic())
        if follower is not None:
            self._begun.append(self.running[follower])
        self.hooks.on_over(run)
        if isinstance(report, wire.Ended | Handled):
            warm = isinstance(report, Handled)
            self.workers.took(report.ended - report.began, warm=warm)
        elif isinstance(report, wire.Unable):
            self.hooks.on_unable(report.text)
