"""`logs`: prints what jobs write, line by line, also while they run."""

import sys
from collections.abc import Callable, Sequence

import click

from queuectl.cli.command import Command
from queuectl.cli.finish import Hint, waiting_queues
from queuectl.cli.follow import Follower, follow_all, follow_jobs
from queuectl.cli.options import JOB_ID, open_queue
from queuectl.cli.render import is_terminal, say
from queuectl.cli.stream import STDERR, STDOUT, Plain, Prefixed, Sink
from queuectl.errors import NotFoundError
from queuectl.job import Job
from queuectl.queue import Queue
from queuectl.store.contract import Filter

Streams = tuple[int, ...]

EXAMPLES = """
queuectl logs 7f3k                  # what its newest run has written so far
queuectl logs 7f3k -f               # and go on, through retries, until it is finished
queuectl logs 7f3k --attempt 1      # what its first run wrote
queuectl logs 7f3k h2vq -f          # two jobs, each line behind its job's id
queuectl logs                       # follow all that runs, until Ctrl+C
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")
@click.option("--follow", "-f", is_flag=True, help="Go on until the jobs are finished.")
@click.option(
    "--attempt", type=click.IntRange(1), metavar="N", help="Only this run, counted from 1."
)
@click.option("--all", "-a", "all_runs", is_flag=True, help="All runs, not only the newest.")
@click.option("--stdout", "only_stdout", is_flag=True, help="Only what went to stdout.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Only what went to stderr.")
@click.option(
    "--queue", "-Q", "queues", multiple=True, metavar="NAME", help="Without ids: only these."
)
@click.option("--raw", is_flag=True, help="Let control characters through to the terminal.")
def logs(
    ids: tuple[str, ...],
    follow: bool,
    attempt: int | None,
    all_runs: bool,
    only_stdout: bool,
    only_stderr: bool,
    queues: tuple[str, ...],
    raw: bool,
) -> None:
    """Print or follow the output of jobs as they run.

    What one job wrote to stdout goes to stdout, and what it wrote to stderr to stderr, byte for
    byte. For several jobs all lines go to stdout, each behind its job's id and a bar, or an
    exclamation mark if it was written to stderr. Without ids all jobs that run from now on are
    followed.

    On a terminal control characters are shown as \\x1b and the like, unless --raw is given.
    """
    if attempt is not None and (all_runs or len(ids) != 1):
        raise click.UsageError("--attempt is for one job, and not with --all")
    if ids and queues:
        raise click.UsageError("--queue is for following all jobs; leave it out, or the ids")
    streams: Streams = (STDOUT, STDERR)
    if only_stdout != only_stderr:
        streams = (STDOUT,) if only_stdout else (STDERR,)
    with open_queue() as queue:
        if not ids:
            _follow_everything(queue, Filter(queues=queues), streams, raw)
            return
        jobs = list({job.id: job for job in (queue.get(id) for id in ids)}.values())
        followers = [
            Follower(
                queue,
                job,
                sink,
                first=_first(job, attempt, all_runs),
                last=attempt,
                talk=_talk(follow),
            )
            for job, sink in zip(jobs, _sinks(jobs, streams, raw), strict=True)
        ]
        if follow:
            follow_jobs(queue, followers, tick=_hint(queue, jobs, talk=is_terminal(sys.stderr)))
        else:
            for follower in followers:
                follower.show(warn=_talk(True))


def follow_ids(queue: Queue, ids: Sequence[str], *, talk: bool) -> None:
    """Follow these jobs from their first run until they are finished."""
    jobs = [queue.get(id) for id in ids]
    sinks = _sinks(jobs, (STDOUT, STDERR), raw=False)
    follow_jobs(
        queue,
        [
            Follower(queue, job, sink, first=1, talk=_talk(talk))
            for job, sink in zip(jobs, sinks, strict=True)
        ],
        tick=_hint(queue, jobs, talk=talk),
    )


def _hint(queue: Queue, jobs: Sequence[Job], *, talk: bool) -> Hint:
    ids = [job.id for job in jobs]
    return Hint(queue, lambda: waiting_queues(queue, ids), talk=talk)


def _follow_everything(queue: Queue, which: Filter, streams: Streams, raw: bool) -> None:
    _talk(True)("Following all jobs; Ctrl+C ends it.")

    def make(job: Job, first: int) -> Follower:
        return Follower(queue, job, Prefixed(job.id, streams=streams, raw=raw), first=first)

    follow_all(queue, which, make)


def _first(job: Job, attempt: int | None, all_runs: bool) -> int:
    """Return the run to begin at."""
    if attempt is not None and attempt > job.attempts:
        raise NotFoundError(f"Job {job.id} has no attempt {attempt}; it has {job.attempts} so far.")
    return attempt or (1 if all_runs else max(job.attempts, 1))


def _sinks(jobs: Sequence[Job], streams: Streams, raw: bool) -> list[Sink]:
    if len(jobs) == 1:
        return [Plain(streams=streams, raw=raw)]
    return [Prefixed(job.id, streams=streams, raw=raw) for job in jobs]


def _talk(wanted: bool) -> Callable[[str], None]:
    """Return `say` where a person reads it: what a job wrote to stderr must stay unmixed."""
    return say if wanted and is_terminal(sys.stderr) else lambda text: None
