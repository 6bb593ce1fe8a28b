"""Upkeep, which any node does for all of them now and then: rescue, retention, tidying.

Any node may do any of it; a transaction decides who was first.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from shutil import rmtree
from time import monotonic, time_ns

from queuectl.admission import Serving
from queuectl.facts import Event, Node
from queuectl.guard.board import read_boards
from queuectl.guard.leftovers import kill_leftovers
from queuectl.guard.mark import OWNER
from queuectl.host import host_identity, host_name, is_running, whoami
from queuectl.job import Job, Lost, Released, State
from queuectl.node import runs
from queuectl.node.config import Config
from queuectl.queue import Queue
from queuectl.settings import Settings
from queuectl.spool import name_left
from queuectl.store.contract import Asked, Ended, Over, Store, Turned

PRUNED_AT_ONCE = 500


@dataclass(kw_only=True)
class Rescuer:
    """Knows the other nodes, as they were when we last looked, and rescues the jobs of the dead."""

    queue: Queue
    config: Config
    heard: Callable[[Job, Ended | None, str], None]
    """Told what became of each job and why; of one whose run never began, without its end."""
    others: list[Node] = field(default_factory=list)
    predecessors: set[str] = field(default_factory=set)
    """Those of this host that were dead when we began, until nothing of their runs is left."""
    _me: str | None = None
    """Who looked last."""
    _unknown_since: dict[str, float] = field(default_factory=dict)
    """When jobs were first seen in the hands of a node that isn't registered."""

    def look(self, me: str) -> Node | None:
        """See who is there; returns what the register says of the node that looks."""
        self._me = me
        nodes = {node.id: node for node in self.queue.store.nodes.all()}
        mine = nodes.pop(me, None)
        self.others = list(nodes.values())
        return mine

    def look_for_predecessors(self, me: str) -> None:
        """See which nodes of this host with resources have died, before we give out any."""
        self.look(me)
        here = host_identity()
        self.predecessors.update(
            node.id
            for node in self.others
            if node.boot == here and node.queues.has_classes and self.queue.is_dead(node)
        )

    def has_reason(self) -> bool:
        """Tell whether somebody is dead, or it was too early yet to rescue what nobody holds."""
        return bool(self._unknown_since) or any(map(self.queue.is_dead, self.others))

    def may_leave_jobs(self, queues: Serving) -> bool:
        """Tell whether nodes that seem to be dead hold jobs: once that is certain, these wait."""
        return bool(self._unknown_since) or any(
            job.queue in queues
            for node in self.others
            if not self.queue.is_alive(node) and not self.queue.is_dead(node)
            for job in self.queue.store.runs.held(node.id)
        )

    def rescue(self, others: Sequence[Node]) -> None:
        """Rescue what the dead among these nodes held, and jobs in the hands of nobody."""
        # Who was rescued by somebody else has nothing left here either.
        self.predecessors.intersection_update(node.id for node in others)
        for node in others:
            if self.queue.is_dead(node):
                self._rescue_node(node)
        unknown = {str(job.node) for job in self.queue.store.runs.held(None)}
        # Whoever was struck out gives its jobs back itself: it knows which of them have begun.
        unknown.discard(str(self._me))
        for gone in self._unknown_since.keys() - unknown:
            del self._unknown_since[gone]
        for node_id in unknown:
            self._rescue_strays(node_id)

    def _rescue_node(self, node: Node) -> None:
        local = node.boot == host_identity()
        if local and self._kill_leftovers(node.id):
            # Something can't be killed yet; to run its job again beside it would be worse.
            return
        self.predecessors.discard(node.id)
        plan = _Plan(
            config=self.config,
            left=self._spool_of(node.id),
            spool=node.spool,
            why=_reason(node, local),
            host=node.host,
            # What was written before the host went down may not have reached its disk.
            boards=local,
            heard=node.seen_at,
        )
        # If it has shown no life since: from here on, whatever it still writes is refused.
        turned = self.queue.store.runs.rescue(node.id, plan, beat=node.beat)
        if turned is None:
            # Somebody was first, and tidies up.
            return
        plan.tell(turned, self.heard)
        if node.host == host_name():
            rmtree(self._spool_of(node.id), ignore_errors=True)

    def _rescue_strays(self, node_id: str) -> None:
        store = self.queue.store
        since = self._unknown_since.setdefault(node_id, monotonic())
        if not store.one_host and (monotonic() - since) * 1000 < self.config.settings.lease:
            # Somebody deleted a living node's row: until it notices, its runs go on.
            return
        if self._kill_leftovers(node_id):
            return
        spool = self._spool_of(node_id)
        why = f"node {node_id} isn't registered any more"
        # When it last showed life was in its row. What its runs wrote may still tell.
        plan = _Plan(config=self.config, left=spool, spool=spool, why=why)
        turned = store.runs.rescue(node_id, plan, registered=False)
        if turned is not None:
            plan.tell(turned, self.heard)

    def _spool_of(self, node_id: str) -> str:
        """Return where a node of this queue keeps output on this host.

        Not what its row says: a copy of a database must not touch the folders of the original.
        """
        return os.path.join(self.queue.store.folder.spool, node_id)

    def _kill_leftovers(self, node_id: str) -> bool:
        """Kill what a node left running on this host; True when something can't be killed yet."""
        mark = runs.owner_of(node_id, self.queue.store.identity)
        return bool(kill_leftovers(OWNER, {mark}, os.path.realpath(self._spool_of(node_id))))


