"""The job that this code runs for: `current_job()`."""

import logging
from asyncio import to_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

from queuectl.errors import StateError
from queuectl.job import State
from queuectl.store.contract import RunId
from queuectl.tasks import steps
from queuectl.tasks.outcomes import Asleep
from queuectl.tasks.steps import Keeper, Steps
from queuectl.values import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from queuectl.awaiting import Duration

TELL_EVERY = 0.25
"""Seconds between two times that a job says how far it is."""
_current: ContextVar["CurrentJob"] = ContextVar("queuectl_current_job")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentJob:
    """A job that the current one has waited for."""

    id: str
    state: State | None
    """Where it stands; of one that is gone, how it ended."""
    result: Any
    """What it came to; None if it set no result, or is gone."""


class CurrentJob:
    """A job while it runs, as its own code sees it."""

    def __init__(
        self, message: dict[str, Any], say: Callable[[dict[str, Any]], None], node: str = ""
    ) -> None:
        """Take the line that brought it, where to say what it has to say, and who runs it."""
        self.run: int = message["job"]
        self.seq: int = message.get("seq", 0)
        self.id: str = message["id"]
        self.type: str = message["type"]
        """The name of its task."""
        self.queue: str = message["queue"]
        self.attempt: int = message["attempt"]
        self.keys: tuple[str, ...] = tuple(message.get("keys", ()))
        self.parameters: dict[str, str | int] = message.get("parameters", {})
        """What it has to itself of an array or a sweep, by names."""
        self.group: str | None = message.get("group")
        """The group that it is in, or else the only one that it has waited for."""
        self.schedule: str | None = message.get("schedule")
        """The schedule that made it, if one did."""
        self.given: dict[str, str] = message.get("given", {})
        """What it has of its node for itself, as variables: such as `CUDA_VISIBLE_DEVICES`."""
        self._scheduled_for: str | None = message.get("scheduled_for")
        self.traceparent: str | None = message.get("traceparent")
        self.tracestate: str | None = message.get("tracestate")
        """The trace that it is a part of, as W3C has it."""
        self.cancelled = False
        """Whether it should come to an end: it is cancelled, out of time, or its node stops."""
        self.why = ""
        """Why it should."""
        self.falls_asleep: Asleep | None = None
        """That it sleeps from now on, so that this run is over."""
        self.on_stop: Callable[[str], Any] | None = None
        """Called each time that it is asked to; in another thread than its code."""
        self.began = monotonic()
        self.shown = False
        """Whether what it writes can be followed."""
        self.say = say
        """Where to say what it has to say, as lines of the protocol."""
        self._told_at = 0.0
        self._to_tell: dict[str, Any] | None = None
        self._node = node
        self._queue: Keeper | None = None

    def belongs_to(self, queue: Keeper) -> None:
        """Be told which queue of the application it is a job of."""
        self._queue = queue

    @property
    def scheduled_for(self) -> "datetime | None":
        """When the tick that made it was planned, if a schedule did."""
        from datetime import datetime

        at = self._scheduled_for
        return None if at is None else datetime.fromisoformat(at)

    @property
    def stopped(self) -> Event:
        """The same as an event, to wait with."""
        # Few want one. Whoever makes it sees that the job is cancelled, or is seen by `stop`.
        event: Event = self.__dict__.setdefault("_stopped", Event())
        if self.cancelled:
            event.set()
        return event

    @property
    def log(self) -> logging.Logger:
        """A logger; what it writes is in the job's output."""
        return logging.getLogger(self.type)

    def progress(self, part: float, text: str = "") -> None:
        """Say how far it is, from 0 to 1, for whoever waits or looks."""
        if not 0 <= part <= 1:
            # That must not be what a job fails of.
            self.log.warning("progress is from 0 to 1, not %s", part)
            part = 0.0 if part < 0 else 1.0
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
        self.cancelled = True
        if (event := self.__dict__.get("_stopped")) is not None:
            event.set()
        if self.on_stop is not None:
            try:
                self.on_stop(why)
            except Exception:
                logging.getLogger("queuectl").exception("kill() of job %s failed", self.id)

    @property
    def parents(self) -> "list[ParentJob]":
        """The jobs that it has waited for, as they were named, with what they came to."""
        queue = self._its_queue
        found = queue.parents(self.id)
        results = queue.results([one.job for one in found if one.job is not None])
        return [
            ParentJob(
                id=one.id,
                state=one.state or one.came_to,
                result=None if one.job is None else results.get(one.job.seq),
            )
            for one in found
            if not one.is_group
        ]

    # -- steps --------------------------------------------------------------------------

    @property
    def step(self) -> Steps:
        """Does a part of it once, however often it runs: it is called with a name, and a function.

        What the function returns is stored, and returned again in later runs, without a call. With
        an async one, that is to be awaited. As a decorator it makes a step of the function, under
        its name. A run that has lost its lease ends there.
        """
        return Steps(self._its_queue, self.id_of_run)

    @contextmanager
    def step_in(self, connection: Any) -> Iterator[Steps]:
        """Do steps that are done if and only if a transaction of yours is committed.

        It returns what is called as `step` is. The connection is one to the queue's own database,
        as with `Queue.enqueue`; commit soon after.
        """
        yield Steps(self._its_queue, self.id_of_run, connection)

    def sleep(self, length: "Duration", *, name: str | None = None) -> None:
        """Give the worker back, and go on after a duration, or at a time such as tomorrow 9am.

        The run ends here, by an exception that mustn't be caught. The next one skips what is done
        of its steps, comes by here, and goes on.
        """
        with self._falling_asleep():
            steps.sleep(self._its_queue, self.id_of_run, length, name)

    def wait_for(
        self, awaited: str, *, timeout: "Duration | None" = None, name: str | None = None
    ) -> Any:
        """Give the worker back until something is emitted, and return that.

        What was emitted before counts. When it wasn't in time, it is a `TimeoutError`; without a
        `timeout`, it waits without end. All else is as with `sleep`.
        """
        with self._falling_asleep():
            return steps.wait_for(self._its_queue, self.id_of_run, awaited, timeout, name)

    @contextmanager
    def _falling_asleep(self) -> Iterator[None]:
        """Remember that it sleeps from here on, whoever catches that."""
        try:
            yield
        except Asleep as asleep:
            self.falls_asleep = asleep
            raise

    async def asleep(self, length: "Duration", *, name: str | None = None) -> None:
        """Do as `sleep` does, and let others go on meanwhile."""
        await to_thread(self.sleep, length, name=name)

    async def await_for(
        self, awaited: str, *, timeout: "Duration | None" = None, name: str | None = None
    ) -> Any:
        """Do as `wait_for` does, and let others go on meanwhile."""
        return await to_thread(self.wait_for, awaited, timeout=timeout, name=name)

    @property
    def _its_queue(self) -> Keeper:
        if self._queue is None:
            raise StateError("This job runs without its queue, so that it can't keep steps.")
        return self._queue

    @property
    def id_of_run(self) -> RunId:
        """What fences all that is written for it."""
        return RunId(self.id, self.attempt, self._node)


def current_job() -> CurrentJob:
    """Return the job that this code runs for; outside of one it is a `StateError`."""
    try:
        return _current.get()
    except LookupError:
        raise StateError("This code doesn't run as a job of queuectl.") from None


def enter(job: CurrentJob) -> None:
    """Let what is called from here on be of this job."""
    _current.set(job)
