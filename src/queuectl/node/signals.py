"""Signals to a node: what each means, and how they wake its loop, as its own threads do."""

import signal
import socket
from collections.abc import Mapping
from enum import Enum

from queuectl.guard.signals import harmless, hold, let_through
from queuectl.host import has_terminal

STOPS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
"""What ends a process that holds no runs, at any time."""


class Order(Enum):
    """What a signal means to a node."""

    STOP = "finish what runs and exit; the second time release it, the third time exit at once"
    RELEASE = "release what runs and exit"
    RESTART = "start again, with what runs"
    RESTART_NOW = "release what runs and start again"
    REOPEN = "open the log files anew"
    SUSPEND = "nothing: a node that stands still loses its runs"


def orders(*, background: bool) -> dict[signal.Signals, Order]:
    """Return what each signal means to a node that has, or hasn't, gone to the background."""
    meant = {
        signal.SIGTERM: Order.STOP,
        signal.SIGINT: Order.STOP,
        signal.SIGQUIT: Order.RELEASE,
        signal.SIGUSR1: Order.RESTART,
        signal.SIGUSR2: Order.REOPEN,
        signal.SIGTSTP: Order.SUSPEND,
    }
    if background:
        meant[signal.SIGHUP] = Order.RESTART_NOW
    elif signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        # A terminal that closes sends it; to who has none, somebody must mean it. Under nohup it
        # stays ignored.
        meant[signal.SIGHUP] = Order.STOP if has_terminal() else Order.RESTART_NOW
    return meant


def outlive_orders() -> None:
    """Ignore the signals that are orders to a running node, as long as this one only starts."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    # The program before us in this process may have held these back. There is nothing to lose yet.
    let_through(STOPS)


class Interrupts:
    """Collects signals; its descriptor becomes readable when there is something to look at."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)
        self._signals: list[int] = []
        self._meant: Mapping[signal.Signals, Order] = {}

    def catch(self, meant: Mapping[signal.Signals, Order]) -> None:
        """Catch these signals from now on, and ignore what means nothing. Only the main thread can.

        Those that were held back come now.
        """
        self._meant = meant
        signal.set_wakeup_fd(self._in.fileno(), warn_on_full_buffer=False)
        for number in meant:
            signal.signal(number, lambda number, _frame: self._signals.append(number))
        for useless in harmless() - meant.keys():
            signal.signal(useless, signal.SIG_IGN)
        let_through(harmless())

    def ignore(self) -> None:
        """Let the signals that were caught go unheard from now on, also while Python ends."""
        for number in self._meant:
            signal.signal(number, signal.SIG_IGN)

    def hold(self) -> bool:
        """Keep signals back for whoever comes next; False, and nothing is kept, if one is here."""
        hold(harmless())
        if self._signals:
            let_through(harmless())
            return False
        return True

    def go_on(self) -> None:
        """Let signals come again, after `hold`."""
        let_through(harmless())

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._out.fileno()

    def rouse(self) -> None:
        """Interrupt the sleep from another thread."""
        try:
            self._in.send(b"\0")
        except BlockingIOError:
            # It is full of wake-ups that nobody has read yet: one more changes nothing.
            return

    def take(self) -> dict[Order, str]:
        """Return the orders that came since the last call, each with its signal, and be quiet.

        Signals of one meaning that come before the last one was acted on are one: `timeout` and its
        like send each to the process and then to its group, which must not count as asking twice.
        """
        try:
            while self._out.recv(4096):
                continue
        except BlockingIOError:
            pass
        taken: dict[Order, str] = {}
        while self._signals:
            number = signal.Signals(self._signals.pop(0))
            taken.setdefault(self._meant[number], number.name)
        return taken
