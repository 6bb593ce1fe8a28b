"""The record of one run, as its guard keeps it."""

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.guard.output import Spool
    from queuectl.guard.tree import Proc
    from queuectl.guard.wire import Spec

RUNNING = 0
TERMINATING = 1
KILLING = 2

NEVER = float("inf")


class Run:
    """One run: its main process, what it writes, and how far its end has come."""

    __slots__ = (
        "backoff",
        "complain_at",
        "due",
        "ended",
        "err",
        "grace",
        "how",
        "id",
        "interval",
        "kill_at",
        "known",
        "left",
        "mark",
        "out",
        "own",
        "paused",
        "phase",
        "pid",
        "sessions",
        "started",
        "status",
        "token",
        "worker",
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
