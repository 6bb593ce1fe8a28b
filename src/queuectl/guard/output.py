"""What jobs write: bounded while they run, collected afterwards.

A job writes straight into its spool files, so no pipe can hang anybody and output outlives a
crash. Of a stream longer than its limit the first and the last half are kept. The guard frees the
blocks between them while the job still writes (`Spools`); the node reads the two ends afterwards
(`collect`); whoever shows them marks the gap (`render`).
"""

import errno
import os
import stat
import sys
from collections import deque
from functools import cache
from heapq import heappop, heappush
from math import inf

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from ctypes import CDLL

BLOCK = 4096
STEP = 1 << 20
"""Growth that is worth a hole: a file takes about this much more than its limit, at rest."""

FIRST_LOOK = 0.025
SOONEST = 0.002
LATEST = 0.05
"""Seconds until the first look at a new file, and the least and most between two looks."""

QUIET = 0.05
"""Seconds without growth after which the kernel is asked to tell of the next write."""

PER_LOOK = 4 << 20
"""How far a file may grow between two looks at it, at the rate it had before."""

_BY_CLOCK = -1
"""Instead of a watch of the kernel's: it is looked at again and again."""
_NOBODY = -2
"""Its run is over."""

_IN_MODIFY = 0x2
_IN_ONESHOT = 0x80000000
_PUNCH_HOLE_KEEP_SIZE = 0x2 | 0x1

# A job can put anything in the place of its spool file: a link isn't followed, a pipe isn't
# waited for.
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Captured(tuple[bytes, int]):
    """The kept part of a stream, and how many bytes the stream had in all."""

    __slots__ = ()

    def __new__(cls, data: bytes, total: int) -> "Captured":
        """Make one."""
        return super().__new__(cls, (data, total))

    @property
    def data(self) -> bytes:
        """The kept part."""
        return self[0]

    @property
    def total(self) -> int:
        """The length of the whole stream."""
        return self[1]


def halves(limit: int) -> tuple[int, int]:
    """Return how many bytes to keep of the head and of the tail of a stream."""
    return limit - limit // 2, limit // 2


def gap_at(length: int) -> int:
    """Return after how many bytes of the kept data the gap is, if something is missing."""
    return length - length // 2


def collect(path: str, limit: int, total: int = 0) -> Captured:
    """Read the head and the tail of a spool file; a missing file is an empty one.

    `total` is what the guard counted. It is more than the size of the file only where the
    filesystem can't free the middle of a file, so that it had to be cut out.
    """
    try:
        fd = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return Captured(b"", total)
    try:
        info = os.fstat(fd)
        size = info.st_size if stat.S_ISREG(info.st_mode) else 0
        if size >= STEP:
            limit = min(limit, _left_of(fd, size))
        if size <= limit:
            data = _read_at(fd, 0, size)
        else:
            head, tail = halves(limit)
            data = _read_at(fd, 0, head) + _read_at(fd, size - tail, tail)
    finally:
        os.close(fd)
    return Captured(data, max(total, size))


def _left_of(fd: int, size: int) -> int:
    """Return how much can be kept of a file of which the guard may have freed the middle.

    The limit was maybe lower when its run began than it is now.
    """
    begin, head = _extent(fd, 0, size)
    if begin > 0 or head >= size:
        return size
    begin, end = _extent(fd, head, size)
    while end < size:
        begin, end = _extent(fd, end, size)
    return min(2 * head, 2 * (size - begin) + 1)


def render(data: bytes, total: int) -> bytes:
    """Return kept data for people to read, with a line where something was left out."""
    missing = total - len(data)
    if missing <= 0:
        return data
    gap = gap_at(len(data))
    head, tail = data[:gap], data[gap:]
    line_end = b"" if not head or head.endswith(b"\n") else b"\n"
    return head + line_end + b"[... %s bytes left out ...]\n" % f"{missing:,}".encode() + tail


