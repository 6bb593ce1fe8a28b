"""`enqueue`: adds one job, or a file of them, and if asked stays until they are finished."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.expand import expansion_options, wanted
from queuectl.cli.interrupts import truthful
from queuectl.cli.notes import (
    near_queue,
    note_followed,
    note_idle,
    note_near,
    note_paused,
    note_unhandled,
)
from queuectl.cli.options import (
    Once,
    follow_option,
    json_option,
    open_queue,
    or_stuck_option,
    quiet_option,
    raw_option,
    wait_option,
)
from queuectl.cli.outlet import outlet
from queuectl.cli.program import (
    LITERAL,
    TakesProgram,
    check_one_command,
    command_option,
    exact_words,
    field_options,
    finally_option,
    follower,
    given_fields,
    in_our_trace,
    job_fields,
    name_parents,
    on_done_option,
)
from queuectl.cli.render import complain, plural, safe, say, shorten, write, write_json
from queuectl.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, BadJobError, StuckError
from queuectl.job import DEFAULT_QUEUE, Job, State
from queuectl.values import dataclass
from queuectl.when import format_duration, local, until

if TYPE_CHECKING:
    from queuectl.cli.expand import Wanted
    from queuectl.cli.feed import Feed
    from queuectl.expansion import Expansion
    from queuectl.queue import Queue

LONGEST_SHOWN = 200

EXAMPLES = """
queuectl enqueue "echo Hello World"
queuectl enqueue "backup.sh" --priority 10 --timeout 5m --run-at +1h
queuectl enqueue '{"id": "job1", "command": "make", "max_retries": 2}'
queuectl enqueue -- rsync -a "my files/" host:/backup    # exactly these words, no shell
queuectl enqueue "make test" --follow                    # watch it; exits as the job does
queuectl enqueue "convert page-{}.tif page-{}.png" --array 1-100%4
find . -name '*.png' -print0 | queuectl enqueue "optipng {} -out small/{/}" --each-line - -0
queuectl enqueue "train.py --lr {lr}" --sweep lr=0.1,0.01 --sweep seed=1..5 --dry-run
find . -name '*.png' -printf 'optipng %p\\n' | queuectl enqueue --lines - --queue images
queuectl enqueue --file jobs.jsonl --max-retries 0
queuectl enqueue --graph pipeline.jsonl --dry-run        # jobs that wait for each other by name
queuectl enqueue '[{"command": "make a"}, {"command": "make b"}]'
queuectl enqueue "python train.py" --env-all             # in the virtual environment of this shell
queuectl enqueue '[[ -s log ]] && source run.sh' --shell bash
queuectl enqueue "sync.sh 42" --unique sync-42           # one at a time; a second call names it
queuectl enqueue "index.sh" --unique index --delay 1m --on-duplicate debounce --max-wait 10m
queuectl enqueue "render.sh film" --on-success "rm -r scratch" --on-dead "mail ops < /dev/stdin"
queuectl enqueue "load.sh" --after 7f3k --after m2aa    # when both have completed
queuectl enqueue "rm -r scratch" --finally 7f3k          # however that one ends
queuectl enqueue "join.sh {}" --array 1-100 --after-each tiles    # 7 waits for 7 of that array
queuectl enqueue --lines jobs.txt --group nightly --on-done "notify.sh"   # when all have ended
pg_dump shop | queuectl enqueue "gzip > shop.gz" --stdin -
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How the command reports, and whether it stays."""

    wait: bool
    follow: bool
    raw: bool
    quiet: bool
    as_json: bool
    on_done: str | None = None
    """What runs when the group is over."""
    or_stuck: bool = False
    """Whether it stays no longer than something of that can go on by itself."""


@click.command(cls=TakesProgram, examples=EXAMPLES)
@click.argument("text", nargs=-1, metavar="[COMMAND | JSON | -- PROGRAM [ARG]...]")
@command_option
@click.option(
    "--file",
    "-F",
    cls=Once,
    instead="pipe all files into one: cat A B | queuectl enqueue --file -",
    metavar="FILE",
    help="A file with a JSON job per line; - is stdin.",
)
@click.option(
    "--lines",
    cls=Once,
    instead="pipe all files into one: cat A B | queuectl enqueue --lines -",
    metavar="FILE",
    help="A file with a shell command per line (blank and # lines are skipped); - is stdin.",
)
@click.option(
    "--keep-going",
    is_flag=True,
    help="Store the good lines of a file though others are bad; those are reported, exit code 1.",
)
@click.option(
    "--graph",
    cls=Once,
    instead="store each file by a call of its own, or put all jobs into one file",
    metavar="FILE",
    help="A file of jobs that name each other: JSON lines, a JSON array, or YAML (.yaml); - is"
    " stdin.",
)
@expansion_options
@click.option("--dry-run", is_flag=True, help="Show what would be stored, and store nothing.")
@field_options()
@finally_option
@on_done_option
@wait_option
@follow_option
@or_stuck_option
@raw_option
@quiet_option
@json_option
def enqueue(
    text: tuple[str, ...],
    command: str | None,
    file: str | None,
    lines: str | None,
    keep_going: bool,
    graph: str | None,
    dry_run: bool,
    on_done: str | None,
    wait: bool,
    follow: bool,
    or_stuck: bool,
    raw: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Add jobs: a command, JSON, or a file of either.

    A plain text is a command for the shell. Text that begins with { is a job as JSON, whose fields
    are named as the options are (command, id, priority, timeout, run_at, env, tags ...), and a JSON
    array is several of them. Words behind -- are a program and its arguments, run without a shell.

    Options outrank the fields of a JSON job. For a file or an array it is the other way around:
    options are defaults, and what a line says itself wins. Tags add up and variables merge either
    way. A file or an array is stored whole or, if a part is bad, not at all.

    A job runs in the environment of its worker, with --env on top; with --env-all in ours instead.

    An array, a sweep, lines and a graph are a group: that of --group, or one whose name is printed,
    so that wait, progress, results, cancel and retry can be told --group NAME.

    When the id is printed, the job is safe on disk. With --wait or --follow the exit code is that
    of the job: 128 + n if signal n killed it, 124 if it timed out, 1 if it was cancelled or never
    started.
    """
    exact = exact_words()
    how = Manner(
        wait=wait or follow,
        follow=follow,
        raw=raw,
        quiet=quiet,
        as_json=as_json,
        on_done=on_done,
        or_stuck=or_stuck,
    )
    check_manner(how)
    if dry_run and how.wait:
        raise click.UsageError("With --dry-run nothing is stored, so there is nothing to wait for")
    asked = wanted(flags)
    _check_sources(text, exact, command, file, lines, graph)
    if graph is not None:
        _check_graph(graph, flags, is_many=asked is not None, keep_going=keep_going)
        return _enqueue_graph(graph, in_our_trace(given_fields(flags)), how, dry_run=dry_run)
    from_stdin = "-" in (file, lines) or (asked is not None and asked.reads_stdin)
    if flags["stdin"] == "-" and from_stdin:
        raise click.UsageError("Jobs and their stdin can't both come from our stdin; name a file")
    array = _array(text)
    if asked is not None:
        _check_expandable(array is not None, file or lines, flags["id"], keep_going=keep_going)
        fields = in_our_trace(job_fields(text, exact, command, given_fields(flags)))
        return _enqueue_expansion(fields, asked, how, dry_run=dry_run)
    if array is None and file is None and lines is None:
        if keep_going:
            raise click.UsageError("--keep-going is for --file, --lines and JSON arrays")
        fields = in_our_trace(job_fields(text, exact, command, given_fields(flags)))
        return show_requests([fields], how) if dry_run else enqueue_one(fields, how)
    if flags["id"] is not None:
        raise click.UsageError("--id is for a single job; of several, each says its own")
    given = in_our_trace(given_fields(flags))
    take = partial(_show_feed if dry_run else _enqueue_feed, given, keep_going, how)
    if array is not None:
        return take(array)
    return _with_file(file or lines or "", lines is not None, keep_going, take)


