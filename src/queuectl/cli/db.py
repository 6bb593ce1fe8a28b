"""The `db` commands: looking after the database itself."""

import os
import shlex
from contextlib import suppress
from functools import partial
from typing import Any

import click

from queuectl.cli.command import Group
from queuectl.cli.confirm import confirm
from queuectl.cli.interrupts import abrupt, held, raised, truthful
from queuectl.cli.options import here, json_option, open_queue, yes_option
from queuectl.cli.render import (
    plural,
    safe,
    say,
    size,
    write,
    write_facts,
    write_json,
    write_result,
)
from queuectl.errors import EXIT_DONE, EXIT_FAILED, StateError, StoreMissingError
from queuectl.place import near
from queuectl.queue import Queue

BESIDE = ("", "-journal", "-wal", "-shm")
"""What an unfinished copy may leave behind."""
HALF_EMPTY = "Interrupted: not everything is deleted yet; run the same command again to go on."
CUT_SHORT = "Interrupted: the copy isn't complete; run the same command again to go on with it."


@click.group(
    cls=Group,
    examples="""
    queuectl db info
    queuectl db check && queuectl db backup "queue-$(date +%F).db"
    queuectl db vacuum                        # after a large prune
    queuectl db copy queue.db postgresql://queuectl@db.example/jobs
    queuectl db reset                         # start again from nothing
    """,
)
def db() -> None:
    """Make, check, back up, copy, compact or empty the database."""


@db.command(
    "info",
    examples="""
    queuectl db info
    queuectl db info --json
    """,
)
@json_option
def info(as_json: bool) -> None:
    """Show where the database is, its engine, version, size and durability."""
    with open_queue(must_exist=True) as queue:
        facts = _facts(queue)
    if as_json:
        write_json(facts)
        return
    write_facts((_title(name), _shown(name, value)) for name, value in facts.items())


def _facts(queue: Queue) -> dict[str, Any]:
    return {
        "database": queue.url,
        "chosen_by": queue.place.chosen_by,
        **queue.info(),
        "jobs": queue.status().total,
        "files": queue.folder,
    }


def _title(name: str) -> str:
    words = name.removesuffix("_bytes").replace("_", " ")
    return (words[0].upper() + words[1:]).replace("Wal", "WAL")


def _shown(name: str, value: Any) -> str | None:
    if value is None:
        return None
    return size(value) if name.endswith("_bytes") else str(value)


