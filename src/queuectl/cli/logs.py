"""`logs`: prints what jobs write, line by line, also while they run."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from queuectl.cli.command import Command
from queuectl.cli.finish import Hint, describe_end
from queuectl.cli.interrupts import raised
from queuectl.cli.notes import note_unused
from queuectl.cli.options import (
    JOB_ID,
    groups_option,
    open_queue,
    queues_option,
    raw_option,
    tags_option,
)
from queuectl.cli.render import is_terminal, say
from queuectl.cli.stream import STDERR, STDOUT, Objects, Plain, Prefixed
from queuectl.errors import NotFoundError
from queuectl.filter import Filter
from queuectl.job import WAITING, Job, State
from queuectl.queue import Queue
from queuectl.values import dataclass

if TYPE_CHECKING:
    from queuectl.following import Follower, Make, Sink, Tick

Streams = tuple[int, ...]

EXAMPLES = """
queuectl logs 7f3k                  # what its newest run has written so far
queuectl logs 7f3k -f               # and go on, through retries, until it is finished
queuectl logs 7f3k --attempt 1      # what its first run wrote
queuectl logs 7f3k h2vq -f          # two jobs, each line behind its job's id
queuectl logs --tag nightly -f      # all that are tagged so, until they are finished
queuectl logs --group night         # what those of a group have written so far
queuectl logs --tag nightly --json | jq -r 'select(.stream == "stderr") | .text'
queuectl logs                       # follow all that runs, until Ctrl+C
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """In which form what jobs write is printed."""

    streams: Streams = (STDOUT, STDERR)
    raw: bool = False
    as_json: bool = False

    def alone(self, job: Job) -> "Sink":
        """Return where the output of the only job goes."""
        return self.among_others(job) if self.as_json else Plain(streams=self.streams, raw=self.raw)

    def among_others(self, job: Job) -> "Sink":
        """Return where the output of one of several jobs goes."""
        if self.as_json:
            return Objects(job.id, streams=self.streams)
        return Prefixed(job.id, streams=self.streams, raw=self.raw)


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")
@click.option("--follow", "-f", is_flag=True, help="Go on until the jobs are finished.")
@click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="Only this run, counted from 1."
)
@click.option("--all", "-a", "all_runs", is_flag=True, help="All runs, not only the newest.")
@click.option("--stdout", "only_stdout", is_flag=True, help="Only what went to stdout.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Only what went to stderr.")
@queues_option("Without ids: only jobs of this queue; repeatable.")
@tags_option(
    "All jobs with this tag, also finished ones; with several, those that have all of them."
)
@groups_option("All jobs of this group, also finished ones; repeatable.")
@raw_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line (JSON Lines).")
def logs(
    ids: tuple[str, ...],
    follow: bool,
    attempt: int | None,
    all_runs: bool,
    only_stdout: bool,
    only_stderr: bool,
    queues: tuple[str, ...],
    tags: tuple[str, ...],
    groups: tuple[str, ...],
    raw: bool,
    as_json: bool,
) -> None:
    """Print or follow the output of jobs as they run.

    What one job wrote to stdout goes to stdout, and what it wrote to stderr to stderr, byte for
    byte. For several jobs, and with --tag or --group, all lines go to stdout, each behind its job's
    id and a bar, or an exclamation mark if it was written to stderr. Without ids, tags or groups
    all jobs that run from now on are followed.

    On a terminal, colours and progress bars look as the job meant them; of several jobs, a line
    that overwrites itself is shown as it is in the end. All other control characters are shown as
    \\x1b and the like, unless --raw is given.

    With --json each line is a JSON object: id, attempt, stream, text, text_base64 (the bytes, where
    they aren't valid UTF-8), newline (whether the line was ended by one); or, where something was
    left out, id, attempt, stream and gap_bytes.
    """
    if attempt is not None and (all_runs or len(ids) != 1):
        raise click.UsageError("--attempt is for one job, and not with --all")
    if ids and (queues or tags or groups):
        raise click.UsageError("--queue, --tag and --group choose jobs; leave them out, or the ids")
    if raw and as_json:
        raise click.UsageError("--json has no control characters, so --raw can't be with it")
    streams: Streams = (STDOUT, STDERR)
    if only_stdout != only_stderr:
        streams = (STDOUT,) if only_stdout else (STDERR,)
    form = Form(streams=streams, raw=raw, as_json=as_json)
    with open_queue() as queue, raised():
        if not ids:
            note_unused(queue, queues)
            for name in groups:
                queue.groups.get(name)
            which = Filter(queues=queues, tags=tags, groups=groups)
            _print_matching(queue, which, form, all_runs, follow)
            return
        jobs = list({job.id: job for job in (queue.get(id) for id in ids)}.values())
        _print_named(queue, jobs, form, attempt, all_runs, follow)


