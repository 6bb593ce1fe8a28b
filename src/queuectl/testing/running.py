"""Running tasks in this process: a node that claims, calls and ends as others do, but at once.

What a worker does around a task isn't done: its output goes where that of the test goes, and no
timeout ends it.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from time import monotonic
from typing import Any, NamedTuple

from queuectl import __version__
from queuectl.admission import Offer, Serving
from queuectl.dependencies import group_told
from queuectl.errors import StateError
from queuectl.facts import Node, RunProgress
from queuectl.handlers.work import TaskWork
from queuectl.host import host_identity, host_name, process_start
from queuectl.job import TYPE, WAITING, Cancelled, Exited, Job, Outcome, Output, Raised, Snoozed
from queuectl.node.config import Config
from queuectl.node.runs import Handled, Run, finish, read_report
from queuectl.queue import Queue
from queuectl.store.contract import Over
from queuectl.store.ids import new_ids
from queuectl.tasks import task as tasks
from queuectl.tasks.current import CurrentJob, enter
from queuectl.tasks.outcomes import Asleep, Discard, Interruption, Retry, Snooze
from queuectl.tasks.task import Task, TaskJob
from queuectl.testing.clock import MovedClock, moving
from queuectl.when import iso

LEASE = 24 * 3600 * 1000
"""Milliseconds: longer than any test."""


class Ran(NamedTuple):
    """A run of a task."""

    job: Job
    """As it is after the run."""
    error: BaseException | None
    """What the task raised."""


def drain(
    queue: Queue, *, queues: str | Sequence[str] = (), later: bool = False, most: int = 1_000
) -> list[Ran]:
    """Run all jobs of tasks of a queue that are ready, one after the other, and say what ran.

    Those that they enqueue run as well. With `later`, so do jobs that wait for a time, such as
    that of their next retry: the clock is moved on to it. Commands are left alone, and so is all
    that is paused. More than `most` runs are a `StateError`: then a task never comes to its end.
    """
    names = (queues,) if isinstance(queues, str) else tuple(queues)
    with _Runner(queue, names, tuple(queue.tasks), later=later) as runner:
        ran = []
        for one in runner.runs():
            ran.append(one)
            if len(ran) > most:
                raise StateError(
                    f"{most:,} runs are over, and there are more; does a task snooze or enqueue"
                    " itself without end? most= allows more."
                )
        return ran


@contextmanager
def inline() -> Iterator[None]:
    """Have `enqueue` run what it enqueues at once, in this process, with all retries.

    The job is stored, and ends, as it would; what it came to can be read at once. What it raised
    is the cause of the error that `result` raises. One that is part of a transaction of yours
    can't run before that is committed: `drain` runs it then.
    """
    before = tasks.at_once
    tasks.at_once = _run_at_once
    try:
        yield
    finally:
        tasks.at_once = before


def _run_at_once(made: TaskJob[Any]) -> None:
    queue = made.queue
    assert isinstance(queue, Queue)
    with _Runner(queue, (), (made.task.name,), later=True) as runner:
        for ran in runner.runs():
            if ran.job.id == made.id:
                made.raised = ran.error
                if ran.job.state not in WAITING:
                    return
    if queue.get(made.id).state in WAITING:
        reasons = " ".join(reason.text for reason in queue.explain(made.id))
        raise StateError(f"Job {made.id} of {made.task.name} can't run at once: {reasons}")


class _Runner:
    """A node in this process, with one worker."""

    def __init__(
        self, queue: Queue, queues: Sequence[str], types: Sequence[str], *, later: bool
    ) -> None:
        """Serve queues, or all, as far as their jobs are of these types."""
        self._queue = queue
        self._store = queue.store
        self._id = new_ids(1, 8)[0]
        self._serving = Serving(tuple(queues), handlers=tuple(TYPE + name for name in types))
        self._later = later
        self._config = Config(queue.settings, count=1)
        self._stack = ExitStack()
        self._clock: MovedClock | None = None

    def __enter__(self) -> "_Runner":
        if self._later:
            self._clock = self._stack.enter_context(moving(self._queue))
        now = self._store.clock.now()
        self._store.nodes.register(
            Node(
                id=self._id,
                host=host_name(),
                boot=host_identity(),
                pid=os.getpid(),
                pid_start=process_start(os.getpid()) or 0,
                workers=1,
                queues=self._serving,
                spool=os.path.join(self._store.folder.spool, self._id),
                version=__version__,
                started_at=now,
                seen_at=now,
                lease_until=self._store.clock.steady() + LEASE,
            )
        )
        return self

    def __exit__(self, *exc: object) -> None:
        # What was claimed and not run, such as commands, is as if it hadn't been claimed.
        self._store.runs.rescue(self._id, lambda jobs, now: Over(unstarted=jobs))
        self._stack.close()

    def runs(self) -> Iterator[Ran]:
        """Run what is ready until there is nothing."""
        while True:
            turned = self._store.runs.turn(self._id, None, Offer([1], self._serving))
            tasks = [job for job in turned.jobs if job.type in self._queue.tasks]
            if tasks:
                yield from map(self._run, tasks)
            elif not turned.jobs and not self._move_on():
                return

    def _move_on(self) -> bool:
        """Move the clock to when there is something to do; False if there never is."""
        due = self._store.runs.outlook(self._serving).changes_at
        if self._clock is None or due is None or due <= self._clock.now():
            return False
        self._clock.move_to(due)
        return True

    def _run(self, job: Job) -> Ran:
        task = self._queue.tasks[job.task or ""]
        run = Run(job=job, spool="", claimed=monotonic())
        result, error = self._call(task, job)
        outcome: Outcome = Exited(0) if error is None else outcome_of(error)
        report = Handled(0, outcome, run.claimed, monotonic(), Output(), result)
        read_report(run, report, self._config.settings)
        now = self._store.clock.now()
        ended = finish(run, self._config, now=now, host=host_name())
        self._store.runs.turn(self._id, Over(judge=lambda stuck, asked, now: [ended]), None)
        return Ran(self._queue.get(job.id), error)

    def _call(self, task: Task[..., Any, Any], job: Job) -> tuple[str | None, BaseException | None]:
        """Call a task, and return its result as JSON, and what it raised."""
        try:
            return copy_context().run(self._call_within, task, job), None
        except (Exception, SystemExit, asyncio.CancelledError, Interruption) as error:  # noqa: BLE001 - any task's
            return None, error

    def _call_within(self, task: Task[..., Any, Any], job: Job) -> str | None:
        work = TaskWork(task)
        message: dict[str, Any] = {"job": 0, "id": job.id, "type": task.name, "queue": job.queue}
        message |= {"attempt": job.attempts, "keys": job.keys}
        message["parameters"] = dict(job.parameters)
        message["group"] = group_told(job.group, job.after_group)
        if job.planned is not None:
            message |= {"schedule": job.schedule, "scheduled_for": iso(job.planned)}
        with suppress(UnicodeDecodeError):
            message["data"] = (job.data or b"").decode()
        if job.hook is not None:
            message["hook"] = job.hook
        current = CurrentJob(message, self._hearer(job), job.node or "")
        current.belongs_to(task.queue)
        enter(current)
        result = work.call(current, message)
        return work.written(_awaited(result) if work.is_async else result)

    def _hearer(self, job: Job) -> Callable[[dict[str, Any]], None]:
        def hear(message: dict[str, Any]) -> None:
            if "progress" in message:
                progress = RunProgress(
                    seq=job.seq,
                    number=job.attempts,
                    percent=message["part"] * 100,
                    note=message["text"],
                    at=self._store.clock.now(),
                )
                self._store.reports.set_progress((job, progress))

        return hear


def _awaited(coroutine: Any) -> Any:
    """Run a coroutine to its end, also where a loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, coroutine).result()


def outcome_of(error: BaseException) -> Outcome:
    """Say what a run came to whose task raised something."""
    match error:
        case Retry():
            return Raised(str(error), None if error.after is None else round(error.after * 1000))
        case Discard():
            return Cancelled(str(error))
        case Snooze():
            return Snoozed(str(error), round(error.until * 1000))
        case Asleep():
            # Until when, the store knows.
            return Snoozed(str(error), 0)
    first = str(error).strip().partition("\n")[0][:500]
    name = type(error).__qualname__
    return Raised(f"{name}: {first}" if first else name)
