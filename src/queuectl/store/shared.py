"""Shares a queue in a file with a group of this host, and sees whether it still is.

Who is in the group may do with it what its owner may. Members make files there, too: SQLite its
log, nodes their output. These have the group because their folders are set-group-ID, and the
rights because SQLite gives its log those of the database, and we (`sharing`) what we make those of
the folder. That is why the folder of the database must be shared as well, and be its own.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from queuectl.errors import StateError, StoreDeniedError, UsageError, shown
from queuectl.sharing import SHARED_FILE, SHARED_FOLDER
from queuectl.store import file_of
from queuectl.store.access import group_name, user_name

ONLY_FILES_ARE_SHARED = (
    "Only a queue in a file is shared with a group; on a server, grant rights to its users."
)
BESIDE = ("", "-wal", "-shm", "-journal", ".d")
"""What belongs to a database in its folder, by what is added to its name."""
OURS = ("queuectl.toml", "servers")
"""What else may be in a folder of queuectl's own."""


LARGEST_GROUP = 2**32 - 2
"""The one above means "leave it as it is" to the kernel."""


def find_group(name: str) -> int:
    """Return the id of a group by its name or number."""
    import grp

    try:
        if not (name.isascii() and name.isdecimal()):
            return grp.getgrnam(name).gr_gid
        # A huge number is none, and takes Python long to read.
        if len(name) <= len(str(LARGEST_GROUP)) and int(name) <= LARGEST_GROUP:
            return int(name)
        raise UsageError(f"A group can't have the number {shown(name)}.")
    except (KeyError, ValueError):
        raise UsageError(
            f"There is no group {name!r} on this host.", advice="root makes one with groupadd."
        ) from None


def check_sharing(url: str, group: str) -> None:
    """Raise why a queue that may not be there yet couldn't be shared with a group."""
    path, gid = file_of(url), find_group(group)
    if path is None:
        raise UsageError(ONLY_FILES_ARE_SHARED)
    _check_folder(path, gid)


def _check_folder(path: str, gid: int) -> None:
    """Refuse to share a database whose folder has other things in it, and isn't the group's."""
    folder = os.path.dirname(path)
    # One that isn't there will be made for it alone.
    if not os.path.isdir(folder) or _is_right_folder(os.stat(folder), gid):
        return
    base = os.path.basename(path)
    known = {*(base + ending for ending in BESIDE), *OURS}
    others = sorted(name for name in os.listdir(folder) if name not in known)
    if others:
        raise StateError(
            f"{folder} holds other things too ({others[0]}), and what a group is to share must lie"
            " in a folder that is the group's; put the database into one of its own."
        )


def share(path: str, gid: int) -> None:
    """Give the files and folders of a database to a group, with all rights; mends what isn't so."""
    _check_folder(path, gid)
    folder = os.path.dirname(path)
    if not _is_right_folder(os.stat(folder), gid):
        _give(folder, gid)
    for name in _files(path):
        with suppress(FileNotFoundError):
            if not _is_right(os.lstat(name), gid):
                _give(name, gid)


def unshared(path: str, gid: int) -> Iterator[str]:
    """Yield what of a database that is shared with a group isn't as it should be."""
    folder = os.path.dirname(path)
    if not _is_right_folder(os.stat(folder), gid):
        yield folder
    for name in _files(path):
        with suppress(FileNotFoundError):
            if not _is_right(os.lstat(name), gid):
                yield name


def closed_above(path: str, gid: int) -> str | None:
    """Return a folder on the way to a database that keeps the members of a group out, if any."""
    folder = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    while True:
        found = os.stat(folder)
        if not found.st_mode & (0o010 if found.st_gid == gid else 0o001):
            return folder
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)


def _files(path: str) -> Iterator[str]:
    """Yield the files of a database, and all that is in its folder, which comes first."""
    companion = path + ".d"
    yield from (path + ending for ending in BESIDE)
    for above, folders, names in os.walk(companion):
        for name in (*folders, *names):
            yield os.path.join(above, name)


def _is_right(found: os.stat_result, gid: int) -> bool:
    if stat.S_ISLNK(found.st_mode):
        return True
    wanted = SHARED_FOLDER if stat.S_ISDIR(found.st_mode) else SHARED_FILE
    return found.st_gid == gid and stat.S_IMODE(found.st_mode) == wanted


def _is_right_folder(found: os.stat_result, gid: int) -> bool:
    """Tell whether what is made in a folder is the group's; others may do there what they may."""
    return found.st_gid == gid and stat.S_IMODE(found.st_mode) & 0o3070 == 0o2070


def _give(path: str, gid: int) -> None:
    mode = SHARED_FOLDER if os.path.isdir(path) else SHARED_FILE
    try:
        os.chown(path, -1, gid)
        os.chmod(path, mode)
    except PermissionError:
        raise _cannot_give(path, gid) from None


def _cannot_give(path: str, gid: int) -> StoreDeniedError:
    me, owner = os.geteuid(), os.stat(path).st_uid
    if owner != me:
        who = user_name(owner)
        return StoreDeniedError(
            f"{path} belongs to {who}, so only {who} and root can share it; run it as one of them."
        )
    group, who = group_name(gid), user_name(me)
    return StoreDeniedError(
        f"You ({who}) aren't in the group {group}, so you can't give it files.",
        advice=f"have root add you (usermod -aG {group} {who}) and log in anew, or act as root.",
    )
