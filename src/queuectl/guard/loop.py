"""The guard: a small process between a node and its jobs, so that no job outlives its node.

It starts the runs, bounds their time and their output, and reports a run as ended only when not
one process of it is left. It is the subreaper of all of them: a process that daemonises ends up
as the guard's own child instead of getting away. When the node dies, or stops extending its
lease, the guard kills all that is below it.

One thread, one loop, no database. `python -m queuectl.guard FD` serves the socket FD.
"""

import errno
import gc
import math
import os
import select
import signal
import sys
import time

from queuectl.guard import signals, tree, wire
from queuectl.guard.clocks import Deadline, Timers
from queuectl.guard.files import Files
from queuectl.guard.line import Line
from queuectl.guard.mark import Marker
from queuectl.guard.orphans import Orphans
from queuectl.guard.output import Spool, Spools
from queuectl.guard.pauses import Pauses
from queuectl.guard.replies import Replies
from queuectl.guard.run import KILLING, NEVER, RUNNING, TERMINATING, Run
from queuectl.guard.spawn import NotStartedError, Spawner, UnableError

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from types import TracebackType

    from queuectl.guard.bounding import Bounding
    from queuectl.guard.kept import Kept

EXIT_BROKEN = 70
"""The guard met an error of its own and killed its runs."""

_CHUNK = 1 << 16
_LITTER = 20_000
"""Objects that come to be before the collector looks for circles among them."""
_SPAWNING = 0.005
"""Seconds to go on starting runs before looking after those that run."""
_AT_ONCE = 8
"""Runs that are started together."""
_BREATH = 0.02
"""Seconds without a new run after which the guard leaves the directory of the last one."""

_SWEEP_FIRST = 0.002
_SWEEP_LAST = 1.0
_PATIENCE = 5.0
"""Seconds a process may survive SIGKILL before the node hears of it."""

_COMPLAIN_EVERY = 10.0
_LONGEST_SLEEP = 3600.0
_LAST_SWEEPS = 30.0
"""Seconds to try to kill everything before giving up; SIGKILL is pending for what is left."""