def check_manner(how: Manner) -> None:
    """Refuse what makes no sense together about reporting and staying."""
    if how.raw and not how.follow:
        raise click.UsageError("--raw is for --follow: nothing else shows what the job writes")
    if how.follow and how.as_json:
        raise click.UsageError("--follow prints what the job writes, so --json can't be with it")
    if how.or_stuck and not how.wait:
        raise click.UsageError("--or-stuck is for --wait and --follow")


def _check_graph(path: str, flags: dict[str, Any], *, is_many: bool, keep_going: bool) -> None:
    """Refuse what makes no sense for a graph."""
    if is_many or keep_going:
        raise click.UsageError("--graph stores a file as it is, and whole or not at all")
    if flags["id"] is not None:
        raise click.UsageError("--id is for a single job; of several, each says its own")
    if flags["stdin"] == path == "-":
        raise click.UsageError("Jobs and their stdin can't both come from our stdin; name a file")


def _check_expandable(
    is_array: bool, file: str | None, id: str | None, *, keep_going: bool
) -> None:
    """Refuse what makes no sense for one job that becomes many."""
    if is_array or file is not None:
        raise click.UsageError(
            "--array, --each-line, --sweep and --each-json make many jobs of one; give that as a"
            " command, a JSON object or -- PROGRAM"
        )
    if id is not None:
        raise click.UsageError("--id is for a single job; each of these gets its own")
    if keep_going:
        raise click.UsageError("--keep-going is for --file, --lines and JSON arrays")


