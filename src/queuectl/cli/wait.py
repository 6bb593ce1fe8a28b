"""`wait`: waits until jobs are finished, and exits as they did."""

import shlex
import sys
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import Command
from queuectl.cli.finish import EXIT_TIMED_OUT, Hint, describe_end, exit_code_of, still_going
from queuectl.cli.notes import again, note_unused
from queuectl.cli.options import (
    DURATION,
    JOB_ID,
    groups_option,
    json_option,
    open_queue,
    or_stuck_option,
    queues_option,
    tags_option,
)
from queuectl.cli.progress import Bar
from queuectl.cli.render import complain, is_terminal, plural, safe, say, write_json
from queuectl.errors import EXIT_DONE, EXIT_FAILED, StuckError
from queuectl.filter import Filter
from queuectl.job import State
from queuectl.queue import Queue
from queuectl.when import format_duration

if TYPE_CHECKING:
    from queuectl.watches import Ends, Watch

LOOK_EVERY = 1.0
"""Seconds between two looks at how far a job has come."""
MOST_TOLD = 20
"""Failed jobs that are named one by one."""

EXAMPLES = """
queuectl wait 7f3k                       # exits with the job's own exit code
queuectl wait 7f3k h2vq --timeout 10m    # 0 only if both completed
queuectl wait --tag nightly              # 0 only if all that are tagged so completed
queuectl wait --group nightly            # 0 only if all of the group completed
queuectl wait --group nightly --or-stuck # 1 as soon as nothing of it goes on by itself
queuectl wait --all && echo "All done"   # until nothing is left to do
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")
@queues_option("All of this queue that aren't finished yet.")
@tags_option("All with this tag, also those that are finished already.")
@groups_option("All of this group, however many; repeatable.")
@click.option(
    "--all", "-a", "everything", is_flag=True, help="All jobs of all queues not finished yet."
)
@click.option("--timeout", "-t", type=DURATION, metavar="D", help="Give up after this time.")
@or_stuck_option
@json_option
def wait(
    ids: tuple[str, ...],
    queues: tuple[str, ...],
    tags: tuple[str, ...],
    groups: tuple[str, ...],
    everything: bool,
    timeout: int | None,
    or_stuck: bool,
    as_json: bool,
) -> int:
    """Wait until jobs are finished; exit as they did.

    Finished means completed, dead or cancelled; a failed job that still has retries is not. With
    --group, --queue, --tag or --all jobs that are enqueued meanwhile are waited for as well.

    For one id the exit code is the job's own: 128 + n if signal n killed it, 124 if it timed out,
    1 if it was cancelled or never started. Otherwise it is 0 if all of them completed, else 1:
    with --group and --tag all jobs that are in it or have it count, whenever they ended, with
    --queue and --all those that weren't finished when the waiting began. What wasn't needed in a
    group, as what it was to follow didn't happen, hasn't failed. When --timeout is over it is 124,
    and the jobs go on. With --or-stuck it is 1 as soon as all that is left waits in vain, such as
    behind a dead job: without it, that is said, and waited for until somebody repairs it.
    """
    _check_chosen(ids=ids, queues=queues, tags=tags, groups=groups, everything=everything)
    with open_queue() as queue:
        note_unused(queue, queues)
        meant = [queue.meant(id).id for id in ids] or None
        watch = queue.watch(meant, queues=queues, tags=tags, groups=groups)
        seconds = None if timeout is None else timeout / 1000
        code = _wait(queue, watch, seconds, talk=True, or_stuck=or_stuck)
        if as_json:
            results = _results(queue, meant or ())
            write_json(watch.as_dict() | ({"results": results} if results else {}))
        return code


def _check_chosen(**given: object) -> None:
    """Insist on one way to say what is waited for; a queue and a tag go together."""
    chosen = [_WAYS[name] for name, value in given.items() if value]
    if not chosen:
        raise click.UsageError("Say what to wait for: ids, --group, --queue and --tag, or --all")
    if len(chosen) > 1 and chosen != [_WAYS["queues"], _WAYS["tags"]]:
        raise click.UsageError(
            f"{', '.join(chosen[:-1])} and {chosen[-1]} can't be combined; wait for one, then for"
            " the other"
        )


_WAYS = {
    "ids": "Ids",
    "queues": "--queue",
    "tags": "--tag",
    "groups": "--group",
    "everything": "--all",
}
"""How it is said what is waited for."""


def _results(queue: Queue, ids: Sequence[str]) -> dict[str, Any]:
    """Return the results of those of these jobs that have one."""
    jobs = [job for job in map(queue.find, ids) if job is not None]
    found = queue.results(jobs)
    return {job.id: found[job.seq] for job in jobs if job.seq in found}


def wait_for_jobs(queue: Queue, ids: Sequence[str], *, talk: bool, or_stuck: bool = False) -> int:
    """Wait until these jobs are finished; returns the exit code that stands for how they ended."""
    return _wait(queue, queue.watch(ids), None, talk=talk, or_stuck=or_stuck)


def _wait(
    queue: Queue, watch: "Watch", timeout: float | None, *, talk: bool, or_stuck: bool
) -> int:
    hint, label = Hint(queue, watch.why, talk=talk), _Label(queue, watch.only)
    with still_going(f"Nothing was stopped; {_again(watch)}."), Bar("Waiting") as bar:

        def tick(left: int) -> None:
            hint()
            bar(watch.total - left, watch.total, label(), dead=watch.dead)
            look(left)

        look = hint.or_stuck(watch.is_stuck) if or_stuck else lambda _: None
        try:
            queue.wait_until(watch.remaining, timeout=timeout, tick=tick)
        except TimeoutError:
            left = plural(watch.remaining(), "job")
            waited = format_duration(round((timeout or 0) * 1000))
            complain(f"{left} not finished after {waited}; {_again(watch)}.")
            return EXIT_TIMED_OUT
        except StuckError as error:
            complain(f"{str(error).rstrip('.')}; {_again(watch)}.")
            return EXIT_FAILED
    return _conclude(queue, watch, talk)


class _Label:
    """What stands before the bar: of one job also how far it says that it has come."""

    def __init__(self, queue: Queue, id: str | None) -> None:
        self._queue = queue
        self._id = id if is_terminal(sys.stderr) else None
        self._due = monotonic() + LOOK_EVERY
        self._label: str | None = None

    def __call__(self) -> str | None:
        """Return it; None for the usual one."""
        if self._id is not None and monotonic() >= self._due:
            self._due = monotonic() + LOOK_EVERY
            job = self._queue.find(self._id)
            told = {} if job is None else self._queue.progress([job])
            self._label = next((safe(f"Waiting: {one}") for one in told.values()), None)
        return self._label


def _conclude(queue: Queue, watch: "Watch", talk: bool) -> int:
    """Say how they ended; returns the exit code for it."""
    # By its whole id: the beginning of a removed job's id may fit another job.
    job = None if watch.only is None else queue.find(watch.only)
    if job is not None:
        if talk:
            say(describe_end(job))
        return exit_code_of(queue, job)
    if not watch.found:
        if talk:
            say("There is nothing to wait for.")
        return EXIT_DONE
    ends = watch.ends()
    failed = ends.total() - ends[State.COMPLETED]
    if talk:
        told = watch.failed(MOST_TOLD) if failed else {}
        for id, job in told.items():
            say(describe_end(job, among_others=True) if job else f"Job {id} was removed.")
        _say_more(failed - len(told), ends, watch.which, named=bool(told))
        say(_summary(ends))
    return EXIT_FAILED if failed else EXIT_DONE


def _again(watch: "Watch") -> str:
    """Say how to look at them again."""
    if watch.only is not None:
        return f"go on with: queuectl wait {watch.only}"
    return f"see {_command('list', which=watch.which)}"


def _command(*words: str, which: Filter) -> str:
    """Write a command that is about the jobs that a filter means."""
    chosen = [("--group", name) for name in which.groups]
    chosen += [("--queue", name) for name in which.queues] + [("--tag", tag) for tag in which.tags]
    return again(shlex.join([*words, *(word for pair in chosen for word in pair)]))


def _say_more(more: int, ends: "Ends", which: Filter, *, named: bool) -> None:
    """Say how many more failed than were named, and which command names all of them."""
    if more <= 0:
        return
    words = ("dlq", "list") if not ends[State.CANCELLED] else ("list", "--state", "dead,cancelled")
    command = _command(*words, "--limit", "0", which=which)
    if named:
        say(f"... and {more:,} more; see all with: {command}")
    else:
        say(f"See what failed with: {command}")


def _summary(ends: "Ends") -> str:
    """Say how many jobs came to which end; None is that of those that were removed."""
    done = ends[State.COMPLETED]
    failed = ends.total() - done
    if not failed:
        return f"{plural(done, 'job')} completed."
    others = [(state, state.value) for state in State if state != State.COMPLETED]
    how = [f"{ends[end]:,} {name}" for end, name in [*others, (None, "removed")] if ends[end]]
    return f"{plural(done, 'job')} completed, {failed:,} did not: {', '.join(how)}."
