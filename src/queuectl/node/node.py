"""The node's loop: one process, N workers, one transaction per turn.

Each turn finishes all runs that ended and claims jobs for the workers in one durable commit
(`turns`), then gives the new runs to the crew (`crew`). Whether and how many are claimed is up to
`claiming`. Between turns it sleeps until a guard, the store or a signal has something to
say, or something on its agenda is due (`agenda`).
"""

import gc
import os
import select
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic, sleep

from queuectl import __version__
from queuectl.errors import (
    EXIT_DONE,
    BadSettingError,
    LeaseLostError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    StoreTooNewError,
    StoreUnreachableError,
)
from queuectl.facts import Node, Stop
from queuectl.guard import tree
from queuectl.job import Exited, Job, Output, State, Transition
from queuectl.node import logfiles, runs, upkeep
from queuectl.node.agenda import Agenda, Entry, Timer, never
from queuectl.node.broadcast import Broadcast
from queuectl.node.claiming import Claiming
from queuectl.node.config import Config
from queuectl.node.crew import Crew
from queuectl.node.guards import Guards
from queuectl.node.handover import Again, HandedNode
from queuectl.node.joblog import JobLog, finishing, name_runs, releasing
from queuectl.node.link import STALLED_AFTER
from queuectl.node.log import Log
from queuectl.node.membership import Membership, new_id
from queuectl.node.orders import Orders
from queuectl.node.processes import Processes
from queuectl.node.restart import Restart, Way
from queuectl.node.runs import Run
from queuectl.node.signals import STOPS, Interrupts, orders
from queuectl.node.turns import Turn, Turns
from queuectl.place import Place
from queuectl.queue import Queue
from queuectl.store.contract import Ended, Topic
from queuectl.values import quicken

TICK = 1.0
"""Seconds between looks for dead nodes, and for work nobody told us of."""
EARLY = 0.1
"""Seconds by which a look comes early when the node is awake anyway: so it wakes up less often."""
TIDY_EVERY = 60.0
"""Seconds between prunings."""
OPEN_AGAIN = 0.5
"""Seconds until a store is opened again that can't be reached, for runs that go on meanwhile."""
LITTER = 20_000
"""Objects that come to be before the collector looks for circles among them."""