def _check_sources(
    text: Sequence[str],
    exact: Sequence[str] | None,
    command: str | None,
    file: str | None,
    lines: str | None,
    graph: str | None,
) -> None:
    """Insist on exactly one thing to enqueue."""
    named = (command, file, lines, graph)
    sources = [bool(text), exact is not None, *(x is not None for x in named)]
    if not any(sources):
        raise click.UsageError("Give a command, a JSON job, -- PROGRAM, --file, --lines or --graph")
    if sum(sources) > 1:
        raise click.UsageError(
            "Give only one of: a command, --command, -- PROGRAM, --file, --lines, --graph"
        )
    check_one_command(text)
    if text and text[0] == "-":
        raise click.UsageError(
            "A command can't be -; to read from stdin, use --lines - for commands, or --file - for"
            " JSON jobs"
        )


def _array(text: Sequence[str]) -> "Feed | None":
    """Return the jobs of a JSON array, if that is what was given."""
    if not text or not text[0].lstrip().startswith("["):
        return None
    from queuectl.cli.feed import read_array

    return read_array(text[0], LITERAL.format("["))


def enqueue_one(fields: dict[str, Any], how: Manner) -> int:
    """Store a job, and report and wait as is asked."""
    _check(fields)
    last = follower(how.on_done, fields)
    _warn_directory(fields)
    with open_queue(create=True) as queue, truthful(queue):
        near = near_queue(queue, str(fields.get("queue") or DEFAULT_QUEUE))
        name_parents(queue, fields)
        note_followed(queue, last)
        job, is_new = _stored(queue, fields, last)
        outlet.done = lambda: f"Job {job.id} is stored"
        is_changed = fields.get("on_duplicate") == "debounce"
        is_told = _tell(job, how, is_new=is_new, is_changed=is_changed)
        note_near(job.queue, near)
        if not how.wait:
            note_paused(queue, job.queue)
            if job.handler:
                note_unhandled(queue, job)
            else:
                note_idle(queue, [job.queue])
            return EXIT_DONE
        from queuectl.cli.finish import still_going

        go_on = f"Nothing was stopped; go on with: queuectl wait {job.id}."
        with still_going(go_on, always=not is_told):
            if how.follow:
                return _follow(queue, [job.id], how)
            code = _wait(queue, [job.id], how)
            if how.as_json:
                _write_job(queue.get(job.id), is_new=is_new)
            return code


