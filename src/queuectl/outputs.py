"""What the runs of a job wrote: those that are over, and the one that goes on, wherever it runs.

What is over is in the store. What goes on is, on its node's host, in spool files, which are read as
they grow. From elsewhere its node is asked, through the store, to show it there for as long as
somebody watches.
"""

import os
from collections.abc import Iterator, Sequence
from time import monotonic, sleep

from queuectl.errors import NotFoundError, UsageError, shown
from queuectl.finding import get
from queuectl.guard.output import Captured, halves, read_on
from queuectl.host import host_identity
from queuectl.job import Attempt, Job, Output, State
from queuectl.place import Place
from queuectl.spool import open_stream
from queuectl.store.contract import Piece, Store
from queuectl.values import dataclass

STREAMS = ("stdout", "stderr")
CHUNK = 1 << 16
LOOK_EVERY = 0.25
"""Seconds between two looks at the store when nothing comes."""
WATCH_FOR = 15_000
"""Milliseconds for which a node is asked to show a run's output."""
ASK_EVERY = 5.0
"""Seconds after which it is asked again."""
GRACE = 0.5
"""Seconds in which a run on this host makes its files; if they aren't to be seen then, we ask."""
ANSWER_WITHIN = 5.0
"""Seconds to wait for a node that doesn't answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a run wrote, as far as it got."""

    job: Job
    """The job, as it was then."""
    number: int
    """Which run; 0 when there was none."""
    run: Attempt | None = None
    """The run, when it is over."""
    output: Output = Output()
    whole: bool = True
    """Whether that is all so far; not if the run goes on, and its node doesn't answer."""


def kept(store: Store, job: Job, attempt: int | None) -> Output:
    if attempt is not None and type(attempt) is not int:
        raise UsageError(f"attempt must be the number of a run, not {shown(attempt)}.")
    runs = store.history.attempts(job)
    number = attempt if attempt is not None else (runs[-1].number if runs else 0)
    is_over = any(run.number == number for run in runs)
    found = store.history.output(job, number) if is_over else None
    if found is not None:
        return found
    if attempt is None:
        return Output()
    raise NotFoundError(f"Job {job.id} has no finished attempt {attempt}.")


def written(store: Store, place: Place, job: Job, attempt: int | None) -> Written:
    number = job.attempts if attempt is None else attempt
    if number > job.attempts:
        raise NotFoundError(f"Job {job.id} has no attempt {number}; it has {job.attempts} so far.")
    runs = store.history.attempts(get(store, job.id))
    run = next((run for run in runs if run.number == number), None)
    if run is not None:
        output = store.history.output(job, number) or Output()
        return Written(job=job, number=number, run=run, output=output)
    if job.state == State.PROCESSING and number == job.attempts:
        return _going_on(store, place, job)
    if attempt is not None:
        raise NotFoundError(f"Nothing is kept of attempt {number} of job {job.id}.")
    return Written(job=job, number=number)


def _going_on(store: Store, place: Place, job: Job) -> Written:
    """Read what a run has written so far; if it is over by now, take what the store has."""
    settings, _ = place.settings(store.settings.config())
    output, whole = so_far(store, job, settings.output_limit)
    now = get(store, job.id)
    if (now.state, now.attempts) != (State.PROCESSING, job.attempts):
        return written(store, place, now, job.attempts)
    return Written(job=now, number=job.attempts, output=output, whole=whole)


