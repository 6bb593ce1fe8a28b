"""The `schedule` commands: rules that make jobs at times."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from queuectl.cli.command import Group
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import note_idle
from queuectl.cli.options import (
    DURATION,
    MOMENT,
    json_option,
    open_queue,
    quiet_names_option,
    quiet_option,
    with_options,
)
from queuectl.cli.outlet import outlet
from queuectl.cli.program import (
    TakesProgram,
    check_one_command,
    command_option,
    exact_words,
    field_options,
    given_fields,
    job_fields,
)
from queuectl.cli.render import plural, safe, say, write, write_json, write_result
from queuectl.errors import EXIT_DONE, QueuectlError
from queuectl.fields import REQUESTED
from queuectl.job import DEFAULT_QUEUE
from queuectl.schedule import POLICY, Missed, Overlap, Schedule

NOT_FOR_SCHEDULES = (
    *("id", "run_at", "after", "after_group", "if_parent_fails"),
    *("traceparent", "tracestate"),
)
"""Fields whose options are for a single job."""
TAKEN_AWAY = tuple(
    field.name
    for field in REQUESTED
    if field.flags and field.name not in NOT_FOR_SCHEDULES and not field.gives
)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done.")

name_argument = click.argument("schedule_name", metavar="NAME")
names_argument = click.argument("schedule_names", metavar="NAME...", nargs=-1, required=True)


def policy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a schedule ticks."""
    return with_options(command, _POLICY)


_POLICY = (
    click.option(
        "--tz",
        metavar="ZONE",
        help="The zone of its times, such as Europe/Berlin.  [default: that of this host]",
    ),
    click.option(
        "--missed",
        type=click.Choice([str(word) for word in Missed]),
        help="Which ticks come late that no worker was there for.  [default: latest]",
    ),
    click.option(
        "--missed-within",
        type=DURATION,
        metavar="D",
        help="None comes that is later than this.  [default: however late]",
    ),
    click.option(
        "--overlap",
        type=click.Choice([str(word) for word in Overlap]),
        help="What a tick does while the job before isn't over.  [default: skip]",
    ),
    click.option(
        "--jitter",
        type=DURATION,
        metavar="D",
        help="Come later by up to this, always by the same: its name decides.",
    ),
    click.option(
        "--pause-after",
        type=click.IntRange(min=1),
        metavar="N",
        help="Pause it when so many of its jobs in a row have died.",
    ),
)


def take_policy(flags: dict[str, Any]) -> dict[str, Any]:
    """Take what says how a schedule ticks out of the options, as `Schedules.add` has it."""
    given = {name: flags.pop(name) for name in POLICY}
    given = {name: value for name, value in given.items() if value is not None}
    for name in ("missed_within", "jitter"):
        if name in given:
            given[name] /= 1000
    return given


@click.group(
    cls=Group,
    examples="""
    queuectl schedule add nightly "0 3 * * *" "backup.sh" --tz Europe/Berlin
    queuectl schedule list
    queuectl schedule show nightly
    queuectl schedule next nightly 5
    """,
)
def schedule() -> None:
    """Make jobs at times: every night, every 15 minutes, as cron does.

    A schedule has a name, a rule and a job. At each time of its rule, which is called a tick, it
    makes that job, once, however many workers there are; any node that runs does it.
    """


