"""The warm programs of a node: which there are, and how they are started and sent away."""

import select
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from time import monotonic

from queuectl.guard import wire
from queuectl.handlers import lines
from queuectl.node.guards import GuardLostError
from queuectl.node.processes import Processes, told_of_node
from queuectl.node.programs import Handler
from queuectl.node.runs import Run, owner_of
from queuectl.node.said import memory_of
from queuectl.node.warm import Message, Warm

LOOK_EVERY = 0.5
"""Seconds between two looks at the memory of programs."""
TOO_MUCH = 2
"""How many times its memory a program may have while a run goes on. With more, it is ended."""


class Fleet:
    """The warm programs: of each kind, one for each worker, or for several of them."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._kinds: dict[str | None, Handler | None] = {None: None}
        """By the type of a job, who handles it; None is a process of its own."""
        self._serving: dict[tuple[Handler, int], Warm] = {}
        """The program of each kind that gets the next runs, by the first of its workers."""
        self._known: dict[int, Warm] = {}
        """All that live, by what their guards call them."""
        self._last = -int(monotonic() * 1000)
        """The last number that a program got. Those of the program before us in this process, which
        may still be on their way out, had others."""
        self._poll: select.poll | None = None
        self.look_at = inf
        """When to look at their memory."""

    def __iter__(self) -> Iterator[Warm]:
        return iter(tuple(self._known.values()))

    def get(self, number: int) -> Warm | None:
        """Return the program with this number; None if there is none."""
        return self._known.get(number)

    def listen(self, poll: "select.poll") -> None:
        """Have the loop woken by what programs say. The first of each kind is started now."""
        self._poll = poll
        for handler in self._processes.programs.warm:
            self.program(handler, 1)

    def close(self) -> None:
        """Let go of all of them."""
        for warm in self:
            warm.close()
        self._known.clear()
        self._serving.clear()

    def kind(self, run: Run) -> Handler | None:
        """Return who handles a run; None if that is a process of its own."""
        type = run.job.type
        try:
            return self._kinds[type]
        except KeyError:
            found = self._kinds[type] = self._processes.programs.warm_for(type or "")
            return found

    def program(self, handler: Handler, worker: int) -> Warm:
        """Return the program of a worker; if it has none, have one started."""
        first = worker - (worker - 1) % handler.shared_by
        warm = self._serving.get((handler, first))
        member = self._processes.member
        if warm is not None and warm.node != member.id:
            self.retire(warm)
            warm = None
        if warm is None:
            self._last -= 1
            member.make_spool()
            warm = Warm(self._last, handler, first, member.id, member.spool)
            self._serving[handler, first] = self._known[warm.number] = warm
            assert self._poll is not None
            self._poll.register(warm.fileno(), select.POLLIN)
            warm.guard = self._processes.guards.of(first).pid
            self.order(warm, wire.Spawn(warm.number, self._spec(warm)))
            warm.tell(self._greeting(warm))
        return warm

    def _greeting(self, warm: Warm) -> Message:
        hello: Message = {"hello": lines.VERSION, "worker": warm.worker}
        if warm.handler.is_ours:
            member = self._processes.member
            hello |= {
                "board": member.own_boards[1],
                "limit": self._processes.config.settings.output_limit,
            }
        return hello

    def _spec(self, warm: Warm) -> "wire.Spec":
        store, member = self._processes.store, self._processes.member
        settings = self._processes.config.settings
        handler = warm.handler
        argv = list(handler.argv)
        stdin, stdout = warm.paths
        if handler.is_ours:
            argv += warm.paths
            stdin, stdout = "", warm.files[0]
        return {
            "argv": argv,
            "called": None,
            "cwd": None,
            "env": {},
            "whole": False,
            "told": told_of_node(member.id, store),
            "owner": owner_of(member.id, store.identity),
            "token": f"{member.id}.warm{-warm.number}",
            "worker": 0,
            "stdout": stdout,
            "stderr": warm.files[1],
            "stdin": stdin or None,
            "timeout": None,
            "grace": settings.kill_grace / 1000,
            "interval": settings.kill_interval / 1000,
            "output_limit": settings.output_limit,
            "bounds": None,
        }

    def order(self, warm: Warm, order: "wire.Instruction") -> None:
        """Tell the guard of a program something about it."""
        # If it is gone, whoever hears it finds out.
        with suppress(GuardLostError):
            self._processes.guards.of(warm.worker).send([order])

    @property
    def grace(self) -> float:
        """Seconds that a program, or a run, has to come to its end."""
        return self._processes.config.settings.kill_grace / 1000

    def retire(self, warm: Warm) -> None:
        """Give a program no more to do; it leaves when it has done what it has."""
        warm.retiring = True
        if self._serving.get((warm.handler, warm.worker)) is warm:
            del self._serving[warm.handler, warm.worker]
        self.let_go(warm)

    def let_go(self, warm: Warm) -> None:
        """Let a program leave that is to, and has nothing more to do."""
        if warm.retiring and not warm.runs:
            warm.hang_up(self.grace)

    def forget(self, warm: Warm) -> None:
        """Be done with a program that is gone; its pipes are still open."""
        self.retire(warm)
        del self._known[warm.number]
        assert self._poll is not None
        self._poll.unregister(warm.fileno())

    def watch_memory(self, warm: Warm) -> None:
        """Look at the memory of programs from now on, if this one is to have only so much."""
        if warm.handler.max_memory is not None:
            self.look_at = min(self.look_at, monotonic() + LOOK_EVERY)

    def weigh(self) -> list[tuple[Warm, str]]:
        """Send programs away that have grown, and return those that are to be ended, and why."""
        self.look_at = monotonic() + LOOK_EVERY
        heavy = []
        for warm in self:
            most = warm.handler.max_memory
            if most is None or not warm.pid or (warm.retiring and not warm.begun):
                continue
            has = memory_of(warm.pid)
            if has > most and not warm.retiring:
                self.retire(warm)
            if has > TOO_MUCH * most and warm.begun and warm.ended_for is None:
                why = f"its program had {has >> 20} MiB of memory, of {most >> 20} MiB"
                heavy.append((warm, why))
        return heavy
