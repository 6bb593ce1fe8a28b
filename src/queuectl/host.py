"""This host and its processes: who is asking, and whether a process that once was still is.

A pid says nothing by itself: it is recycled, it means something else after a reboot or in
another pid namespace. So a process is named by host identity, pid and start time together.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from contextvars import ContextVar

_other: "dict[str, ContextVar[str | None]]" = {}
"""For whom something is done. Made when it is first needed: most programs act for nobody else."""


@cache
def host_name() -> str:
    """Return the name of this host."""
    return os.uname().nodename


@cache
def host_identity() -> str:
    """Return what must be equal for pids to be comparable: this boot, in this pid namespace."""
    return f"{_boot()}/{_pid_namespace()}"


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        import psutil

        return f"{host_name()}-{int(psutil.boot_time())}"


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "host"


def stat_fields(pid: int | str) -> list[bytes]:
    """Return what /proc says of a process behind its name, which may contain anything."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def process_start(pid: int) -> int | None:
    """Return when a process started, in ticks that only compare for equality; None if it's gone.

    A zombie is gone: it runs nothing, and only waits for its parent to notice.
    """
    try:
        fields = stat_fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None if os.path.isdir("/proc/self") else _portable_start(pid)
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _portable_start(pid: int) -> int | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return int(process.create_time() * 1000)
    except psutil.NoSuchProcess:
        return None


def is_running(pid: int, start: int) -> bool:
    """Tell whether the process that had this pid and start time still runs, or may run unseen."""
    try:
        found = process_start(pid)
    except PermissionError:
        return True
    return found == start or (found is None and _is_hidden(pid))


def _is_hidden(pid: int) -> bool:
    """Tell whether somebody else has such a process, and /proc doesn't show it (`hidepid`)."""
    if pid <= 0 or os.path.exists(f"/proc/{pid}"):
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        pass
    return False


def catches(pid: int, signum: int) -> bool:
    """Tell whether a process does something of its own with a signal; where nobody can see, yes."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = next(line for line in file if line.startswith(b"SigCgt:"))
    except (OSError, StopIteration):
        return not os.path.isdir("/proc/self")
    return bool(int(caught.split()[1], 16) >> (signum - 1) & 1)


def belongs_to_terminal(pid: int) -> bool:
    """Tell whether a process belongs to a terminal, as far as anybody can see."""
    try:
        return int(stat_fields(pid)[4]) != 0
    except OSError:
        return False


def has_terminal() -> bool:
    """Tell whether this process belongs to a terminal, which ends it when it closes."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def whoami() -> str:
    """Return `user@host`, for the record of things done by hand.

    Inside of `acting_as` it is preceded by who that is done for: `name via user@host`.
    """
    name = _other["name"].get() if _other else None
    return _user() if name is None else f"{name} via {_user()}"


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Let what is done inside be on record as done for somebody else.

    It holds for this thread, or this task of asyncio, and what these start with a copy of their
    context.
    """
    if not _other:
        from contextvars import ContextVar

        # Of two threads that come at once, both get the one that is kept.
        _other.setdefault("name", ContextVar("name", default=None))
    before = _other["name"].set(name)
    try:
        yield
    finally:
        _other["name"].reset(before)


@cache
def _user() -> str:
    user = os.environ.get("SUDO_USER") or os.environ.get("USER") or os.environ.get("LOGNAME")
    if not user:
        import pwd

        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            user = str(os.getuid())
    return f"{user}@{host_name()}"


def local_zone() -> str:
    """Return the name of the time zone of this host; UTC, where nothing says it."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        with suppress(OSError):
            name = os.path.realpath("/etc/localtime")
    if name.startswith("/"):
        name = name.partition("/zoneinfo/")[2]
    return "UTC" if name in ("", "Etc/UTC") else name