class Loop:
    """Serves one node until it goes away."""

    def __init__(self, link: int) -> None:
        self._link = link
        self._node = os.getppid()
        self._decoder = wire.Decoder()
        self._poll = select.poll()
        self._replies = Replies(link, self._poll)
        self._files = Files()
        self._spawner = Spawner(self._files)
        self._marker = Marker()
        self._spools = Spools()
        self._orphans = Orphans()
        self._line = Line()
        self._runs: dict[int, Run] = {}
        self._mains: dict[int, Run] = {}
        """Runs by main process, as long as that hasn't been reaped."""
        self._leftovers: dict[int, Run] = {}
        """Runs whose main process is gone, but maybe not all the others."""
        self._timers = Timers()
        self._pauses = Pauses(self._timers, self._replies, self._members)
        self._lease = Deadline()
        self._bounding: Bounding | None = None
        """There as soon as a run has bounds."""
        self._look_at = NEVER
        """When runs have to be looked at that may have used more than they may."""
        self._rest_at = NEVER
        self._wake = signals.wake_on_child()
        for fd in (link, self._wake, self._spools.fileno()):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        """Run until the node is gone."""
        self._replies.say(wire.Ready(os.getpid()))
        while True:
            self._replies.flush()
            ready = {fd for fd, _ in self._poll.poll(self._pause())}
            # Ends come before timeouts, so that a run which made it in time isn't called late.
            if self._wake in ready:
                os.read(self._wake, 512)
                self._reap()
            if self._link in ready and not self._receive():
                return
            if self._line:
                self._spawn_some()
            self._keep_time(ready)

    def tidy(self) -> None:
        """Remove what was made for runs of which nothing is left."""
        for run in self._runs.values():
            if run.kept is not None:
                run.kept.drop()

    def _pause(self) -> int | None:
        """Return how many milliseconds `poll` may sleep."""
        if self._line:
            return 0
        now = time.monotonic()
        due = min(self._replies.due(), self._spools.due(), self._timers.next(), self._rest_at)
        due = min(due, self._look_at)
        if self._runs:
            due = min(due, now + self._lease.look_in())
        return None if due == NEVER else math.ceil(max(0.0, min(due - now, _LONGEST_SLEEP)) * 1000)

    # Messages

    def _receive(self) -> bool:
        """Read what the node sent and do it; False when the node is gone."""
        try:
            chunk = os.read(self._link, _CHUNK)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        for message in self._decoder.feed(chunk):
            self._handle(message)
        return bool(chunk)

    def _handle(self, message: "wire.Message") -> None:
        match message:
            case wire.Spawn(run, spec) if run not in self._runs and run not in self._line:
                self._line.add(run, spec)
            case wire.Spawn(run, _):
                self._replies.say(wire.NotStarted(run, errno.EEXIST, f"run {run} exists"))
            case wire.Release(run) if run in self._line:
                self._release(run)
            case wire.Stop(run, how) | wire.Kill(run, how) if run in self._line:
                self._end_unstarted(run, how)
            case wire.Stop(run, how) if run in self._runs:
                self._stop(self._runs[run], how)
            case wire.Kill(run, how) if run in self._runs:
                self._kill(self._runs[run], how)
            case wire.Pause(run) if run in self._line:
                self._line.pause(run)
            case wire.Resume(run) if run in self._line:
                self._line.resume(run)
            case wire.Pause(run) if run in self._runs:
                self._pause_run(self._runs[run])
            case wire.Resume(run) if run in self._runs:
                self._resume_run(self._runs[run])
            case wire.Stop() | wire.Kill() | wire.Release() | wire.Pause() | wire.Resume():
                pass  # It ended, or began, while the message was under way.
            case wire.Extend(clock, deadline):
                self._lease.extend(clock, deadline)
            case wire.KeepBoard(path, boards, first, more):
                self._files.settle(path, boards, first=first, more=more)
            case _:
                raise ValueError(f"unknown message: {message!r}")

    def _release(self, run: int) -> None:
        """Leave a run unstarted, and say so."""
        self._line.drop(run)
        self._replies.say(wire.Released(run))

    def _end_unstarted(self, run: int, how: str) -> None:
        """Report a run that is over before it began; its status can't be taken for success."""
        self._line.drop(run)
        now = time.monotonic()
        self._replies.say(wire.Ended(run, signal.SIGKILL.value, how, now, now, 0, 0, None, None))

    # Starting

    def _spawn_some(self) -> None:
        """Start what is asked for, but not for so long that running jobs are neglected."""
        until = time.monotonic() + _SPAWNING
        while self._line and time.monotonic() < until:
            self._spawn(self._line.first(_AT_ONCE))
        self._rest_at = until + _BREATH

    def _spawn(self, numbers: list[int]) -> None:
        """Start some runs.

        Each start drives most of what we do from the processor's caches. So what can be done before
        and after all of them is not done between them.
        """
        ready = []
        for number in numbers:
            spec = self._line.take(number)
            try:
                ready.append((number, spec, self._spawner.environment(spec)))
            except NotStartedError as error:
                self._not_started(number, spec, error)
        begun = []
        for number, spec, env in ready:
            if self._lease.is_over():
                self._line.free(spec["worker"])
                self._replies.say(wire.Released(number))
                continue
            now = time.monotonic()
            mark = self._marker.put(spec["owner"])
            if os.getppid() != self._node:
                # Whoever rescues what a dead node had goes by the board, so nothing may be
                # begun any more. One who looked between these two lines has found the mark, and
                # killed us.
                break
            try:
                if spec["bounds"]:
                    pid, files, kept = self._start_bounded(spec, env)
                else:
                    (pid, files), kept = self._spawner.start(spec, env), None
            except NotStartedError as error:
                self._not_started(number, spec, error)
                continue
            begun.append((number, spec, pid, mark, now, files, kept))
        for number, spec, pid, mark, now, files, kept in begun:
            self._watch(Run(number, spec, pid, mark, now), spec, files, kept)

    def _start_bounded(
        self, spec: "wire.Spec", env: dict[bytes, bytes]
    ) -> "tuple[int, tuple[str, str], Kept]":
        """Start a run that is kept to bounds, or raise `NotStartedError`."""
        from queuectl.guard.bounding import Bounding
        from queuectl.guard.confine import ConfineError

        if self._bounding is None:
            self._bounding = Bounding(self._node)
        kept = None
        try:
            kept = self._bounding.prepare(spec, env)
            pid, files = self._spawner.start(spec, env, kept.confined.spawn, kept.argv)
        except ConfineError as error:
            if kept is not None:
                kept.drop()
            raise NotStartedError(errno.EPERM, str(error)) from error
        except NotStartedError:
            if kept is not None:
                kept.drop()
            raise
        return pid, files, kept

    def _not_started(self, number: int, spec: "wire.Spec", error: NotStartedError) -> None:
        kind = wire.Unable if isinstance(error, UnableError) else wire.NotStarted
        self._replies.say(kind(number, error.errno, error.text))
        self._line.free(spec["worker"])
        for path in (spec["stdout"], spec["stderr"]):
            self._files.close(path, path, 0)

    def _watch(
        self, run: Run, spec: "wire.Spec", files: tuple[str, str], kept: "Kept | None"
    ) -> None:
        """Look after a run that has begun."""
        limit, timeout = spec["output_limit"], spec["timeout"]
        self._runs[run.id] = self._mains[run.pid] = run
        run.out = run.err = self._spools.add(files[0], limit, run.started)
        if files[1] != files[0]:
            run.err = self._spools.add(files[1], limit, run.started)
        if timeout is not None and timeout < NEVER:
            self._timers.set(run, run.started + timeout)
        if kept is not None and self._bounding is not None:
            run.kept = kept
            self._bounding.watch(run)
            self._look_at = self._bounding.next

    # Pausing

    def _pause_run(self, run: Run) -> None:
        """Stop all processes of a run, and its clock, unless it comes to its end."""
        self._reap()
        if run.phase == RUNNING and run.id in self._runs:
            self._pauses.begin(run)

    def _resume_run(self, run: Run) -> None:
        """Let a run go on, unless it comes to its end."""
        if run.phase == RUNNING:
            self._pauses.end(run)

    # Ending

    def _reap(self) -> None:
        """Take in all that ended, and report the runs that are over."""
        self._collect()
        if self._leftovers:
            self._settle()

    def _collect(self) -> None:
        """Reap what ended, main processes and orphans alike."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            run = self._mains.pop(pid, None)
            if run is None:
                self._orphans.forget(pid, usage)
                continue
            if run.status is not None:
                # It was the one that removes the container of a run.
                self._removed(run)
                continue
            run.count(usage)
            run.status = status
            run.ended = time.monotonic()
            self._leftovers[run.id] = run

    def _settle(self) -> None:
        """Finish the runs of which nothing is left, and begin to kill what others left behind."""
        self._orphans.scan(self._mains, self._runs.values())
        for run in list(self._leftovers.values()):
            if self._is_over(run):
                self._finish(run)
            elif run.phase == RUNNING:
                self._kill(run, wire.EXITED)
            elif run.phase == TERMINATING:
                self._terminate(run)

    def _is_over(self, run: Run) -> bool:
        if run.status is None or self._orphans.of(run):
            return False
        if run.kept is not None and run.kept.group is not None and not run.kept.group.is_empty():
            return False
        if not tree.has_proc() and _signal_group(run.pid, 0):
            return False
        return run.kept is None or run.kept.container is None or self._is_removed(run)

    def _is_removed(self, run: Run) -> bool:
        """Have the container of a run removed, of which nothing else is left; tell if it is."""
        assert run.kept is not None
        container = run.kept.container
        assert container is not None
        if not container.remover and not container.is_gone:
            try:
                null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return False
            # It is no part of a run, whose mark it would carry.
            self._marker.remove()
            try:
                container.remover = os.posix_spawn(
                    "/bin/sh",
                    container.removal(),
                    self._spawner.base,
                    file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)],
                    setsid=True,
                    setsigmask=(),
                    setsigdef=signals.to_reset(),
                )
            except OSError:
                return False
            finally:
                os.close(null)
            self._mains[container.remover] = run
        return container.is_gone

    def _removed(self, run: Run) -> None:
        """Take note that the container of a run is gone."""
        assert run.kept is not None
        if run.kept.container is not None:
            run.kept.container.is_gone = True
        self._leftovers[run.id] = run

    def _finish(self, run: Run) -> None:
        del self._runs[run.id]
        self._leftovers.pop(run.id, None)
        self._timers.clear(run)
        self._orphans.release(run)
        goes_on = self._line.free(run.worker)
        out = err = self._close(run.out, run.own[0])
        if run.err is not run.out:
            err = self._close(run.err, run.own[1])
        assert run.status is not None
        used: tuple[int, int, int, int] | None = run.used()
        noted: str | None = None
        if run.kept is not None and self._bounding is not None:
            used, noted = self._bounding.finish(run)
            self._look_at = self._bounding.next
        how = run.how or wire.EXITED
        ended = wire.Ended(run.id, run.status, how, run.started, run.ended, out, err, used, noted)
        if goes_on:
            self._replies.say_soon(ended)
        else:
            self._replies.say(ended)

    def _close(self, spool: Spool, own: str) -> int:
        """Be done with a stream; return how much was written to it."""
        written = self._spools.remove(spool)
        self._files.close(spool.path, own, written)
        return written

    def _stop(self, run: Run, how: str) -> None:
        """Ask all processes of a run to end, and give them its grace to do so."""
        # It may have ended by itself a moment ago.
        self._reap()
        if run.phase != RUNNING or run.id not in self._runs:
            return
        run.phase = TERMINATING
        run.how = run.how or how
        self._terminate(run)
        # Who is stopped can't heed it.
        self._pauses.lift(run)
        now = time.monotonic()
        run.kill_at = now + run.grace
        self._timers.set(run, min(now + run.interval, run.kill_at))

    def _ask_again(self, run: Run) -> None:
        """Send SIGTERM once more to all that is left of a run."""
        run.known.clear()
        self._terminate(run)
        self._timers.set(run, min(time.monotonic() + run.interval, run.kill_at))

    def _terminate(self, run: Run) -> None:
        """Send SIGTERM to those processes of a run that haven't got it yet."""
        fresh = [process for process in self._members(run) if process not in run.known]
        run.known.update(fresh)
        tree.terminate(fresh)
        if not tree.has_proc():
            _signal_group(run.pid, signal.SIGTERM)

    def _kill(self, run: Run, how: str) -> None:
        """Begin to kill all processes of a run, at once and until none is left."""
        if run.phase == KILLING:
            return
        run.phase = KILLING
        run.how = run.how or how
        run.backoff = _SWEEP_FIRST
        run.complain_at = time.monotonic() + _PATIENCE
        self._sweep(run)

    def _sweep(self, run: Run) -> None:
        if run.kept is not None and run.kept.group is not None:
            run.kept.group.kill()
        found, refused = tree.freeze_and_kill(lambda: self._members(run))
        if not tree.has_proc():
            _signal_group(run.pid, signal.SIGKILL)
        run.known |= found
        if not found and self._is_over(run):
            self._finish(run)
            return
        now = time.monotonic()
        if found and now >= run.complain_at:
            run.complain_at = now + _COMPLAIN_EVERY
            self._replies.say(wire.Trouble(run.id, _trouble(found, refused)))
        self._timers.set(run, now + run.backoff)
        run.backoff = min(run.backoff * 2, _SWEEP_LAST)

    def _members(self, run: Run) -> list[tree.Proc]:
        """Find every process of a run, wherever it went."""
        self._collect()
        self._orphans.scan(self._mains, self._runs.values())
        roots = [run.pid] if run.status is None else []
        return tree.family(roots + self._orphans.of(run))

    # Time

    def _keep_time(self, ready: set[int]) -> None:
        now = time.monotonic()
        if self._spools.fileno() in ready:
            self._spools.wake(now)
        if self._spools.due() <= now:
            self._spools.look(now)
        for run in self._timers.due(now):
            self._on_due(run)
        if self._look_at <= now:
            self._look(now)
        if self._rest_at <= now:
            self._rest()
        if not self._lease.noted and self._lease.is_over():
            self._lease.noted = True
            self._reap()
            for run in list(self._runs.values()):
                self._kill(run, wire.LEASE)

    def _look(self, now: float) -> None:
        """End the runs that have used more than they may."""
        if self._bounding is None:
            return
        for run, how in list(self._bounding.look(now, self._members)):
            if how == wire.MEMORY:
                self._kill(run, how)
            else:
                self._stop(run, how)
        self._look_at = self._bounding.next

    def _rest(self) -> None:
        """Leave the directory of the last run, and drop its mark."""
        self._rest_at = NEVER
        self._spawner.rest()
        self._marker.remove()

    def _on_due(self, run: Run) -> None:
        if run.phase == RUNNING and run.paused:
            self._pauses.keep(run)
        elif run.phase == RUNNING:
            self._stop(run, wire.TIMEOUT)
        elif run.phase == TERMINATING and time.monotonic() < run.kill_at:
            self._ask_again(run)
        elif run.phase == TERMINATING:
            self._kill(run, run.how)
        else:
            self._sweep(run)


