"""The program that runs Python for jobs: a warm process of a worker. It is a handler: `lines.py`.

It runs what comes through a pipe, one job after the other, and says what became of it through
another. The main thread runs jobs; another one listens, so that a job can be told to come to its
end.
"""

import asyncio
import base64
import os
import select
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from threading import Condition, Thread
from time import monotonic
from typing import Any

from queuectl.guard.board import MANY_PLACES, Board
from queuectl.handlers import lines
from queuectl.handlers.capture import Capture
from queuectl.handlers.work import Message, Work, load_app
from queuectl.tasks.context import within_trace
from queuectl.tasks.current import CurrentJob, enter
from queuectl.tasks.outcomes import Asleep, Discard, LeaseLost, Retry, Snooze

TICK = 0.25
"""Seconds between two looks at what is to be done for a job that takes long."""
_CHUNK = 1 << 16
_LONG = 1 << 18
"""Bytes of output from which on it is said in Base64."""


class Child:
    """Runs jobs, one after the other."""

    def __init__(self, works: Callable[[str], Work], inlet: int, outlet: int) -> None:
        """`works` says what to run for a type."""
        self._works = works
        self._inlet = inlet
        self._outlet = outlet
        self._pid = os.getpid()
        self._node = os.environ.get("QUEUECTL_NODE", "")
        self._news = Condition()
        """Guards what both threads use: what waits, what runs, and what is to be said."""
        self._waiting: dict[int, Message] = {}
        self._running: dict[int, CurrentJob] = {}
        self._ends = False
        self._to_say = bytearray()
        self._loop: asyncio.Runner | None = None
        self._capture = Capture()
        self._board = Board(MANY_PLACES)
        self._spool = ""
        self._worker = 0

    # -- talking ------------------------------------------------------------------------

    def say(self, message: Message) -> None:
        """Say something now. What was to be said before comes first."""
        with self._news:
            self._to_say += lines.line(message)
            self._flush()

    def _flush(self) -> None:
        view = memoryview(bytes(self._to_say))
        self._to_say.clear()
        while view:
            view = view[os.write(self._outlet, view) :]

    def _listen_aside(self) -> None:
        """Say that we can run jobs, and hear from now on which."""
        ready: Message = {"ready": lines.VERSION, "pid": self._pid, "ahead": lines.MOST_AHEAD}
        # What was written while it was imported is of no job.
        add_output(ready, self._capture.take())
        self.say(ready)
        Thread(target=self._listen, daemon=True, name="queuectl-listener").start()

    def _notify(self) -> None:
        """Tell the main thread that there is news."""
        with self._news:
            self._news.notify()

    def _listen(self) -> None:
        """Read what the node says, also while the main thread runs a job."""
        reader = lines.Reader(None)
        poll = select.poll()
        poll.register(self._inlet, select.POLLIN)
        try:
            while True:
                if not poll.poll(TICK * 1000 if self._running or self._waiting else None):
                    self._tick()
                    continue
                if not (chunk := os.read(self._inlet, _CHUNK)):
                    return
                with self._news:
                    for message in reader.feed(chunk):
                        self._heed(message)
                self._notify()
        finally:
            self._ends = True
            self._notify()

    def _heed(self, message: Message) -> None:
        match message:
            case {"job": run}:
                self._waiting[run] = message
            case {"drop": run}:
                if self._waiting.pop(run, None) is not None:
                    self._to_say += lines.line({"dropped": run})
                    self._flush()
            case {"stop": run, "why": why} if run in self._waiting:
                self._waiting[run]["stop"] = why
            case {"stop": run, "why": why}:
                if (job := self._running.get(run)) is not None:
                    # It calls code of the job's, which may take its time.
                    Thread(target=job.stop, args=[why], daemon=True, name="queuectl-stop").start()
            case {"hello": _}:
                self._greet(message)

    def _greet(self, message: Message) -> None:
        self._worker = message.get("worker", 0)
        if (path := message.get("board")) is not None:
            self._spool = os.path.dirname(path)
            self._board.open(path, 0, first=False)
        self._capture.limit = message.get("limit", self._capture.limit)

    def _tick(self) -> None:
        """Do what is due for jobs that take long."""
        now = monotonic()
        for job in list(self._running.values()):
            job.tell_progress()
            if not job.shown and self._spool and job.began + lines.SHOWN_AFTER <= now:
                job.shown = True
                with self._news:
                    if job.run in self._running:
                        base = f"{self._spool}/{job.seq}.{job.attempt}"
                        self._capture.show((f"{base}.out", f"{base}.err"))

    # -- running ------------------------------------------------------------------------

    def serve(self) -> None:
        """Run jobs until the node has no more."""
        self._listen_aside()
        while (message := self._next()) is not None:
            self._run(message)
            if _has_children():
                # Whatever they are, they must not outlive the job by much: the guard ends them.
                self.say({"leaves": "the job has left processes behind"})
                return

    def _next(self) -> Message | None:
        """Wait for the next job, and say that it begins; None if there will be none."""
        with self._news:
            if not self._waiting:
                self._flush()
                self._news.wait_for(lambda: self._waiting or self._ends)
            if not self._waiting:
                return None
            run = next(iter(self._waiting))
            message = self._waiting.pop(run)
            self._begin(message)
            if self._to_say:
                # The end of the one before is the last that there is to say. It is said now: what
                # this one does to us must not be blamed on that one.
                self._to_say[-2:] = b',"next":%d}\n' % run
            else:
                self._to_say += b'{"began":%d}\n' % run
            self._flush()
            return message

    def _begin(self, message: Message) -> None:
        """Note that a job begins, also for whoever finds the node dead."""
        job = CurrentJob(message, self.say, self._node)
        worker = message.get("worker", self._worker)
        self._board.note(worker, f"{self._node}.{job.seq}.{job.attempt}")
        self._running[job.run] = job
        if "stop" in message:
            job.stop(message["stop"])

    def _run(self, message: Message) -> None:
        """Run one job, and note what became of it."""
        job = self._running[message["job"]]
        enter(job)
        text = None
        try:
            with within_trace(job):
                work = self._works(job.type)
                result = work.call(job, message)
                if work.is_async:
                    result = self._await(job, result)
            text = work.written(result)
            end: Message = {"done": job.run}
        except BaseException as error:  # noqa: BLE001 - a job may raise what it likes, and we go on
            end = end_of(job, error)
        if job.falls_asleep is not None:
            end, text = end_of(job, job.falls_asleep), None
        if os.getpid() != self._pid:
            # The job has forked, and this is what it has forked: it must not go on as we do.
            leave()
        with self._news:
            del self._running[job.run]
        try:
            add_output(end, self._capture.take())
        except (OSError, ValueError) as error:
            end["lost_output"] = str(error)
        with self._news:
            self._to_say += lines.line(end) if text is None else lines.raw_line(end, "result", text)

    def _await(self, job: CurrentJob, coroutine: Any) -> Any:
        if self._loop is None:
            self._loop = asyncio.Runner()
        loop = self._loop.get_loop()

        async def run() -> Any:
            task = asyncio.current_task()
            assert task is not None
            job.on_stop = lambda why: loop.call_soon_threadsafe(task.cancel, why)
            return await coroutine

        # The loop has a context of its own, in which the first job is the current one for ever.
        return self._loop.run(run(), context=copy_context())


