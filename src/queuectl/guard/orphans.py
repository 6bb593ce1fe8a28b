"""Orphans: processes that lost their parent and came to the guard, and the runs they belong to.

Every descendant of a job is below the job's main process, or it lost a parent and the kernel made
it a child of the guard. This module finds out which run such an orphan belongs to: by session, by
the token in its environment, by the file it writes to, by its mark, or because it was seen under
the run before. One that hides from all of these belongs to the last run standing among those that
were there when it first showed up. One with the mark of a run that is over belongs to nobody.
"""

import os
import stat

from queuectl.guard import mark, tree
from queuectl.guard.run import KILLING

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from resource import struct_rusage

    from queuectl.guard.run import Run

TOKEN = "QUEUECTL_RUN"
MOST_LOOKS = 8
"""How often the list of children is read again at most, as long as it changes."""


class Orphans:
    """The guard's children that are no main process, each with the runs it may belong to."""

    __slots__ = ("_claims", "_list")

    def __init__(self) -> None:
        self._claims: dict[int, set[Run]] = {}
        self._list = _open_list()

    def scan(self, mains: "Mapping[int, Run]", runs: "Collection[Run]") -> None:
        """Take in the orphans that came since the last scan.

        Runs leave `runs` only after a scan, so they are all the runs an orphan can come from.
        """
        listed = self._children()
        # All mains are children, so equal numbers leave no room for an orphan.
        if len(listed) == len(mains):
            return
        for child in listed:
            pid = int(child)
            if pid not in mains and len(self._claims.get(pid, ())) != 1:
                self._take_in(pid, runs)

    def of(self, run: "Run") -> list[int]:
        """List the orphans that belong to this run and to no other."""
        if not self._claims:
            return []
        only = {run}
        return [pid for pid, claim in self._claims.items() if claim == only]

    def forget(self, pid: int, usage: "struct_rusage") -> None:
        """Drop an orphan that ended and was reaped; its run has used what it did."""
        claim = self._claims.pop(pid, ())
        if len(claim) == 1:
            for run in claim:
                run.count(usage)

    def release(self, run: "Run") -> None:
        """Drop the claims of a run that is over, which may leave an orphan to one other run."""
        for claim in self._claims.values():
            claim.discard(run)

    def _take_in(self, pid: int, runs: "Collection[Run]") -> None:
        process = tree.stat(pid)
        if process is None:
            # As our child it is there until we reap it; we are just out of descriptors.
            self._claims.setdefault(pid, set(runs))
            return
        carried = mark.read(pid)
        owner = _owner(pid, process, carried, runs)
        if owner is not None and owner.phase == KILLING:
            # It may have forked and be gone before its turn comes, but its group stays. And as
            # long as we haven't reaped it, the numbers of its group and session are its own.
            owner.sessions.add(process.session)
            tree.stop_group(process.group)
        if process.gone:
            return  # It will be reaped in a moment.
        if owner is not None:
            self._claims[pid] = {owner}
        elif pid not in self._claims:
            is_late = any(mark.is_alike(carried, run.mark) for run in runs)
            self._claims[pid] = set() if is_late else set(runs)
        if not self._claims[pid]:
            tree.kill_at_once(tree.Proc(pid, process.start))

    def _children(self) -> list[bytes]:
        if not tree.has_proc():
            return []  # Without a subreaper none comes to us.
        if self._list < 0:
            return [b"%d" % pid for pid in tree.children(os.getpid())]
        # While children end, the kernel may leave others out.
        found, again = self._listed(), self._listed()
        for _ in range(MOST_LOOKS):
            if found == again:
                break
            found, again = again, self._listed()
        return again.split()

    def _listed(self) -> bytes:
        found = b""
        while chunk := os.pread(self._list, 4096, len(found)):
            found += chunk
        return found


def _open_list() -> int:
    """Open the kernel's list of our children once: it is read after every exit."""
    try:
        return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _owner(pid: int, process: tree.Stat, carried: int, runs: "Collection[Run]") -> "Run | None":
    """Find the run that an orphan can be proved to belong to."""
    me = tree.Proc(pid, process.start)
    token = tree.environ(pid, TOKEN)
    files = _files(f"/proc/{pid}/fd/1", f"/proc/{pid}/fd/2")
    # The newest first: its main process may have got the pid of an older run whose main process
    # is gone, and then no process of the older one is left in a session of that number.
    for run in reversed(list(runs)):
        if process.session in run.sessions or me in run.known:
            return run
        if token == run.token or files & _files(run.out.path, run.err.path):
            return run
        if carried and carried == run.mark:
            return run
    return None


def _files(*paths: str) -> set[tuple[int, int]]:
    """Identify the regular files among these; everybody has /dev/null open."""
    found = set()
    for path in paths:
        try:
            info = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            found.add((info.st_dev, info.st_ino))
    return found
