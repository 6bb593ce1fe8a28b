"""Upkeep, which any node does for all of them now and then: rescue, retention, tidying.

Any node may do any of it; a transaction decides who was first.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from shutil import rmtree
from time import monotonic

from queuectl.facts import Event, Node
from queuectl.guard.board import read_boards
from queuectl.guard.leftovers import kill_leftovers
from queuectl.guard.mark import OWNER
from queuectl.host import host_identity, host_name, is_running, whoami
from queuectl.job import Job, State
from queuectl.node import runs
from queuectl.node.config import Config
from queuectl.queue import Queue
from queuectl.settings import Settings
from queuectl.spool import name_left
from queuectl.store.contract import Asked, Ended, Over, Turned

PRUNED_AT_ONCE = 500


@dataclass(kw_only=True)
class Rescuer:
    """Rescues the jobs of nodes that are gone."""

    queue: Queue
    config: Config
    heard: Callable[[Job, Ended | None, str], None]
    """Told what became of each job and why; of one whose run never began, without its end."""
    _unknown_since: dict[str, float] = field(default_factory=dict)
    """When jobs were first seen in the hands of a node that isn't registered."""

    @property
    def waits(self) -> bool:
        """Whether there is something that couldn't be rescued yet, whatever others do."""
        return bool(self._unknown_since)

    def rescue(self, others: Sequence[Node]) -> None:
        """Rescue what the dead among these nodes held, and jobs in the hands of nobody."""
        for node in others:
            if self.queue.is_dead(node):
                self._rescue_node(node)
        unknown = {str(job.node) for job in self.queue.store.runs.held(None)}
        for gone in self._unknown_since.keys() - unknown:
            del self._unknown_since[gone]
        for node_id in unknown:
            self._rescue_strays(node_id)

    def _rescue_node(self, node: Node) -> None:
        local = node.boot == host_identity()
        if local and self._kill_leftovers(node.id):
            # Something can't be killed yet; to run its job again beside it would be worse.
            return
        why = _reason(node, local)
        plan = self._plan(node.id, node.spool, node.host, why, local=local, heard=node.seen_at)
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
        why = f"node {node_id} isn't registered any more"
        # When it last showed life was in its row. What its runs wrote may still tell.
        spool = self._spool_of(node_id)
        plan = self._plan(node_id, spool, "unknown", why, local=False, heard=0)
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

    def _plan(
        self, node: str, spool: str, host: str, why: str, *, local: bool, heard: int
    ) -> "_Plan":
        return _Plan(
            config=self.config,
            left=self._spool_of(node),
            spool=spool,
            host=host,
            why=why,
            # What was written before the host went down may not have reached its disk.
            boards=local,
            heard=heard,
        )


@dataclass(kw_only=True)
class _Plan:
    """What becomes of the jobs in the hands of a node that is gone."""

    config: Config
    left: str
    """Where the node kept output, if that was on this host."""
    spool: str
    host: str
    why: str
    boards: bool
    """Whether its boards say which runs had begun."""
    heard: int
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
            return runs.lost_by(
                [job for job in held if job.seq not in spared or job in stuck],
                self.spool,
                self.why,
                begun=begun,
                heard=self.heard,
                now=now,
                policy=self.config.policy,
                limit=self.config.settings.output_limit,
                host=self.host,
            )

        return Over(unstarted, judge, self._note)

    def _note(self, job: Job, end: Ended | None, now: int) -> Event | None:
        kind = _kind(end)
        if kind is None:
            return None
        return Event(at=now, kind=kind, job=job.id, node=job.node, who=whoami(), detail=self.why)

    def tell(self, turned: Turned, heard: Callable[[Job, Ended | None, str], None]) -> None:
        """Tell what became of each job; nothing of those that somebody else has by now."""
        late = {end.job.seq for end in turned.lost}
        by_seq = {end.job.seq: end for end in turned.ends}
        for job in self.jobs:
            if job.seq not in late:
                heard(job, by_seq.get(job.seq), self.why)


def _kind(end: Ended | None) -> str | None:
    """Return what the rescue of a job is called in its history; that it died is there already."""
    match None if end is None else end.transition.state:
        case State.DEAD:
            return None
        case State.CANCELLED:
            return "cancelled"
        case _:
            return "rescue"


def _reason(node: Node, local: bool) -> str:
    name = f"node {node.id} on {node.host} (pid {node.pid})"
    if local and not is_running(node.pid, node.pid_start):
        return f"{name} died"
    return f"{name} stopped renewing its lease"


def prune_old(queue: Queue, settings: Settings) -> int:
    """Delete finished jobs that are past their retention, a few at a time; says how many."""
    store = queue.store
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
