"""Why somebody may not use the files of a queue: whose they are, who asks, and what to do."""

import os
import stat
from typing import NamedTuple

from queuectl.errors import StoreDeniedError, StoreError, StoreReadOnlyError
from queuectl.sharing import group_of, group_of_file


def user_name(uid: int) -> str:
    """Return the name of a user of this host."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def group_name(gid: int) -> str:
    """Return the name of a group of this host, or its number."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


class Hindrance(NamedTuple):
    """What keeps us from using a database, and what helps."""

    what: str
    advice: str
    readable: bool = False
    """Whether it can be read all the same."""


def hindrance(path: str) -> Hindrance | None:
    """Return what keeps us from using the database at a path, if that is a matter of rights."""
    folder = os.path.dirname(path)
    try:
        os.stat(path)
    except PermissionError:
        return _hidden(path)
    except OSError:
        return None
    me = _me()
    if not os.access(path, os.R_OK):
        what = f"You ({me}) may not read {path}, which {_belongs(path)}"
        return Hindrance(what, _advice(path, path))
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        what = f"{path} is on a filesystem that can only be read"
        return Hindrance(what, "mount it for writing, or copy the file elsewhere", readable=True)
    if not os.access(path, os.W_OK):
        what = f"You ({me}) may read {path}, but not write it: it {_belongs(path)}"
        return Hindrance(what, _advice(path, path), readable=True)
    if not os.access(folder, os.W_OK):
        what = f"You ({me}) may not write to {folder}, where SQLite keeps its log: it "
        return Hindrance(what + _belongs(folder), _advice(folder, path), readable=True)
    return None


def denied(path: str) -> StoreError | None:
    """Return the error that says what keeps us from using a database, if it is our rights."""
    found = hindrance(path)
    if found is None:
        return None
    if found.readable:
        advice = f"{found.advice}. Nothing was changed."
        return StoreReadOnlyError(f"{found.what}.", advice=advice)
    return StoreDeniedError(f"{found.what}.", advice=f"{found.advice}.")


def unmakable(path: str) -> StoreDeniedError:
    """Say that nothing can be made in a folder."""
    folder = os.path.dirname(path)
    return StoreDeniedError(
        f"{path} can't be made: you ({_me()}) may not write to {folder}, which {_belongs(folder)}.",
        advice="choose another place with --db.",
    )


def _hidden(path: str) -> Hindrance:
    """Say which folder on the way to a file can't be entered."""
    folder = os.path.dirname(path)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    what = f"You ({_me()}) may not enter {folder}, which {_belongs(folder)}"
    return Hindrance(what, _advice(folder, path))


def _me() -> str:
    return user_name(os.geteuid())


def _belongs(path: str) -> str:
    found = os.stat(path)
    mode = stat.S_IMODE(found.st_mode)
    return f"belongs to {user_name(found.st_uid)} (group {group_name(found.st_gid)}, {mode:04o})"


def _advice(wrong: str, path: str) -> str:
    """Say what helps where a file or folder keeps us from using the database at a path."""
    owner = os.stat(wrong).st_uid
    if owner == os.geteuid():
        from shlex import quote

        more = "700" if os.path.isdir(wrong) else "600"
        return f"run: chmod {more} {quote(wrong)}"
    who = user_name(owner)
    other = f"act as {who} (sudo -u {who} queuectl ...)"
    gid = group_of_file(path) if os.path.exists(path) else group_of(wrong)
    if gid is not None and gid not in {os.getegid(), *os.getgroups()}:
        return f"{other}, or become a member of the group {group_name(gid)}, and log in anew"
    return f"{other}, or have the queue shared (queuectl db init --group NAME)"
