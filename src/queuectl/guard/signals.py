"""Signals in a guard: which ones it ignores, how it hears of ended children, what jobs get."""

import os
import signal
from functools import cache

IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGIO,
)
"""What the guard ignores: it ends when its node does, not when a terminal or a user says so."""

_SIGSET = 1024
"""Bytes: more than any system has in a set of signals."""


def ignore() -> None:
    """Ignore these, and block none."""
    for signum in IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    # Of children that end unheeded, as whoever started us may have wanted it, we would never know.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


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
