"""A warm program: a handler that stays, and is handed one job after the other through two pipes.

The node holds both ends of each pipe, so that neither is ever cut off by the program's death: what
it has said before that is read. Its life is the guard's business: see `handlers.py`.
"""

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any

from queuectl.dependencies import group_told, read_parent
from queuectl.handlers import lines
from queuectl.job import NEEDS, Job
from queuectl.node.processes import given_variables
from queuectl.node.programs import Handler
from queuectl.node.runs import Run
from queuectl.when import iso

_CHUNK = 1 << 16
_AT_ONCE = 4
Message = dict[str, Any]


class Handed:
    """A run that a program was handed."""

    __slots__ = ("began", "due", "ending", "give_up", "left", "run", "shown", "unwanted")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.began = 0.0
        """When it began; 0 if it hasn't."""
        self.ending = ""
        """How it comes to its end, if somebody wants that."""
        self.unwanted = ""
        """Why it isn't to begin, if somebody wants that."""
        self.due = inf
        """When its next step is due: its timeout, or the next time that it is asked to end."""
        self.give_up = inf
        """When its program is ended, if it doesn't come to its end."""
        self.left = inf
        """Seconds that were left until it was due when it was paused."""
        self.shown = False
        """Whether what it writes can be read by its name: see `spool.py`."""


class Warm:
    """One program, and the runs that it was handed."""

    def __init__(self, number: int, handler: Handler, worker: int, node: str, spool: str) -> None:
        """Make the pipes for the program with this number, of this worker, in this folder."""
        self.number = number
        """What it is called by its guard."""
        self.handler = handler
        self.worker = worker
        """The first of those that it serves."""
        self.node = node
        self.guard = 0
        """The process of its guard."""
        base = f"{spool}/warm{-number}"
        self.paths = f"{base}.in", f"{base}.say"
        self.files = f"{base}.out", f"{base}.err"
        """Where it writes what isn't of a job, and what a job writes until it is over."""
        self._ends = [_pipe(path) for path in self.paths]
        # Of our own we know that they say much only where much is to be kept.
        self._reader = lines.Reader(None if handler.is_ours else lines.LONGEST_LINE)
        self.is_read_out = False
        """Whether all was heard that it has said."""
        self.unknown = 0
        """How many lines it has said whose words aren't known."""
        self._unsent = bytearray()
        self.pid = 0
        """As it says itself; 0 if it doesn't, or not yet."""
        self.ahead = handler.ahead
        """How many runs it takes besides the one that it runs."""
        self.runs: dict[int, Handed] = {}
        """Those it was handed, in their order."""
        self.begun: dict[int, Handed] = {}
        """Those of them that it has begun."""
        self.is_ready = False
        """Whether it has said that it can run something."""
        self.over = 0
        """How many of them are over."""
        self.handed = 0
        """How many it was handed, since it started."""
        self.retiring = False
        """Whether it gets no more, and leaves when it has done what it has."""
        self.leave_by = inf
        """When it has to be gone, if it is to leave."""
        self.ended_for: int | None = None
        """The run because of which it is ended."""
        self.blame = ""
        """Why that is, if it isn't the run's own timeout, cancel or the like."""
        self.unable = ""
        """Why it can't run anything."""

    def fileno(self) -> int:
        """Where it is heard."""
        return self._ends[1]

    @property
    def has_unsent(self) -> bool:
        """Whether it hasn't taken all that it was told."""
        return bool(self._unsent)

    def tell(self, message: Message) -> None:
        """Tell it something, as soon as it takes it."""
        self._unsent += lines.line(message)
        self.send()

    def send(self) -> None:
        """Pass on what it takes."""
        if self._ends[0] < 0:
            self._unsent.clear()
        with suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: os.write(self._ends[0], self._unsent)]

    def hear(self) -> Iterator[Message]:
        """Yield what it says; raises `lines.NoLineError` if it doesn't speak the protocol."""
        # Not more at once: others have something to say, too.
        for _ in range(_AT_ONCE):
            try:
                chunk = os.read(self._ends[1], _CHUNK)
            except BlockingIOError:
                chunk = b""
            self.is_read_out = len(chunk) < _CHUNK
            if chunk:
                yield from self._reader.feed(chunk)
            if self.is_read_out:
                return

    # -- its runs -----------------------------------------------------------------------

    def hand(self, number: int, run: Run) -> None:
        """Hand it a run, with what it is told next."""
        self.runs[number] = Handed(run)
        self.handed += 1
        self._unsent += job_line(number, run, self.handler)

    def begin(self, number: int, timeout: float | None) -> Handed:
        """Note that it has begun a run."""
        self.begun[number] = handed = self.runs[number]
        handed.began = monotonic()
        handed.due = handed.began + timeout if timeout else inf
        return handed

    def end(self, number: int) -> Handed:
        """Note that a run of it is over."""
        self.begun.pop(number, None)
        return self.runs.pop(number)

    def next_due(self) -> float:
        """Return when a step is due, by the monotonic clock."""
        due = self.leave_by
        for handed in self.begun.values():
            due = min(due, handed.due if handed.shown else handed.began + lines.SHOWN_AFTER)
        return due

    # -- its end ------------------------------------------------------------------------

    def hang_up(self, within: float) -> None:
        """Tell it that nothing more comes: it has so many seconds to leave."""
        if self._ends[0] >= 0:
            os.close(self._ends[0])
            self._ends[0] = -1
            self.leave_by = monotonic() + within

    def close(self) -> None:
        """Let go of its pipes and files."""
        for fd in self._ends:
            if fd >= 0:
                os.close(fd)
        self._ends = [-1, -1]
        for path in (*self.paths, *self.files):
            with suppress(OSError):
                os.unlink(path)


