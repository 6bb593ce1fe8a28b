"""Checks what a queue depends on besides its jobs: where it is, its nodes, tables and disks.

What is particular to a database is in `sqlite`, `postgresql` and `mysql`, and what servers share in
`server`.
Nothing is changed, and no password is shown.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from shlex import quote
from shutil import disk_usage

from queuectl import SCHEMA_VERSION, __version__
from queuectl.address import SECRET, is_server, read_address, without_secrets
from queuectl.errors import (
    BadSettingError,
    StoreDeniedError,
    StoreError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from queuectl.facts import Node, count_unhandled, count_unserved, count_waiting
from queuectl.job import WAITING, State, told_handler
from queuectl.place import Place
from queuectl.shortage import having, is_short, shortages
from queuectl.store.access import user_name
from queuectl.store.contract import Store
from queuectl.store.health.findings import Finding, Level
from queuectl.store.migrations import BASELINE, current
from queuectl.store.sqlstore import SqlStore
from queuectl.when import ago

__all__ = ["Finding", "Level", "check_place", "check_queue", "check_settings", "gather"]

Check = Callable[[], Iterable[Finding]]

LITTLE_SPACE = 2**30
LITTLE_SHARE = 0.05
NO_SPACE = 100 * 2**20
MOST_COUNTED = 100_000
"""Jobs of a line that are counted to say how many can't run."""
KEEP_RECEIPTS = 48 * 3_600_000
"""Milliseconds after which a running node would have dropped a receipt long ago."""


