"""Pauses: runs all of whose processes are stopped, and with them the clock of their timeout."""

import signal
import time

from queuectl.guard import tree, wire
from queuectl.guard.run import NEVER

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Callable

    from queuectl.guard.clocks import Timers
    from queuectl.guard.replies import Replies
    from queuectl.guard.run import Run
    from queuectl.guard.tree import Proc

_LOOK_FIRST = 0.002
_LOOK_SURE = 0.05
"""Seconds between looks after which one that finds all stopped is the last: a fork that was under
way when its parent was stopped has shown by then."""
_LOOK_LAST = 1.0
_PATIENCE = 5.0
"""Seconds a process may survive SIGSTOP before the node hears of it."""
_COMPLAIN_EVERY = 60.0


class Pauses:
    """Stops runs, and lets them go on."""

    __slots__ = ("_members", "_replies", "_timers")

    def __init__(
        self, timers: "Timers", replies: "Replies", members: "Callable[[Run], list[Proc]]"
    ) -> None:
        """Work with the clocks of a guard; `members` finds all processes of a run."""
        self._timers = timers
        self._replies = replies
        self._members = members

    def begin(self, run: "Run") -> None:
        """Stop all processes of a run; what is left of its timeout is kept."""
        if run.paused:
            return
        now = time.monotonic()
        run.paused = True
        run.left = run.due - now
        run.backoff = _LOOK_FIRST
        run.complain_at = now + _PATIENCE
        self.keep(run)

    def keep(self, run: "Run") -> None:
        """Stop what isn't stopped yet of a paused run, and look again until nothing is found."""
        found, refused = tree.freeze(lambda: self._members(run))
        if not tree.has_proc():
            tree.stop_group(run.pid)
        awake = [process for process in found if not tree.is_stopped(process)]
        if not awake and run.backoff > _LOOK_SURE:
            self._timers.clear(run)
            return
        for process in awake:
            tree.let_exec(process)
        now = time.monotonic()
        if awake and now >= run.complain_at:
            run.complain_at = now + _COMPLAIN_EVERY
            self._replies.say(wire.Trouble(run.id, _trouble(awake, refused)))
        self._timers.set(run, now + run.backoff)
        run.backoff = min(run.backoff * 2, _LOOK_LAST)

    def end(self, run: "Run") -> None:
        """Let a run go on, with what was left of its timeout."""
        if not run.paused:
            return
        self.lift(run)
        if run.left < NEVER:
            self._timers.set(run, time.monotonic() + run.left)
        else:
            self._timers.clear(run)

    def lift(self, run: "Run") -> None:
        """Let the processes of a run go on, if they are stopped; its clock is another matter."""
        if not run.paused:
            return
        run.paused = False
        tree.thaw(self._members(run))
        if not tree.has_proc():
            tree.signal_group(run.pid, signal.SIGCONT)


def _trouble(awake: "list[Proc]", refused: "set[Proc]") -> str:
    pids = ", ".join(map(str, sorted(process.pid for process in awake)[:10]))
    if refused:
        return f"processes that belong to another user can't be stopped: {pids}"
    return f"processes can't be stopped while the kernel holds them: {pids}"
