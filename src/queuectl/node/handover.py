"""What a node hands to the next program of its process, which it becomes at a restart in place.

The process stays: with it the pid, the guards and their sockets, and thus the runs. All else the
next program reads from the store, or from a record in a nameless file. A variable tells it the
descriptor of that file; both are gone once it is read, so no job ever sees them.
"""

import json
import os
import sys
import tempfile
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

from queuectl.guard.wire import DIALECT
from queuectl.store import migrations

RECORD = 1
"""The number of this record's layout. It goes up with every change of what is below."""
VARIABLE = "_QUEUECTL_HANDOVER"
LONGEST_NUMBER = 9
"""Digits that the number of a descriptor may have."""


def terms() -> dict[str, Any]:
    """Return what must be the same in both programs for one to go on with the runs of the other."""
    return {"record": RECORD, "wire": list(DIALECT), "schema": migrations.current()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """How a node is started again. Passwords are in `arguments` only, which no other user sees."""

    ask: tuple[str, ...]
    """The command that says whether it can: see `restart.py`."""
    start: tuple[str, ...]
    arguments: tuple[str, ...]
    daemon: bool

    def with_log(self, path: str) -> "Again":
        """Return the commands for a node that goes on with the log at this path."""
        start, arguments = (_with(("--log", path), words) for words in (self.start, self.arguments))
        return replace(self, start=start, arguments=arguments)


def _with(more: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Add options to a command; words behind -- are no options."""
    end = words.index("--") if "--" in words else len(words)
    return (*words[:end], *more, *words[end:])


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedGuard:
    """A guard: its process, the descriptor it is reached by, and what it was about to say."""

    pid: int
    link: int
    unread: str
    """In hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedRun:
    """A run that goes on. Its job is in the store, as that of run `attempt` on this node."""

    number: int
    seq: int
    attempt: int
    worker: int
    claimed: float
    prepared: list[str]


@dataclass(slots=True, kw_only=True)
class HandedStream:
    """How far a stream of a run has been shown to those who watch it."""

    at: int = 0
    """How far it is copied."""
    told: int = -1
    """Where we last said that this is all."""
    trimmed: int = 0
    """Pieces that start before this are taken away, the head apart."""
    torn: bool = False
    """Whether it was cut to pieces, so that only the end of the run can tell what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedWatch:
    """A run that somebody watches, or has watched."""

    seq: int
    attempt: int
    until: int
    """0: nobody does any more, but something of it may be in the store."""
    streams: list[HandedStream]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedNode:
    """A node that goes on: all that it has besides what is in the store."""

    node: str
    clock: int
    until: int
    """When its lease ends, in milliseconds of that clock."""
    last_run: int
    guards: list[HandedGuard]
    runs: list[HandedRun]
    watches: list[HandedWatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The record that the next program of a process finds."""

    arguments: list[str]
    daemon: bool
    """Whether the process is in the background already."""
    handed: HandedNode | None
    """None: it starts anew, as nothing was left when the program before it ended."""


def become(again: Again, handed: HandedNode | None) -> NoReturn:
    """Replace the program of this process; an `OSError` if that can't be done.

    All descriptors are closed by that, but for those of the guards that are handed over.
    """
    record = {
        "record": RECORD,
        "arguments": again.arguments,
        "daemon": again.daemon,
        "estate": None if handed is None else asdict(handed),
    }
    fd = in_memory(json.dumps(record))
    links = [guard.link for guard in handed.guards] if handed is not None else []
    try:
        for kept in (fd, *links):
            os.set_inheritable(kept, True)
        os.execve(again.start[0], again.start, {**os.environ, VARIABLE: str(fd)})
    finally:
        os.close(fd)
        for link in links:
            os.set_inheritable(link, False)


def in_memory(text: str) -> int:
    """Return the descriptor of a nameless file with this text, at its beginning."""
    if sys.platform == "linux":
        fd = os.memfd_create("queuectl")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    with open(fd, "wb", closefd=False) as whole:
        whole.write(text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def receive(environ: MutableMapping[str, str]) -> Handover | None:
    """Return what this program was handed, if it was; the next one to ask gets nothing."""
    named = environ.pop(VARIABLE, "")
    if not named.isdecimal() or len(named) > LONGEST_NUMBER:
        return None
    fd = int(named)
    try:
        with open(fd, "rb", closefd=False) as file:
            found = json.load(file) if os.fstat(fd).st_nlink == 0 else None
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.pop("record", None) != RECORD:
        # Whatever it is, it isn't ours to close.
        return None
    os.close(fd)
    handed = None if found["estate"] is None else _handed_node(found["estate"])
    for guard in handed.guards if handed is not None else ():
        os.set_inheritable(guard.link, False)
    return Handover(arguments=found["arguments"], daemon=found["daemon"], handed=handed)


def _handed_node(found: dict[str, Any]) -> HandedNode:
    return HandedNode(
        **found
        | {
            "guards": [HandedGuard(**guard) for guard in found["guards"]],
            "runs": [HandedRun(**run) for run in found["runs"]],
            "watches": [
                HandedWatch(**watch | {"streams": [HandedStream(**s) for s in watch["streams"]]})
                for watch in found["watches"]
            ],
        }
    )
