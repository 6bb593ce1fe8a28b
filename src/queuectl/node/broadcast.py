"""The broadcast: the output of runs, copied into the store for those who watch from other hosts.

Whoever watches a run says so in the store, and says it again as long as it goes on. Meanwhile new
bytes of its spool files are copied there twice a second. Of a long stream as much stays there as
`output_limit` allows; a watcher that is slower sees a gap. With nobody watching nothing is done.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from queuectl.errors import StoreError
from queuectl.guard.output import halves, read_on
from queuectl.job import Job
from queuectl.node.handover import HandedStream, HandedWatch
from queuectl.node.runs import Run
from queuectl.spool import open_stream
from queuectl.store.contract import LONGEST_PIECE, Piece, Shown, Store

PAUSE = 0.5
"""Seconds between two looks at the files of a run that is watched."""
BUSY_PAUSE = 0.25
"""The same while there is more than fits into one turn: time for watchers to read along."""
TROUBLE_PAUSE = 2.0
"""Seconds until the next try when the store can't be written."""
PER_TURN = 1 << 20
"""Bytes that are copied in one turn, of all runs together."""
MARGIN = 1000
"""Milliseconds before its time at which a watch counts as over, so that it is over for us first:
whoever begins the next one takes away what we have shown, and we must begin anew."""
NEVER = float("inf")


