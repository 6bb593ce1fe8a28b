"""Takes the jobs of a file into the queue: all of them, or with `keep_going` all that are good."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from time import time
from typing import Any

from queuectl.cli.feed import Feed
from queuectl.cli.interrupts import raised
from queuectl.cli.progress import Bar
from queuectl.cli.render import complain, plural, safe, say, write, write_json
from queuectl.enqueueing import BATCH
from queuectl.errors import BadJobError, DuplicateError
from queuectl.facts import Batch
from queuectl.merging import merge_requests
from queuectl.queue import Queue
from queuectl.request import Values, read_values


class Bulk:
    """The jobs of a file on their way into the queue."""

    def __init__(
        self,
        feed: Feed,
        defaults: dict[str, Any],
        *,
        keep_going: bool,
        last: Mapping[str, Any] | None = None,
    ) -> None:
        """Lay the defaults under the fields of each line; one job may follow all of them."""
        self._last = last
        self._feed = feed
        self._defaults = defaults
        self._keep_going = keep_going
        self._lines: dict[str, int] = {}
        """Ids that the file gives, and the line of each."""
        self._bad: list[dict[str, Any]] = []
        self._numbers: list[int] = []
        """The lines of the jobs that were read and aren't stored yet."""
        self._now: Callable[[], int] = lambda: int(time() * 1000)
        self._jobs = self._read()
        self._first: tuple[int, dict[str, Any]] | None = None
        self.interrupted = False
        """Whether an interrupt came before all was read; what was stored until then stays."""

    def prepare(self) -> None:
        """Read up to the first job, so that a file that is all wrong makes no database."""
        next(self._jobs, None)

    def preview(self) -> Iterator[Values]:
        """Read the jobs, and store none of them."""
        return self._jobs

    def enqueue(self, queue: Queue) -> Batch:
        """Store the jobs; where an id is taken, and all or none are wanted, names its line."""
        # Times such as +5m count from the store's clock; this host's may be wrong.
        self._now = queue.now
        first = [] if self._first is None else [self._request(*self._first)]
        jobs = chain(first, self._jobs)
        try:
            with Bar("Enqueueing") as bar:
                if self._keep_going:
                    return self._store_good(queue, jobs, bar)
                return self._store_all(queue, jobs, bar)
        except DuplicateError as error:
            taken = queue.states(list(self._lines))
            for id, number in self._lines.items():
                if id in taken:
                    raise DuplicateError(self._taken(id, number)) from error
            raise

    def _store_all(self, queue: Queue, jobs: Iterator[Values], bar: Bar) -> Batch:
        """Store all of them, or none."""
        if self._last is None:
            return queue.enqueue_read(jobs, progress=bar, total=self._feed.count)
        from queuectl.groups import without_following

        batch = queue.enqueue_read(self._and_last(jobs), progress=bar, total=self._feed.count)
        return without_following(batch)

    def _and_last(self, jobs: Iterator[Values]) -> Iterator[Values]:
        yield from jobs
        yield read_values(self._last or {}, now=self._now())

    def _store_good(self, queue: Queue, jobs: Iterator[Values], bar: Bar) -> Batch:
        """Store part after part, until the end or an interrupt; returns what was stored."""
        ids: list[str] = []
        duplicates: list[str] = []
        existing: list[str] = []
        dropped: list[str] = []
        try:
            while part := self._part(jobs):
                batch = queue.enqueue_read(part, keep_going=True)
                ids += batch.ids
                duplicates += batch.duplicates
                existing += batch.existing
                dropped += batch.dropped
                self._note_refused(batch)
                bar(len(ids) + len(duplicates) + self.refused, self._feed.count)
            if self._last is not None and ids:
                queue.enqueue_many([self._last])
        except KeyboardInterrupt:
            self.interrupted = True
        return Batch(
            ids=tuple(ids),
            duplicates=tuple(duplicates),
            existing=tuple(existing),
            dropped=tuple(dropped),
        )

    def _note_refused(self, batch: Batch) -> None:
        """Report which of the jobs that were read last couldn't be stored."""
        # A server that is older doesn't say which.
        for why, at in zip_longest(batch.refused, batch.refused_at):
            number = None if at is None else self._numbers[at]
            self._note(number, why if number is None else f"{self._feed.place(number)}: {why}")
        self._numbers.clear()

    def _part(self, jobs: Iterator[Values]) -> list[Values]:
        with raised():  # a pipe may be silent for long
            return list(islice(jobs, BATCH))

    @property
    def refused(self) -> int:
        """How many lines were reported because their job could not be stored."""
        return len(self._bad)

    def report(self, batch: Batch, *, quiet: bool, as_json: bool) -> None:
        """Say what was stored, and what was not."""
        for id in batch.duplicates:
            self._note(self._lines[id], self._taken(id, self._lines[id]))
        tell(batch, self._bad, unit=self._feed.unit, quiet=quiet, as_json=as_json)
        if self.interrupted:
            say(f"Interrupted: the rest of {self._feed.name} wasn't stored.")

    def _read(self) -> Iterator[Values]:
        """Read the file line by line; a bad line ends it, or is reported and passed over."""
        for number, line in enumerate(self._feed.lines, 1):
            try:
                fields = self._feed.parse(number, line)
                if fields is None:
                    continue
                job = self._request(number, fields)
                self._first = self._first or (number, fields)
            except BadJobError as error:
                if not self._keep_going:
                    raise
                self._note(number, error.advised)
                continue
            if self._keep_going:
                self._numbers.append(number)
            yield job

    def _request(self, number: int, fields: dict[str, Any]) -> Values:
        try:
            merged = merge_requests(self._defaults, fields) if self._defaults else fields
            job = read_values(merged, now=self._now())
        except BadJobError as error:
            raise self._feed.error(number, error) from None
        id = job.get("id")
        if id is not None:
            other = self._lines.setdefault(id, number)
            if other != number:
                raise self._feed.error(
                    number, f"the id {id!r} is that of {self._feed.unit} {other} already."
                )
        return job

    def _note(self, number: int | None, why: str) -> None:
        complain(why)
        where = {} if number is None else {self._feed.unit: number}
        self._bad.append({**where, "error": why})

    def _taken(self, id: str, number: int) -> str:
        return f"{self._feed.place(number)}: the id {id!r} is taken; see queuectl show."


