"""The line: runs that were asked for and aren't started yet. Each waits until its worker is free.

A node that knows its jobs to be short asks for the next ones before the last ones are over. Then
a worker goes on at once, and what became of many runs is written down in one commit.
"""

from itertools import islice

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from queuectl.guard.wire import Spec


class Line:
    """Runs to be started, in the order in which they were asked for."""

    __slots__ = ("_behind", "_busy", "_held", "_paused", "_ready")

    def __init__(self) -> None:
        self._ready: dict[int, Spec] = {}
        """Runs whose worker is free, and theirs from now on."""
        self._busy: dict[int, dict[int, Spec]] = {}
        """Workers that have a run, started or ready, each with the runs that wait for its end."""
        self._behind: dict[int, int] = {}
        """The runs that wait, each with its worker."""
        self._paused: set[int] = set()
        """Runs that aren't to be started for now."""
        self._held: dict[int, Spec] = {}
        """Those of them whose worker is free, and theirs, as with the ready ones."""

    def __bool__(self) -> bool:
        """Tell whether anything can be started."""
        return bool(self._ready)

    def __contains__(self, run: int) -> bool:
        return run in self._ready or run in self._behind or run in self._held

    def add(self, run: int, spec: "Spec") -> None:
        """Take in a run."""
        worker = spec["worker"]
        if not worker:
            self._ready[run] = spec
        elif worker in self._busy:
            self._busy[worker][run] = spec
            self._behind[run] = worker
        else:
            self._busy[worker] = {}
            self._ready[run] = spec

    def first(self, most: int) -> list[int]:
        """Return the runs that are to be started next."""
        return list(islice(self._ready, most))

    def take(self, run: int) -> "Spec":
        """Take a run out that is being started: its worker is busy until `free` is called."""
        return self._ready.pop(run)

    def pause(self, run: int) -> None:
        """Don't start a run until it is resumed, whoever else is free to be."""
        self._paused.add(run)
        if run in self._ready:
            self._held[run] = self._ready.pop(run)

    def resume(self, run: int) -> None:
        """Let a run be started when its turn comes, which may be now."""
        self._paused.discard(run)
        if run in self._held:
            self._ready[run] = self._held.pop(run)

    def drop(self, run: int) -> None:
        """Take a run out that won't be started."""
        self.resume(run)
        if run in self._ready:
            self.free(self._ready.pop(run)["worker"])
        else:
            del self._busy[self._behind.pop(run)][run]

    def free(self, worker: int) -> bool:
        """Let the next run of a worker be started, as its last one is over; False: it has none."""
        if not worker:
            return False
        waiting = self._busy[worker]
        if not waiting:
            del self._busy[worker]
            return False
        run = next(iter(waiting))
        (self._held if run in self._paused else self._ready)[run] = waiting.pop(run)
        del self._behind[run]
        return True