def leave() -> None:
    """End this process, and nothing else of what it is a copy of."""
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _has_children() -> bool:
    """Tell whether this process has children that live, but for helpers of Python's own."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    from queuectl.guard import tree

    return any(process.pid not in _helpers() for process in tree.family(tree.children(os.getpid())))


def _helpers() -> set[int | None]:
    """Return the processes that `multiprocessing` keeps for itself."""
    known = set()
    if (tracker := sys.modules.get("multiprocessing.resource_tracker")) is not None:
        known.add(getattr(tracker._resource_tracker, "_pid", None))
    if (server := sys.modules.get("multiprocessing.forkserver")) is not None:
        known.add(getattr(server._forkserver, "_forkserver_pid", None))
    return known


def add_output(end: Message, taken: Mapping[str, tuple[bytes, int]]) -> None:
    """Add what a job has written to what is said of its end."""
    for name, (data, total) in taken.items():
        try:
            # Letters that can't be written as they are would take six times their room.
            text = data.decode() if len(data) < _LONG else None
        except UnicodeDecodeError:
            text = None
        if text is None:
            end[f"{name}64"] = base64.b64encode(data).decode()
        else:
            end[name] = text
        if total > len(data):
            end[f"{name}_bytes"] = total


def end_of(job: CurrentJob, error: BaseException) -> Message:
    """Say what becomes of a job whose code raised something."""
    match error:
        case Retry():
            return {"failed": job.run, "error": str(error), "retry_after": _seconds(error.after)}
        case Discard():
            return {"failed": job.run, "error": str(error), "discard": True}
        case Asleep():
            # Until when, the store knows.
            return {"failed": job.run, "error": str(error), "snooze": 0}
        case LeaseLost():
            return {"failed": job.run, "error": str(error)}
        case Snooze():
            return {"failed": job.run, "error": str(error), "snooze": _seconds(error.until)}
        case SystemExit(code=None | 0):
            return {"done": job.run}
    tell_traceback(error)
    return {"failed": job.run, "error": in_words(error)}


def _seconds(given: Any) -> Any:
    return given if given is None or isinstance(given, int | float | str) else str(given)


def in_words(error: BaseException) -> str:
    """Name an error in one line, also one that can't be printed."""
    name = type(error).__qualname__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - whatever its __str__ does
        return f"{name} (which can't be printed)"
    first = text.strip().partition("\n")[0][:500]
    return f"{name}: {first}" if first else name


def tell_traceback(error: BaseException) -> None:
    """Write the traceback to stderr, from the job's own code on."""
    try:
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename in _OURS:
            own = own.tb_next
        text = "".join(traceback.format_exception(type(error), error, own))
        sys.stderr.write(text)
    except BaseException:  # noqa: BLE001 - an error that can't be printed, or no stderr
        with suppress(OSError):
            os.write(2, f"{in_words(error)}\n".encode("utf-8", "backslashreplace"))


_OURS = {__file__, load_app.__code__.co_filename, asyncio.runners.__file__}
"""The files whose frames are of no interest to who looks for a fault of a job."""
