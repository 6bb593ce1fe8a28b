"""Control groups (cgroup v2): where a run may have one, and what the kernel does and counts in it.

A node may make groups where a part of the tree was delegated to it: by `Delegate=yes` of systemd,
in a container whose tree is writable, or as root where nobody else keeps the tree. A group that
hands controllers on can't have processes of its own, so the node and its guards move into one
beside the runs. All of it is done for the first run that asks for something a group is needed for.
"""

import os
import signal
import time
from contextlib import suppress

from queuectl.guard import tree

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

CONTROLLERS = ("memory", "pids", "cpu", "io")
"""What is of use to a run: three that bound it, and one that only counts."""
NODES = "queuectl-nodes"
"""The group that nodes move into, with all that they started before."""
_RUN = "queuectl."
"""What the name of a run's group begins with; pid and start time of its guard follow."""
_LONGEST_NAME = 200
_SYSTEMD = "/run/systemd/system"
_DELEGATED = ("user.delegate", "trusted.delegate")
"""How systemd marks what isn't its own business any more."""
_HINT = "start the node in a service or scope of its own that has Delegate=yes"
_LOOKS = 100
_NAP = 0.005
"""How often, and after how many seconds, it is tried again to remove what was just killed."""


class NoGroupsError(Exception):
    """This process can't make control groups, for a reason that is told in words."""


class Place:
    """Where groups of runs can be made, and what can be bounded there."""

    __slots__ = ("controllers", "path")

    def __init__(self, path: str, controllers: "Collection[str]") -> None:
        self.path = path
        self.controllers = frozenset(controllers)


class Group:
    """The group of one run."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def set(self, name: str, value: str) -> None:
        """Set a bound, or raise OSError."""
        _write(f"{self.path}/{name}", value)

    def take_me_in(self) -> None:
        """Move this process into it, with all that it will start."""
        _write(f"{self.path}/cgroup.procs", "0")

    def is_empty(self) -> bool:
        """Tell whether nothing runs in it."""
        return _counts(f"{self.path}/cgroup.events").get("populated", 0) == 0

    def kill(self) -> None:
        """Kill all that is in it at once; nobody who forks meanwhile gets away."""
        try:
            _write(f"{self.path}/cgroup.kill", "1")
        except OSError:
            # Kernels before 5.14 have no such file.
            for pid in _members_of(self.path):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def cpu_ms(self) -> int | None:
        """Return how much CPU time all that was ever in it has used, in milliseconds."""
        used = _counts(f"{self.path}/cpu.stat").get("usage_usec")
        return None if used is None else used // 1000

    def peak_memory(self) -> int | None:
        """Return how much memory it had at most, if the kernel has counted that."""
        with suppress(OSError, ValueError):
            return int(_read(f"{self.path}/memory.peak"))
        return None

    def oom_kills(self) -> int:
        """Return how many processes were killed because it had no more memory."""
        return _counts(f"{self.path}/memory.events").get("oom_kill", 0)

    def io(self) -> tuple[int, int] | None:
        """Return how many bytes it has read from disks and written, if the kernel counted that."""
        try:
            lines = _read(f"{self.path}/io.stat").splitlines()
        except OSError:
            return None
        pairs = [pair.split("=") for line in lines for pair in line.split()[1:]]
        read = sum(int(value) for name, value in pairs if name == "rbytes")
        return read, sum(int(value) for name, value in pairs if name == "wbytes")

    def remove(self) -> bool:
        """Remove it; False if something is left in it."""
        try:
            _remove(self.path)
        except OSError:
            return not os.path.exists(self.path)
        return True


def find(node: int) -> Place:
    """Find where a node could make groups, and what it could bound there; nothing is changed.

    Raises `NoGroupsError` with the reason why that is nowhere.
    """
    path, movers = _where(node)
    given = set(_read(f"{path}/cgroup.controllers").split())
    if movers is None:
        # Nobody has to move, so what is handed on already is certain, and the rest can be.
        given |= set(_read(f"{path}/cgroup.subtree_control").split())
    return Place(path, given.intersection(CONTROLLERS))


def prepare(node: int) -> Place:
    """Find where a node can make groups, and have as much as possible bounded there.

    Raises `NoGroupsError` with the reason why that is nowhere.
    """
    path, movers = _where(node)
    try:
        if movers is not None:
            _move_all(path)
        for name in set(_read(f"{path}/cgroup.controllers").split()).intersection(CONTROLLERS):
            # One by one: another one may be held by somebody else.
            with suppress(OSError):
                _write(f"{path}/cgroup.subtree_control", f"+{name}")
        handed_on = _read(f"{path}/cgroup.subtree_control").split()
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        raise NoGroupsError(f"cgroup v2 in {path} can't be used: {text}") from error
    sweep(path)
    return Place(path, set(handed_on).intersection(CONTROLLERS))


def make(place: Place, run: str) -> Group:
    """Make the group of a run of this process, or raise OSError; its name tells whose it is."""
    me = os.getpid()
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in run)
    name = f"{_RUN}{me}.{tree.process_start(me)}.{kept}"[:_LONGEST_NAME]
    path = f"{place.path}/{name}"
    os.mkdir(path)
    return Group(path)


def sweep(path: str | None = None) -> None:
    """End what is left in groups of guards that are gone, and remove these."""
    if path is None:
        try:
            path, _ = _where(os.getpid())
        except NoGroupsError:
            return
    for group in list(_left(path)):
        group.kill()
        for _ in range(_LOOKS):
            if group.remove():
                break
            time.sleep(_NAP)


def _left(path: str) -> "Iterator[Group]":
    """Find the groups of runs whose guard is gone."""
    with suppress(OSError):
        for name in os.listdir(path):
            guard = name.removeprefix(_RUN).split(".", 2)[:2]
            if name == f"{_RUN}{'.'.join(guard)}" or not name.startswith(_RUN):
                continue
            if all(part.isdecimal() for part in guard):
                pid, start = map(int, guard)
                if not tree.same_process(pid, start):
                    yield Group(f"{path}/{name}")


# -- where we are -----------------------------------------------------------------------


def _where(node: int) -> tuple[str, "list[int] | None"]:
    """Return where groups can be made, and who has to move out of there first; None: nobody."""
    mount, own = _mount(), _own()
    if mount is None or own is None:
        raise NoGroupsError("this host has no cgroup v2")
    here = os.path.normpath(f"{mount}/{own}")
    if os.path.basename(here) == NODES:
        here = os.path.dirname(here)
    why = _why_not(here)
    if why is None and _hands_on(here):
        return here, None
    if why is None:
        strangers = sorted(set(_members(here)).difference(_ours(node)))
        if not strangers:
            return here, _members(here)
        named = ", ".join(map(str, strangers[:3]))
        why = f"the node shares its cgroup {here} with other processes ({named}); {_HINT}"
    above = os.path.dirname(here)
    # As with DelegateSubgroup= of systemd: what is delegated is one further up.
    if len(above) >= len(mount) and _why_not(above) is None and not _members(above):
        return above, None
    raise NoGroupsError(why)


def _mount() -> str | None:
    """Return where cgroup v2 is mounted."""
    for line in (tree.read("/proc/self/mountinfo") or b"").splitlines():
        fields, _, source = line.partition(b" - ")
        if source.startswith(b"cgroup2 "):
            return os.fsdecode(fields.split()[4])
    return None


def of_v1() -> set[str]:
    """Return the controllers that cgroup v1 has on this host, and that we thus can't have."""
    lines = (tree.read("/proc/self/cgroup") or b"").splitlines()
    named = (os.fsdecode(line).split(":", 2)[1] for line in lines)
    return {name for names in named for name in names.split(",")}.intersection(CONTROLLERS)


