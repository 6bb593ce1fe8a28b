"""The `db` commands: looking after the database itself."""

import os
from contextlib import suppress
from typing import Any

import click

from queuectl.cli.command import Group
from queuectl.cli.options import here, json_option, open_queue
from queuectl.cli.render import plural, safe, say, write, write_facts, write_json
from queuectl.errors import EXIT_DONE, EXIT_FAILED, StateError, StoreMissingError
from queuectl.queue import Queue

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
BESIDE = ("", "-journal", "-wal", "-shm")
"""What an unfinished copy may leave behind."""


@click.group(
    cls=Group,
    examples="""
    queuectl db info
    queuectl db check && queuectl db backup "queue-$(date +%F).db"
    queuectl db vacuum                        # after a large prune
    queuectl db copy queue.db postgresql://queuectl@db.example/jobs
    """,
)
def db() -> None:
    """Make, inspect, check, back up, copy and compact the database."""


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
    with open_queue() as queue:
        facts = _facts(queue)
    if as_json:
        write_json(facts)
        return
    write_facts((_title(name), _shown(name, value)) for name, value in facts.items())


def _facts(queue: Queue) -> dict[str, Any]:
    return {
        "database": queue.url,
        "chosen_by": queue.place.chosen_by,
        **queue.store.info(),
        "jobs": queue.status().total,
        "files": os.path.dirname(queue.store.spool_root()),
    }


def _title(name: str) -> str:
    words = name.removesuffix("_bytes").replace("_", " ")
    return (words[0].upper() + words[1:]).replace("Wal", "WAL")


def _shown(name: str, value: Any) -> str | None:
    if value is None:
        return None
    return size(value) if name.endswith("_bytes") else str(value)


def size(count: int) -> str:
    """Write a number of bytes for people: `512 bytes`, `1.5 MiB`."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{count} {UNITS[0]}" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"


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
    with open_queue() as queue:
        url = queue.url
        problems = queue.store.verify()
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
    """,
)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--force", "-f", is_flag=True, help="Replace FILE if it exists.")
def backup(file: str, force: bool) -> None:
    """Write a consistent copy of the database to FILE while workers go on.

    Only its owner can read the copy. It appears under its name when it is complete. To restore
    it, stop the workers and put it in the place of the database.
    """
    from queuectl.cli.progress import Bar
    from queuectl.request import check_text

    target = os.path.abspath(check_text("The file's name", file, longest=4096))
    with open_queue() as queue:
        if os.path.lexists(target):
            _check_replaceable(queue, file, force=force)
        partial = f"{target}.{os.getpid()}.partial"
        try:
            with Bar("Copying") as bar:
                queue.store.backup(partial, bar)
            copied = os.path.getsize(partial)
            _publish(partial, target, force=force)
        finally:
            _remove(partial)
    write(safe(f"Backed up to {file} ({size(copied)})."))


def _check_replaceable(queue: Queue, file: str, *, force: bool) -> None:
    if not force:
        raise StateError(f"{file} exists already; choose another name, or use --force.")
    path = queue.store.info().get("path")
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
    """,
)
def vacuum() -> None:
    """Give unused space back to the filesystem.

    Workers wait while the file is rewritten, and it needs as much free space as the data takes.
    """
    with open_queue() as queue:
        before = _size_of(queue)
        queue.store.vacuum()
        after = _size_of(queue)
    gained = f"Compacted from {size(before)} to {size(after)}."
    write(gained if after < before else f"There was nothing to give back; it takes {size(after)}.")


def _size_of(queue: Queue) -> int:
    info = queue.store.info()
    return int(info.get("size_bytes", 0)) + int(info.get("wal_bytes", 0))


@db.command(
    "init",
    examples="""
    queuectl db init
    queuectl db init --db postgresql://queuectl@db.example/jobs
    """,
)
def init() -> None:
    """Make the queue's tables; one that is there already is left as it is.

    In a file that is done by the first enqueue as well. On a server, do it once, as a user who
    may create tables; workers and those who enqueue need fewer rights.
    """
    from queuectl.store import open_store

    url = here().url
    try:
        store, said = open_store(url), "There is a queue at {} already (schema {})."
    except StoreMissingError:
        store, said = open_store(url, create=True), "Made a queue at {} (schema {})."
    try:
        version = store.info()["schema_version"]
    finally:
        store.close()
    write(safe(said.format(store.url, version)))


@db.command(
    "migrate",
    examples="""
    queuectl db migrate
    queuectl db migrate --db postgresql://queuectl@db.example/jobs
    """,
)
def migrate() -> None:
    """Bring the tables to the version this queuectl needs; prints from which to which.

    A file is migrated by the first command that opens it. On a server, do it once, as a user who
    may change tables. Two at once don't collide, and workers of the version before may go on.
    """
    from queuectl.store import open_store

    store = open_store(here().url, upgrade=True, unfinished=True)
    try:
        before, after = store.migrate()
    finally:
        store.close()
    if before == after:
        write(f"The schema is up to date (version {after}).")
    else:
        write(f"Migrated from version {before} to {after}.")


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
@json_option
def copy(source: str, target: str, overwrite: bool, force: bool, as_json: bool) -> None:
    """Copy the queue at SOURCE, with history and output, to TARGET, and compare both.

    Each is a path or URL, of any kind. SOURCE is left as it is; stop its workers first. TARGET is
    made if need be, and must be empty. Run the same command again to go on with a copy that was
    cut short; until it is complete, TARGET can't be used.
    """
    from queuectl.address import without_secrets
    from queuectl.cli.progress import Bar

    with Queue(source, create=False) as queue, Bar("Copying") as bar:
        copied = queue.copy_to(
            target,
            overwrite=overwrite,
            force=force,
            progress=bar,
            verifying=lambda done, total: bar(done, total, "Comparing"),
        )
    rows = {table.table: table.rows for table in copied}
    if as_json:
        tables = {t.table: {"rows": t.rows, "sha256": t.sha256} for t in copied}
        places = {"source": without_secrets(source), "target": without_secrets(target)}
        write_json({**places, "tables": tables})
        return
    jobs, runs = plural(rows["jobs"], "job"), plural(rows["attempts"], "attempt")
    write(safe(f"Copied {jobs} with {runs} to {without_secrets(target)}; both sides are alike."))