def ok(subject: str, text: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(level=Level.OK, subject=subject, text=text)


def note(subject: str, text: str, advice: str) -> Finding:
    """Say something that is good to know."""
    return Finding(level=Level.NOTE, subject=subject, text=text, advice=advice)


def warning(subject: str, text: str, advice: str) -> Finding:
    """Say what may go wrong one day."""
    return Finding(level=Level.WARNING, subject=subject, text=text, advice=advice)


def error(subject: str, text: str, advice: str) -> Finding:
    """Say what is wrong."""
    return Finding(level=Level.ERROR, subject=subject, text=text, advice=advice)


def sentence(text: str) -> str:
    """Make advice that ended a sentence one of its own."""
    return f"{text[0].upper()}{text[1:]}."


def gather(checks: Mapping[str, Check], known: Iterable[Finding] = ()) -> list[Finding]:
    """Make checks by subject. One that can't be made is a finding too, and the others go on.

    `known` are findings of earlier checks: what they explain isn't said again.
    """
    found: list[Finding] = []
    for subject, check in checks.items():
        try:
            found += check()
        except StoreError as trouble:
            if not _is_explained(trouble, [*known, *found]):
                again = "Mend that, then run `queuectl doctor` again."
                found.append(error(subject, f"This couldn't be checked: {trouble}", again))
            if isinstance(trouble, StoreUnreachableError):
                break
        except OSError as trouble:
            text = f"This couldn't be checked: {trouble.filename}: {trouble.strerror}."
            found.append(warning(subject, text, "Run it as the user of the workers."))
    return found


def _is_explained(trouble: StoreError, found: Iterable[Finding]) -> bool:
    wrong = {finding.subject for finding in found if finding.level == Level.ERROR}
    if "schema" in wrong and not isinstance(trouble, StoreUnreachableError):
        # Without tables, or with others than ours, there is nothing to ask them.
        return True
    return (isinstance(trouble, StoreDeniedError) and "grants" in wrong) or (
        isinstance(trouble, StoreReadOnlyError) and "read-only" in wrong
    )


# -- where it is ------------------------------------------------------------------------


def check_place(place: Place) -> Iterator[Finding]:
    """Say who asks, which queue is meant, and whether its password is kept from others."""
    shown = without_secrets(place.url)
    yield ok("version", f"This is queuectl {__version__}, for schema {SCHEMA_VERSION}.")
    yield ok("place", f"The queue is {shown}, chosen by {place.chosen_by}.")
    if not _has_password(place.url):
        return
    if place.chosen_by == "--db":
        yield note(
            "password",
            "The password is on the command line: the shell's history keeps it, and for a moment"
            " the list of processes shows it.",
            "Put the URL into QUEUECTL_DB or a queuectl.toml with mode 0600, or the password into"
            " ~/.pgpass (PostgreSQL) or ~/.my.cnf (MariaDB, MySQL).",
        )
    elif os.path.isfile(place.chosen_by) and _mode(place.chosen_by) & 0o077:
        yield warning(
            "password",
            f"{place.chosen_by} holds a password, and others on this host can read it"
            f" (mode {_mode(place.chosen_by):04o}).",
            f"Run: chmod 600 {quote(place.chosen_by)}",
        )


def _has_password(url: str) -> bool:
    if not is_server(url):
        return False
    address = read_address(url)
    return address.password is not None or any(name in SECRET for name in address.options)


def _mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def check_settings(place: Place, shared: Mapping[str, str]) -> Iterator[Finding]:
    """See whether the settings, with the shared ones, can be read and fit together."""
    try:
        place.settings(shared)
    except BadSettingError as wrong:
        yield error("settings", str(wrong), "Correct it; see docs/settings.md for all settings.")
    for odd in place.oddities:
        yield warning("settings", odd, "Correct its name, or unset it if it isn't needed.")


# -- files ------------------------------------------------------------------------------


def check_access(paths: Sequence[str]) -> Iterator[Finding]:
    """Look at who may read and write these files and folders, as far as they exist."""
    there = [path for path in paths if os.path.exists(path)]
    wrong = [finding for path in there for finding in _check_access(path)]
    yield from wrong
    if there and not wrong:
        yield ok("permissions", "The files and folders are yours alone (0600 and 0700).")


def _check_access(path: str) -> Iterator[Finding]:
    found = os.stat(path)
    mode = stat.S_IMODE(found.st_mode)
    private = 0o700 if stat.S_ISDIR(found.st_mode) else 0o600
    mend = f"Run: chmod {private:o} {quote(path)}"
    if mode & 0o002:
        text = f"Everybody on this host may write {path} (mode {mode:04o}): whoever can, runs"
        yield error("permissions", f"{text} commands as the user of the workers.", mend)
    elif mode & 0o077:
        yield warning("permissions", f"Others may use {path} (mode {mode:04o}).", mend)
    if found.st_uid != os.geteuid():
        yield note(
            "permissions",
            f"{path} belongs to {user_name(found.st_uid)}, and you are {user_name(os.geteuid())}.",
            f"Run workers and commands as {user_name(found.st_uid)}.",
        )


def check_disks(places: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the space where these things are; each disk is looked at once."""
    seen: set[int] = set()
    for what, path in places.items():
        folder = _existing(path)
        device = os.stat(folder).st_dev
        if device not in seen:
            seen.add(device)
            yield _check_disk(what, folder)


def _check_disk(what: str, folder: str) -> Finding:
    total, _, free = disk_usage(folder)
    share = free / total if total else 0.0
    text = f"{_gib(free)} ({share:.0%}) is free where {what} is ({folder})."
    if free < NO_SPACE:
        full = "Free some space now: jobs can't be stored on a full disk, nor their output."
        return error("disk", text, full)
    if free < LITTLE_SPACE or share < LITTLE_SHARE:
        advice = "Free some space, or let old jobs be pruned: `queuectl config set retention 7d`."
        return warning("disk", text, advice)
    return ok("disk", text)


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _existing(path: str) -> str:
    """Return the nearest folder of a path that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


# -- tables -----------------------------------------------------------------------------


def check_version(version: int | None) -> Finding:
    """Compare the version of a schema with the one this code speaks; None is no schema."""
    known = current()
    if version is None:
        return error(
            "schema",
            "There are no tables of a queue yet, or none that this user may see.",
            "Run: queuectl db init",
        )
    if version < BASELINE:
        text = f"The schema has version {version}, from before the first release."
        return error("schema", text, "Begin with a new queue.")
    if version < known:
        text = f"The schema has version {version}; this queuectl needs {known}."
        return error("schema", text, "Run: queuectl db migrate")
    if version > known:
        text = f"The schema has version {version}; this queuectl knows only {known}."
        return error("schema", text, "Upgrade queuectl on this host.")
    return ok("schema", f"The schema has version {version}, which this queuectl speaks.")


def check_tables(store: SqlStore) -> Iterator[Finding]:
    """Look for what was begun and not finished."""
    if store.db.value(store.db.sql.UNFINISHED_COPIES):
        yield error(
            "copy",
            "A `db copy` to here was cut short: a part of the jobs is missing.",
            "Run the same `queuectl db copy` again: it goes on where it stopped.",
        )
    if old := store.db.value(store.db.sql.OLD_RECEIPTS, before=store.clock.now() - KEEP_RECEIPTS):
        yield note(
            "receipts",
            f"{_number(old, 'receipt')} older than two days; nobody tidies up.",
            "A running node drops them: start one with `queuectl worker start`.",
        )


# -- nodes and jobs ---------------------------------------------------------------------


def check_queue(store: Store, is_alive: Callable[[Node], bool]) -> Iterator[Finding]:
    """Look for nodes that are gone, and for jobs that nobody takes care of."""
    nodes = store.nodes.all()
    alive = [node for node in nodes if is_alive(node)]
    for node in nodes:
        if node not in alive:
            yield _stale(store, node)
    if strays := store.runs.held(None):
        names = ", ".join(sorted({str(job.node) for job in strays}))
        yield warning(
            "nodes",
            f"{_jobs(len(strays))} processing on nodes that aren't registered ({names}).",
            "Any running node takes them over; start one with `queuectl worker start`.",
        )
    yield from _check_alive(store, alive)
    yield from _check_paused(store)
    dead = sum(count.jobs for count in store.jobs.counts() if count.state == State.DEAD)
    if dead:
        text = f"{_jobs(dead)} in the dead letter queue."
        yield note("dead jobs", text, "See why with `queuectl dlq list`; then retry or purge them.")


def _stale(store: Store, node: Node) -> Finding:
    held = len(store.runs.held(node.id))
    return warning(
        "nodes",
        f"Node {node.id} on {node.host} (pid {node.pid}) is gone: it last showed life"
        f" {ago(store.clock.now() - node.seen_at)} ago. {_jobs(held)} processing on it.",
        "Any running node rescues its jobs; start one with `queuectl worker start`.",
    )


def _check_alive(store: Store, alive: Sequence[Node]) -> Iterator[Finding]:
    waiting = count_waiting(store.jobs.counts(), store.settings.queues())
    if not alive and waiting:
        yield note(
            "nodes",
            f"No node is running, and {_jobs(waiting)} waiting.",
            "Start one with `queuectl worker start`.",
        )
    elif alive:
        workers = sum(node.workers for node in alive)
        running = _number(len(alive), "node")
        yield ok("nodes", f"{running} running, with {workers} worker{'' if workers == 1 else 's'}.")
        serving = [node.queues for node in alive if node.stop is None]
        if unserved := count_unserved(store.jobs.counts(), serving):
            yield warning(
                "queues",
                f"{_jobs(sum(unserved.values()))} waiting in queues that no worker serves:"
                f" {', '.join(unserved)}.",
                "Start one that does: `queuectl worker start --queue NAME`.",
            )
        lacking = count_unhandled(store.runs.lines(MOST_COUNTED), serving)
        short = [handler for handler in lacking if is_short(handler, serving)]
        for found in shortages(short, serving):
            yield warning(
                "resources",
                f"{_jobs(sum(lacking[one] for one in found.handlers))} ready that can never run:"
                f" {found.text}.",
                f"Start one that has it: `queuectl worker start {having(found.handlers)}`.",
            )
        if unhandled := {one: jobs for one, jobs in lacking.items() if one not in short}:
            yield warning(
                "handlers",
                f"{_jobs(sum(unhandled.values()))} ready that no worker handles:"
                f" {', '.join(dict.fromkeys(map(told_handler, unhandled)))}.",
                "Start one that does: `queuectl worker start --exec TYPE=PROGRAM`, or"
                " `--app MODULE:QUEUE` for Python tasks.",
            )
    versions = {node.version: node for node in alive}
    if len(versions) > 1:
        named = ", ".join(f"{v} (on {node.host})" for v, node in sorted(versions.items()))
        yield warning(
            "nodes",
            f"The running nodes have different versions: {named}.",
            "Upgrade the older ones, and start them anew.",
        )


def _check_paused(store: Store) -> Iterator[Finding]:
    held = {queue.name: 0 for queue in store.settings.queues() if queue.paused_at is not None}
    for count in store.jobs.counts():
        if count.queue in held and count.state in WAITING:
            held[count.queue] += count.jobs
    for name, jobs in held.items():
        if jobs:
            yield note(
                "queues",
                f"Queue {name} is paused, and {_jobs(jobs)} waiting in it.",
                f"Go on with: queuectl resume {quote(name)}",
            )


def _jobs(count: int) -> str:
    return _number(count, "job")


def _number(count: int, noun: str) -> str:
    """Begin a sentence about so many things."""
    if count == 1:
        return f"1 {noun} is"
    return f"{count:,} {noun}s are" if count else f"No {noun} is"
