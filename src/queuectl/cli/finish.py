"""How a job ended, for those who wait for it: in a sentence, and as an exit code."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

from queuectl.cli.interrupts import raised
from queuectl.cli.notes import sentence
from queuectl.cli.render import is_terminal, safe, say, shorten
from queuectl.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED
from queuectl.job import Job, State
from queuectl.queue import Queue
from queuectl.report import why_ended
from queuectl.titles import titled
from queuectl.waiting import IN_VAIN, LOOK_AGAIN, unless_stuck
from queuectl.when import human

if TYPE_CHECKING:
    from queuectl.explain import Reason

EXIT_TIMED_OUT = 124
"""As timeout(1) has it: the job was killed at its timeout, or we waited as long as we may."""

FIRST_SIGNAL = 128

PATIENCE = 1.0
"""Seconds after which we say why nothing happens."""

LONG = 10_000
"""Milliseconds that a wait must take at least for us to say until when it is."""

LONGEST_COMMAND = 40
"""Cells that a command takes at most where a job is one of many."""


def exit_code_of(queue: Queue, job: Job) -> int:
    """Return the exit code that stands for how a finished job ended.

    That is its command's own; 128 + n when signal n killed it; 124 when it ran into its timeout;
    1 when it was cancelled or never started.
    """
    if job.state == State.COMPLETED:
        return EXIT_DONE
    if job.state == State.CANCELLED:
        return EXIT_FAILED
    runs = queue.attempts(job)
    last = runs[-1] if runs else None
    if last is None:
        return EXIT_FAILED
    if last.outcome == "timed out":
        return EXIT_TIMED_OUT
    if last.outcome == "signalled" and last.signal:
        return FIRST_SIGNAL + last.signal
    if last.outcome == "exited" and last.exit_code:
        return last.exit_code & 0xFF
    return EXIT_FAILED


def ended_label(job: Job) -> str:
    """Name the time at which a job, or its last run, ended."""
    return "Completed" if job.state == State.COMPLETED else "Finished"


def describe_end(job: Job, *, among_others: bool = False) -> str:
    """Say how a finished job ended, such as `Job x completed in 12ms`.

    Among others, it is also known by its command, and what it has to itself.
    """
    name = f"{job.id} ({shorten(safe(titled(job)), LONGEST_COMMAND)})" if among_others else job.id
    if job.state == State.COMPLETED:
        took = "" if job.duration_ms is None else f" in {human(job.duration_ms)}"
        return f"Job {name} completed{took}."
    why = why_ended(job)
    return f"Job {name} is {job.state}" + (f": {why.rstrip('.')}." if why else ".")


class Hint:
    """Says, after a moment, why nothing may happen. Call it again and again.

    That is said once; but if what is waited for comes to wait in vain, that is said as well.
    """

    def __init__(
        self, queue: Queue, why: "Callable[[], Sequence[Reason]]", *, talk: bool = True
    ) -> None:
        """Take who can say why those wait that haven't been started yet."""
        self._queue = queue
        self._why = why
        self._due = monotonic() + PATIENCE if talk else float("inf")
        self._is_first = True
        self._said: set[str] = set()

    def __call__(self) -> None:
        """Say it, if it is time."""
        if monotonic() >= self._due:
            self._due = monotonic() + LOOK_AGAIN
            now = self._queue.now()
            for reason in self._why():
                if self._is_news(reason) and _is_worth_a_word(reason, now):
                    self._said.add(reason.text)
                    say(sentence(reason))
            self._is_first = False

    def or_stuck(self, is_stuck: Callable[[], bool]) -> Callable[[int], None]:
        """Return a tick that says it, and raises `StuckError` once all that is left is in vain.

        Why that is so has been said then, whoever else hears of nothing.
        """

        def why() -> "Sequence[Reason]":
            reasons = self._why()
            for reason in reasons:
                if reason.cause in IN_VAIN and reason.text not in self._said:
                    say(sentence(reason))
            return ()

        return unless_stuck(is_stuck, why)

    def _is_news(self, reason: "Reason") -> bool:
        return self._is_first or (reason.cause in IN_VAIN and reason.text not in self._said)


@contextmanager
def still_going(text: str, *, always: bool = False) -> Iterator[None]:
    """Tell somebody who presses Ctrl+C that only the watching has ended.

    That is for terminals, unless `always`: what nobody has been told yet must be told anyway.
    """
    try:
        with raised():
            yield
    except KeyboardInterrupt:
        if is_terminal(sys.stderr):
            print(file=sys.stderr)  # the terminal has just shown ^C
        elif not always:
            raise
        say(text)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def _is_worth_a_word(reason: "Reason", now: int) -> bool:
    if reason.ends_at is not None:
        return reason.ends_at - now >= LONG
    if reason.cause == "its_turn":
        return False
    # That others are first is nothing that a script's log should be told.
    return reason.cause != "busy" or is_terminal(sys.stderr)
