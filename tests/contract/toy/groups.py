"""Jobs that are waited for together: the toy counts them one by one."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from queuectl.dependencies import comes_however, is_unneeded
from queuectl.errors import NotFoundError, StateError
from queuectl.facts import Edge, Group
from queuectl.job import FINISHED, WAITING, Job, NewJob, State
from queuectl.store.contract import Groups
from tests.contract.toy.memory import Memory

CallOff = Callable[[Sequence[tuple[Job, str]], int], None]
Told = Callable[[str, State, int, str | None], None]


class ToyGroups(Groups):
    def __init__(
        self,
        memory: Memory,
        call_off: CallOff,
        ended: Told,
        reopened: Callable[[str], None],
        waiting: Callable[[str], list[Edge]],
    ) -> None:
        self._memory = memory
        self._call_off = call_off
        self._ended = ended
        self._reopened = reopened
        self._waiting = waiting
        self._touched: dict[str, set[str]] = {}
        """What happened to groups in the verb that goes on."""
        self._actions: dict[str, str] = {}
        """What made jobs of groups end in it, where somebody has ended some by hand."""

    def named(self, names: Sequence[str]) -> list[Group]:
        return [self._memory.groups[name] for name in sorted(names) if name in self._memory.groups]

    def newest(self, limit: int, *, before: str | None = None) -> list[Group]:
        names = list(self._memory.groups)
        if before is not None:
            names = names[: names.index(before)] if before in names else []
        return [self._memory.groups[name] for name in reversed(names)][:limit]

    def like(self, prefix: str, limit: int = 10) -> list[str]:
        return sorted(name for name in self._memory.groups if name.startswith(prefix))[:limit]

    def running(self) -> dict[str, int]:
        named = [job.group for job in self._memory.running() if job.group is not None]
        return dict(Counter(named))

    def children(self, name: str, *, limit: int) -> list[Edge]:
        return sorted(self._waiting(name), key=lambda edge: edge.child)[:limit]

    def check(self, job: NewJob, id: str) -> None:
        """Raise why a new job can't be in a group, or wait for one, if that is so."""
        group = self._memory.groups.get(job.group or "")
        if group is not None and group.stopped_at is not None:
            raise StateError(f"Group {group.name} was stopped; it takes no more jobs.")

    def check_found(self, name: str, id: str) -> None:
        """Raise that there is no group for a job to wait for, if that is so."""
        if name not in self._memory.groups:
            raise NotFoundError(f"There is no group {name!r} for {id} to wait for.")

    def join(self, new: NewJob, now: int) -> None:
        """Count a new job."""
        if new.group is None:
            return
        groups = self._memory.groups
        group = groups.get(new.group) or Group(name=new.group, made_at=now)
        bound = group.max_fails if new.max_fails is None else new.max_fails
        groups[new.group] = replace(
            group, jobs=group.jobs + 1, open=group.open + 1, max_fails=bound
        )
        self._touched.setdefault(new.group, set()).add("joined")

    def move(
        self, job: Job, to: State | None, *, unneeded: bool = False, action: str | None = None
    ) -> None:
        """Count a job, as it was before, that came into a state, or was removed."""
        if job.group is None:
            return
        was_open, is_open = job.state not in FINISHED, to is not None and to not in FINISHED
        touched = self._touched.setdefault(job.group, set())
        if was_open and is_open:
            if job.state == State.PROCESSING:
                touched.add("back")
            return
        group = self._memory.groups[job.group]
        counts = {name: getattr(group, name) for name in ("jobs", "open", "unneeded", *FINISHED)}
        counts["open" if was_open else job.state.value] -= 1
        counts["unneeded"] -= job.state == State.CANCELLED and is_unneeded(job.reason)
        counts["unneeded"] += unneeded
        if to is None:
            counts["jobs"] -= 1
        else:
            counts["open" if is_open else to.value] += 1
        touched.add("again" if is_open else "over")
        if was_open and not is_open and action is not None:
            self._actions[job.group] = action
        if to == State.DEAD:
            touched.add("died")
        self._memory.groups[job.group] = replace(group, **counts)

    def settle(self, now: int) -> None:
        """See what the changes of a verb mean to groups, and to those who wait for them."""
        while self._touched:
            touched, self._touched = self._touched, {}
            actions, self._actions = self._actions, {}
            over: list[str] = []
            again: list[str] = []
            for name in sorted(touched):
                self._judge(name, touched[name], now, over, again)
            for name in again:
                self._reopened(name)
            for name in over:
                came_to = self._memory.groups[name].came_to
                self._ended(name, came_to, now, actions.get(name))

    def _judge(
        self, name: str, happened: set[str], now: int, over: list[str], again: list[str]
    ) -> None:
        was = group = self._memory.groups[name]
        counted = happened != {"back"}
        if "again" in happened:
            group = replace(group, stopped_at=None)
        if group.open:
            group = replace(group, over_at=None)
        elif group.over_at is None and counted:
            group = replace(group, over_at=now, rounds=group.rounds + 1)
        bears = group.max_fails
        is_full = "died" in happened and bears is not None and group.dead >= bears
        if is_full and group.stopped_at is None and group.open:
            group = replace(group, stopped_at=now)
        self._memory.groups[name] = group
        if group.over_at is not None and was.over_at is None:
            over.append(name)
        if group.over_at is None and was.over_at is not None:
            again.append(name)
        is_new = group.stopped_at is not None and was.stopped_at is None
        if is_new or ("back" in happened and group.stopped_at is not None):
            why = f"its group {name} was stopped: too many of its jobs are dead"
            line = self._memory.line.values()
            waiting = [job for job in line if job.group == name and job.state in WAITING]
            last = self._clean_ups(name)
            self._call_off([(job, why) for job in waiting if job.id not in last], now)

    def _clean_ups(self, name: str) -> set[str]:
        """Return the jobs that come after others of this group, however these end."""
        line = self._memory.line
        return {
            child
            for (child, parent), tie in self._memory.ties.items()
            if not tie.is_gone and parent in line and line[parent].group == name
            if child in line and comes_however(line[child].after, line[child].after_group)
        }
