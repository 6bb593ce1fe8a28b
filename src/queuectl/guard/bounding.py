"""Keeping runs to their bounds: before they start, while they go on, and what they used in the end.

What the kernel doesn't count for us is looked at now and then: the CPU time of all processes of a
run, and, where there is no better way, their memory. A look comes no sooner than a run could have
used up what is left.
"""

import os
import resource
import signal
import time
from contextlib import suppress

from queuectl.guard import cgroups, tree, wire
from queuectl.guard.confine import Account, Confined, ConfineError
from queuectl.guard.containers import Container, refused
from queuectl.guard.kept import Kept
from queuectl.guard.outbox import RESULT, Outbox, bring_home
from queuectl.guard.plan import Plan, Powers, note, plan, refusal
from queuectl.guard.run import NEVER

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuectl.bounds import Bounds
    from queuectl.guard.run import Run
    from queuectl.guard.tree import Proc
    from queuectl.guard.wire import Spec, Used

_SOONEST = 0.05
_MEMORY_EVERY = 0.2
"""Seconds between two looks at a run."""


class Bounding:
    """Keeps the runs of one guard to their bounds."""

    __slots__ = ("_cores", "_node", "_place", "_powers", "_runs", "next")

    def __init__(self, node: int) -> None:
        self._node = node
        self._powers: Powers | None = None
        self._place: cgroups.Place | None = None
        self._runs: dict[int, Run] = {}
        """Those that are to be looked at."""
        self._cores = os.cpu_count() or 1
        self.next = NEVER
        """When the next of them is to be looked at."""

    # -- before -------------------------------------------------------------------------

    def prepare(self, spec: "Spec", env: "dict[bytes, bytes]") -> Kept:
        """Make ready for a run, or raise `ConfineError`; it gets what says who it is."""
        bounds = spec["bounds"] or {}
        if "image" in bounds:
            return self._prepare_container(spec, bounds, env)
        if self._powers is None:
            self._powers, self._place = powers_of(self._node)
        made = plan(bounds, self._powers)
        best_effort = bounds.get("best_effort", False)
        if made.denied is not None:
            raise ConfineError(made.denied)
        if made.refused and not best_effort:
            raise ConfineError(refusal(made.refused, watched=made.watched))
        account = None if made.user is None else Account(made.user)
        if account is not None:
            told = {name.encode() for name in spec["env"]}
            env.update((n, value) for n, value in account.variables().items() if n not in told)
        group = self._group(made, spec["token"]) if made.needs_group else None
        outbox = None
        if account is not None:
            try:
                outbox = Outbox(account, spec["token"], env)
            except OSError as error:
                if group is not None:
                    group.remove()
                text = (error.strerror or str(error)).lower()
                raise ConfineError(f"a folder for its result: {text}") from error
        spool = os.path.dirname(spec["stdout"])
        confined = Confined(made, group, account, spool, best_effort=best_effort)
        return Kept(made, confined, group=group, outbox=outbox)

    def _prepare_container(self, spec: "Spec", bounds: "Bounds", env: "dict[bytes, bytes]") -> Kept:
        best_effort = bounds.get("best_effort", False)
        made = Plan()
        made.memory = bounds.get("memory")
        made.refused = refused(bounds)
        if made.refused and not best_effort:
            raise ConfineError(refusal(made.refused))
        path = os.fsdecode(os.environb.get(b"PATH", os.defpath.encode()))
        container = Container(bounds["image"], spec["token"], path)
        try:
            container.open()
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise ConfineError(f"a folder for its result: {text}") from error
        confined = Confined(made, None, None, "", best_effort=best_effort)
        kept = Kept(made, confined, container=container)
        kept.home = env.get(RESULT, b"")
        kept.argv = container.argv(spec, bounds, env)
        return kept

    def _group(self, made: Plan, token: str) -> "cgroups.Group":
        assert self._place is not None
        what = "its control group"
        try:
            group = cgroups.make(self._place, token)
            try:
                for name, value in made.set:
                    what = name
                    group.set(name, value)
            except OSError:
                group.remove()
                raise
        except OSError as error:
            raise ConfineError(f"{what}: {(error.strerror or str(error)).lower()}") from error
        return group

    # -- while it goes on ---------------------------------------------------------------

    def watch(self, run: "Run") -> None:
        """Look at a run that has begun, if that has to be."""
        assert run.kept is not None
        made = run.kept.plan
        if made.cpu_time is not None or made.watched:
            self._runs[run.id] = run
            self._look_again(run, made.cpu_time or NEVER)

    def look(
        self, now: float, members: "Callable[[Run], list[Proc]]"
    ) -> "Iterator[tuple[Run, str]]":
        """Yield the runs that have used more than they may, and of what."""
        for run in [run for run in self._runs.values() if run.kept and run.kept.look_at <= now]:
            assert run.kept is not None
            made, found = run.kept.plan, None
            if made.watched and made.memory is not None:
                found = members(run)
                memory = sum(tree.memory_of(process.pid) for process in found)
                run.peak = max(run.peak, memory)
                if memory > made.memory:
                    self._forget(run)
                    yield run, wire.MEMORY
                    continue
            left = NEVER
            if made.cpu_time is not None:
                left = made.cpu_time - self._cpu_time(run, members, found)
                if left <= 0:
                    self._forget(run)
                    yield run, wire.CPU_TIME
                    continue
            self._look_again(run, left)
        self._set_next()

    def _cpu_time(
        self,
        run: "Run",
        members: "Callable[[Run], list[Proc]]",
        found: "list[Proc] | None",
    ) -> float:
        """Return how many seconds of CPU time a run has used."""
        group = run.kept.group if run.kept is not None else None
        counted = None if group is None else group.cpu_ms()
        if counted is not None:
            return counted / 1000
        lives = members(run) if found is None else found
        return run.cpu_time + sum(tree.cpu_time_of(process.pid) for process in lives)

    def _look_again(self, run: "Run", left: float) -> None:
        """Look at a run when it could have used up the CPU time that is left."""
        assert run.kept is not None
        wait = max(_SOONEST, left / self._cores)
        if run.kept.plan.watched:
            wait = min(wait, _MEMORY_EVERY)
        run.kept.look_at = time.monotonic() + wait
        self.next = min(self.next, run.kept.look_at)

    def _forget(self, run: "Run") -> None:
        self._runs.pop(run.id, None)
        self._set_next()

    def _set_next(self) -> None:
        times = (run.kept.look_at for run in self._runs.values() if run.kept is not None)
        self.next = min(times, default=NEVER)

    # -- the end ------------------------------------------------------------------------

    def finish(self, run: "Run") -> tuple["Used | None", str | None]:
        """Say what a run has used and, if that is so, what it wasn't kept to; how it ended, too."""
        kept = run.kept
        assert kept is not None
        self._forget(run)
        used: Used | None = run.used()
        by_itself = run.how in ("", wire.EXITED)
        if kept.group is not None:
            used = _counted(kept.group, run.used())
            if kept.group.oom_kills() and run.status and by_itself:
                run.how = wire.MEMORY
        ended_by = os.WTERMSIG(run.status) if run.status and os.WIFSIGNALED(run.status) else 0
        if ended_by == signal.SIGXCPU and kept.plan.cpu_time is not None and by_itself:
            run.how = wire.CPU_TIME
        if kept.container is not None:
            used = None
            if kept.container.ran_out_of_memory() and by_itself:
                run.how = wire.MEMORY
            # One that isn't there is no result.
            with suppress(OSError):
                bring_home(kept.container.result, kept.home)
        noted = [*kept.noted, *kept.confined.noted]
        kept.drop()
        return used, note(noted, watched=kept.plan.watched) if noted else None


