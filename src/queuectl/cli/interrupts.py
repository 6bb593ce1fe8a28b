"""What Ctrl+C does to a command: it ends at once with 130, and never hides what was stored.

Python's own way, a KeyboardInterrupt at any moment, ends in a traceback while modules are being
imported and while Python exits, and between a commit and the line that tells of it, it leaves a
job that nobody was told of. So a signal is answered by what the command is doing:

    nearly always    the process ends, without a word: a store survives that at any moment
    `truthful`       from just before a commit until what was stored is said, the signal waits
    `raised`         it is a KeyboardInterrupt, for those who have something to clear up or to say

All of it ends with 130. Signals that are ignored, as in the background of a shell, stay so, and
where somebody else's program calls the commands, nothing changes.
"""

# What `signal` is made of, without the half of the standard library that it imports.
import _signal as signal  # type: ignore[import-not-found]
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from queuectl.cli.outlet import outlet
from queuectl.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from queuectl.queue import Queue

SAME = 0.5
"""Seconds in which a second signal is one with the first: timeout(1) sends each of them twice."""
IN_DOUBT = b"queuectl: Interrupted before it was known what came of it; look before you go on.\n"


class _Interrupts:
    """How this process answers SIGINT."""

    def __init__(self) -> None:
        self.answer: Callable[[], None] = self.end
        self.came: float | None = None
        """When a signal came that still waits for its answer."""

    def heard(self, _number: int, _frame: object) -> None:
        """Answer a signal. This is the signal handler."""
        self.answer()

    def end(self) -> None:
        """End the process now. Nothing is unwound, so nothing can come of that."""
        if os.isatty(2):
            os.write(2, b"\n")  # the terminal has just shown ^C
        os._exit(EXIT_INTERRUPTED)

    def note(self) -> None:
        """Let the signal wait; a second one shows that somebody can't."""
        now = monotonic()
        if self.came is None:
            self.came = now
        elif now - self.came > SAME:
            os.write(2, IN_DOUBT)
            os._exit(EXIT_INTERRUPTED)

    def throw(self) -> None:
        """Raise a KeyboardInterrupt, once."""
        self.answer = self.end
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise a KeyboardInterrupt if a signal has waited."""
        if self.came is not None:
            self.came = None
            raise KeyboardInterrupt

    def let_go(self) -> None:
        """Let signals end the process again, or raise a KeyboardInterrupt if one has waited."""
        outlet.flush()
        self.answer = self.end
        self.check()


_interrupts = _Interrupts()


def catch_interrupts() -> None:
    """Answer SIGINT as told above from now on."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupts.heard)


def ignore_interrupts() -> None:
    """Let no signal change how the command ends any more: all is done and said."""
    if signal.getsignal(signal.SIGINT) == _interrupts.heard:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Truth:
    """What a block that holds signals calls between two changes: one that has waited is raised."""

    def said(self) -> None:
        """Tell that all that was stored so far is said, so that signals needn't wait."""
        _interrupts.let_go()

    def check(self) -> None:
        """Tell that this is a good moment to end, with what was stored still to be said."""
        _interrupts.check()


@contextmanager
def truthful(queue: "Queue", *, patient: bool = True) -> Iterator[Truth]:
    """Let signals wait from just before each commit until what was stored is said.

    At the end of the block it is; a signal that has waited is a KeyboardInterrupt then. If
    stdout is lost, the block goes on when it is `patient`, and stderr says what it has done.
    """
    queue.before_commit = _hold
    try:
        yield from _until_said(patient)
    finally:
        queue.before_commit = None


@contextmanager
def held() -> Iterator[Truth]:
    """Let signals wait until the end of the block, and be a KeyboardInterrupt then."""
    _hold()
    yield from _until_said(patient=True)


def _until_said(patient: bool) -> Iterator[Truth]:
    outlet.is_patient = patient
    try:
        yield Truth()
        outlet.end()
    except BaseException:
        # Which says already why the command ends.
        _interrupts.answer, _interrupts.came = _interrupts.end, None
        if outlet.lost is not None:
            from queuectl.cli.render import complain

            complain(f"{outlet.done()}, but stdout can't be written: {outlet.lost.strerror}.")
        raise
    finally:
        outlet.is_patient = False
    _interrupts.let_go()


def _hold() -> None:
    if _interrupts.answer == _interrupts.end:
        _interrupts.answer = _interrupts.note


@contextmanager
def raised() -> Iterator[None]:
    """Make a KeyboardInterrupt of a signal inside the block, and of one that has waited."""
    outlet.end()
    before, _interrupts.answer = _interrupts.answer, _interrupts.throw
    patient, outlet.is_patient = outlet.is_patient, False
    try:
        _interrupts.check()
        yield
    finally:
        _interrupts.answer = before
        outlet.is_patient = patient


@contextmanager
def abrupt() -> Iterator[None]:
    """Let a signal end the process even amid one long call into a database.

    Python can't answer it there; so it kills the process, which is 130 to a shell as well.
    """
    before = signal.getsignal(signal.SIGINT)
    if before == _interrupts.heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
