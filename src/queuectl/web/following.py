"""What a job writes, as a stream of events: from one of its runs to another, until it is over.

The id of each event says how far that is: the run, and the bytes of stdout and stderr before what
comes next. Who comes back with it goes on there.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncGenerator
from threading import Event
from typing import TYPE_CHECKING, Any

from queuectl.errors import QueuectlError
from queuectl.outputs import STREAMS
from queuectl.web.live import COMMENT, QUIET, message
from queuectl.web.problems import problem_of
from queuectl.web.threads import Threads

if TYPE_CHECKING:
    from queuectl.job import Job
    from queuectl.queue import Queue

_PLACE = re.compile(r"(\d{1,9})\.(\d{1,18})\.(\d{1,18})")
LARGEST = 1 << 16
"""Bytes that one event has at most."""
MOST_AHEAD = 16
"""Events that are made before the ones before them are sent."""


class _GoneError(Exception):
    """Nobody listens any more."""


async def follow(
    queue: "Queue", job: "Job", since: str | None, threads: Threads, ends: Event, whose: str
) -> AsyncGenerator[bytes]:
    """Yield what a job writes, and between its runs what becomes of it; until the server `ends`."""
    told: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_AHEAD)
    gone = Event()
    sink = _Sink(told, gone, ends)
    first, seen = _place(since)
    follower = queue.follower(job, sink, first=first, seen=seen, talk=sink.talk)
    sink.start_at(seen)

    def run() -> None:
        try:
            queue.follow([follower], tick=sink.check)
            found = queue.find(job.id)
            is_there = {} if found is None else {"attempt": found.attempts}
            state = None if found is None else found.state.value
            sink.send("end", {"state": state, **is_there})
        except QueuectlError as error:
            sink.send("trouble", problem_of(error).as_dict())
        except _GoneError:
            return

    async def work() -> None:
        try:
            await threads.run(run, whose=whose)
        finally:
            await told.put(None)

    working = asyncio.create_task(work())
    try:
        while True:
            try:
                text = await asyncio.wait_for(told.get(), QUIET)
            except TimeoutError:
                yield COMMENT
                continue
            if text is None:
                break
            yield text
        await working
    finally:
        gone.set()
        # Who waits for room finds it, and then that nobody listens any more.
        while not told.empty():
            told.get_nowait()


def _place(since: str | None) -> tuple[int, tuple[int, int]]:
    found = _PLACE.fullmatch(since or "")
    if found is None:
        return 1, (0, 0)
    number, out, err = map(int, found.groups())
    return max(number, 1), (out, err)


class _Sink:
    """Makes events of what a follower hands on."""

    def __init__(self, told: "asyncio.Queue[bytes | None]", gone: Event, ends: Event) -> None:
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._over = (gone, ends)
        self._number = 1
        self._at = [0, 0]
        self._rest = [b"", b""]
        """The beginning of a letter whose rest hasn't come yet."""

    def check(self) -> None:
        """End it if nobody listens any more."""
        if any(over.is_set() for over in self._over):
            raise _GoneError

    def send(self, name: str, data: dict[str, Any]) -> None:
        """Send an event."""
        self.check()
        id = f"{self._number}.{self._at[0]}.{self._at[1]}"
        text = message(name, {"attempt": self._number, **data}, id)
        asyncio.run_coroutine_threadsafe(self._told.put(text), self._loop).result()

    def talk(self, text: str) -> None:
        """Tell what happens between two runs."""
        self.send("note", {"text": text})

    def start_at(self, seen: tuple[int, int]) -> None:
        """Count from here on: so much was sent before."""
        self._at = list(seen)

    def begin_run(self, number: int) -> None:
        """Expect what the run with this number writes."""
        self._number, self._at = number, [0, 0]

    def write(self, stream: int, data: bytes) -> None:
        """Send bytes of a stream."""
        data = self._rest[stream] + data
        self._rest[stream] = b""
        for start in range(0, len(data), LARGEST):
            piece = self._rest[stream] + data[start : start + LARGEST]
            self._rest[stream] = b""
            self._send(stream, piece)

    def _send(self, stream: int, piece: bytes) -> None:
        said: dict[str, Any] = {"stream": STREAMS[stream]}
        try:
            said["text"] = piece.decode()
        except UnicodeDecodeError as error:
            if error.end == len(piece) and len(piece) - error.start < 4:
                piece, self._rest[stream] = piece[: error.start], piece[error.start :]
                if not piece:
                    return
                said["text"] = piece.decode()
            else:
                said["base64"] = b64encode(piece).decode()
        self._at[stream] += len(piece)
        self.send("output", said)

    def gap(self, stream: int, missing: int) -> None:
        """Say that so many bytes are missing here."""
        self._at[stream] += missing
        self.send("gap", {"stream": STREAMS[stream], "bytes": missing})

    def end_run(self) -> None:
        """Send what is left of a run."""
        for stream, rest in enumerate(self._rest):
            self._rest[stream] = b""
            if rest:
                self._at[stream] += len(rest)
                said = {"stream": STREAMS[stream], "base64": b64encode(rest).decode()}
                self.send("output", said)
        self.send("over", {})

    def close(self) -> None:
        """Nothing more comes."""
