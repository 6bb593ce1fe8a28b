"""Jobs that wait for others: the toy tells each child of each end, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from queuectl.dependencies import (
    IfParentFails,
    Verdict,
    Wanted,
    read_parent,
    verdict,
    why_cancelled,
)
from queuectl.errors import NotFoundError
from queuectl.facts import Edge, Event
from queuectl.host import whoami
from queuectl.job import FINISHED, Job, Outcome, State
from queuectl.lifecycle import cancelled
from queuectl.store.rows import kept
from tests.contract.toy.memory import Memory


@dataclass(frozen=True)
class Tie:
    """That a child waits for a parent."""

    wanted: Wanted
    place: int
    """Of the parent; of one that is gone, where it was."""
    came_to: State | None = None
    is_met: bool = False
    is_gone: bool = False


@dataclass(frozen=True)
class Ending:
    """The end of a job, for its children."""

    id: str
    state: State
    at: int
    action: str | None = None
    was_removed: bool = False


class ToyEdges:
    def __init__(
        self, memory: Memory, tell: Callable[[Sequence[tuple[Job, Outcome | None]]], None]
    ) -> None:
        self._memory = memory
        self._tell = tell

    def check(self, child: str, after: Sequence[str]) -> None:
        """Raise why a job that comes next can't wait for these, if that is so."""
        for parent, _ in map(read_parent, after):
            if parent not in self._memory.line:
                raise NotFoundError(f"There is no job {parent!r} for {child} to wait for.")

    def link(self, job: Job, now: int) -> None:
        """Have a new job wait for its parents."""
        memory = self._memory
        for parent, wanted in map(read_parent, job.after):
            there = memory.line[parent]
            memory.ties[job.id, parent] = Tie(wanted, there.seq)
            memory.line[parent] = replace(there, has_children=True)
        count = len(job.after)
        memory.ready.pop(job.id, None)
        memory.line[job.id] = replace(job, state=State.BLOCKED, open_parents=count)
        states = {parent: memory.line[parent].state for parent, _ in map(read_parent, job.after)}
        over = [Ending(id, state, now) for id, state in states.items() if state in FINISHED]
        self.settle(over, only=job.id)

    def settle(self, over: Sequence[Ending], *, only: str | None = None) -> None:
        """Tell all children of these ends, or one of them, and so on."""
        while over:
            now = max(end.at for end in over)
            ends: dict[str, tuple[Ending, Wanted, State]] = {}
            for end in over:
                for child in self._untold(end.id):
                    if only in (None, child):
                        self._tell_one(child, end, ends, now)
            over = self._cancel(ends, now)

    def _untold(self, parent: str) -> list[str]:
        ties = self._memory.ties.items()
        return [
            child
            for (child, of), tie in ties
            if of == parent and not tie.is_gone and tie.came_to is None
        ]

    def _tell_one(
        self, child: str, end: Ending, ends: dict[str, tuple[Ending, Wanted, State]], now: int
    ) -> None:
        memory = self._memory
        tie, job = memory.ties[child, end.id], memory.line[child]
        said = verdict(tie.wanted, end.state, IfParentFails(job.if_parent_fails or "block"))
        is_met = said == Verdict.MET
        memory.ties[child, end.id] = replace(tie, came_to=end.state, is_met=is_met)
        if is_met:
            job = replace(job, open_parents=job.open_parents - 1)
            if job.state == State.BLOCKED and not job.open_parents:
                job = replace(job, state=State.PENDING, updated_at=now)
                memory.ready[child] = int(job.parked is None and job.run_at <= now)
            memory.line[child] = job
        elif said == Verdict.OVER:
            ends.setdefault(child, (end, tie.wanted, end.state))

    def _cancel(self, ends: dict[str, tuple[Ending, Wanted, State]], now: int) -> list[Ending]:
        memory = self._memory
        before = sorted(
            (memory.line[id] for id in ends if memory.line[id].state == State.BLOCKED),
            key=lambda job: job.seq,
        )
        for job in before:
            end, wanted, state = ends[job.id]
            why = why_cancelled(end.id, wanted, state)
            if end.was_removed:
                why = f"its parent {end.id} was removed"
            memory.line[job.id] = after = memory.moved(job, cancelled(job, why), now)
            is_by_hand = end.action is not None and job.tick is None
            memory.keep(
                Event(
                    at=now,
                    kind="cancel",
                    job=job.id,
                    node=None,
                    who=whoami(),
                    detail=why,
                    action=end.action,
                    was=kept(job, after) if is_by_hand else None,
                )
            )
        for job in before:
            memory.over(job, State.CANCELLED)
        self._tell([(memory.line[job.id], None) for job in before])
        return [
            Ending(job.id, State.CANCELLED, now, ends[job.id][0].action)
            for job in before
            if job.has_children
        ]

    def reopen(self, id: str) -> None:
        """Have those wait again whom the end of a job didn't allow to run."""
        for (child, parent), tie in self._memory.ties.items():
            if parent == id and not tie.is_gone and not tie.is_met:
                self._memory.ties[child, parent] = replace(tie, came_to=None)

    def changed(self, before: Job, to: State | None, now: int, action: str | None = None) -> None:
        """See to what it means to others that a job came into a state, or is gone."""
        if not before.has_children:
            return
        was_open = before.state not in FINISHED
        if was_open and (to is None or to in FINISHED):
            over = Ending(before.id, to or State.CANCELLED, now, action, was_removed=to is None)
            self.settle([over])
        elif not was_open and to is not None and to not in FINISHED:
            self.reopen(before.id)

    def forget(self, job: Job) -> None:
        """Cut the ties of a job that is gone; to others it is what it was."""
        ties = self._memory.ties
        for child, parent in [key for key in ties if job.id in key]:
            if child == job.id:
                del ties[child, parent]
            else:
                ties[child, parent] = replace(ties[child, parent], is_gone=True)

    def edges(self, kept: Callable[[str, str, Tie], bool]) -> list[Edge]:
        """Return the ties that are meant, as a store tells them."""
        line = self._memory.line
        return [
            Edge(
                child=line[child].seq,
                parent=tie.place if tie.is_gone else line[parent].seq,
                parent_id=parent,
                wanted=tie.wanted,
                came_to=tie.came_to,
                is_met=tie.is_met,
            )
            for (child, parent), tie in self._memory.ties.items()
            if kept(child, parent, tie)
        ]
