"""Runs that are trees of processes: the guards start them, look after them, and say how they ended.

What a guard doesn't take at once is kept for it. A guard that is gone is replaced, and its runs are
lost.
"""

import os
import select
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from queuectl.bound_values import laid_over, read_bounds
from queuectl.delivery import PROGRAM as DELIVER
from queuectl.dependencies import group_told, read_parent
from queuectl.errors import BadJobError, StoreError
from queuectl.guard import tree, wire
from queuectl.guard.board import read_board
from queuectl.guard.leftovers import sweep
from queuectl.guard.mark import OWNER
from queuectl.job import NEEDS, SHELL, Job, told_handler
from queuectl.node.config import Config
from queuectl.node.guards import Guard, GuardLostError, Guards
from queuectl.node.handover import HandedGuard
from queuectl.node.log import Say
from queuectl.node.membership import Membership
from queuectl.node.programs import Programs
from queuectl.node.runs import LostRun, Run, may_have_begun, owner_of
from queuectl.parameters import variables
from queuectl.request import LONGEST_ARGUMENT
from queuectl.resources import GPU, NOTHING, device_text, needs_of, number_text
from queuectl.settings import Settings
from queuectl.spool import name_left, progress_file, result_file, token_of
from queuectl.store import Store
from queuectl.tracecontext import VARIABLES
from queuectl.when import iso

_VISIBLE = "CUDA_VISIBLE_DEVICES"
if TYPE_CHECKING:
    from queuectl.bounds import Bounds


LONGEST_VARIABLE = 100_000
"""Bytes of a list in a variable; the kernel takes no 128 KiB."""


class UnrunnableError(Exception):
    """There is nothing that could be started, for a reason that lies with the job."""


@dataclass(eq=False, kw_only=True)
class Processes:
    """The runner of commands: see `Runner` for what it promises."""

    guards: Guards
    member: Membership
    store: Store
    config: Config
    say: Say
    programs: Programs = field(default_factory=Programs)
    hides_gpus: bool = False
    """Whether runs that have asked for none see no GPU, since they are given out here."""
    _full: list[Guard] = field(default_factory=list)
    """The guards that don't take all they are sent, for now."""

    # -- from beginning to end ----------------------------------------------------------

    def open(self) -> None:
        # What was left by guards of nodes that are gone is in nobody's way but its own.
        sweep()
        self.guards.start(self.config.count)

    def inherit(self, handed: Sequence[HandedGuard]) -> None:
        self.guards.inherit(handed)

    def hand_over(self) -> list[HandedGuard]:
        return [guard.hand_over() for guard in self.guards]

    def close(self) -> None:
        self.guards.close()

    # -- telling ------------------------------------------------------------------------

    def start(self, runs: Mapping[int, Run]) -> "Iterable[wire.Report]":
        failed: list[wire.Report] = []
        instructions: list[tuple[Run, wire.Instruction]] = []
        for number, run in runs.items():
            try:
                spec = spec_of(run, self.config.settings_of(run.job), self.store, self.programs)
                if self.hides_gpus and _VISIBLE not in run.job.env:
                    spec["told"].setdefault(_VISIBLE.encode(), b"")
            except UnrunnableError as error:
                failed.append(wire.NotStarted(number, 0, str(error)))
            except (OSError, StoreError) as error:
                # A full disk, or a store that is out of reach, isn't the job's fault.
                text = getattr(error, "strerror", None) or str(error)
                failed.append(wire.Unable(number, 0, text))
            else:
                instructions.append((run, wire.Spawn(number, spec)))
        self._tell(instructions)
        return failed

    def stop(self, runs: Mapping[int, Run], how: str) -> None:
        self._tell([(run, wire.Stop(number, how)) for number, run in runs.items()])

    def kill(self, runs: Mapping[int, Run], how: str) -> None:
        self._tell([(run, wire.Kill(number, how)) for number, run in runs.items()])

    def pause(self, runs: Mapping[int, Run]) -> None:
        self._tell([(run, wire.Pause(number)) for number, run in runs.items()])

    def resume(self, runs: Mapping[int, Run]) -> None:
        self._tell([(run, wire.Resume(number)) for number, run in runs.items()])

    def release(self, runs: Mapping[int, Run]) -> None:
        """Have runs not started; the guard says which of them had begun before."""
        self._tell([(run, wire.Release(number)) for number, run in runs.items()])

    def abandon(self, runs: Mapping[int, Run]) -> None:
        """Kill the guards that have these runs; `hear` replaces them."""
        for run in runs.values():
            self._guard_of(run).kill()

    def _tell(self, instructions: "Sequence[tuple[Run, wire.Instruction]]") -> None:
        """Tell each guard what is about its runs. If it is gone, `hear` finds out."""
        shares: dict[Guard, list[wire.Instruction]] = {}
        for run, instruction in instructions:
            shares.setdefault(self._guard_of(run), []).append(instruction)
        for guard, share in shares.items():
            with suppress(GuardLostError):
                guard.send(share)

    def _guard_of(self, run: Run) -> Guard:
        return self.guards.of(run.job.worker or 0)

    # -- hearing ------------------------------------------------------------------------

    def listen(self, poll: "select.poll") -> None:
        self._poll = poll
        for guard in self.guards:
            poll.register(guard.fileno(), select.POLLIN)

    def count_warm(self) -> int:
        return 0

    @property
    def settled(self) -> bool:
        return not any(guard.has_unsent for guard in self.guards)

    def watch_for_room(self) -> None:
        """Be woken by guards that take again what they didn't."""
        full = [guard for guard in self.guards if guard.has_unsent]
        for guard in self.guards if full or self._full else ():
            if (guard in full) != (guard in self._full):
                events = select.POLLIN | (select.POLLOUT if guard in full else 0)
                self._poll.modify(guard.fileno(), events)
        self._full = full

    def stalls_in(self) -> float:
        """Return in how many seconds a guard that takes nothing counts as lost."""
        return min(guard.stalls_in() for guard in self._full) if self._full else inf

    def speaks(self, ready: Collection[int]) -> bool:
        return any(guard.fileno() in ready for guard in self.guards)

    def hear(
        self, ready: Collection[int], runs: Mapping[int, Run]
    ) -> "Iterator[LostRun | wire.Message]":
        """Yield what the guards say; `ready` has those who do."""
        for guard in self.guards:
            if guard.fileno() in ready or guard.has_unsent:
                try:
                    messages = guard.receive()
                except GuardLostError:
                    yield from self._replace(guard, runs)
                    continue
                yield from messages

    def _replace(self, guard: Guard, running: Mapping[int, Run]) -> Iterator[LostRun]:
        """End what a killed guard left, count its runs as lost, and go on with a new one."""
        self.say("A guard process is gone; its runs are lost.", level="error")
        self._poll.unregister(guard.fileno())
        guard.close()
        sweep()
        tree.kill_descendants(spare=self.guards.pids() - {guard.pid})
        begun = read_board(self.member.board_of(guard))
        lost = {number: run for number, run in running.items() if self._guard_of(run) is guard}
        name_left(self.member.spool, [run.job for run in lost.values()])
        for number, run in lost.items():
            why = "the process that watched it was killed"
            yield LostRun(number, why, begun=may_have_begun(run.job, begun))
        new = self.guards.replace(guard)
        self._poll.register(new.fileno(), select.POLLIN)
        self.member.equip(new)


