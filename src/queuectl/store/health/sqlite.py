"""Checks the embedded store: SQLite itself, the file, its folder and the disk below."""

import os
import re
import stat
from collections.abc import Iterator
from shlex import quote

from queuectl.sharing import group_of_file
from queuectl.store import access, files, shared
from queuectl.store.health.common import (
    Check,
    check_access,
    check_disks,
    check_tables,
    check_version,
    error,
    gather,
    note,
    ok,
    sentence,
    warning,
)
from queuectl.store.health.findings import Finding
from queuectl.store.sqlstore import SqlStore

OLDEST = (3, 51, 3)
"""Older ones can damage a database in WAL mode while it is checkpointed."""
SHOWN = 3
"""Files with wrong rights that are named one by one."""
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def check(store: SqlStore) -> list[Finding]:
    """Check a queue in an SQLite file, and its folder."""
    return gather(
        {
            "engine": lambda: _check_engine(store),
            "schema": lambda: [check_version(int(store.info()["schema_version"]))],
            "durability": lambda: _check_durability(store),
            "copy": lambda: check_tables(store),
            **_checks_of_files(str(store.path), store.db.driver.companion),
        }
    )


def check_sqlite_files(path: str) -> list[Finding]:
    """Check what can be checked about a queue that can't be opened."""
    return gather(_checks_of_files(path, path + ".d"))


def _checks_of_files(path: str, companion: str) -> dict[str, Check]:
    places = {"the queue": os.path.dirname(path), "the output of running jobs": companion}
    return {
        "filesystem": lambda: _check_filesystem(path),
        "permissions": lambda: _check_access(path, companion),
        "disk": lambda: check_disks(places),
    }


def _check_engine(store: SqlStore) -> Iterator[Finding]:
    version = str(store.info()["engine_version"])
    needed = ".".join(map(str, OLDEST))
    if tuple(int(n) for n in re.findall(r"\d+", version)[:3]) < OLDEST:
        yield error(
            "engine",
            f"SQLite {version} can damage databases in WAL mode; {needed} or newer is needed.",
            "Run: pip install --upgrade apsw",
        )
    else:
        yield ok("engine", f"SQLite {version}; {needed} or newer is needed.")


def _check_durability(store: SqlStore) -> Iterator[Finding]:
    info = store.info()
    mode, synchronous = info["journal_mode"], info["synchronous"]
    text = f"Journal mode {mode}, synchronous {synchronous}."
    if access.hindrance(str(info["path"])) is not None:
        # Who may only read it doesn't get to see how it is written.
        return
    if mode == "wal" and synchronous in ("full", "extra"):
        yield ok("durability", f"{text} A commit is on the disk when it returns.")
    else:
        yield error(
            "durability",
            f"{text} It should be wal and full.",
            "Put the file on a local disk that you may write; queuectl then sets both.",
        )


def _check_filesystem(path: str) -> Iterator[Finding]:
    kind = files.filesystem(os.path.dirname(path))
    if kind is None:
        yield note(
            "filesystem",
            "It can't be told here which filesystem the file is on.",
            "See to it that it isn't a network filesystem, where SQLite would lose data.",
        )
    elif kind in files.NETWORK:
        yield error(
            "filesystem",
            f"{path} is on a network filesystem ({kind}), where SQLite would lose data.",
            "Move it to a local disk, or use PostgreSQL or MariaDB for many hosts.",
        )
    elif kind in IN_MEMORY:
        yield warning(
            "filesystem",
            f"{path} is in memory ({kind}): it is gone when this host restarts.",
            "Move it to a disk.",
        )
    else:
        yield ok("filesystem", f"The file is on {kind}, which isn't a network filesystem.")


def _check_access(path: str, companion: str) -> Iterator[Finding]:
    gid = group_of_file(path)
    if (found := access.hindrance(path)) is not None:
        # How it should be is up to others.
        yield warning("permissions", f"{found.what}.", sentence(found.advice))
    elif gid is None:
        yield from check_access([path, path + "-wal", path + "-shm", companion])
    else:
        yield from _check_sharing(path, gid)


def _check_sharing(path: str, gid: int) -> Iterator[Finding]:
    """See whether a queue is shared with a group, and with nobody else."""
    group = access.group_name(gid)
    mend = f"Run as its owner, or as root: queuectl --db {quote(path)} db init --group {group}"
    wrong = list(shared.unshared(path, gid))
    for name in wrong[:SHOWN]:
        yield _not_shared(name, group, mend)
    if len(wrong) > SHOWN:
        yield error("permissions", f"And {len(wrong) - SHOWN} more aren't the group's.", mend)
    if (closed := shared.closed_above(path, gid)) is not None:
        yield warning(
            "permissions",
            f"The queue is shared with group {group}, but {closed} keeps its members out.",
            f"Let them enter it: chmod o+x {quote(closed)}",
        )
    if not wrong:
        yield ok(
            "permissions",
            f"The files and folders are shared with group {group} (0660 and 2770): who is in it"
            " can run commands as the user of the workers.",
        )


def _not_shared(path: str, group: str, mend: str) -> Finding:
    found = os.lstat(path)
    mode, owner = stat.S_IMODE(found.st_mode), access.user_name(found.st_uid)
    text = (
        f"The queue is shared with group {group}, but not {path}: it belongs to {owner}, group"
        f" {access.group_name(found.st_gid)} ({mode:04o})."
    )
    return error("permissions", text, mend)
