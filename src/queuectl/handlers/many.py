"""The program that runs many async tasks at once, in one event loop.

It has several workers: the jobs of each are run in their order, one at a time, and those of all of
them side by side. What a task prints, or logs, is its own output, found by the context it runs in;
what other programs and C write is nobody's.
"""

import asyncio
import io
import os
import sys
from contextvars import ContextVar
from typing import Any

from queuectl.guard.output import halves
from queuectl.handlers import lines
from queuectl.handlers.child import Child, add_output, end_of, leave
from queuectl.handlers.work import Message
from queuectl.tasks.context import within_trace
from queuectl.tasks.current import CurrentJob, enter

_writes: ContextVar["dict[str, _Kept]"] = ContextVar("queuectl_writes")


class _Kept:
    """What a task has written to a stream: the beginning and the end of it."""

    def __init__(self, limit: int) -> None:
        self._head_room, self._tail_room = halves(limit)
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_room - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: -self._tail_room or None]

    @property
    def data(self) -> bytes:
        return bytes(self._head + self._tail[-self._tail_room :])


class _Stream(io.TextIOBase):
    """stdout or stderr, of whichever task writes to it."""

    def __init__(self, name: str, own: Any) -> None:
        self._name = name
        self._own = own

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = _writes.get(None)
        if kept is None:
            self._own.write(text)
        else:
            kept[self._name].add(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        self._own.flush()

    def fileno(self) -> int:
        fd: int = self._own.fileno()
        return fd


class Many(Child):
    """Runs the async tasks of several workers."""

    def serve(self) -> None:
        """Run jobs until the node has no more."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._wake = asyncio.Event()
        self._event_loop = asyncio.get_running_loop()
        self._lines: dict[int, asyncio.Task[None]] = {}
        """By the worker, what runs for it."""
        self._listen_aside()
        sys.stdout = _Stream("stdout", sys.stdout)
        sys.stderr = _Stream("stderr", sys.stderr)
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._start_some()
            if self._ends and not self._waiting and not self._lines:
                return

    def _notify(self) -> None:
        self._event_loop.call_soon_threadsafe(self._wake.set)

    def _start_some(self) -> None:
        """Begin the next job of each worker that has none."""
        with self._news:
            for run, message in list(self._waiting.items()):
                worker = message.get("worker", self._worker)
                if worker not in self._lines:
                    del self._waiting[run]
                    self._begin(message)
                    self._to_say += lines.line({"began": run})
                    self._lines[worker] = asyncio.create_task(self._run_one(worker, message))
            self._flush()

    async def _run_one(self, worker: int, message: Message) -> None:
        job = self._running[message["job"]]
        kept = {name: _Kept(self._capture.limit) for name in ("stdout", "stderr")}
        _writes.set(kept)
        try:
            end, text = await self._outcome(job, message)
        finally:
            del self._lines[worker]
        add_output(end, {name: (one.data, one.total) for name, one in kept.items() if one.total})
        with self._news:
            del self._running[job.run]
            self._to_say += lines.line(end) if text is None else lines.raw_line(end, "result", text)
        self._wake.set()

    async def _outcome(self, job: CurrentJob, message: Message) -> tuple[Message, str | None]:
        """Run a job, and return what is to be said of its end, and what it came to."""
        enter(job)
        task = asyncio.current_task()
        assert task is not None
        job.on_stop = lambda why: self._event_loop.call_soon_threadsafe(task.cancel, why)
        job.shown = True
        try:
            with within_trace(job):
                work = self._works(job.type)
                text = work.written(await work.call(job, message))
        except BaseException as error:  # noqa: BLE001 - a job may raise what it likes, and we go on
            return end_of(job, error), None
        finally:
            job.on_stop = None
            if os.getpid() != self._pid:
                # What a job has forked must not go on as we do.
                leave()
        if job.falls_asleep is not None:
            return end_of(job, job.falls_asleep), None
        return {"done": job.run}, text