def _counted(group: "cgroups.Group", used: "Used") -> "Used":
    """Prefer what a control group has counted, of all that was ever in it."""
    memory, cpu, read, written = used
    peak, counted, io = group.peak_memory(), group.cpu_ms(), group.io()
    if peak is not None:
        memory = peak
    if counted is not None:
        cpu = counted
    if io is not None:
        read, written = io
    return memory, cpu, read, written


def powers_of(node: int, *, change: bool = True) -> "tuple[Powers, cgroups.Place | None]":
    """Find out what can be done on this host for the runs of a node, and where groups are made.

    Only with `change` processes are moved, and controllers handed on, for that.
    """
    place, why = None, None
    try:
        place = cgroups.prepare(node) if change else cgroups.find(node)
    except cgroups.NoGroupsError as error:
        why = str(error)
    except OSError as error:
        why = f"cgroup v2 can't be used: {(error.strerror or str(error)).lower()}"
    powers = Powers(
        controllers=() if place is None else place.controllers,
        why_no_group=why,
        of_v1=cgroups.of_v1(),
        is_root=os.geteuid() == 0,
        name=_name_of(os.geteuid()),
        most_files=_most_files(),
    )
    return powers, place


def _most_files() -> int:
    """Return how many files runs can be allowed at most; root goes as far as the kernel does."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if os.geteuid() == 0:
        with suppress(OSError, ValueError), open("/proc/sys/fs/nr_open") as told:
            most = max(most, int(told.read()))
    return most


def _name_of(uid: int) -> str:
    import pwd

    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)
