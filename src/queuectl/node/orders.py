"""Orders to a node, by signals and through the store: to stop, or to start again.

To stop is to finish what runs, or to release it. A restart begins with a question to the installed
queuectl; what it answers decides whether runs are handed over, finished or released. Whoever wants
the node to stop calls a restart off.
"""

import os
import select
import signal
from collections.abc import Callable, Collection

from queuectl.facts import Stop
from queuectl.node import runs
from queuectl.node.crew import Crew
from queuectl.node.joblog import finishing, name_runs, releasing
from queuectl.node.log import Log, Say
from queuectl.node.restart import Restart, Way
from queuectl.node.runs import Run
from queuectl.node.signals import Interrupts, Order
from queuectl.node.turns import Turns


class Orders:
    """The orders that a node has got, and how far it has come with them."""

    def __init__(
        self,
        *,
        crew: Crew,
        turns: Turns,
        interrupts: Interrupts,
        restart: Restart,
        log: Log,
        say: Say,
        hurry: Callable[[], None],
    ) -> None:
        """`hurry` has the node show soon that it stops."""
        self._crew = crew
        self._turns = turns
        self._interrupts = interrupts
        self._log = log
        self._say = say
        self._hurry = hurry
        self.restart = restart
        self.stopping: Stop | None = None

    @property
    def ends_here(self) -> bool:
        """Whether the node stops, and won't start again."""
        return self.stopping is not None and not self.restart.wanted

    @property
    def takes_no_more(self) -> bool:
        """Whether nothing may be claimed."""
        return self.stopping is not None or self.restart.way is not None

    def what_runs(self) -> list[Run]:
        """Return the runs that go on, but not those in line."""
        running, waiting = self._crew.running, set(self._crew.workers.waiting())
        return [run for number, run in running.items() if number not in waiting]

    # -- signals ------------------------------------------------------------------------

    def hear(self, ready: Collection[int], poll: "select.poll") -> None:
        """Carry out what signals say, and what the installed queuectl answers, as `ready` tells."""
        if self._interrupts.fileno() in ready:
            for order, name in self._interrupts.take().items():
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
                self._log.reopen()
                self._say(f"{name}: the log files are opened anew.")
            case Order.SUSPEND:
                self._say(
                    f"{name}: ignored, as a node that stands still loses its runs. Ctrl+C stops it;"
                    " --daemon puts it into the background."
                )

    def _stop(self, name: str) -> None:
        if self.stopping is None:
            running = self.what_runs()
            them = "it" if len(running) == 1 else "them"
            again = f"; again to release {them}" if running else ""
            waits = self._turns.ended and self._turns.refusals
            then = " The database must be back first." if waits else ""
            self.drain(f"{name}: {finishing(running)}{again}.{then}")
        elif self.restart.call_off():
            self._hurry()
            self._say(f"{name}: stopping, and not starting again.")
        elif self.stopping == Stop.DRAIN:
            self.release(f"{name}: {releasing(self.what_runs())}.")
        else:
            then = "; its jobs will be rescued" if self._crew.running else ""
            self._say(f"{name}: exiting at once{then}.", level="warning")
            self._log.flush()
            # The guard sees the socket close and ends the runs.
            os._exit(128 + signal.SIGINT)

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
            self._hurry()
            self._say(why)
            self._crew.release(self._crew.workers.waiting())

    def _release(self, why: str) -> None:
        if self.stopping != Stop.RELEASE:
            self.stopping = Stop.RELEASE
            self._hurry()
            self._say(why)
            self._crew.release(self._crew.workers.waiting())
            self._crew.stop(self._crew.running, runs.RELEASE)

    # -- starting again -----------------------------------------------------------------

    def _restart(self, name: str, poll: "select.poll", *, at_once: bool) -> None:
        if self.ends_here:
            self._say(f"{name}: ignored, as this node is stopping.")
        elif self.restart.wanted:
            self._hasten(name, at_once=at_once)
        else:
            self._say(f"{name}: starting again; asking the installed queuectl whether it can.")
            try:
                self.restart.ask(poll, at_once=at_once)
            except OSError as error:
                self._refuse(str(error))

    def _hasten(self, name: str, *, at_once: bool) -> None:
        """Be told to start again while that is under way: it may have to be quicker."""
        if not at_once or self.restart.at_once:
            self._say(f"{name}: starting again already.")
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
            self._say(f"Handing{what} over to queuectl {installed.version}.")
            self._crew.release(self._crew.workers.waiting())
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
        self._say(f"Can't start again, so this node goes on as it is: {why}", level="error")
