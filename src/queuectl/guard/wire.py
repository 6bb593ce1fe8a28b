"""Frames between a node and its guard: four bytes of length, then a marshalled list of messages.

A message is a tuple whose first item says what it is. Both ends are the same interpreter, or speak
the same `DIALECT`, so `marshal` fits: it is fast, needs no import, and carries any text or bytes.

    node to guard
        ("spawn", run, spec)                start it; the keys of `spec` are in `spawn.py`
        ("withdraw", run)                   don't start it, unless it has been started
        ("stop", run, how)                  SIGTERM to all of it, SIGKILL when its grace is over
        ("kill", run, how)                  SIGKILL to all of it
        ("lease", clock, deadline)          kill every run when that clock gets there; None: never
        ("board", path, boards, first)      keep there what each worker runs; see `board.py`
    guard to node
        ("ready", pid)
        ("ended", run, status, how, started, ended, out_bytes, err_bytes)
        ("withdrawn", run)                  it wasn't started, and won't be: as was asked for, or
                                            because the lease was over
        ("not_started", run, errno, text)   for a reason that lies with the job
        ("unable", run, errno, text)        this host can't start anything now
        ("trouble", run, text)              it can't be ended; said again while that lasts

`ended` comes when no process of the run is left. `status` is the wait status of its main process;
`how` is "exited", "timeout", "lease" or the word of the stop or kill; the times are monotonic. A
run that was stopped before it started never ran: then both times are equal.
"""

import marshal

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Message = tuple[Any, ...]

DIALECT = (1, marshal.version)
"""What both ends must speak alike. The first number goes up with every change of a message: a node
that is restarted in place may be of another release than the guards that it goes on with."""

_PER_FRAME = 64  # Keeps a frame of very long commands to a few megabytes.


def encode(messages: "Sequence[Message]") -> bytes:
    """Turn messages into frames."""
    frames = bytearray()
    for first in range(0, len(messages), _PER_FRAME):
        body = marshal.dumps(list(messages[first : first + _PER_FRAME]))
        frames += len(body).to_bytes(4, "little")
        frames += body
    return bytes(frames)


class Decoder:
    """Turns what arrives, cut anywhere, back into messages."""

    __slots__ = ("_buffer",)

    def __init__(self, unread: bytes = b"") -> None:
        self._buffer = bytearray(unread)

    @property
    def unread(self) -> bytes:
        """The beginning of a message whose end hasn't arrived."""
        return bytes(self._buffer)

    def feed(self, chunk: bytes) -> "list[Message]":
        """Take bytes in and return the messages that are now complete."""
        buffer = self._buffer
        buffer += chunk
        messages: list[Message] = []
        at = 0
        while len(buffer) - at >= 4:
            end = at + 4 + int.from_bytes(buffer[at : at + 4], "little")
            if end > len(buffer):
                break
            with memoryview(buffer) as view, view[at + 4 : end] as body:
                messages += marshal.loads(body)
            at = end
        del buffer[:at]
        return messages
