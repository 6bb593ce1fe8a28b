"""The files of the embedded store: made private, or a group's, and never on a network disk."""

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from errno import EINVAL, ENOTSUP

from queuectl.errors import StoreError, StoreMissingError
from queuectl.place import default_path
from queuectl.sharing import PRIVATE_FILE, PRIVATE_FOLDER, SHARED_FOLDER, mode_in

NETWORK = frozenset(
    "nfs nfs4 cifs smb smb2 smb3 smbfs 9p afs ceph glusterfs lustre ocfs2 gfs2 beegfs"
    " fuse.sshfs fuse.glusterfs fuse.rclone fuse.s3fs fuse.ceph".split()
)


def prepare(path: str, *, create: bool) -> bool:
    """Make sure that the database file is there, if only empty; True when it is new."""
    if _is_file(path):
        return False
    folder = os.path.dirname(path)
    ours = folder == os.path.abspath(os.path.dirname(default_path(os.environ)))
    if not ours and not os.path.isdir(folder):
        raise StoreMissingError(
            f"The folder {folder} doesn't exist; make it first, or choose another."
        )
    if not create:
        raise StoreMissingError(
            f"There is no queue at {path} yet.", advice="`queuectl enqueue` makes it."
        )
    if ours:
        _make_data_folder(folder)
    refuse_network(path)
    return create_private(path, exist_ok=True)


def _is_file(path: str) -> bool:
    """Tell whether there is a plain file; one of another kind, or of no access, is an error."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        from queuectl.store.access import denied

        raise denied(path) or error from None
    if stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{path} is a folder; name a file in it, such as {path}/queue.db.")
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(
            f"{path} isn't a plain file but a device, a pipe or a socket; name a file."
        )
    return True


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


def _make_data_folder(folder: str) -> None:
    """Make our folder in the user's data directory, and those above it."""
    above = os.path.dirname(folder)
    try:
        _make_folders(above)
        make_folder(folder)
        # Always: whoever has just made it may not have come as far as this.
        _sync_folder(above)
    except OSError as error:
        raise StoreError(f"{folder} can't be made: {error.strerror}.") from None


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


def make_folder(path: str, group: int | None = None) -> None:
    """Make a folder only its owner can enter, and this group; one that exists is left as it is."""
    try:
        os.mkdir(path, PRIVATE_FOLDER)
        os.chmod(path, PRIVATE_FOLDER)
        if group is not None:
            os.chown(path, -1, group)
            os.chmod(path, SHARED_FOLDER)
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreError(f"{path} can't be made: {error.strerror}.") from None


def create_private(path: str, *, exist_ok: bool = False) -> bool:
    """Create an empty file only its owner can read; False when it was there already."""
    return _create(path, PRIVATE_FILE, exist_ok=exist_ok)


def _create(path: str, mode: int, *, exist_ok: bool) -> bool:
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
    except FileExistsError:
        if exist_ok:
            return False
        raise StoreError(f"{path} exists already; choose another name.") from None
    except PermissionError:
        from queuectl.store.access import unmakable

        raise unmakable(path) from None
    except OSError as error:
        raise StoreError(f"{path} can't be made: {error.strerror}.") from None
    os.fchmod(fd, mode)
    os.close(fd)
    return True


def touch(folder: str, topics: Iterable[str], make: Callable[[], None]) -> None:
    """Touch the files whose touch wakes the listeners on these topics; `make` makes the folder.

    A touch only saves the listeners a moment: they notice the commit itself as well. So whatever
    keeps us from it is no reason to call a commit a failure.
    """
    for topic in topics:
        path = f"{folder}/{topic}"
        try:
            os.utime(path)
        except FileNotFoundError:
            with suppress(OSError, StoreError):
                make()
                _create(path, mode_in(folder), exist_ok=True)
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
