"""Following what jobs write, over HTTP: a stream of events for each of them.

Each is read in a thread of its own, and handed on by one. A stream that breaks is begun anew behind
the last byte that came, for as long as it takes: the server is told where that is.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from queuectl.errors import QueuectlError, StoreUnreachableError
from queuectl.filter import Filter
from queuectl.following import Follower, Make, Sink, Talk, Tick, between, pass_on
from queuectl.job import FINISHED, OPEN, Job, State
from queuectl.outputs import STREAMS
from queuectl.remote.http import Client, LostError, Message, Reply
from queuectl.remote.news import News
from queuectl.remote.wire import error_of
from queuectl.values import replace

if TYPE_CHECKING:
    from queuectl.queue import Queue

PAUSE = 0.1
"""Seconds between two ticks, while nothing comes."""
LOOK_ANYWAY = 1.0


class RemoteFollower(Follower):
    """Hands on what a job behind a server writes."""

    def __init__(
        self,
        queue: "Queue",
        job: Job,
        sink: Sink,
        *,
        first: int,
        seen: tuple[int, int] = (0, 0),
        last: int | None = None,
        talk: Talk = lambda text: None,
    ) -> None:
        self.job = job
        self._queue = queue
        self._sink = sink
        self._last = last
        self._talk = talk
        self._number = first
        self._seen = [*seen]
        self.is_over = False
        """Whether nothing more will come."""
        sink.begin_run(first)

    @property
    def number(self) -> int:
        """The run that it is at."""
        return self._number

    @property
    def place(self) -> str:
        """How far it has come, as the server counts."""
        return f"{self._number}.{self._seen[0]}.{self._seen[1]}"

    def show(self, *, warn: Talk = lambda text: None) -> None:
        """Pass on what there is by now."""
        self.job = self._queue.get(self.job)
        runs = {run.number: run for run in self._queue.attempts(self.job)}
        newest = self.job.attempts if self._last is None else min(self._last, self.job.attempts)
        try:
            for number in range(self._number, newest + 1):
                if number != self._number:
                    self._begin(number)
                running = self.job.state == State.PROCESSING and number == self.job.attempts
                if number not in runs and not running:
                    continue
                found = self._queue.written(self.job, number)
                for stream, (data, total) in enumerate(
                    (
                        (found.output.stdout, found.output.stdout_bytes),
                        (found.output.stderr, found.output.stderr_bytes),
                    )
                ):
                    pass_on(self._sink, stream, data, total, seen=self._seen[stream])
                if not found.whole:
                    warn(f"Node {self.job.node} doesn't answer; this may not be all.")
                if found.run is not None:
                    self._sink.end_run()
                    if found.run.error is not None or self.job.state not in FINISHED:
                        self._talk(between(found.run, found.job, self._queue.now()))
        finally:
            self._sink.close()

    def take(self, message: Message) -> None:
        """Hand on what an event of the stream says."""
        said = message.data
        if message.name in ("output", "gap", "over"):
            if said["attempt"] < self._number:
                # It was over before the stream broke; that is told once more.
                return
            if said["attempt"] > self._number:
                self._begin(said["attempt"])
        match message.name:
            case "output":
                data = b64decode(said["base64"]) if "base64" in said else said["text"].encode()
                stream = STREAMS.index(said["stream"])
                self._seen[stream] += len(data)
                self._sink.write(stream, data)
            case "gap":
                stream = STREAMS.index(said["stream"])
                self._seen[stream] += said["bytes"]
                self._sink.gap(stream, said["bytes"])
            case "over":
                self._sink.end_run()
                if self._last is not None and self._number >= self._last:
                    self.end()
                else:
                    self._begin(self._number + 1)
            case "note":
                self._talk(said["text"])
            case "end":
                self.end()
            case "trouble":
                raise error_of({"text": said.get("detail"), **said})

    def end(self) -> None:
        """Expect nothing more."""
        self.is_over = True
        self._sink.close()

    def _begin(self, number: int) -> None:
        self._number, self._seen = number, [0, 0]
        self._sink.begin_run(number)


class _Streams:
    """The streams of several jobs, each read by a thread; what comes is taken one by one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: SimpleQueue[tuple[RemoteFollower, Message | QueuectlError]] = SimpleQueue()
        self._over = Event()
        self._replies: dict[RemoteFollower, Reply] = {}
        self.open: list[RemoteFollower] = []

    def add(self, follower: Follower) -> None:
        """Follow a job from now on."""
        one = cast(RemoteFollower, follower)
        self.open.append(one)
        Thread(target=self._read, args=[one], name="follow", daemon=True).start()

    def hear(self) -> None:
        """Hand on what has come; waits a moment if nothing has."""
        try:
            follower, told = self._told.get(timeout=PAUSE)
            while True:
                if isinstance(told, QueuectlError):
                    raise told
                if not follower.is_over:
                    follower.take(told)
                if follower.is_over and follower in self.open:
                    self.open.remove(follower)
                follower, told = self._told.get_nowait()
        except Empty:
            return

    def close(self) -> None:
        """Hear of none any more; what came is complete."""
        self._over.set()
        for reply in list(self._replies.values()):
            reply.hang_up()
        for follower in self.open:
            follower.close()

    def _read(self, follower: RemoteFollower) -> None:
        # The place moves when an event is taken; until then it is that of the last one read.
        place = follower.place
        path = f"/jobs/{quote(follower.job.id, safe='')}/follow"
        with self._client.patient(None):
            while not self._over.is_set() and not follower.is_over:
                try:
                    reply = self._replies[follower] = self._client.stream(path, place)
                    for message in reply.events():
                        place = message.id or place
                        self._told.put((follower, message))
                        if message.name in ("end", "trouble"):
                            return
                except (LostError, StoreUnreachableError):
                    pass
                except QueuectlError as error:
                    self._told.put((follower, error))
                    return
                self._over.wait(PAUSE)


