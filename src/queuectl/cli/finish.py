"""How a job ended, for those who wait for it: in a sentence, and as an exit code."""

import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

import click

from queuectl.cli.render import is_terminal, say
from queuectl.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED
from queuectl.job import WAITING, Job, State
from queuectl.queue import Queue
from queuectl.when import format_duration

EXIT_TIMED_OUT = 124
"""As timeout(1) has it: the job was killed at its timeout, or we waited as long as we may."""

FIRST_SIGNAL = 128

PATIENCE = 1.0
"""Seconds after which we say why nothing happens."""

LOOKED_AT = 100
"""Of very many jobs, so many are looked at to find the queues they wait in."""


def exit_code_of(queue: Queue, job: Job) -> int:
    """Return the exit code that stands for how a finished job ended.

    That is its command's own; 128 + n when signal n killed it; 124 when it ran into its timeout;
    1 when it was cancelled or never started.
    """
    if job.state == State.COMPLETED:
        return EXIT_DONE
    if job.state == State.CANCELLED:
        return EXIT_FAILED
    runs = queue.store.attempts(job)
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


def describe_end(job: Job) -> str:
    """Say how a finished job ended, such as `Job x completed in 12ms`."""
    if job.state == State.COMPLETED:
        took = "" if job.duration_ms is None else f" in {format_duration(job.duration_ms)}"
        return f"Job {job.id} completed{took}."
    why = job.reason or job.error
    return f"Job {job.id} is {job.state}" + (f": {why.rstrip('.')}." if why else ".")


class Hint:
    """Says once, after a moment, why nothing may happen. Call it again and again."""

    def __init__(
        self, queue: Queue, waiting: Callable[[], Collection[str]], *, talk: bool = True
    ) -> None:
        """Take who can say which queues the jobs wait in that haven't been started yet."""
        self._queue = queue
        self._waiting = waiting
        self._due = monotonic() + PATIENCE if talk else float("inf")

    def __call__(self) -> None:
        """Say it, if it is time."""
        if monotonic() >= self._due:
            self._due = float("inf")
            if (text := _hindrance(self._queue, self._waiting())) is not None:
                say(text)


@contextmanager
def still_going(text: str) -> Iterator[None]:
    """Tell somebody who presses Ctrl+C that only the watching has ended."""
    try:
        yield
    except KeyboardInterrupt:
        if not is_terminal(sys.stderr):
            raise
        print(file=sys.stderr)  # the terminal has just shown ^C
        say(text)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def waiting_queues(queue: Queue, ids: Sequence[str]) -> set[str]:
    """Return the queues in which these jobs, or the first of them, wait."""
    jobs = (queue.store.get(id) for id in ids[:LOOKED_AT])
    return {job.queue for job in jobs if job is not None and job.state in WAITING}


def _hindrance(queue: Queue, waiting: Collection[str]) -> str | None:
    """Say why nothing may happen: nobody works, or not on these queues; None when all is well."""
    status = queue.status()
    alive = [node for node in status.nodes if node["alive"]]
    if not alive:
        return "No worker is running; start one with: queuectl worker start"
    if paused := [name for name in status.paused if name in waiting]:
        return f"Paused: {', '.join(paused)}; go on with: queuectl resume {shlex.join(paused)}"
    unserved = sorted(
        name
        for name in waiting
        if all(node["queues"] and name not in node["queues"] for node in alive)
    )
    if unserved:
        options = " ".join(f"--queue {shlex.quote(name)}" for name in unserved)
        names = ", ".join(unserved)
        return f"No worker serves {names}; start one with: queuectl worker start {options}"
    return None
