"""The commands `cancel`, `retry`, `rm` and `prune`: changing jobs by hand."""

import sys
from collections.abc import Sequence
from functools import partial

import click

from queuectl import changes
from queuectl.cli.command import Command
from queuectl.cli.finish import Hint
from queuectl.cli.many import (
    WAY_OUT,
    Manner,
    Verb,
    change_matching,
    change_named,
    check_choice,
    choose,
    dry_run_option,
    ids_argument,
    is_left_behind,
)
from queuectl.cli.options import (
    DURATION,
    STATES,
    Wanted,
    filter_options,
    json_option,
    open_queue,
    quiet_option,
)
from queuectl.cli.render import complain, plural, say, write, write_json
from queuectl.errors import EXIT_FAILED
from queuectl.job import FINISHED, WAITING, Job, State
from queuectl.queue import Queue
from queuectl.when import format_duration


@click.command(
    cls=Command,
    examples="""
    queuectl cancel k3v9                            # the start of an id will do
    queuectl cancel k3v9 --reason "wrong input" --wait
    queuectl cancel --queue mail --state pending    # all that fit
    queuectl cancel --tag nightly --dry-run         # which would that be?
    """,
)
@ids_argument
@click.option("--reason", "-r", metavar="TEXT", help="Why, for the record.")
@click.option(
    "--wait",
    "-w",
    is_flag=True,
    help="Wait until running jobs have ended, also those being cancelled already.",
)
@filter_options
@dry_run_option
@quiet_option
def cancel(
    ids: tuple[str, ...],
    reason: str | None,
    wait: bool,
    wanted: Wanted,
    dry_run: bool,
    quiet: bool,
) -> int:
    """Call jobs off, also while they run.

    A waiting job is cancelled at once. A running one is ended by its node: SIGTERM to all its
    processes, SIGKILL when they are still there after kill_grace. With filters instead of ids,
    all waiting and running jobs that fit are cancelled.
    """
    check_choice(ids, bool(wanted))
    if reason is not None:
        from queuectl.request import check_text

        reason = check_text("The reason", reason, longest=changes.LONGEST_REASON)
    asked: list[str] = []
    with open_queue() as queue:
        verb = Verb(
            would="cancel",
            done="cancelled",
            change=partial(_cancel, reason=reason, wait=wait),
            check=lambda _, job: None if wait and _is_ending(job) else changes.check_cancel(job),
            told=partial(_cancel_told, queue),
            allowed=(*WAITING, State.PROCESSING),
            usual=(*WAITING, State.PROCESSING),
            fits=lambda job: wait or not _is_ending(job),
            seen=lambda job: asked.append(job.id) if job.state == State.PROCESSING else None,
        )
        code = _apply(queue, ids, wanted, verb, Manner(dry_run=dry_run, quiet=quiet))
        if wait:
            code = max(code, _wait_cancelled(queue, asked, quiet=quiet))
    return code


def _cancel(queue: Queue, jobs: Sequence[Job], *, reason: str | None, wait: bool) -> list[Job]:
    # Who only wants to wait for the end has nothing to ask for.
    to_ask = [job for job in jobs if not (wait and _is_ending(job))]
    asked_for = {job.seq: job for job in queue.cancel_all(to_ask, reason=reason)}
    return [asked_for.get(job.seq, job) for job in jobs]


def _is_ending(job: Job) -> bool:
    return job.state == State.PROCESSING and job.cancel_reason is not None


def _cancel_told(queue: Queue, before: Job, after: Job) -> str:
    if _is_ending(before):
        return f"Job {after.id} is being cancelled already; waiting for its end."
    if is_left_behind(queue, after):
        return f"Job {after.id} was running on node {after.node}. {WAY_OUT}"
    if after.state == State.PROCESSING:
        return f"Job {after.id} is running; asked node {after.node} to end it."
    return f"Job {after.id} cancelled."


def _wait_cancelled(queue: Queue, ids: list[str], *, quiet: bool) -> int:
    """Wait for jobs that are being cancelled; returns 1 if one came to another end."""
    code = 0
    # Whoever reads along sees what is waited for.
    sys.stdout.flush()
    hint = Hint(queue, set, talk=not quiet)
    for job in queue.wait(*ids, tick=lambda _: hint()):
        if job.state != State.CANCELLED:
            complain(f"Job {job.id} was {job.state} before it could be cancelled.")
            code = EXIT_FAILED
        elif not quiet:
            write(f"Job {job.id} cancelled.")
    return code


