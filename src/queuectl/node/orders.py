"""Orders to a node, by signals and through the store: to stop, to start again, to change.

To stop is to finish what runs, or to release it. A restart begins with a question to the installed
queuectl; what it answers decides whether runs are handed over, finished or released. Whoever wants
the node to stop calls a restart off.
"""

import os
import select
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass

from queuectl.errors import EXIT_DONE, BadSettingError, StoreTooNewError
from queuectl.facts import Node, Stop
from queuectl.guard import wire
from queuectl.node import runs
from queuectl.node.broadcast import Broadcast
from queuectl.node.config import Config
from queuectl.node.crew import Crew
from queuectl.node.handover import HandedNode
from queuectl.node.joblog import finishing, name_runs, name_workers, releasing
from queuectl.node.log import Log, Say, printable
from queuectl.node.membership import Membership
from queuectl.node.restart import Restart, Way
from queuectl.node.runs import Run
from queuectl.node.signals import Interrupts, Order
from queuectl.node.turns import TurnTaker
from queuectl.queue import Queue


@dataclass(eq=False, kw_only=True)
class Orders:
    """The orders that a node has got, and how far it has come with them."""

    queue: Queue
    config: Config
    member: Membership
    crew: Crew
    turns: TurnTaker
    broadcast: Broadcast
    interrupts: Interrupts
    restart: Restart
    log: Log
    say: Say
    hurry: Callable[[], None]
    """Has the node show soon that it stops."""
    flush: Callable[[], None]
    """Has what is only in memory sent on, before another program takes over."""
    stopping: Stop | None = None
    shown: Stop | None = None
    """What the store says of that, for others to see."""
    exit_code: int = EXIT_DONE

    @property
    def takes_no_more(self) -> bool:
        """Whether nothing may be claimed."""
        return self.stopping is not None or self.restart.way is not None

    def what_runs(self) -> list[Run]:
        """Return the runs that go on, but not those in line."""
        running, waiting = self.crew.running, set(self.crew.workers.waiting())
        return [run for number, run in running.items() if number not in waiting]

    # -- signals ------------------------------------------------------------------------

    def hear(self, ready: Collection[int], poll: "select.poll") -> None:
        """Carry out what signals say, and what the installed queuectl answers, as `ready` tells."""
        if self.interrupts.fileno() in ready:
            for order, name in self.interrupts.take().items():
                self._carry_out(order, name, poll)
        self._hear_answer(ready)

    def _carry_out(self, order: Order, name: str, poll: "select.poll") -> None:
        match order:
            case Order.STOP:
                self._stop(name)
            case Order.RELEASE:
                self.release(f"{name}: {releasing(self.what_runs())}.")
            case Order.RESTART:
                self._restart(name, poll, at_once=False)
            case Order.RESTART_NOW:
                self._restart(name, poll, at_once=True)
            case Order.REOPEN:
                self.log.reopen()
                self.say(f"{name}: the log files are opened anew.")
            case Order.SUSPEND:
                self.say(
                    f"{name}: ignored, as a node that stands still loses its runs. Ctrl+C stops it;"
                    " --daemon puts it into the background."
                )

    def _stop(self, name: str) -> None:
        if self.stopping is None:
            running = self.what_runs()
            them = "it" if len(running) == 1 else "them"
            again = f"; again to release {them}" if running else ""
            waits = self.turns.ended and self.turns.refusals
            then = " The database must be back first." if waits else ""
            self.drain(f"{name}: {finishing(running)}{again}.{then}")
        elif self.restart.call_off():
            self.hurry()
            self.say(f"{name}: stopping, and not starting again.")
        elif self.stopping == Stop.DRAIN:
            self.release(f"{name}: {releasing(self.what_runs())}.")
        else:
            then = "; its jobs will be rescued" if self.crew.running else ""
            self.say(f"{name}: exiting at once{then}.", level="warning")
            self.log.flush()
            # The guard sees the socket close and ends the runs.
            os._exit(128 + signal.SIGINT)

    # -- requests in the store ----------------------------------------------------------

    def obey(self, me: Node | None) -> None:
        """Do what the store asks for: stop, if `me` says so, end and show runs."""
        if me is not None and me.stop == Stop.DRAIN:
            self.drain(f"Stop requested: {finishing(self.what_runs())}.")
        elif me is not None and me.stop == Stop.RELEASE:
            self.release(f"Stop requested: {releasing(self.what_runs())}.")
        running = self.crew.running
        by_seq = {run.job.seq: number for number, run in running.items()}
        for job in self.queue.store.runs.held(self.member.id, to_cancel=True) if running else ():
            number = by_seq.get(job.seq)
            if number is not None and running[number].job.cancel_reason is None:
                runs.with_cancel(running[number], job)
                self.crew.stop([number], wire.CANCEL)
        if running:
            self._mind_pauses()
        self.broadcast.look(running.values())

    def _mind_pauses(self) -> None:
        """Have those runs stand still that somebody wants paused, and the others go on."""
        pauses = {(pause.seq, pause.number): pause for pause in self.queue.store.runs.pauses()}
        told = False
        for number, run in self.crew.running.items():
            pause = pauses.get((run.job.seq, run.job.attempts))
            if self.crew.set_paused(number, paused=pause is not None):
                told = True
                what = "goes on." if pause is None else f"is paused by {printable(pause.who)}."
                self.say(f"Job {printable(run.job.id)} {what}")
        if told and self.stopping == Stop.DRAIN:
            self._tell_paused()

    def _tell_paused(self) -> None:
        """Say which runs keep a node that wants to stop, if they are paused."""
        if paused := list(self.crew.paused.values()):
            them = "it" if len(paused) == 1 else "them"
            self.say(
                f"Paused, so that this node can't stop: {name_runs(paused)}. Resume {them}, cancel"
                f" {them}, or release {them} with queuectl worker stop --force.",
                level="warning",
            )

    def read_settings(self) -> bool:
        """Take over changed settings, but for what was asked for by hand.

        True if there is another number of workers from now on.
        """
        before = self.config.count
        try:
            settings = self.queue.settings
        except BadSettingError as error:
            self.say(f"The settings stay as they were: {error}", level="warning")
            return False
        self.config.take(settings)
        self.log.limit(size=settings.log_size, keep=settings.log_files)
        count, busy = self.config.count, len(self.crew.running)
        if count == before:
            return False
        self.crew.resize()
        left = f"; {busy} runs go on first" if count < busy else ""
        self.say(
            f"The setting workers has changed: {name_workers(count)} from now on,"
            f" not {before}{left}."
        )
        return True

    def heed_upgrade(self) -> None:
        """Finish and leave if tables have changed that we know nothing of."""
        if self.restart.way is Way.ANEW:
            # That one takes over anyway.
            return
        try:
            self.queue.store.check_schema()
        except StoreTooNewError as error:
            self.exit_code = error.exit_code
            self.drain(
                f"A newer queuectl has upgraded {self.queue.url}:"
                f" {finishing(self.what_runs())}; start the workers again with that one."
            )

    def show(self) -> None:
        """Let others see that this node takes no more jobs, whoever asked for it."""
        if self.stopping is not None and not self.restart.wanted and self.stopping != self.shown:
            self.queue.store.nodes.ask_stop(self.member.id, self.stopping)
            self.shown = self.stopping

    # -- stopping -----------------------------------------------------------------------

    def drain(self, why: str) -> None:
        """Finish what runs, and start nothing more."""
        self.restart.call_off()
        self._drain(why)

    def release(self, why: str) -> None:
        """End what runs, and release all jobs."""
        self.restart.call_off()
        self._release(why)

    def _drain(self, why: str) -> None:
        if self.stopping is None:
            self.stopping = Stop.DRAIN
            self._start_nothing_more(why)
            self._tell_paused()

    def _release(self, why: str) -> None:
        if self.stopping != Stop.RELEASE:
            self.stopping = Stop.RELEASE
            self._start_nothing_more(why)
            self.crew.stop(self.crew.running, wire.RELEASE)

    def _start_nothing_more(self, why: str) -> None:
        self.hurry()
        self.say(why)
        self.crew.release_unstarted()

    # -- starting again -----------------------------------------------------------------

    def start_again(self, why: str, poll: "select.poll") -> None:
        """Start again, for this reason, while the runs go on."""
        if not self.restart.wanted and self.stopping is None:
            self._restart(why, poll, at_once=False)

    def _restart(self, name: str, poll: "select.poll", *, at_once: bool) -> None:
        if self.stopping is not None and not self.restart.wanted:
            self.say(f"{name}: ignored, as this node is stopping.")
        elif self.restart.wanted:
            self._hasten(name, at_once=at_once)
        else:
            self.say(f"{name}: starting again; asking the installed queuectl whether it can.")
            try:
                self.restart.ask(poll, at_once=at_once)
            except OSError as error:
                self._refuse(str(error))

    def _hasten(self, name: str, *, at_once: bool) -> None:
        """Be told to start again while that is under way: it may have to be quicker."""
        if not at_once or self.restart.at_once:
            self.say(f"{name}: starting again already.")
            return
        self.restart.at_once = True
        if self.restart.way is not None:
            self._start_anew(name)

    def _hear_answer(self, ready: Collection[int]) -> None:
        installed = self.restart.hear(ready)
        if installed is None:
            return
        if installed.trouble:
            self._refuse(installed.trouble)
        elif self.restart.at_once:
            self._start_anew(f"It can (queuectl {installed.version})")
        elif installed.fits:
            self.restart.way = Way.HAND_OVER
            running = self.what_runs()
            what = f" {name_runs(running)}" if running else ""
            self.say(f"Handing{what} over to queuectl {installed.version}.")
            self.crew.release_waiting()
        else:
            self.restart.way = Way.ANEW
            running = self.what_runs()
            first = f": finishing {name_runs(running)} before it takes over" if running else ""
            self._drain(
                f"queuectl {installed.version} can't go on with runs that this one has"
                f" started{first}."
            )

    def _start_anew(self, why: str) -> None:
        self.restart.way = Way.ANEW
        running = self.what_runs()
        what = f"; releasing {name_runs(running)} first" if running else ""
        self._release(f"{why}: starting again{what}.")

    def _refuse(self, why: str) -> None:
        self.say(f"Can't start again, so this node goes on as it is: {why}", level="error")

    # -- handing over -------------------------------------------------------------------

    def hand_over_if_settled(self) -> None:
        """Become the program that goes on with our runs, once all else is in the store."""
        if self.turns.pending or self.turns.refusals or not self.crew.settled:
            return
        self.flush()
        lease = self.member.hand_over()
        if lease is None or not self.interrupts.hold():
            # The lease is lost, or there is one more signal to heed. That comes first.
            return
        clock, until = lease
        last_run, guards, running = self.crew.hand_over()
        handed = HandedNode(
            node=self.member.id,
            clock=clock,
            until=until,
            last_run=last_run,
            guards=guards,
            runs=running,
            watches=self.broadcast.hand_over(),
        )
        self.log.flush()
        try:
            self.restart.execute(handed)
        except OSError as error:
            self.interrupts.go_on()
            self.restart.call_off()
            self._refuse(str(error))
