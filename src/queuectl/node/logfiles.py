"""The logs of nodes in the background: a file for each, beside the queue, kept for a while."""

import fcntl
import os
import re
from contextlib import suppress
from time import time

from queuectl.queue import Queue
from queuectl.sharing import group_of
from queuectl.store.files import make_folder

MOST_LEFT = 100
"""Logs of nodes that are gone: when there are more, the oldest go."""
_NAME = re.compile(r"([a-z0-9]+\.log)(\.[0-9]+)?")


def log_of(queue: Queue, node: str) -> str:
    """Return where a node of this host keeps its log, unless it is told to write another file."""
    return os.path.join(_folder(queue), f"{node}.log")


def make_folders(queue: Queue) -> None:
    """Make the folder for the logs of this host, for those who may use the queue."""
    companion = os.path.dirname(queue.store.folder.make_spool())
    make_folder(_folder(queue), group_of(companion))


def _folder(queue: Queue) -> str:
    return os.path.join(queue.folder, "logs")


def sweep(queue: Queue, age: int) -> None:
    """Delete logs of nodes that are gone and wrote nothing for so many milliseconds.

    Of more than `MOST_LEFT` the oldest go in any case. With an age of 0 all are kept.
    """
    folder = _folder(queue)
    if not age:
        return
    logs = _logs_in(folder)
    by_age = sorted(logs, key=lambda name: -logs[name][0])
    before = time() - age / 1000
    for place, name in enumerate(by_age):
        written, files = logs[name]
        if written < before or place >= MOST_LEFT:
            _remove(os.path.join(folder, name), [os.path.join(folder, file) for file in files])


def _logs_in(folder: str) -> dict[str, tuple[float, list[str]]]:
    """Return the logs by name: when each was last written to, and its files, rotated ones too."""
    logs: dict[str, tuple[float, list[str]]] = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if match := _NAME.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    written = entry.stat(follow_symlinks=False).st_mtime
                    newest, files = logs.get(match[1], (0.0, []))
                    logs[match[1]] = max(newest, written), [*files, entry.name]
    return logs


def _remove(log: str, files: list[str]) -> None:
    """Delete a log, unless somebody writes it: that is who holds a lock on it."""
    # What belongs to another user is theirs to tidy.
    with suppress(PermissionError):
        try:
            fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            fd = -1
        try:
            if fd >= 0:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for file in files:
                os.unlink(file)
        except (BlockingIOError, FileNotFoundError):
            return
        finally:
            if fd >= 0:
                os.close(fd)