def told_existing(batch: Batch) -> str:
    """Say for how many requests jobs were there already."""
    many = len(batch.existing)
    return f"; {many:,} {'was' if many == 1 else 'were'} there already (unique)" if many else ""


def tell(
    batch: Batch,
    bad: Sequence[Mapping[str, Any]],
    *,
    unit: str,
    quiet: bool,
    as_json: bool,
    group: str | None = None,
) -> None:
    """Say what of many jobs was stored, in which group, and how many of which unit could not be."""
    if as_json:
        ids = list(batch.ids)
        there: dict[str, Any] = {
            name: list(found)
            for name, found in (("existing", batch.existing), ("dropped", batch.dropped))
            if found
        }
        if group is not None and ids:
            there["group"] = group
        new = len(ids) - len(batch.existing)
        write_json({"enqueued": new, "ids": ids, "errors": list(bad)} | there)
    elif quiet:
        for id in batch.ids:
            write(safe(id))
    else:
        told = f"Enqueued {plural(len(batch.ids) - len(batch.existing), 'job')}"
        told += "" if group is None or not batch.ids else f" in group {safe(group)}"
        told += told_existing(batch)
        if batch.dropped:
            told += f"; {len(batch.dropped):,} of them cancelled at once, see queuectl list"
        refused = f"; {plural(len(bad), unit)} could not be" if bad else ""
        write(f"{told}{refused}.")
