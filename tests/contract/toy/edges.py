"""Jobs that wait for others: the toy tells each child of each end, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from queuectl.dependencies import (
    IfParentFails,
    Verdict,
    Wanted,
    is_unneeded,
    read_parent,
    verdict,
    why_cancelled,
)
from queuectl.errors import BadJobError, NotFoundError
from queuectl.facts import Edge, Event
from queuectl.host import whoami
from queuectl.job import FINISHED, Job, NewJob, Outcome, State
from queuectl.lifecycle import cancelled
from queuectl.store.rows import kept
from tests.contract.toy.groups import ToyGroups
from tests.contract.toy.memory import Memory

GROUP = "\0"
"""What the name of a group begins with, as that of a parent."""


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
    was_unneeded: bool = False
    is_group: bool = False

    @property
    def key(self) -> str:
        """What it is in ties."""
        return GROUP + self.id if self.is_group else self.id

    @property
    def told(self) -> str:
        """What it is called."""
        return f"group {self.id}" if self.is_group else self.id


class ToyEdges:
    def __init__(
        self, memory: Memory, tell: Callable[[Sequence[tuple[Job, Outcome | None]]], None]
    ) -> None:
        self._memory = memory
        self._tell = tell
        self.groups = ToyGroups(
            memory,
            self._stop,
            lambda name, state, now, action: self.settle(
                [Ending(name, state, now, action, is_group=True)]
            ),
            lambda name: self.reopen(GROUP + name),
            lambda name: self.edges(lambda child, parent, tie: parent == GROUP + name),
        )

    def check(self, child: str, new: NewJob) -> None:
        """Raise why a job that comes next can't wait for these, if that is so."""
        for parent, _ in map(read_parent, new.after):
            if parent not in self._memory.line:
                raise NotFoundError(f"There is no job {parent!r} for {child} to wait for.")

    def tie(self, job: Job) -> None:
        """Have a new job wait for its parents."""
        memory = self._memory
        for parent, wanted in map(read_parent, job.after):
            there = memory.line[parent]
            memory.ties[job.id, parent] = Tie(wanted, there.seq)
            memory.line[parent] = replace(there, has_children=True)
        for name, wanted in map(read_parent, job.after_group):
            memory.ties[job.id, GROUP + name] = Tie(wanted, 0)
        count = len(job.after) + len(job.after_group)
        memory.ready.pop(job.id, None)
        now = memory.line[job.id]
        memory.line[job.id] = replace(now, state=State.BLOCKED, open_parents=count)

    def check_circles(self, id: str) -> None:
        """Raise that a new job waits for what waits for the end of its own group."""
        group = self._memory.line[id].group
        if group is not None and self._leads_to([id], GROUP + group):
            raise BadJobError(f"Group {group} would wait for itself.")

    def _leads_to(self, some: Sequence[str], end: str) -> bool:
        line, seen = self._memory.line, set(some)
        names = list(some)
        for name in names:
            for (child, parent), tie in self._memory.ties.items():
                if child != name or tie.came_to is not None or tie.is_gone:
                    continue
                if parent == end:
                    return True
                found = [parent]
                if parent[0] == GROUP:
                    of_group = [job for job in line.values() if job.group == parent[1:]]
                    found += [job.id for job in of_group if job.state == State.BLOCKED]
                names += [one for one in found if one not in seen]
                seen.update(found)
        return False

    def tell_of_what_is_over(self, id: str, now: int) -> None:
        """Tell a new job what its parents have come to already."""
        memory = self._memory
        job = memory.line[id]
        over: list[Ending] = []
        for parent, _ in map(read_parent, job.after):
            if memory.line[parent].state in FINISHED and memory.ties[id, parent].came_to is None:
                over.append(Ending(parent, memory.line[parent].state, now))
        for name, _ in map(read_parent, job.after_group):
            group = memory.groups[name]
            if group.over_at is not None and memory.ties[id, GROUP + name].came_to is None:
                over.append(Ending(name, group.came_to, now, is_group=True))
        self.settle(over, only=id)

    def settle(self, over: Sequence[Ending], *, only: str | None = None) -> None:
        """Tell all children of these ends, or one of them, and so on."""
        while over:
            now = max(end.at for end in over)
            ends: dict[str, tuple[Ending, Wanted, State]] = {}
            for end in over:
                for child in self._untold(end.key):
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
        tie, job = memory.ties[child, end.key], memory.line[child]
        said = verdict(tie.wanted, end.state, IfParentFails(job.if_parent_fails or "block"))
        is_met = said == Verdict.MET
        memory.ties[child, end.key] = replace(tie, came_to=end.state, is_met=is_met)
        if is_met:
            job = replace(job, open_parents=job.open_parents - 1)
            if job.state == State.BLOCKED and not job.open_parents:
                job = replace(job, state=State.PENDING, updated_at=now)
                memory.ready[child] = int(job.parked is None and job.run_at <= now)
            memory.line[child] = job
        elif said == Verdict.OVER:
            ends.setdefault(child, (end, tie.wanted, end.state))

    def _cancel(self, ends: dict[str, tuple[Ending, Wanted, State]], now: int) -> list[Ending]:
        line = self._memory.line
        blocked = [line[id] for id in ends if line[id].state == State.BLOCKED]
        called_off = []
        for job in sorted(blocked, key=lambda job: job.seq):
            end, wanted, state = ends[job.id]
            why = why_cancelled(
                end.told,
                wanted,
                state,
                was_removed=end.was_removed,
                was_unneeded=end.was_unneeded,
            )
            called_off.append((job, why, end.action))
        return self.call_off(called_off, now)

    def call_off(self, jobs: Sequence[tuple[Job, str, str | None]], now: int) -> list[Ending]:
        """Cancel jobs that wait, for these reasons, as parts of these actions."""
        memory = self._memory
        for job, why, action in jobs:
            memory.line[job.id] = after = memory.moved(job, cancelled(job, why), now)
            unneeded = is_unneeded(why)
            self.groups.move(job, State.CANCELLED, unneeded=unneeded, action=action)
            is_by_hand = action is not None and job.tick is None
            memory.keep(
                Event(
                    at=now,
                    kind="cancel",
                    job=job.id,
                    node=None,
                    who=whoami(),
                    detail=why,
                    action=action,
                    was=kept(job, after) if is_by_hand else None,
                )
            )
        for job, *_ in jobs:
            memory.over(job, State.CANCELLED)
        self._tell([(memory.line[job.id], None) for job, *_ in jobs])
        return [
            Ending(job.id, State.CANCELLED, now, action, was_unneeded=is_unneeded(why))
            for job, why, action in jobs
            if job.has_children
        ]

    def _stop(self, jobs: Sequence[tuple[Job, str]], now: int) -> None:
        """Cancel what waits of a group, and so on."""
        self.settle(self.call_off([(job, why, None) for job, why in jobs], now))

    def reopen(self, id: str) -> None:
        """Have those wait again whom the end of a job didn't allow to run."""
        for (child, parent), tie in self._memory.ties.items():
            if parent == id and not tie.is_gone and not tie.is_met:
                self._memory.ties[child, parent] = replace(tie, came_to=None)

    def changed(self, before: Job, to: State | None, now: int, action: str | None = None) -> None:
        """See to what it means to others that a job came into a state, or is gone."""
        self.groups.move(before, to, action=action)
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

    def cut(self, job: Job, was: Job) -> int:
        """Cut the ties to what a job waits for no longer; says how many kept it."""
        gone = {id for id, _ in map(read_parent, was.after)}
        gone -= {id for id, _ in map(read_parent, job.after)}
        return sum(not self._memory.ties.pop((job.id, parent)).is_met for parent in gone)

    def edges(self, kept: Callable[[str, str, Tie], bool]) -> list[Edge]:
        """Return the ties that are meant, as a store tells them."""
        line = self._memory.line
        return [
            Edge(
                child=line[child].seq,
                parent=tie.place if tie.is_gone or parent[0] == GROUP else line[parent].seq,
                parent_id=parent.removeprefix(GROUP),
                wanted=tie.wanted,
                came_to=tie.came_to,
                is_met=tie.is_met,
                is_group=parent[0] == GROUP,
            )
            for (child, parent), tie in self._memory.ties.items()
            if kept(child, parent, tie)
        ]