@dataclass(kw_only=True)
class _Plan:
    """What becomes of the jobs in the hands of a node that is gone."""

    config: Config
    left: str
    """Where the node kept output, if that was on this host."""
    spool: str
    why: str
    host: str = "unknown"
    boards: bool = False
    """Whether its boards say which runs had begun."""
    heard: int = 0
    """When it last showed life."""
    jobs: Sequence[Job] = ()

    def __call__(self, held: Sequence[Job], now: int) -> Over:
        """Release jobs whose runs never began, and take the others for lost."""
        self.jobs = held
        name_left(self.left, held)
        begun = read_boards(self.spool) if self.boards else None
        unstarted = [job for job in held if not runs.may_have_begun(job, begun)]
        spared = {job.seq for job in unstarted}

        def judge(stuck: Sequence[Job], asked: Asked, now: int) -> list[Ended]:
            rest = [job for job in held if job.seq not in spared or job in stuck]
            return [self._end(job, now, may_have_begun=job.seq not in spared) for job in rest]

        return Over(unstarted, judge, self._note)

    def _end(self, job: Job, now: int, *, may_have_begun: bool) -> Ended:
        """Decide what becomes of a job, with the output that its run has left behind.

        A lost run counts as over since its node last showed life, or since it last wrote something,
        however late it is `now` that somebody notices.
        """
        outcome = Lost(self.why) if may_have_begun else Released(self.why)
        run = runs.Run(job=job, spool=self.spool, claimed=0, outcome=outcome)
        end = runs.finish(run, self.config, now=now, host=self.host)
        over = end.started_at
        if may_have_begun:
            over = max(over, min(now, max(self.heard, _wrote_at(run, now))))
        took = over - end.started_at
        return replace(end, finished_at=over, duration_ms=took, noticed_at=now)

    def _note(self, job: Job, end: Ended | None, now: int) -> Event | None:
        """Keep that a job was rescued, or cancelled by that; that it died is kept already."""
        state = None if end is None else end.transition.state
        if state == State.DEAD:
            return None
        kind = "cancelled" if state == State.CANCELLED else "rescue"
        return Event(at=now, kind=kind, job=job.id, node=job.node, who=whoami(), detail=self.why)

    def tell(self, turned: Turned, heard: Callable[[Job, Ended | None, str], None]) -> None:
        """Tell what became of each job; nothing of those that somebody else has by now."""
        late = {end.job.seq for end in turned.lost}
        by_seq = {end.job.seq: end for end in turned.ends}
        for job in self.jobs:
            if job.seq not in late:
                heard(job, by_seq.get(job.seq), self.why)


def _wrote_at(run: runs.Run, now: int) -> int:
    """Return when a run last wrote something that is left here, by the store's clock; else 0."""
    newest = 0
    for path in run.files:
        with suppress(OSError):
            newest = max(newest, os.stat(path).st_mtime_ns)
    # The files' times are by this host's clock, which may not be the store's; their age is not.
    return now - (time_ns() - newest) // 1_000_000 if newest else 0


def _reason(node: Node, local: bool) -> str:
    name = f"node {node.id} on {node.host} (pid {node.pid})"
    if local and not is_running(node.pid, node.pid_start):
        return f"{name} died"
    return f"{name} stopped renewing its lease"


def prune(queue: Queue, settings: Settings) -> None:
    """Delete finished jobs that are past their retention, a few at a time."""
    while _prune_jobs(queue.store, settings) >= PRUNED_AT_ONCE:
        continue


def _prune_jobs(store: Store, settings: Settings) -> int:
    """Delete a few finished jobs; says how many."""
    now = store.clock.now()
    ages = (
        (State.COMPLETED, settings.retention),
        (State.CANCELLED, settings.retention),
        (State.DEAD, settings.dlq_retention),
    )
    pruned = {
        state: store.jobs.prune(state, now - age, limit=PRUNED_AT_ONCE)
        for state, age in ages
        if age
    }
    total = sum(pruned.values())
    if total:
        detail = "retention: " + ", ".join(f"{n} {state}" for state, n in pruned.items() if n)
        store.history.record(
            Event(at=now, kind="prune", job=None, node=None, who=whoami(), detail=detail)
        )
    return total


def sweep_spool(queue: Queue) -> None:
    """Remove folders of nodes that are no longer registered, left by an untimely crash."""
    root = queue.store.folder.spool
    try:
        folders = os.listdir(root)
    except FileNotFoundError:
        return
    known = {node.id for node in queue.store.nodes.all()}
    for name in folders:
        if name not in known:
            rmtree(os.path.join(root, name), ignore_errors=True)
