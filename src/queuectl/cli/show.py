"""`show`: everything that is known about a job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from queuectl.bounds import told as bounds_told
from queuectl.cli.columns import Pauses, attempts_of, settled, state_of
from queuectl.cli.command import Command
from queuectl.cli.finish import ended_label
from queuectl.cli.notes import again
from queuectl.cli.options import JOB_ID, json_option, open_queue
from queuectl.cli.render import (
    STATE_COLOURS,
    Column,
    heading,
    say,
    shorten,
    size,
    write,
    write_facts,
    write_json,
    write_table,
)
from queuectl.facts import Pause
from queuectl.job import NEEDS, WAITING, Attempt, Job, signal_name
from queuectl.lifecycle import first_wait
from queuectl.limits import at_once_of, given_keys
from queuectl.parameters import legible
from queuectl.titles import titled
from queuectl.views import children_of, job_whole
from queuectl.when import ahead, format_duration, human, local

if TYPE_CHECKING:
    from queuectl.explain import Reason
    from queuectl.lineage import Relative
    from queuectl.queue import Queue

LONGEST_RESULT = 200
"""Cells of a result that are shown; `result --of` prints all of it."""
MOST_CHILDREN = 20
"""Jobs that wait for one, and are named."""
LONGEST_SHOWN = 200
"""Characters of the data of a job that are shown."""
EXAMPLES = """
queuectl show 7f3k
queuectl show 7f3k --json | jq '.runs[].exit_code'
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("id", type=JOB_ID, metavar="ID")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show everything about a job: fields, runs, history.

    Of a job that waits it says why, as explain does.

    With --json: the fields of the job, `waits_for` (why it waits), `sleep` (what it has given its
    worker back for), `runs` (those that are over),
    `events` (what was done to it by hand, rescues and its death) and `hooks` (jobs that its ends
    have made), `parents` and `children` (the jobs that it waits for, and that wait for it). Of its
    environment only the names are shown.
    """
    with open_queue() as queue:
        show_job(queue, queue.get(id), as_json=as_json)


def show_job(queue: "Queue", job: Job, *, as_json: bool) -> None:
    """Print everything about a job."""
    if as_json:
        write_json(job_whole(queue, job))
        return
    runs = queue.attempts(job.id)
    events = list(queue.iterate_events(job.id))[::-1]
    reasons = queue.explain(job.id)
    parents = queue.parents(job) if job.awaits else []
    children = children_of(queue, job, limit=MOST_CHILDREN + 1)
    pause = Pauses(queue.pauses).of(job)
    hooks = list(queue.hooks(job)) if any(event.kind == "hook" for event in events) else []
    progress = queue.progress([job]).get(job.seq)
    results = queue.results([job])
    job, *hooks = settled([job, *hooks], queue)
    heading(f"Job {job.id}")
    lines = facts(job, [] if pause else reasons, queue.now(), pause)
    lines.insert(_AFTER_STATE, ("Progress", None if progress is None else str(progress)))
    lines.insert(_AFTER_STATE, ("Result", _result(results[job.seq]) if results else None))
    write_facts(lines)
    _write_relatives("Waits for" if job.state in WAITING else "Waited for", parents, [])
    _write_relatives("Waited for by", children[:MOST_CHILDREN], children[MOST_CHILDREN:], job.id)
    if runs:
        write()
        heading("Runs")
        write_table(_RUN_COLUMNS, [_run(run) for run in runs])
    if hooks:
        write()
        heading("Hooks")
        rows = [(hook.id, state_of(hook), attempts_of(hook), hook.title) for hook in hooks]
        write_table(_HOOK_COLUMNS, rows)
    if events:
        write()
        heading("History")
        rows = [(local(e.at), e.kind, e.who, e.detail or "") for e in events]
        write_table(_EVENT_COLUMNS, rows)


def _write_relatives(
    title: str, relatives: "Sequence[Relative]", more: "Sequence[Relative]", id: str = ""
) -> None:
    """Print the jobs that one waits for, or that wait for it."""
    if not relatives:
        return
    write()
    heading(title)
    write_table(_RELATIVE_COLUMNS, [_relative(one) for one in relatives])
    if more:
        say(f"There are more; see them with: {again(f'graph {id}')}")


def _relative(one: "Relative") -> tuple[str, ...]:
    job = one.job
    name = f"group {one.id}" if one.is_group else one.id
    open_or_gone = "open" if one.is_group else f"gone ({one.came_to or 'not over'})"
    state = open_or_gone if one.state is None else one.state.value
    return (
        name,
        state,
        one.wanted,
        "yes" if one.is_met else "not yet" if one.came_to is None else "no",
        "" if job is None else titled(job),
    )


def shown_data(job: Job) -> str | None:
    """Return the beginning of the data of a job, if it has some, or how many bytes it is."""
    if job.type is None or job.data is None:
        return None
    size = f"{len(job.data):,} bytes"
    try:
        text = job.data.decode()
    except UnicodeDecodeError:
        return f"{size}, which aren't text; --json has them"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({size})"


def facts(
    job: Job, reasons: "Sequence[Reason]", now: int, pause: Pause | None = None
) -> list[tuple[str, str | None]]:
    """Return what is known about a job itself, in words."""
    waits = job.state in WAITING and job.run_at > now
    return [
        ("Command", job.command),
        ("Program", None if job.argv is None else job.title),
        ("Type", job.type),
        ("Data", shown_data(job)),
        ("State", state_of(job)),
        ("Paused", None if pause is None else f"by {pause.who} since {local(pause.at)}"),
        ("Waits", "; ".join(reason.text for reason in reasons) or None),
        ("Reason", job.reason or job.cancel_reason),
        ("Error", job.error if job.error != job.reason else None),
        ("Exit code", _text(job.exit_code)),
        ("Queue", job.queue),
        ("Group", job.group),
        ("Priority", str(job.priority)),
        ("Attempts", attempts_of(job)),
        ("Failures", str(job.failures) if job.failures else None),
        ("Crashes", str(job.crashes) if job.crashes else None),
        ("Timeout", _timeout(job)),
        ("Retries", _retries(job)),
        ("Schedule", _schedule(job)),
        ("Created", local(job.created_at, exact=True)),
        ("Due", ahead(job.run_at, now) if waits else None),
        ("Expires", _time(job.expires_at)),
        ("Started", _time(job.started_at)),
        (ended_label(job), _time(job.finished_at)),
        ("Duration", None if job.duration_ms is None else human(job.duration_ms)),
        ("Directory", job.cwd),
        ("Bounds", bounds_told(job.bounds) if job.bounds else None),
        ("Shell", job.shell if job.command is not None else None),
        ("Environment", _environment(job)),
        ("Stdin", None if job.stdin_bytes is None else size(job.stdin_bytes)),
        ("Tags", ", ".join(job.tags) or None),
        ("Keys", ", ".join(given_keys(job.keys)) or None),
        ("Needs", _needs(job)),
        ("Devices", _devices(job)),
        ("At once", _at_once(job)),
        ("Parameters", _parameters(job)),
        ("Unique", _unique(job)),
        ("On success", job.on_success),
        ("On failure", job.on_failure),
        ("On dead", job.on_dead),
        ("Trace", job.trace_id),
        ("Hook", _hook(job)),
        ("Node", None if job.node is None else f"{job.node}, worker {job.worker}"),
    ]


_AFTER_STATE = 3
"""Where among the facts stands what its run tells."""


def _devices(job: Job) -> str | None:
    """Name the devices that the newest run of a job was given."""
    return ", ".join(f"{n} {','.join(map(str, at))}" for n, at in job.devices.items()) or None


def _needs(job: Job) -> str | None:
    """Say what a job needs of its node, and which labels that must have."""
    if not job.handler.startswith(NEEDS):
        return None
    from queuectl.resources import needs_of, told_needs

    needs = needs_of(job.handler)
    return None if needs is None else told_needs(needs)


def _result(value: Any) -> str:
    from json import dumps

    return shorten(dumps(value, ensure_ascii=False), LONGEST_RESULT)


def _schedule(job: Job) -> str | None:
    return None if job.planned is None else f"{job.schedule}, for {local(job.planned)}"


def _at_once(job: Job) -> str | None:
    """Say how many run at once of those that a job belongs to."""
    at_once = at_once_of(job.keys)
    if at_once is None:
        return None
    most, _, name = at_once.partition(" ")
    return f"at most {most} with the others of {name}"


def _parameters(job: Job) -> str | None:
    return ", ".join(f"{name}={legible(it)}" for name, it in job.parameters.items()) or None


def _unique(job: Job) -> str | None:
    if job.unique_key is None:
        return None
    how = "" if job.unique_until is None else f", until its {job.unique_until}"
    least = "" if job.unique_for is None else f", for {format_duration(job.unique_for)} at least"
    return f"{job.unique_key}{how}{least}"


def _hook(job: Job) -> str | None:
    """Say what a hook tells of."""
    if job.hook is None:
        return None
    occasion, attempt, *_ = job.hook.split(" ")
    return f"on {occasion} of {job.hook_of}, after run {attempt}"


def _timeout(job: Job) -> str:
    if job.timeout is None and job.type is not None:
        return "as its worker has it"
    return format_duration(job.timeout) if job.timeout else "none"


def _retries(job: Job) -> str | None:
    if job.max_retries is None:
        return None
    if not job.max_retries:
        return "none"
    if job.backoff is None and job.type is not None:
        return f"up to {job.max_retries}, after waits as its worker has them"
    how = job.backoff or "exponential"
    if how == "exponential":
        detail = f"base {job.backoff_base:g}" if job.backoff_base is not None else ""
    else:
        wait = first_wait(job)
        detail = "" if wait is None else format_duration(wait)
    return f"up to {job.max_retries}, {how} backoff" + (f" ({detail})" if detail else "")


def _environment(job: Job) -> str | None:
    """Return the names of its variables; their values are secrets."""
    names = ", ".join(sorted(job.env))
    return f"only {names or 'what queuectl sets'}" if job.env_all else names or None


def _time(ms: int | None) -> str | None:
    return None if ms is None else local(ms, exact=True)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


_RUN_COLUMNS = (
    Column("RUN", right=True),
    Column("STARTED", drop=5),
    Column("DURATION", right=True),
    Column("NODE", least=8, drop=4),
    Column("HOST", least=8, drop=3),
    Column("OUTCOME"),
    Column("MEMORY", right=True, drop=7),
    Column("CPU", right=True, drop=6),
    Column("STDOUT", right=True, drop=2),
    Column("STDERR", right=True, drop=1),
    Column("ERROR", least=16, is_sentence=True),
)


_RELATIVE_COLUMNS = (
    Column("JOB", least=12),
    Column("STATE", styles=STATE_COLOURS),
    Column("WANTED"),
    Column("MET", drop=1),
    Column("COMMAND", least=12, drop=2, is_sentence=True),
)
_HOOK_COLUMNS = (
    Column("HOOK", least=12),
    Column("STATE"),
    Column("ATTEMPTS", right=True, drop=1),
    Column("COMMAND", least=12, drop=2, is_sentence=True),
)
_EVENT_COLUMNS = (
    Column("WHEN", drop=2),
    Column("WHAT"),
    Column("WHO", least=8, drop=1),
    Column("DETAIL", least=12, is_sentence=True),
)


def _run(run: Attempt) -> tuple[str, ...]:
    outcome = run.outcome
    if run.exit_code is not None:
        outcome += f" {run.exit_code}"
    elif run.signal is not None:
        outcome += f" {signal_name(run.signal)}"
    return (
        str(run.number),
        local(run.started_at, exact=True),
        human(run.duration_ms),
        run.node,
        run.host,
        outcome,
        "" if run.peak_memory is None else size(run.peak_memory),
        "" if run.cpu_ms is None else human(run.cpu_ms),
        f"{run.stdout_bytes:,}",
        f"{run.stderr_bytes:,}",
        "; ".join(filter(None, (run.error, run.noted))),
    )
