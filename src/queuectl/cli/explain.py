"""`explain`: why jobs don't run."""

from shlex import quote

import click

from queuectl.cli.command import Command
from queuectl.cli.notes import sentence
from queuectl.cli.options import JOB_ID, json_option, open_queue
from queuectl.cli.render import safe, write, write_json
from queuectl.dependencies import is_fallout
from queuectl.explain import mending
from queuectl.job import FINISHED, Job, State
from queuectl.report import why_ended
from queuectl.views import reasons_dict
from queuectl.when import local

EXAMPLES = """
queuectl explain 7f3k
queuectl explain 7f3k --json | jq '.[].waits_for[].cause'
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("ids", nargs=-1, required=True, type=JOB_ID, metavar="ID...")
@json_option
def explain(ids: tuple[str, ...], as_json: bool) -> None:
    """Say why jobs don't run, and what to do about it.

    All that is known is named. It isn't due, or somebody holds it; its queue is paused, or no
    worker serves it; a limit of its queue or of its key is full, and which jobs hold it; a rate
    allows no run yet; all workers are busy, and how many jobs are before it. Of a job that runs it
    says if somebody has paused it, or if its node is gone.
    """
    with open_queue() as queue:
        jobs = [queue.get(id) for id in ids]
        told = [(job, queue.explain(job)) for job in jobs]
    if as_json:
        write_json([reasons_dict(job, reasons) for job, reasons in told])
        return
    for job, reasons in told:
        lines = [sentence(reason) for reason in reasons] or [_not_waiting(job)]
        for line in lines:
            write(safe(line if len(told) == 1 else f"{job.id}: {line}"))


def _remedy(job: Job) -> str:
    """Say what runs a job again that has ended in vain."""
    if job.state == State.DEAD:
        options = mending(job)
        retry = f"queuectl retry {quote(job.id)}"
        if not options:
            return f" Repair it with: {retry}"
        if "memory" in options:
            return f" Give it more with: {retry} {options}"
        return (
            f" Run it as well as this host can with: {retry} {options}; or start a worker on a"
            f" host that can enforce this, and then: {retry}"
        )
    if job.group is not None and is_fallout(job.reason, job.group):
        return f" Repair what it was cancelled for with: queuectl retry --group {quote(job.group)}"
    return ""


def _not_waiting(job: Job) -> str:
    """Say what is with a job that doesn't wait."""
    if job.state in FINISHED:
        when = "" if job.finished_at is None else f" since {local(job.finished_at)}"
        why = f": {ended}" if (ended := why_ended(job)) and job.state != State.COMPLETED else ""
        return f"It is {job.state}{when}{why}.{_remedy(job)}"
    begun = "" if job.started_at is None else f" since {local(job.started_at)}"
    return f"It runs on node {job.node}{begun}."
