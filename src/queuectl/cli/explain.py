"""`explain`: why jobs don't run."""

from shlex import quote

import click

from queuectl.cli.command import Command
from queuectl.cli.notes import again, sentence
from queuectl.cli.options import JOB_ID, json_option, open_queue
from queuectl.cli.render import safe, say, write, write_json
from queuectl.dependencies import is_fallout
from queuectl.explain import mending
from queuectl.filter import Filter
from queuectl.job import FINISHED, WAITING, Job, State
from queuectl.queue import Queue
from queuectl.report import why_ended
from queuectl.views import reasons_dict
from queuectl.waiting import IN_VAIN
from queuectl.when import local

EXAMPLES = """
queuectl explain 7f3k
queuectl explain --group night            # why it isn't over
queuectl explain 7f3k --json | jq '.[].waits_for[].cause'
"""


MOST = 100
"""Jobs of a group that are explained."""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")
@click.option("--group", metavar="NAME", help="Those of this group that wait.")
@json_option
def explain(ids: tuple[str, ...], group: str | None, as_json: bool) -> None:
    """Say why jobs don't run, and what to do about it.

    All that is known is named. It isn't due, or somebody holds it; its queue is paused, or no
    worker serves it; a limit of its queue or of its key is full, and which jobs hold it; a rate
    allows no run yet; all workers are busy, and how many jobs are before it. Of a job that runs it
    says if somebody has paused it, or if its node is gone.

    With --group it is said first what keeps the group, root causes before all, and then why each of
    those of it waits that do: the first 100.
    """
    if bool(ids) == (group is not None):
        raise click.UsageError("Say which jobs: give ids, or --group NAME")
    with open_queue() as queue:
        if group is not None:
            _explain_group(queue, group, as_json=as_json)
            return
        jobs = [queue.get(id) for id in ids]
        told = [(job, queue.explain(job)) for job in jobs]
    if as_json:
        write_json([reasons_dict(job, reasons) for job, reasons in told])
        return
    for job, reasons in told:
        lines = [sentence(reason) for reason in reasons] or [_not_waiting(job)]
        for line in lines:
            write(safe(line if len(told) == 1 else f"{job.id}: {line}"))


def _explain_group(queue: Queue, name: str, *, as_json: bool) -> None:
    """Say what keeps a group, and why each of its jobs that wait does."""
    group = queue.groups.get(name)
    which = Filter(groups=(name,), states=WAITING)
    told = [(job, queue.explain(job)) for job in queue.list(which, limit=MOST, oldest=True)]
    if as_json:
        write_json([reasons_dict(job, reasons) for job, reasons in told])
        return
    for reason in sorted(queue.groups.why(name), key=lambda reason: reason.cause not in IN_VAIN):
        write(safe(sentence(reason)))
    for job, reasons in told:
        for text in dict.fromkeys(reason.text for reason in reasons):
            write(safe(f"{job.id}: {text[:1].upper()}{text[1:]}."))
    if not told:
        say(f"No job of group {name} waits." if group.open else f"Group {name} is over.")
    elif len(told) == MOST:
        say(f"There may be more; see {again(f'list --group {quote(name)}')}")


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
