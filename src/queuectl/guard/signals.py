"""Signals: what a node and its guards outlive, how ended children are heard of, what jobs get."""

import os
import signal
from functools import cache

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Collection

_FAULTS = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
"""What a broken program gets; to go on after that would be worse."""
_LEFT = ("SIGKILL", "SIGSTOP", "SIGCHLD", "SIGCONT")
"""What can't be caught, or does a process no harm."""
_SET_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores, so that a write fails instead."""

_SIGSET = 1024
"""Bytes: more than any system has in a set of signals."""


@cache
def harmless() -> frozenset[int]:
    """Return the signals that end or stop a process which is neither broken nor to be killed.

    People and programs send them for many reasons. None of these is one to lose runs.
    """
    kept = {getattr(signal, name, None) for name in (*_FAULTS, *_LEFT)}
    return frozenset(signal.valid_signals() - kept)


def hold(signals: "Collection[int]") -> None:
    """Keep these back until `let_through`, also from what this thread starts or becomes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def let_through(signals: "Collection[int]") -> None:
    """Let these come, with those that came meanwhile."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def ignore() -> None:
    """Hold back all signals that would end the guard: it ends when its node does, and not before.

    They are held back, not ignored: what is ignored would have to be undone for each job.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, harmless())
    for signum in harmless().difference(_SET_BY_PYTHON):
        signal.signal(signum, signal.SIG_DFL)
    # Of children that end unheeded, as whoever started us may have wanted it, we would never know.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def wake_on_child() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    fd = _descriptor_of(signal.SIGCHLD)
    if fd >= 0:
        return fd
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
    return reader


def _descriptor_of(signum: int) -> int:
    """Have a signal come through a descriptor: nothing is interrupted then. -1: not on this system.

    Linux has it.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    one = ctypes.create_string_buffer(_SIGSET)
    try:
        libc.sigemptyset(one)
        libc.sigaddset(one, int(signum))
        fd: int = libc.signalfd(-1, one, os.O_NONBLOCK | os.O_CLOEXEC)
    except AttributeError:
        return -1
    if fd >= 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signum})
    return fd


@cache
def to_reset() -> tuple[int, ...]:
    """List what a job must not inherit: what is ignored stays so across exec."""
    return tuple(s for s in signal.valid_signals() if signal.getsignal(s) != signal.SIG_DFL)


def reset() -> None:
    """Give a forked child what every job gets: all signals do what they do by default."""
    for signum in to_reset():
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
