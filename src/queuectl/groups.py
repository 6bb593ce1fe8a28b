"""The groups of a queue: how far they are, waiting for them, what their jobs came to.

How a group stands is read from its one row, where its jobs are counted: it takes as long with a
million jobs in it as with ten.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from queuectl.changes import REPAIR, Change, cancelling
from queuectl.dependencies import Wanted, on_done_key, parent_text, read_parent
from queuectl.enqueueing import MOST_AT_ONCE, Enqueuer, Request
from queuectl.errors import NotFoundError, UsageError, did_you_mean
from queuectl.explain import Reason
from queuectl.facts import Batch, Group
from queuectl.filter import Filter
from queuectl.job import WAITING, Job, Output, State, Usage, span
from queuectl.pairing import Element, pair
from queuectl.parameters import INDEX
from queuectl.place import Place
from queuectl.request import by_name, check_name, read_duration
from queuectl.store.contract import Store
from queuectl.store.ids import new_ids
from queuectl.uniqueness import OnDuplicate
from queuectl.values import dataclass, replace
from queuectl.waiting import unless_stuck

if TYPE_CHECKING:
    from datetime import timedelta

    from queuectl.lineage import Along, Relative, Roots

PAGE = 500
"""Jobs whose results are read at once."""
LOOKS = 10_000
"""Jobs of a group that are looked at, the newest, to say why it isn't over."""
LOOKED_AT = 100
NAMES_AT_ONCE = 1_000
ONCE = "3650d"
"""For so long the job that follows a group keeps others from being made, if it is there."""
LETTERS = 4
"""Of a name that is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a group is."""

    group: Group
    at: int
    """When that was so."""
    is_stuck: bool = False
    """Whether all that is left waits in vain."""

    @property
    def done(self) -> int:
        """How many of its jobs have ended."""
        return self.group.done

    @property
    def total(self) -> int:
        """How many there are."""
        return self.group.jobs

    @property
    def failed(self) -> int:
        """How many are dead, or were cancelled though they were needed."""
        return self.group.dead + self.group.cancelled - self.group.unneeded

    @property
    def left(self) -> "timedelta | None":
        """How long the rest takes if it goes on as until now; None if nobody knows, or it won't."""
        left = None if self.is_stuck else self.group.left(self.at)
        return None if left is None else span(left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job of a group, and what it came to."""

    job: Job
    result: Any = None
    """What its run told, if it completed and told something."""
    has_result: bool = False
    peak_memory: int | None = None
    """The most bytes that its newest run used at once, if that is known."""
    last_line: str | None = None
    """The last line that it wrote, if it has no result and that was asked for."""


class Asked(Protocol):
    """Who is asked for the jobs of groups: a queue, wherever it is."""

    def now(self) -> int:
        """Return the clock of the queue."""

    def get(self, id: str) -> Job:
        """Return the job with this id."""

    def iterate(self, which: Filter, *, oldest: bool) -> Iterator[Job]:
        """Yield the jobs that fit."""

    def results(self, jobs: Sequence[Job]) -> dict[int, Any]:
        """Return the results of jobs, by their places."""

    def usages(self, jobs: Sequence[Job]) -> dict[int, Usage]:
        """Return what the newest runs of jobs used, by their places."""

    def output(self, id: Job, attempt: int | None = None) -> Output:
        """Return what the newest run of a job wrote."""

    def enqueue_many(self, what: Sequence[Request]) -> Batch:
        """Store jobs."""

    def is_stuck(self, which: Sequence[str] | Filter) -> bool:
        """Tell whether all that is left of jobs waits in vain."""

    def change_matching(self, which: Filter, change: Change, *, dry_run: bool) -> int:
        """Change all jobs that fit."""

    def wait_until(
        self,
        remaining: Callable[[], int],
        *,
        timeout: float | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        """Wait until nothing remains."""


class Groups:
    """The groups of a queue: `queue.groups`."""

    def __init__(self, queue: Asked, store: Store, place: Place) -> None:
        self._queue = queue
        self._store = store
        self._place = place

    # -- reading ------------------------------------------------------------------------

    def get(self, name: str) -> Group:
        """Return the group of this name; there must be one."""
        found = self.named([name])
        if not found:
            raise self._unknown(name)
        return found[0]

    def named(self, names: Sequence[str]) -> list[Group]:
        """Return those of the groups of these names that there are, by name."""
        return self._store.groups.named(names)

    def newest(self, limit: int = 50, *, before: str | None = None) -> list[Group]:
        """Return groups, the newest first, from before the one of a name."""
        return self._store.groups.newest(limit, before=before)

    def like(self, prefix: str, *, limit: int = 50) -> list[str]:
        """Return some names that begin with a prefix."""
        return self._store.groups.like(prefix, limit)

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Return those of these names that no group has."""
        there = {group.name for group in self.named(names)} if names else set()
        return [name for name in dict.fromkeys(names) if name not in there]

    def progress(self, name: str) -> Standing:
        """Return how far a group is: how many are done, and how long the rest may take."""
        group = self.get(name)
        is_stuck = bool(group.open and self.stuck([name]))
        return Standing(group=group, at=self._queue.now(), is_stuck=is_stuck)

    def why(self, name: str) -> list[Reason]:
        """Say why a group isn't over, as far as some of its newest jobs tell.

        Such as that they wait for what is dead, and so in vain.
        """
        from queuectl import listing, overview

        which = Filter(groups=(name,), states=WAITING)
        some = listing.search(
            self._store, which, limit=LOOKED_AT, looks=LOOKS, after=None, oldest=False
        ).jobs
        return overview.explain_unstarted(
            self._store, self._place, some, {job.queue for job in some}
        )

    def running(self) -> dict[str, int]:
        """Count the jobs of groups that run now: of each group of which any does, by its name."""
        return self._store.groups.running()

    def stuck(self, names: Sequence[str]) -> list[str]:
        """Return those of the groups of these names of which all that is left waits in vain.

        Nothing of them runs or will, until somebody retries what they wait for. Of a group of more
        than 10,000 jobs that is known if no more than 1,000 are left.
        """
        from queuectl import relatives

        if not any(one.jobs for one in self._store.jobs.counts() if one.state == State.BLOCKED):
            return []
        return [
            group.name
            for group in self.named(names)
            if group.open and relatives.is_in_vain(self._store, group, most=LOOKED_AT, looks=LOOKS)
        ]

    def roots(self, name: str) -> "Roots":
        """Return what keeps blocked jobs of a group from running, as far as some of them tell.

        Those are the newest, as many as `why` looks at.
        """
        from queuectl import relatives

        return relatives.roots_of_group(self._store, name, most=LOOKED_AT, looks=LOOKS)

    def children(self, name: str, *, limit: int = 1_000) -> "list[Relative]":
        """Return jobs that wait for a group, or did; of very many, some."""
        from queuectl import relatives

        return relatives.children_of_group(self._store, name, limit=limit)

    def follower(self, name: str) -> Job | None:
        """Return the job that runs when a group is over, if there is one: see `on_done`."""
        key = on_done_key(name)
        found = (child.job for child in self.children(name))
        return next((job for job in found if job is not None and job.unique_key == key), None)

    def taken_along(self, name: str, *, limit: int = 10_000) -> "Along":
        """Return which other jobs are cancelled if a group is: they wait for it, or its jobs.

        Of a group of more jobs than the limit, the newest tell.
        """
        from queuectl import relatives

        return relatives.along_with_group(self._store, self.get(name), most=limit)

    def results(self, name: str, *, last_lines: bool = False) -> Iterator[Row]:
        """Yield the jobs of a group in the order of the line, with what they came to.

        With `last_lines` also the last line that those wrote which have no result. They are read a
        few at a time, so that a million take no more memory.
        """
        self.get(name)
        jobs = self._queue.iterate(Filter(groups=(name,)), oldest=True)
        return self.rows(jobs, last_lines=last_lines)

    def rows(self, jobs: Iterable[Job], *, last_lines: bool = False) -> Iterator[Row]:
        """Yield jobs with what they came to, as `results` does."""
        rest = iter(jobs)
        while some := [*islice(rest, PAGE)]:
            found, usages = self._queue.results(some), self._queue.usages(some)
            for job in some:
                has_result = job.seq in found
                needs_line = last_lines and not has_result and job.attempts > 0
                yield Row(
                    job=job,
                    result=found.get(job.seq),
                    has_result=has_result,
                    peak_memory=usages[job.seq].peak_memory if job.seq in usages else None,
                    last_line=self._last_line(job) if needs_line else None,
                )

    def _last_line(self, job: Job) -> str | None:
        try:
            written = self._queue.output(job).stdout
        except NotFoundError:
            return None
        lines = written.rstrip(b"\r\n").rsplit(b"\n", 1)
        return lines[-1].rstrip(b"\r").decode("utf-8", "backslashreplace") if lines[-1] else None

    # -- waiting ------------------------------------------------------------------------

    def wait(
        self,
        name: str,
        timeout: "str | float | timedelta | None" = None,
        *,
        tick: Callable[[int], None] | None = None,
        or_stuck: bool = False,
    ) -> Group:
        """Wait until all jobs of a group have ended, and return it as it is then.

        Tells `tick` how many are left. Raises `TimeoutError` when the `timeout` is over; with
        `or_stuck` also `StuckError`, once all that is left of it waits in vain.
        """
        seconds = None if timeout is None else read_duration("timeout", timeout) / 1000
        self.get(name)
        if or_stuck:
            tick = unless_stuck(partial(self._is_stuck, name), partial(self.why, name), tick)
        self._queue.wait_until(lambda: self.get(name).open, timeout=seconds, tick=tick)
        return self.get(name)

    def _is_stuck(self, name: str) -> bool:
        return bool(self.stuck([name])) and self._queue.is_stuck(Filter(groups=(name,)))

    # -- changing -----------------------------------------------------------------------

    def cancel(self, name: str, *, reason: str | None = None, dry_run: bool = False) -> int:
        """Call off all its jobs that wait or run; returns how many."""
        return self._change(name, cancelling(reason), dry_run=dry_run)

    def retry(self, name: str, *, dry_run: bool = False) -> int:
        """Put its dead jobs back in line, and those that were cancelled because of dead ones.

        What completed stays, and so does what somebody cancelled, or what wasn't needed. Jobs that
        are blocked by dead ones go on by themselves. Returns how many were retried.
        """
        return self._change(name, REPAIR, dry_run=dry_run)

    def _change(self, name: str, change: Change, *, dry_run: bool) -> int:
        self.get(name)
        return self._queue.change_matching(Filter(groups=(name,)), change, dry_run=dry_run)

    def on_done(self, name: str, what: Request, **fields: Any) -> Job:
        """Have a job run once all jobs of a group have ended, however, and return it.

        There is one for each group: asked for again, it is the one that is there, whatever is said
        now. It isn't in the group; its runs are told the name, as QUEUECTL_GROUP.
        """
        self.get(name)
        batch = self._queue.enqueue_many([following(name, what, fields)])
        return self._queue.get(batch.ids[0])

    def after_each(self, name: str, elements: Iterable[Request]) -> list[dict[str, Any]]:
        """Have the elements of an array or a sweep wait for those of a group, one for one.

            elements = queue.groups.after_each("tiles", expand("join.sh {}", array="1-100"))
            queue.enqueue_many(elements)

        `name` is that of the group, or `NAME:any` and `NAME:fail`, as in `after`. Nothing is
        stored by that. That they don't match is a `UsageError`.
        """
        group, wanted = read_parent(name)
        self.get(group)
        requests = [Enqueuer.as_fields(one) for one in islice(elements, MOST_AT_ONCE + 1)]
        jobs = self._queue.iterate(Filter(groups=(group,)), oldest=True)
        found = (Element(job.id, job.parameters) for job in jobs if INDEX in job.parameters)
        others = [*islice(found, MOST_AT_ONCE + 1)]
        if max(len(requests), len(others)) > MOST_AT_ONCE:
            raise UsageError(
                f"They are stored all at once, and so no more than {MOST_AT_ONCE:,} can wait for"
                " each other one for one."
            )
        return pair(requests, others, group, wanted)

    def _unknown(self, name: str) -> NotFoundError:
        near = [one.name for one in self.newest(NAMES_AT_ONCE)]
        hint = did_you_mean(name, near, "see queuectl groups.")
        return NotFoundError(f"There is no group {name!r}.", advice=hint)


def following(name: str, what: Request, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for the job that runs when a group is over, however that ended."""
    asked = by_name({**Enqueuer.as_fields(what), **fields})
    if said := asked.keys() & {"group", "after_group", "unique", "max_fails"}:
        raise UsageError(
            f"What runs when a group is over can't say {', '.join(sorted(said))} itself."
        )
    return {
        **asked,
        "after_group": [parent_text(check_name("group", name), Wanted.ANY)],
        "unique": on_done_key(name),
        "unique_for": ONCE,
        "on_duplicate": OnDuplicate.RETURN.value,
    }


def new_name(kind: str) -> str:
    """Make a name for a group: `array-x7k2`."""
    return f"{kind}-{new_ids(1, LETTERS)[0]}"


def without_following(batch: Batch) -> Batch:
    """Take the job that follows a group, which was stored last, out of a batch."""
    id = batch.ids[-1]
    names = ("existing", "dropped")
    rest = {n: tuple(one for one in getattr(batch, n) if one != id) for n in names}
    return replace(batch, ids=batch.ids[:-1], **rest)
