"""Reads jobs and events page by page, so that a long list takes no more memory than a short one."""

from collections.abc import Iterator
from itertools import islice

from queuectl.errors import UsageError, shown
from queuectl.facts import Event
from queuectl.filter import Filter, Sort
from queuectl.job import Job
from queuectl.store.contract import Store, chunks

PAGE = 1_000
"""Jobs or events read at a time."""

MOST = 2**62
"""What no list can have, and databases can still count to."""

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
        raise UsageError(f"Jobs can't be sorted by {shown(name)}; {nearest(name, list(SORTS))}")
    return Sort(column, descending=word.startswith("-"))


def nearest(name: str, known: list[str]) -> str:
    """Say which of the known names is meant, or else what they all are."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}."


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
    size = PAGE if limit is None else min(PAGE, limit)
    left = limit
    while left is None or left > 0:
        page = store.jobs.select(which, limit=size, after=after, oldest=oldest)
        yield from page if left is None else page[:left]
        if len(page) < size:
            return
        after = page[-1].seq
        left = None if left is None else left - len(page)


def sorted_jobs(
    store: Store, which: Filter, by: tuple[Sort, ...], *, limit: int | None = None
) -> Iterator[Job]:
    """Yield the jobs that fit, sorted; of equal ones the newest first.

    The store sorts. Of what doesn't fit on a page only the places are held, a number for each job.
    """
    for part in chunks(store.jobs.places(which, by, limit=limit), PAGE):
        yield from store.jobs.at(part)


def events(store: Store, job: str | None = None, *, limit: int | None = None) -> Iterator[Event]:
    """Yield events, newest first: of one job, or all."""
    return islice(_all_events(store, job, PAGE if limit is None else min(PAGE, limit)), limit)


def _all_events(store: Store, job: str | None, size: int) -> Iterator[Event]:
    before: int | None = None
    while size:
        page = store.history.events(job, limit=size, before=before)
        yield from page
        if len(page) < size:
            return
        before = page[-1].seq


def counted(store: Store, which: Filter) -> int | None:
    """Return how many jobs fit, as the counters have it; None where they can't tell.

    That takes no longer with ten million jobs than with ten.
    """
    if which != Filter(states=which.states, queues=which.queues):
        return None
    return sum(
        count.jobs
        for count in store.jobs.counts()
        if (not which.states or count.state in which.states)
        and (not which.queues or count.queue in which.queues)
    )
