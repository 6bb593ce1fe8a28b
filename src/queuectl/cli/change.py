"""The commands `cancel`, `force-finish`, `retry`, `rm` and `prune`: changing jobs by hand."""

from functools import partial
from shlex import quote

import click

from queuectl.changes import (
    LONGEST_REASON,
    REMOVE,
    RETRY,
    Change,
    Changed,
    cancelling,
    finishing,
    is_ending,
    repairing,
    retrying_from,
    stays_itself,
)
from queuectl.cli.change_report import WAY_OUT, Manner, Words, titled_before
from queuectl.cli.changing import change_jobs, dry_run_option, ids_argument, manner_options
from queuectl.cli.command import Command
from queuectl.cli.confirm import confirm
from queuectl.cli.interrupts import truthful
from queuectl.cli.options import (
    DURATION,
    Wanted,
    filter_options,
    json_option,
    open_queue,
    states_option,
    yes_option,
)
from queuectl.cli.render import plural, say, write, write_json
from queuectl.job import FINISHED, State, span
from queuectl.queue import Queue
from queuectl.when import format_duration, local

MOST_LEFT = 5
"""Jobs that are named in a command which brings them back."""


@click.command(
    cls=Command,
    examples="""
    queuectl cancel k3v9                            # the start of an id will do
    queuectl cancel k3v9 --reason "wrong input" --wait
    queuectl cancel --queue mail --state pending    # all that fit
    queuectl cancel --tag nightly --dry-run         # which would that be?
    queuectl cancel --group array-x7k2              # a whole array, or whatever is in the group
    queuectl cancel --all --yes --json
    """,
)
@ids_argument
@click.option("--all", "all_jobs", is_flag=True, help="All jobs that wait or run.")
@click.option("--reason", "-r", metavar="TEXT", help="Why, for the record.")
@click.option(
    "--wait",
    "-w",
    is_flag=True,
    help="Wait until running jobs have ended, also those being cancelled already.",
)
@filter_options
@yes_option
@manner_options
def cancel(
    ids: tuple[str, ...], all_jobs: bool, reason: str | None, wanted: Wanted, how: Manner
) -> int:
    """Call jobs off, also while they run.

    A waiting job is cancelled at once. A running one is ended by its node: SIGTERM to all its
    processes, SIGKILL when they are still there after kill_grace. With filters instead of ids,
    all waiting and running jobs that fit are cancelled. Jobs that wait for one of them to complete,
    or to fail, can't run then: they are cancelled as well, and so on. Which these are is said, and
    with --json in `along`. On a terminal, it asks before it takes others along, and for --all and
    --state all.
    """
    if reason is not None:
        from queuectl.request import check_text

        reason = check_text("The reason", reason, longest=LONGEST_REASON)
    change = cancelling(reason, joining=how.wait)
    words = Words(would="cancel", done="cancelled", sentence=_cancelled, takes_along=True)
    return change_jobs(change, words, ids, wanted, how, all_jobs=all_jobs)


def _cancelled(queue: Queue, each: Changed) -> str:
    job = each.after or each.before
    if is_ending(each.before):
        return f"Job {job.id} is being cancelled already; waiting for its end."
    if queue.is_left_behind(job):
        return f"Job {job.id} was running on node {job.node}. {WAY_OUT}"
    if job.state == State.PROCESSING:
        return f"Job {job.id} is running; asked node {job.node} to end it."
    return f"Job {job.id} cancelled."


@click.command(
    cls=Command,
    examples="""
    queuectl force-finish order-17                  # done by other means; never run it again
    queuectl force-finish order-17 --result '{"by": "hand"}' --wait
    queuectl force-finish --tag import --state failed
    """,
)
@ids_argument
@click.option("--result", metavar="JSON", help="What the jobs came to, as result prints it.")
@click.option("--wait", "-w", is_flag=True, help="Wait until runs that go on have been ended.")
@filter_options
@yes_option
@manner_options
def force_finish(ids: tuple[str, ...], result: str | None, wanted: Wanted, how: Manner) -> int:
    """Complete jobs from outside, as if they had succeeded.

    A waiting job is completed at once, and never runs. A running one is ended by its node as cancel
    does it, and completed then, whatever its run came to. --on-success is called as for any job
    that completes. On a terminal, --state all asks first.
    """
    if result is not None:
        from queuectl.telling import check_result

        result = check_result(result.encode("utf-8", "surrogateescape"))
    words = Words(would="finish", done="finished", sentence=_finished, ends_as=State.COMPLETED)
    return change_jobs(finishing(result), words, ids, wanted, how)


