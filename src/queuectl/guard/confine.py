"""Starting a run that is kept to bounds: what its process does to itself before it is the command.

A plain run starts by posix_spawn. One with bounds is forked instead, joins its control group, takes
its limits, leaves the network or the right to write behind, becomes another user, and only then
turns into its command. What goes wrong on the way is told through a pipe that exec closes. All that
can be found out before is found out before.
"""

import errno
import os
import resource
import sys
from contextlib import suppress

from queuectl.guard import signals

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from queuectl.guard.cgroups import Group
    from queuectl.guard.plan import Plan

    Environment = dict[bytes, bytes]
    Action = tuple[int, int, int]

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_MS_PRIVATE_ALL = 0x4000 | 0x40000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""System calls that the C library doesn't know everywhere; their numbers are the same on all."""
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_OPEN_TREE_CLONE, _MOVE_FROM_FD = 1, 4
_READ_ONLY = (1).to_bytes(8, sys.byteorder) + bytes(24)
"""Of a `struct mount_attr`, the one attribute that is set."""
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")
"""What can be written where the root is read-only: what nobody keeps anything in."""

_BROKEN = 127
_STEP, _EXEC, _NOTE = b"s", b"x", b"n"


class ConfineError(Exception):
    """A run can't be kept to what was asked, for a reason in words."""


class Account:
    """A user of this host, as whom a run is to run."""

    __slots__ = ("gid", "groups", "home", "name", "shell", "uid")

    def __init__(self, name: str) -> None:
        """Find a user by name or number, or raise `ConfineError`."""
        import pwd

        try:
            found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        except KeyError:
            raise ConfineError(f"user {name}: there is no such user on this host") from None
        self.name, self.home, self.shell = found.pw_name, found.pw_dir, found.pw_shell
        self.uid, self.gid = found.pw_uid, found.pw_gid
        self.groups = os.getgrouplist(self.name, self.gid)

    def variables(self) -> "Environment":
        """Return what says who one is."""
        named = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}
        return {name.encode(): os.fsencode(value) for name, value in named.items()}


class Confined:
    """Starts the process of one run, and keeps it to its bounds; a `spawn` for `Spawner`."""

    __slots__ = ("_account", "_best_effort", "_group", "_plan", "_spool", "noted")

    def __init__(
        self,
        plan: "Plan",
        group: "Group | None",
        account: Account | None,
        spool: str,
        *,
        best_effort: bool,
    ) -> None:
        """Keep to a plan; `spool` is the folder in which the run may leave its result."""
        self._plan = plan
        self._group = group
        self._account = account
        self._spool = spool
        self._best_effort = best_effort
        self.noted: list[str] = []
        """What couldn't be done and was left out, if that is how it was asked for."""

    def spawn(
        self, program: str, argv: "list[str]", env: "Environment", actions: "list[Action]"
    ) -> int:
        """Start a program; raises OSError as exec does, or `ConfineError`."""
        self.noted.clear()
        reader, writer = os.pipe()
        try:
            pid = os.fork()
            if not pid:
                self._become(writer, program, argv, env, actions)
            os.close(writer)
            writer = -1
            said = _read_all(reader)
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        for record in said.split(b"\0")[:-1]:
            kind, text = record[:1], os.fsdecode(record[1:])
            if kind == _NOTE:
                self.noted.append(text)
                continue
            os.waitpid(pid, 0)
            if kind == _EXEC and int(text) == errno.EAGAIN and self._plan.bounds_processes:
                raise ConfineError("nproc: its user has as many processes already")
            if kind == _EXEC:
                raise OSError(int(text), os.strerror(int(text)), program)
            raise ConfineError(text)
        return pid

    # -- in the new process -------------------------------------------------------------

    def _become(
        self,
        writer: int,
        program: str,
        argv: "list[str]",
        env: "Environment",
        actions: "list[Action]",
    ) -> "NoReturn":
        """Turn into the program, or say why not; nothing else of the guard may run here."""
        try:
            os.setsid()
            self._confine(writer)
            for _, fd, target in actions:
                os.dup2(fd, target)
            signals.reset()
            os.execve(program, argv, env)
        except ConfineError as error:
            _say(writer, _STEP, str(error))
        except OSError as error:
            _say(writer, _EXEC, str(error.errno))
        except (AttributeError, ImportError, TypeError, ValueError) as error:
            _say(writer, _STEP, f"{type(error).__name__}: {error}")
        finally:
            os._exit(_BROKEN)

    def _confine(self, writer: int) -> None:
        plan, account = self._plan, self._account
        for what, step in (
            ("its control group", self._join),
            (f"nice {plan.nice}", self._be_nice),
            (self._told_apart(), self._live_apart),
            ("limits", self._take_limits),
            (f"user {account.name if account else ''}", self._become_user),
        ):
            try:
                step()
            except OSError as error:
                text = f"{what}: {(error.strerror or str(error)).lower()}"
                if not self._best_effort or step == self._become_user:
                    raise ConfineError(text) from error
                _say(writer, _NOTE, text)

    def _join(self) -> None:
        if self._group is not None:
            self._group.take_me_in()

    def _be_nice(self) -> None:
        if self._plan.nice is not None:
            os.setpriority(os.PRIO_PROCESS, 0, self._plan.nice)

    def _told_apart(self) -> str:
        plan = self._plan
        wanted = {"no_network": plan.no_network, "read_only_root": plan.read_only_root}
        return " and ".join(name for name, is_wanted in wanted.items() if is_wanted)

    def _live_apart(self) -> None:
        """Leave the network, or the right to write; one step, as the host must not be changed."""
        flags = _CLONE_NEWNET if self._plan.no_network else 0
        flags |= _CLONE_NEWNS if self._plan.read_only_root else 0
        if flags:
            enter_namespaces(flags)
        if self._plan.no_network:
            raise_loopback()
        if self._plan.read_only_root:
            give_up_writing((*_WRITABLE, self._spool))

    def _take_limits(self) -> None:
        for which, soft, hard in self._plan.limits:
            most = resource.getrlimit(which)[1]
            if most != resource.RLIM_INFINITY and os.geteuid() != 0:
                soft, hard = min(soft, most), min(hard, most)
            resource.setrlimit(which, (soft, hard))

    def _become_user(self) -> None:
        account = self._account
        if account is not None:
            os.setgroups(account.groups)
            os.setresgid(account.gid, account.gid, account.gid)
            os.setresuid(account.uid, account.uid, account.uid)