def _own() -> str | None:
    """Return the group of this process, from the root that it sees."""
    for line in (tree.read("/proc/self/cgroup") or b"").splitlines():
        if line.startswith(b"0::"):
            return os.fsdecode(line[3:])
    return None


def _why_not(path: str) -> str | None:
    """Say why we may make no groups there; None if we may."""
    files = (path, f"{path}/cgroup.procs", f"{path}/cgroup.subtree_control")
    if not all(os.access(file, os.W_OK) for file in files):
        return f"cgroup v2 isn't delegated to the node, which may not write to {path}; {_HINT}"
    # Root may write everywhere, but where systemd keeps the tree, it is its own.
    if os.geteuid() == 0 and os.path.isdir(_SYSTEMD) and not _is_delegated(path):
        return f"systemd hasn't delegated the cgroup of the node, {path}; {_HINT}"
    return None


def _is_delegated(path: str) -> bool:
    for name in _DELEGATED:
        with suppress(OSError):
            if os.getxattr(path, name) == b"1":
                return True
    return False


def _hands_on(path: str) -> bool:
    """Tell whether groups below it can have controllers, though it has processes itself."""
    # Of all groups only the root of the whole tree has no such file.
    if not os.path.exists(f"{path}/cgroup.events"):
        return True
    return bool(_read(f"{path}/cgroup.subtree_control").split()) or not _members(path)


def _ours(node: int) -> set[int]:
    """Return the processes that may be moved: a node, and all that is below it."""
    return {node}.union(process.pid for process in tree.family([node]))


def _members(path: str) -> list[int]:
    return [int(pid) for pid in _read(f"{path}/cgroup.procs").split()]


def _members_of(path: str) -> list[int]:
    """Return what is in a group, which may be gone, and in those inside it."""
    found = []
    for folder, _, _ in os.walk(path):
        with suppress(OSError, ValueError):
            found += _members(folder)
    return found


def _move_all(path: str) -> None:
    """Move all processes of a group into the one for nodes, until none is left."""
    with suppress(FileExistsError):
        os.mkdir(f"{path}/{NODES}")
    while pids := _members(path):
        for pid in pids:
            # It may be gone.
            with suppress(ProcessLookupError):
                _write(f"{path}/{NODES}/cgroup.procs", str(pid))


# -- files ------------------------------------------------------------------------------


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _counts(path: str) -> dict[str, int]:
    """Read a file of names and numbers; nothing, if it isn't there."""
    with suppress(OSError, ValueError):
        lines = (line.split() for line in _read(path).splitlines())
        return {name: int(value) for name, value in lines}
    return {}


def _remove(path: str) -> None:
    """Remove a group with those that a run has made inside its own."""
    for folder, _, _ in os.walk(path, topdown=False):
        os.rmdir(folder)