def spec_of(run: Run, settings: Settings, store: Store, programs: Programs) -> "wire.Spec":
    """Describe a run to the guard; raises if that can't be done: see `Processes.start`."""
    job = run.job
    out, err = run.files
    timeout = settings.job_timeout if job.timeout is None else job.timeout
    return {
        "argv": _argv(run, programs),
        "called": None if job.shell is None else f"{job.shell}, the shell of this job",
        "cwd": job.cwd,
        "env": _env(job),
        "whole": job.env_all,
        "told": {
            **variables(job.parameters),
            **told_of_node(job.node or "", store),
            b"QUEUECTL_JOB_ID": job.id.encode(),
            b"QUEUECTL_ATTEMPT": b"%d" % job.attempts,
            b"QUEUECTL_QUEUE": job.queue.encode(),
            b"QUEUECTL_WORKER": b"%d" % (job.worker or 0),
            b"QUEUECTL_RESULT": os.fsencode(result_file(run.spool, job)),
            b"QUEUECTL_PROGRESS": os.fsencode(progress_file(run.spool, job)),
            **_tick_variables(job),
            **_hook_variables(job),
            **_trace_variables(run),
            **given_variables(job),
            **_parent_variables(job),
            **_group_variables(job),
            **({} if job.type is None else {b"QUEUECTL_TYPE": job.type.encode()}),
        },
        "owner": owner_of(job.node or "", store.identity),
        "token": token_of(job),
        "worker": job.worker or 0,
        "stdout": out,
        "stderr": err,
        "stdin": _stdin(run, store),
        "timeout": timeout / 1000 if timeout else None,
        "grace": settings.kill_grace / 1000,
        "interval": settings.kill_interval / 1000,
        "output_limit": settings.output_limit,
        "bounds": _bounds(job),
    }


def _tick_variables(job: Job) -> dict[bytes, bytes]:
    """Return what a run of a job that a schedule has made is told of its tick."""
    if job.planned is None:
        return {}
    at, name = iso(job.planned), str(job.schedule)
    return {b"QUEUECTL_SCHEDULED_FOR": at.encode(), b"QUEUECTL_SCHEDULE": name.encode()}


def _hook_variables(job: Job) -> dict[bytes, bytes]:
    """Return what a run of a hook is told of the end that it is for."""
    if job.hook is None:
        return {}
    names = (b"QUEUECTL_HOOK", b"QUEUECTL_HOOK_ATTEMPT", b"QUEUECTL_HOOK_EXIT_CODE")
    *told, id = job.hook.split(" ", 3)
    texts = [b"" if text == "-" else text.encode() for text in told]
    return {**dict(zip(names, texts, strict=False)), b"QUEUECTL_HOOK_OF": id.encode()}


