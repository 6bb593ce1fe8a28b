"""A mark that all processes of a run carry, whatever they do with session and environment.

It is a limit that nobody runs into: how many microseconds a process with a real-time scheduling
policy may compute without a pause. Children inherit it, programs leave it alone, and anybody may
read it in /proc. Half of it names the node, half of it the run.
"""

import resource
from binascii import crc32
from functools import cache

from queuectl.guard import tree

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Collection

OWNER = "QUEUECTL_OWNER"
"""The variable in which a run is told its node, as the node calls itself."""

_LIMIT: int | None = getattr(resource, "RLIMIT_RTTIME", None)
"""Linux has it."""
_LEAST = 1 << 62
"""More than a hundred thousand years: who has such a limit has it from us."""
_RUNS = 1 << 30
_LINE = b"Max realtime timeout"


class Marker:
    """Marks what its process starts: each run in another way than all that live beside it."""

    __slots__ = ("_last", "_limit")

    def __init__(self) -> None:
        self._last = 0
        self._limit = _limit_to_use()

    def put(self, owner: str) -> int:
        """Mark this process, and thus the run that it starts next; 0 where that can't be done."""
        if self._limit is None:
            return 0
        self._last = (self._last + 1) % _RUNS
        mark = _of(owner) + self._last
        resource.setrlimit(self._limit, (mark, resource.RLIM_INFINITY))
        return mark

    def remove(self) -> None:
        """Drop the mark of the last run from this process."""
        if self._limit is not None:
            resource.setrlimit(self._limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def read(pid: int) -> int:
    """Return the mark of a process, 0 when it has none."""
    for line in (tree.read(f"/proc/{pid}/limits") or b"").splitlines():
        if line.startswith(_LINE):
            soft = line[len(_LINE) :].split()[0]
            limit = int(soft) if soft.isdigit() else 0
            return limit if limit >= _LEAST else 0
    return 0


def is_alike(mark: int, other: int) -> bool:
    """Tell whether these are the marks of two runs of one node."""
    return mark >= _LEAST and mark // _RUNS == other // _RUNS


def find_marked(owners: "Collection[str]") -> list[tree.Proc]:
    """Find every process on this host, but this one, that was started for one of these nodes."""
    wanted = {_of(owner) for owner in owners}
    return tree.find(lambda pid: read(pid) // _RUNS * _RUNS in wanted)


@cache
def _of(owner: str) -> int:
    return _LEAST + crc32(owner.encode()) * _RUNS


def _limit_to_use() -> int | None:
    """Return the limit if it is nobody's: unlimited, or a mark of ours from further up."""
    if _LIMIT is None or not tree.has_proc():
        return None
    soft, hard = resource.getrlimit(_LIMIT)
    free = hard == resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft >= _LEAST)
    return _LIMIT if free else None
