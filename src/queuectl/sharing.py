"""Who may use the files of a queue: their owner alone or, if it is shared, a group as well.

A folder of mode 2770 is shared: what is made in it has its group, as the kernel sees to, and gets
the rights of that group here, whatever the umask. Anything else is private.
"""

import os
import stat

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
SHARED_FILE, SHARED_FOLDER = 0o660, 0o2770


def group_of(folder: str) -> int | None:
    """Return the group that a folder is shared with; None if it is private, or isn't there."""
    return _group_by(SHARED_FOLDER, folder)


def group_of_file(path: str) -> int | None:
    """Return the group that a file is shared with; None if it isn't, or isn't there."""
    return _group_by(SHARED_FILE, path)


def _group_by(mode: int, path: str) -> int | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_gid if stat.S_IMODE(found.st_mode) == mode else None


def mode_in(folder: str) -> int:
    """Return the mode of a file that is made in a folder."""
    return PRIVATE_FILE if group_of(folder) is None else SHARED_FILE