def _parent_variables(job: Job) -> dict[bytes, bytes]:
    """Return what a run is told of the jobs that its job has waited for: their ids.

    More than a variable can hold would keep it from being started.
    """
    if not job.after:
        return {}
    ids = " ".join(read_parent(text)[0] for text in job.after).encode()
    return {b"QUEUECTL_PARENTS": ids} if len(ids) <= LONGEST_VARIABLE else {}


def _group_variables(job: Job) -> dict[bytes, bytes]:
    """Return what a run is told of the group that its job is in, or else has waited for alone."""
    name = group_told(job.group, job.after_group)
    return {} if name is None else {b"QUEUECTL_GROUP": name.encode()}


def _trace_variables(run: Run) -> dict[bytes, bytes]:
    """Return what a run is told of the trace that it is a part of."""
    if run.trace is None:
        return {}
    return {name.encode(): text.encode() for name, text in run.trace.named(VARIABLES).items()}


def given_variables(job: Job) -> dict[bytes, bytes]:
    """Return what a run is told of what its node has given it for itself."""
    if not job.handler.startswith(NEEDS):
        return {}
    needs = needs_of(job.handler) or NOTHING
    told = {
        name: device_text(job.devices[name]) if name in job.devices else number_text(many)
        for name, many in needs.amounts
    }
    variables = {f"QUEUECTL_{name.upper()}": text for name, text in told.items()}
    if GPU in job.devices:
        variables[_VISIBLE] = told[GPU]
    return {name.encode(): text.encode() for name, text in variables.items()}


def told_of_node(node: str, store: Store) -> dict[bytes, bytes]:
    """Return the variables by which a run knows its node and its queue."""
    return _node_variables(node, store.url, store.identity)


@lru_cache(maxsize=1)
def _node_variables(node: str, url: str, queue: str) -> dict[bytes, bytes]:
    """Return what all runs of a node are told about it."""
    variables = {"QUEUECTL_DB": url, "QUEUECTL_NODE": node, OWNER: owner_of(node, queue)}
    return {name.encode(): os.fsencode(value) for name, value in variables.items()}


def _bounds(job: Job) -> "Bounds | None":
    """Return what a run may use, checked: somebody may have written it by hand."""
    if not job.bounds:
        return None
    try:
        bounds = laid_over(read_bounds(job.bounds, in_milliseconds=True), {})
    except BadJobError as error:
        raise UnrunnableError(f"its bounds: {error}") from error
    if "mounts" in bounds and "image" not in bounds:
        raise UnrunnableError("its mounts are for a container; give its image, too, or no mounts")
    return bounds


def _env(job: Job) -> dict[str, str]:
    if job.env_all and job.cwd is not None:
        # That of whoever enqueued it is left out: it says where that was.
        return {"PWD": job.cwd, **job.env}
    return dict(job.env)


def _stdin(run: Run, store: Store) -> str | None:
    """Make a file of what a run finds on stdin; each has its own, to be read from the beginning."""
    if run.job.webhook is not None:
        return run.prepare(".in", _order(run.job, store))
    if run.job.type is not None:
        return run.prepare(".in", run.job.data or b"")
    if run.job.stdin_bytes is None:
        return None
    data = store.jobs.stdin(run.job)
    if len(data) != run.job.stdin_bytes:
        raise UnrunnableError("its stdin isn't in the store any more")
    return run.prepare(".in", data)


def _order(job: Job, store: Store) -> bytes:
    """Write what a delivery is told: it gets the secret from us, and knows no database."""
    from queuectl.webhook import order_of

    found = next((one for one in store.webhooks.all() if one.name == job.webhook), None)
    if found is None:
        raise UnrunnableError(f"there is no webhook {job.webhook!r} any more")
    if found.paused_at is not None:
        raise UnrunnableError(f"webhook {found.name!r} is paused")
    return order_of(found, job)


def _argv(run: Run, programs: Programs) -> list[str]:
    job = run.job
    if job.argv is not None:
        return list(job.argv)
    if job.webhook is not None:
        return [*DELIVER]
    if job.command is None:
        argv = programs.argv(job)
        if argv is None:
            what = told_handler(job.handler) if job.handler else f"task {job.task!r}"
            raise UnrunnableError(f"this node has no handler for {what}")
        return argv
    shell, command = job.shell or SHELL, job.command
    if len(command) <= LONGEST_ARGUMENT // 4 or len(command.encode()) <= LONGEST_ARGUMENT:
        return [shell, "-c", command]
    if {"image", "user"} & job.bounds.keys():
        raise UnrunnableError("so long a command can't be read in a container, or by another user")
    # The kernel takes no single argument of 128 KiB or more, but the shell reads any file.
    return [shell, run.prepare(".sh", f"{command}\n".encode())]
