"""Makes one change to many jobs: those that were named, or all that fit the filters."""

from collections.abc import Callable, Iterator, Sequence

import click

from queuectl.cli.options import JOB_ID, Wanted
from queuectl.cli.render import complain, is_terminal, plural, safe, say, write
from queuectl.errors import EXIT_DONE, QueuectlError, StoreError, UsageError
from queuectl.job import Job, State
from queuectl.queue import Queue
from queuectl.store.contract import Filter
from queuectl.values import dataclass, replace

MOST_TOLD = 20
PAGE = 500
"""Jobs changed in one transaction: few enough that workers don't wait for it."""
WAY_OUT = "Its node is gone; `queuectl worker start` settles that."
"""What helps where a job only seems to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A change that can be made to a job, and the words for it."""

    would: str
    """As in "Would cancel"."""
    done: str
    """As in "3 jobs cancelled" and "can't be cancelled"."""
    change: Callable[[Queue, Sequence[Job]], list[Job]]
    """Makes the change; returns the jobs as they are afterwards, or were before their removal."""
    check: Callable[[Queue, Job], None]
    """Raises why the change can't be made to a job."""
    told: Callable[[Job, Job], str]
    """Says what became of a job, given it before and after."""
    allowed: tuple[State, ...]
    """The states it can be made in."""
    usual: tuple[State, ...]
    """Those that filters mean when no state is given."""
    fits: Callable[[Job], bool] = lambda job: job.cancel_reason is None
    """Tells what filters pass over though its state would do."""
    seen: Callable[[Job], None] = lambda job: None
    """Called with each job that was changed, once that can't be undone any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a change is made and reported."""

    dry_run: bool = False
    quiet: bool = False


ids_argument = click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Only say what would be done; change nothing."
)


def choose(wanted: Wanted, verb: Verb, *, queue: Queue) -> Filter:
    """Make the filter for a change; a state the change can't be made in is a usage error."""
    if set(wanted.states) == set(State):  # --state all
        return replace(wanted, states=verb.allowed).filter(queue)
    for state in wanted.states:
        if state not in verb.allowed:
            raise UsageError(f"Jobs that are {state} can't be {verb.done}; leave that state out.")
    return replace(wanted, states=wanted.states or verb.usual).filter(queue)


def check_choice(ids: Sequence[str], filtered: bool, *, all_jobs: bool | None = None) -> None:
    """Insist on exactly one way to say which jobs are meant; None when there is no --all."""
    every = "" if all_jobs is None else " or --all"
    if ids and (filtered or all_jobs):
        raise click.UsageError(f"Give either ids, or filters{every}, not both")
    if not ids and not filtered and not all_jobs:
        raise click.UsageError(f"Say which jobs: give ids or filters such as --queue{every}")


def change_named(queue: Queue, ids: Sequence[str], verb: Verb, how: Manner) -> int:
    """Change the jobs with these ids, report on each, and return the worst exit code."""
    worst = EXIT_DONE
    # All are found before one is changed: what is gone makes no room for another of that name.
    for found in _find(queue, ids):
        try:
            if isinstance(found, QueuectlError):
                raise found
            [(before, after)] = _change(queue, [found], verb, how)
            if not how.dry_run:
                verb.seen(after)
            _report(before, after, verb, how)
        except StoreError:
            raise
        except QueuectlError as error:
            stuck = isinstance(found, Job) and is_left_behind(queue, found)
            complain(f"{error} {WAY_OUT}" if stuck else str(error))
            worst = max(worst, error.exit_code)
    return worst


def is_left_behind(queue: Queue, job: Job) -> bool:
    """Tell whether a job is only called running because nobody has taken it over yet."""
    if job.state != State.PROCESSING:
        return False
    return all(node.id != job.node or queue.is_dead(node) for node in queue.store.nodes())


def _find(queue: Queue, ids: Sequence[str]) -> list[Job | QueuectlError]:
    """Return the jobs with these ids, each once, and in the place of others why there is none."""
    found: dict[int | str, Job | QueuectlError] = {}
    for id in ids:
        try:
            job = queue.meant(id)
            found.setdefault(job.seq, job)
        except StoreError:
            raise
        except QueuectlError as error:
            found[id] = error
    return list(found.values())


def change_matching(queue: Queue, which: Filter, verb: Verb, how: Manner) -> int:
    """Change all jobs that fit, report on each, and say how many they were; returns 0.

    On a terminal many are not reported one by one.
    """
    changed = asked = 0
    brief = False
    for page in _pages(queue, which, verb, how):
        # All but the last page are longer than that, so the first one decides.
        brief = brief or (len(page) > MOST_TOLD and not how.quiet and is_terminal())
        changed += len(page)
        asked += sum(after.state == State.PROCESSING for _, after in page)
        for _, after in () if how.dry_run else page:
            verb.seen(after)
        for before, after in () if brief else page:
            _report(before, after, verb, how)
    if not how.quiet:
        if how.dry_run:
            hint = "; -q prints their ids" if brief else ""
            say(f"{plural(changed, 'job')} would be {verb.done}{hint}.")
        else:
            more = f", {asked:,} asked to end" if asked else ""
            say(f"{plural(changed - asked, 'job')} {verb.done}{more}.")
    return EXIT_DONE


def count_matching(queue: Queue, which: Filter) -> int:
    """Count the jobs that fit, without holding them all."""
    found, after = 0, None
    while jobs := queue.store.select(which, limit=PAGE, after=after):
        found, after = found + len(jobs), jobs[-1].seq
    return found


def _pages(queue: Queue, which: Filter, verb: Verb, how: Manner) -> Iterator[list[tuple[Job, Job]]]:
    after: int | None = None

    def change() -> tuple[list[Job], list[tuple[Job, Job]]]:
        jobs = queue.store.select(which, limit=PAGE, after=after)
        # Those that changed while they were being found, or read, may not fit any more.
        states = which.states or verb.allowed
        held = [job for job in queue.store.lock(jobs) if job.state in states]
        fit = [job for job in held[::-1] if verb.fits(job)]
        return jobs, _change(queue, fit, verb, how)

    while True:
        jobs, page = queue.store.transact(change)
        yield page
        if len(jobs) < PAGE:
            return
        after = jobs[-1].seq


def _change(queue: Queue, jobs: Sequence[Job], verb: Verb, how: Manner) -> list[tuple[Job, Job]]:
    """Make the change, or only see whether it can be made; returns jobs before and after."""
    if not how.dry_run:
        return list(zip(jobs, verb.change(queue, jobs), strict=True))
    for job in jobs:
        verb.check(queue, job)
    return [(job, job) for job in jobs]


def _report(before: Job, after: Job, verb: Verb, how: Manner) -> None:
    if how.quiet:
        write(safe(before.id))
    elif how.dry_run:
        write(safe(f"Would {verb.would} job {before.id} ({before.state}): {before.title}"))
    else:
        write(safe(verb.told(before, after)))
