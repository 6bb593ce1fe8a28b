"""Finds jobs as they begin to run, also those that are over before anybody could look."""

from collections.abc import Iterator

from queuectl.facts import Event
from queuectl.filter import Filter
from queuectl.job import WAITING, Job, State
from queuectl.store.contract import Store
from queuectl.values import replace

WATCHED = 2_000
"""Waiting jobs that are watched: more than can run between two looks."""
EVENTS = 200
"""Events that are read at first, to find those since the last look ..."""
MOST_EVENTS = 100_000
"""... and at most."""


class StartedJobs:
    """The jobs that begin to run, look after look.

    One that runs at a look is easily seen. For one that starts and ends in between we watch those
    that wait: the first in line, those that are enqueued, and those that somebody retries.
    """

    def __init__(self, store: Store, which: Filter) -> None:
        """Begin with the jobs that wait now; those that are over already are of no interest."""
        self._store = store
        self._which = which
        self._last = self._newest()
        self._event = self._newest_event()
        self._waiting: dict[str, int] = {}
        """Jobs that wait, and how many runs each of them has behind it."""
        self._followed: set[str] = set()
        self._take_waiting()

    def look(self) -> list[tuple[Job, int]]:
        """Return jobs that began to run since the last look, each with the run to begin at."""
        found = {job.id: job for job in self._select((State.PROCESSING,), limit=None)}
        self._take_new()
        self._take_retried()
        found |= {job.id: job for job in self._started() if job.id not in found}
        if len(self._waiting) < WATCHED // 2:
            self._take_waiting()
        fresh = [job for job in found.values() if job.id not in self._followed]
        self._followed.update(job.id for job in fresh)
        return [(job, self._waiting.pop(job.id, job.attempts - 1) + 1) for job in fresh]

    def expects(self, job: Job) -> bool:
        """Tell whether a later look returns this job: it waited when we last saw it."""
        return job.id in self._waiting

    def forget(self, job: Job) -> None:
        """Stop following a job that is finished: should it be retried, it is a newcomer again."""
        self._followed.discard(job.id)
        self._waiting.pop(job.id, None)

    def _select(self, states: tuple[State, ...], *, limit: int | None) -> list[Job]:
        return self._store.jobs.select(
            replace(self._which, states=states), limit=limit, oldest=True
        )

    def _take_waiting(self) -> None:
        for job in self._select(WAITING, limit=WATCHED):
            self._waiting.setdefault(job.id, job.attempts)

    def _take_new(self) -> None:
        """Watch the jobs that were enqueued since the last look."""
        newest = self._newest()
        if newest > self._last:
            limit = min(newest - self._last, WATCHED)
            for job in self._store.jobs.select(self._which, limit=limit):
                if job.seq > self._last:
                    self._waiting.setdefault(job.id, 0)
            self._last = newest

    def _take_retried(self) -> None:
        """Watch the jobs that somebody has put back in line since the last look."""
        known, self._event = self._event, self._newest_event()
        if self._event == known:
            return
        for event in self._events_since(known):
            job = self._store.jobs.get(event.job) if event.kind == "retry" and event.job else None
            if job is not None and self._fits(job):
                runs = self._store.history.attempts(job)
                before = [run.number for run in runs if run.started_at < event.at]
                self._waiting.setdefault(job.id, max(before, default=0))

    def _events_since(self, known: Event | None) -> list[Event]:
        """Return what happened after an event, newest first."""
        limit = EVENTS
        while True:
            events = self._store.history.events(limit=limit)
            if known in events:
                return events[: events.index(known)]
            if len(events) < limit or limit >= MOST_EVENTS:
                return events
            limit *= 10

    def _fits(self, job: Job) -> bool:
        in_queue = not self._which.queues or job.queue in self._which.queues
        in_group = not self._which.groups or job.group in self._which.groups
        return in_queue and in_group and set(self._which.tags) <= set(job.tags)

    def _started(self) -> Iterator[Job]:
        """Return those we knew as waiting that have run since."""
        states = self._store.jobs.states(list(self._waiting))
        for id in list(self._waiting):
            state = states.get(id)
            if state is None:
                del self._waiting[id]
            elif state not in (State.PENDING, State.BLOCKED):
                job = self._store.jobs.get(id)
                if job is not None and job.attempts > self._waiting[id]:
                    yield job

    def _newest(self) -> int:
        newest = self._store.jobs.select(Filter(), limit=1)
        return newest[0].seq if newest else 0

    def _newest_event(self) -> Event | None:
        return next(iter(self._store.history.events(limit=1)), None)
