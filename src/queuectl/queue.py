"""Queue: the Python interface. All that the command line and the web can do, they do through it.

from queuectl import Queue

queue = Queue("jobs.db")
job = queue.enqueue("make report", priority=5, timeout="10m")
queue.wait(job.id)
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from queuectl.administration import Administration
from queuectl.completion import Series
from queuectl.errors import BadJobError, NotFoundError, UsageError, shown
from queuectl.facts import Batch, Event, Progress
from queuectl.filter import Filter
from queuectl.job import FINISHED, WAITING, Attempt, Job, Like, NewJob, Output, State
from queuectl.place import Place, find_place
from queuectl.request import (
    Fields,
    Values,
    check_command,
    check_request,
    check_sought,
    read_duration,
    read_values,
)
from queuectl.store import open_store
from queuectl.store.contract import Store, chunks
from queuectl.store.ids import looks_made
from queuectl.values import replace
from queuectl.waiting import wait_until
from queuectl.when import milliseconds

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from queuectl.changes import Change, Changed, Refused
    from queuectl.explain import Reason, Surroundings
    from queuectl.report import Stats, Status

    Reasons = list[Reason]

T = TypeVar("T")
Request = str | Sequence[str] | Mapping[str, Any] | NewJob
Names = str | Sequence[str]
"""One name, or several."""
Named = str | Job
"""What says which job is meant: its id or, in place of that, the job."""
# `Queue.list` hides the builtin of that name inside the class, so its types are named out here.
Jobs = list[Job]
Attempts = list[Attempt]
Events = list[Event]

SHORTEST_PREFIX = 4
BATCH = 20_000
SOME = 500
"""Requests that are looked at together."""
SLOWEST = 5
"""Jobs that statistics name for having taken longest."""
MOST_AT_ONCE = 250_000
"""Jobs in one transaction. It holds up all other writers, who must renew their leases in time."""


class Queue(Administration):
    """A job queue in a store. Safe to share between threads; open a new one after a fork."""

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        create: bool = True,
        absent_ok: bool = False,
        place: Place | None = None,
    ) -> None:
        """Open the queue at a path or URL, or the one this directory and environment mean.

        A queue that doesn't exist yet is made, unless `create` is False: then it is a
        `StoreMissingError`. With `absent_ok` that holds only for one that was named. The default
        queue is an empty one then, for whoever reads, and nothing is made.
        """
        self.place = place or find_place(None if url is None else os.fspath(url))
        absent_ok = absent_ok and self.place.is_default
        self.store: Store = open_store(self.place.url, create=create, absent_ok=absent_ok)

    def __enter__(self) -> "Queue":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    @property
    def url(self) -> str:
        """Where the queue is, without secrets."""
        return self.store.url

    # -- enqueue --------------------------------------------------------------

    def enqueue(
        self, what: Request | None = None, *, connection: Any = None, **fields: Unpack[Fields]
    ) -> Job:
        """Store a job and return it. When this returns, the job survives a power cut.

        `what` is a shell command, a list (program and arguments, run without a shell), a mapping
        of fields, or a `NewJob`. Keywords override the fields of a mapping.

        With a `connection` of your own to the same database (psycopg, PyMySQL or apsw), the job
        becomes part of its transaction: it exists if and only if you commit.
        """
        # One look at the clock: a delay counts from the moment the job is created.
        now = self.store.now()
        new = self._completion().job(_read(what, fields, now))
        with self._on(connection):
            return self.store.jobs.enqueue_one(new, now=now)

    def enqueue_many(
        self,
        what: Iterable[Request],
        *,
        keep_going: bool = False,
        connection: Any = None,
        progress: Progress | None = None,
        total: int = 0,
        **fields: Unpack[Fields],
    ) -> Batch:
        """Store many jobs in their order: all of them or, if one can't be, none.

        Keywords are fields that hold for all. What a job says itself wins, but tags add up and
        variables merge.

        With `keep_going` they are stored in large batches, ids already taken are skipped, and what
        was stored before one that is wrong stays stored. Without it, at most 250,000 jobs can be
        stored at once. With a `connection`, they are part of its transaction, as in `enqueue`.
        """
        if isinstance(what, str | bytes | Mapping | NewJob):
            raise UsageError("enqueue_many takes several jobs, such as a list; enqueue takes one.")
        if "id" in fields:
            raise UsageError("An id is for a single job; of several, each says its own.")
        return self._enqueue_made(
            self._made(what, fields),
            keep_going=keep_going,
            connection=connection,
            progress=progress,
            total=total,
        )

    def _made(self, what: Iterable[Request], under: Mapping[str, Any]) -> Iterator[Like]:
        return chain.from_iterable(self._made_by_some(what, under))

    def _made_by_some(
        self, what: Iterable[Request], under: Mapping[str, Any]
    ) -> Iterator[Iterable[Like]]:
        series = Series(self._completion)
        read = 0
        for some in _parts(what, SOME):
            made: Iterable[Like] | None = None
            commands = [item for item in some if type(item) is str]
            if len(commands) == len(some) and not under:
                # If one is wrong, it is found, and named, by reading them one by one.
                with suppress(BadJobError):
                    made = series.commands(commands)
            if made is None:
                # A time such as +5m counts from when it is read; a delay, from when it is stored.
                now = self.store.now()
                made = map(series.job, _read_all(some, under, read + 1, now))
            yield made
            read += len(some)

    def enqueue_read(
        self,
        given: Iterable[Values],
        *,
        keep_going: bool = False,
        connection: Any = None,
        progress: Progress | None = None,
        total: int = 0,
    ) -> Batch:
        """Do what `enqueue_many` does with requests that `request.read_values` has read."""
        return self._enqueue_made(
            map(Series(self._completion).job, given),
            keep_going=keep_going,
            connection=connection,
            progress=progress,
            total=total,
        )

    def _enqueue_made(
        self,
        requests: Iterator[Like],
        *,
        keep_going: bool,
        connection: Any,
        progress: Progress | None,
        total: int,
    ) -> Batch:
        if keep_going and connection is None:
            parts = _parts(requests, BATCH)
            return self._enqueue_batches(parts, progress, total, skip_duplicates=True)
        # Everything is read before the store is locked: others wait for the writing only.
        jobs = list(islice(requests, MOST_AT_ONCE + 1))
        if len(jobs) > MOST_AT_ONCE:
            raise BadJobError(
                f"More than {MOST_AT_ONCE:,} jobs can't be stored all at once without holding up"
                " the workers; split them, or keep going, which stores batch by batch."
            )

        def store() -> Batch:
            parts = chunks(jobs, BATCH)
            return self._enqueue_batches(parts, progress, len(jobs), skip_duplicates=keep_going)

        if connection is None:
            return self.store.transact(store)
        with self._on(connection):
            return store()

    def _on(self, connection: Any) -> AbstractContextManager[None]:
        return nullcontext() if connection is None else self.store.borrowed(connection)

    def _enqueue_batches(
        self,
        parts: Iterable[Sequence[Like]],
        progress: Progress | None,
        total: int,
        *,
        skip_duplicates: bool,
    ) -> Batch:
        ids: list[str] = []
        duplicates: list[str] = []
        for jobs in parts:
            batch = self.store.jobs.enqueue(
                jobs, now=self.store.now(), skip_duplicates=skip_duplicates
            )
            ids += batch.ids
            duplicates += batch.duplicates
            if progress is not None:
                progress(len(ids) + len(duplicates), total)
        return Batch(ids=tuple(ids), duplicates=tuple(duplicates))

    # -- reading --------------------------------------------------------------

    def get(self, id: Named) -> Job:
        """Return the job with this id, or with the one id that begins with these characters.

        For a `Job`, which every method takes in place of an id, that is the job as it is now.
        """
        name = _id(id)
        job = self.store.jobs.get(name)
        if job is not None:
            return job
        if isinstance(id, Job):
            raise NotFoundError(f"Job {name} isn't here, or was removed meanwhile.")
        if len(name) >= SHORTEST_PREFIX:
            found = self.store.jobs.ids_like(name)
            if len(found) == 1:
                job = self.store.jobs.get(found[0])
            if len(found) > 1:
                shown = ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")
                raise UsageError(f"{name!r} fits several jobs ({shown}); give more characters.")
        elif self.store.jobs.ids_like(name, 1):
            raise NotFoundError(
                f"There is no job {name!r}; give at least {SHORTEST_PREFIX} characters of an id."
            )
        if job is None:
            raise NotFoundError(f"There is no job {name!r}.", advice="see queuectl list.")
        return job

    def meant(self, id: Named) -> Job:
        """Return the job with this id; the beginning is enough for ids that were made for a job.

        Those that people give must be named in full: who removes `job1` a second time, or waits for
        it then, doesn't mean `job10`.
        """
        job = self.get(id)
        if job.id == _id(id) or looks_made(job.id):
            return job
        raise NotFoundError(f"There is no job {id!r}; {job.id!r} must be named in full.")

    def _all_meant(self, call: str, jobs: Iterable[Named]) -> Jobs:
        """Return several jobs; those given as such are looked at where they are changed."""
        return [job if isinstance(job, Job) else self.meant(job) for job in _several(call, jobs)]

    def list(
        self,
        which: Filter | None = None,
        *,
        state: Names | None = None,
        queue: Names | None = None,
        tag: Names | None = None,
        limit: int | None = 50,
        after: Named | None = None,
        oldest: bool = False,
        sort: str | None = None,
    ) -> Jobs:
        """Return jobs as `iterate` does, as they are at one moment, and 50 unless `limit` says."""
        from queuectl.listing import check_limit

        chosen = _narrowed(which, state, queue, tag)
        limit = check_limit(limit)
        if sort is not None:
            return [*self.iterate(chosen, limit=limit, after=after, oldest=oldest, sort=sort)]
        return self.store.jobs.select(chosen, limit=limit, after=self._seq(after), oldest=oldest)

    def iterate(
        self,
        which: Filter | None = None,
        *,
        state: Names | None = None,
        queue: Names | None = None,
        tag: Names | None = None,
        limit: int | None = None,
        after: Named | None = None,
        oldest: bool = False,
        sort: str | None = None,
    ) -> Iterator[Job]:
        """Yield jobs, newest first, without holding them all: a million take no more memory.

        A state, queue or tag narrows it down, or a list of states, queues, or tags to have all of;
        a `Filter` says anything that can be asked for.
        `after` goes on behind the job with that id. `sort` names another order: "finished",
        "-duration" for the longest first, "queue,-priority" for both.
        """
        from queuectl import listing

        chosen = _narrowed(which, state, queue, tag)
        limit = listing.check_limit(limit)
        if sort is None:
            seq = self._seq(after)
            return listing.jobs(self.store, chosen, limit=limit, after=seq, oldest=oldest)
        if after is not None or oldest:
            raise UsageError("A sorted list has no after and no oldest; they go by the line.")
        return listing.sorted_jobs(self.store, chosen, listing.read_sort(sort), limit=limit)

    def _seq(self, id: Named | None) -> int | None:
        return None if id is None else self.get(id).seq

    def count(
        self,
        which: Filter | None = None,
        *,
        state: Names | None = None,
        queue: Names | None = None,
        tag: Names | None = None,
    ) -> int:
        """Return how many jobs fit, chosen as in `iterate`.

        By state and queue, that takes no longer with ten million jobs than with ten; otherwise all
        that fit are read.
        """
        from queuectl import listing

        chosen = _narrowed(which, state, queue, tag)
        known = listing.counted(self.store, chosen)
        return sum(1 for _ in self.iterate(chosen)) if known is None else known

    def attempts(self, id: Named) -> Attempts:
        """Return the runs of a job that are over, oldest first."""
        return self.store.history.attempts(self.get(id))

    def output(self, id: Named, attempt: int | None = None) -> Output:
        """Return what a finished run of a job wrote: the newest, or the one with this number."""
        if attempt is not None and type(attempt) is not int:
            raise UsageError(f"attempt must be the number of a run, not {shown(attempt)}.")
        job = self.get(id)
        runs = self.store.history.attempts(job)
        number = attempt if attempt is not None else (runs[-1].number if runs else 0)
        is_over = any(run.number == number for run in runs)
        found = self.store.history.output(job, number) if is_over else None
        if found is not None:
            return found
        if attempt is None:
            return Output()
        raise NotFoundError(f"Job {job.id} has no finished attempt {attempt}.")

    def events(self, id: Named | None = None, *, limit: int | None = 100) -> Events:
        """Return what was done by hand and which jobs died or were rescued, newest first."""
        return [*self.iterate_events(id, limit=limit)]

    def iterate_events(
        self, id: Named | None = None, *, limit: int | None = None
    ) -> Iterator[Event]:
        """Yield them without holding them all."""
        from queuectl import listing

        limit = listing.check_limit(limit)
        return listing.events(self.store, None if id is None else self.get(id).id, limit=limit)

    def explain(self, id: Named) -> "Reasons":
        """Say why a job waits, with all reasons there are; nothing for one that doesn't wait."""
        from queuectl.explain import explain

        job = self.get(id)
        return explain(job, self._surroundings()) if job.state in WAITING else []

    def hindrances(self, queues: Collection[str]) -> "Reasons":
        """Say what keeps all jobs of these queues from being started, if anything does."""
        from queuectl.explain import hindrances

        return hindrances(queues, self._surroundings())

    def _surroundings(self) -> "Surroundings":
        from queuectl.explain import Crew, Surroundings
        from queuectl.lifecycle import Policy

        return Surroundings(
            now=self.store.now(),
            crews=tuple(
                Crew(
                    queues=tuple(node["queues"]),
                    workers=node["workers"],
                    busy=node["running"],
                    stopping=node["stopping"] is not None,
                )
                for node in self.nodes()
                if node["alive"]
            ),
            queues=tuple(self.store.settings.queues()),
            suspicious=Policy(max_crashes=self.settings.max_crashes).suspicious,
        )

    def status(self) -> "Status":
        """Return counts per state and queue, and who works."""
        from queuectl.report import build_status

        return build_status(
            self.url,
            self.store.jobs.counts(),
            self.store.settings.queues(),
            self.nodes(),
            self.store.jobs.next_due(),
        )

    def stats(
        self,
        *,
        since: "int | datetime | None" = None,
        queue: str | None = None,
        tag: Names | None = None,
    ) -> "Stats":
        """Return totals, run and wait times, the slowest jobs and the spread of priorities.

        Times are those of runs that ended `since` then: a datetime, or milliseconds since 1970.
        With a tag, or several that a job must have, the times are those of the last runs of the
        jobs in the store, which are all read; without, they include jobs that were pruned.
        """
        from queuectl.report import build_stats, build_stats_of

        begin = None if since is None else milliseconds(since)
        if queue is not None:
            check_sought("queue", queue)
        which = _narrowed(None, None, queue, tag)
        if which.tags:
            return build_stats_of(self.iterate(which), since=begin, slowest=SLOWEST)
        counts = [c for c in self.store.jobs.counts() if queue is None or c.queue == queue]
        rollups = self.store.history.rollups(since=begin, queue=queue)
        return build_stats(counts, rollups, self._slowest(queue))

    def _slowest(self, queue: str | None) -> Jobs:
        if queue is None:
            return self.store.jobs.slowest(SLOWEST)
        return self.list(state=State.COMPLETED, queue=queue, sort="-duration", limit=SLOWEST)

    # -- waiting --------------------------------------------------------------

    def wait(
        self,
        *ids: Named,
        timeout: "str | float | timedelta | None" = None,
        tick: Callable[[int], None] | None = None,
    ) -> Jobs:
        """Wait until these jobs are finished (completed, dead or cancelled) and return them.

        Tells `tick` how many are left, whenever that may have changed and every second. Raises
        `TimeoutError` when the `timeout` is over: seconds, a text such as "5m", or a timedelta.
        """
        if not all(isinstance(id, str | Job) for id in ids):
            raise UsageError(
                "wait takes ids one by one: wait(id), wait(first, second), wait(*ids)."
            )
        seconds = None if timeout is None else read_duration("timeout", timeout) / 1000
        jobs = [self.meant(id) for id in ids]
        open_ids = {job.id for job in jobs}

        def remaining() -> int:
            states = self.store.jobs.states(sorted(open_ids))
            open_ids.difference_update(
                id for id in list(open_ids) if states.get(id) in (None, *FINISHED)
            )
            return len(open_ids)

        self.wait_until(remaining, timeout=seconds, tick=tick)
        return [self.store.jobs.get(job.id) or job for job in jobs]

    def wait_until(
        self,
        remaining: Callable[[], int],
        *,
        timeout: float | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        """Wait until `remaining()` is 0, asking it whenever the store has changed."""
        wait_until(remaining, self.store.changed, timeout=timeout, tick=tick)

    # -- changing -------------------------------------------------------------

    def cancel(self, id: Named, *, reason: str | None = None) -> Job:
        """Call a job off. A waiting job is cancelled at once, a running one is ended by its node.

        Cancelling a finished job is a `StateError`.
        """
        return self.cancel_all([self.meant(id)], reason=reason)[0]

    def cancel_all(self, jobs: Iterable[Named], *, reason: str | None = None) -> Jobs:
        """Call several jobs off: all of them or, if one can't be, none; returns them afterwards.

        This is one transaction, like `retry_all` and `remove_all`, and others wait for its end:
        change thousands of jobs with `change_matching`.
        """
        from queuectl import changes

        named = self._all_meant("cancel_all", jobs)
        return changes.make(self.store, named, changes.cancelling(reason))

    def retry(self, id: Named) -> Job:
        """Put a dead, cancelled or completed job back in line, or make a waiting retry due now.

        Failures and crashes are counted from zero again; attempts and history stay.
        """
        return self.retry_all([self.meant(id)])[0]

    def retry_all(self, jobs: Iterable[Named]) -> Jobs:
        """Put several jobs back in line: all of them or, if one can't be, none."""
        from queuectl import changes

        named = self._all_meant("retry_all", jobs)
        return changes.make(self.store, named, changes.RETRY)

    def retry_dead(self, id: Named) -> Job:
        """Put one job of the dead letter queue back in line; any other state is an error."""
        from queuectl import changes

        return changes.make(self.store, [self.meant(id)], changes.RETRY_DEAD)[0]

    def remove(self, id: Named) -> Job:
        """Delete a job that isn't running, with all its attempts and output."""
        return self.remove_all([self.meant(id)])[0]

    def remove_all(self, jobs: Iterable[Named]) -> Jobs:
        """Delete several jobs: all of them or, if one can't be, none; returns them as they were."""
        from queuectl import changes

        named = self._all_meant("remove_all", jobs)
        return changes.make(self.store, named, changes.REMOVE)

    def change_named(
        self,
        ids: Iterable[Named],
        change: "Change",
        *,
        dry_run: bool = False,
        told: "Callable[[Changed | Refused], None]" = lambda _: None,
    ) -> None:
        """Make a change to each job that is named, whatever becomes of the others.

        What became of each is told at once, also which couldn't be changed and why. Who is named
        twice is changed once.
        """
        from queuectl import changes

        named = _several("change_named", ids)
        changes.make_named(self.store, self.meant, named, change, told, dry_run=dry_run)

    def change_matching(
        self,
        which: Filter,
        change: "Change",
        *,
        dry_run: bool = False,
        told: "Callable[[Sequence[Changed]], None]" = lambda _: None,
    ) -> int:
        """Make a change to all jobs that fit, however many, and return how many those were.

        A filter without states means those in which the change is usual. Some hundred jobs are
        changed in each transaction, and told once that can't be undone any more.
        """
        from queuectl import changes

        return changes.make_matching(self.store, _filter(which), change, told, dry_run=dry_run)


def _id(named: Named) -> str:
    if isinstance(named, Job):
        return named.id
    if not isinstance(named, str):
        raise UsageError(f"A job is named by its id, which is text, not by {shown(named)}.")
    return named


def _several(call: str, jobs: Iterable[Named]) -> Iterable[Named]:
    """Return several jobs or ids as they are; one alone is an error, for it would be several, too.

    A text consists of letters, and a job of its fields.
    """
    if isinstance(jobs, str | Job) or not isinstance(jobs, Iterable):
        raise UsageError(f"{call} takes several jobs or ids, such as a list.")
    return jobs


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of a size; those before one that can't be had come first, too."""
    part: list[T] = []
    try:
        for item in items:
            part.append(item)
            if len(part) == size:
                yield part
                part = []
    except Exception:
        if part:
            yield part
        raise
    if part:
        yield part


def _read_all(
    some: Sequence[Request], under: Mapping[str, Any], first: int, now: int
) -> Iterator[Values]:
    for number, item in enumerate(some, first):
        try:
            yield _read(_laid(item, under) if under else item, {}, now)
        except UsageError as error:
            raise type(error)(f"Job number {number:,}: {error}", advice=error.advice) from None


def _laid(what: Request, under: Mapping[str, Any]) -> Request:
    """Lay a request over fields that hold for all."""
    from queuectl.overlay import overlay

    if isinstance(what, NewJob):
        raise BadJobError("A NewJob is complete; fields can't be added to it.")
    return overlay(under, _given(what))


def _given(what: Request) -> Mapping[str, Any]:
    if isinstance(what, str):
        return {"command": what}
    return what if isinstance(what, dict | Mapping) else {"argv": what}


def _read(what: Request | None, fields: Mapping[str, Any], now: int) -> Values:
    if isinstance(what, str) and not fields:
        return {"command": check_command(what)}
    if isinstance(what, NewJob):
        if fields:
            raise BadJobError("A NewJob is complete; keywords can't be added to it.")
        return check_request(what)
    given = {} if what is None else _given(what)
    return read_values({**given, **fields} if fields else given, now=now)


def _narrowed(
    which: Filter | None, state: Names | None, queue: Names | None, tag: Names | None
) -> Filter:
    chosen = Filter() if which is None else _filter(which)
    given = {"states": state, "queues": queue, "tags": tag}
    # The filter makes tuples of them.
    changes: Any = {name: value for name, value in given.items() if value is not None}
    return replace(chosen, **changes)


def _filter(which: Filter) -> Filter:
    if not isinstance(which, Filter):
        raise UsageError(f"Which jobs are meant is said by a Filter, not by {shown(which)}.")
    return which
