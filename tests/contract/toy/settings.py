"""The verbs about settings that all share, and about queues."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from queuectl.facts import Event, QueueInfo, QueueUse
from queuectl.limits import Limits
from queuectl.store.contract import SharedSettings
from queuectl.webhook import renamed
from tests.contract.toy.memory import Memory


class ToySettings(SharedSettings):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def queues(self) -> list[QueueInfo]:
        return sorted(self._memory.queues.values(), key=lambda info: info.name)

    def set_paused(
        self, queue: str, *, paused: bool, who: str, now: int, event: Event | None = None
    ) -> bool:
        info = self._memory.queues.get(queue)
        if (info is not None and info.paused_at is not None) == paused:
            return False
        self._memory.keep(event)
        at, by = (now, who) if paused else (None, None)
        info = info or QueueInfo(name=queue, paused_at=None, paused_by=None)
        self._memory.queues[queue] = replace(info, paused_at=at, paused_by=by)
        return True

    def set_limits(
        self, queue: str, decide: Callable[[Limits], Limits], *, event: Event | None = None
    ) -> Limits:
        limits = decide(self._memory.limits(queue) or Limits())
        self._memory.set_limits(queue, limits)
        self._memory.meters.pop(queue, None)
        self._memory.keep(event)
        return limits

    def rename_queue(
        self,
        old: str,
        new: str,
        *,
        check: Callable[[QueueUse, QueueUse], None],
        event: Event | None = None,
    ) -> QueueUse:
        memory = self._memory
        use = self._use(old)
        check(use, self._use(new))
        by_queue: Sequence[dict[str, Any]] = (
            memory.queues,
            memory.shares,
            memory.vtimes,
            memory.meters,
        )
        for known in by_queue:
            known.pop(new, None)
            if old in known:
                known[new] = known.pop(old)
        if new in memory.queues:
            memory.queues[new] = replace(memory.queues[new], name=new)
        for job in [job for job in memory.line.values() if job.queue == old]:
            memory.line[job.id] = replace(job, queue=new)
        for key in [key for key in memory.cells if key[1] == old]:
            memory.merge((key[0], new, *key[2:]), memory.cells.pop(key))
        for name in use.schedules:
            schedule = memory.schedules[name]
            memory.schedules[name] = replace(schedule, request={**schedule.request, "queue": new})
        for name, webhook in memory.webhooks.items():
            memory.webhooks[name] = renamed(webhook, old, new)
        memory.keep(event)
        return use

    def remove_queue(
        self, name: str, *, check: Callable[[QueueUse], None], event: Event | None = None
    ) -> None:
        memory = self._memory
        check(self._use(name))
        for of_queues in (memory.queues, memory.shares, memory.vtimes, memory.meters):
            of_queues.pop(name, None)
        memory.keep(event)

    def _use(self, name: str) -> QueueUse:
        memory = self._memory
        naming = sorted(memory.schedules.values(), key=lambda one: one.name)
        return QueueUse(
            name=name,
            states=Counter(job.state for job in memory.line.values() if job.queue == name),
            info=memory.queues.get(name),
            schedules=tuple(one.name for one in naming if one.request.get("queue") == name),
        )

    def config(self) -> dict[str, str]:
        return dict(sorted(self._memory.config.items()))

    def set_config(
        self,
        name: str,
        value: str | None,
        *,
        now: int,
        check: Callable[[Mapping[str, str]], None] | None = None,
        event: Event | None = None,
    ) -> None:
        if check is not None:
            others = {key: text for key, text in self._memory.config.items() if key != name}
            check(others if value is None else others | {name: value})
        self._memory.keep(event)
        if value is None:
            self._memory.config.pop(name, None)
        else:
            self._memory.config[name] = value