def enter_namespaces(flags: int) -> None:
    """Give this process namespaces of its own; who isn't root needs one of users for that."""
    libc = _libc()
    if os.geteuid() == 0:
        _check(libc.unshare(flags))
        return
    uid, gid = os.geteuid(), os.getegid()
    _check(libc.unshare(flags | _CLONE_NEWUSER))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def raise_loopback() -> None:
    """Let programs talk to each other at 127.0.0.1 in a network that has nothing else."""
    import fcntl
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = b"lo".ljust(16, b"\0")
        flags = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, name + bytes(24))[16:18]
        up = (int.from_bytes(flags, sys.byteorder) | _IFF_UP).to_bytes(2, sys.byteorder)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, name + up + bytes(22))


def give_up_writing(spared: "Sequence[str]") -> None:
    """Make all that is mounted read-only for this process, but for these folders."""
    libc = _libc()
    cwd = os.getcwd()
    _check(libc.mount(b"none", b"/", None, _MS_PRIVATE_ALL, None))
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    kept = []
    for path in filter(os.path.isdir, spared):
        raw = os.fsencode(os.path.realpath(path))
        kept.append((raw, _check(libc.syscall(_OPEN_TREE, _AT_FDCWD, raw, flags))))
    attributes = _READ_ONLY, len(_READ_ONLY)
    _check(libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, *attributes))
    for raw, fd in kept:
        _check(libc.syscall(_MOVE_MOUNT, fd, b"", _AT_FDCWD, raw, _MOVE_FROM_FD))
        os.close(fd)
    # What we are in is what lay there before.
    os.chdir(cwd)


def can(step: "Callable[[], None]") -> str | None:
    """Try something in a process of its own; return why it can't be done, None if it can."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            step()
        except OSError as error:
            os.write(writer, (error.strerror or str(error)).lower().encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = _read_all(reader)
    os.close(reader)
    os.waitpid(pid, 0)
    return said.decode() or None


def try_no_network() -> None:
    """Leave the network behind, as a run would."""
    enter_namespaces(_CLONE_NEWNET)
    raise_loopback()


def try_read_only_root() -> None:
    """Give up writing, as a run would."""
    enter_namespaces(_CLONE_NEWNS)
    give_up_writing(_WRITABLE)


def _libc() -> "ctypes.CDLL":
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    """Raise what a call of the C library says by a negative result."""
    if result < 0:
        import ctypes

        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    said = b""
    while chunk := os.read(fd, 4096):
        said += chunk
    return said


def _say(writer: int, kind: bytes, text: str) -> None:
    with suppress(OSError):
        os.write(writer, kind + text.replace("\0", " ").encode("utf-8", "replace") + b"\0")