@click.command(
    cls=Command,
    examples="""
    queuectl retry k3v9 m2aa                  # now, whatever state they are in
    queuectl retry --state failed             # don't wait for the backoff
    queuectl retry --state dead --queue mail --since 1d
    """,
)
@ids_argument
@filter_options
@dry_run_option
@quiet_option
def retry(ids: tuple[str, ...], wanted: Wanted, dry_run: bool, quiet: bool) -> int:
    """Put jobs back in line, to run now.

    A dead, cancelled or completed job becomes pending again; a job that waits for its retry, or
    for its time, is due at once. Failures are counted from zero; attempts, output and history
    stay. With filters instead of ids, all dead, failed and cancelled jobs that fit are retried;
    completed ones only with --state completed or --state all.
    """
    check_choice(ids, bool(wanted))
    verb = Verb(
        would="retry",
        done="retried",
        change=Queue.retry_all,
        check=lambda queue, job: changes.check_retry(job, queue.store.now()),
        told=_retry_told,
        allowed=(State.DEAD, State.FAILED, State.CANCELLED, State.COMPLETED),
        usual=(State.DEAD, State.FAILED, State.CANCELLED),
    )
    with open_queue() as queue:
        return _apply(queue, ids, wanted, verb, Manner(dry_run=dry_run, quiet=quiet))


def _retry_told(before: Job, after: Job) -> str:
    if before.state == State.PENDING:
        return f"Job {after.id} no longer waits for its time; it is due now."
    return f"Job {after.id} moved from '{before.state}' to 'pending'."


@click.command(
    cls=Command,
    examples="""
    queuectl rm k3v9
    queuectl rm --tag test                    # all with that tag that don't run
    queuectl rm --state cancelled --dry-run
    """,
)
@ids_argument
@filter_options
@dry_run_option
@quiet_option
def rm(ids: tuple[str, ...], wanted: Wanted, dry_run: bool, quiet: bool) -> int:
    """Delete jobs that don't run, with their attempts and output.

    Their ids are free again. A running job must be cancelled first; with filters, running jobs
    are passed over.
    """
    check_choice(ids, bool(wanted))
    idle = tuple(state for state in State if state != State.PROCESSING)
    verb = Verb(
        would="remove",
        done="removed",
        change=Queue.remove_all,
        check=lambda _, job: changes.check_remove(job),
        told=lambda before, after: f"Job {before.id} ({before.state}) removed.",
        allowed=idle,
        usual=idle,
    )
    with open_queue() as queue:
        return _apply(queue, ids, wanted, verb, Manner(dry_run=dry_run, quiet=quiet))


def _apply(queue: Queue, ids: tuple[str, ...], wanted: Wanted, verb: Verb, manner: Manner) -> int:
    if ids:
        return change_named(queue, ids, verb, manner)
    return change_matching(queue, choose(wanted, verb, queue=queue), verb, manner)


@click.command(
    cls=Command,
    examples="""
    queuectl prune --older-than 7d            # completed and cancelled jobs
    queuectl prune --state dead --older-than 30d
    queuectl prune --older-than 1d --dry-run
    queuectl config set retention 7d          # let the workers do it, all the time
    """,
)
@click.option(
    "--state",
    "-s",
    "states",
    type=STATES,
    multiple=True,
    metavar="STATE",
    help="Which: completed, cancelled, dead or all. Repeat it, or use commas.  "
    "[default: completed and cancelled]",
)
@click.option(
    "--older-than",
    type=DURATION,
    metavar="AGE",
    help="Only jobs that ended at least so long ago: 12h, 7d.  "
    "[default: the settings retention and, for dead jobs, dlq_retention]",
)
@dry_run_option
@json_option
def prune(
    states: tuple[tuple[State, ...], ...], older_than: int | None, dry_run: bool, as_json: bool
) -> None:
    """Delete finished jobs by state and age, with their output.

    Statistics are kept: stats counts pruned jobs' run times as before.
    """
    chosen = _prunable(states)
    with open_queue() as queue:
        ages = {state: _age(queue, state, older_than) for state in chosen}
        pruned = {
            state: queue.prune([state], age, dry_run=dry_run)[state] for state, age in ages.items()
        }
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


def _age(queue: Queue, state: State, older_than: int | None) -> int:
    if older_than is not None:
        return older_than
    name = "dlq_retention" if state == State.DEAD else "retention"
    age: int = getattr(queue.settings, name)
    if not age:
        raise click.UsageError(f"Give --older-than: the setting {name} names no age")
    return age