@db.command(
    "check",
    examples="""
    queuectl db check
    queuectl db check --json
    """,
)
@json_option
def check(as_json: bool) -> int:
    """Check the database's integrity; exits with 1 when something is wrong.

    It reads the whole file, and checks that counters and states agree with the jobs.
    """
    with open_queue(must_exist=True) as queue:
        url = queue.url
        with abrupt():
            problems = queue.verify()
    if as_json:
        write_json({"database": url, "ok": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            write(safe(problem))
        say(f"{plural(len(problems), 'problem')} found in {url}; restore a backup of it.")
    else:
        write(safe(f"{url} is sound."))
    return EXIT_FAILED if problems else EXIT_DONE


@db.command(
    "backup",
    examples="""
    queuectl db backup queue-backup.db
    queuectl --db queue-backup.db list        # look into the copy
    queuectl db backup --force queue-backup.db --json
    """,
)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--force", "-f", is_flag=True, help="Replace FILE if it exists.")
@json_option
def backup(file: str, force: bool, as_json: bool) -> None:
    """Write a consistent copy of the database to FILE while workers go on.

    Only its owner can read the copy. It appears under its name when it is complete. To restore
    it, stop the workers and put it in the place of the database.
    """
    from queuectl.cli.progress import Bar
    from queuectl.request import check_text

    target = os.path.abspath(check_text("The file's name", file, longest=4096))
    with open_queue(must_exist=True) as queue:
        if os.path.lexists(target):
            _check_replaceable(queue, file, force=force)
        unfinished = f"{target}.{os.getpid()}.partial"
        with held():
            try:
                with raised(), Bar("Copying") as bar:
                    queue.backup(unfinished, bar)
                copied = os.path.getsize(unfinished)
                _publish(unfinished, target, force=force)
            finally:
                _remove(unfinished)
            result = {"database": queue.url, "file": target, "size_bytes": copied}
            write_result(result, f"Backed up to {file} ({size(copied)}).", as_json=as_json)


def _check_replaceable(queue: Queue, file: str, *, force: bool) -> None:
    if not force:
        raise StateError(f"{file} exists already; choose another name, or use --force.")
    path = queue.info().get("path")
    if path is not None and os.path.realpath(file) == os.path.realpath(path):
        raise StateError(f"{file} is the database itself; choose another name.")
    if os.path.lexists(file) and not os.path.isfile(file):
        raise StateError(f"{file} isn't a plain file; choose another name.")
    if file.endswith(BESIDE[1:]):
        raise StateError(f"{file} is named like a part of a database; choose another name.")
    if os.path.exists(f"{file}-wal"):
        raise StateError(f"{file} is a database in use ({file}-wal is there); choose another name.")


def _publish(partial: str, target: str, *, force: bool) -> None:
    if force:
        os.replace(partial, target)
        return
    try:
        os.link(partial, target)  # unlike a rename it never replaces a file that came meanwhile
    except FileExistsError:
        raise StateError(f"{target} has come to exist meanwhile; choose another name.") from None


def _remove(partial: str) -> None:
    for ending in BESIDE:
        with suppress(FileNotFoundError):
            os.unlink(partial + ending)


@db.command(
    "vacuum",
    examples="""
    queuectl db vacuum
    queuectl db vacuum --json
    """,
)
@json_option
def vacuum(as_json: bool) -> None:
    """Give unused space back to the filesystem.

    Workers wait while the file is rewritten, and it needs as much free space as the data takes.
    """
    with open_queue(must_exist=True) as queue:
        before = _size_of(queue)
        with abrupt():
            queue.vacuum()
        after = _size_of(queue)
    gained = f"There was nothing to give back; it takes {size(after)}."
    if after < before:
        gained = f"Compacted from {size(before)} to {size(after)}."
    result = {"database": queue.url, "before_bytes": before, "after_bytes": after}
    write_result(result, gained, as_json=as_json)


def _size_of(queue: Queue) -> int:
    info = queue.info()
    return int(info.get("size_bytes", 0)) + int(info.get("wal_bytes", 0))


@db.command(
    "init",
    examples="""
    queuectl db init
    queuectl db init --db postgresql://queuectl@db.example/jobs
    queuectl db init --db /srv/queue/queue.db --group builders   # for all who are in it
    queuectl db init --json
    """,
)
@click.option(
    "--group",
    metavar="NAME",
    help="Share it with a group of this host, or mend what isn't shared any more.",
)
@json_option
def init(group: str | None, as_json: bool) -> None:
    """Make the queue's tables; one that is there already is left as it is.

    In a file that is done by the first enqueue as well. On a server, do it once, as a user who
    may create tables; workers and those who enqueue need fewer rights.

    With --group, whoever is in the group may use the file as its owner does, and so run commands
    as the user of the workers. The file must lie in a folder of its own.
    """
    place = near(here())
    if group is not None:
        from queuectl.maintenance import check_sharing

        # Before anything is made.
        check_sharing(place.url, group)
    with held():
        try:
            with raised():
                queue = Queue(place=place, create=False)
        except StoreMissingError:
            queue = Queue(place=place)
        with queue:
            closed = None if group is None else queue.share(group)
            _tell_made(queue, group, closed, as_json=as_json)


def _tell_made(queue: Queue, group: str | None, closed: str | None, *, as_json: bool) -> None:
    made, version = queue.is_new, queue.info()["schema_version"]
    if as_json:
        told = {"database": queue.url, "schema_version": version, "made": made, "group": group}
        write_json(told)
        return
    said = "Made a queue at {}" if made else "There is a queue at {} already"
    write(safe(f"{said.format(queue.url)} (schema {version})."))
    if group is not None:
        _tell_shared(queue, group, closed)


def _tell_shared(queue: Queue, group: str, closed: str | None) -> None:
    """Say what it means that a queue is shared, and what is still in the way."""
    write(safe(f"It is shared with group {group}: who is in it can run commands as your workers."))
    if closed is not None:
        say(f"Note: {closed} keeps them out; let them enter it: chmod o+x {shlex.quote(closed)}")
    if queue.living_nodes():
        say("Note: workers that run now take it up when they are started anew.")


@db.command(
    "migrate",
    examples="""
    queuectl db migrate
    queuectl db migrate --db postgresql://queuectl@db.example/jobs
    queuectl db migrate --json
    """,
)
@json_option
def migrate(as_json: bool) -> None:
    """Bring the tables to the version this queuectl needs; prints from which to which.

    A file is migrated by the first command that opens it. On a server, do it once, as a user who
    may change tables. Two at once don't collide, and workers of the version before may go on.
    """
    with Queue(place=here(), create=False, upgrade=True) as queue, truthful(queue):
        before, after = queue.migrate()
        done = f"Migrated from version {before} to {after}."
        if before == after:
            done = f"The schema is up to date (version {after})."
        result = {"database": queue.url, "from_version": before, "to_version": after}
        write_result(result, done, as_json=as_json)


@db.command(
    "copy",
    examples="""
    queuectl worker stop && queuectl db copy queue.db postgresql://queuectl@db.example/jobs
    queuectl db copy mysql://queuectl@db.example/jobs copy.db
    queuectl db copy --overwrite queue.db copy.db
    """,
)
@click.argument("source")
@click.argument("target")
@click.option("--overwrite", is_flag=True, help="Delete what is in TARGET first.")
@click.option(
    "--force",
    "-f",
    is_flag=True,
    help="Copy though workers are at work on SOURCE; what they run will run again at TARGET.",
)
@yes_option
@json_option
def copy(source: str, target: str, overwrite: bool, force: bool, yes: bool, as_json: bool) -> None:
    """Copy the queue at SOURCE, with history and output, to TARGET, and compare both.

    Each is a path or URL, of any kind. SOURCE is left as it is; stop its workers first. TARGET is
    made if need be, and must be empty; on a terminal, --overwrite asks before it deletes jobs
    there. Run the same command again to go on with a copy that was cut short; until it is
    complete, TARGET can't be used.
    """
    from queuectl.cli.finish import still_going
    from queuectl.cli.progress import Bar

    if overwrite:
        confirm(partial(_loss, target), yes=yes)
    with Queue(place=here(source), create=False) as queue, held() as truth, Bar("Copying") as bar:

        def show(label: str, done: int, total: int) -> None:
            bar(done, total, label)
            truth.check()

        try:
            copied = queue.copy_to(
                target,
                overwrite=overwrite,
                force=force,
                progress=partial(show, "Copying"),
                verifying=partial(show, "Comparing"),
            )
        except KeyboardInterrupt:
            with still_going(CUT_SHORT, always=True):
                raise
        tables = {each.table: {"rows": each.rows, "sha256": each.sha256} for each in copied}
        _tell_copied(source, target, tables, as_json=as_json)


def _tell_copied(
    source: str, target: str, tables: dict[str, dict[str, Any]], *, as_json: bool
) -> None:
    from queuectl.address import without_secrets

    source, target = without_secrets(source), without_secrets(target)
    jobs = plural(tables["jobs"]["rows"], "job")
    runs = plural(tables["attempts"]["rows"], "attempt")
    done = f"Copied {jobs} with {runs} to {target}; both sides are alike."
    write_result({"source": source, "target": target, "tables": tables}, done, as_json=as_json)


def _loss(target: str) -> str:
    """Ask about the jobs that are to be overwritten; what holds none, or no whole copy, may go."""
    from queuectl.address import without_secrets

    try:
        with Queue(place=here(target), create=False) as queue:
            jobs = queue.count()
    except (StoreMissingError, StateError):
        return ""
    return f"{without_secrets(target)} holds {plural(jobs, 'job')}; delete them?" if jobs else ""


@db.command(
    "reset",
    examples="""
    queuectl db reset                         # asks first
    queuectl db reset --settings --yes        # as if it had just been made
    queuectl db backup before.db && queuectl db reset --yes --json
    """,
)
@click.option("--settings", is_flag=True, help="Forget settings, pauses and tokens as well.")
@yes_option
@json_option
def reset(settings: bool, yes: bool, as_json: bool) -> None:
    """Delete all jobs, with their output, history and statistics.

    Settings, pauses and tokens stay, unless --settings is given. Stop the workers first. What
    can't be undone is asked for on a terminal.
    """
    from queuectl.cli.finish import still_going
    from queuectl.cli.progress import Bar

    with open_queue(must_exist=True) as queue:
        confirm(lambda: _losses(queue), yes=yes)
        with held() as truth, Bar("Deleting") as bar:

            def show(done: int, total: int) -> None:
                bar(done, total)
                truth.check()

            try:
                jobs = queue.reset(settings=settings, progress=show)
            except KeyboardInterrupt:
                with still_going(HALF_EMPTY, always=True):
                    raise
            rest = "" if settings else "; settings, pauses and tokens are as before"
            done = f"Deleted {plural(jobs, 'job')} from {queue.url}{rest}."
            result = {"database": queue.url, "jobs": jobs, "settings": settings}
            write_result(result, done, as_json=as_json)


def _losses(queue: Queue) -> str:
    """Ask about all that is to be deleted."""
    return f"Delete {plural(queue.count(), 'job')} from {queue.url}, with all history?"
