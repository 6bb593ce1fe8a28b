"""A node's log: one line per fact, for people or as JSON, to the terminal and a rotated file.

Lines are gathered and written once per turn of the node's loop. Losing the terminal, a reader that
stalls, or a full disk under the log file, never stops a job.
"""

import fcntl
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, Protocol

from queuectl.job import Job
from queuectl.node.console import Console
from queuectl.sharing import mode_in
from queuectl.when import iso, local

STDERR = 2
REPEAT_AFTER = 10_000
"""Milliseconds before the same trouble is told again."""


class Say(Protocol):
    """Says something about the node in its log."""

    def __call__(self, text: str, *, level: str = "info") -> None:
        """Say it, now."""


class Log:
    """A node's log. It gathers lines until `flush`."""

    def __init__(self, *, node: str, as_json: bool, to_terminal: bool = True) -> None:
        """Say what this node does; `to_terminal` is off for a daemon."""
        self.node = node
        self.as_json = as_json
        self._terminal = Console(sys.stderr) if to_terminal else None
        self._file: RotatingFile | None = None
        self._lines: list[str] = []
        self._said: dict[str, int] = {}
        self._second, self._written = -1, ""

    def open_file(self, path: str, *, size: int, keep: int) -> None:
        """Write to a file as well."""
        self._file = RotatingFile(path, size=size, keep=keep)

    def reopen(self) -> None:
        """Open the file anew: whoever has moved it away wants another one in its place."""
        self.flush()
        if self._file is not None:
            self._file.reopen()

    def limit(self, *, size: int, keep: int) -> None:
        """Rotate at another size, and keep another number of old files."""
        if self._file is not None:
            self._file.size, self._file.keep = size, keep

    def say(self, now: int, text: str, *, level: str = "info", **facts: Any) -> None:
        """Say something about the node. Trouble that lasts is not repeated with every try."""
        if level != "info" and now - self._said.get(text, -REPEAT_AFTER) < REPEAT_AFTER:
            return
        self._said = {said: at for said, at in self._said.items() if now - at < REPEAT_AFTER}
        self._said[text] = now
        self._add(now, level, text, facts)

    def job(
        self,
        now: int,
        event: str,
        job: Job,
        text: str = "",
        *,
        level: str = "info",
        own: bool = True,
        **facts: Any,
    ) -> None:
        """Say something about a job: `event` is what happened, `text` the rest of the line.

        `own` is off for a job that no worker of this node has.
        """
        if self.as_json:
            runs = {"attempt": job.attempts, "max_attempts": job.max_attempts}
            worker = job.worker if own else None
            about = {"event": event, "job": job.id, "worker": worker, **runs}
            self._add(now, level, text, about | {"command": job.title} | facts)
            return
        who = f"worker {job.worker}: " if own else ""
        self._add(now, level, f"{who}job {printable(job.id)} {event}{text}", {})

    def _add(self, now: int, level: str, text: str, facts: dict[str, Any]) -> None:
        if self.as_json:
            line = {"at": iso(now), "level": level, "node": self.node, **facts}
            if text:
                line["message"] = text.strip(" :;,")
            self._lines.append(json.dumps(line))
        else:
            mark = "" if level == "info" else f" {level.upper()}:"
            self._lines.append(f"{self._stamp(now)} {self.node}{mark} {text}")

    def _stamp(self, now: int) -> str:
        """Write a time; many lines fall into the same second."""
        second = now // 1000
        if second != self._second:
            self._second, self._written = second, local(now)
        return self._written

    def flush(self) -> None:
        """Write what was gathered."""
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        if self._terminal is not None:
            try:
                self._terminal.write(text)
            except OSError:
                self._terminal = None
        if self._file is not None and text:
            self._file.write(text)

    def close(self) -> None:
        """Write the last of it, for whoever still reads."""
        self.flush()
        if self._terminal is not None:
            with suppress(OSError):
                self._terminal.close()


class RotatingFile:
    """A private file that starts anew at a size; old ones are kept as `.1`, `.2`, ...

    Several nodes may write one. As long as somebody does, that file is locked (shared).
    """

    def __init__(self, path: str, *, size: int, keep: int) -> None:
        """Append to `path`, whatever is there already."""
        self._path = os.path.abspath(path)
        self.size = size
        self.keep = keep
        self._fd = self._open()

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        mode = mode_in(os.path.dirname(os.path.abspath(self._path)))
        fd = os.open(self._path, flags, mode)
        status = os.fstat(fd)
        # A device or a pipe is neither ours to lock up nor to rotate.
        self._plain = stat.S_ISREG(status.st_mode)
        if self._plain and stat.S_IMODE(status.st_mode) != mode:
            os.fchmod(fd, mode)
        if self._plain:
            with suppress(OSError):  # some network filesystems can't
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._written = status.st_size
        return fd

    def write(self, text: str) -> None:
        """Append, rotating first where the text would not fit."""
        try:
            self._write(text.encode("utf-8", "replace"))
        except OSError:
            # A full disk, a folder that is gone: the line is lost, the jobs it speaks of are not.
            return

    def _write(self, data: bytes) -> None:
        if self._plain and self._was_rotated():
            self._reopen()
        if self._plain and self._written and self._written + len(data) > self.size:
            self._rotate()
        self._written += os.write(self._fd, data)

    def reopen(self) -> None:
        """Open the file of this name, which may be another one by now; or go on with the old."""
        with suppress(OSError):
            self._reopen()

    def _reopen(self) -> None:
        new = self._open()
        if os.path.sameopenfile(self._fd, STDERR):
            # A daemon's: what goes wrong unforeseen is said there.
            os.dup2(new, STDERR)
        os.close(self._fd)
        self._fd = new

    def _was_rotated(self) -> bool:
        """Tell whether another node, or somebody by hand, has moved the file away."""
        mine = os.fstat(self._fd)
        self._written = mine.st_size
        try:
            there = os.stat(self._path)
        except OSError:
            return True
        return (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino)

    def _rotate(self) -> None:
        """Start anew, unless another node does it just now: until that is done, this one grows."""
        with _first_in(os.path.dirname(self._path)) as first:
            if first:
                if not self._was_rotated():
                    self._move_on()
                self._reopen()

    def _move_on(self) -> None:
        names = [self._path, *(f"{self._path}.{n}" for n in range(1, self.keep + 1))]
        for newer, older in reversed(list(pairwise(names))):
            if os.path.exists(newer):
                os.replace(newer, older)
        if not self.keep and os.path.exists(self._path):
            os.unlink(self._path)


@contextmanager
def _first_in(folder: str) -> Iterator[bool]:
    """Tell whether nobody else moves logs in a folder, and keep others from it meanwhile."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # a folder that can be used but not read; the check still helps
        yield True
        return
    try:
        first = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            first = False
        except OSError:  # some network filesystems can't
            pass
        yield first
    finally:
        os.close(handle)


def printable(text: str, longest: int = 200) -> str:
    """Make text safe for one line of a terminal: control characters are escaped, the rest cut."""
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
