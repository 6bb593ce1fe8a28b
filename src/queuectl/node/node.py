"""The node's loop: one process, N workers, one transaction per turn.

Each turn finishes all runs that ended and claims jobs for the workers in one durable commit
(`turns`), then gives the new runs to the crew (`crew`). Whether and how many are claimed is up to
`claiming`. Between turns it sleeps until a guard, the store or a signal has something to say, or
something on its agenda is due (`agenda`). What it was told, `orders` carries out.
"""

import gc
import os
import select
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from queuectl import __version__
from queuectl.errors import (
    LeaseLostError,
    QueuectlError,
    StateError,
    StoreError,
    StoreMissingError,
    UsageError,
)
from queuectl.facts import Node, waiting_by_queue
from queuectl.guard import tree, wire
from queuectl.job import Exited, Job, Output, State, Transition
from queuectl.node import logfiles, runs, upkeep
from queuectl.node.agenda import Agenda, Entry, Timer, never
from queuectl.node.broadcast import Broadcast
from queuectl.node.claiming import Claiming
from queuectl.node.config import Config, NodeOptions
from queuectl.node.crew import Crew
from queuectl.node.guards import STALLED_AFTER, Guards
from queuectl.node.joblog import JobLog, name_runs, name_workers
from queuectl.node.log import Log
from queuectl.node.membership import Membership, new_id
from queuectl.node.orders import Orders
from queuectl.node.processes import Processes
from queuectl.node.progress import ProgressWatch
from queuectl.node.restart import Restart, Way
from queuectl.node.runner import Runner
from queuectl.node.runs import Run
from queuectl.node.scheduling import Scheduling
from queuectl.node.signals import Interrupts, orders
from queuectl.node.turns import Turn, TurnTaker
from queuectl.queue import Queue
from queuectl.resources import GPU
from queuectl.shortage import is_short
from queuectl.store.contract import Ended, Over, Topic
from queuectl.tracecontext import VARIABLES
from queuectl.values import quicken

if TYPE_CHECKING:
    from queuectl.node.reload import SourceWatch
    from queuectl.node.scraping import Server
    from queuectl.node.traces import Traces

ROUND = 1.0
"""Seconds between looks for dead nodes, and for work nobody told us of."""
EARLY = 0.1
"""Seconds by which a look comes early when the node is awake anyway: so it wakes up less often."""
TIDY_EVERY = 60.0
"""Seconds between prunings."""
MANY = 2**31 - 1
"""More jobs than a line has."""
LITTER = 20_000
"""Objects that come to be before the collector looks for circles among them."""

# A node makes these for every run.
quicken(Exited, Transition, Output, Ended)


