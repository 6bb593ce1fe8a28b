"""Reads jobs and events page by page, so that a long list takes no more memory than a short one."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from queuectl.errors import UsageError, did_you_mean, shown
from queuectl.facts import Event
from queuectl.filter import ANY_EVENT, EventFilter, Filter, Names, Sort
from queuectl.finding import get
from queuectl.history import seen
from queuectl.job import ANY_TYPE, TYPE, Job, Named, State
from queuectl.scope import is_bounded
from queuectl.store.contract import Store, chunks
from queuectl.values import dataclass, replace
from queuectl.when import milliseconds

T = TypeVar("T")

PAGE = 1_000
"""Jobs or events read at a time."""
FIRST = 100
"""Jobs of very many that are read first, when it isn't known yet how long they are."""
PAGE_BYTES = 4 << 20
"""What the jobs of a page may come to, if they are as long as the longest of the one before."""

LOOKED_AT = 500
"""Of very many jobs, so many are looked at to find those whose ids begin in some way."""

FEW = 100
"""Of very many jobs, so many are looked at to find types."""

MOST = 2**62
"""What no list can have, and databases can still count to."""

OUT_OF_ORDER = 60_000
"""Milliseconds by which an event may be older than one that was kept before it."""

SORTS = {
    "id": "id",
    "queue": "queue",
    "state": "state",
    "command": "command",
    "priority": "priority",
    "attempts": "attempts",
    "failures": "failures",
    "crashes": "crashes",
    "duration": "duration_ms",
    "exit_code": "exit_code",
    "created": "created_at",
    "due": "run_at",
    "started": "started_at",
    "finished": "finished_at",
    "updated": "updated_at",
    "expires": "expires_at",
    "timeout": "timeout",
    "node": "node",
}
"""What jobs can be sorted by, and the column that has it. The column's own name will do as well."""


class Page(Generic[T]):
    """The first so many of some items, which knows afterwards how many they were."""

    def __init__(self, items: Callable[[int | None], Iterator[T]], limit: int | None) -> None:
        """Take who gives items when told how many at most; one more than wanted is asked for."""
        self._items = items(None if limit is None else limit + 1)
        self._limit = limit
        self.count = 0
        self.last: T | None = None
        self.more = False
        """Whether there are others behind them."""

    def __iter__(self) -> Iterator[T]:
        for item in islice(self._items, self._limit):
            self.count += 1
            self.last = item
            yield item
        self.more = self._limit is not None and next(self._items, None) is not None


def read_sort(text: str) -> tuple[Sort, ...]:
    """Read what to sort by: `finished`, `-duration` (the longest first), `queue,-priority`.

    Raises:
        UsageError: There is no such field, or it comes twice.
    """
    if not isinstance(text, str):
        raise UsageError(f"sort names fields, as in 'queue,-priority'; it can't be {shown(text)}.")
    by: dict[str, Sort] = {}
    for word in text.split(","):
        one = _read_one(word.strip())
        if by.setdefault(one.column, one) is not one:
            raise UsageError(f"Jobs are sorted by {word.strip()[:60]!r} already; name it once.")
    return tuple(by.values())


def check_limit(limit: int | None) -> int | None:
    """Return how many are wanted at most, None for all; what is no such number is an error."""
    if limit is None:
        return None
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
        return min(limit, MOST)
    raise UsageError(
        f"limit must be a whole number from 0 on, or None for all, not {shown(limit)}."
    )


