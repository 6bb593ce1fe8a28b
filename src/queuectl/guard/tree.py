"""Finding and killing processes: a family by its parents, a stranger by its environment.

A process is named by its pid and its start time together, because a pid alone may pass to
somebody else between the moment it is found and the moment it is signalled. A zombie counts as
gone. On Linux all this comes from /proc; elsewhere psutil answers, as well as it can.
"""

import os
import signal
import time
from contextlib import suppress
from functools import cache

from queuectl import host

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

_EXEC_TAKES = 0.005
"""Seconds after which a process that was turning into another program has done so."""

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


class Proc:
    """A process: its pid and start time, which are its identity, and its process group."""

    __slots__ = ("group", "pid", "start")

    def __init__(self, pid: int, start: int, group: int = 0) -> None:
        self.pid = pid
        self.start = start
        self.group = group

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Proc):
            return NotImplemented
        return self.pid == other.pid and self.start == other.start

    def __hash__(self) -> int:
        return hash((self.pid, self.start))

    def __repr__(self) -> str:
        return f"Proc({self.pid}, {self.start})"


class Stat:
    """What /proc/PID/stat says about one process."""

    __slots__ = ("gone", "group", "parent", "session", "start", "stopped", "waits")

    def __init__(self, raw: bytes) -> None:
        # The name in parentheses may contain anything, so the fields are counted after it.
        fields = raw[raw.rindex(b")") + 2 :].split(None, 20)
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])
        self.stopped = fields[0] in (b"T", b"t")
        # For a disk, or for a child to turn into another program.
        self.waits = fields[0] == b"D"
        # A main thread may end before the others: such a process shows as a zombie, but lives.
        self.gone = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1


@cache
def has_proc() -> bool:
    """Tell whether this system has a Linux-like /proc."""
    return os.path.exists("/proc/self/stat")


@cache
def _has_children_files() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def read(path: str) -> bytes | None:
    """Read a file of /proc whole; None when it, or its process, is gone or closed to us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        chunks = []
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
        return b"".join(chunks)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat(pid: int) -> Stat | None:
    """Look at one process; None when there is none (left)."""
    raw = read(f"/proc/{pid}/stat")
    return Stat(raw) if raw else None


def process_start(pid: int) -> int | None:
    """Return the start time of a process, None when it is gone."""
    if not has_proc():
        return host.process_start(pid)
    found = stat(pid)
    return None if found is None or found.gone else found.start


def same_process(pid: int, start: int) -> bool:
    """Tell whether the process of that pid and start time still runs."""
    return process_start(pid) == start


def cpu_time_of(pid: int) -> float:
    """Return the seconds of CPU time of a process, with those of children that it waited for."""
    raw = read(f"/proc/{pid}/stat")
    if not raw:
        return 0.0
    fields = raw[raw.rindex(b")") + 2 :].split(None, 15)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Return the bytes of memory that a process has for itself alone."""
    fields = (read(f"/proc/{pid}/statm") or b"").split()
    pages = int(fields[1]) - int(fields[2]) if len(fields) > 2 else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def environ(pid: int, name: str) -> str | None:
    """Return a variable of the environment a process was started with, None when unset or unknown.

    A process may overwrite that memory, so None doesn't prove that the variable was never there.
    """
    if not has_proc():
        return _portable_environ(pid).get(name)
    return _variable(read(f"/proc/{pid}/environ") or b"", name)


def _variable(raw: bytes, name: str) -> str | None:
    prefix = os.fsencode(name) + b"="
    for entry in raw.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def family(roots: "Iterable[int]", starts: "Mapping[int, int] | None" = None) -> list[Proc]:
    """Find these processes and all their descendants, parents before children.

    The roots have to be processes that can't be recycled meanwhile (our own children, or their
    start times are in `starts`).
    """
    if not has_proc():
        return _portable_family(roots)
    children_of = _children_finder()
    starts = starts or {}
    found: list[Proc] = []
    todo = [(pid, 0) for pid in roots]
    seen = set()
    for pid, parent in todo:  # It grows while it is walked.
        if pid in seen or (process := stat(pid)) is None:
            continue
        # A child that ended after it was listed may have left its pid to a stranger.
        if parent and process.parent != parent:
            continue
        if starts.get(pid, process.start) != process.start:
            continue
        seen.add(pid)
        if not process.gone:
            found.append(Proc(pid, process.start, process.group))
        todo.extend((child, pid) for child in children_of(pid))
    return found