class NodeLoop:
    """A running node: its parts, and the loop that has each of them do its work in time."""

    def __init__(self, queue: Queue, options: NodeOptions) -> None:
        self.queue = queue
        self.store = store = queue.store
        self.options = options
        settings = queue.settings
        tuning = options.tuning
        config = Config(
            settings, count=options.count, forced_base=options.backoff_base, tuning=tuning
        )
        queues, say = options.queues, self._say
        self.config = config
        self.interrupts = Interrupts()
        self.round, self.tidying = Timer(), Timer()
        id = options.id if options.handed is None else options.handed.node
        self.log = Log(
            node=id or new_id(), as_json=options.log_json, to_terminal=options.to_terminal
        )
        if options.log:
            self.log.open_file(options.log, size=settings.log_size, keep=settings.log_files)
        self.job_log = JobLog(self.log)
        # The URL may carry a password; jobs are told where the queue is without it.
        # And of which trace we are a part is nothing to them.
        hidden = {"QUEUECTL_DB", "QUEUECTL_DB_PATH", *VARIABLES, *store.secret_variables}
        self.guards = guards = Guards(hidden, tuning.env)
        self.member = member = Membership(
            queue,
            id=self.log.node,
            config=config,
            queues=queues,
            guards=guards,
            wake=self.interrupts.rouse,
            say=say,
        )
        processes = Processes(
            guards=guards,
            member=member,
            store=store,
            config=config,
            programs=options.programs,
            say=say,
            hides_gpus=f"{GPU}=[" in queues.resources,
        )
        self.runner: Runner = processes
        if options.programs.warm:
            from queuectl.node.handlers import Handlers

            self.runner = Handlers(processes=processes)
        self.traces: Traces | None = None
        if tuning.traces:
            from queuectl.node import traces

            self.traces = traces.open_traces()
        self.crew = crew = Crew(
            runner=self.runner,
            member=member,
            config=config,
            hooks=self,
            say=say,
            traces=self.traces,
        )
        self.turns = TurnTaker(store, member, config)
        self.progress = ProgressWatch(store)
        self.broadcast = Broadcast(store, lambda: config.settings.output_limit)
        self.orders = orders = Orders(
            queue=queue,
            config=config,
            member=member,
            crew=crew,
            turns=self.turns,
            broadcast=self.broadcast,
            interrupts=self.interrupts,
            restart=Restart(options.again),
            log=self.log,
            say=say,
            hurry=self.round.hurry,
            flush=self._flush,
        )
        self.claiming = Claiming(
            store=store, queues=queues, config=config, member=member, crew=crew, orders=orders
        )
        self.rescuer = upkeep.Rescuer(
            queue=queue,
            config=config,
            heard=self._tell_rescue,
            predecessors=self.claiming.predecessors,
        )
        self.scheduling = Scheduling(queue)
        self.sources: SourceWatch | None = None
        if options.reload:
            from queuectl.node import reload

            self.sources = reload.SourceWatch(os.getcwd())
        self.overlooked = False
        """Whether somebody has changed something, and we couldn't see what."""
        self.scrapes: Server | None = None
        if options.metrics is not None:
            self.scrapes = self._server(options.metrics)

    def _server(self, address: tuple[str, int]) -> "Server":
        """Return what serves the metrics of this node and its queue."""
        from queuectl.node.metrics import NodeMetrics, Pages
        from queuectl.node.scraping import Server

        metrics = NodeMetrics(
            member=self.member,
            config=self.config,
            crew=self.crew,
            turns=self.turns,
            guards=self.guards,
        )
        pages = Pages(metrics, self.options.place)
        return Server(address, answer=pages.answer, done=pages.close, say=self._say)

    @property
    def id(self) -> str:
        """The name under which this node is known, for now."""
        return self.member.id

    # -- life ---------------------------------------------------------------------------

    def serve(self) -> int:
        """Register, work until there is nothing left to do or somebody says stop, and leave."""
        tree.become_subreaper()
        self._listen()
        goes_on = self._start_crew()
        try:
            self.interrupts.catch(orders(background=not self.options.to_terminal))
            self._join(goes_on=goes_on)
            # From now on we come back to it ourselves, and see to the runs meanwhile.
            self.store.patience = 0.0
            self.listener = self.store.listen()
            if self.options.tuning.poll_interval is not None:
                self.listener.pace(self.options.tuning.poll_interval / 1000)
            self._poll = select.poll()
            for heard in (self.interrupts, self.listener):
                if heard.fileno() >= 0:
                    self._poll.register(heard.fileno(), select.POLLIN)
            self.runner.listen(self._poll)
            self.agenda = self._agenda()
            self._greet(goes_on=goes_on)
            if self.scrapes is not None:
                self.scrapes.start()
            if self.options.ready is not None:
                self.options.ready()
            if self.options.queues.has_classes:
                self._guarded(lambda: self.rescuer.look_for_predecessors(self.id))
            # What is here stays, and runs refer to nothing in circles: the collector can wait.
            gc.freeze()
            gc.set_threshold(LITTER)
            self._loop()
            self._leave()
        finally:
            self.runner.close()
            if self.scrapes is not None:
                self.scrapes.stop()
            if self.traces is not None:
                self.traces.close()
                self._tell_trouble()
            self.log.close()
        while self.orders.restart.way is Way.ANEW and not self.interrupts.hold():
            # What comes from here on is for who comes next; what came before may be a stop.
            self.orders.hear({self.interrupts.fileno()}, self._poll)
            self.log.flush()
        if self.orders.restart.way is not Way.ANEW:
            # Nothing is left to stop. One more signal must not make a good end look like a kill.
            self.interrupts.ignore()
        return self.orders.exit_code

    def _listen(self) -> None:
        """Take the address at which metrics are served, if they are."""
        if self.scrapes is None:
            return
        try:
            self.scrapes.listen()
            self._say(f"Metrics are at {self.scrapes.url}")
        except (StateError, UsageError) as error:
            if self.options.handed is None:
                raise
            # Runs go on here, and must not end for that.
            self._say(f"{error} Trying again.", level="warning")

    def _start_crew(self) -> bool:
        """Start the guards, or go on with those that there are; True if their runs go on."""
        handed = self.options.handed
        if handed is None:
            self.runner.open()
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
        queues = self.options.queues
        serves = str(queues) if queues.names else str(queues).replace("all", "all queues", 1)
        workers = name_workers(self.config.count)
        does = "starting"
        if goes_on:
            running = self.orders.what_runs()
            what = f" with {name_runs(running)}" if running else ""
            does = f"queuectl {__version__} goes on{what};"
        self._say(
            f"pid {os.getpid()} on {self.member.host}: {does} {workers} for {serves},"
            f" {self.queue.url}"
        )
        if self.options.tuning.verbose:
            self._say(self.config.told(), level="debug")
            for handler, program in self.options.programs.told():
                self._say(f"{handler}: {program}", level="debug")
        self.log.flush()

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
        broadcast, listener = self.broadcast, self.listener
        return Agenda(
            Entry("the answer of the installed queuectl", self.orders.restart.answers_in),
            Entry("a guard that takes nothing", self.runner.stalls_in),
            Entry("another look for news", lambda: _or_never(listener.recheck_in())),
            Entry("the next due job", self.claiming.looks_in),
            Entry("the end of a pause", self.claiming.resumes_in),
            Entry("runs held up", self.crew.held_up_in, self.crew.release_held_up),
            Entry("turn", self._turn_in, self._turn),
            Entry("children", self._children_in, partial(self._guarded, self._tell_children)),
            Entry("a schedule", self.scheduling.due_in, partial(self._guarded, self._schedule)),
            Entry("hand-over", never, self._hand_over, early=inf),
            Entry("a round", self.round.due_in, self._go_round, early=EARLY),
            # With one of the rounds, which come more often.
            Entry("tidying", self.tidying.due_in, self._tidy, early=ROUND),
            # The lease itself knows how early is early enough.
            Entry("renewal", lambda: self.member.lease.due_in(), self._renew, early=inf),
            Entry(
                "broadcast",
                lambda: broadcast.due - monotonic(),
                partial(self._guarded, broadcast.send),
            ),
        )

    def _children_in(self) -> float:
        """Return 0 if an end that was stored was one for very many children: they are told next."""
        return 0.0 if self.store.jobs.unsettled else inf

    def _tell_children(self) -> None:
        if self.store.jobs.settle():
            self.claiming.may_be_work = True

    def _hand_over(self) -> None:
        if self.orders.restart.way is Way.HAND_OVER:
            self._guarded(self.orders.hand_over_if_settled)

    def _tell_trouble(self) -> None:
        """Say now and then what is wrong with exporting spans."""
        if self.traces is not None and (trouble := self.traces.trouble()) is not None:
            self._say(f"Traces: {trouble}", level="warning")

    def _flush(self) -> None:
        if self.traces is not None:
            self.traces.flush()

    def _is_done(self) -> bool:
        if self.crew.running or self.turns.pending:
            return False
        if self.orders.stopping is not None:
            return True
        if not self.options.drain or self.claiming.may_be_work:
            return False
        try:
            counts, queues = self.store.jobs.counts(), self.store.settings.queues()
            lines = waiting_by_queue(counts, queues, self.options.queues)
            waiting = sum(lines.values()) - sum(self.store.jobs.count_held(list(lines)).values())
            waiting -= self._unhandled() if waiting else 0
            if waiting:
                self.job_log.waits(self.store.clock.now(), waiting, self.claiming.next_due)
            return not waiting and not self.rescuer.may_leave_jobs(self.options.queues)
        except StoreError:
            return False

    def _unhandled(self) -> int:
        """Count the ready jobs of our queues that are for other nodes to run."""
        return sum(self._lines_of_others().values())

    def _lines_of_others(self) -> dict[str, int]:
        """Count the ready jobs of our queues that are for other nodes, by what these must have."""
        queues = self.options.queues
        found: Counter[str] = Counter()
        for (queue, handler), jobs in self.store.runs.lines(MANY).items():
            if queue in queues and not queues.handles(handler):
                found[handler] += jobs
        return found

    def _leave(self) -> None:
        self.member.lease.stop()
        # If the store can't be told now, the next node finds ours dead and strikes it out.
        self._guarded(lambda: self.store.runs.rescue(self.id, lambda jobs, now: Over()))
        self._guarded(lambda: upkeep.sweep_spool(self.queue))
        self.listener.close()
        if self.orders.restart.way is Way.ANEW:
            self._say("Nothing is left running; starting again.")
        elif self.orders.stopping:
            self._say("Stopped; nothing was left running.")
        else:
            self._guarded(self._tell_what_is_left)

    def _tell_what_is_left(self) -> None:
        ours, counts = self.options.queues, self.store.jobs.counts()
        lines = waiting_by_queue(counts, self.store.settings.queues(), ours)
        held = sum(self.store.jobs.count_held(list(lines)).values())
        others = self._lines_of_others()
        short = sum(jobs for handler, jobs in others.items() if is_short(handler, [ours]))
        blocked = [one for one in counts if one.state == State.BLOCKED and one.queue in ours]
        left = {
            "in paused queues": sum(waiting_by_queue(counts, (), ours).values())
            - sum(lines.values()),
            "held": held,
            "for other nodes to handle": sum(others.values()) - short,
            "for nodes that have what is needed (see queuectl status)": short,
            "blocked by others (see queuectl groups, and queuectl explain ID)": sum(
                one.jobs for one in blocked
            ),
        }
        self.job_log.nothing_left(self.store.clock.now(), left)

    # -- starting over --------------------------------------------------------------------

    def _start_over(self) -> None:
        """Go on under a new id after the lease was lost; nothing of the old one may be written."""
        if not self.turns.refusals:
            self._say("The lease was lost; its runs are ended.", level="warning")
        self.member.lease.stop()
        self.crew.release_waiting()
        self.crew.kill(self.crew.running, wire.LEASE)
        heard = monotonic()
        while self.crew.running:
            self.log.flush()
            ready = {fd for fd, _ in self._poll.poll(1000)}
            self.orders.hear(ready, self._poll)
            if self.listener.fileno() in ready:
                # Whatever it is: everything is looked at anew afterwards.
                self.listener.heard()
            if self.runner.speaks(ready):
                heard = monotonic()
            self.crew.hear(ready)
            if monotonic() - heard > STALLED_AFTER:
                self.runner.abandon(self.crew.running)
        self._settle(self.turns.release_all())
        old = self.member.rename()
        self.log.node = self.id
        self.member.join()
        self.orders.shown = None
        self._say(f"Goes on as node {self.id} (was {old}).")
        self.log.flush()
        self.claiming.may_be_work = True

    # -- hearing --------------------------------------------------------------------------

    def _sleep(self) -> set[int]:
        """Wait until there is something to do; return the descriptors that have something."""
        self.runner.watch_for_room()
        pause = self.agenda.pause()
        return {fd for fd, _ in self._poll.poll(int(pause * 1000) + (1 if pause else 0))}

    def _turn_in(self) -> float:
        """Return in how many seconds a turn is wanted, if nothing else happens."""
        claiming = self.claiming.wants_more or self.member.lease.lost
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
        may_be_news = self.listener.fileno() in ready or self.listener.recheck_in() is not None
        topics = self.listener.heard() if may_be_news else set()
        self.claiming.watch_clock()
        if Topic.CONTROL in topics:
            self._guarded(self.orders.heed_upgrade)
            self._guarded(lambda: self._obey(self._see_who_is_there()))
            self._guarded(self.scheduling.look)
        if Topic.WORK in topics and not self.claiming.may_be_work:
            if self.listener.told and not self.rescuer.others:
                # We are alone: the claim itself is the quickest way to find out.
                self.claiming.may_be_work = True
            else:
                self._guarded(self.claiming.look)

    def _guarded(self, action: Callable[[], object]) -> None:
        """Do something that may fail while the store is in trouble; then say so, and go on."""
        try:
            action()
        except StoreMissingError:
            # The database was deleted or replaced: nobody will ever read what we write.
            raise
        except StoreError as error:
            self._say(error.advised, level="warning")

    def _obey(self, me: Node | None) -> None:
        """Do what people ask of this node; `me` is its row."""
        if self.orders.read_settings():
            self.claiming.may_be_work = True
            self._guarded(self.member.show_workers)
        self.orders.obey(me)

    # -- the turn -------------------------------------------------------------------------

    def _turn(self) -> None:
        """Finish what ended and claim what is free, in one commit; then start the new runs."""
        try:
            if self.member.lease.lost:
                self._start_over()
            self.crew.workers.commit_takes = self.turns.takes
            turn = self.turns.take(self.claiming.offer())
        except LeaseLostError:
            self.member.lease.lost = True
            return
        except StoreError as error:
            self.turns.be_patient(error)
            self._say(f"{error} Trying again.", level="error")
            return
        if self.turns.refusals:
            self._say("The database can be used again.")
        self.turns.refusals = 0
        if turn is not None:
            if self.options.tuning.verbose:
                self._tell_turn(turn)
            self.job_log.buried(turn.now, turn.result.buried)
            if turn.over:
                self._settle(turn)
            jobs = turn.result.jobs
            self.claiming.took(jobs)
            if turn.asked:
                self.claiming.limited = turn.result.limited or turn.result.waits
            that_was_all = len(jobs) < turn.asked
            if that_was_all:
                self.claiming.may_be_work = False
            if jobs:
                self.listener.expect()
                self._guarded(self.member.make_spool)
                self.crew.begin(jobs)
            if that_was_all:
                # The turn is made, whether or not the server can still say this.
                self._guarded(self.claiming.ask_what_next)

    def _tell_turn(self, turn: Turn) -> None:
        jobs, took = len(turn.result.jobs), self.turns.takes * 1000
        self._say(
            f"A commit ended {len(turn.over)} runs and claimed {jobs} jobs for {turn.asked}"
            f" workers; lately one takes {took:.1f} ms.",
            level="debug",
        )

    def _settle(self, turn: Turn) -> None:
        """Be done with the runs whose ends are stored."""
        self.job_log.settled(turn)
        for end in turn.result.ends:
            self.claiming.due_at(end.transition.run_at)
        if self.traces is not None:
            self.traces.take(turn.result)
        for run in turn.over:
            runs.clean(run)
        self.broadcast.end(turn.over)
        self.turns.settle(turn)

    def _schedule(self) -> None:
        """Make the jobs of schedules that are due."""
        try:
            made = self.scheduling.tick()
        except StoreError:
            raise
        except QueuectlError as error:
            # Whatever is wrong with a schedule, the jobs that run here have no part in it.
            self._say(f"Schedules: {error}", level="error")
            return
        for job in made:
            self._say(f"Schedule {job.schedule} made job {job.id}.")
            self.claiming.may_be_work = True

    # -- now and then -----------------------------------------------------------------------

    def _go_round(self) -> None:
        self.round.set(ROUND)
        self._guarded(self.orders.show)
        self._guarded(self.member.show_workers)
        self.claiming.try_held_up()
        self._guarded(self._look_around)
        self._guarded(self._tell_progress)
        self._tell_trouble()
        if self.sources is not None and (path := self.sources.changed()) is not None:
            self.orders.start_again(f"{path} has changed", self._poll)

    def _tell_progress(self) -> None:
        self.progress.look(self.member.spool, self.crew.running.values())

    def _look_around(self) -> None:
        """Notice what nobody told us of: foreign writes, requests, and nodes that died."""
        changed = self.overlooked = self.store.changed() or self.overlooked
        # Whether others still live is only known from looking.
        me = self._see_who_is_there() if changed or self.rescuer.others else None
        if changed:
            self._obey(me)
            # A listener that has to look again and again does it anyway.
            if not self.claiming.may_be_work and self.listener.recheck_in() is None:
                self.claiming.look()
        if changed or self.rescuer.has_reason():
            waits = bool(self.rescuer.predecessors)
            self.rescuer.rescue(self.rescuer.others)
            if waits and not self.rescuer.predecessors:
                self.claiming.may_be_work = True
        self.overlooked = False
        self.turns.fold()

    def _see_who_is_there(self) -> Node | None:
        """Look at the register; whoever isn't in it any more has no lease."""
        me = self.rescuer.look(self.id)
        if me is None:
            self.member.lease.lost = True
        return me

    def _tell_rescue(self, job: Job, end: Ended | None, why: str) -> None:
        self.job_log.rescued(self.store.clock.now(), job, end, why)
        if self.traces is not None and end is not None:
            self.traces.over(end)
        self.claiming.may_be_work = True

    def _renew(self) -> None:
        if self.member.lease.renew_if_due(self.store):
            self.listener.disregard()

    def _tidy(self) -> None:
        self.tidying.set(TIDY_EVERY)
        self._guarded(self._clear_away)

    def _clear_away(self) -> None:
        """Notice a new schema, and delete what is past its retention."""
        self.orders.heed_upgrade()
        upkeep.prune(self.queue, self.config.settings)
        now, kept = self.store.clock.now(), self.config.settings.events_retention
        heard = self.config.settings.emitted_retention
        self.store.tidy(
            now=now,
            events_before=now - kept if kept else None,
            emitted_before=now - heard if heard else None,
        )
        logfiles.sweep(self.queue, self.config.settings.log_retention)

    def _say(self, text: str, *, level: str = "info") -> None:
        self.log.say(self.store.clock.now(), text, level=level)


def _or_never(seconds: float | None) -> float:
    return inf if seconds is None else seconds