def _read_one(word: str) -> Sort:
    name = word.removeprefix("-").lower()
    column = SORTS.get(name, name)
    if column not in SORTS.values():
        hint = did_you_mean(name, SORTS, f"use one of {', '.join(SORTS)}.")
        raise UsageError(f"Jobs can't be sorted by {shown(name)}; {hint}")
    return Sort(column, descending=word.startswith("-"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Some jobs that fit, and how far was looked for them."""

    jobs: list[Job]
    next: Job | None
    """Behind which one there may be others."""
    stopped: bool
    """Whether it was looked at so many that don't fit that it is enough for once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedEvents:
    """Some events that fit, newest first, and where others are."""

    events: list[Event]
    newer: int | None
    """After which seq there may be newer ones."""
    older: int | None
    """Before which seq there may be older ones."""
    reached: Event | None
    """Up to which one was looked, where it was looked at so many that it is enough for once."""


def narrowed(
    which: Filter | None,
    *,
    state: Names | None = None,
    queue: Names | None = None,
    tag: Names | None = None,
    type: Names | None = None,
) -> Filter:
    """Return a filter, or one that takes all, with these names of each kind for its own."""
    chosen = Filter() if which is None else check_filter(which)
    given = {"states": state, "queues": queue, "tags": tag, "types": type}
    # The filter makes tuples of them.
    changes: Any = {name: value for name, value in given.items() if value is not None}
    return replace(chosen, **changes)


def check_filter(which: Filter) -> Filter:
    """Return a filter; what is none is an error."""
    if not isinstance(which, Filter):
        raise UsageError(f"Which jobs are meant is said by a Filter, not by {shown(which)}.")
    return which


def snapshot(
    store: Store,
    which: Filter,
    *,
    limit: int | None,
    after: Named | None,
    oldest: bool,
    sort: str | None,
) -> list[Job]:
    """Return the jobs that fit, as they are at one moment; sorted, or in the order of the line."""
    if sort is not None:
        return [*iterate(store, which, limit=limit, after=after, oldest=oldest, sort=sort)]
    seq = None if after is None else get(store, after).seq
    return store.jobs.select(which, limit=check_limit(limit), after=seq, oldest=oldest)


def search(
    store: Store, which: Filter, *, limit: int, looks: int, after: Named | None, oldest: bool
) -> Searched:
    """Return the first jobs that fit, of so many at most that may fit."""
    seq = None if after is None else get(store, after).seq
    horizon = None
    if not _is_by_index(which):
        horizon = store.jobs.horizon(which, looks=looks, after=seq, oldest=oldest)
    last = None if horizon is None else horizon.seq
    found = store.jobs.select(which, limit=limit + 1, after=seq, last=last, oldest=oldest)
    if len(found) > limit:
        return Searched(jobs=found[:limit], next=found[limit - 1], stopped=False)
    return Searched(jobs=found, next=horizon, stopped=horizon is not None)


def _is_by_index(which: Filter) -> bool:
    """Tell whether all jobs that are looked at fit."""
    if which.tags:
        return which == Filter(tags=which.tags[:1])
    return which == Filter(states=which.states, queues=which.queues)


def iterate(
    store: Store,
    which: Filter,
    *,
    limit: int | None = None,
    after: Named | None = None,
    oldest: bool = False,
    sort: str | None = None,
) -> Iterator[Job]:
    limit = check_limit(limit)
    if sort is None:
        seq = None if after is None else get(store, after).seq
        return jobs(store, which, limit=limit, after=seq, oldest=oldest)
    if after is not None or oldest:
        raise UsageError("A sorted list has no after and no oldest; they go by the line.")
    return sorted_jobs(store, which, read_sort(sort), limit=limit)


def jobs(
    store: Store,
    which: Filter,
    *,
    limit: int | None = None,
    after: int | None = None,
    oldest: bool = False,
) -> Iterator[Job]:
    """Yield the jobs that fit, newest first (or `oldest` first), behind the one with seq `after`.

    Each page is read when it is wanted: what changes meanwhile may or may not be seen, but no job
    comes twice, and none that fits all the while is left out.
    """
    size = FIRST if limit is None else min(PAGE, limit)
    left = limit
    while left is None or left > 0:
        page = store.jobs.select(which, limit=size, after=after, oldest=oldest)
        yield from page if left is None else page[:left]
        if len(page) < size:
            return
        after = page[-1].seq
        if limit is None:
            size = max(1, min(PAGE, PAGE_BYTES // max(1, *map(_length, page))))
        left = None if left is None else left - len(page)


def _length(job: Job) -> int:
    """Return about how much memory takes what a job runs."""
    return len(job.command or "") + sum(map(len, job.argv or ())) + len(job.data or b"")


def sorted_jobs(
    store: Store, which: Filter, by: tuple[Sort, ...], *, limit: int | None = None
) -> Iterator[Job]:
    """Yield the jobs that fit, sorted; of equal ones the newest first.

    The store sorts. Of what doesn't fit on a page only the places are held, a number for each job.
    """
    for part in chunks(store.jobs.places(which, by, limit=limit), PAGE):
        yield from store.jobs.at(part)


def events(
    store: Store,
    job: str | None = None,
    *,
    action: str | None = None,
    which: EventFilter = ANY_EVENT,
    before: int | None = None,
    limit: int | None = None,
) -> Iterator[Event]:
    """Yield events, newest first: of one job, of one action, or all; behind one that was read."""
    size = PAGE if limit is None else min(PAGE, limit)
    return islice(_all_events(store, job, action, which, before, size), limit)


def search_events(
    store: Store,
    job: str | None,
    *,
    action: str | None,
    which: EventFilter,
    limit: int,
    looks: int,
    before: int | None,
    after: int | None,
) -> SearchedEvents:
    """Return the first events that fit before one or after one, of so many at most that may fit."""
    if before is not None and after is not None:
        raise UsageError("Say either before or after.")
    oldest = after is not None
    start, end = _between(store, which, before, after)
    horizon = None
    if which != ANY_EVENT:
        horizon = store.history.horizon(
            job, action=action, looks=looks, before=end, after=start, oldest=oldest
        )
    if horizon is not None:
        start, end = (start, horizon.seq + 1) if oldest else (horizon.seq - 1, end)
    found = store.history.events(
        job,
        action=action,
        which=which,
        limit=limit + 1,
        before=end,
        after=start,
        oldest=oldest,
    )
    if len(found) > limit:
        found, horizon = found[:limit], None
        edge: int | None = found[-1].seq
    else:
        edge = None if horizon is None else horizon.seq
    first = found[0].seq if found else None
    if after is not None:
        older = after + 1 if first is None else first
        return SearchedEvents(events=found[::-1], newer=edge, older=older, reached=horizon)
    newer = None
    if before is not None:
        newer = before - 1 if first is None else first
    return SearchedEvents(events=found, newer=newer, older=edge, reached=horizon)


def _between(
    store: Store, which: EventFilter, before: int | None, after: int | None
) -> tuple[int | None, int | None]:
    """Return after and before which seq events can fit."""
    if which.since is not None:
        start = _first_since(store, milliseconds(which.since) - OUT_OF_ORDER) - 1
        after = start if after is None else max(after, start)
    if which.until is not None:
        end = _first_since(store, milliseconds(which.until) + OUT_OF_ORDER)
        before = end if before is None else min(before, end)
    return after, before


def _first_since(store: Store, at: int) -> int:
    """Return a seq from which on all events are from a time or later, if they are in its order."""
    newest, oldest = store.history.events(limit=1), store.history.events(limit=1, oldest=True)
    if not newest or not oldest:
        return 1
    low, high = oldest[0].seq, newest[0].seq + 1
    while low < high:
        middle = (low + high) // 2
        found = store.history.events(limit=1, before=middle + 1)
        if found and found[0].at >= at:
            high = found[0].seq
        else:
            low = middle + 1
    return low


def with_events(store: Store, id: Named) -> str:
    """Return the whole id of a job that is meant, also of one that is gone."""
    if isinstance(id, str) and store.history.events(id, limit=1):
        return id
    return get(store, id).id


def _all_events(
    store: Store,
    job: str | None,
    action: str | None,
    which: EventFilter,
    before: int | None,
    size: int,
) -> Iterator[Event]:
    start, before = _between(store, which, before, None)
    while size:
        page = store.history.events(
            job, action=action, which=which, limit=size, before=before, after=start
        )
        yield from _seen(page, which)
        if len(page) < size:
            return
        before = page[-1].seq


def _seen(found: Sequence[Event], which: EventFilter) -> Iterator[Event]:
    """Yield events as who asks may see them, if they fit as they are seen."""
    for event in map(seen, found):
        if not is_bounded() or which.text.lower() in (event.detail or "").lower():
            yield event


def count(store: Store, which: Filter) -> int:
    known = counted(store, which)
    return sum(1 for _ in jobs(store, which)) if known is None else known


def counted(store: Store, which: Filter) -> int | None:
    if which != Filter(states=which.states, queues=which.queues):
        return None
    return sum(
        count.jobs
        for count in store.jobs.counts()
        if (not which.states or count.state in which.states)
        and (not which.queues or count.queue in which.queues)
    )


def like(store: Store, prefix: str, states: Sequence[State], *, limit: int) -> list[Job]:
    newest = store.jobs.select(Filter(states=tuple(states)), limit=LOOKED_AT)
    found = {job.id: job for job in newest if job.id.startswith(prefix)}
    if len(newest) == LOOKED_AT and len(found) < limit:
        # An older one may be meant as well.
        older = [id for id in store.jobs.like(prefix, LOOKED_AT) if id not in found]
        known = store.jobs.states(older)
        fit = [id for id in older if not states or known.get(id) in states]
        for id in fit[: limit - len(found)]:
            if (job := store.jobs.get(id)) is not None:
                found[id] = job
    return list(found.values())[:limit]


def types_like(store: Store, prefix: str, *, limit: int) -> list[str]:
    # Few of them: they come with their data.
    newest = store.jobs.select(Filter(), limit=FEW)
    handled = {one for node in store.nodes.all() for one in node.queues.handlers} - {ANY_TYPE}
    known = {job.type for job in newest if job.type}
    known |= {one.removeprefix(TYPE) for one in handled if one.startswith(TYPE)}
    return sorted(type for type in known if type and type.startswith(prefix))[:limit]
