"""Whose output is where in the spool of a node, its folder for what its runs write.

While a run goes on, it writes to the files of its worker, if its guard keeps such. When it is
over, what it wrote has its own name, until it is in the store.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from queuectl.guard.board import last_of
from queuectl.guard.files import worker_files
from queuectl.guard.output import open_spool
from queuectl.job import Job


def token_of(job: Job) -> str:
    """Name one run of one job on one node."""
    return f"{job.node}.{job.seq}.{job.attempts}"


def own_files(spool: str, job: Job) -> tuple[str, str]:
    """Return the files that have the name of a run."""
    base = f"{spool}/{job.seq}.{job.attempts}"
    return base + ".out", base + ".err"


def result_file(spool: str, job: Job) -> str:
    """Return the file in which a run may tell its result; only the run makes it."""
    return f"{spool}/{job.seq}.{job.attempts}.result"


def sleep_file(spool: str, job: Job) -> str:
    """Return the file that says that a run may have its job sleep; only the run makes it."""
    return f"{spool}/{job.seq}.{job.attempts}.sleep"


def progress_folder(spool: str) -> str:
    """Return the folder in which runs may tell how far they have come."""
    return f"{spool}/progress"


def progress_file(spool: str, job: Job) -> str:
    """Return the file in which one of them does; only the run makes it."""
    return f"{progress_folder(spool)}/{job.seq}.{job.attempts}"


def files_of(spool: str, job: Job) -> tuple[str, str]:
    """Return the files that a run writes to."""
    return own_files(spool, job) if _inodes(spool, job) is None else _worker_files(spool, job)


def open_stream(spool: str, job: Job, stream: int) -> int | None:
    """Open what a run writes to stream 0 (stdout) or 1 (stderr), or wrote before it was stored.

    None when it isn't there, or can't be read.
    """
    # The second time, if it ended and got its name just now.
    for _ in range(2):
        fd = open_spool(own_files(spool, job)[stream])
        if fd is not None:
            return fd
        fd = open_spool(_worker_files(spool, job)[stream]) if _inodes(spool, job) else None
        if fd is not None and _has(spool, job, stream, os.fstat(fd)):
            # As long as we have it open, it passes on to nobody else.
            return fd
        if fd is not None:
            os.close(fd)
    return None


def name_left(spool: str, jobs: Iterable[Job]) -> None:
    """Give what was written by runs whose guard is gone the names of these runs."""
    for job in jobs:
        if _inodes(spool, job) is None:
            continue
        pairs = zip(_worker_files(spool, job), own_files(spool, job), strict=True)
        for stream, (path, own) in enumerate(pairs):
            # What can't be named is missed like output that was removed.
            with suppress(OSError):
                if _has(spool, job, stream, os.stat(path, follow_symlinks=False)):
                    os.rename(path, own)


def _worker_files(spool: str, job: Job) -> tuple[str, str]:
    return worker_files(spool, job.worker or 0)


def _has(spool: str, job: Job, stream: int, file: os.stat_result) -> bool:
    """Tell whether a file is the one that its worker has for this run."""
    inodes = _inodes(spool, job)
    return inodes is not None and file.st_ino == inodes[stream]


def _inodes(spool: str, job: Job) -> tuple[int, int] | None:
    """Return which files of its worker a run has; None when it has none of them (any more)."""
    last = last_of(spool, job.worker or 0)
    if last is None or last.token != token_of(job) or not all(last.inodes):
        return None
    return last.inodes
