"""How far runs say that they have come: from the files in which they do, into the store.

A run that tells it makes a file in a folder of its own. That folder is looked into with the round
that a node makes every second, so that runs which tell nothing cost nothing, and a run that tells
much is written about once a second at most.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from queuectl.facts import RunProgress
from queuectl.job import Job
from queuectl.node.runs import Run
from queuectl.spool import progress_folder
from queuectl.store.contract import Store
from queuectl.telling import read_progress

LONGEST_LINE = 4096
"""Bytes of the end of a file in which its last line must be."""


class ProgressWatch:
    """Takes what runs tell of their progress into the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, int]] = {}
        """By the names of the files, how they were when we last read them."""

    def look(self, spool: str, running: Iterable[Run]) -> None:
        """Take over what is new; what runs left that are over is removed."""
        folder = progress_folder(spool)
        try:
            names = os.listdir(folder)
        except OSError:
            return
        if not names and not self._known:
            return
        runs = {_name(run.job): run for run in running}
        self._known = {name: seen for name, seen in self._known.items() if name in names}
        told: list[tuple[Job, RunProgress]] = []
        seen: dict[str, tuple[int, int]] = {}
        for name in names:
            path = os.path.join(folder, name)
            if name not in runs:
                # A run that is over; or a folder, or whatever else somebody put there.
                with suppress(OSError):
                    os.unlink(path)
            elif (news := _read(path, self._known.get(name))) is not None:
                seen[name], line = news
                told.append((runs[name].job, self._told(runs[name].job, line)))
        if told:
            self._store.reports.set_progress(*told)
        self._known |= seen

    def _told(self, job: Job, line: str) -> RunProgress:
        percent, note = read_progress(line)
        at = self._store.clock.now()
        return RunProgress(seq=job.seq, number=job.attempts, percent=percent, note=note, at=at)


def _name(job: Job) -> str:
    return f"{job.seq}.{job.attempts}"


def _read(path: str, known: tuple[int, int] | None) -> tuple[tuple[int, int], str] | None:
    """Return how a file is now, and its last line, unless it is as it was or can't be read."""
    try:
        # Whatever it is, it must not keep us waiting.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        state = found.st_size, found.st_mtime_ns
        if state == known:
            return None
        data = os.pread(fd, LONGEST_LINE, max(0, found.st_size - LONGEST_LINE))
    except OSError:
        return None
    finally:
        os.close(fd)
    # A line of which the end isn't there yet is no news; without any, it is all there is.
    whole = data[: data.rfind(b"\n")] if b"\n" in data else data
    lines = [line for line in whole.decode("utf-8", "replace").splitlines() if line.strip()]
    return (state, lines[-1]) if lines else None