def _stored(
    queue: "Queue", fields: dict[str, Any], last: dict[str, Any] | None
) -> tuple[Job, bool]:
    """Store a job; if another one has its unique key, that is returned, and False.

    With what follows its group, if that is asked for.
    """
    if fields.get("unique") is None and last is None:
        return queue.enqueue(fields), True
    batch = queue.enqueue_many([fields, *([] if last is None else [last])])
    return queue.get(batch.ids[0]), batch.ids[0] not in batch.existing


def _tell(job: Job, how: Manner, *, is_new: bool, is_changed: bool) -> bool:
    """Say what was enqueued; False if that is to be said later, or not at all."""
    told = _told(job) if is_new else _told_of_holder(job, is_changed=is_changed)
    if how.follow:
        if not how.quiet:
            say(told)
        return not how.quiet
    if how.as_json and how.wait:
        return False
    if how.as_json:
        _write_job(job, is_new=is_new)
    else:
        write(safe(job.id) if how.quiet else told)
    return True


def _write_job(job: Job, *, is_new: bool) -> None:
    from queuectl.report import job_dict

    existing = {} if job.unique_key is None else {"existing": not is_new}
    write_json(job_dict(job) | existing)


def _check(fields: dict[str, Any]) -> None:
    """Refuse bad fields before a database is made for them."""
    from time import time

    from queuectl.request import current_environment, read_request, with_environment

    now = int(time() * 1000)
    job = read_request(fields, now=now)
    if job.env_all:
        with_environment(current_environment(), job.env)
    run_at = job.run_at
    if run_at is not None and run_at < now:
        say(f"Note: {local(run_at)} is in the past, so the job is due at once.")
    if fields.get("cwd") is None and job.data is None:
        try:
            os.getcwd()
        except FileNotFoundError:
            raise BadJobError("This directory is gone; go to another or give --cwd.") from None


def _warn_directory(fields: dict[str, Any]) -> None:
    """Say that a directory isn't here; it may be where the worker is, or may come yet."""
    cwd = fields.get("cwd")
    if isinstance(cwd, str) and not os.path.isdir(cwd):
        say(f"Note: there is no directory {cwd} here; the job fails if it is missing when it runs.")


def _told(job: Job) -> str:
    """Say what was enqueued, with what isn't as usual."""
    told = f"Enqueued job {job.id}: {job.title}"
    if len(told) > LONGEST_SHOWN:
        told = shorten(safe(told), LONGEST_SHOWN)
    if job.queue != DEFAULT_QUEUE:
        told += f" [queue: {job.queue}]"
    if job.priority:
        told += f" [priority: {job.priority}]"
    if job.timeout:
        told += f" [timeout: {format_duration(job.timeout)}]"
    if job.state == State.CANCELLED:
        return safe(f"Dropped job {job.id}, which is cancelled: {job.reason}")
    if job.run_at > job.created_at:
        told += f" (scheduled for {local(job.run_at)}, {until(job.run_at, job.created_at)})"
    if job.state == State.BLOCKED:
        told += f" (blocked: it waits for {_awaited(job)})"
    return safe(told)


def _awaited(job: Job) -> str:
    """Name what a job waits for."""
    from queuectl.explain import listed

    return listed([*job.after, *(f"group {name}" for name in job.after_group)])


def _told_of_holder(job: Job, *, is_changed: bool) -> str:
    """Say that another job has the unique key; if it was debounced, it is what was asked for."""
    has = f"Job {job.id} has the unique key {job.unique_key!r}, and"
    told = f"{has} {'is now' if is_changed else f'is {job.state}'}: {job.title}"
    if job.run_at > job.updated_at:
        told += f" (scheduled for {local(job.run_at)}, {until(job.run_at, job.updated_at)})"
    return shorten(safe(told), LONGEST_SHOWN)