@dataclass(slots=True, kw_only=True)
class _Stream:
    """One stream of a run that is watched."""

    name: str
    open: Callable[[], int | None]
    shown: HandedStream = field(default_factory=HandedStream)
    """What of it is in the store."""

    def read(self, limit: int, most: int) -> list[Piece]:
        """Return the next pieces, of at most so many bytes; an empty one says that this is all."""
        fd = self.open()
        if fd is None:
            return self._all(self.shown.at)
        try:
            size = os.fstat(fd).st_size
            if self.shown.torn or size < self.shown.at:
                self.shown.torn = True
                return []
            return self._read(fd, size, limit, most)
        except OSError:
            return []  # What can't be read now is tried again, and at the end of the run.
        finally:
            os.close(fd)

    def _read(self, fd: int, size: int, limit: int, most: int) -> list[Piece]:
        head, tail = halves(limit)
        pieces: list[Piece] = []
        at = self.shown.at
        while at < size and most > 0:
            end = size
            if size - at > limit:
                # More than will be kept: the rest of the head, then on with the tail.
                at, end = (at, head) if at < head else (size - tail, size)
            at, data = read_on(fd, at, min(most, LONGEST_PIECE, end - at))
            if not data:
                break
            pieces.append(Piece(stream=self.name, start=at, data=data))
            at += len(data)
            most -= len(data)
        return pieces + self._all(at) if at >= size else pieces

    def _all(self, at: int) -> list[Piece]:
        return [] if at == self.shown.told else [Piece(stream=self.name, start=at, data=b"")]

    def note(self, shown: Shown) -> None:
        """Note that this is in the store."""
        for piece in shown.pieces:
            self.shown.at = piece.start + len(piece.data)
            if not piece.data:
                self.shown.told = piece.start
        if shown.gap is not None:
            self.shown.trimmed = shown.gap[1]

    def gap(self, pieces: Sequence[Piece], limit: int) -> tuple[int, int] | None:
        """Return what is neither head nor among the last bytes, when its going is worth it."""
        end = pieces[-1].start + len(pieces[-1].data)
        head, before = halves(limit)[0], end - limit - LONGEST_PIECE
        return (head, before) if before - max(head, self.shown.trimmed) >= LONGEST_PIECE else None


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A run that somebody watches."""

    job: Job
    until: int
    streams: list[_Stream] = field(default_factory=list)

    @classmethod
    def begin(cls, run: Run, until: int) -> "_Watched":
        """Watch a run from the beginning of its output."""
        streams = [
            _Stream(name=name, open=partial(open_stream, run.spool, run.job, stream))
            for stream, name in enumerate(("stdout", "stderr"))
        ]
        return cls(job=run.job, until=until, streams=streams)


_Batch = list[tuple[Shown, _Stream]]


class Broadcast:
    """Copies the output of watched runs into the store."""

    def __init__(self, store: Store, limit: Callable[[], int]) -> None:
        self._store = store
        self._limit = limit
        self._watched: dict[int, _Watched] = {}
        """By the place of the job in the line; those served longest ago come first."""
        self._touched: set[tuple[int, int]] = set()
        """The runs of which there may be something in the store."""
        self.due = NEVER
        """When `send` is wanted, by CLOCK_MONOTONIC."""

    def hand_over(self) -> list[HandedWatch]:
        """Describe to the next program of this process what is being shown."""
        handed = []
        for seq, attempt in self._touched:
            watched = self._watched.get(seq)
            streams = watched.streams if watched is not None else []
            handed.append(
                HandedWatch(
                    seq=seq,
                    attempt=attempt,
                    until=0 if watched is None else watched.until,
                    streams=[stream.shown for stream in streams],
                )
            )
        return handed

    def resume(self, handed: Iterable[HandedWatch], running: Iterable[Run]) -> None:
        """Go on showing what the program before us showed."""
        runs = {run.job.seq: run for run in running}
        for watch in handed:
            self._touched.add((watch.seq, watch.attempt))
            if not watch.streams or watch.seq not in runs:
                continue
            self._watched[watch.seq] = watched = _Watched.begin(runs[watch.seq], watch.until)
            for stream, shown in zip(watched.streams, watch.streams, strict=True):
                stream.shown = shown
            self.due = 0.0

    def look(self, running: Iterable[Run]) -> None:
        """Learn which of the running runs are watched."""
        runs = {run.job.seq: run for run in running}
        now = self._store.clock.now() + MARGIN
        found = (
            self._store.live.watched([run.job for run in runs.values()], now=now) if runs else {}
        )
        going = {
            seq: watched
            for seq, watched in self._watched.items()
            if seq in found
            and watched.until > now
            and watched.job.attempts == runs[seq].job.attempts
        }
        for seq, until in found.items():
            if seq in going:
                going[seq].until = until
            else:
                going[seq] = _Watched.begin(runs[seq], until)
                self._touched.add((seq, runs[seq].job.attempts))
                self.due = 0.0
        self._watched = going
        if not going:
            self.due = NEVER

    def send(self) -> None:
        """Copy what is new."""
        self.due = monotonic() + TROUBLE_PAUSE
        now = self._store.clock.now() + MARGIN
        self._watched = {seq: run for seq, run in self._watched.items() if run.until > now}
        if not self._watched:
            self.due = NEVER
            return
        limit = self._limit()
        batch, left = self._read(limit)
        if batch:
            self._store.live.show(*(shown for shown, _ in batch))
        for shown, stream in batch:
            stream.note(shown)
        self.due = monotonic() + (PAUSE if left > 0 else BUSY_PAUSE)

    def _read(self, limit: int) -> tuple[_Batch, int]:
        """Return what is new, and how much more there could have been."""
        batch: _Batch = []
        left = PER_TURN
        for seq, watched in list(self._watched.items()):
            for stream in watched.streams:
                if pieces := stream.read(limit, left):
                    gap = stream.gap(pieces, limit)
                    batch.append((Shown(watched.job, stream.name, pieces, gap), stream))
                    left -= sum(len(piece.data) for piece in pieces)
            self._watched[seq] = self._watched.pop(seq)
            if left <= 0:
                break
        return batch, left

    def end(self, runs: Iterable[Run]) -> None:
        """Clear up after runs whose ends are stored: what they wrote is kept with them."""
        if not self._touched:
            return
        for run in runs:
            key = (run.job.seq, run.job.attempts)
            if key in self._touched:
                self._touched.discard(key)
                self._watched.pop(run.job.seq, None)
                self._forget(run.job)

    def _forget(self, job: Job) -> None:
        try:
            self._store.live.end(job)
        except StoreError:
            return  # It is stale then, and taken away as such.