@schedule.command(
    "add",
    cls=TakesProgram,
    examples="""
    queuectl schedule add nightly "0 3 * * *" "backup.sh" --tz Europe/Berlin
    queuectl schedule add poll "every 15m" "fetch.sh" --overlap latest --timeout 10m
    queuectl schedule add report @daily '{"command": "make report", "queue": "slow"}'
    queuectl schedule add mirror "30 */6 * * *" -- rsync -a "my files/" host:/backup
    queuectl schedule add check "*/5 * * * *" "check.sh" --missed off --pause-after 3
    """,
)
@name_argument
@click.argument("rule", metavar="RULE")
@click.argument("text", nargs=-1, metavar="[COMMAND | JSON | -- PROGRAM [ARG]...]")
@command_option
@policy_options
@field_options(but=NOT_FOR_SCHEDULES)
@click.option("--quiet", "-q", is_flag=True, help="Print its bare name.")
@json_option
def add(
    schedule_name: str,
    rule: str,
    text: tuple[str, ...],
    command: str | None,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Add a schedule.

    RULE is five fields as in a crontab (minute, hour, day of the month, month, day of the week), a
    word such as @hourly or @daily, or 'every 15m'. What it runs is said as enqueue takes it: a
    command for the shell, a job as JSON, or a program and its arguments behind --. All that isn't
    said of the job, the settings say when it is made. It runs in this directory, unless --cwd
    names another.
    """
    policy = take_policy(flags)
    what = _what(text, command, given_fields(flags))
    if what is None:
        raise click.UsageError("Say what it runs: a command, a JSON job, or -- PROGRAM")
    _check(schedule_name, rule, policy, what)
    with open_queue(create=True) as queue, truthful(queue):
        made = queue.schedules.add(schedule_name, rule, what, **policy)
        outlet.done = lambda: f"Schedule {made.name} is stored"
        if as_json:
            from queuectl.views import schedule_dict

            write_json(schedule_dict(made))
        else:
            write(safe(made.name if quiet else f"Added schedule {made.name}: {_coming(made)}"))
        note_idle(queue, [str(what.get("queue") or DEFAULT_QUEUE)])
        return EXIT_DONE


def _check(name: str, rule: str, policy: Mapping[str, Any], what: Mapping[str, Any]) -> None:
    """Refuse what can't be before a database is made for it."""
    from time import time

    from queuectl.request import read_request
    from queuectl.schedules import read_schedule

    now = int(time() * 1000)
    read_schedule(name, rule, **policy, now=now)
    read_request(what, now=now)


def _what(
    text: tuple[str, ...], command: str | None, given: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the fields of its jobs; None if nothing says what it runs."""
    exact = exact_words()
    sources = sum((bool(text), exact is not None, command is not None))
    if sources > 1:
        raise click.UsageError("Give only one of: a command, --command, -- PROGRAM")
    check_one_command(text)
    return job_fields(text, exact, command, given) if sources else None


def _coming(made: Schedule) -> str:
    from queuectl.when import local

    words = made.read().in_words()
    if made.next_at is None:
        return f"{words} (no tick is planned)"
    return f"{words} (next {local(made.next_at, made.tz)}, {made.zone})"


@schedule.command(
    "list",
    examples="""
    queuectl schedule list
    queuectl schedule list --json | jq '.[] | select(.paused).name'
    """,
)
@quiet_names_option
@json_option
def list_schedules(quiet: bool, as_json: bool) -> None:
    """List all schedules: rule, next time, last job, and what they run."""
    from queuectl.cli.schedule_report import write_schedules
    from queuectl.views import schedule_dict

    with open_queue() as queue:
        found = queue.schedules.all()
    if as_json:
        write_json([schedule_dict(one) for one in found])
    elif quiet:
        for one in found:
            write(safe(one.name))
    elif found:
        write_schedules(found)
    else:
        say("There are no schedules.")


@schedule.command(
    "show",
    examples="""
    queuectl schedule show nightly
    queuectl schedule show nightly --json | jq -r '.next[0]'
    """,
)
@name_argument
@json_option
def show(schedule_name: str, as_json: bool) -> None:
    """Show all about a schedule: rule, what it runs, ticks that were and that come.

    Of its environment only the names are shown.
    """
    from queuectl.cli.schedule_report import write_shown
    from queuectl.views import schedule_whole

    with open_queue() as queue:
        found = queue.schedules.get(schedule_name)
        if as_json:
            write_json(schedule_whole(queue, found))
        else:
            write_shown(queue, found)


@schedule.command(
    "next",
    examples="""
    queuectl schedule next nightly
    queuectl schedule next nightly 20 --json
    """,
)
@name_argument
@click.argument("count", metavar="[N]", type=click.IntRange(min=1), default=10)
@json_option
def next_ticks(schedule_name: str, count: int, as_json: bool) -> None:
    """Show the next N times of a schedule, in its zone and in UTC; 10 without N.

    They are those of its rule: jitter comes on top, and while it is paused none of them comes.
    """
    from queuectl.cli.schedule_report import write_times
    from queuectl.report import moment

    with open_queue() as queue:
        found = queue.schedules.get(schedule_name)
        planned = queue.schedules.next(schedule_name, count)
    if as_json:
        write_json([moment(at) for at in planned])
        return
    if found.paused_at is not None:
        say(f"Schedule {found.name!r} is paused, so none of these comes until it is resumed.")
    write_times(found, planned)


@schedule.command(
    "run",
    examples="""
    queuectl schedule run nightly
    queuectl schedule run nightly --json
    """,
)
@name_argument
@quiet_option
@json_option
def run(schedule_name: str, quiet: bool, as_json: bool) -> None:
    """Make a job of a schedule now, besides those of its ticks; also while it is paused."""
    with open_queue() as queue, truthful(queue):
        job = queue.schedules.run(schedule_name)
        outlet.done = lambda: f"Job {job.id} is stored"
        if as_json:
            from queuectl.report import job_dict

            write_json(job_dict(job))
        else:
            write(safe(job.id if quiet else f"Enqueued job {job.id}: {job.title}"))
        note_idle(queue, [job.queue])


@schedule.command(
    "pause",
    examples="""
    queuectl schedule pause nightly
    queuectl schedule pause nightly poll --json
    """,
)
@names_argument
@json_option
def pause(schedule_names: tuple[str, ...], as_json: bool) -> None:
    """Let no ticks of schedules come until they are resumed; jobs that are there go on."""
    _switch(schedule_names, paused=True, as_json=as_json)


@schedule.command(
    "resume",
    examples="""
    queuectl schedule resume nightly
    queuectl schedule resume nightly poll --json
    """,
)
@names_argument
@json_option
def resume(schedule_names: tuple[str, ...], as_json: bool) -> None:
    """Let ticks of schedules come again, from now on.

    What was planned while a schedule was paused doesn't come; see schedule backfill.
    """
    _switch(schedule_names, paused=False, as_json=as_json)


def _switch(names: tuple[str, ...], *, paused: bool, as_json: bool) -> None:
    done, was_so = (
        ("is paused", "was paused already") if paused else ("is resumed", "wasn't paused")
    )
    with open_queue() as queue, truthful(queue):
        schedules = queue.schedules
        chosen = [schedules.get(name).name for name in dict.fromkeys(names)]
        change = schedules.pause if paused else schedules.resume
        changed = {name: change(name) for name in chosen}
        if as_json:
            write_json(
                [{"name": n, "paused": paused, "changed": is_new} for n, is_new in changed.items()]
            )
            return
        for name, is_new in changed.items():
            write(safe(f"Schedule {name!r} {done if is_new else was_so}."))


@schedule.command(
    "edit",
    cls=TakesProgram,
    examples="""
    queuectl schedule edit nightly --rule "0 4 * * *"
    queuectl schedule edit nightly "backup.sh --full" --timeout 2h
    queuectl schedule edit poll --overlap latest --unset timeout --unset tags
    """,
)
@name_argument
@click.argument("text", nargs=-1, metavar="[COMMAND | JSON | -- PROGRAM [ARG]...]")
@command_option
@click.option("--rule", metavar="RULE", help="When it ticks from now on.")
@policy_options
@field_options(but=NOT_FOR_SCHEDULES)
@click.option(
    "--unset",
    multiple=True,
    metavar="FIELD",
    help="Take what was said away, so that the default holds: timeout, tags, pause_after. Repeat.",
)
@json_option
def edit(
    schedule_name: str,
    text: tuple[str, ...],
    command: str | None,
    rule: str | None,
    unset: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Change a schedule; what isn't named stays as it is.

    Of a field that is named nothing stays: --tag and --env replace all that were there. Ticks that
    were planned before don't come because of it, and jobs that are there already keep what they
    have.
    """
    changes: dict[str, Any] = take_policy(flags)
    given = given_fields(flags)
    what = _what(text, command, given)
    changes |= given if what is None else what
    if rule is not None:
        changes["rule"] = rule
    gone = _taken_away(unset)
    if both := sorted(gone.keys() & changes):
        raise click.UsageError(f"Either set {both[0]} or take it away, not both")
    changes |= gone
    if not changes:
        raise click.UsageError("Say what to change: a command, --rule, or another option")
    with open_queue() as queue, truthful(queue):
        after = queue.schedules.edit(schedule_name, **changes)
        if as_json:
            from queuectl.views import schedule_dict

            write_json(schedule_dict(after))
        else:
            paused = " (paused)" if after.paused_at is not None else ""
            write(safe(f"Changed schedule {after.name}: {_coming(after)}{paused}"))


_DEFAULTS: Mapping[str, Any] = {
    "missed": "latest",
    "missed_within": None,
    "overlap": "skip",
    "jitter": 0,
    "pause_after": None,
}


def _taken_away(unset: tuple[str, ...]) -> dict[str, Any]:
    from queuectl.errors import did_you_mean

    gone: dict[str, Any] = {}
    for word in unset:
        name = word.strip().lstrip("-").replace("-", "_")
        name = {"tag": "tags", "retries": "max_retries", "max_attempts": "max_retries"}.get(
            name, name
        )
        if name not in _DEFAULTS and name not in TAKEN_AWAY:
            known = (*TAKEN_AWAY, *_DEFAULTS)
            hint = did_you_mean(name, known, f"there are {', '.join(known)}.")
            raise click.UsageError(f"There is no field {word!r} to take away; {hint}")
        gone[name] = _DEFAULTS.get(name)
    return gone


@schedule.command(
    "rm",
    examples="""
    queuectl schedule rm nightly
    queuectl schedule rm nightly poll --json
    """,
)
@names_argument
@json_option
def rm(schedule_names: tuple[str, ...], as_json: bool) -> None:
    """Remove schedules. The jobs that they made stay."""
    with open_queue() as queue, truthful(queue):
        chosen = [queue.schedules.get(name).name for name in dict.fromkeys(schedule_names)]
        removed: list[str] = []
        try:
            for name in chosen:
                queue.schedules.remove(name)
                removed.append(name)
        except QueuectlError:
            for name in removed:
                say(f"Schedule {name!r} removed.")
            raise
        if as_json:
            write_json([{"name": name, "removed": True} for name in removed])
            return
        for name in removed:
            write(safe(f"Schedule {name!r} removed."))


@schedule.command(
    "backfill",
    examples="""
    queuectl schedule backfill nightly 2026-11-01 2026-11-08 --dry-run
    queuectl schedule backfill nightly monday now
    """,
)
@name_argument
@click.argument("begin", metavar="FROM", type=MOMENT)
@click.argument("end", metavar="TO", type=MOMENT)
@DRY_RUN
@json_option
def backfill(schedule_name: str, begin: str, end: str, dry_run: bool, as_json: bool) -> None:
    """Make the jobs of ticks that were planned from FROM until before TO, and made none.

    FROM and TO are times to look back to: 2d (ago), monday, 2026-11-08T13:00:00Z, now. The jobs
    come all at once, whatever --overlap says, and find their times in QUEUECTL_SCHEDULED_FOR.
    """
    from queuectl.cli.schedule_report import write_times
    from queuectl.report import moment

    with open_queue() as queue, truthful(queue):
        found = queue.schedules.get(schedule_name)
        planned = queue.schedules.backfill(schedule_name, begin, end, dry_run=dry_run)
        jobs = plural(len(planned), "job")
        if as_json:
            write_json(
                {"name": found.name, "dry_run": dry_run, "ticks": [moment(at) for at in planned]}
            )
            return
        if dry_run and planned:
            write_times(found, planned)
        if dry_run:
            say(f"{jobs} would be made. Nothing was changed.")
        else:
            write_result(None, f"{jobs} made.", as_json=False)