def _with_file(path: str, plain: bool, keep_going: bool, take: "Callable[[Feed], int]") -> int:
    from queuectl.cli.feed import open_feed

    with open_feed(path, plain=plain, hold=not keep_going) as feed:
        if not plain:
            feed.read = partial(_read_json_line, feed.read)
        return take(feed)


def _read_json_line(
    read: Callable[[str], dict[str, Any] | None], line: str
) -> dict[str, Any] | None:
    """Read a JSON job; of a line that looks like a command, the error says what reads those."""
    try:
        return read(line)
    except BadJobError as error:
        if line.lstrip()[:1] in '{["':
            raise
        raise BadJobError(f"{str(error).rstrip('.')}; --lines reads a command per line.") from None


def _show_feed(given: dict[str, Any], keep_going: bool, how: Manner, feed: "Feed") -> int:
    from queuectl.cli.bulk import Bulk
    from queuectl.cli.dry_run import show_values

    bulk = Bulk(feed, given, keep_going=keep_going)
    show_values(bulk.preview(), as_json=how.as_json, quiet=how.quiet)
    return EXIT_FAILED if bulk.refused else EXIT_DONE


def _enqueue_feed(given: dict[str, Any], keep_going: bool, how: Manner, feed: "Feed") -> int:
    from queuectl.cli.bulk import Bulk

    _warn_directory(given)
    last = follower(how.on_done, given)
    bulk = Bulk(feed, given, keep_going=keep_going, last=last)
    bulk.prepare()
    name = str(given.get("queue") or DEFAULT_QUEUE)
    with open_queue(create=True) as queue, truthful(queue):
        near = near_queue(queue, name)
        name_parents(queue, given)
        note_followed(queue, last)
        batch = bulk.enqueue(queue)
        outlet.done = lambda: f"{plural(len(batch.ids), 'job')} stored"
        bulk.report(batch, quiet=how.quiet, as_json=how.as_json)
        note_near(name, near)
        if bulk.interrupted:
            return EXIT_INTERRUPTED
        code = EXIT_FAILED if bulk.refused else EXIT_DONE
        # The lines may name any queue themselves.
        return _stay(queue, batch.ids, name, [], how, code)


def _enqueue_graph(path: str, given: dict[str, Any], how: Manner, *, dry_run: bool) -> int:
    from queuectl.cli import graph_file

    entries = graph_file.read_graph(path)
    graph_file.put_in_group(entries, given)
    last = follower(how.on_done, given)
    if dry_run:
        found = graph_file.preview(entries, given)
        return graph_file.show(found, quiet=how.quiet, as_json=how.as_json)
    _warn_directory(given)
    name = str(given.get("queue") or DEFAULT_QUEUE)
    with open_queue(create=True) as queue, truthful(queue):
        near = near_queue(queue, name)
        note_followed(queue, last)
        batch, found = graph_file.enqueue(queue, entries, given, last)
        group = given.get("group")
        graph_file.tell(batch, found, group, quiet=how.quiet, as_json=how.as_json)
        note_near(name, near)
        return _stay(queue, batch.ids, name, [], how, EXIT_DONE)


def _stay(
    queue: "Queue", ids: Sequence[str], name: str, served: Sequence[str], how: Manner, code: int
) -> int:
    """Wait for many jobs, if that is asked for, or note what keeps them."""
    if how.follow:
        return max(code, _follow(queue, ids, how))
    if how.wait:
        return max(code, _wait(queue, ids, how))
    note_paused(queue, name)
    note_idle(queue, served)
    return code