def children(pid: int) -> list[int]:
    """List the children of one process, zombies too."""
    if not has_proc():
        return [child.pid for child in _portable_children(pid)]
    return _children_finder()(pid)


def _children_finder() -> "Callable[[int], list[int]]":
    if _has_children_files():
        return _listed_children
    by_parent: dict[int, list[int]] = {}
    for pid in _all_pids():
        if (process := stat(pid)) is not None:
            by_parent.setdefault(process.parent, []).append(pid)
    return lambda pid: by_parent.get(pid, [])


def _listed_children(pid: int) -> list[int]:
    """Read the children of each thread; the kernel files a child under the thread that made it."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    lists = (read(f"/proc/{pid}/task/{thread}/children") or b"" for thread in threads)
    return [int(child) for listed in lists for child in listed.split()]


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _others() -> list[int]:
    """List all processes on this host but this one."""
    pids = _all_pids() if has_proc() else _portable_pids()
    return [pid for pid in pids if pid != os.getpid()]


def find(is_wanted: "Callable[[int], bool]") -> list[Proc]:
    """Find every process on this host, but this one, of which this is true."""
    found = []
    for pid in _others():
        start = process_start(pid)
        if start is not None and is_wanted(pid):
            found.append(Proc(pid, start))
    return found


def find_tagged(name: str, values: "Collection[str]") -> list[Proc]:
    """Find every process on this host, but this one, that was started with such a variable."""
    found, blank = _tagged(_others(), name, values)
    if blank:
        # Kernel threads have no environment, nor has a process for the moment in which it turns
        # into another program: look at those again.
        time.sleep(_EXEC_TAKES)
        found += _tagged(blank, name, values)[0]
    return found


def _tagged(
    pids: "Iterable[int]", name: str, values: "Collection[str]"
) -> tuple[list[Proc], list[int]]:
    """Find the tagged ones among these, and those that show no environment at all."""
    found: list[Proc] = []
    blank: list[int] = []
    for pid in pids:
        start = process_start(pid)
        if start is None:
            continue
        if not has_proc():
            tag = environ(pid, name)
        elif raw := read(f"/proc/{pid}/environ"):
            tag = _variable(raw, name)
        else:
            blank.append(pid)
            continue
        if tag in values:
            found.append(Proc(pid, start))
    return found, blank


def send(process: Proc, signum: int) -> bool:
    """Signal exactly this process; False when it is gone, PermissionError when we may not."""
    pid = process.pid
    fd = _open_pidfd(pid)
    try:
        # The descriptor pins the process, so what is checked here is what is signalled below.
        if not same_process(pid, process.start):
            return False
        if fd >= 0:
            signal.pidfd_send_signal(fd, signum)
        else:
            os.kill(pid, signum)
    except ProcessLookupError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1  # An old kernel, another system, or no descriptor to spare.


def terminate(processes: "Iterable[Proc]") -> set[Proc]:
    """Ask processes to end, waking those that are stopped; return those we may not signal.

    Parents come first: a shell that outlives its child by a moment would start its next command.
    """
    refused = set()
    for process in processes:
        try:
            if send(process, signal.SIGTERM):
                send(process, signal.SIGCONT)
        except PermissionError:
            refused.add(process)
    return refused


def freeze_and_kill(
    find: "Callable[[], list[Proc]]", budget: float = 0.05
) -> tuple[set[Proc], set[Proc]]:
    """Kill all that `find` finds; return what was found, and which of it we may not signal.

    All are stopped first, so not even a fork bomb outruns this. It takes no longer than about
    `budget` seconds; call it again until it finds nothing.
    """
    found, refused = freeze(find, budget)
    # Children first: when a parent dies, the kernel may wake the stopped group it leaves behind.
    for process in reversed(found):
        _force(process, signal.SIGKILL, refused)
    return set(found), refused


def freeze(
    find: "Callable[[], list[Proc]]", budget: float = 0.05
) -> tuple[dict[Proc, None], set[Proc]]:
    """Stop all that `find` finds; return what was found, and which of it we may not signal.

    It looks until nothing new is found, for about `budget` seconds: whoever is stopped can't fork.
    """
    until = time.monotonic() + budget
    found: dict[Proc, None] = {}
    refused: set[Proc] = set()
    while fresh := [process for process in find() if process not in found]:
        found.update(dict.fromkeys(fresh))
        _stop(fresh, refused)
        if time.monotonic() > until:
            break
    return found, refused


def thaw(processes: "Collection[Proc]") -> None:
    """Let stopped processes go on, each together with its group, as they were stopped."""
    for group in {process.group for process in processes}:
        signal_group(group, signal.SIGCONT)
    for process in processes:
        _force(process, signal.SIGCONT, set())


def is_stopped(process: Proc) -> bool:
    """Tell whether a process stands still, or is gone; where nobody can tell, it does."""
    if not has_proc():
        return True
    found = stat(process.pid)
    return found is None or found.stopped or found.gone or found.start != process.start


def let_exec(process: Proc) -> None:
    """Let the children of a process go on if it waits for one to turn into another program.

    That is how a shell starts one (vfork): while the child is stopped, the parent can't stop.
    """
    found = stat(process.pid) if has_proc() else None
    if found is not None and found.waits and found.start == process.start:
        for pid in children(process.pid):
            if (start := process_start(pid)) is not None:
                _force(Proc(pid, start), signal.SIGCONT, set())


def _stop(processes: list[Proc], refused: set[Proc]) -> None:
    """Stop processes, each together with its group.

    Those that fork and exit all the time are hard to catch one by one, but they keep their group,
    and the kernel stops a group in one go.
    """
    for group in {process.group for process in processes}:
        stop_group(group)
    for process in processes:
        _force(process, signal.SIGSTOP, refused)


def stop_group(group: int) -> None:
    """Stop all processes of a group, if it isn't our own."""
    signal_group(group, signal.SIGSTOP)