class LiveOutput:
    """The output of the newest run of a job, while it goes on."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store = store
        self._job = job
        node = next((node for node in self._store.nodes.all() if node.id == job.node), None)
        self._spool = None if node is None else node.spool
        here, there = host_identity(), "" if node is None else node.boot
        # A folder may be shared between hosts, but what is being written shows up there late.
        self._same_host = there.partition("/")[0] == here.partition("/")[0]
        self._ask_from = monotonic() + (GRACE if there == here else 0.0)
        self._near = False
        """Whether its files can be read here."""
        self.torn = [False, False]
        """Whether what we have read of a stream is no longer the beginning of its file."""
        self._asked = float("-inf")
        self._look_at = [0.0, 0.0]
        self._complete = [False, False]

    @property
    def awaited(self) -> bool:
        """Whether its node is yet to say that what we have read is all there is so far."""
        return self._spool is not None and not self._near and not all(self._complete)

    def read(self, stream: int, seen: int) -> Iterator[Piece]:
        """Return what there is of stream 0 (stdout) or 1 (stderr) behind its first `seen` bytes.

        A piece that starts later than where the one before it ended has a gap before it.
        """
        if self._spool is None:
            return
        fd = open_stream(self._spool, self._job, stream) if self._same_host else None
        if fd is not None:
            self._near = True
            try:
                yield from self._read_file(fd, stream, seen)
            finally:
                os.close(fd)
        elif not self._near and monotonic() >= self._ask_from:
            yield from self._read_store(stream, seen)

    def _read_file(self, fd: int, stream: int, seen: int) -> Iterator[Piece]:
        if os.fstat(fd).st_size < seen:
            # Its middle was cut out, or the job emptied it. From here on the places of its bytes
            # can't be told any more; when the run is over the store will have the end.
            self.torn[stream] = True
        while not self.torn[stream]:
            start, data = read_on(fd, seen, CHUNK)
            if not data:
                return
            yield Piece(stream=STREAMS[stream], start=start, data=data)
            seen = start + len(data)

    def _read_store(self, stream: int, seen: int) -> Iterator[Piece]:
        self._ask()
        if monotonic() < self._look_at[stream]:
            return
        self._look_at[stream] = monotonic() + LOOK_EVERY
        while pieces := self._store.live.pieces(self._job, STREAMS[stream], after=seen):
            self._complete[stream] = not pieces[-1].data
            before = seen
            for piece in _new(pieces, seen):
                yield piece
                seen = piece.start + len(piece.data)
            if seen == before:
                return
            # Where something came, more may follow.
            self._look_at[stream] = 0.0

    def _ask(self) -> None:
        """Ask its node to show what it writes, and again before that time is over."""
        if monotonic() < self._asked + ASK_EVERY:
            return
        now = self._store.clock.now()
        first = self._asked < 0
        self._store.live.watch(self._job, until=now + WATCH_FOR, now=now, first=first)
        self._asked = monotonic()


def _new(pieces: Sequence[Piece], seen: int) -> Iterator[Piece]:
    """Cut off what was seen already."""
    for piece in pieces:
        data = piece.data[max(seen - piece.start, 0) :]
        if data:
            yield Piece(stream=piece.stream, start=max(piece.start, seen), data=data)
            seen = max(piece.start, seen) + len(data)


def so_far(store: Store, job: Job, limit: int) -> tuple[Output, bool]:
    """Return what the running attempt of a job has written, within a limit, and if that is all.

    It may not be all when its node, on another host, doesn't answer.
    """
    live = LiveOutput(store, job)
    taken: tuple[list[Piece], list[Piece]] = ([], [])
    seen = [0, 0]
    deadline = monotonic() + ANSWER_WITHIN
    while True:
        for stream in (0, 1):
            for piece in live.read(stream, seen[stream]):
                taken[stream].append(piece)
                seen[stream] = piece.start + len(piece.data)
        if not live.awaited or monotonic() > deadline or not _runs(store, job):
            break
        sleep(LOOK_EVERY / 2)
    out, err = (_capture(pieces, limit) for pieces in taken)
    output = Output(
        stdout=out.data, stderr=err.data, stdout_bytes=out.total, stderr_bytes=err.total
    )
    return output, not live.awaited


def _runs(store: Store, job: Job) -> bool:
    now = store.jobs.get(job.id)
    return now is not None and (now.state, now.attempts) == (State.PROCESSING, job.attempts)


def _capture(pieces: Sequence[Piece], limit: int) -> Captured:
    """Put pieces together the way finished output is kept: a head and a tail of equal length."""
    parts: list[bytearray] = []
    end = 0
    for piece in pieces:
        if not parts or piece.start > end:
            parts.append(bytearray())
        parts[-1] += piece.data
        end = piece.start + len(piece.data)
    if not parts:
        return Captured(b"", 0)
    first, last = parts[0], parts[-1]
    whole = len(parts) == 1 and pieces[0].start == 0
    if whole and end <= limit:
        return Captured(bytes(first), end)
    head, tail = halves(limit)
    if not whole:
        head = tail = min(tail, len(first), len(last))
    return Captured(bytes(first[:head] + last[len(last) - tail :]), end)