def _print_named(
    queue: Queue, jobs: list[Job], form: Form, attempt: int | None, all_runs: bool, follow: bool
) -> None:
    """Print what these jobs wrote, or follow them."""
    first = [_first(job, attempt, all_runs) for job in jobs]
    followers = [
        queue.follower(job, sink, first=begin, last=attempt, talk=_talk(follow))
        for job, sink, begin in zip(jobs, _sinks(jobs, form), first, strict=True)
    ]
    if follow:
        queue.follow(followers, tick=_shown(_hint(queue, jobs)))
        _say_silent(queue, jobs)
    else:
        for follower in followers:
            follower.show(warn=_talk(True))
        _say_unstarted(queue, jobs)


def follow_ids(
    queue: Queue, ids: Sequence[str], *, talk: bool, raw: bool = False, or_stuck: bool = False
) -> None:
    """Follow these jobs from their first run until they are finished.

    With `or_stuck`, raises `StuckError` once all that is left of them waits in vain.
    """
    jobs = [queue.get(id) for id in ids]
    followers = [
        queue.follower(job, sink, talk=_talk(talk))
        for job, sink in zip(jobs, _sinks(jobs, Form(raw=raw)), strict=True)
    ]
    hint = _hint(queue, jobs, talk=talk)
    show = _shown(hint)
    if not or_stuck:
        queue.follow(followers, tick=show)
        return
    watch = queue.watch(ids)
    look = hint.or_stuck(lambda: bool(watch.remaining()) and watch.is_stuck())

    def tick() -> None:
        show()
        look(len(followers))

    queue.follow(followers, tick=tick)


def _hint(queue: Queue, jobs: Sequence[Job], *, talk: bool = True) -> Hint:
    ids = [job.id for job in jobs]
    return Hint(queue, lambda: queue.explain_some(ids), talk=talk)


def _shown(hint: Hint) -> "Tick":
    """Return what shows, after each look, what was printed by then."""

    def tick() -> None:
        sys.stdout.flush()
        hint()

    return tick


def _print_matching(queue: Queue, which: Filter, form: Form, all_runs: bool, follow: bool) -> None:
    """Print what the jobs with a tag, or of a group, wrote, or follow them; else all that runs."""
    make = _maker(queue, form, all_runs)
    if not (which.tags or which.groups):
        _talk(True)("Following all jobs; Ctrl+C ends it.")
        hint = Hint(queue, lambda: queue.hindrances(which.queues))
        queue.follow_all(which, make, tick=_shown(hint))
        return
    if which.tags and not queue.list(which, limit=1):
        from queuectl.watches import none_tagged

        raise none_tagged(which)
    if follow:
        hint = Hint(queue, lambda: queue.explain_some(which))
        queue.follow_all(which, make, whole=True, tick=_shown(hint))
    else:
        queue.show_all(which, make, warn=_talk(True))


def _maker(queue: Queue, form: Form, all_runs: bool) -> "Make":
    def make(job: Job, first: int) -> "Follower":
        return queue.follower(job, form.among_others(job), first=1 if all_runs else first)

    return make


def _say_unstarted(queue: Queue, jobs: Sequence[Job]) -> None:
    """Say why there is nothing to print of jobs that haven't run yet."""
    for job in jobs:
        if job.state in WAITING and not job.attempts:
            why = "; ".join(reason.text for reason in queue.explain(job.id))
            say(f"Job {job.id} hasn't run yet: {why}.")


def _say_silent(queue: Queue, jobs: Sequence[Job]) -> None:
    """Say how those ended that failed without a word."""
    for job in filter(None, (queue.find(job.id) for job in jobs)):
        runs = queue.attempts(job)
        if job.state != State.COMPLETED and not any(r.stdout_bytes + r.stderr_bytes for r in runs):
            say(describe_end(job))


def _first(job: Job, attempt: int | None, all_runs: bool) -> int:
    """Return the run to begin at."""
    if attempt is not None and attempt > job.attempts:
        raise NotFoundError(f"Job {job.id} has no attempt {attempt}; it has {job.attempts} so far.")
    return attempt or (1 if all_runs else max(job.attempts, 1))


def _sinks(jobs: Sequence[Job], form: Form) -> "list[Sink]":
    if len(jobs) == 1:
        return [form.alone(jobs[0])]
    return [form.among_others(job) for job in jobs]


def _talk(wanted: bool) -> Callable[[str], None]:
    """Return `say` where a person reads it: what a job wrote to stderr must stay unmixed."""
    return say if wanted and is_terminal(sys.stderr) else lambda text: None