def _finished(queue: Queue, each: Changed) -> str:
    job = each.after or each.before
    if queue.is_left_behind(job):
        return f"Job {job.id} was running on node {job.node}. {WAY_OUT}"
    if job.state == State.PROCESSING:
        return f"Job {job.id} is running; asked node {job.node} to end it, and it is finished then."
    return f"Job {job.id} finished."


@click.command(
    cls=Command,
    examples="""
    queuectl retry k3v9 m2aa                  # now; not while they run
    queuectl retry --state failed             # don't wait for the backoff
    queuectl retry --state dead --queue mail --since 1d
    queuectl retry --tag nightly --json
    queuectl retry --group nightly            # what is dead, and what that took along
    queuectl retry k3v9 --with timeout=2h --with env.LANG=C
    queuectl retry k3v9 --from upload         # do this step again, and those after it
    """,
)
@ids_argument
@click.option(
    "--with",
    "changed",
    multiple=True,
    metavar="NAME=VALUE",
    help="Run it with this changed: command=..., timeout=1h, queue=slow, env.LANG=C. Repeat it.",
)
@click.option(
    "--from",
    "from_step",
    metavar="STEP",
    help="Do this step once more, and those that were done after it.",
)
@filter_options
@manner_options
def retry(
    ids: tuple[str, ...],
    changed: tuple[str, ...],
    from_step: str | None,
    wanted: Wanted,
    how: Manner,
) -> int:
    """Put jobs back in line, to run now.

    A dead, cancelled or completed job becomes pending again; a job that waits for its retry, or
    for its time, is due at once. Failures are counted from zero; attempts, output and history
    stay. With filters instead of ids, all dead, failed and cancelled jobs that fit are retried;
    completed ones only with --state completed or --state all. With --group and no --state, it is
    the dead ones, and those that were cancelled because of dead ones; what these block goes on by
    itself.

    With --with they run as other jobs from then on, by the fields of a JSON job; what these were
    is kept in the history; --dry-run says what each would become. With --group and no --state that
    is about the dead ones only: what was cancelled because of them goes on as it was. Steps that
    are done stay done, but for that of --from and those after it.
    """
    change = _retrying(changed) if changed else RETRY
    if from_step is not None:
        change = retrying_from(from_step, change)
    if wanted.groups and not wanted.states:
        change = repairing(change)
    sentence = partial(_retried_alone, ids=ids) if ids else _retried
    what = partial(_retried_as, change=change) if changed else titled_before
    words = Words(would="retry", done="retried", sentence=sentence, what=what)
    return change_jobs(change, words, ids, wanted, how, asks=False)


def _retrying(pairs: tuple[str, ...]) -> Change:
    """Return the change that retries jobs as others, or refuse it before a queue is opened."""
    from time import time

    from queuectl.cli.pairs import fields_of
    from queuectl.editing import retrying
    from queuectl.request import read_some

    given = fields_of(pairs)
    change = retrying(given)
    read_some(given, now=int(time() * 1000))
    return change


def _retried_as(each: Changed, *, change: Change) -> str:
    """Say what becomes of a job that is retried as another one: what it was -> what it is then."""
    from queuectl.editing import told_retried

    if stays_itself(each.before, change):
        return f"as it was: {titled_before(each)}"
    after = each.after or each.before
    told = told_retried(each.before, after)
    if not {"run_at", "delay"}.isdisjoint(change.asked.given or ()):
        told = "; ".join(filter(None, (told, f"due {local(after.run_at)}")))
    return told or f"as it was: {titled_before(each)}"


def _retried_alone(queue: Queue, each: Changed, *, ids: tuple[str, ...]) -> str:
    """Say that a job was retried by its id, and who was cancelled because of it and stays so."""
    text, job = _retried(queue, each), each.before
    if not job.has_children:
        return text
    from queuectl.dependencies import parent_in

    children = [one.job for one in queue.children(job) if one.job is not None]
    left = [
        child
        for child in children
        if child.state == State.CANCELLED and parent_in(child.reason) == job.id
        if not child.id.startswith(ids)
    ]
    if not left:
        return text
    given = " ".join(quote(child.id) for child in left[:MOST_LEFT])
    which = f"--group {quote(job.group)}" if job.group is not None else given
    jobs = plural(len(left), "job")
    return f"{text} Cancelled because of it: {jobs}; bring back with: queuectl retry {which}"


def _retried(queue: Queue, each: Changed) -> str:
    if each.after is not None and each.after.run_at > queue.now():
        return f"Job {each.before.id} is pending, and due {local(each.after.run_at)}."
    if each.before.state == State.PENDING:
        return f"Job {each.before.id} no longer waits for its time; it is due now."
    is_blocked = each.after is not None and each.after.state == State.BLOCKED
    to = State.BLOCKED if is_blocked else State.PENDING
    return f"Job {each.before.id} moved from '{each.before.state}' to '{to}'."