def _signal_group(group: int, signum: int) -> bool:
    """Signal a process group; False when it is empty. Without /proc there is no better way."""
    try:
        os.killpg(group, signum)
    except OSError:
        return False
    return True


def _trouble(found: set[tree.Proc], refused: set[tree.Proc]) -> str:
    pids = ", ".join(map(str, sorted(process.pid for process in found)[:10]))
    if refused:
        return f"processes that belong to another user can't be killed: {pids}"
    return f"processes can't be killed while the kernel holds them: {pids}"


def _kill_everything() -> None:
    """Kill and reap all that is below this process."""
    for process in tree.kill_descendants(within=_LAST_SWEEPS):
        print(f"queuectl guard: process {process.pid} can't be killed", file=sys.stderr)


def _prepare(link: int) -> None:
    signals.ignore()
    os.set_blocking(link, False)
    os.set_inheritable(link, False)
    # Jobs without input inherit this.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if null:
        os.close(null)
    tree.become_subreaper()
    tree.name_process("queuectl-guard")


def _break(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
    """Leave no run behind, whatever went wrong."""
    _kill_everything()
    sys.__excepthook__(kind, error, trace)
    sys.stderr.flush()
    os._exit(EXIT_BROKEN)


def main() -> None:
    """Serve the node at the other end of the descriptor named on the command line."""
    sys.excepthook = _break
    link = int(sys.argv[1])
    _prepare(link)
    # What is here stays, and what comes and goes with the runs refers to nothing in circles.
    gc.freeze()
    gc.set_threshold(_LITTER)
    loop = Loop(link)
    loop.serve()
    _kill_everything()
    loop.tidy()
