"""Leftovers: the processes that a node which is gone has left running on this host."""

import os
from contextlib import suppress

from queuectl.guard import cgroups, outbox, tree
from queuectl.guard.mark import find_marked

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Collection


def kill_leftovers(
    name: str, values: "Collection[str]", folder: str, within: float = 1.0
) -> list[tree.Proc]:
    """Kill all processes that were started with such a variable or mark, or write into a folder.

    A process may have cleared its environment, but hardly all of these. Returns what is left. What
    belongs to another user, as by sudo, can't be killed by us, and isn't waited for.
    """

    def find() -> list[tree.Proc]:
        found = tree.find_tagged(name, values) + _find_writing(folder) + find_marked(values)
        return [process for process in dict.fromkeys(found) if _is_ours(process.pid)]

    sweep()
    return tree.kill_until_gone(find, within)


def sweep() -> None:
    """End what is left in control groups of guards that are gone, and tidy up after them."""
    cgroups.sweep()
    outbox.sweep()


def _is_ours(pid: int) -> bool:
    try:
        # One that is gone is found to be so by whoever looks next.
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
    except PermissionError:
        return False
    return True


def _find_writing(folder: str) -> list[tree.Proc]:
    """Find every process on this host, but this one, whose stdout or stderr is in a folder."""
    return tree.find(lambda pid: _writes_into(pid, folder)) if tree.has_proc() else []


def _writes_into(pid: int, folder: str) -> bool:
    for fd in (1, 2):
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(folder + "/"):
                return True
    return False