@click.command(
    cls=Command,
    examples="""
    queuectl rm k3v9
    queuectl rm --tag test                    # all with that tag that don't run
    queuectl rm --state cancelled --dry-run
    queuectl rm --state all --yes             # all that don't run, without being asked
    """,
)
@ids_argument
@filter_options
@yes_option
@manner_options
def rm(ids: tuple[str, ...], wanted: Wanted, how: Manner) -> int:
    """Delete jobs that don't run, with their attempts and output.

    Their ids are free again. A running job must be cancelled first; with filters, running jobs
    are passed over. Jobs that wait for one that hasn't ended are cancelled, as with cancel. On a
    terminal, it asks before that, and for --state all.
    """
    words = Words(
        would="remove",
        done="removed",
        sentence=lambda _, each: f"Job {each.before.id} ({each.before.state}) removed.",
        takes_along=True,
    )
    return change_jobs(REMOVE, words, ids, wanted, how)


@click.command(
    cls=Command,
    examples="""
    queuectl prune --older-than 7d            # completed and cancelled jobs
    queuectl prune --state dead --older-than 30d
    queuectl prune --older-than 1d --dry-run
    queuectl config set retention 7d          # let the workers do it, all the time
    """,
)
@states_option(
    "Which: completed, cancelled, dead or all. Repeat it, or use commas.  "
    "[default: completed and cancelled]"
)
@click.option(
    "--older-than",
    type=DURATION,
    metavar="AGE",
    help="Only jobs that ended at least so long ago: 12h, 7d.  "
    "[default: the settings retention and, for dead jobs, dlq_retention]",
)
@dry_run_option
@yes_option
@json_option
def prune(
    states: tuple[tuple[State, ...], ...],
    older_than: int | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete finished jobs by state and age, with their output.

    Statistics are kept: stats counts pruned jobs' run times as before. On a terminal, --state all
    asks first.
    """
    chosen = _prunable(states)
    with open_queue() as queue, truthful(queue) as truth:
        ages = {state: _age(queue, state, older_than) for state in chosen}
        if chosen == FINISHED:
            confirm(partial(_question, queue, ages), yes=yes or dry_run)
        pruned = dict.fromkeys(chosen, 0)

        def count(state: State, jobs: int) -> None:
            pruned[state] = jobs
            truth.check()

        try:
            for state, age in ages.items():
                pruned |= queue.prune([state], span(age), dry_run=dry_run, progress=count)
        except KeyboardInterrupt:
            _tell_pruned(pruned, ages, dry_run=dry_run, as_json=as_json)
            raise
        _tell_pruned(pruned, ages, dry_run=dry_run, as_json=as_json)


def _tell_pruned(
    pruned: dict[State, int], ages: dict[State, int], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        from queuectl.report import seconds

        write_json(
            {
                "dry_run": dry_run,
                "total": sum(pruned.values()),
                "states": {
                    state.value: {"jobs": jobs, "older_than": seconds(ages[state])}
                    for state, jobs in pruned.items()
                },
            }
        )
        return
    for state, jobs in pruned.items():
        would = "would be pruned" if dry_run else "pruned"
        write(f"{plural(jobs, f'{state} job')} older than {format_duration(ages[state])} {would}.")
    if dry_run:
        say("Nothing was changed.")


def _prunable(states: tuple[tuple[State, ...], ...]) -> tuple[State, ...]:
    if not states:
        return (State.COMPLETED, State.CANCELLED)
    if tuple(State) in states:  # --state all
        return FINISHED
    chosen = tuple(dict.fromkeys(state for some in states for state in some))
    for state in chosen:
        if state not in FINISHED:
            raise click.UsageError(
                f"Only finished jobs can be pruned ({', '.join(FINISHED)}), not {state} ones"
            )
    return chosen


def _question(queue: Queue, ages: dict[State, int]) -> str:
    jobs = sum(queue.prune([state], span(age), dry_run=True)[state] for state, age in ages.items())
    return f"Delete {plural(jobs, 'finished job')} for good?" if jobs else ""


def _age(queue: Queue, state: State, older_than: int | None) -> int:
    if older_than is not None:
        return older_than
    name = "dlq_retention" if state == State.DEAD else "retention"
    age: int = getattr(queue.settings, name)
    if not age:
        raise click.UsageError(f"Give --older-than: the setting {name} is 0, so it gives no age")
    return age
