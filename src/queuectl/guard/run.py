"""The record of one run, as its guard keeps it."""

import sys

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from resource import struct_rusage

    from queuectl.guard.kept import Kept
    from queuectl.guard.output import Spool
    from queuectl.guard.tree import Proc
    from queuectl.guard.wire import Spec, Used

RUNNING = 0
TERMINATING = 1
KILLING = 2

NEVER = float("inf")

_BLOCK = 512
"""Bytes that the kernel counts as one of what is read and written."""
_KIBIBYTE = 1 if sys.platform == "darwin" else 1024
"""What it counts memory in."""


class Run:
    """One run: its main process, what it writes, and how far its end has come."""

    __slots__ = (
        "backoff",
        "complain_at",
        "cpu_time",
        "due",
        "ended",
        "err",
        "grace",
        "how",
        "id",
        "interval",
        "kept",
        "kill_at",
        "known",
        "left",
        "mark",
        "out",
        "own",
        "paused",
        "peak",
        "phase",
        "pid",
        "read",
        "sessions",
        "started",
        "status",
        "token",
        "worker",
        "written",
    )

    def __init__(self, id: int, spec: "Spec", pid: int, mark: int, started: float) -> None:
        self.id = id
        self.pid = pid
        """The main process. It isn't ours to signal once `status` is known."""
        self.sessions = {pid}
        """Sessions that belong to it: its own, and those found while it is being killed."""
        self.token = spec["token"]
        self.mark = mark
        """What its processes carry; 0 if they can't be marked."""
        self.grace = spec["grace"]
        self.interval = spec["interval"]
        self.kill_at = NEVER
        """When its grace is over, once it is asked to end."""
        self.started = started
        self.ended = 0.0
        self.status: int | None = None
        """The wait status of the main process, once it has been reaped."""
        self.how = ""
        self.phase = RUNNING
        self.due = NEVER
        """When its next step is due: the timeout, the next SIGTERM or its end, another sweep."""
        self.paused = False
        self.left = NEVER
        """Seconds that were left of its timeout when it was paused."""
        self.backoff = 0.0
        self.complain_at = 0.0
        self.known: set[Proc] = set()
        """Processes seen under it before; a dying one can't be recognised by anything else."""
        self.worker = spec["worker"]
        self.own = spec["stdout"], spec["stderr"]
        """The names that its files have in the end, if something was written to them."""
        self.out: Spool
        self.err: Spool
        self.kept: Kept | None = None
        """What it is kept to; None if it may use all there is."""
        self.cpu_time = 0.0
        """Seconds of CPU time that those of its processes have used that were reaped."""
        self.peak = 0
        """Bytes of memory that the largest of them has had."""
        self.read = self.written = 0
        """Bytes that they have read from disks, and written."""

    def count(self, usage: "struct_rusage") -> None:
        """Take in what one of its processes has used, with all below it that it has waited for."""
        self.cpu_time += usage.ru_utime + usage.ru_stime
        self.peak = max(self.peak, usage.ru_maxrss * _KIBIBYTE)
        self.read += usage.ru_inblock * _BLOCK
        self.written += usage.ru_oublock * _BLOCK

    def used(self) -> "Used":
        """Say what it has used, as far as that was counted."""
        return self.peak, round(self.cpu_time * 1000), self.read, self.written