# A node makes these for every run.
quicken(Exited, Transition, Output, Ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What `worker start` was asked for."""

    place: Place
    id: str | None = None
    """Its name, if somebody has to know it beforehand."""
    count: int | None = None
    queues: tuple[str, ...] = ()
    drain: bool = False
    backoff_base: float | None = None
    log: str | None = None
    log_json: bool = False
    pidfile: str | None = None
    ready: Callable[[], None] | None = None
    """Called once the node is registered and can run jobs."""
    to_terminal: bool = True
    again: Again | None = None
    """How it is restarted; None if it can't be."""
    handed: HandedNode | None = None
    """What the program before it in this process has left for it to go on with."""


def run(options: NodeOptions) -> int:
    """Run a node until it is told to stop; returns the exit code."""
    with _open(options) as queue:
        loop = NodeLoop(queue, options)
        code = loop.serve()
    if loop.orders.restart.way is Way.ANEW:
        loop.orders.restart.execute(None)
    return code


def _open(options: NodeOptions) -> Queue:
    """Open the queue. For runs that go on, as long as it takes, unless somebody says stop."""
    while True:
        try:
            return Queue(place=options.place, create=options.handed is None)
        except (StoreUnreachableError, StoreBusyError, StoreFullError):
            if options.handed is None or signal.sigpending() & STOPS:
                raise
            sleep(OPEN_AGAIN)


class NodeLoop:
    """A running node: its parts, and the loop that has each of them do its work in time."""

    def __init__(self, queue: Queue, options: NodeOptions) -> None:
        self.queue = queue
        self.store = queue.store
        self.options = options
        settings = queue.settings
        self.config = Config(settings, count=options.count, forced_base=options.backoff_base)
        self.interrupts = Interrupts()
        self.tick, self.tidying = Timer(), Timer()
        id = options.id if options.handed is None else options.handed.node
        self.log = Log(
            node=id or new_id(), as_json=options.log_json, to_terminal=options.to_terminal
        )
        if options.log:
            self.log.open_file(options.log, size=settings.log_size, keep=settings.log_files)
        self.job_log = JobLog(self.log)
        # The URL may carry a password; jobs are told where the queue is without it.
        guards = Guards({"QUEUECTL_DB", "QUEUECTL_DB_PATH", *self.store.secret_variables})
        self.member = Membership(
            queue,
            id=self.log.node,
            config=self.config,
            queues=options.queues,
            guards=guards,
            wake=self.interrupts.rouse,
            say=self._say,
        )
        processes = Processes(
            guards, member=self.member, store=self.store, config=self.config, say=self._say
        )
        self.crew = Crew(
            processes, member=self.member, config=self.config, hooks=self, say=self._say
        )
        self.turns = Turns(self.store, self.member, queues=options.queues, config=self.config)
        self.orders = Orders(
            crew=self.crew,
            turns=self.turns,
            interrupts=self.interrupts,
            restart=Restart(options.again),
            log=self.log,
            say=self._say,
            hurry=self.tick.hurry,
        )
        self.shown_stopping: Stop | None = None
        """What the store says of that, for others to see."""
        self.exit_code = EXIT_DONE
        self.claiming = Claiming(
            self.store,
            queues=options.queues,
            config=self.config,
            member=self.member,
            crew=self.crew,
            orders=self.orders,
        )
        self.overlooked = False
        """Whether somebody has changed something, and we couldn't see what."""
        self.broadcast = Broadcast(self.store, lambda: self.config.settings.output_limit)
        self.rescuer = upkeep.Rescuer(queue=queue, config=self.config, heard=self._tell_rescue)

    @property
    def id(self) -> str:
        """The name under which this node is known, for now."""
        return self.member.id

    # -- life ---------------------------------------------------------------------------

    def serve(self) -> int:
        """Register, work until there is nothing left to do or somebody says stop, and leave."""
        tree.become_subreaper()
        goes_on = self._start_crew()
        try:
            self.interrupts.catch(orders(background=not self.options.to_terminal))
            self._join(goes_on=goes_on)
            # From now on we come back to it ourselves, and see to the runs meanwhile.
            self.store.patience = 0.0
            self.listener = self.store.listen()
            self._poll = select.poll()
            for heard in (self.interrupts, self.listener):
                if heard.fileno() >= 0:
                    self._poll.register(heard.fileno(), select.POLLIN)
            self.crew.listen(self._poll)
            self.agenda = self._agenda()
            self._greet(goes_on=goes_on)
            if self.options.ready is not None:
                self.options.ready()
            # What is here stays, and runs refer to nothing in circles: the collector can wait.
            gc.freeze()
            gc.set_threshold(LITTER)
            self._loop()
            self._leave()
        finally:
            self.crew.close()
            self.log.close()
        while self.orders.restart.way is Way.ANEW and not self.interrupts.hold():
            # What comes from here on is for who comes next; what came before may be a stop.
            self.orders.hear({self.interrupts.fileno()}, self._poll)
            self.log.flush()
        if self.orders.restart.way is not Way.ANEW:
            # Nothing is left to be stopped. One more signal must not make a good end look like a
            # kill.
            self.interrupts.ignore()
        return self.exit_code

    def _start_crew(self) -> bool:
        """Start the guards, or go on with those that there are; True if their runs go on."""
        handed = self.options.handed
        if handed is None:
            self.crew.start()
            return False
        return self.crew.inherit(handed, self.store.runs.held(self.id))

    def _join(self, *, goes_on: bool) -> None:
        """Become known to the store, or go on under the name that it knows."""
        handed = self.options.handed
        if goes_on and handed is not None:
            self.member.resume(handed)
            self.broadcast.resume(handed.watches, self.crew.running.values())
            return
        if handed is not None:
            # Somebody has taken our jobs from us while the program was replaced.
            self._settle(self.turns.release_all())
            self.member.rename()
            self.log.node = self.id
        self.member.join()

    def _greet(self, *, goes_on: bool) -> None:
        serves = ", ".join(self.options.queues) or "all queues"
        does = "starting"
        if goes_on:
            running = self.orders.what_runs()
            what = f" with {name_runs(running)}" if running else ""
            does = f"queuectl {__version__} goes on{what};"
        self._say(
            f"pid {os.getpid()} on {self.member.host}: {does} {self._workers()} for {serves},"
            f" {self.queue.url}"
        )
        self.log.flush()

    def _workers(self) -> str:
        count = self.config.count
        return f"{count} worker{'' if count == 1 else 's'}"

    def _loop(self) -> None:
        while not self._is_done():
            ready = self._sleep()
            self.orders.hear(ready, self._poll)
            self.crew.hear(ready)
            self._hear_store(ready)
            self.agenda.run()
            self.log.flush()

    def _agenda(self) -> Agenda:
        """Make the agenda: first what wakes us to hear of it, then what is done, in its order."""
        workers, broadcast, listener = self.crew.workers, self.broadcast, self.listener
        return Agenda(
            Entry("the answer of the installed queuectl", self.orders.restart.answers_in),
            Entry("a guard that takes nothing", self.crew.stalls_in),
            Entry("another look for news", lambda: _or_never(listener.recheck_in())),
            Entry("the next due job", self.claiming.looks_in),
            Entry("the end of a pause", self.claiming.resumes_in),
            Entry("runs held up", lambda: workers.look_at - monotonic(), self._release_held_up),
            Entry("turn", self._turn_in, self._turn),
            Entry("hand-over", never, self._hand_over_if_settled, early=inf),
            Entry("tick", self.tick.due_in, self._tick, early=EARLY),
            # With one of the ticks, which come more often.
            Entry("tidying", self.tidying.due_in, self._tidy, early=TICK),
            # The lease itself knows how early is early enough.
            Entry("renewal", self.member.renew_in, self._renew, early=inf),
            Entry(
                "broadcast",
                lambda: broadcast.due - monotonic(),
                partial(self._guarded, broadcast.send),
            ),
        )

    def _release_held_up(self) -> None:
        """Release jobs that wait behind one that takes long."""
        self.crew.release(self.crew.workers.held_up(monotonic()))

    def _is_done(self) -> bool:
        if self.crew.running or self.turns.pending:
            return False
        if self.orders.stopping is not None:
            return True
        if not self.options.drain or self.claiming.may_be_work:
            return False
        try:
            waiting = self.store.waiting(self.options.queues)
            if waiting:
                self.job_log.waits(self.store.now(), waiting, self.claiming.next_due)
            return not waiting and not self.rescuer.may_leave_jobs(self.options.queues)
        except StoreError:
            return False

    def _leave(self) -> None:
        self.member.stop_renewing()
        # If the store can't be told now, the next node finds ours dead and strikes it out.
        self._guarded(self._strike_out)
        self._guarded(lambda: upkeep.sweep_spool(self.queue))
        self.listener.close()
        if self.orders.restart.way is Way.ANEW:
            self._say("Nothing is left running; starting again.")
        elif self.orders.stopping:
            self._say("Stopped; nothing was left running.")
        else:
            self._guarded(self._tell_left_over)

    def _strike_out(self) -> None:
        self.store.nodes.forget(self.id)

    def _tell_left_over(self) -> None:
        """Say that all is done, and what isn't because its queue is paused."""
        served = self.options.queues
        held = sum(
            count.jobs
            for count in self.store.jobs.counts()
            if count.state in (State.PENDING, State.FAILED)
            and (not served or count.queue in served)
        )
        self.job_log.nothing_left(self.store.now(), held)

    # -- starting again -------------------------------------------------------------------

    def _hand_over_if_settled(self) -> None:
        """Hand over, if that is to be, once all that is not handed over is in the store."""
        if self.orders.restart.way is not Way.HAND_OVER:
            return
        if not (self.turns.pending or self.turns.refusals) and self.crew.settled:
            self._guarded(self._hand_over)

    def _hand_over(self) -> None:
        """Become the program that goes on with our runs."""
        lease = self.member.hand_over()
        if lease is None or not self.interrupts.hold():
            # The lease is lost, or there is one more signal to heed. That comes first.
            return
        clock, until = lease
        last_run, guards, running = self.crew.hand_over()
        handed = HandedNode(
            node=self.id,
            clock=clock,
            until=until,
            last_run=last_run,
            guards=guards,
            runs=running,
            watches=self.broadcast.hand_over(),
        )
        self.log.flush()
        try:
            self.orders.restart.execute(handed)
        except OSError as error:
            self.interrupts.go_on()
            self.orders.restart.call_off()
            self._say(f"Can't start again, so this node goes on as it is: {error}", level="error")

    # -- starting over --------------------------------------------------------------------

    def _start_over(self) -> None:
        """Go on under a new id after the lease was lost; nothing of the old one may be written."""
        if not self.turns.refusals:
            self._say("The lease was lost; its runs are ended.", level="warning")
        self.member.stop_renewing()
        self.crew.release(self.crew.workers.waiting())
        self.crew.kill(self.crew.running, runs.LEASE)
        heard = monotonic()
        while self.crew.running:
            self.log.flush()
            ready = {fd for fd, _ in self._poll.poll(1000)}
            self.orders.hear(ready, self._poll)
            if self.listener.fileno() in ready:
                # Whatever it is: everything is looked at anew afterwards.
                self.listener.heard()
            if self.crew.hears(ready):
                heard = monotonic()
            self.crew.hear(ready)
            if monotonic() - heard > STALLED_AFTER:
                self.crew.abandon()
        self._settle(self.turns.release_all())
        old = self.member.rename()
        self.log.node = self.id
        self.member.join()
        self.shown_stopping = None
        self._say(f"Goes on as node {self.id} (was {old}).")
        self.log.flush()
        self.claiming.may_be_work = True

    # -- hearing --------------------------------------------------------------------------

    def _sleep(self) -> set[int]:
        """Wait until there is something to do; return the descriptors that have something."""
        self.crew.watch_for_room()
        pause = self.agenda.pause()
        return {fd for fd, _ in self._poll.poll(int(pause * 1000) + (1 if pause else 0))}

    def _turn_in(self) -> float:
        """Return in how many seconds a turn is wanted, if nothing else happens."""
        claiming = self.claiming.wants_more or self.member.lost
        lingers = self.crew.workers.has_line and not self.orders.takes_no_more
        return self.turns.due_in(claiming=claiming, lingers=lingers)

    # The hooks of the crew.

    def on_begun(self, run: Run) -> None:
        """Say that a run starts."""
        self.job_log.begun(run)

    def on_over(self, run: Run) -> None:
        """Have the next turn write down what became of a run."""
        self.turns.add(run)
        self.job_log.over(run)
        self.claiming.run_over(run)

    def on_unable(self, why: str) -> None:
        """Leave jobs to others for a while."""
        if self.claiming.pause():
            self._say(f"No job can be started here: {why}. Trying again.", level="error")

    def _hear_store(self, ready: Collection[int]) -> None:
        told = self.listener.fileno() in ready or self.listener.recheck_in() is not None
        topics = self.listener.heard() if told else set()
        self.claiming.watch_clock()
        if Topic.CONTROL in topics:
            self._guarded(self._heed_upgrade)
            self._guarded(lambda: self._obey(self.rescuer.look(self.id)))
        if Topic.WORK in topics and not self.claiming.may_be_work:
            if self.rescuer.others or self.listener.recheck_in() is not None:
                self._guarded(self.claiming.look)
            else:
                # We were told, and are alone: the claim itself is the quickest way to find out.
                self.claiming.may_be_work = True

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something that may fail while the store is in trouble; then say so, and go on."""
        try:
            action()
        except StoreMissingError:
            # The database was deleted or replaced: nobody will ever read what we write.
            raise
        except StoreError as error:
            self._say(error.advised, level="warning")

    def _obey(self, me: Node | None) -> None:
        """Look for what people ask of this node: stop requests, cancellations, new settings."""
        self._read_settings()
        if me is not None and me.stop == Stop.DRAIN:
            self.orders.drain(f"Stop requested: {finishing(self.orders.what_runs())}.")
        elif me is not None and me.stop == Stop.RELEASE:
            self.orders.release(f"Stop requested: {releasing(self.orders.what_runs())}.")
        running = self.crew.running
        by_seq = {run.job.seq: number for number, run in running.items()}
        for job in self.store.runs.held(self.id, to_cancel=True) if running else ():
            number = by_seq.get(job.seq)
            if number is not None and running[number].job.cancel_reason is None:
                runs.with_cancel(running[number], job.cancel_reason or "cancelled")
                self.crew.stop([number], runs.CANCEL)
        self.broadcast.look(running.values())

    def _read_settings(self) -> None:
        """Take over changed settings; what contradicts our own flags or environment is left."""
        before = self.config.count
        try:
            settings = self.queue.settings
        except BadSettingError as error:
            self._say(f"The settings stay as they were: {error}", level="warning")
            return
        self.config.take(settings)
        self.log.limit(size=settings.log_size, keep=settings.log_files)
        if self.config.count != before:
            self._resize(before)

    def _resize(self, before: int) -> None:
        """Have another number of workers from now on."""
        self.crew.resize()
        self.claiming.may_be_work = True
        busy = len(self.crew.running)
        left = f"; {busy} runs go on first" if self.config.count < busy else ""
        self._say(
            f"The setting workers has changed: {self._workers()} from now on, not {before}{left}."
        )
        self._guarded(self.member.show_workers)

    # -- the turn -------------------------------------------------------------------------

    def _turn(self) -> None:
        """Finish what ended and claim what is free, in one commit; then start the new runs."""
        try:
            if self.member.lost:
                self._start_over()
            turn = self._take_turn()
        except LeaseLostError:
            self.member.note_loss()
            return
        except StoreError as error:
            self.turns.be_patient(error)
            self._say(f"{error} Trying again.", level="error")
            return
        if self.turns.refusals:
            self._say("The database can be used again.")
        self.turns.refusals = 0
        if turn is not None:
            self.job_log.buried(turn.now, turn.buried)
            if turn.over:
                self._settle(turn)
            that_was_all = len(turn.jobs) < turn.asked
            if that_was_all:
                self.claiming.may_be_work = False
            if turn.jobs:
                self.listener.expect()
                self._guarded(self.member.make_spool)
                self.crew.begin(turn.jobs)
            if that_was_all:
                # The turn is made, whether or not the server can still say this.
                self._guarded(self.claiming.ask_what_next)

    def _take_turn(self) -> Turn | None:
        self.crew.workers.commit_takes = self.turns.takes
        return self.turns.take(self.claiming.offer())

    def _settle(self, turn: Turn) -> None:
        """Be done with the runs whose ends are stored."""
        self.job_log.settled(turn)
        for end in turn.ends:
            self.claiming.due_at(end.transition.run_at)
        for run in turn.over:
            runs.clean(run)
        self.broadcast.end(turn.over)
        self.turns.settle(turn)

    # -- now and then -----------------------------------------------------------------------

    def _tick(self) -> None:
        self.tick.set(TICK)
        if self.orders.ends_here and self.orders.stopping != self.shown_stopping:
            self._guarded(self._show_stopping)
        self._guarded(self.member.show_workers)
        self.claiming.try_held_up()
        self._guarded(self._look_around)

    def _show_stopping(self) -> None:
        """Let others see that this node takes no more jobs, whoever asked for it."""
        stopping = self.orders.stopping
        assert stopping is not None
        self.store.nodes.ask_stop(self.id, stopping)
        self.shown_stopping = stopping

    def _look_around(self) -> None:
        """Notice what nobody told us of: foreign writes, requests, and nodes that died."""
        changed = self.overlooked = self.store.changed() or self.overlooked
        # Whether others still live is only known from looking.
        me = self.rescuer.look(self.id) if changed or self.rescuer.others else None
        if changed:
            self._obey(me)
            # A listener that has to look again and again does it anyway.
            if not self.claiming.may_be_work and self.listener.recheck_in() is None:
                self.claiming.look()
        if changed or self.rescuer.has_reason():
            self.rescuer.rescue(self.rescuer.others)
        self.overlooked = False
        self.turns.fold()

    def _heed_upgrade(self) -> None:
        """Finish and leave if tables have changed that we know nothing of."""
        if self.orders.restart.way is Way.ANEW:
            # That one takes over anyway.
            return
        try:
            self.store.check_schema()
        except StoreTooNewError as error:
            self.exit_code = error.exit_code
            self.orders.drain(
                f"A newer queuectl has upgraded {self.queue.url}:"
                f" {finishing(self.orders.what_runs())}; start the workers again with that one."
            )

    def _tell_rescue(self, job: Job, end: Ended | None, why: str) -> None:
        self.job_log.rescued(self.store.now(), job, end, why)
        self.claiming.may_be_work = True

    def _renew(self) -> None:
        if self.member.renew_if_due():
            self.listener.disregard()

    def _tidy(self) -> None:
        self.tidying.set(TIDY_EVERY)
        self._guarded(self._clear_away)

    def _clear_away(self) -> None:
        """Notice a new schema, and delete what is past its retention."""
        self._heed_upgrade()
        upkeep.prune(self.queue, self.config.settings)
        self.store.history.coarsen(now=self.store.now())
        self.store.live.drop_stale(now=self.store.now())
        logfiles.sweep(self.queue, self.config.settings.log_retention)

    # -- telling ------------------------------------------------------------------------------

    def _say(self, text: str, *, level: str = "info") -> None:
        self.log.say(self.store.now(), text, level=level)


def _or_never(seconds: float | None) -> float:
    return inf if seconds is None else seconds