@contextmanager
def _streams(client: Client) -> Iterator[_Streams]:
    with closing(_Streams(client)) as streams, client.patient(None):
        yield streams


def follow_jobs(client: Client, followers: list[Follower], *, tick: Tick) -> None:
    """Follow jobs until all of them are finished."""
    with _streams(client) as streams:
        for follower in followers:
            streams.add(follower)
        while streams.open:
            streams.hear()
            followers[:] = streams.open
            tick()


def follow_all(
    queue: "Queue", client: Client, which: Filter, make: Make, *, whole: bool, tick: Tick
) -> None:
    """Follow every job that fits and runs; with `whole`, until all that fit are finished."""
    since = queue.now()
    seen: dict[str, int] = {}
    """The newest run of each job that is followed, or was shown."""

    def show(found: Filter) -> None:
        followed = {one.job.id for one in streams.open}
        for job in queue.list(found, limit=None, oldest=True):
            if job.id not in followed and seen.get(job.id, 0) < max(job.attempts, 1):
                first = seen.get(job.id, max(job.attempts, 1) - 1) + 1
                seen[job.id] = max(job.attempts, 1)
                make(job, first).show()

    with News(client) as news, _streams(client) as streams:
        if whole:
            show(replace(which, states=FINISHED))
        look = _every(news.changed)
        while True:
            if look():
                now = queue.now()
                followed = {one.job.id for one in streams.open}
                for job in queue.list(which, state=State.PROCESSING, limit=None):
                    if job.id not in followed:
                        seen[job.id] = job.attempts
                        streams.add(make(job, job.attempts))
                # Those that began and ended between two looks.
                show(replace(which, states=FINISHED, finished_since=since))
                since = now
                is_over = whole and not streams.open
                if is_over and not queue.list(which, state=OPEN, limit=1):
                    return
            streams.hear()
            for one in streams.open:
                seen[one.job.id] = max(seen.get(one.job.id, 0), one.number)
            tick()


def _every(changed: Callable[[], bool]) -> Callable[[], bool]:
    """Return what tells whether to look: after a change, and every second anyway."""
    from time import monotonic

    looked = -LOOK_ANYWAY

    def due() -> bool:
        nonlocal looked
        if changed() or monotonic() - looked >= LOOK_ANYWAY:
            looked = monotonic()
            return True
        return False

    return due
