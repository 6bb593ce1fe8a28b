"""What interrupts a sleeping node: signals, and threads of its own that have something to say."""

import signal
import socket


def die_of_interrupts() -> None:
    """Let Ctrl+C end the process at once, as SIGTERM does, until somebody catches it.

    While modules are imported Python's own way, a KeyboardInterrupt, can come up where it is
    reported and dropped; the node would start all the same.
    """
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class Interrupts:
    """Collects signals; its descriptor becomes readable when there is something to look at."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)
        self._signals: list[int] = []
        self._caught: tuple[signal.Signals, ...] = ()

    def catch(self, *numbers: signal.Signals) -> None:
        """Catch these signals from now on. Only the main thread can."""
        self._caught = numbers
        signal.set_wakeup_fd(self._in.fileno(), warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda number, _frame: self._signals.append(number))

    def ignore(self) -> None:
        """Let the signals that were caught go unheard from now on, also while Python ends."""
        for number in self._caught:
            signal.signal(number, signal.SIG_IGN)

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

    def take(self) -> str | None:
        """Return the name of the signal that came since the last call, and be quiet again.

        Signals that come before the last one was acted on are one with it: `timeout` and its like
        send each to the process and then to its group, which must not count as asking twice.
        """
        try:
            while self._out.recv(4096):
                continue
        except BlockingIOError:
            pass
        if not self._signals:
            return None
        number = self._signals[0]
        self._signals.clear()
        return signal.Signals(number).name