def signal_group(group: int, signum: int) -> None:
    """Signal all processes of a group, if it isn't our own."""
    if group not in (0, os.getpgrp()):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signum)


def kill_at_once(process: Proc) -> None:
    """Send SIGKILL to one process if that is possible."""
    _force(process, signal.SIGKILL, set())


def _force(process: Proc, signum: int, refused: set[Proc]) -> None:
    try:
        send(process, signum)
    except PermissionError:
        refused.add(process)


def kill_descendants(spare: "Collection[int]" = (), within: float = 5.0) -> list[Proc]:
    """Kill and reap all that is below this process; return what didn't go in time.

    Children in `spare` are left alone, with all that is below them.
    """

    def find() -> list[Proc]:
        direct = [pid for pid in children(os.getpid()) if pid not in spare]
        return family(pid for pid in direct if not _reap(pid))

    return kill_until_gone(find, within)


def _reap(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


def kill_until_gone(find: "Callable[[], list[Proc]]", within: float) -> list[Proc]:
    """Kill all that is found, until nothing is; return what didn't go in time."""
    deadline = time.monotonic() + within
    pause = 0.001
    left: set[Proc] = set()
    while True:
        found, _ = freeze_and_kill(find)
        # When its parent went first, one that is still on its way out isn't found again.
        left = found | {process for process in left if same_process(process.pid, process.start)}
        if not left or time.monotonic() > deadline:
            return sorted(left, key=lambda process: process.pid)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def become_subreaper() -> bool:
    """Make descendants that lose their parent children of this process; False: unsupported."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Give this process a short name for `ps` and `top`, where that is possible."""
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> bool:
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def _portable_pids() -> list[int]:
    import psutil

    return psutil.pids()


def _portable_environ(pid: int) -> dict[str, str]:
    import psutil

    try:
        return psutil.Process(pid).environ()
    except psutil.Error:
        return {}


def _portable_children(pid: int, recursive: bool = False) -> list[Proc]:
    import psutil

    try:
        below = psutil.Process(pid).children(recursive=recursive)
    except psutil.Error:
        return []
    return [Proc(child.pid, start) for child in below if (start := process_start(child.pid))]


def _portable_family(roots: "Iterable[int]") -> list[Proc]:
    found = []
    for pid in roots:
        if (start := process_start(pid)) is not None:
            found.append(Proc(pid, start))
        found += _portable_children(pid, recursive=True)
    return found