def job_line(number: int, run: Run, handler: Handler) -> bytes:
    """Write the message that hands over a run; piece by piece, as there is one for every job."""
    job = run.job
    data = job.data or b""
    quoted = lines.quoted
    more = f'"created_at":"{iso(job.created_at)}"'
    if job.keys:
        more += f',"keys":{json.dumps(job.keys)}'
    if job.parameters:
        more += f',"parameters":{json.dumps(job.parameters)}'
    if job.group is not None or job.after_group or job.after or job.tick is not None:
        more += _surroundings(job)
    if job.hook is not None:
        more += f',"hook":{quoted(job.hook.partition(" ")[0])}'
    if job.handler.startswith(NEEDS):
        given = {name.decode(): text.decode() for name, text in given_variables(job).items()}
        more += f',"given":{json.dumps(given)}'
    if run.trace is not None:
        more += "".join(f',"{name}":{quoted(it)}' for name, it in run.trace.named().items())
    if handler.is_ours:
        more += f',"seq":{job.seq}'
        if handler.shared_by > 1:
            more += f',"worker":{job.worker}'
    try:
        more += f',"data":{quoted(data.decode())}'
    except UnicodeDecodeError:
        more += f',"data64":"{b64encode(data).decode()}"'
    return lines.as_bytes(
        f'{{"job":{number},"id":{quoted(job.id)},"type":{quoted(job.type or "")},'
        f'"queue":{quoted(job.queue)},"attempt":{job.attempts},{more}}}\n'
    )


def _surroundings(job: Job) -> str:
    """Write what a run is told of other jobs and its schedule; commands find it in variables."""
    told: dict[str, Any] = {}
    if (group := group_told(job.group, job.after_group)) is not None:
        told["group"] = group
    if job.after:
        told["parents"] = [read_parent(text)[0] for text in job.after]
    if job.planned is not None:
        told |= {"schedule": job.schedule, "scheduled_for": iso(job.planned)}
    return "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in told.items())


def stand_still(handed: Handed, *, still: bool) -> None:
    """Have the clock of a run stand still, or go on."""
    now = monotonic()
    if still:
        handed.left, handed.due = handed.due - now, inf
    elif handed.left < inf:
        handed.due, handed.left = now + handed.left, inf


def _pipe(path: str) -> int:
    with suppress(FileNotFoundError):
        os.unlink(path)
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
