"""The files of the embedded store: made private whatever the umask, and never on a network disk."""

import os
from collections.abc import Iterable
from contextlib import suppress
from errno import EINVAL, ENOTSUP

from queuectl.errors import StoreError, StoreMissingError
from queuectl.store.contract import Topic

NETWORK = frozenset(
    "nfs nfs4 cifs smb smb2 smb3 smbfs 9p afs ceph glusterfs lustre ocfs2 gfs2 beegfs"
    " fuse.sshfs fuse.glusterfs fuse.rclone fuse.s3fs fuse.ceph".split()
)


def prepare(path: str, *, create: bool) -> None:
    """Make sure that the database file is there, if only empty."""
    if os.path.isdir(path):
        raise StoreError(f"{path} is a folder; name a file in it, such as {path}/queue.db.")
    if os.path.exists(path):
        return
    if not create:
        raise StoreMissingError(f"There is no queue at {path} yet; `queuectl enqueue` makes it.")
    _make_parent(path)
    refuse_network(path)
    create_private(path, exist_ok=True)


def is_writable(path: str) -> bool:
    """Tell whether the database, and the folder its log goes to, may be written."""
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)


def looks(path: str) -> tuple[int, int]:
    """Return when a file was changed, and its size; zeros if it isn't there."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def uri(path: str, *, immutable: bool) -> str:
    """Return the `file:` URI of a path for SQLite."""
    from urllib.parse import quote

    return f"file:{quote(path)}?mode=ro" + ("&immutable=1" if immutable else "")


def _make_parent(path: str) -> None:
    parent = os.path.dirname(path)
    if os.path.basename(parent) != "queuectl":
        if not os.path.isdir(parent):
            raise StoreError(
                f"The folder {parent} doesn't exist; make it first, or choose another."
            )
        return
    # The user's own data directory: ours to make, and private.
    above = os.path.dirname(parent)
    try:
        _make_folders(above)
        make_folder(parent)
        # Always: whoever has just made it may not have come as far as this.
        _sync_folder(above)
    except OSError as error:
        raise StoreError(f"{parent} can't be made: {error.strerror}.") from None


def _make_folders(path: str) -> None:
    """Make a folder, and those above it, so that it is there after a power loss, too."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    _make_folders(above)
    with suppress(FileExistsError):
        os.mkdir(path)
    _sync_folder(above)


def _sync_folder(path: str) -> None:
    """Have the names in a folder on the disk. SQLite does it only for the folder of its files."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        # We may use what is in it, but not list it; then we didn't make it either.
        return
    try:
        os.fsync(fd)
    except OSError as error:
        # Not every filesystem can, and those that can't have nothing to wait for.
        if error.errno not in (EINVAL, ENOTSUP):
            raise
    finally:
        os.close(fd)


def make_folder(path: str) -> None:
    """Make a folder only its owner can enter; one that exists is left as it is."""
    try:
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreError(f"{path} can't be made: {error.strerror}.") from None


def create_private(path: str, *, exist_ok: bool = False) -> bool:
    """Create an empty file only its owner can read; False when it was there already."""
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if exist_ok:
            return False
        raise StoreError(f"{path} exists already; choose another name.") from None
    except OSError as error:
        raise StoreError(f"{path} can't be made: {error.strerror}.") from None
    os.fchmod(fd, 0o600)
    os.close(fd)
    return True


def touch(folder: str, topics: Iterable[Topic]) -> None:
    """Touch the files whose touch wakes the listeners on these topics.

    A touch only saves the listeners a moment: they notice the commit itself as well. So whatever
    keeps us from it is no reason to call a commit a failure.
    """
    for topic in topics:
        path = f"{folder}/{topic}"
        try:
            os.utime(path)
        except FileNotFoundError:
            with suppress(OSError, StoreError):
                make_folder(folder)
                create_private(path, exist_ok=True)
                os.utime(path)
        except OSError:
            pass


def refuse_network(path: str) -> None:
    """Refuse filesystems on which SQLite's locks and shared memory don't work."""
    kind = filesystem(os.path.dirname(path))
    if kind in NETWORK:
        raise StoreError(
            f"{path} is on a network filesystem ({kind}), where SQLite would lose data;"
            " use a local disk."
        )


def filesystem(path: str) -> str | None:
    """Return the type of the filesystem a path is on; None where that can't be known."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return None
    path = os.path.realpath(path)
    best, kind = "", None
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind
