"""The crew of a node: its workers, the guards that look after them, and the runs they have.

The node gives it jobs, and is told of each run that is over. What a guard doesn't take at once is
kept for it. A guard that is gone is replaced, and its runs are over.
"""

import select
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Protocol

from queuectl.errors import StoreError
from queuectl.guard import tree, wire
from queuectl.guard.board import read_board
from queuectl.job import Job
from queuectl.node import runs
from queuectl.node.config import Config
from queuectl.node.guards import Guards
from queuectl.node.handover import Estate, HandedGuard, HandedRun
from queuectl.node.link import Guard, GuardLostError
from queuectl.node.log import printable
from queuectl.node.membership import Membership
from queuectl.node.runs import Run
from queuectl.node.workers import Workers
from queuectl.spool import name_left
from queuectl.store import Store
from queuectl.values import replace


class Boss(Protocol):
    """Whom the crew tells what happens."""

    def on_begun(self, run: Run) -> None:
        """A run has begun, or is about to: nothing is in line before it."""

    def on_over(self, run: Run) -> None:
        """A run is over, or won't be."""

    def on_unable(self, why: str) -> None:
        """Nothing can be started on this host."""

    def on_trouble(self, what: str, *, level: str) -> None:
        """Something else went wrong."""


class Crew:
    """Who runs what. The node's loop polls, and hands on what it hears."""

    def __init__(
        self,
        boss: Boss,
        member: Membership,
        store: Store,
        config: Config,
        guards: Guards,
    ) -> None:
        self._boss = boss
        self._member = member
        self._store = store
        self._config = config
        self._guards = guards
        self.workers = Workers(config.count)
        self.running: dict[int, Run] = {}
        """Runs that a guard has been asked for: those that go on, and those in line."""
        self._begun: list[Run] = []
        """Those whose turn it is since a moment ago."""
        self._last_run = 0
        self._full: list[Guard] = []
        """The guards that don't take all they are sent, for now."""

    def resize(self) -> None:
        """Have another number of workers from now on; runs that go on do so to their end."""
        count = self._config.count
        self.workers.resize(count)
        self.withdraw(self.workers.waiting(beyond=count))

    # -- guards -------------------------------------------------------------------------

    def start(self) -> None:
        """Start the guards."""
        self._guards.start(self._config.count)

    def inherit(self, estate: Estate, jobs: Sequence[Job]) -> bool:
        """Go on with the guards and runs of the program before us; these jobs the node has.

        False if the runs are of other jobs: then they are ended, and the guards are new ones.
        """
        self._last_run = estate.last_run
        self._guards.inherit(estate.guards)
        held = {(job.seq, job.attempts): job for job in jobs}
        if held.keys() != {(run.seq, run.attempt) for run in estate.runs}:
            self._guards.close()
            self.start()
            return False
        for handed in estate.runs:
            # Whoever looks for cancels finds this one, and asks the guard, perhaps once more.
            job = replace(held[handed.seq, handed.attempt], cancel_reason=None)
            self.running[handed.number] = Run(
                job=job,
                spool=self._member.spool,
                claimed=handed.claimed,
                prepared=tuple(handed.prepared),
                told=True,
            )
            self.workers.begin(handed.worker, handed.number, monotonic())
        return True

    @property
    def settled(self) -> bool:
        """Whether there is nothing in line, and the guards have taken all that they were sent."""
        return not self.workers.has_line and not any(guard.has_unsent for guard in self._guards)

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
        return self._last_run, [guard.hand_over() for guard in self._guards], handed

    def listen(self, poll: "select.poll") -> None:
        """Have the loop woken by the guards, through this poll object."""
        self._poll = poll
        for guard in self._guards:
            poll.register(guard.fileno(), select.POLLIN)

    def watch_for_room(self) -> list[float]:
        """Be woken by guards that take again what they didn't; return when others are given up."""
        full = [guard for guard in self._guards if guard.has_unsent]
        for guard in self._guards if full or self._full else ():
            if (guard in full) != (guard in self._full):
                events = select.POLLIN | (select.POLLOUT if guard in full else 0)
                self._poll.modify(guard.fileno(), events)
        self._full = full
        return [guard.stalls_in() for guard in full]

    def kill_guards(self) -> None:
        """Kill the guards that have runs; `hear` replaces them."""
        for run in self.running.values():
            self._guard_of(run).kill()

    def close(self) -> None:
        """Let the guards kill what still runs, and end."""
        self._guards.close()

    def _guard_of(self, run: Run) -> Guard:
        return self._guards.of(run.job.worker or 0)

    def _replace(self, guard: Guard) -> None:
        """End what a killed guard left, count its runs as lost, and go on with a new one."""
        self._boss.on_trouble("A guard process is gone; its runs are lost.", level="error")
        self._poll.unregister(guard.fileno())
        guard.close()
        tree.kill_descendants(spare=self._guards.pids() - {guard.pid})
        begun = read_board(self._member.board_of(guard))
        why = "the process that watched it was killed"
        lost = [item for item in self.running.items() if self._guard_of(item[1]) is guard]
        name_left(self._member.spool, [run.job for _, run in lost])
        for number, run in lost:
            run.outcome = runs.lost_with_node(run.job, why, begun)
            run.withdrawn = not runs.may_have_begun(run.job, begun)
            if not run.withdrawn:
                run.began, run.ended = run.claimed, monotonic()
            self._over(number)
        new = self._guards.replace(guard)
        self._poll.register(new.fileno(), select.POLLIN)
        self._member.lend(new)

    # -- orders -------------------------------------------------------------------------

    def begin(self, jobs: Sequence[Job]) -> None:
        """Have runs of these jobs started, each as soon as its worker is free."""
        claimed, spool, settings = monotonic(), self._member.spool, self._config.settings
        orders: list[wire.Order] = []
        for job in jobs:
            self._last_run += 1
            run = Run(job=job, spool=spool, claimed=claimed)
            self.running[self._last_run] = run
            if self.workers.begin(job.worker or 0, self._last_run, claimed):
                self._begun.append(run)
            try:
                spec = runs.spec_of(run, settings, self._store)
            except runs.UnrunnableError as error:
                self._report(wire.NotStarted(self._last_run, 0, str(error)))
                continue
            except (OSError, StoreError) as error:
                # A full disk, or a store that is out of reach, isn't the job's fault.
                text = getattr(error, "strerror", None) or str(error)
                self._report(wire.Unable(self._last_run, 0, text))
                continue
            orders.append(wire.Spawn(self._last_run, spec))
        self._order(orders)
        # The first runs are under way while this is put into words.
        self._tell_begun()

    def _tell_begun(self) -> None:
        """Tell of the runs whose turn it is, but not of those that were over before they began."""
        for run in self._begun:
            if run.outcome is None or run.began is not None:
                self._boss.on_begun(run)
        self._begun.clear()

    def stop(self, numbers: Iterable[int], how: str) -> None:
        """Ask runs to end, and kill them when their grace is over."""
        self._order([wire.Stop(number, how) for number in numbers])

    def kill(self, numbers: Iterable[int], how: str) -> None:
        """Kill runs at once."""
        self._order([wire.Kill(number, how) for number in numbers])

    def withdraw(self, numbers: Iterable[int]) -> None:
        """Take back what hasn't been started; the guard says what that is."""
        self._order([wire.Release(number) for number in numbers])

    def _order(self, orders: "Sequence[wire.Order]") -> None:
        """Tell each guard what is about its runs. If it is gone, `hear` finds out."""
        shares: dict[Guard, list[wire.Order]] = {}
        for order in orders:
            shares.setdefault(self._guard_of(self.running[order.run]), []).append(order)
        for guard, share in shares.items():
            with suppress(GuardLostError):
                guard.send(share)

    # -- reports ------------------------------------------------------------------------

    def hear(self, ready: Collection[int]) -> bool:
        """Take in what the guards say; `ready` has those who do. True: somebody said something."""
        said = False
        for guard in self._guards:
            if guard.fileno() in ready or guard.has_unsent:
                said |= guard.fileno() in ready
                self._hear(guard)
        self._tell_begun()
        return said

    def _hear(self, guard: Guard) -> None:
        try:
            messages = guard.receive()
        except GuardLostError:
            self._replace(guard)
            return
        for message in messages:
            match message:
                case wire.Ended() | wire.NotStarted() | wire.Unable() | wire.Released():
                    self._report(message)
                case wire.Trouble(number, text):
                    id = printable(self.running[number].job.id)
                    self._boss.on_trouble(f"Job {id}: {text}", level="warning")

    def _report(self, report: "wire.Report") -> None:
        """Note what became of a run."""
        run = self.running[report.run]
        runs.read_report(run, report, self._config.settings, outage=self._member.outage)
        self._over(report.run)
        if isinstance(report, wire.Ended):
            self.workers.took(report.ended - report.began)
        elif isinstance(report, wire.Unable):
            self._boss.on_unable(report.text)

    def _over(self, number: int) -> None:
        run = self.running.pop(number)
        follower = self.workers.end(run.job.worker or 0, number, monotonic())
        if follower is not None:
            self._begun.append(self.running[follower])
        self._boss.on_over(run)