def _enqueue_expansion(
    fields: dict[str, Any], asked: "Wanted", how: Manner, *, dry_run: bool
) -> int:
    from queuectl.cli.bulk import tell
    from queuectl.cli.elements import first_of, open_expansion, store_all
    from queuectl.groups import new_name

    name = str(fields.get("queue") or DEFAULT_QUEUE)
    if fields.get("group") is None:
        fields["group"] = new_name("sweep" if asked.sweep or asked.each_json else "array")
    group, last = fields["group"], follower(how.on_done, fields)
    if fields.get("after"):
        with open_queue() as queue:
            name_parents(queue, fields)
    with open_expansion(asked, fields) as expansion:
        if asked.after_each is not None:
            return _enqueue_pairs(asked.after_each, expansion, last, group, how, dry_run=dry_run)
        if dry_run:
            return show_requests(expansion, how)
        _warn_directory(fields)
        # Nothing is opened, or made, for a request that can't be read.
        first = first_of(expansion)
        with open_queue(create=True) as queue, truthful(queue):
            near = near_queue(queue, name)
            note_followed(queue, last)
            stored = store_all(queue, first, expansion, last)
            rest = [] if stored.is_whole else [stored.rest(asked.skip, group)]
            ids, missing = stored.batch.ids, rest
            outlet.done = lambda: f"{plural(len(ids), 'job')} stored"
            bad = [{"error": why} for why in missing]
            form = partial(tell, unit="rest", quiet=how.quiet, as_json=how.as_json)
            form(stored.batch, bad, group=group)
            for why in missing:
                complain(why)
            note_near(name, near)
            if stored.interrupted:
                return EXIT_INTERRUPTED
            if stored.error is not None:
                return stored.error.exit_code
            return _stay(queue, ids, name, [name], how, EXIT_DONE)


def _enqueue_pairs(
    other: str,
    expansion: "Expansion",
    last: dict[str, Any] | None,
    group: str,
    how: Manner,
    *,
    dry_run: bool,
) -> int:
    """Store elements that wait for those of another group, one for one, all at once."""
    from queuectl.cli.bulk import tell
    from queuectl.groups import without_following

    with open_queue() as queue, truthful(queue):
        requests = queue.groups.after_each(other, expansion)
        if dry_run:
            return show_requests(requests, how)
        _warn_directory({**expansion.shared})
        name = str(expansion.shared.get("queue") or DEFAULT_QUEUE)
        near = near_queue(queue, name)
        note_followed(queue, last)
        batch = queue.enqueue_many([*requests, last] if last and requests else requests)
        if last and requests:
            batch = without_following(batch)
        outlet.done = lambda: f"{plural(len(batch.ids), 'job')} stored"
        tell(batch, [], unit="rest", quiet=how.quiet, as_json=how.as_json, group=group)
        note_near(name, near)
        return _stay(queue, batch.ids, name, [name], how, EXIT_DONE)


def show_requests(requests: "Iterable[dict[str, Any]]", how: Manner) -> int:
    """Show what requests would store."""
    from time import time

    from queuectl.cli.dry_run import show_values
    from queuectl.request import read_values

    now = int(time() * 1000)
    values = (read_values(fields, now=now) for fields in requests)
    return show_values(values, as_json=how.as_json, quiet=how.quiet)


def _wait(queue: "Queue", ids: Sequence[str], how: Manner) -> int:
    from queuectl.cli.wait import wait_for_jobs

    return wait_for_jobs(queue, ids, talk=not how.quiet, or_stuck=how.or_stuck)


def _follow(queue: "Queue", ids: Sequence[str], how: Manner) -> int:
    from queuectl.cli.finish import still_going
    from queuectl.cli.logs import follow_ids

    again = f"go on with: queuectl logs -f {ids[0]}" if len(ids) == 1 else "queuectl logs goes on"
    with still_going(f"Nothing was stopped; {again}."):
        try:
            follow_ids(queue, ids, talk=not how.quiet, raw=how.raw, or_stuck=how.or_stuck)
        except StuckError as error:
            complain(f"{str(error).rstrip('.')}; {again}.")
            return EXIT_FAILED
    return _wait(queue, ids, how)