def _read_at(fd: int, offset: int, length: int) -> bytes:
    chunks = []
    while length > 0 and (chunk := os.pread(fd, length, offset)):
        chunks.append(chunk)
        offset += len(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def open_spool(path: str) -> int | None:
    """Open a spool file that may still be written; None when it isn't there, or can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def read_on(fd: int, offset: int, most: int) -> tuple[int, bytes]:
    """Read on in a spool file: where the next bytes are, behind a gap if there is one, and they.

    No bytes mean that there are none yet.
    """
    while piece := os.pread(fd, most, offset):
        # Looked for only now: what is freed after it was read was still read right.
        data_at, hole_at = _extent(fd, offset, most)
        if data_at <= offset:
            return offset, piece[: hole_at - offset]
        offset = data_at
    return offset, b""


def _extent(fd: int, offset: int, most: int) -> tuple[int, int]:
    """Return where the next bytes that are really there begin, and where they end."""
    try:
        data = os.lseek(fd, offset, os.SEEK_DATA)
        return data, os.lseek(fd, data, os.SEEK_HOLE)
    except OSError:  # Nothing but a hole up to the end, or a filesystem that has none.
        return offset, offset + most


class Spool:
    """One stream of one run while it is written."""

    __slots__ = (
        "cut",
        "interval",
        "kept",
        "limit",
        "looked",
        "moved",
        "path",
        "size",
        "trimmed",
        "watch",
    )

    def __init__(self, path: str, limit: int, now: float) -> None:
        self.path = path
        self.limit = limit
        self.size = 0
        self.trimmed = limit
        """The size of the file when its middle was freed last."""
        self.looked = now
        self.moved = now
        """When growth was seen last."""
        self.interval = FIRST_LOOK
        self.cut = 0
        """How many bytes were cut out, where the middle can't be freed in place."""
        self.kept = b""
        """The last bytes of what was cut out: the tail may have to begin in them."""
        self.watch = _BY_CLOCK
        """Who tells of writes to it."""

    def look(self, now: float) -> bool:
        """See how far the file has grown, keep it bounded, and choose when to look again.

        False means that the job removed its own output, so that nothing can be bounded.
        """
        try:
            size = os.stat(self.path, follow_symlinks=False).st_size
            self._note(size, now)
            if size < self.trimmed:
                self.trimmed = max(size, self.limit)
            elif size - self.trimmed >= STEP:
                self.trim()
        except OSError:
            return False
        return True

    def _note(self, size: int, now: float) -> None:
        grown = size - self.size
        if grown:
            self.moved = now
        rate = max(grown, 0) / max(now - self.looked, 1e-4)
        fitting = PER_LOOK / rate if rate else LATEST
        self.interval = max(SOONEST, min(fitting, 2 * self.interval, LATEST))
        self.looked = now
        self.size = size

    def trim(self) -> None:
        """Free the blocks between head and tail."""
        fd = os.open(self.path, os.O_RDWR | _SAFELY)
        try:
            size = os.fstat(fd).st_size
            head, tail = halves(self.limit)
            begin = -(-head // BLOCK) * BLOCK
            end = (size - tail) // BLOCK * BLOCK
            if self.cut or not _punch(fd, begin, end - begin):
                self._cut_out(fd, size)
            else:
                self.trimmed = size
        finally:
            os.close(fd)

    def _cut_out(self, fd: int, size: int) -> None:
        """Keep the last bytes in memory and truncate to the head, where no hole can be made.

        What the job writes between the reading and the truncation is lost and not counted.
        """
        head, tail = halves(self.limit)
        if size < 2 * self.limit:
            return
        self.kept = (
            (self.kept + _read_at(fd, max(head, size - tail), tail))[-tail:] if tail else b""
        )
        size = os.fstat(fd).st_size
        os.ftruncate(fd, head)
        self.cut += size - head
        self.size = self.trimmed = head

    def finish(self) -> int:
        """Leave head and tail in the file of a run that is over; return how much was written."""
        try:
            size = os.stat(self.path, follow_symlinks=False).st_size
            if size - self.trimmed >= STEP:
                self.trim()
            if self.cut:
                size = self._mend()
        except OSError:
            size = self.size
        return size + self.cut

    def _mend(self) -> int:
        """Put the tail together from what was kept in memory and what came after it."""
        head, tail = halves(self.limit)
        fd = os.open(self.path, os.O_RDWR | _SAFELY)
        try:
            size = os.fstat(fd).st_size
            rest = (self.kept + _read_at(fd, head, size - head))[-tail:] if tail else b""
            os.ftruncate(fd, head)
            os.pwrite(fd, rest, head)
        finally:
            os.close(fd)
        return size


class Spools:
    """Watches the spools of all runs and keeps each within its limit.

    A spool that grows is looked at again and again, the sooner the faster it grows. One that is
    quiet is soon handed to inotify and costs nothing until it is written to again. Short runs never
    get that far, so they pay for neither.
    """

    __slots__ = ("_heap", "_inotify", "_new", "_serial", "_watches")

    def __init__(self) -> None:
        self._new: deque[Spool] = deque()
        """Those that nobody has looked at yet, the oldest first."""
        self._heap: list[tuple[float, int, Spool]] = []
        self._serial = 0
        self._watches: dict[int, Spool] = {}
        self._inotify = _Inotify()

    def fileno(self) -> int:
        """Return the descriptor that wakes up when a quiet spool is written to, or -1."""
        return self._inotify.fd

    def add(self, path: str, limit: int, now: float) -> Spool:
        """Begin to watch a spool that is about to be written."""
        spool = Spool(path, limit, now)
        self._new.append(spool)
        return spool

    def remove(self, spool: Spool) -> int:
        """Stop watching a spool; return how much was written to it."""
        if spool.watch >= 0:
            self._watches.pop(spool.watch, None)
            self._inotify.forget(spool.watch)
        spool.watch = _NOBODY
        return spool.finish()

    def due(self) -> float:
        """Return when `look` is wanted next."""
        known = self._heap[0][0] if self._heap else inf
        return min(known, self._new[0].looked + FIRST_LOOK) if self._new else known

    def look(self, now: float) -> None:
        """Look at every spool whose time has come."""
        heap, new = self._heap, self._new
        while new and new[0].looked + FIRST_LOOK <= now:
            self._look_at(new.popleft(), now)
        while heap and heap[0][0] <= now:
            self._look_at(heappop(heap)[2], now)

    def _look_at(self, spool: Spool, now: float) -> None:
        if spool.watch == _NOBODY or not spool.look(now):
            return
        if now - spool.moved < QUIET or not self._watch(spool, now):
            self._push(spool, now)

    def wake(self, now: float) -> None:
        """Look again at those quiet spools that were written to."""
        for watch in self._inotify.events():
            spool = self._watches.pop(watch, None)
            if spool is not None:
                spool.watch = _BY_CLOCK
                spool.looked = spool.moved = now
                spool.interval = 0.0
                self._push(spool, now)

    def _watch(self, spool: Spool, now: float) -> bool:
        watch = self._inotify.watch(spool.path)
        if watch < 0:
            return False
        # What was written before the watch was set gives no event.
        if spool.look(now) and spool.moved == now:
            self._inotify.forget(watch)
            return False
        spool.watch = watch
        self._watches[watch] = spool
        return True

    def _push(self, spool: Spool, now: float) -> None:
        self._serial += 1
        heappush(self._heap, (now + spool.interval, self._serial, spool))


class _Inotify:
    """Tells of the next write to a file, once; without inotify every call is refused."""

    __slots__ = ("_libc", "fd")

    def __init__(self) -> None:
        self._libc = _libc()
        try:
            self.fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            self.fd = -1

    def watch(self, path: str) -> int:
        if self.fd < 0:
            return -1
        mask = _IN_MODIFY | _IN_ONESHOT
        return int(self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask))

    def forget(self, watch: int) -> None:
        self._libc.inotify_rm_watch(self.fd, watch)

    def events(self) -> list[int]:
        """Return the watches that fired; each of them is spent."""
        try:
            raw = os.read(self.fd, 65536)
        except BlockingIOError:
            return []
        # A watch on a file gives events without a name: 16 bytes, its number in the first four.
        return [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw), 16)]


@cache
def _libc() -> "CDLL":
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _punch(fd: int, offset: int, length: int) -> bool:
    """Free these blocks of a file without changing its size; False where that isn't supported."""
    if length <= 0:
        return True
    import ctypes

    fallocate = getattr(_libc(), "fallocate64", None) or getattr(_libc(), "fallocate", None)
    if fallocate is None:
        return False
    span = ctypes.c_int64(offset), ctypes.c_int64(length)
    if fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, *span) == 0:
        return True
    # Any other failure may pass; then the next growth tries again.
    return ctypes.get_errno() not in (errno.EOPNOTSUPP, errno.ENOSYS)
