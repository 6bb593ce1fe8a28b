"""Leftovers: the processes that a node which is gone has left running on this host."""

import os
import shutil
import subprocess
from contextlib import suppress

from queuectl.guard import cgroups, tree
from queuectl.guard.containers import left_in
from queuectl.guard.mark import find_marked
from queuectl.guard.outbox import BEFORE

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Collection

_PATIENCE = 30.0
"""Seconds that an engine may take to remove a container."""


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
    for path in _folders_left():
        removal = left_in(path) if _is_own(path) else None
        if removal is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(removal, capture_output=True, timeout=_PATIENCE, check=False)
        shutil.rmtree(path, ignore_errors=True)


def _folders_left() -> list[str]:
    """Find the folders of runs whose guard is gone."""
    found = []
    parent = os.path.dirname(BEFORE)
    with suppress(OSError):
        for name in os.listdir(parent):
            path = f"{parent}/{name}"
            guard = path.removeprefix(BEFORE).split(".", 2)[:2]
            if path.startswith(BEFORE) and all(part.isdecimal() for part in guard):
                pid, start = (*map(int, guard), 0)[:2]
                if not tree.same_process(pid, start):
                    found.append(path)
    return found


def _is_own(path: str) -> bool:
    """Tell whether a folder is ours: what another one wrote there isn't to be run."""
    try:
        return os.stat(path, follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return False


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
