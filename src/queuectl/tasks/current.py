"""The job that this code runs for: `current_job()`."""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from threading import Event
from time import monotonic
from typing import Any

from queuectl.errors import StateError

TELL_EVERY = 0.25
"""Seconds between two times that a job says how far it is."""
_current: ContextVar["CurrentJob"] = ContextVar("queuectl_current_job")


class CurrentJob:
    """A job while it runs, as its own code sees it."""

    def __init__(self, message: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        """Take the line that brought it, and where to say what it has to say."""
        self.run: int = message["job"]
        self.seq: int = message.get("seq", 0)
        self.id: str = message["id"]
        self.type: str = message["type"]
        """The name of its task."""
        self.queue: str = message["queue"]
        self.attempt: int = message["attempt"]
        self.keys: tuple[str, ...] = tuple(message.get("keys", ()))
        self.stopped = Event()
        """Set when it should come to an end."""
        self.why = ""
        """Why it should."""
        self.on_stop: Callable[[str], Any] | None = None
        """Called each time that it is asked to; in another thread than its code."""
        self.task: Any = None
        """What it runs, if that is a task."""
        self.began = monotonic()
        self.shown = False
        """Whether what it writes can be followed."""
        self.say = say
        """Where to say what it has to say, as lines of the protocol."""
        self._told_at = 0.0
        self._to_tell: dict[str, Any] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether it should come to an end: it is cancelled, out of time, or its node stops."""
        return self.stopped.is_set()

    @property
    def log(self) -> logging.Logger:
        """A logger; what it writes is in the job's output."""
        return logging.getLogger(self.type)

    def progress(self, part: float, text: str = "") -> None:
        """Say how far it is, from 0 to 1, for whoever waits or looks."""
        if not 0 <= part <= 1:
            raise ValueError(f"progress is from 0 to 1, not {part}")
        self._to_tell = {"progress": self.run, "part": part, "text": text}
        if monotonic() - self._told_at >= TELL_EVERY:
            self.tell_progress()

    def tell_progress(self) -> None:
        """Say what wasn't said yet of how far it is."""
        message, self._to_tell = self._to_tell, None
        if message is not None:
            self._told_at = monotonic()
            self.say(message)

    def stop(self, why: str) -> None:
        """Have it told that it should come to an end; again, if it doesn't."""
        self.why = why
        self.stopped.set()
        if self.on_stop is not None:
            try:
                self.on_stop(why)
            except Exception:
                logging.getLogger("queuectl").exception("kill() of job %s failed", self.id)


def current_job() -> CurrentJob:
    """Return the job that this code runs for; outside of one it is a `StateError`."""
    try:
        return _current.get()
    except LookupError:
        raise StateError("This code doesn't run as a job of queuectl.") from None


def enter(job: CurrentJob) -> None:
    """Let what is called from here on be of this job."""
    _current.set(job)
