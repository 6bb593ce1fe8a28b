"""Following what jobs write while they run: one job, several, or all that run.

What a run writes is read as it comes, wherever it runs (`queuectl.outputs`). When the run is over
the store has what it wrote, and the rest is taken from there, so that the end is never lost.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from time import monotonic, sleep
from typing import Protocol

from queuectl.filter import Filter
from queuectl.job import FINISHED, OPEN, WAITING, Attempt, Job, Output, State
from queuectl.listing import jobs
from queuectl.outputs import ANSWER_WITHIN, LiveOutput
from queuectl.started import StartedJobs
from queuectl.store.contract import Store
from queuectl.values import replace

PAUSE = 0.05
"""Seconds between two looks at the files: well within the half second a line may take."""
LOOK_ANYWAY = 1.0
STDOUT, STDERR = 0, 1

PAGE = 200
"""Finished jobs that are shown between two looks at those that run."""

Talk = Callable[[str], None]
Tick = Callable[[], None]


class Sink(Protocol):
    """Takes what a job writes, stream by stream."""

    def begin_run(self, number: int) -> None:
        """Expect what the run with this number writes."""

    def write(self, stream: int, data: bytes) -> None:
        """Take bytes of stream 0 (stdout) or 1 (stderr)."""

    def gap(self, stream: int, missing: int) -> None:
        """Mark that so many bytes are missing here."""

    def end_run(self) -> None:
        """Finish what belongs to a run."""

    def close(self) -> None:
        """Finish. What was written so far is complete, also if the job goes on."""


class Follower:
    """Follows one job from run to run and hands what it writes to a sink."""

    def __init__(
        self,
        store: Store,
        job: Job,
        sink: Sink,
        *,
        first: int,
        seen: tuple[int, int] = (0, 0),
        last: int | None = None,
        talk: Talk = lambda text: None,
    ) -> None:
        """Follow a job from its run `first` on, up to its run `last` or its end.

        Of that first run, so many bytes of stdout and stderr were `seen` before.
        """
        self.job = job
        self._last = last
        self._store = store
        self._sink = sink
        self._talk = talk
        self._number = first
        """The run we are at; those before it are dealt with."""
        self._seen = [*seen]
        """How far we are in each stream of that run."""
        self._live: LiveOutput | None = None
        sink.begin_run(first)

    def step(self, *, changed: bool) -> bool:
        """Pass on what is new; returns False when nothing more will come."""
        if changed:
            job = self._store.jobs.get(self.job.id)
            if job is None:
                self._talk(f"Job {self.job.id} was removed.")
                self._sink.close()
                return False
            self.job = job
            self._take_ended()
        if self._last is not None and self._number > self._last:
            self._sink.close()
            return False
        if self.job.state == State.PROCESSING and self.job.attempts == self._number:
            self._read_live()
        elif self.job.state in FINISHED:
            self._sink.close()
            return False
        return True

    def show(self, *, warn: Talk = lambda text: None) -> None:
        """Pass on what there is by now."""
        deadline = monotonic() + ANSWER_WITHIN
        try:
            while self.step(changed=True) and self._live is not None and self._live.awaited:
                if monotonic() > deadline:
                    self._sink.close()
                    warn(f"Node {self.job.node} doesn't answer; this may not be all.")
                    return
                sleep(2 * PAUSE)
        finally:
            self._sink.close()

    def close(self) -> None:
        """Leave what was passed on so far complete."""
        self._sink.close()

    def _take_ended(self) -> None:
        """Pass on the rest of every run that is over by now."""
        running = self.job.state == State.PROCESSING
        if self._number > self.job.attempts - running:
            return
        for attempt in self._store.history.attempts(self.job):
            if self._number <= attempt.number <= (self._last or attempt.number):
                self._end_run(attempt)
        if self._number < self.job.attempts + (not running):
            self._begin(self.job.attempts + (not running))

    def _end_run(self, attempt: Attempt) -> None:
        if attempt.number != self._number:
            self._begin(attempt.number)
        output = self._store.history.output(self.job, attempt.number) or Output()
        self._rest(STDOUT, output.stdout, output.stdout_bytes)
        self._rest(STDERR, output.stderr, output.stderr_bytes)
        self._sink.end_run()
        self._begin(attempt.number + 1)
        if attempt.error is not None or self.job.state not in FINISHED:
            self._talk(between(attempt, self.job, self._store.clock.now()))

    def _begin(self, number: int) -> None:
        self._number = number
        self._seen = [0, 0]
        self._live = None
        self._sink.begin_run(number)

    def _rest(self, stream: int, data: bytes, total: int) -> None:
        """Pass on what the store has of a stream behind the point we reached."""
        torn = self._live is not None and self._live.torn[stream]
        pass_on(self._sink, stream, data, total, seen=0 if torn else self._seen[stream])

    def _read_live(self) -> None:
        if self._live is None:
            self._live = LiveOutput(self._store, self.job)
        for stream in (STDOUT, STDERR):
            for piece in self._live.read(stream, self._seen[stream]):
                if piece.start > self._seen[stream]:
                    # We are too slow: the middle of a long output is freed while it is written.
                    self._sink.gap(stream, piece.start - self._seen[stream])
                self._sink.write(stream, piece.data)
                self._seen[stream] = piece.start + len(piece.data)


def pass_on(sink: Sink, stream: int, data: bytes, total: int, *, seen: int = 0) -> None:
    """Pass on what is kept of a stream of `total` bytes, behind those that were `seen`."""
    from queuectl.guard.output import gap_at

    missing = max(total - len(data), 0)
    if not missing:
        # A job can empty its own output; then what is kept was written since.
        sink.write(stream, data[0 if seen > total else seen :])
        return
    head, tail = data[: gap_at(len(data))], data[gap_at(len(data)) :]
    tail_at = len(head) + missing
    if seen < len(head):
        sink.write(stream, head[seen:])
    if seen < tail_at:
        sink.gap(stream, tail_at - max(seen, len(head)))
    sink.write(stream, tail[max(seen - tail_at, 0) :])


Make = Callable[[Job, int], Follower]
"""Makes a follower for a job, from a run on."""


def between(attempt: Attempt, job: Job, now: int) -> str:
    from queuectl.when import until

    text = f"Job {job.id}, attempt {attempt.number}: {attempt.error or attempt.outcome}"
    if job.state in WAITING and job.run_at > now:
        return f"{text}; the next one is due {until(job.run_at, now)}"
    return text


def follow_jobs(store: Store, followers: list[Follower], *, tick: Tick) -> None:
    clock = _Looks(store)
    with _closing(followers):
        while followers:
            changed = clock.changed()
            followers[:] = [f for f in followers if f.step(changed=changed)]
            tick()
            if followers:
                sleep(PAUSE)


def show_jobs(store: Store, which: Filter, make: Make, *, warn: Talk) -> None:
    for job in jobs(store, which, oldest=True):
        make(job, max(job.attempts, 1)).show(warn=warn)


def follow_all(store: Store, which: Filter, make: Make, *, whole: bool, tick: Tick) -> None:
    started = StartedJobs(store, which)
    clock = _Looks(store)
    past = jobs(store, replace(which, states=FINISHED), oldest=True) if whole else iter(())
    seen: set[str] = set()
    """Jobs that were followed before the pages of the past came to them."""
    followers: list[Follower] = []
    with _closing(followers):
        while True:
            page = list(islice(past, PAGE))
            changed = clock.changed() or bool(page)
            over = whole and changed and not page and not _open(store, which)
            if changed:
                found = started.look()
                followers += [make(job, first) for job, first in found]
                seen.update(job.id for job, _ in found)
            for job in page:
                if job.id not in seen and not started.expects(job):
                    make(job, max(job.attempts, 1)).show()
            going: list[Follower] = []
            for follower in followers:
                if follower.step(changed=changed):
                    going.append(follower)
                else:
                    started.forget(follower.job)
            followers[:] = going
            tick()
            if over and not followers:
                return
            if not page:
                sleep(PAUSE)


def _open(store: Store, which: Filter) -> bool:
    """Tell whether any job that fits isn't finished."""
    return bool(store.jobs.select(replace(which, states=OPEN), limit=1))


@contextmanager
def _closing(followers: list[Follower]) -> Iterator[None]:
    """Close those that are still in the list in the end, also if that is Ctrl+C."""
    try:
        yield
    finally:
        for follower in followers:
            follower.close()


class _Looks:
    """Says when to look at the store: after a change, and every second anyway."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked = -LOOK_ANYWAY

    def changed(self) -> bool:
        changed = self._store.changed()
        if changed or monotonic() - self._looked >= LOOK_ANYWAY:
            self._looked = monotonic()
            return True
        return False
